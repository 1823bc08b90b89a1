//! Stores the quotient maplets of `alluvium_filters` in a store's nodes. A maplet tells which runs
//! of a pivot may contain a given key.
//!
//! *Scope*: where each page of a maplet is stored; concurrent lookups in all maplets on a path;
//! writing maplets, and merging them without their keys.
//!
//! *Must not depend on*: keys, the meaning of a value to the tree, when a maplet is built, merged
//! or dropped, the references to its extents.
//!
//! Each page of a maplet is a node of its own, with the size of a store page. One writer writes all
//! pages in order and then the directory, which lists the extents and each page's checksum. Opening
//! a maplet reads the directory into memory, which takes 8 bytes per page (one 500th of the
//! maplet). A lookup needs only one read, because the fingerprint determines the page. This is the
//! routing structure of SplinterDB (Conway et al., *Mapped SplinterDB*, SIGMOD 2023).
//!
//! Invariants:
//!
//! - **Q1** A maplet contains each pair of fingerprint and value once, even if several keys or
//!   sources have it. Its pages therefore depend only on the set of pairs and on the geometry.
//! - **Q2** A lookup finds every value that was added for a fingerprint, unless a merge has dropped
//!   or rewritten the value.
//! - **Q3** The directory has the checksum of each page, and the pointer to the directory has the
//!   checksum of the directory.
//! - **Q4** Abandoning a maplet before it is complete frees all its extents and removes its pages
//!   from the cache.

mod check;
mod distinct;
pub mod format;
mod lookup;
mod merge;
mod pages;
mod run_fingerprints;
#[cfg(all(test, not(alluvium_model_check)))]
mod tests;
mod write;

pub use check::MapletViolation;
pub(crate) use distinct::different_keys;
pub use lookup::{MapletAnswers, MapletHits, lookup_path};
pub(crate) use lookup::{PathPages, PathVec, probe_path};
pub use merge::{MapletMergeProgress, MapletMerger, MapletSource};
pub(crate) use pages::MapletEntryIter;
pub use write::WrittenMaplet;

use alluvium_base::Purpose;
use alluvium_dictionary::read::DataFiles;
use alluvium_filters as filters;
use alluvium_filters::FilterGeometry;
use alluvium_storage::extents::{AllocationClass, Extent};
use alluvium_storage::node::read_node;
use alluvium_storage::store::Store;
use alluvium_storage::{Error, NodeCache, NodeCodec, NodePointer, Result, TierFiles};
use format::{MapletBody, MapletExtent, MapletRoot};
use std::sync::Arc;

/// Options for writing a tree's maplets.
///
/// ```
/// use alluvium_base::Purpose;
/// use alluvium_storage::extents::AllocationClass;
/// use alluvium_trees::maplet::MapletSpec;
/// let (purpose, class) = (Purpose::Compact, AllocationClass::Normal);
/// let spec = MapletSpec { fingerprint_bits: 36, purpose, class, tier: 0 };
/// // A path of 16 maplets with 10⁶ fingerprints each: less than one false read in 4,000 lookups.
/// assert!(16.0 * 1e6 / f64::from(spec.fingerprint_bits).exp2() < 1.0 / 4000.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapletSpec {
    /// Length of a fingerprint in bits, from 8 to 48. All maplets of a tree use the same length,
    /// because a merge cannot lengthen fingerprints. A maplet with `n` fingerprints has a false
    /// positive rate of `n / 2^bits`.
    pub fingerprint_bits: u8,
    /// The I/O purpose for writing the maplet, and for reading the maplets that are merged into it.
    pub purpose: Purpose,
    /// The space class of the maplet's extents, which determines whether they may use the space
    /// reserve.
    pub class: AllocationClass,
    /// The storage tier of the maplet.
    pub tier: u8,
}

/// An open maplet, whose directory is in memory. All clones share the directory.
///
/// A maplet does not count as a reference to its extents. As with any node, a reader must have
/// pinned a guard before the maplet was unlinked from the tree.
#[derive(Clone, Debug)]
pub struct Maplet {
    shared: Arc<MapletDirectory>,
}

/// The directory of an open maplet, with the locations and checksums of its pages.
#[derive(Debug)]
struct MapletDirectory {
    pointer: NodePointer,
    root: MapletRoot,
    body: MapletBody,
    /// For each extent with pages of the maplet: the number of the first page in the extent, and
    /// the offset of that page in the tier's file.
    places: Box<[(u32, u64)]>,
}

impl Maplet {
    /// Writes the maplet of a run. `hashes` contains the hashes of the run's keys
    /// ([`alluvium_filters::hash`]) in any order. All of them get the same `value`.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the fingerprint length does not suit this number of hashes;
    /// [`Error::Full`]; I/O errors.
    pub fn build(store: &Store, spec: &MapletSpec, hashes: Vec<u64>, value: u16) -> Result<WrittenMaplet> {
        let mut merger = MapletMerger::new(store, spec, Vec::new(), Some((hashes, value)))?;
        loop {
            if let MapletMergeProgress::Done(written) = merger.step(usize::MAX)? {
                return Ok(written);
            }
        }
    }

    /// Opens the maplet whose directory is at `pointer`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if there is no valid directory at `pointer`; I/O errors.
    pub fn open(store: &Store, pointer: &NodePointer, purpose: Purpose) -> Result<Maplet> {
        Self::open_from(DataFiles::of(store), pointer, purpose)
    }

    /// Like [`Maplet::open`], but reads data files directly, so that the store need not be open.
    ///
    /// # Errors
    /// The errors of [`Maplet::open`].
    pub(crate) fn open_from(files: DataFiles<'_>, pointer: &NodePointer, purpose: Purpose) -> Result<Maplet> {
        let DataFiles { tiers, page_size } = files;
        let node = read_node(tiers, pointer, page_size, purpose)?;
        let root = MapletRoot::decode(&node, pointer, page_size)?;
        let body = if root.parts.is_empty() {
            root.body_in(&node, pointer)?
        } else {
            let mut bytes = Vec::new();
            for part in &root.parts {
                bytes.extend_from_slice(&read_node(tiers, part, page_size, purpose)?);
            }
            MapletBody::decode(&bytes, &root, &pointer.place())?
        };
        Ok(Maplet::of(*pointer, root, body))
    }

    fn of(pointer: NodePointer, root: MapletRoot, body: MapletBody) -> Maplet {
        let mut first = 0;
        let mut places = Vec::with_capacity(root.stretches.len());
        for stretch in root.stretches.iter().filter(|stretch| stretch.pages > 0) {
            places.push((first, stretch.extent.offset()));
            first += stretch.pages;
        }
        let places = places.into();
        Maplet {
            shared: Arc::new(MapletDirectory {
                pointer,
                root,
                body,
                places,
            }),
        }
    }

    /// Returns the pointer to the directory, which is needed to open the maplet again.
    #[must_use]
    pub fn pointer(&self) -> &NodePointer {
        &self.shared.pointer
    }

    /// Returns the maplet's extents, each with its number of live bytes. They contain no other
    /// data.
    pub fn extents(&self) -> impl Iterator<Item = (Extent, u64)> + '_ {
        let stretches = self.shared.root.stretches.iter();
        stretches.map(|stretch| (stretch.extent, stretch.live_bytes))
    }

    /// Returns the number of pairs of fingerprint and value.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.shared.root.entries
    }

    /// Returns the number of distinct fingerprints. It is lower than the number of entries if
    /// several runs contain the same key.
    #[must_use]
    pub fn fingerprints(&self) -> u64 {
        let (entries, repeats) = (self.shared.root.entries, u64::from(self.shared.root.repeats));
        assert!(repeats <= entries, "each repeat is an entry");
        entries - repeats
    }

    /// Returns each value with the number of fingerprints that have it, in ascending order of
    /// values.
    #[must_use]
    pub fn values(&self) -> &[(u16, u64)] {
        &self.shared.body.values
    }

    /// Returns the maplet's size on the device in bytes, including the directory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.extents().map(|(_, live)| live).sum()
    }

    /// Returns the memory that the open maplet uses in bytes, not counting its cached pages.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let MapletDirectory {
            root, body, places, ..
        } = &*self.shared;
        let lists = size_of_val(&root.stretches[..])
            + size_of_val(&root.parts[..])
            + size_of_val(&body.values[..])
            + size_of_val(&body.checksums[..])
            + size_of_val(&places[..]);
        (lists + size_of::<MapletDirectory>()) as u64
    }

    /// Returns the geometry, which determines the page of each fingerprint.
    #[must_use]
    pub fn geometry(&self) -> &FilterGeometry {
        &self.shared.root.geometry
    }

    /// Returns the pointer to the page that decides whether the maplet contains a key, so that the
    /// caller can load the page into the cache before the lookup. `hash` is the hash of the key.
    #[must_use]
    pub fn page(&self, hash: u64) -> NodePointer {
        let geometry = self.geometry();
        self.page_pointer(geometry.page_of(geometry.fingerprint(hash)))
            .expect("a fingerprint's page is one of the geometry's, and the directory has them all")
    }

    /// Removes an unlinked maplet's pages from the cache, so that their frames become free early.
    pub fn forget(&self, cache: &NodeCache) {
        for number in 0..self.shared.root.pages {
            if let Some(pointer) = self.page_pointer(number) {
                cache.discard(&pointer);
            }
        }
    }

    /// Returns the pointer to page `number`, or `None` if there is no such page.
    fn page_pointer(&self, number: u32) -> Option<NodePointer> {
        let MapletDirectory {
            pointer,
            root,
            body,
            places,
        } = &*self.shared;
        let &checksum = body.checksums.get(number as usize)?;
        let place = places.partition_point(|&(first, _)| first <= number);
        let &(first, offset) = places.get(place.checked_sub(1)?)?;
        let page_bytes = root.geometry.page_bytes();
        debug_assert!(first <= number && number < root.pages, "page {number}");
        Some(NodePointer {
            offset: offset + u64::from(number - first) * u64::from(page_bytes),
            birth: pointer.birth,
            checksum,
            encoded_len: page_bytes,
            tier: pointer.tier,
            pages: 1,
            codec: NodeCodec::None,
        })
    }

    /// Returns the pointer to a page whose number was read from another page. An invalid number is
    /// an error.
    fn named_page(&self, number: u32) -> Result<NodePointer> {
        self.page_pointer(number).ok_or_else(|| {
            let expected = format!("a page below {}", self.shared.root.pages);
            Error::corrupt(self.pointer().place(), expected, format!("page {number}"))
        })
    }

    /// Converts an error that `alluvium_filters` reports about a page to an error of the store.
    fn damaged(&self, number: u32, error: &filters::Error) -> Error {
        let place = self
            .page_pointer(number)
            .map_or(self.pointer().place(), |page| page.place());
        Error::corrupt(place, "a page of a maplet", error.to_string())
    }
}

impl MapletExtent {
    /// Returns the offset, within the tier, of the page at index `number` in this extent.
    fn offset_of(&self, number: u32, page_bytes: u64) -> u64 {
        self.extent.offset() + u64::from(number) * page_bytes
    }
}

/// Returns the device of the storage tier on which a maplet is stored.
fn device_of(tiers: &TierFiles, pointer: &NodePointer) -> Result<Arc<dyn alluvium_device::Device>> {
    Ok(Arc::clone(tiers.get(pointer.tier)?))
}

//! The quotient maplet of `alluvium_filters`, stored in nodes of a store. It determines which runs
//! of a pivot may hold a key.
//!
//! *Scope*: the location of each page of a maplet, lookups in all maplets of a path together,
//! writing and merging maplets without their keys.
//!
//! *Must not depend on*: keys, the meaning of a value to the tree, when a maplet is built, merged
//! or dropped, the references to its extents.
//!
//! A page of a maplet is a page of the store and a separate node. One writer writes the pages in
//! order, followed by the directory, which lists the extents and the checksum of each page. Opening
//! a maplet reads the directory, which stays in memory at 8 bytes per page (one 500th). A lookup is
//! a single read, because the fingerprint determines the location of its page. This is SplinterDB's
//! routing structure (Conway et al., *Mapped SplinterDB*, SIGMOD 2023).
//!
//! Invariants:
//!
//! - **Q1** A maplet holds each (fingerprint, value) pair once, regardless of the number of keys or
//!   sources with it. Its pages therefore depend only on the set of pairs and the geometry.
//! - **Q2** A lookup finds every value added for a fingerprint, until that value is dropped or
//!   rewritten.
//! - **Q3** The directory verifies every page, and its pointer verifies the directory.
//! - **Q4** An unfinished maplet leaves nothing behind: no extent, and no page in the cache.

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

/// Options for writing the maplets of a tree.
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
    /// Fingerprint length in bits: 8 to 48. It is the same for all maplets of a tree, because a
    /// merge cannot lengthen fingerprints. A maplet of `n` fingerprints has a false positive rate
    /// of `n / 2^bits`.
    pub fingerprint_bits: u8,
    /// Purpose of its writes, and of its reads of other maplets.
    pub purpose: Purpose,
    /// Space class: whether its extents may come from the reserve.
    pub class: AllocationClass,
    /// The tier for the maplet.
    pub tier: u8,
}

/// An open maplet with its directory in memory. Clones share the directory.
///
/// It holds no reference counts on its extents. A reader must hold a guard that it pinned before
/// the maplet was unlinked, as for any node.
#[derive(Clone, Debug)]
pub struct Maplet {
    shared: Arc<MapletDirectory>,
}

/// The directory of an open maplet: where its pages are, and their checksums.
#[derive(Debug)]
struct MapletDirectory {
    pointer: NodePointer,
    root: MapletRoot,
    body: MapletBody,
    /// For each extent with pages: the number of its first page, and the page's offset in the
    /// tier's file.
    places: Box<[(u32, u64)]>,
}

impl Maplet {
    /// Writes the maplet of a run, given the `hashes` of its keys ([`alluvium_filters::hash`], in
    /// any order), all with the same `value`.
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
    /// [`Error::Corrupt`] if there is no valid directory; I/O errors.
    pub fn open(store: &Store, pointer: &NodePointer, purpose: Purpose) -> Result<Maplet> {
        Self::open_from(DataFiles::of(store), pointer, purpose)
    }

    /// Like [`Maplet::open`]; the store need not be open.
    ///
    /// # Errors
    /// See [`Maplet::open`].
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

    /// Returns the pointer to the directory, with which the maplet can be opened again.
    #[must_use]
    pub fn pointer(&self) -> &NodePointer {
        &self.shared.pointer
    }

    /// Returns the extents of the maplet with their live bytes. They contain nothing else.
    pub fn extents(&self) -> impl Iterator<Item = (Extent, u64)> + '_ {
        let stretches = self.shared.root.stretches.iter();
        stretches.map(|stretch| (stretch.extent, stretch.live_bytes))
    }

    /// Returns the number of (fingerprint, value) pairs.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.shared.root.entries
    }

    /// Returns the number of distinct fingerprints. It is lower than the number of entries if
    /// several runs hold the same key.
    #[must_use]
    pub fn fingerprints(&self) -> u64 {
        let (entries, repeats) = (self.shared.root.entries, u64::from(self.shared.root.repeats));
        assert!(repeats <= entries, "each repeat is an entry");
        entries - repeats
    }

    /// Returns each value with its number of fingerprints, in ascending order.
    #[must_use]
    pub fn values(&self) -> &[(u16, u64)] {
        &self.shared.body.values
    }

    /// Returns the size on the device in bytes, including the directory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.extents().map(|(_, live)| live).sum()
    }

    /// Returns the memory of the open maplet in bytes, excluding its pages in the cache.
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

    /// Returns the geometry of the pages.
    #[must_use]
    pub fn geometry(&self) -> &FilterGeometry {
        &self.shared.root.geometry
    }

    /// Returns the page for a key, given its hash, so that the page can be loaded into the cache
    /// before it is asked.
    #[must_use]
    pub fn page(&self, hash: u64) -> NodePointer {
        let geometry = self.geometry();
        self.page_pointer(geometry.page_of(geometry.fingerprint(hash)))
            .expect("a fingerprint's page is one of the geometry's, and the directory has them all")
    }

    /// Removes the pages of an unlinked maplet from the cache, which frees their frames earlier.
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

    /// Like `page_pointer`, for a page number that was read from another page.
    fn named_page(&self, number: u32) -> Result<NodePointer> {
        self.page_pointer(number).ok_or_else(|| {
            let expected = format!("a page below {}", self.shared.root.pages);
            Error::corrupt(self.pointer().place(), expected, format!("page {number}"))
        })
    }

    /// Converts an error of the filter about a page to an error of the store.
    fn damaged(&self, number: u32, error: &filters::Error) -> Error {
        let place = self
            .page_pointer(number)
            .map_or(self.pointer().place(), |page| page.place());
        Error::corrupt(place, "a page of a maplet", error.to_string())
    }
}

impl MapletExtent {
    /// Returns the offset of page `number` of this extent.
    fn offset_of(&self, number: u32, page_bytes: u64) -> u64 {
        self.extent.offset() + u64::from(number) * page_bytes
    }
}

/// Returns the file of a maplet's tier.
fn device_of(tiers: &TierFiles, pointer: &NodePointer) -> Result<Arc<dyn alluvium_device::Device>> {
    Ok(Arc::clone(tiers.get(pointer.tier)?))
}

//! The quotient maplet of `alluvium_filters` in nodes of a store: which runs of a pivot may hold a
//! key.
//!
//! *Knows*: where each page of a maplet is, how a path of maplets is asked at once, how maplets are
//! written and merged without their keys.
//!
//! *Does not know*: keys, what a value means to the tree, when a maplet is built, merged or
//! dropped, who refers to its extents.
//!
//! *Read in this order*: this file (a maplet that is open), `lookup.rs`, `pages.rs` (reading in
//! sequence), `merge.rs` (merging in steps), `distinct.rs` (counting), `fresh.rs` (fingerprints
//! that come from a run), `write.rs` (pages and directory), `format.rs`, `check.rs`.
//!
//! A page of a maplet is a page of the store, a node of its own. The pages are written in their
//! order by one writer; behind them lies the directory, which names the extents and has a checksum
//! for each page. It is read when the maplet is opened and stays in memory, at 8 bytes for a page
//! (one 500th), so that a lookup is one read: the page's place follows from the fingerprint. That
//! is SplinterDB's routing structure (Conway et al., *Mapped SplinterDB*, SIGMOD 2023).
//!
//! Invariants:
//!
//! - **Q1** A maplet holds each (fingerprint, value) once, however many keys or sources it came
//!   from. So its pages depend on the set of pairs and the geometry alone.
//! - **Q2** Whatever was put in under a value is found under it, until that value is dropped or
//!   rewritten.
//! - **Q3** Every page is verified by the directory, the directory by its pointer.
//! - **Q4** What is not finished leaves nothing behind: no extent, and no page in the cache.

mod check;
mod distinct;
pub mod format;
mod fresh;
mod lookup;
mod merge;
mod pages;
#[cfg(all(test, not(alluvium_model_check)))]
mod tests;
mod write;

pub use check::Violation;
pub(crate) use distinct::different_keys;
pub use lookup::{Answers, Hits, lookup_path};
pub(crate) use lookup::{Pages, Path, probe_path};
pub use merge::{Merger, Progress, Source};
pub(crate) use pages::Reading;
pub use write::Written;

use alluvium_base::Purpose;
use alluvium_dictionary::read::Files;
use alluvium_filters as filters;
use alluvium_filters::Geometry;
use alluvium_storage::extents::{Class, Extent};
use alluvium_storage::node::read_node;
use alluvium_storage::store::Store;
use alluvium_storage::{Cache, Codec, Error, NodePointer, Result, Tiers};
use format::{Body, Root, Stretch};
use std::sync::Arc;

/// How maplets of a tree are written.
///
/// ```
/// use alluvium_base::Purpose;
/// use alluvium_storage::extents::Class;
/// use alluvium_trees::maplet::MapletSpec;
/// let spec = MapletSpec { fingerprint_bits: 36, purpose: Purpose::Compact, class: Class::Normal, tier: 0 };
/// // A path of 16 maplets with 10⁶ fingerprints each: less than one false read in 4,000 lookups.
/// assert!(16.0 * 1e6 / f64::from(spec.fingerprint_bits).exp2() < 1.0 / 4000.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapletSpec {
    /// Bits of a fingerprint: 8 to 48, one number for a tree, so that merging never lengthens one.
    /// A maplet of `n` fingerprints answers for a stranger with probability `n / 2^bits`.
    pub fingerprint_bits: u8,
    /// What its reads of other maplets and its writes are for.
    pub purpose: Purpose,
    /// Whether its extents may come from the reserve.
    pub class: Class,
    /// The tier that it is written to.
    pub tier: u8,
}

/// A maplet that is open: its directory, in memory. Clones share it.
///
/// It refers to its extents without counting: a reader holds a guard since before the maplet was
/// unlinked, as for any node.
#[derive(Clone, Debug)]
pub struct Maplet {
    shared: Arc<Shared>,
}

/// A directory in memory.
#[derive(Debug)]
struct Shared {
    pointer: NodePointer,
    root: Root,
    body: Body,
    /// For each extent that has pages: the number of its first page, and where it is in the tier's
    /// file.
    places: Box<[(u32, u64)]>,
}

impl Maplet {
    /// Writes the maplet of a run: `hashes` of its keys ([`alluvium_filters::hash`], in any order),
    /// all under one `value`.
    ///
    /// # Errors
    /// [`Error::BadOption`] when the fingerprints are too short or too long for this number of
    /// hashes; [`Error::Full`]; as the device says.
    pub fn build(store: &Store, spec: &MapletSpec, hashes: Vec<u64>, value: u16) -> Result<Written> {
        let mut merger = Merger::new(store, spec, Vec::new(), Some((hashes, value)))?;
        loop {
            if let Progress::Done(written) = merger.step(usize::MAX)? {
                return Ok(written);
            }
        }
    }

    /// Opens the maplet whose directory is at `pointer`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when what is there is no directory; as the device says.
    pub fn open(store: &Store, pointer: &NodePointer, purpose: Purpose) -> Result<Maplet> {
        Self::open_from(Files::of(store), pointer, purpose)
    }

    /// As [`Maplet::open`], whether or not the store is open.
    ///
    /// # Errors
    /// As [`Maplet::open`].
    pub(crate) fn open_from(files: Files<'_>, pointer: &NodePointer, purpose: Purpose) -> Result<Maplet> {
        let Files { tiers, page_size } = files;
        let node = read_node(tiers, pointer, page_size, purpose)?;
        let root = Root::decode(&node, pointer, page_size)?;
        let body = if root.parts.is_empty() {
            root.body_in(&node, pointer)?
        } else {
            let mut bytes = Vec::new();
            for part in &root.parts {
                bytes.extend_from_slice(&read_node(tiers, part, page_size, purpose)?);
            }
            Body::decode(&bytes, &root, &pointer.place())?
        };
        Ok(Maplet::of(*pointer, root, body))
    }

    fn of(pointer: NodePointer, root: Root, body: Body) -> Maplet {
        let mut first = 0;
        let mut places = Vec::with_capacity(root.stretches.len());
        for stretch in root.stretches.iter().filter(|stretch| stretch.pages > 0) {
            places.push((first, stretch.extent.offset()));
            first += stretch.pages;
        }
        let places = places.into();
        Maplet {
            shared: Arc::new(Shared {
                pointer,
                root,
                body,
                places,
            }),
        }
    }

    /// Returns where the directory is: what to keep to open the maplet again.
    #[must_use]
    pub fn pointer(&self) -> &NodePointer {
        &self.shared.pointer
    }

    /// Returns the extents that hold it, each with its live bytes. Nothing else is in them.
    pub fn extents(&self) -> impl Iterator<Item = (Extent, u64)> + '_ {
        let stretches = self.shared.root.stretches.iter();
        stretches.map(|stretch| (stretch.extent, stretch.live_bytes))
    }

    /// Returns how many (fingerprint, value) pairs there are.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.shared.root.entries
    }

    /// Returns how many different fingerprints its entries have: fewer than entries where several
    /// runs hold one key.
    #[must_use]
    pub fn fingerprints(&self) -> u64 {
        let (entries, repeats) = (self.shared.root.entries, u64::from(self.shared.root.repeats));
        assert!(repeats <= entries, "each repeat is an entry");
        entries - repeats
    }

    /// Each value with the number of its fingerprints, in rising order.
    #[must_use]
    pub fn values(&self) -> &[(u16, u64)] {
        &self.shared.body.values
    }

    /// Returns the bytes on the device, the directory's included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.extents().map(|(_, live)| live).sum()
    }

    /// Returns the bytes of memory that an open maplet takes beside its pages in the cache.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let Shared {
            root, body, places, ..
        } = &*self.shared;
        let lists = size_of_val(&root.stretches[..])
            + size_of_val(&root.parts[..])
            + size_of_val(&body.values[..])
            + size_of_val(&body.checksums[..])
            + size_of_val(&places[..]);
        (lists + size_of::<Shared>()) as u64
    }

    /// Returns the shape of its pages.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.shared.root.geometry
    }

    /// Returns the page that knows of a key, by the key's hash: for a reader that wants it in the
    /// cache before it is asked.
    #[must_use]
    pub fn page(&self, hash: u64) -> NodePointer {
        let geometry = self.geometry();
        self.page_pointer(geometry.page_of(geometry.fingerprint(hash)))
            .expect("a fingerprint's page is one of the geometry's, and the directory has them all")
    }

    /// Drops its pages from the cache once it is unlinked: their frames are free sooner.
    pub fn forget(&self, cache: &Cache) {
        for number in 0..self.shared.root.pages {
            if let Some(pointer) = self.page_pointer(number) {
                cache.forget(&pointer);
            }
        }
    }

    /// Returns the pointer to page `number`; none when there is no such page.
    fn page_pointer(&self, number: u32) -> Option<NodePointer> {
        let Shared {
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
            codec: Codec::None,
        })
    }

    /// The same, of a number that a page's bytes have named.
    fn named_page(&self, number: u32) -> Result<NodePointer> {
        self.page_pointer(number).ok_or_else(|| {
            let expected = format!("a page below {}", self.shared.root.pages);
            Error::corrupt(self.pointer().place(), expected, format!("page {number}"))
        })
    }

    /// Returns what a filter says of a page, as an error of the store.
    fn damaged(&self, number: u32, error: &filters::Error) -> Error {
        let place = self
            .page_pointer(number)
            .map_or(self.pointer().place(), |page| page.place());
        Error::corrupt(place, "a page of a maplet", error.to_string())
    }
}

impl Stretch {
    /// Returns where page `number` of this extent's is.
    fn offset_of(&self, number: u32, page_bytes: u64) -> u64 {
        self.extent.offset() + u64::from(number) * page_bytes
    }
}

/// Returns the file of a maplet's tier.
fn device_of(tiers: &Tiers, pointer: &NodePointer) -> Result<Arc<dyn alluvium_device::Device>> {
    Ok(Arc::clone(tiers.get(pointer.tier)?))
}

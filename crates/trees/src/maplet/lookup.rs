//! Lookups in a single maplet, or in all maplets of a path at once.

use super::Maplet;
use alluvium_base::Purpose;
use alluvium_dictionary::fetch::{BlockingFetch, NodeFetch, unwrap_ready};
use alluvium_filters::{Fingerprint, PageLookup, PageView, SpillView};
use alluvium_storage::{EpochGuard, NodeCache, NodePointer, NodeRef, Result};
use smallvec::SmallVec;
use std::ops::Deref;
use std::task::{Poll, ready};

/// Number of values that a [`MapletHits`] stores without allocating memory.
const INLINE: usize = 8;
/// Number of maplets on a path whose pages are accessed at the same time.
const GROUP: usize = 16;

/// Data for each maplet on a path. It is on the stack unless the path is unusually long.
pub(crate) type PathVec<T> = SmallVec<[T; GROUP]>;

/// The results of a lookup in one or more maplets.
pub type MapletAnswers = SmallVec<[MapletHits; 1]>;

/// The values that a maplet has for a key's fingerprint, from the highest (newest) to the lowest.
/// They include all values of the key, and possibly values of other keys with the same fingerprint.
#[derive(Clone, Debug, Default)]
pub struct MapletHits {
    first: [u16; INLINE],
    len: usize,
    /// All values if they are too many for `first`; otherwise empty.
    all: Vec<u16>,
}

impl MapletHits {
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[u16] {
        debug_assert!(
            self.len <= INLINE || self.all.len() == self.len,
            "all hits are in one place"
        );
        if self.len <= INLINE {
            &self.first[..self.len]
        } else {
            &self.all
        }
    }

    #[inline]
    fn push(&mut self, value: u16) {
        if self.len < INLINE {
            self.first[self.len] = value;
        } else {
            if self.len == INLINE {
                self.all.extend_from_slice(&self.first);
            }
            self.all.push(value);
            debug_assert_eq!(self.all.len(), self.len + 1, "all hits are in one place");
        }
        self.len += 1;
    }

    pub(crate) fn set(&mut self, values: impl Iterator<Item = u16>) {
        self.clear();
        values.for_each(|value| self.push(value));
    }

    fn clear(&mut self) {
        self.len = 0;
        self.all.clear();
    }
}

impl Deref for MapletHits {
    type Target = [u16];
    #[inline]
    fn deref(&self) -> &[u16] {
        self.as_slice()
    }
}

impl Maplet {
    /// Returns the values for the fingerprint of a key. `hash` is the hash of the key. Reads one
    /// page if it is not cached. About one in several thousand lookups reads another page, which
    /// has spilled records.
    ///
    /// # Errors
    /// [`alluvium_storage::Error::Corrupt`] if a page does not match the directory; I/O errors.
    ///
    /// # Panics
    /// If the guard was not pinned in the epochs that the cache uses.
    pub fn lookup(&self, hash: u64, cache: &NodeCache, guard: &EpochGuard) -> Result<MapletHits> {
        let mut hits = MapletHits::default();
        let fetch = blocking(cache, guard);
        let node = unwrap_ready(fetch.index_page(&self.page(hash)))?;
        unwrap_ready(self.read(&node, hash, &fetch, &mut hits))?;
        Ok(hits)
    }

    /// Replaces the contents of `hits` by the values that `page` has for a key. `page` must be the
    /// page for the key's hash.
    #[inline]
    pub(crate) fn collect_hits(
        &self,
        page: &[u8],
        hash: u64,
        fetch: &impl NodeFetch,
        hits: &mut MapletHits,
    ) -> Poll<Result<()>> {
        hits.clear();
        self.read(page, hash, fetch, hits)
    }

    #[inline]
    fn read(
        &self,
        page: &[u8],
        hash: u64,
        fetch: &impl NodeFetch,
        hits: &mut MapletHits,
    ) -> Poll<Result<()>> {
        let geometry = self.geometry();
        let fingerprint = geometry.fingerprint(hash);
        let view = PageView::new(geometry, page)
            .map_err(|error| self.damaged(geometry.page_of(fingerprint), &error))?;
        match view.lookup(fingerprint) {
            PageLookup::InPage(values) => {
                values.for_each(|value| hits.push(value));
                Poll::Ready(Ok(()))
            }
            PageLookup::Spilled => self.read_spilled(view.spilled(), fingerprint, fetch, hits),
        }
    }

    #[cold]
    fn read_spilled(
        &self,
        records: (u32, u32),
        fingerprint: Fingerprint,
        fetch: &impl NodeFetch,
        hits: &mut MapletHits,
    ) -> Poll<Result<()>> {
        for number in self.geometry().spill_pages(records) {
            let node = ready!(fetch.index_page(&self.named_page(number)?))?;
            let view = SpillView::new(self.geometry(), &node, number)
                .map_err(|error| self.damaged(number, &error))?;
            view.lookup(fingerprint, records)
                .for_each(|value| hits.push(value));
        }
        Poll::Ready(Ok(()))
    }
}

/// Looks up a key in every maplet on a path. `out` receives one [`MapletHits`] per maplet, in the
/// same order. All pages that are not cached are read concurrently, so a lookup waits for the
/// device at most once. If all pages are cached and `out` has been used before, the lookup does not
/// allocate memory.
///
/// # Errors
/// The errors of [`Maplet::lookup`]. After an error the contents of `out` are unspecified.
///
/// # Panics
/// If the guard was not pinned in the epochs that the cache uses.
pub fn lookup_path(
    maplets: &[&Maplet],
    hash: u64,
    cache: &NodeCache,
    guard: &EpochGuard,
    out: &mut MapletAnswers,
) -> Result<()> {
    unwrap_ready(probe_path(maplets, hash, &blocking(cache, guard), out))
}

fn blocking<'g>(cache: &'g NodeCache, guard: &'g EpochGuard) -> BlockingFetch<'g> {
    BlockingFetch {
        cache,
        guard,
        purpose: Purpose::Lookup,
    }
}

/// The pages of a path's maplets that a lookup must search, obtained in several steps. A batched
/// reader runs each step for all keys before the next step, so that the prefetches for one key
/// overlap with the work on other keys.
#[derive(Default)]
pub(crate) struct PathPages<'f> {
    pointers: PathVec<NodePointer>,
    nodes: PathVec<NodeRef<'f>>,
}

impl<'f> PathPages<'f> {
    /// First step: finds each maplet's page for the hash of a key, and prefetches the pages'
    /// entries in the cache's hash table.
    #[inline]
    pub(crate) fn locate<'m, F: NodeFetch>(
        &mut self,
        maplets: impl Iterator<Item = &'m Maplet>,
        hash: u64,
        fetch: &F,
    ) {
        for maplet in maplets {
            let page = maplet.page(hash);
            fetch.prefetch(&page);
            self.pointers.push(page);
        }
    }

    /// Second step: prefetches the headers of the frames that contain the pages.
    #[inline]
    pub(crate) fn approach<F: NodeFetch>(&self, fetch: &F) {
        for pointer in &self.pointers {
            fetch.prefetch_header(pointer);
        }
    }

    /// Third step: obtains references to the pages if all of them are cached, and returns whether
    /// they are. Prefetches the cache lines that the lookup reads first.
    #[inline]
    pub(crate) fn take<'m, F: NodeFetch>(
        &mut self,
        maplets: impl Iterator<Item = &'m Maplet>,
        hash: u64,
        fetch: &'f F,
    ) -> bool {
        debug_assert!(self.nodes.is_empty(), "pages are taken once");
        for (pointer, maplet) in self.pointers.iter().zip(maplets) {
            let Some(page) = fetch.peek(pointer) else {
                self.nodes.clear();
                return false;
            };
            prefetch(maplet, &page, hash);
            self.nodes.push(page);
        }
        debug_assert_eq!(self.nodes.len(), self.pointers.len(), "a page for each maplet");
        true
    }

    /// Last step: returns each page with the fingerprint to look up in it. Stops before the first
    /// malformed page.
    pub(crate) fn probes<'p, 'm: 'p>(
        &'p self,
        maplets: impl Iterator<Item = &'m Maplet> + 'p,
        hash: u64,
    ) -> impl Iterator<Item = (PageView<'p>, Fingerprint)> + 'p {
        self.nodes.iter().zip(maplets).map_while(move |(page, maplet)| {
            let geometry = maplet.geometry();
            let view = PageView::new(geometry, page).ok()?;
            Some((view, geometry.fingerprint(hash)))
        })
    }

    /// Returns whether [`PathPages::locate`] is still to be called.
    #[inline]
    pub(crate) fn are_unknown(&self) -> bool {
        self.pointers.is_empty()
    }

    /// Returns whether [`PathPages::take`] has obtained the pages.
    #[inline]
    pub(crate) fn are_here(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// Returns the page of the maplet at index `place` on the path. The pages must have been
    /// obtained.
    #[inline]
    pub(crate) fn page(&self, place: usize) -> &NodeRef<'f> {
        debug_assert!(place < self.nodes.len(), "page {place} was taken");
        &self.nodes[place]
    }
}

/// Like [`lookup_path`], but reads pages through `fetch`. While this is pending, the contents of
/// `out` are unspecified.
#[inline]
pub(crate) fn probe_path<F: NodeFetch>(
    maplets: &[&Maplet],
    hash: u64,
    fetch: &F,
    out: &mut MapletAnswers,
) -> Poll<Result<()>> {
    out.iter_mut().for_each(MapletHits::clear);
    out.resize_with(maplets.len(), MapletHits::default);
    debug_assert!(out.iter().all(|hits| hits.is_empty()), "answers begin empty");
    let mut missing: Vec<(usize, NodePointer)> = Vec::new();
    for (group, maplets) in maplets.chunks(GROUP).enumerate() {
        let mut nodes = [const { None::<NodeRef<'_>> }; GROUP];
        for (at, maplet) in maplets.iter().enumerate() {
            let pointer = maplet.page(hash);
            match fetch.peek(&pointer) {
                Some(node) => {
                    prefetch(maplet, &node, hash);
                    nodes[at] = Some(node);
                }
                None => missing.push((group * GROUP + at, pointer)),
            }
        }
        for (at, maplet) in maplets.iter().enumerate() {
            if let Some(node) = &nodes[at] {
                ready!(maplet.read(node, hash, fetch, &mut out[group * GROUP + at]))?;
            }
        }
    }
    if missing.is_empty() {
        return Poll::Ready(Ok(()));
    }
    let pointers: Vec<NodePointer> = missing.iter().map(|&(_, pointer)| pointer).collect();
    let nodes = ready!(fetch.miss_index_pages(&pointers))?;
    assert_eq!(nodes.len(), missing.len(), "a page for each pointer");
    for (&(at, _), node) in missing.iter().zip(&nodes) {
        ready!(maplets[at].read(node, hash, fetch, &mut out[at]))?;
    }
    Poll::Ready(Ok(()))
}

/// Prefetches the cache line of a page that a lookup reads first.
#[inline]
fn prefetch(maplet: &Maplet, page: &[u8], hash: u64) {
    if let Ok(view) = PageView::new(maplet.geometry(), page) {
        view.prefetch(maplet.geometry().fingerprint(hash));
    }
}

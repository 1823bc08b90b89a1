//! Asking one maplet, or all of a path at once.

use super::Maplet;
use alluvium_base::Purpose;
use alluvium_dictionary::fetch::{Blocking, Fetch, found};
use alluvium_filters::{Fingerprint, Found, PageView, SpillView};
use alluvium_storage::{Cache, Guard, NodePointer, NodeRef, Result};
use smallvec::SmallVec;
use std::ops::Deref;
use std::task::{Poll, ready};

/// How many values a [`Hits`] holds without memory of its own.
const INLINE: usize = 8;
/// How many maplets of a path are looked up side by side.
const GROUP: usize = 16;

/// The pages of a path, or what is known of its maplets: on the stack, as long as the path is not
/// longer than it should be.
pub(crate) type Path<T> = SmallVec<[T; GROUP]>;

/// What maplets have said, one after the other or all at once.
pub type Answers = SmallVec<[Hits; 1]>;

/// The values under a key's fingerprint, the greatest (newest) first. Values of other keys may be
/// among them, none of the key's is missing.
#[derive(Clone, Debug, Default)]
pub struct Hits {
    first: [u16; INLINE],
    len: usize,
    /// All values, once they are more than `first` holds.
    all: Vec<u16>,
}

impl Hits {
    /// Returns the values.
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

    /// These values, in place of those that are there.
    pub(crate) fn set(&mut self, values: impl Iterator<Item = u16>) {
        self.clear();
        values.for_each(|value| self.push(value));
    }

    fn clear(&mut self) {
        self.len = 0;
        self.all.clear();
    }
}

impl Deref for Hits {
    type Target = [u16];
    #[inline]
    fn deref(&self) -> &[u16] {
        self.as_slice()
    }
}

impl Maplet {
    /// Returns the values under the fingerprint of a key, by the key's hash. Reads one page where
    /// it is not in the cache, and seldom (one lookup in thousands) another with what spilled.
    ///
    /// # Errors
    /// [`alluvium_storage::Error::Corrupt`] when a page is not what the directory says; as the
    /// device says.
    ///
    /// # Panics
    /// When the guard is of other epochs than the cache.
    pub fn lookup(&self, hash: u64, cache: &Cache, guard: &Guard) -> Result<Hits> {
        let mut hits = Hits::default();
        let fetch = blocking(cache, guard);
        let node = found(fetch.index_page(&self.page(hash)))?;
        found(self.read(&node, hash, &fetch, &mut hits))?;
        Ok(hits)
    }

    /// What a key's page says, in place of what `hits` has.
    #[inline]
    pub(crate) fn ask(
        &self,
        page: &[u8],
        hash: u64,
        fetch: &impl Fetch,
        hits: &mut Hits,
    ) -> Poll<Result<()>> {
        hits.clear();
        self.read(page, hash, fetch, hits)
    }

    #[inline]
    fn read(&self, page: &[u8], hash: u64, fetch: &impl Fetch, hits: &mut Hits) -> Poll<Result<()>> {
        let geometry = self.geometry();
        let fingerprint = geometry.fingerprint(hash);
        let view = PageView::new(geometry, page)
            .map_err(|error| self.damaged(geometry.page_of(fingerprint), &error))?;
        match view.lookup(fingerprint) {
            Found::Here(values) => {
                values.for_each(|value| hits.push(value));
                Poll::Ready(Ok(()))
            }
            Found::Spilled => self.read_spilled(view.spilled(), fingerprint, fetch, hits),
        }
    }

    #[cold]
    fn read_spilled(
        &self,
        records: (u32, u32),
        fingerprint: Fingerprint,
        fetch: &impl Fetch,
        hits: &mut Hits,
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

/// Looks a key up in every maplet of a path, by its hash: `out` gets one [`Hits`] for each, in
/// their order. All pages that are not in the cache are read together, so a cold path waits for the
/// device once. Nothing is allocated when all pages are there and `out` was used before.
///
/// # Errors
/// As [`Maplet::lookup`]; `out` is of no use then.
///
/// # Panics
/// When the guard is of other epochs than the cache.
pub fn lookup_path(
    maplets: &[&Maplet],
    hash: u64,
    cache: &Cache,
    guard: &Guard,
    out: &mut Answers,
) -> Result<()> {
    found(probe_path(maplets, hash, &blocking(cache, guard), out))
}

fn blocking<'g>(cache: &'g Cache, guard: &'g Guard) -> Blocking<'g> {
    Blocking {
        cache,
        guard,
        purpose: Purpose::Lookup,
    }
}

/// The pages of a path that know of a key, and what a lookup has to do before it can ask them. A
/// reader of several keys takes each step for all of them before the next, so that what a step
/// reads is on its way while the others' is read.
#[derive(Default)]
pub(crate) struct Pages<'f> {
    pointers: Path<NodePointer>,
    nodes: Path<NodeRef<'f>>,
}

impl<'f> Pages<'f> {
    /// Finds out which pages these are, by a key's hash, in the order of the maplets; where the
    /// cache keeps them is on its way then.
    #[inline]
    pub(crate) fn locate<'m, F: Fetch>(
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

    /// The frames' headers are on their way then.
    #[inline]
    pub(crate) fn approach<F: Fetch>(&self, fetch: &F) {
        for pointer in &self.pointers {
            fetch.prefetch_header(pointer);
        }
    }

    /// Takes the pages, if all of them are there. Returns whether they are. The lines that a lookup
    /// reads first are on their way then.
    #[inline]
    pub(crate) fn take<'m, F: Fetch>(
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

    /// Returns what is to be looked up in the pages that are here, as far as they are pages of
    /// their maplets.
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

    /// Returns whether the pages have not been found yet.
    #[inline]
    pub(crate) fn are_unknown(&self) -> bool {
        self.pointers.is_empty()
    }

    /// Returns whether there are pages to be asked.
    #[inline]
    pub(crate) fn are_here(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// Returns a page that is here, by the place of its maplet.
    #[inline]
    pub(crate) fn page(&self, place: usize) -> &NodeRef<'f> {
        debug_assert!(place < self.nodes.len(), "page {place} was taken");
        &self.nodes[place]
    }
}

/// Looks a key up in every maplet of a path, as [`lookup_path`] does, with pages from anywhere.
/// When it is pending `out` is of no use.
#[inline]
pub(crate) fn probe_path<F: Fetch>(
    maplets: &[&Maplet],
    hash: u64,
    fetch: &F,
    out: &mut Answers,
) -> Poll<Result<()>> {
    out.iter_mut().for_each(Hits::clear);
    out.resize_with(maplets.len(), Hits::default);
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

/// Asks the processor for the line of a page that a lookup reads first.
#[inline]
fn prefetch(maplet: &Maplet, page: &[u8], hash: u64) {
    if let Ok(view) = PageView::new(maplet.geometry(), page) {
        view.prefetch(maplet.geometry().fingerprint(hash));
    }
}

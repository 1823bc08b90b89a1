//! Reading a filter from front to back, past the cache: what a merge takes over from it.

use super::Routing;
use super::format::Sketches;
use super::sketches::Sketch;
use alluvium_base::Purpose;
use alluvium_dictionary::read::Files;
use alluvium_filters::golomb::Source;
use alluvium_storage::node::read_nodes;
use alluvium_storage::store::Store;
use alluvium_storage::{Error, NodePointer, PageSize, Result, Tiers};
use std::collections::VecDeque;
use std::sync::Arc;

/// Pages that are read together.
const AT_ONCE: u64 = 16;

/// Where pages are read.
#[derive(Clone, Debug)]
pub(in crate::hashed) enum Origin<'f> {
    /// An open store.
    Store(Arc<Store>),
    /// Data files.
    Files(Files<'f>),
}

impl Origin<'_> {
    pub(in crate::hashed) fn tiers(&self) -> (&Tiers, PageSize) {
        match self {
            Origin::Store(store) => (store.tiers(), store.page_size()),
            Origin::Files(files) => (files.tiers, files.page_size),
        }
    }
}

/// The pages of a filter, in order.
#[derive(Debug)]
struct Reading<'f> {
    from: Origin<'f>,
    filter: Routing,
    purpose: Purpose,
    next: u64,
    ready: VecDeque<Vec<u8>>,
}

impl<'f> Reading<'f> {
    fn new(from: Origin<'f>, filter: &Routing, purpose: Purpose) -> Reading<'f> {
        Reading {
            from,
            filter: filter.clone(),
            purpose,
            next: 0,
            ready: VecDeque::new(),
        }
    }

    /// Returns the next page; none behind the last.
    fn page(&mut self) -> Result<Option<Vec<u8>>> {
        if let Some(page) = self.ready.pop_front() {
            return Ok(Some(page));
        }
        let end = self.filter.meta.pages.len().min(self.next + AT_ONCE);
        let pointers: Result<Vec<NodePointer>> =
            (self.next..end).map(|page| self.filter.page(page)).collect();
        let (pointers, mut failed) = (pointers?, Ok(()));
        let (tiers, page_size) = self.from.tiers();
        let ready = &mut self.ready;
        read_nodes(
            tiers,
            &pointers,
            page_size,
            self.purpose,
            &mut |_, page| match page {
                Ok(page) => ready.push_back(page),
                Err(error) => failed = Err(error),
            },
        );
        failed?;
        self.next = end;
        Ok(self.ready.pop_front())
    }
}

/// The characters of a filter of latest runs, as bytes.
#[derive(Debug)]
pub(super) struct Characters<'f> {
    reading: Reading<'f>,
    page: std::vec::IntoIter<u8>,
}

impl<'f> Characters<'f> {
    pub(super) fn new(from: Origin<'f>, filter: &Routing, purpose: Purpose) -> Characters<'f> {
        assert!(!filter.shape().is_refined(), "it names latest runs (U4)");
        Characters {
            reading: Reading::new(from, filter, purpose),
            page: Vec::new().into_iter(),
        }
    }
}

/// What can go wrong with characters: reading them, or they themselves.
#[derive(Debug)]
pub(super) enum Fault {
    Device(Error),
    Bits(alluvium_filters::Error),
}

impl From<alluvium_filters::Error> for Fault {
    fn from(error: alluvium_filters::Error) -> Fault {
        Fault::Bits(error)
    }
}

impl Fault {
    /// Returns the error of a store.
    pub(super) fn of(self, filter: &Routing) -> Error {
        match self {
            Fault::Device(error) => error,
            Fault::Bits(error) => Error::corrupt(filter.place(), "a routing filter", error.to_string()),
        }
    }
}

impl Source for Characters<'_> {
    type Error = Fault;

    #[inline]
    fn byte(&mut self) -> std::result::Result<Option<u8>, Fault> {
        loop {
            if let Some(byte) = self.page.next() {
                return Ok(Some(byte));
            }
            match self.reading.page().map_err(Fault::Device)? {
                Some(page) => self.page = page.into_iter(),
                None => return Ok(None),
            }
        }
    }
}

/// The sketches of a filter, in order.
#[derive(Debug)]
pub(super) struct All<'f> {
    reading: Reading<'f>,
    page: u64,
    sketches: std::vec::IntoIter<Sketch>,
    last: u64,
}

impl<'f> All<'f> {
    pub(super) fn new(from: Origin<'f>, filter: &Routing, purpose: Purpose) -> All<'f> {
        assert!(filter.shape().is_refined(), "it has sketches (U5)");
        All {
            reading: Reading::new(from, filter, purpose),
            page: 0,
            sketches: Vec::new().into_iter(),
            last: 0,
        }
    }

    /// Returns the next sketch; none behind the last.
    pub(super) fn next(&mut self) -> Result<Option<Sketch>> {
        loop {
            if let Some(sketch) = self.sketches.next() {
                self.last = sketch.prefix;
                return Ok(Some(sketch));
            }
            let Some(page) = self.reading.page()? else {
                return Ok(None);
            };
            let filter = &self.reading.filter;
            let place = filter.page(self.page)?.place();
            let mut all = Vec::new();
            Sketches::open(&page, &place)?.each_from(0, &place, &mut |sketch| {
                all.push(sketch);
                true
            })?;
            let first = all.first().map(|sketch| sketch.prefix);
            let listed = filter.meta.firsts.get(self.page as usize).copied();
            if first.is_none() || first != listed || first < Some(self.last) {
                let expected = format!("a page that begins with {listed:?}, behind {}", self.last);
                return Err(Error::corrupt(place, expected, format!("{first:?}")));
            }
            self.page += 1;
            self.sketches = all.into_iter();
        }
    }
}

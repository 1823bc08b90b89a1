//! Cursors that read the pages of a list sequentially, bypassing the cache.

use super::{PagedDescription, PrefixSketch, StoredList};
use alluvium_base::Purpose;
use alluvium_dictionary::read::DataFiles;
use alluvium_storage::node::read_nodes;
use alluvium_storage::store::Store;
use alluvium_storage::{Error, NodePointer, PageSize, Result, TierFiles};
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(in crate::hashed) enum PageSource<'f> {
    Store(Arc<Store>),
    /// The data files of a store.
    Files(DataFiles<'f>),
}

impl PageSource<'_> {
    fn tiers(&self) -> (&TierFiles, PageSize) {
        match self {
            PageSource::Store(store) => (store.tiers(), store.page_size()),
            PageSource::Files(files) => (files.tiers, files.page_size),
        }
    }
}

#[derive(Debug)]
pub(in crate::hashed) struct PageCursor<'f, M> {
    from: PageSource<'f>,
    of: StoredList<M>,
    purpose: Purpose,
    /// Number of pages that are read from the device in one batch.
    ahead: u64,
    next: u64,
    ready: VecDeque<Vec<u8>>,
}

impl<'f, M: PagedDescription + Clone> PageCursor<'f, M> {
    pub(in crate::hashed) fn new(
        from: PageSource<'f>,
        of: &StoredList<M>,
        purpose: Purpose,
        ahead: u64,
    ) -> Self {
        assert!(ahead > 0, "at least a page is read");
        PageCursor {
            from,
            of: of.clone(),
            purpose,
            ahead,
            next: 0,
            ready: VecDeque::new(),
        }
    }

    /// Returns the next page, or `None` after the last one.
    pub(in crate::hashed) fn next(&mut self) -> Result<Option<Vec<u8>>> {
        if let Some(page) = self.ready.pop_front() {
            return Ok(Some(page));
        }
        let end = self.of.pages().min(self.next + self.ahead);
        let pointers: Result<Vec<NodePointer>> = (self.next..end).map(|page| self.of.page(page)).collect();
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

#[derive(Debug)]
pub(in crate::hashed) struct SketchCursor<'f, M> {
    pages: PageCursor<'f, M>,
    /// Number of the next page to decode.
    page: u64,
    sketches: std::vec::IntoIter<PrefixSketch>,
    last: u64,
    count: u64,
}

impl<'f, M: PagedDescription + Clone> SketchCursor<'f, M> {
    pub(in crate::hashed) fn new(
        from: PageSource<'f>,
        of: &StoredList<M>,
        purpose: Purpose,
        ahead: u64,
    ) -> Self {
        SketchCursor {
            pages: PageCursor::new(from, of, purpose, ahead),
            page: 0,
            sketches: Vec::new().into_iter(),
            last: 0,
            count: 0,
        }
    }

    /// Returns the list that the cursor reads.
    pub(in crate::hashed) fn of(&self) -> &StoredList<M> {
        &self.pages.of
    }

    /// Returns the next sketch, or `None` after the last one.
    pub(in crate::hashed) fn next(&mut self) -> Result<Option<PrefixSketch>> {
        loop {
            if let Some(sketch) = self.sketches.next() {
                self.last = sketch.prefix;
                self.count += 1;
                return Ok(Some(sketch));
            }
            let Some(page) = self.pages.next()? else {
                let (of, found) = (self.of(), self.count);
                return match found == of.entries() {
                    true => Ok(None),
                    false => {
                        let expected = format!("{} entries", of.entries());
                        Err(Error::corrupt(of.place(), expected, found.to_string()))
                    }
                };
            };
            self.open(&page)?;
        }
    }

    fn open(&mut self, page: &[u8]) -> Result<()> {
        let of = self.of();
        let place = of.page(self.page)?.place();
        let mut all = Vec::new();
        of.sketches(page, &place)?.each_from(0, &place, &mut |sketch| {
            all.push(sketch);
            true
        })?;
        let first = all.first().map(|sketch: &PrefixSketch| sketch.prefix);
        let listed = of.meta.listing().firsts.get(self.page as usize).copied();
        if first.is_none() || first != listed || first < Some(self.last) {
            let expected = format!("a page that begins with {listed:?}, after {}", self.last);
            return Err(Error::corrupt(place, expected, format!("{first:?}")));
        }
        self.page += 1;
        self.sketches = all.into_iter();
        Ok(())
    }
}

//! Reading a list from front to back, past the cache.

use super::List;
use crate::hashed::routing::Origin;
use crate::hashed::routing::format::Sketches;
use crate::hashed::routing::sketches::Sketch;
use alluvium_base::Purpose;
use alluvium_storage::node::read_nodes;
use alluvium_storage::{Error, NodePointer, Place, Result};
use std::collections::VecDeque;

impl List {
    /// Opens one of its pages, which are coded as it says.
    pub(super) fn sketches<'p>(&self, page: &'p [u8], place: &Place) -> Result<Sketches<'p>> {
        let (sketches, head) = (Sketches::open(page, place)?, self.head());
        let coding = sketches.coding();
        let bits = (u32::from(coding.prefix_bits), u32::from(coding.payload_bits));
        match bits == (head.prefix_bits(), head.payload_bits()) {
            true => Ok(sketches),
            false => {
                let expected = format!(
                    "entries of {} and {} bits",
                    head.prefix_bits(),
                    head.payload_bits()
                );
                Err(Error::corrupt(place.clone(), expected, format!("{bits:?}")))
            }
        }
    }
}

/// The entries of a list, in order.
#[derive(Debug)]
pub(in crate::hashed) struct Cursor<'f> {
    from: Origin<'f>,
    list: List,
    purpose: Purpose,
    /// How many pages are read together.
    ahead: u64,
    next: u64,
    ready: VecDeque<Vec<u8>>,
    /// The page whose entries are handed out next.
    page: u64,
    entries: std::vec::IntoIter<Sketch>,
    last: u64,
    count: u64,
}

impl<'f> Cursor<'f> {
    pub(in crate::hashed) fn new(from: Origin<'f>, list: &List, purpose: Purpose, ahead: u64) -> Cursor<'f> {
        assert!(ahead > 0, "at least a page is read");
        Cursor {
            from,
            list: list.clone(),
            purpose,
            ahead,
            next: 0,
            ready: VecDeque::new(),
            page: 0,
            entries: Vec::new().into_iter(),
            last: 0,
            count: 0,
        }
    }

    pub(super) fn list(&self) -> &List {
        &self.list
    }

    /// Returns the next entry; none behind the last.
    pub(in crate::hashed) fn next(&mut self) -> Result<Option<Sketch>> {
        loop {
            if let Some(entry) = self.entries.next() {
                self.last = entry.prefix;
                self.count += 1;
                return Ok(Some(entry));
            }
            let Some(page) = self.read()? else {
                return match self.count == self.list.entries() {
                    true => Ok(None),
                    false => {
                        let expected = format!("{} entries", self.list.entries());
                        Err(Error::corrupt(
                            self.list.place(),
                            expected,
                            self.count.to_string(),
                        ))
                    }
                };
            };
            self.open(&page)?;
        }
    }

    fn open(&mut self, page: &[u8]) -> Result<()> {
        let place = self.list.page(self.page)?.place();
        let mut all = Vec::new();
        self.list
            .sketches(page, &place)?
            .each_from(0, &place, &mut |entry| {
                all.push(entry);
                true
            })?;
        let first = all.first().map(|entry: &Sketch| entry.prefix);
        let listed = self.list.meta.firsts.get(self.page as usize).copied();
        if first.is_none() || first != listed || first < Some(self.last) {
            let expected = format!("a page that begins with {listed:?}, behind {}", self.last);
            return Err(Error::corrupt(place, expected, format!("{first:?}")));
        }
        self.page += 1;
        self.entries = all.into_iter();
        Ok(())
    }

    fn read(&mut self) -> Result<Option<Vec<u8>>> {
        if let Some(page) = self.ready.pop_front() {
            return Ok(Some(page));
        }
        let end = self.list.pages().min(self.next + self.ahead);
        let pointers: Result<Vec<NodePointer>> = (self.next..end).map(|page| self.list.page(page)).collect();
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

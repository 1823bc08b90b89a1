//! Point lookups. A lookup waits for pages that are not in memory.

use super::Paged;
use alluvium_base::{Purpose, Sequence};
use alluvium_dictionary::contract;
use alluvium_dictionary::fetch::{Blocking, Fetch};
use alluvium_dictionary::gather::Gather;
use alluvium_dictionary::key::Key;
use alluvium_storage::{Guard, Result};
use parking_lot::RwLockReadGuard;
use std::fmt;
use std::sync::atomic::Ordering;
use std::task::Poll;

/// A reader of one state of a tree in pages. Changes wait for it, so it should be short-lived.
pub struct Reader<'p> {
    paged: &'p Paged,
    cut: Sequence,
    state: u64,
    guard: Guard,
    _inside: RwLockReadGuard<'p, ()>,
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("cut", &self.cut)
            .finish_non_exhaustive()
    }
}

impl contract::Lookup for Paged {
    type Reader<'p> = Reader<'p>;

    fn reader(&self) -> Reader<'_> {
        let inside = self.shared.gate.read();
        Reader {
            paged: self,
            cut: self.at(),
            state: self.shared.state.load(Ordering::Acquire),
            guard: self.shared.home.store.epochs().pin(),
            _inside: inside,
        }
    }
}

impl Reader<'_> {
    fn feed(&self, key: &[u8], gather: &mut Gather<'_>) -> Result<()> {
        let mut value = Vec::new();
        if !self.paged.core().get(key, &mut value)? {
            return Ok(());
        }
        // Messages above the cut belong to a change in progress: a memtable has them (PV3).
        let entries = self.paged.entries(&value)?;
        for entry in entries.iter().filter(|entry| entry.sequence <= self.cut) {
            if gather.message(&entry.message()).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl contract::Reader for Reader<'_> {
    /// A search completes in its first step, so it has no state.
    type Search = ();

    fn cut(&self) -> Sequence {
        self.cut
    }

    fn state(&self) -> u64 {
        self.state
    }

    fn nodes(&self) -> Blocking<'_> {
        Blocking {
            cache: self.paged.shared.home.store.cache(),
            guard: &self.guard,
            purpose: Purpose::Lookup,
        }
    }

    fn new_search(&self) {}

    fn search<F: Fetch>(
        &self,
        key: Key<'_>,
        gather: &mut Gather<'_>,
        _search: &mut (),
        _fetch: &F,
    ) -> Poll<Result<()>> {
        Poll::Ready(self.paged.judge(self.feed(key.bytes(), gather)))
    }
}

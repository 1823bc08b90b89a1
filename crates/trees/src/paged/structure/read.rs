//! Point lookups. A lookup blocks until pages that are not in memory have been read.

use super::PagedDictionary;
use alluvium_base::{Purpose, SequenceNumber};
use alluvium_dictionary::contract;
use alluvium_dictionary::fetch::{BlockingFetch, NodeFetch};
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_storage::{EpochGuard, Result};
use parking_lot::RwLockReadGuard;
use std::fmt;
use std::sync::atomic::Ordering;
use std::task::Poll;

/// A reader of one state of a paged tree. Changes wait until the reader is dropped, so it should be
/// short-lived.
pub struct PagedReader<'p> {
    paged: &'p PagedDictionary,
    cut: SequenceNumber,
    state: u64,
    guard: EpochGuard,
    _inside: RwLockReadGuard<'p, ()>,
}

impl fmt::Debug for PagedReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagedReader")
            .field("cut", &self.cut)
            .finish_non_exhaustive()
    }
}

impl contract::PointLookup for PagedDictionary {
    type Reader<'p> = PagedReader<'p>;

    fn reader(&self) -> PagedReader<'_> {
        let inside = self.shared.gate.read();
        PagedReader {
            paged: self,
            cut: self.at(),
            state: self.shared.state.load(Ordering::Acquire),
            guard: self.shared.home.store.epochs().pin(),
            _inside: inside,
        }
    }
}

impl PagedReader<'_> {
    fn feed(&self, key: &[u8], gather: &mut LookupState<'_>) -> Result<()> {
        let mut value = Vec::new();
        if !self.paged.core().get(key, &mut value)? {
            return Ok(());
        }
        // Messages above the cut belong to a change in progress. They are skipped here, because a
        // memtable contains them too (PV3).
        let entries = self.paged.entries(&value)?;
        for entry in entries.iter().filter(|entry| entry.sequence <= self.cut) {
            if gather.message(&entry.message()).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl contract::LookupReader for PagedReader<'_> {
    /// A search is complete after its first step, so it keeps no state between steps.
    type Search = ();

    fn cut(&self) -> SequenceNumber {
        self.cut
    }

    fn state(&self) -> u64 {
        self.state
    }

    fn nodes(&self) -> BlockingFetch<'_> {
        BlockingFetch {
            cache: self.paged.shared.home.store.cache(),
            guard: &self.guard,
            purpose: Purpose::Lookup,
        }
    }

    fn new_search(&self) {}

    fn search<F: NodeFetch>(
        &self,
        key: LookupKey<'_>,
        gather: &mut LookupState<'_>,
        _search: &mut (),
        _fetch: &F,
    ) -> Poll<Result<()>> {
        Poll::Ready(self.paged.poison_on_error(self.feed(key.bytes(), gather)))
    }
}

//! Point lookups: filters of hash stores, newest first, then the one leaf of the sorted store.

use super::run::find;
use super::state::Version;
use super::structure::Hashed;
use alluvium_base::{Purpose, Sequence};
use alluvium_dictionary::contract;
use alluvium_dictionary::fetch::{Blocking, Fetch};
use alluvium_dictionary::gather::Gather;
use alluvium_dictionary::key::Key;
use alluvium_dictionary::values;
use alluvium_storage::{Guard, Result};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Poll, ready};

/// Reads one version of a structure.
pub struct Reader<'h> {
    hashed: &'h Hashed,
    // The version goes before the guard that keeps it readable.
    version: arc_swap::Guard<Arc<Version>>,
    guard: Guard,
}

/// How far the search for a key has come. It is of use with one version only.
#[derive(Debug, Default)]
pub struct Search {
    /// How many runs are done.
    done: usize,
    /// How many records of the next one were taken.
    records: usize,
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("version", &self.version.number)
            .field("cut", &self.version.cut)
            .finish_non_exhaustive()
    }
}

impl contract::Lookup for Hashed {
    type Reader<'h> = Reader<'h>;

    #[inline]
    fn reader(&self) -> Reader<'_> {
        let guard = self.shared.home.store.epochs().pin();
        Reader {
            hashed: self,
            version: self.shared.version.load(),
            guard,
        }
    }
}

impl contract::Reader for Reader<'_> {
    type Search = Search;

    #[inline]
    fn cut(&self) -> Sequence {
        self.version.cut
    }

    #[inline]
    fn state(&self) -> u64 {
        self.version.number
    }

    #[inline]
    fn nodes(&self) -> Blocking<'_> {
        Blocking {
            cache: self.hashed.shared.home.store.cache(),
            guard: &self.guard,
            purpose: Purpose::Lookup,
        }
    }

    #[inline]
    fn new_search(&self) -> Search {
        Search::default()
    }

    fn search<F: Fetch>(
        &self,
        key: Key<'_>,
        gather: &mut Gather<'_>,
        search: &mut Search,
        fetch: &F,
    ) -> Poll<Result<()>> {
        let runs = self.version.runs_of(key.hash(), &self.hashed.shared.options);
        for run in runs.skip(search.done) {
            if gather.is_decided() {
                break;
            }
            let deletes = run.range_deletes();
            if !deletes.is_empty() {
                gather.range_deleted(deletes.covering(key.bytes(), gather.known.at()));
            }
            if run.may_hold(key.hash())? {
                let Gather { operator, known } = gather;
                // What was taken before a node was missing is not taken again.
                let (mut taken, records) = (search.records, &mut search.records);
                ready!(find(run, key, fetch, &mut |record| {
                    if taken > 0 {
                        taken -= 1;
                        return Poll::Ready(Ok(ControlFlow::Continue(())));
                    }
                    let flow = ready!(known.record(&record, *operator, |pointer, room| {
                        values::fetch_value(fetch, pointer, room)
                    }))?;
                    *records += 1;
                    Poll::Ready(Ok(flow))
                }))?;
            }
            search.done += 1;
            search.records = 0;
        }
        Poll::Ready(Ok(()))
    }
}

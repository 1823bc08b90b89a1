//! Point lookups. A lookup queries the filters of the hash stores, newest first, before it reads
//! older data. In SILT's form, this is one leaf of the sorted store; in a bundle of arrays, the
//! runs that each level's filter returns; in a bundle of trees, the runs that a descent in each
//! level's tree finds (`tree_search.rs`).

use super::routing::{CandidateRuns, RoutingFilter};
use super::run::{HashRun, RunLookupKey, find, find_in_group};
use super::state::{HashPartition, HashedVersion};
use super::structure::HashedStructure;
use super::tree_search::TreeSearchPosition;
use alluvium_dictionary::contract;
use alluvium_dictionary::fetch::NodeFetch;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::record::StoredRecord;
use alluvium_dictionary::value_log;
use alluvium_dictionary::versioned::{VersionCell, VersionReader, VersionSearch};
use alluvium_storage::store::Store;
use alluvium_storage::{Error, Result};
use std::ops::ControlFlow;
use std::task::{Poll, ready};

/// Reader of one version of a hashed structure.
pub type HashedReader<'h> = VersionReader<'h, HashedStructure>;

/// Position of a lookup, at which it continues after waiting for a node. Valid only in the version
/// for which it was created.
#[derive(Debug, Default)]
pub struct HashedSearch {
    /// Number of runs that have been searched completely.
    done: usize,
    /// Number of the current run's records that have already been passed on.
    records: usize,
    /// The level whose filter was queried most recently, and the candidate runs that it returned.
    level: Option<(usize, CandidateRuns)>,
    /// In a bundle of trees, the position in the part's trees.
    trees: TreeSearchPosition,
}

/// A run that a lookup may have to search, and its position if it belongs to a level.
struct RunCandidate<'v> {
    run: &'v HashRun,
    level: Option<RunPosition<'v>>,
}

/// Position of a run within its part.
#[derive(Clone, Copy)]
struct RunPosition<'v> {
    level: usize,
    /// Index of the run in its level, where 0 is the oldest.
    run: usize,
    filter: Option<&'v RoutingFilter>,
}

/// Returns the runs that may contain a hash of a part, newest first, except those of levels with a
/// routing tree.
fn stops<'v>(version: &'v HashedVersion, part: &'v HashPartition) -> impl Iterator<Item = RunCandidate<'v>> {
    let young = version.young.iter().filter(|young| young.age >= part.upto);
    let young = young.map(|young| RunCandidate {
        run: &young.run,
        level: None,
    });
    let levels = part.levels.iter().enumerate();
    let levels = levels.filter(|(_, level)| level.tree.is_none());
    young.chain(levels.flat_map(|(number, level)| {
        let runs = level.runs.iter().enumerate().rev();
        runs.map(move |(run, of)| {
            let filter = level.filter.as_ref();
            let level = number;
            RunCandidate {
                run: &of.run,
                level: Some(RunPosition { level, run, filter }),
            }
        })
    }))
}

impl HashedSearch {
    /// Asks the filter of the run or of its level whether the run must be read. Pending if a page
    /// of the filter must be read first.
    fn may_hold<F: NodeFetch>(
        &mut self,
        stop: &RunCandidate<'_>,
        hash: u64,
        fetch: &F,
    ) -> Poll<Result<bool>> {
        let Some(RunPosition { level, run, filter }) = stop.level else {
            return Poll::Ready(stop.run.may_hold(hash));
        };
        let candidates = match (self.level, filter) {
            (Some((asked, candidates)), _) if asked == level => candidates,
            (_, None) => CandidateRuns::All,
            (_, Some(filter)) => ready!(filter.find_candidates(hash, fetch))?,
        };
        self.level = Some((level, candidates));
        Poll::Ready(Ok(candidates.has(run) && stop.run.records() > 0))
    }

    /// After a run has been searched, narrows the candidates in its level to the earlier run that
    /// its records name, if they name one (U4).
    fn follow(&mut self, stop: &RunCandidate<'_>, previous: Option<Option<u8>>) -> Result<()> {
        let Some(RunPosition { level, run, .. }) = stop.level else {
            return Ok(());
        };
        let next = match previous {
            Some(Some(previous)) if usize::from(previous) < run => Some(previous),
            Some(None) => None,
            other => {
                let expected = format!("records that its level's filter names, of a run before {run} (U4)");
                return Err(Error::corrupt(stop.run.place(), expected, format!("{other:?}")));
            }
        };
        self.level = Some((level, CandidateRuns::Latest(next)));
        Ok(())
    }
}

impl contract::PointLookup for HashedStructure {
    type Reader<'h> = HashedReader<'h>;

    #[inline]
    fn reader(&self) -> HashedReader<'_> {
        VersionReader::new(self)
    }
}

impl VersionSearch for HashedStructure {
    type Version = HashedVersion;
    type Search = HashedSearch;

    #[inline]
    fn versions(&self) -> &VersionCell<HashedVersion> {
        &self.shared.versions
    }

    #[inline]
    fn store(&self) -> &Store {
        &self.shared.home.store
    }

    fn search<F: NodeFetch>(
        &self,
        version: &HashedVersion,
        key: LookupKey<'_>,
        gather: &mut LookupState<'_>,
        search: &mut HashedSearch,
        fetch: &F,
    ) -> Poll<Result<()>> {
        let options = &self.shared.options;
        let wanted = RunLookupKey {
            bytes: key.bytes(),
            hash: options.hash_of(key),
        };
        let part = &version.parts[options.part_of(wanted.hash)];
        for stop in stops(version, part).skip(search.done) {
            if gather.is_decided() {
                break;
            }
            let deletes = stop.run.range_deletes();
            if !deletes.is_empty() {
                gather.range_deleted(deletes.covering(key.bytes(), gather.known.at()));
            }
            if ready!(search.may_hold(&stop, wanted.hash, fetch))? {
                let LookupState { operator, known } = &mut *gather;
                // Skip the records that an earlier call had passed on when it began to wait for a
                // node.
                let (mut taken, records) = (search.records, &mut search.records);
                let mut visit = |record: StoredRecord<'_>| {
                    if taken > 0 {
                        taken -= 1;
                        return Poll::Ready(Ok(ControlFlow::Continue(())));
                    }
                    let flow = ready!(known.record(&record, *operator, |pointer, room| {
                        value_log::fetch_value(fetch, pointer, room)
                    }))?;
                    *records += 1;
                    Poll::Ready(Ok(flow))
                };
                match (search.level, stop.level) {
                    (
                        Some((_, CandidateRuns::Latest(_))),
                        Some(RunPosition {
                            filter: Some(filter), ..
                        }),
                    ) => {
                        let group = filter.shape().group(wanted.hash);
                        let previous = ready!(find_in_group(stop.run, wanted, group, fetch, &mut visit))?;
                        if !gather.is_decided() {
                            search.follow(&stop, previous)?;
                        }
                    }
                    _ => ready!(find(stop.run, wanted, fetch, &mut visit))?,
                }
            }
            search.done += 1;
            search.records = 0;
        }
        search.trees.search(part, wanted, gather, fetch)
    }
}

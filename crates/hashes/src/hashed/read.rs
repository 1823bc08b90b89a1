//! Point lookups: filters of hash stores, newest first, then one leaf of SILT's sorted store. In a
//! bundle of arrays, a lookup reads the runs named by the filter of each level; in a bundle of
//! trees, it descends each level's tree (`descend.rs`).

use super::descend::InTrees;
use super::routing::{Candidates, Routing};
use super::run::{Run, Wanted, find, find_in_group};
use super::state::{Part, Version};
use super::structure::Hashed;
use alluvium_dictionary::contract;
use alluvium_dictionary::fetch::Fetch;
use alluvium_dictionary::gather::Gather;
use alluvium_dictionary::key::Key;
use alluvium_dictionary::record::Record;
use alluvium_dictionary::values;
use alluvium_dictionary::versioned::{VersionReader, VersionSearch, Versioned};
use alluvium_storage::store::Store;
use alluvium_storage::{Error, Result};
use std::ops::ControlFlow;
use std::task::{Poll, ready};

/// A reader of one version of a structure.
pub type Reader<'h> = VersionReader<'h, Hashed>;

/// Position of the search for a key. Valid only with one version.
#[derive(Debug, Default)]
pub struct Search {
    /// Number of runs completed.
    done: usize,
    /// Number of the next run's records already processed.
    records: usize,
    /// The level whose filter was queried, and the candidates in it.
    level: Option<(usize, Candidates)>,
    /// In a bundle of trees, the position of the search below the hash stores.
    trees: InTrees,
}

/// A run to be searched, and its position if it belongs to a level.
struct Stop<'v> {
    run: &'v Run,
    level: Option<Place<'v>>,
}

/// Position of a run in its part.
#[derive(Clone, Copy)]
struct Place<'v> {
    level: usize,
    /// Index of the run in the level.
    run: usize,
    filter: Option<&'v Routing>,
}

/// Returns the runs that may contain a hash of a part, newest first, except those in trees.
fn stops<'v>(version: &'v Version, part: &'v Part) -> impl Iterator<Item = Stop<'v>> {
    let young = version.young.iter().filter(|young| young.age >= part.upto);
    let young = young.map(|young| Stop {
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
            Stop {
                run: &of.run,
                level: Some(Place { level, run, filter }),
            }
        })
    }))
}

impl Search {
    /// Returns whether a run must be read, according to its own filter or that of its level.
    fn may_hold<F: Fetch>(&mut self, stop: &Stop<'_>, hash: u64, fetch: &F) -> Poll<Result<bool>> {
        let Some(Place { level, run, filter }) = stop.level else {
            return Poll::Ready(stop.run.may_hold(hash));
        };
        let candidates = match (self.level, filter) {
            (Some((asked, candidates)), _) if asked == level => candidates,
            (_, None) => Candidates::All,
            (_, Some(filter)) => ready!(filter.ask(hash, fetch))?,
        };
        self.level = Some((level, candidates));
        Poll::Ready(Ok(candidates.has(run) && stop.run.records() > 0))
    }

    /// Continues with the earlier run that the records of the key's group name, if any.
    fn follow(&mut self, stop: &Stop<'_>, previous: Option<Option<u8>>) -> Result<()> {
        let Some(Place { level, run, .. }) = stop.level else {
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
        self.level = Some((level, Candidates::Latest(next)));
        Ok(())
    }
}

impl contract::Lookup for Hashed {
    type Reader<'h> = Reader<'h>;

    #[inline]
    fn reader(&self) -> Reader<'_> {
        VersionReader::new(self)
    }
}

impl VersionSearch for Hashed {
    type Version = Version;
    type Search = Search;

    #[inline]
    fn versions(&self) -> &Versioned<Version> {
        &self.shared.versions
    }

    #[inline]
    fn store(&self) -> &Store {
        &self.shared.home.store
    }

    fn search<F: Fetch>(
        &self,
        version: &Version,
        key: Key<'_>,
        gather: &mut Gather<'_>,
        search: &mut Search,
        fetch: &F,
    ) -> Poll<Result<()>> {
        let options = &self.shared.options;
        let wanted = Wanted {
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
                let Gather { operator, known } = &mut *gather;
                // Skip records that were processed before a node was missing.
                let (mut taken, records) = (search.records, &mut search.records);
                let mut visit = |record: Record<'_>| {
                    if taken > 0 {
                        taken -= 1;
                        return Poll::Ready(Ok(ControlFlow::Continue(())));
                    }
                    let flow = ready!(known.record(&record, *operator, |pointer, room| {
                        values::fetch_value(fetch, pointer, room)
                    }))?;
                    *records += 1;
                    Poll::Ready(Ok(flow))
                };
                match (search.level, stop.level) {
                    (
                        Some((_, Candidates::Latest(_))),
                        Some(Place {
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

//! Point lookups. A lookup probes the runs' filters from newest to oldest, until the value of the
//! key is known.

use super::LevelsDictionary;
use super::state::{LevelMember, LevelsVersion};
use crate::maplet;
use alluvium_dictionary::contract;
use alluvium_dictionary::fetch::NodeFetch;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::value_log;
use alluvium_dictionary::versioned::{VersionCell, VersionReader, VersionSearch};
use alluvium_storage::store::Store;
use alluvium_storage::{Error, Result};
use smallvec::SmallVec;
use std::ops::ControlFlow;
use std::task::{Poll, ready};

/// A reader of one version of an LSM tree.
pub type LevelsReader<'l> = VersionReader<'l, LevelsDictionary>;

/// The runs that may have messages for a key, from newest to oldest.
type LookupCandidates<'v> = SmallVec<[&'v LevelMember; 16]>;

/// The progress of a lookup. It is valid only for the version in which the lookup started.
#[derive(Debug, Default)]
pub struct LevelsSearch {
    /// The results of probing the filters of consecutive candidates, starting with candidate
    /// `first`.
    hits: maplet::MapletAnswers,
    first: usize,
    /// The number of filters whose results are in `hits`.
    asked: usize,
    /// The number of candidates that have been searched completely.
    done: usize,
    /// The number of records already gathered from the candidate that is being searched.
    records: usize,
}

impl contract::PointLookup for LevelsDictionary {
    type Reader<'l> = LevelsReader<'l>;

    #[inline]
    fn reader(&self) -> LevelsReader<'_> {
        VersionReader::new(self)
    }
}

impl VersionSearch for LevelsDictionary {
    type Version = LevelsVersion;
    type Search = LevelsSearch;

    #[inline]
    fn versions(&self) -> &VersionCell<LevelsVersion> {
        &self.shared.versions
    }

    #[inline]
    fn store(&self) -> &Store {
        &self.shared.home.store
    }

    fn search<F: NodeFetch>(
        &self,
        version: &LevelsVersion,
        key: LookupKey<'_>,
        gather: &mut LookupState<'_>,
        search: &mut LevelsSearch,
        fetch: &F,
    ) -> Poll<Result<()>> {
        let runs = version.newest_first.iter();
        let candidates: LookupCandidates<'_> = runs
            .map(|member| &**member)
            .filter(|member| member.touches(key.bytes()))
            .collect();
        search.go_on(&candidates, key, gather, fetch)
    }
}

impl LevelsSearch {
    fn go_on<F: NodeFetch>(
        &mut self,
        candidates: &[&LevelMember],
        key: LookupKey<'_>,
        gather: &mut LookupState<'_>,
        fetch: &F,
    ) -> Poll<Result<()>> {
        debug_assert!(self.done <= candidates.len(), "a search goes on in its version");
        while let Some(member) = candidates.get(self.done)
            && !gather.is_decided()
        {
            let deletes = member.run.range_deletes();
            if !deletes.is_empty() {
                gather.range_deleted(deletes.covering(key.bytes(), gather.known.at()));
            }
            if ready!(self.may_hold(candidates, key, fetch))? {
                ready!(self.ask(member, key, gather, fetch))?;
            }
            self.done += 1;
            self.records = 0;
        }
        Poll::Ready(Ok(()))
    }

    /// Returns whether the next candidate may contain the key, according to its filter. If the
    /// filter must be read from the device, reads the filters of all older candidates in the same
    /// batch.
    fn may_hold<F: NodeFetch>(
        &mut self,
        candidates: &[&LevelMember],
        key: LookupKey<'_>,
        fetch: &F,
    ) -> Poll<Result<bool>> {
        if !(self.first..self.first + self.asked).contains(&self.done) {
            self.asked = 0;
            let maplet = &candidates[self.done].maplet;
            match fetch.peek(&maplet.page(key.hash())) {
                Some(page) => {
                    self.hits.resize_with(1, maplet::MapletHits::default);
                    ready!(maplet.collect_hits(&page, key.hash(), fetch, &mut self.hits[0]))?;
                    self.asked = 1;
                }
                None => {
                    let left = candidates[self.done..].iter().map(|member| &member.maplet);
                    let left: SmallVec<[&maplet::Maplet; 16]> = left.collect();
                    ready!(maplet::probe_path(&left, key.hash(), fetch, &mut self.hits))?;
                    self.asked = left.len();
                }
            }
            self.first = self.done;
        }
        let hits = &self.hits[self.done - self.first];
        if let Some(value) = hits.iter().find(|&&value| value != 0) {
            let at = candidates[self.done].maplet.pointer().place();
            let error = Error::corrupt(at, "a filter of one run", format!("run {value}"));
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(!hits.is_empty()))
    }

    /// Searches one run for the key and gathers its records. If the lookup had to wait, skips the
    /// records that were gathered before.
    fn ask<F: NodeFetch>(
        &mut self,
        member: &LevelMember,
        key: LookupKey<'_>,
        gather: &mut LookupState<'_>,
        fetch: &F,
    ) -> Poll<Result<()>> {
        let LookupState { operator, known } = gather;
        // After waiting for a node, the lookup starts again with this run's newest record.
        let mut taken = self.records;
        let records = &mut self.records;
        member.run.search(key.bytes(), known.at(), fetch, |record| {
            if taken > 0 {
                taken -= 1;
                return Poll::Ready(Ok(ControlFlow::Continue(())));
            }
            let flow = ready!(known.record(&record, *operator, |pointer, room| {
                value_log::fetch_value(fetch, pointer, room)
            }))?;
            *records += 1;
            Poll::Ready(Ok(flow))
        })
    }
}

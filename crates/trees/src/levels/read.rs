//! Point lookups: filters first, newest run first, until a message decides.

use super::Levels;
use super::state::{Member, Version};
use crate::maplet;
use alluvium_base::{Purpose, Sequence};
use alluvium_dictionary::contract;
use alluvium_dictionary::fetch::{Blocking, Fetch};
use alluvium_dictionary::gather::Gather;
use alluvium_dictionary::key::Key;
use alluvium_dictionary::values;
use alluvium_storage::{Error, Guard, Result};
use smallvec::SmallVec;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Poll, ready};

/// Reads one version of a structure.
pub struct Reader<'l> {
    levels: &'l Levels,
    // The version goes before the guard that keeps it readable.
    version: arc_swap::Guard<Arc<Version>>,
    guard: Guard,
}

/// The runs that may say something of a key, newest first.
type Candidates<'v> = SmallVec<[&'v Member; 16]>;

/// How far the search for a key has come. It is of use with one version only.
#[derive(Debug, Default)]
pub struct Search {
    /// What the filters of candidates have said: those of `hits.len()` from `first` on.
    hits: maplet::Answers,
    first: usize,
    /// How many filters have answered.
    asked: usize,
    /// How many candidates are done.
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

impl contract::Lookup for Levels {
    type Reader<'l> = Reader<'l>;

    #[inline]
    fn reader(&self) -> Reader<'_> {
        let guard = self.shared.home.store.epochs().pin();
        Reader {
            levels: self,
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
            cache: self.levels.shared.home.store.cache(),
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
        let runs = self.version.newest_first.iter();
        let candidates: Candidates<'_> = runs
            .map(|member| &**member)
            .filter(|member| member.touches(key.bytes()))
            .collect();
        search.go_on(&candidates, key, gather, fetch)
    }
}

impl Search {
    fn go_on<F: Fetch>(
        &mut self,
        candidates: &[&Member],
        key: Key<'_>,
        gather: &mut Gather<'_>,
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

    /// Returns whether the next run may have the key. Where its filter must be read, those of all
    /// older candidates are read with it.
    fn may_hold<F: Fetch>(&mut self, candidates: &[&Member], key: Key<'_>, fetch: &F) -> Poll<Result<bool>> {
        if !(self.first..self.first + self.asked).contains(&self.done) {
            self.asked = 0;
            let maplet = &candidates[self.done].maplet;
            match fetch.peek(&maplet.page(key.hash())) {
                Some(page) => {
                    self.hits.resize_with(1, maplet::Hits::default);
                    ready!(maplet.ask(&page, key.hash(), fetch, &mut self.hits[0]))?;
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

    /// Asks one run.
    fn ask<F: Fetch>(
        &mut self,
        member: &Member,
        key: Key<'_>,
        gather: &mut Gather<'_>,
        fetch: &F,
    ) -> Poll<Result<()>> {
        let Gather { operator, known } = gather;
        // What was taken before a node was missing is not taken again.
        let mut taken = self.records;
        let records = &mut self.records;
        member.run.search(key.bytes(), known.at(), fetch, |record| {
            if taken > 0 {
                taken -= 1;
                return Poll::Ready(Ok(ControlFlow::Continue(())));
            }
            let flow = ready!(known.record(&record, *operator, |pointer, room| {
                values::fetch_value(fetch, pointer, room)
            }))?;
            *records += 1;
            Poll::Ready(Ok(flow))
        })
    }
}

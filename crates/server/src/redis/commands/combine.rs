//! Unions, intersections and differences of sets, computed in pages. The members of all sets are
//! ordered by hash, so a page begins where the last one ended.

use crate::error::Failure;
use crate::net::waits;
use crate::protocol::resp::{Progress, Reply, Tail};
use crate::redis::pages::PAGE;
use crate::store::model::Collection;
use crate::store::model::format::{self, InnerKey};
use crate::store::{Direction, Store, Transaction};
use alluvium::{Keyspace, Snapshot};

/// Number of members that are looked up in other sets at once.
const AT_ONCE: usize = 1024;

/// A set operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sum {
    Union,
    Intersection,
    Difference,
}

/// The source of sets: a transaction or a snapshot.
pub(crate) trait Source {
    /// Calls `next` with the keys of a range in order, until it returns false.
    fn keys(&self, range: (InnerKey, InnerKey), next: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Failure>;

    /// Returns which of the keys exist.
    fn which(&self, keys: &[InnerKey]) -> Result<Vec<bool>, Failure>;
}

impl Source for Transaction<'_> {
    fn keys(
        &self,
        (start, end): (InnerKey, InnerKey),
        next: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Failure> {
        let mut scan = self.scan(start, end, Direction::Forward);
        while let Some((key, _)) = scan.next()? {
            if !next(&key) {
                break;
            }
        }
        Ok(())
    }

    fn which(&self, keys: &[InnerKey]) -> Result<Vec<bool>, Failure> {
        Ok(self.multi_get(keys)?.iter().map(Option::is_some).collect())
    }
}

/// A snapshot.
struct Moment {
    data: Keyspace,
    snapshot: Snapshot,
}

impl Source for Moment {
    fn keys(
        &self,
        (start, end): (InnerKey, InnerKey),
        next: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Failure> {
        let mut iter = self.snapshot.range(&self.data, &start[..]..&end[..]);
        while let Some((key, _)) = iter.lend()? {
            if !next(key) {
                break;
            }
        }
        Ok(())
    }

    fn which(&self, keys: &[InnerKey]) -> Result<Vec<bool>, Failure> {
        let found = waits::wait_for(self.snapshot.multi_get_async(&self.data, keys))?;
        Ok(found.iter().map(Option::is_some).collect())
    }
}

/// The state of a paged set operation.
#[derive(Clone, Debug)]
pub(super) struct Combination {
    sum: Sum,
    database: u8,
    sets: Vec<Collection>,
    /// Where it continues: the part of an element key after the set's number.
    from: Vec<u8>,
    is_over: bool,
}

/// Members, as the part of their keys after the set's number.
type Page = Vec<Vec<u8>>;

/// Returns the member from such a part of a key.
pub(crate) fn member(part: &[u8]) -> &[u8] {
    part.get(size_of::<u64>()..).unwrap_or_default()
}

impl Combination {
    /// Starts an operation on sets. Missing sets count as empty.
    pub(crate) fn new(sum: Sum, database: u8, sets: &[Option<Collection>]) -> Combination {
        let has_all = sets.iter().all(Option::is_some);
        let is_over = match sum {
            Sum::Union => false,
            Sum::Intersection => !has_all,
            Sum::Difference => sets.first().is_none_or(Option::is_none),
        };
        let mut sets: Vec<Collection> = sets.iter().flatten().copied().collect();
        if sum == Sum::Intersection {
            // The smallest set is read; the members are looked up in the others.
            sets.sort_by_key(|set| set.count);
        }
        Combination {
            sum,
            database,
            is_over: is_over || sets.is_empty(),
            sets,
            from: Vec::new(),
        }
    }

    /// Returns the next page of members, which may be empty, or `None` at the end.
    pub(super) fn next_page(&mut self, source: &impl Source) -> Result<Option<Page>, Failure> {
        if self.is_over {
            return Ok(None);
        }
        match self.sum {
            Sum::Union => self.union_page(source),
            Sum::Intersection => self.filtered_page(source, true),
            Sum::Difference => self.filtered_page(source, false),
        }
        .map(Some)
    }

    /// Returns some members of a set from the current position.
    fn some(&self, source: &impl Source, set: &Collection) -> Result<Page, Failure> {
        let whole = format::elements(self.database, set.number);
        let mut start = whole.clone();
        start.extend_from_slice(&self.from);
        let (mut page, mut bytes) = (Page::new(), 0);
        source.keys((start, format::behind(&whole)), &mut |key| {
            let part = key.get(format::ELEMENT_PREFIX..).unwrap_or_default();
            bytes += part.len();
            page.push(part.to_vec());
            page.len() < AT_ONCE && bytes < PAGE
        })?;
        Ok(page)
    }

    /// Continues after a member.
    fn go_on_behind(&mut self, last: &[u8]) {
        self.from.clear();
        self.from.extend_from_slice(last);
        self.from.push(0);
    }

    fn union_page(&mut self, source: &impl Source) -> Result<Page, Failure> {
        let mut all = Page::new();
        // All sets are fully known up to the smallest of their last members.
        let mut known: Option<Vec<u8>> = None;
        for set in &self.sets {
            let page = self.some(source, set)?;
            let is_whole = page.len() < AT_ONCE && page.iter().map(Vec::len).sum::<usize>() < PAGE;
            if !is_whole && let Some(last) = page.last() {
                known = Some(match known {
                    Some(known) => known.min(last.clone()),
                    None => last.clone(),
                });
            }
            all.extend(page);
            all.sort_unstable();
            all.dedup();
            if let Some(known) = &known {
                all.truncate(all.partition_point(|part| part <= known));
            }
        }
        match known {
            Some(known) => self.go_on_behind(&known),
            None => self.is_over = true,
        }
        Ok(all)
    }

    fn filtered_page(&mut self, source: &impl Source, wanted: bool) -> Result<Page, Failure> {
        let mut page = self.some(source, &self.sets[0])?;
        let next = page.last().cloned();
        for other in &self.sets[1..] {
            let key = |part: &Vec<u8>| {
                let mut key = format::elements(self.database, other.number);
                key.extend_from_slice(part);
                key
            };
            let keys: Vec<InnerKey> = page.iter().map(key).collect();
            let mut there = source.which(&keys)?.into_iter();
            page.retain(|_| there.next() == Some(wanted));
        }
        match next {
            Some(last) => self.go_on_behind(&last),
            None => self.is_over = true,
        }
        Ok(page)
    }
}

/// The rest of a set operation whose number of results is known.
struct Rest {
    data: Keyspace,
    db: alluvium::Db,
    combination: Combination,
    moment: Option<Moment>,
}

/// Returns a tail that replies with all members of an operation.
pub(super) fn tail(store: &Store, combination: Combination) -> Box<dyn Tail> {
    Box::new(Rest {
        data: store.data.clone(),
        db: store.db.clone(),
        combination,
        moment: None,
    })
}

impl Tail for Rest {
    fn begin(&mut self) {
        self.moment = Some(Moment {
            data: self.data.clone(),
            snapshot: self.db.snapshot(),
        });
    }

    fn write(&mut self, reply: &mut Reply<'_>) -> Result<Progress, Failure> {
        let _may_wait = waits::may_wait();
        let Some(moment) = &self.moment else {
            return Ok(Progress::Whole);
        };
        match self.combination.next_page(moment)? {
            None => Ok(Progress::Whole),
            Some(page) => {
                page.iter().for_each(|part| reply.bulk(member(part)));
                Ok(Progress::More)
            }
        }
    }
}

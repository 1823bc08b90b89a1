//! Unions, intersections and differences of sets, computed page by page. All sets are sorted by
//! their members' hashes, so each page can begin where the previous one ended.

use crate::error::CommandError;
use crate::net::wait_hooks;
use crate::protocol::resp::{ReplyProgress, ReplyTail, ReplyWriter};
use crate::redis::pages::PAGE;
use crate::store::model::CollectionHeader;
use crate::store::model::format::{self, InnerKey};
use crate::store::{CommandTransaction, ServerStore, WalkDirection};
use alluvium::{Keyspace, Snapshot};

/// Maximum number of members per page, which share one lookup in the other sets.
const AT_ONCE: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetOperation {
    Union,
    Intersection,
    Difference,
}

/// A transaction or a snapshot from which sets are read.
pub(crate) trait SetSource {
    /// Calls `next` with the keys of a range in order until it returns false.
    fn keys(
        &self,
        range: (InnerKey, InnerKey),
        next: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), CommandError>;

    /// Returns for each key whether it exists.
    fn which(&self, keys: &[InnerKey]) -> Result<Vec<bool>, CommandError>;
}

impl SetSource for CommandTransaction<'_> {
    fn keys(
        &self,
        (start, end): (InnerKey, InnerKey),
        next: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), CommandError> {
        let mut scan = self.scan(start, end, WalkDirection::Forward);
        while let Some((key, _)) = scan.next()? {
            if !next(&key) {
                break;
            }
        }
        Ok(())
    }

    fn which(&self, keys: &[InnerKey]) -> Result<Vec<bool>, CommandError> {
        Ok(self.multi_get(keys)?.iter().map(Option::is_some).collect())
    }
}

struct SetSnapshot {
    data: Keyspace,
    snapshot: Snapshot,
}

impl SetSource for SetSnapshot {
    fn keys(
        &self,
        (start, end): (InnerKey, InnerKey),
        next: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), CommandError> {
        let mut iter = self.snapshot.range(&self.data, &start[..]..&end[..]);
        while let Some((key, _)) = iter.lend()? {
            if !next(key) {
                break;
            }
        }
        Ok(())
    }

    fn which(&self, keys: &[InnerKey]) -> Result<Vec<bool>, CommandError> {
        let found = wait_hooks::wait_for(self.snapshot.multi_get_async(&self.data, keys))?;
        Ok(found.iter().map(Option::is_some).collect())
    }
}

/// The state of a set operation that is computed page by page.
#[derive(Clone, Debug)]
pub(super) struct SetOperationState {
    sum: SetOperation,
    database: u8,
    sets: Vec<CollectionHeader>,
    /// Start of the next page: the part of an element key after the collection number.
    from: Vec<u8>,
    is_over: bool,
}

/// A page of members, each represented by the part of its element key after the collection number.
type MemberPage = Vec<Vec<u8>>;

/// Extracts the member from the part of an element key after the collection number.
pub(crate) fn member(part: &[u8]) -> &[u8] {
    part.get(size_of::<u64>()..).unwrap_or_default()
}

impl SetOperationState {
    /// Creates an operation on sets, in which nonexistent sets count as empty.
    pub(crate) fn new(
        sum: SetOperation,
        database: u8,
        sets: &[Option<CollectionHeader>],
    ) -> SetOperationState {
        let has_all = sets.iter().all(Option::is_some);
        let is_over = match sum {
            SetOperation::Union => false,
            SetOperation::Intersection => !has_all,
            SetOperation::Difference => sets.first().is_none_or(Option::is_none),
        };
        let mut sets: Vec<CollectionHeader> = sets.iter().flatten().copied().collect();
        if sum == SetOperation::Intersection {
            // The first set's members are read and looked up in the other sets, so begin with the
            // smallest set.
            sets.sort_by_key(|set| set.count);
        }
        SetOperationState {
            sum,
            database,
            is_over: is_over || sets.is_empty(),
            sets,
            from: Vec::new(),
        }
    }

    /// Returns the next page of members, or `None` after the last page. A page may be empty.
    pub(super) fn next_page(&mut self, source: &impl SetSource) -> Result<Option<MemberPage>, CommandError> {
        if self.is_over {
            return Ok(None);
        }
        match self.sum {
            SetOperation::Union => self.union_page(source),
            SetOperation::Intersection => self.filtered_page(source, true),
            SetOperation::Difference => self.filtered_page(source, false),
        }
        .map(Some)
    }

    /// Returns the next members of one set, beginning at the current position.
    fn some(&self, source: &impl SetSource, set: &CollectionHeader) -> Result<MemberPage, CommandError> {
        let whole = format::elements(self.database, set.number);
        let mut start = whole.clone();
        start.extend_from_slice(&self.from);
        let (mut page, mut bytes) = (MemberPage::new(), 0);
        source.keys((start, format::behind(&whole)), &mut |key| {
            let part = key.get(format::ELEMENT_PREFIX..).unwrap_or_default();
            bytes += part.len();
            page.push(part.to_vec());
            page.len() < AT_ONCE && bytes < PAGE
        })?;
        Ok(page)
    }

    /// Advances the position just past the member `last`, that is, to `last` followed by a zero
    /// byte.
    fn go_on_behind(&mut self, last: &[u8]) {
        self.from.clear();
        self.from.extend_from_slice(last);
        self.from.push(0);
    }

    fn union_page(&mut self, source: &impl SetSource) -> Result<MemberPage, CommandError> {
        let mut all = MemberPage::new();
        // The pages read from the sets are complete only up to the smallest of their last members.
        // Members after it belong to a later page.
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

    fn filtered_page(&mut self, source: &impl SetSource, wanted: bool) -> Result<MemberPage, CommandError> {
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

/// The rest of a set operation's reply, after the number of members has been sent.
struct SetOperationTail {
    data: Keyspace,
    db: alluvium::Db,
    combination: SetOperationState,
    moment: Option<SetSnapshot>,
}

/// Returns an object that writes all members of a set operation as the rest of a reply.
pub(super) fn tail(store: &ServerStore, combination: SetOperationState) -> Box<dyn ReplyTail> {
    Box::new(SetOperationTail {
        data: store.data.clone(),
        db: store.db.clone(),
        combination,
        moment: None,
    })
}

impl ReplyTail for SetOperationTail {
    fn begin(&mut self) {
        self.moment = Some(SetSnapshot {
            data: self.data.clone(),
            snapshot: self.db.snapshot(),
        });
    }

    fn write(&mut self, reply: &mut ReplyWriter<'_>) -> Result<ReplyProgress, CommandError> {
        let _may_wait = wait_hooks::may_wait();
        let Some(moment) = &self.moment else {
            return Ok(ReplyProgress::Whole);
        };
        match self.combination.next_page(moment)? {
            None => Ok(ReplyProgress::Whole),
            Some(page) => {
                page.iter().for_each(|part| reply.bulk(member(part)));
                Ok(ReplyProgress::More)
            }
        }
    }
}

//! Paged reads of the members of several sets. Members of sets and of sorted sets are both ordered
//! by hash, so a page begins where the last one ended.

use super::ScoredMember;
use crate::error::CommandError;
use crate::store::model::format::{self, InnerKey};
use crate::store::model::{CollectionHeader, CollectionKind};
use crate::store::{CommandTransaction, WalkDirection};
use std::collections::VecDeque;

/// Memory of all pages together in bytes, and members per page.
const BYTES: usize = 1 << 20;
const MEMBERS: usize = 1024;

/// A set operation on sorted sets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SortedSetOperation {
    Union,
    Intersection,
    Difference,
}

/// The aggregation of a member's scores.
#[derive(Clone, Copy)]
pub(super) enum ScoreAggregate {
    Sum,
    Least,
    Most,
}

impl ScoreAggregate {
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            // The sum of opposite infinities is NaN and becomes 0.
            ScoreAggregate::Sum => not_nan(one + other),
            ScoreAggregate::Least => one.min(other),
            ScoreAggregate::Most => one.max(other),
        }
    }
}

fn not_nan(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// Sets, some of which may be missing, with the weights of their scores.
pub(super) type WeightedSets = Vec<(Option<CollectionHeader>, f64)>;

/// Returns the part of an element key before the hash of the member.
fn prefix(database: u8, set: &CollectionHeader) -> InnerKey {
    let mut prefix = format::sorted_place_key(database, set.number, 0);
    if set.kind == CollectionKind::Set {
        prefix = format::place_key(database, set.number, 0);
    }
    prefix.truncate(prefix.len() - size_of::<u64>());
    prefix
}

/// Returns the member from the part of a key after that prefix.
fn member(part: &[u8]) -> &[u8] {
    part.get(size_of::<u64>()..).unwrap_or_default()
}

/// Returns the score of an element; 1 for plain sets.
fn score_of(set: &CollectionHeader, value: &[u8]) -> Result<f64, CommandError> {
    match set.kind {
        CollectionKind::Set => Ok(1.0),
        _ => Ok(format::decode_score(value)?),
    }
}

/// A walk over the members of one set, by the part of their keys after the set's number.
struct MemberCursor {
    set: CollectionHeader,
    weight: f64,
    prefix: InnerKey,
    from: Vec<u8>,
    /// The current page: members with weighted scores.
    page: VecDeque<ScoredMember>,
    bytes: usize,
    is_over: bool,
}

impl MemberCursor {
    /// Starts a walk with a memory limit for its page, in bytes.
    fn new(database: u8, set: CollectionHeader, weight: f64, bytes: usize) -> MemberCursor {
        MemberCursor {
            set,
            weight,
            prefix: prefix(database, &set),
            from: Vec::new(),
            page: VecDeque::new(),
            bytes,
            is_over: false,
        }
    }

    /// Reads the next page if the current one is empty.
    fn fill(&mut self, transaction: &CommandTransaction<'_>) -> Result<(), CommandError> {
        if !self.page.is_empty() || self.is_over {
            return Ok(());
        }
        let mut start = self.prefix.clone();
        start.extend_from_slice(&self.from);
        let mut bytes = 0;
        let mut scan = transaction.scan(start, format::behind(&self.prefix), WalkDirection::Forward);
        self.is_over = true;
        while let Some((key, value)) = scan.next()? {
            let part = key.get(self.prefix.len()..).unwrap_or_default();
            let score = not_nan(self.weight * score_of(&self.set, &value)?);
            bytes += part.len() + size_of::<ScoredMember>();
            self.page.push_back((part.to_vec(), score));
            if self.page.len() == MEMBERS || bytes > self.bytes {
                self.is_over = false;
                self.from.clear();
                self.from.extend_from_slice(part);
                self.from.push(0);
                break;
            }
        }
        Ok(())
    }
}

/// Returns the scores of some members in another set.
fn scores_in(
    transaction: &CommandTransaction<'_>,
    set: &CollectionHeader,
    page: &[ScoredMember],
) -> Result<Vec<Option<f64>>, CommandError> {
    let prefix = prefix(transaction.database, set);
    let key = |(part, _): &ScoredMember| {
        let mut key = prefix.clone();
        key.extend_from_slice(part);
        key
    };
    let keys: Vec<InnerKey> = page.iter().map(key).collect();
    let found = transaction.multi_get(&keys)?;
    let score = |value: Option<Vec<u8>>| value.map(|value| score_of(set, &value)).transpose();
    found.into_iter().map(score).collect()
}

/// Calls `each` with the result of a set operation in hash order, until it asks to stop.
pub(super) fn visit(
    transaction: &CommandTransaction<'_>,
    mut sets: WeightedSets,
    sum: SortedSetOperation,
    aggregate: ScoreAggregate,
    mut each: impl FnMut(&[u8], f64) -> Result<VisitControl, CommandError>,
) -> Result<(), CommandError> {
    if sum != SortedSetOperation::Difference {
        // As in Redis, scores are added from the smallest set to the largest.
        sets.sort_by_key(|(set, _)| set.map_or(0, |set| set.count));
    }
    if sum == SortedSetOperation::Union {
        return union(transaction, &sets, aggregate, each);
    }
    let Some((Some(first), weight)) = sets.first().copied() else {
        return Ok(());
    };
    let others = &sets[1..];
    if sum == SortedSetOperation::Intersection && others.iter().any(|(set, _)| set.is_none()) {
        return Ok(());
    }
    let mut walk = MemberCursor::new(transaction.database, first, weight, BYTES);
    loop {
        walk.fill(transaction)?;
        let mut page: Vec<ScoredMember> = walk.page.drain(..).collect();
        if page.is_empty() {
            return Ok(());
        }
        for (set, weight) in others {
            let Some(set) = set else { continue };
            let mut scores = scores_in(transaction, set, &page)?.into_iter();
            page.retain_mut(|(_, joined)| match (scores.next().flatten(), sum) {
                (Some(score), SortedSetOperation::Intersection) => {
                    *joined = aggregate.of(*joined, not_nan(weight * score));
                    true
                }
                (found, _) => found.is_none() && sum == SortedSetOperation::Difference,
            });
        }
        for (part, score) in &page {
            if each(member(part), *score)? == VisitControl::Stops {
                return Ok(());
            }
        }
    }
}

/// Whether the visitor wants more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum VisitControl {
    GoesOn,
    Stops,
}

fn union(
    transaction: &CommandTransaction<'_>,
    sets: &WeightedSets,
    aggregate: ScoreAggregate,
    mut each: impl FnMut(&[u8], f64) -> Result<VisitControl, CommandError>,
) -> Result<(), CommandError> {
    let share = BYTES / sets.len().max(1);
    let there = sets.iter().filter_map(|(set, weight)| Some(((*set)?, *weight)));
    let mut walks: Vec<MemberCursor> = there
        .map(|(set, weight)| MemberCursor::new(transaction.database, set, weight, share))
        .collect();
    loop {
        for walk in &mut walks {
            walk.fill(transaction)?;
        }
        let parts = walks.iter().filter_map(|walk| Some(&walk.page.front()?.0));
        let Some(next) = parts.min().cloned() else {
            return Ok(());
        };
        let mut joined = None;
        for walk in &mut walks {
            if walk.page.front().is_some_and(|(part, _)| *part == next)
                && let Some((_, score)) = walk.page.pop_front()
            {
                joined = Some(joined.map_or(score, |joined| aggregate.of(joined, score)));
            }
        }
        if let Some(score) = joined
            && each(member(&next), score)? == VisitControl::Stops
        {
            return Ok(());
        }
    }
}

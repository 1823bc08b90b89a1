//! Computes set operations page by page from the members of several sets. Both sets and sorted sets
//! have their members in hash order, so each page can begin where the previous one ended.

use super::ScoredMember;
use crate::error::CommandError;
use crate::store::model::format::{self, InnerKey};
use crate::store::model::{CollectionHeader, CollectionKind};
use crate::store::{CommandTransaction, WalkDirection};
use std::collections::VecDeque;

/// Maximum memory for the pages of all sets in bytes, and maximum number of members in a page.
const BYTES: usize = 1 << 20;
const MEMBERS: usize = 1024;

/// A set operation on sorted sets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SortedSetOperation {
    Union,
    Intersection,
    Difference,
}

/// How to combine a member's scores from several sets.
#[derive(Clone, Copy)]
pub(super) enum ScoreAggregate {
    Sum,
    Least,
    Most,
}

impl ScoreAggregate {
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            // The sum of opposite infinities is NaN; replace it with 0.
            ScoreAggregate::Sum => not_nan(one + other),
            ScoreAggregate::Least => one.min(other),
            ScoreAggregate::Most => one.max(other),
        }
    }
}

fn not_nan(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// The input sets with the weights of their scores. `None` stands for a nonexistent set.
pub(super) type WeightedSets = Vec<(Option<CollectionHeader>, f64)>;

/// Returns the part of an element key before the member's hash. All members of a set share it.
fn prefix(database: u8, set: &CollectionHeader) -> InnerKey {
    let mut prefix = format::sorted_place_key(database, set.number, 0);
    if set.kind == CollectionKind::Set {
        prefix = format::place_key(database, set.number, 0);
    }
    prefix.truncate(prefix.len() - size_of::<u64>());
    prefix
}

/// Extracts the member from the part of an element key after this prefix.
fn member(part: &[u8]) -> &[u8] {
    part.get(size_of::<u64>()..).unwrap_or_default()
}

/// Returns the score stored with an element, or 1 for an element of a plain set.
fn score_of(set: &CollectionHeader, value: &[u8]) -> Result<f64, CommandError> {
    match set.kind {
        CollectionKind::Set => Ok(1.0),
        _ => Ok(format::decode_score(value)?),
    }
}

/// An iterator over a set's members in hash order. It represents a member by the part of its key
/// after the common prefix.
struct MemberCursor {
    set: CollectionHeader,
    weight: f64,
    prefix: InnerKey,
    from: Vec<u8>,
    /// The current page's members that have not been consumed yet, with their weighted scores.
    page: VecDeque<ScoredMember>,
    bytes: usize,
    is_over: bool,
}

impl MemberCursor {
    /// Creates an iterator whose pages use at most about `bytes` bytes.
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

    /// Reads the next page once the current one has been consumed.
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

/// Looks up members in another set. Returns their scores there, or `None` for missing ones.
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

/// Computes a set operation. Calls `each` with every member of the result and its score, in hash
/// order, until `each` asks to stop.
pub(super) fn visit(
    transaction: &CommandTransaction<'_>,
    mut sets: WeightedSets,
    sum: SortedSetOperation,
    aggregate: ScoreAggregate,
    mut each: impl FnMut(&[u8], f64) -> Result<VisitControl, CommandError>,
) -> Result<(), CommandError> {
    if sum != SortedSetOperation::Difference {
        // As in Redis, combine scores from the smallest set to the largest, because the order
        // affects rounding.
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

/// Whether the caller of an iteration wants more members.
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

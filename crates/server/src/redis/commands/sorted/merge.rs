//! Paged reads of the members of several sets. Members of sets and of sorted sets are both ordered
//! by hash, so a page begins where the last one ended.

use super::Scored;
use crate::error::Failure;
use crate::store::model::format::{self, InnerKey};
use crate::store::model::{Collection, Kind};
use crate::store::{Direction, Transaction};
use std::collections::VecDeque;

/// Memory of all pages together in bytes, and members per page.
const BYTES: usize = 1 << 20;
const MEMBERS: usize = 1024;

/// A set operation on sorted sets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sum {
    Union,
    Intersection,
    Difference,
}

/// The aggregation of a member's scores.
#[derive(Clone, Copy)]
pub(super) enum Aggregate {
    Sum,
    Least,
    Most,
}

impl Aggregate {
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            // The sum of opposite infinities is NaN and becomes 0.
            Aggregate::Sum => not_nan(one + other),
            Aggregate::Least => one.min(other),
            Aggregate::Most => one.max(other),
        }
    }
}

fn not_nan(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// Sets, some of which may be missing, with the weights of their scores.
pub(super) type Inputs = Vec<(Option<Collection>, f64)>;

/// Returns the part of an element key before the hash of the member.
fn prefix(database: u8, set: &Collection) -> InnerKey {
    let mut prefix = format::sorted_place_key(database, set.number, 0);
    if set.kind == Kind::Set {
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
fn score_of(set: &Collection, value: &[u8]) -> Result<f64, Failure> {
    match set.kind {
        Kind::Set => Ok(1.0),
        _ => Ok(format::decode_score(value)?),
    }
}

/// A walk over the members of one set, by the part of their keys after the set's number.
struct Walk {
    set: Collection,
    weight: f64,
    prefix: InnerKey,
    from: Vec<u8>,
    /// The current page: members with weighted scores.
    page: VecDeque<Scored>,
    bytes: usize,
    is_over: bool,
}

impl Walk {
    /// Starts a walk with a memory limit for its page, in bytes.
    fn new(database: u8, set: Collection, weight: f64, bytes: usize) -> Walk {
        Walk {
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
    fn fill(&mut self, transaction: &Transaction<'_>) -> Result<(), Failure> {
        if !self.page.is_empty() || self.is_over {
            return Ok(());
        }
        let mut start = self.prefix.clone();
        start.extend_from_slice(&self.from);
        let mut bytes = 0;
        let mut scan = transaction.scan(start, format::behind(&self.prefix), Direction::Forward);
        self.is_over = true;
        while let Some((key, value)) = scan.next()? {
            let part = key.get(self.prefix.len()..).unwrap_or_default();
            let score = not_nan(self.weight * score_of(&self.set, &value)?);
            bytes += part.len() + size_of::<Scored>();
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
    transaction: &Transaction<'_>,
    set: &Collection,
    page: &[Scored],
) -> Result<Vec<Option<f64>>, Failure> {
    let prefix = prefix(transaction.database, set);
    let key = |(part, _): &Scored| {
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
    transaction: &Transaction<'_>,
    mut sets: Inputs,
    sum: Sum,
    aggregate: Aggregate,
    mut each: impl FnMut(&[u8], f64) -> Result<Next, Failure>,
) -> Result<(), Failure> {
    if sum != Sum::Difference {
        // As in Redis, scores are added from the smallest set to the largest.
        sets.sort_by_key(|(set, _)| set.map_or(0, |set| set.count));
    }
    if sum == Sum::Union {
        return union(transaction, &sets, aggregate, each);
    }
    let Some((Some(first), weight)) = sets.first().copied() else {
        return Ok(());
    };
    let others = &sets[1..];
    if sum == Sum::Intersection && others.iter().any(|(set, _)| set.is_none()) {
        return Ok(());
    }
    let mut walk = Walk::new(transaction.database, first, weight, BYTES);
    loop {
        walk.fill(transaction)?;
        let mut page: Vec<Scored> = walk.page.drain(..).collect();
        if page.is_empty() {
            return Ok(());
        }
        for (set, weight) in others {
            let Some(set) = set else { continue };
            let mut scores = scores_in(transaction, set, &page)?.into_iter();
            page.retain_mut(|(_, joined)| match (scores.next().flatten(), sum) {
                (Some(score), Sum::Intersection) => {
                    *joined = aggregate.of(*joined, not_nan(weight * score));
                    true
                }
                (found, _) => found.is_none() && sum == Sum::Difference,
            });
        }
        for (part, score) in &page {
            if each(member(part), *score)? == Next::Stops {
                return Ok(());
            }
        }
    }
}

/// Whether the visitor wants more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    GoesOn,
    Stops,
}

fn union(
    transaction: &Transaction<'_>,
    sets: &Inputs,
    aggregate: Aggregate,
    mut each: impl FnMut(&[u8], f64) -> Result<Next, Failure>,
) -> Result<(), Failure> {
    let share = BYTES / sets.len().max(1);
    let there = sets.iter().filter_map(|(set, weight)| Some(((*set)?, *weight)));
    let mut walks: Vec<Walk> = there
        .map(|(set, weight)| Walk::new(transaction.database, set, weight, share))
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
            && each(member(&next), score)? == Next::Stops
        {
            return Ok(());
        }
    }
}

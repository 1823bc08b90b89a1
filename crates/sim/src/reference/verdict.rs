//! Describes how contents violate the promises when no allowed history explains them.

use super::{CommitStatus, CrashHistory, PromiseSnapshot, ReferenceModel, StoreContents};
use std::fmt;
use std::fmt::Write as _;

/// Maximum number of keys named in the description of a violation.
const NAMED_KEYS: usize = 4;

/// The kind of promise that was broken, as far as the contents show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ViolationKind {
    /// A commit is missing that had to survive.
    Lost,
    /// Only some of the writes of a batch are present.
    HalfBatch,
    /// A key is present that a surviving commit deleted.
    Reappeared,
    /// A commit is missing, but a later one is present.
    Hole,
    /// A key has a value that no commit wrote to it.
    Foreign,
}

impl fmt::Display for ViolationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ViolationKind::Lost => "a commit is lost",
            ViolationKind::HalfBatch => "half a batch is there",
            ViolationKind::Reappeared => "a deleted key is back",
            ViolationKind::Hole => "a commit is missing before one that is there",
            ViolationKind::Foreign => "a value that was never written",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromiseViolation {
    pub wrong: ViolationKind,
    /// A description of the affected keys and commits.
    pub details: String,
}

impl fmt::Display for PromiseViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.wrong, self.details)
    }
}

impl std::error::Error for PromiseViolation {}

impl PromiseViolation {
    pub(super) fn describe(
        reference: &ReferenceModel,
        view: &PromiseSnapshot,
        crash: CrashHistory,
        found: &StoreContents,
    ) -> PromiseViolation {
        let nearest = nearest_prefix(reference, view, crash, found);
        let wrong = classify(reference, view, nearest, found);
        let mut details = format!(
            "of {} commits the first {} are durable; nearest is the state after {nearest}",
            view.newest(),
            view.durable
        );
        let keys = differing(reference, nearest, found);
        for key in keys.iter().take(NAMED_KEYS) {
            let _ = write!(
                details,
                "; key {}: found {}, expected {}",
                key.escape_ascii(),
                origin(reference, view, key, found.pairs.get(*key).copied()),
                origin(reference, view, key, reference.value_at(key, nearest)),
            );
        }
        if keys.len() > NAMED_KEYS {
            let _ = write!(details, "; and {} more keys", keys.len() - NAMED_KEYS);
        }
        PromiseViolation { wrong, details }
    }
}

fn differing<'a>(reference: &'a ReferenceModel, prefix: usize, found: &'a StoreContents) -> Vec<&'a [u8]> {
    let strange = found
        .pairs
        .keys()
        .filter(|key| !reference.versions.contains_key(*key));
    let all = reference.versions.keys().chain(strange);
    all.filter(|key| reference.value_at(key, prefix) != found.pairs.get(*key).copied())
        .map(|key| &key[..])
        .collect()
}

/// Returns the length of the allowed prefix whose state differs from the contents in the fewest
/// keys.
fn nearest_prefix(
    reference: &ReferenceModel,
    view: &PromiseSnapshot,
    crash: CrashHistory,
    found: &StoreContents,
) -> usize {
    let lowest = if crash.is_power_loss() {
        view.durable
    } else {
        view.newest()
    };
    let distance = |&prefix: &usize| differing(reference, prefix, found).len();
    (lowest..=view.newest()).rev().min_by_key(distance).unwrap_or(0)
}

fn classify(
    reference: &ReferenceModel,
    view: &PromiseSnapshot,
    nearest: usize,
    found: &StoreContents,
) -> ViolationKind {
    let written = |key: &[u8], value| {
        let versions = reference.versions.get(key);
        versions.is_some_and(|versions| versions.iter().any(|(_, version)| *version == Some(value)))
    };
    if found.pairs.iter().any(|(key, value)| !written(key, *value)) {
        return ViolationKind::Foreign;
    }
    if reference.prefixes[..view.durable.max(nearest)].contains(&found.hash) {
        return ViolationKind::Lost;
    }
    // Look for a commit for which one key has the written value and another does not, although no
    // later commit wrote to either.
    for (index, commit) in reference.commits.iter().enumerate() {
        let number = index + 1;
        let untouched = |key: &[u8]| {
            reference.versions[key]
                .last()
                .is_some_and(|(last, _)| *last == number)
        };
        let mut there = 0;
        let mut missing = 0;
        for (key, value) in commit.writes.iter().filter(|(key, _)| untouched(key)) {
            let before = reference.value_at(key, number - 1);
            match found.pairs.get(key).copied() {
                now if now == before && before == *value => {}
                now if now == *value => there += 1,
                _ => missing += 1,
            }
        }
        if there > 0 && missing > 0 {
            return ViolationKind::HalfBatch;
        }
    }
    let deleted = |key: &&[u8]| reference.value_at(key, nearest).is_none() && found.pairs.contains_key(*key);
    let newer = |key: &[u8]| {
        reference.versions[key]
            .last()
            .is_some_and(|(last, _)| *last > nearest)
    };
    if differing(reference, nearest, found)
        .iter()
        .any(|key| deleted(key) && !newer(key))
    {
        return ViolationKind::Reappeared;
    }
    // A commit that was not durable is missing, but a later write is present, so the history has a
    // hole.
    let numbers = found
        .pairs
        .iter()
        .filter_map(|(key, value)| number_of(reference, key, Some(*value)));
    let last = numbers.max().unwrap_or(0);
    let missing = differing(reference, last, found);
    let mut missing = missing
        .iter()
        .filter_map(|key| number_of(reference, key, reference.value_at(key, last)));
    if missing.any(|number| number < last && number > view.durable) {
        return ViolationKind::Hole;
    }
    ViolationKind::Lost
}

/// Returns the number of the newest commit that wrote this value to this key.
fn number_of(reference: &ReferenceModel, key: &[u8], value: Option<u64>) -> Option<usize> {
    let mut versions = reference.versions.get(key)?.iter().rev();
    versions
        .find(|(_, version)| *version == value)
        .map(|(number, _)| *number)
}

/// Describes the commit that wrote a key's value.
fn origin(reference: &ReferenceModel, view: &PromiseSnapshot, key: &[u8], value: Option<u64>) -> String {
    let Some(versions) = reference.versions.get(key) else {
        return "a key that was never written".to_owned();
    };
    match versions.iter().rev().find(|(_, version)| *version == value) {
        Some((0, _)) => "its value in the base".to_owned(),
        Some((number, version)) => {
            let what = if version.is_some() {
                "the value"
            } else {
                "the delete"
            };
            let status = match view.statuses.get(number - 1) {
                None => "later than the crash".to_owned(),
                Some(CommitStatus::InFlight) => "in flight".to_owned(),
                Some(CommitStatus::InDoubt) => "in doubt".to_owned(),
                Some(CommitStatus::Acknowledged(durability)) => format!("acknowledged at {durability:?}"),
            };
            format!("{what} of commit {number} ({status})")
        }
        None if value.is_none() => "nothing".to_owned(),
        None => "a value never written to it".to_owned(),
    }
}

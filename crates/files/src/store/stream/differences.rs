//! Which records of a file system differ between two snapshots of it.

use crate::error::Result;
use crate::operations::damaged;
use crate::records::format::{self, InodeRecord};
use crate::records::{FileKeyspaces, RecordSpace};
use alluvium::{Change, Db, Snapshot};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use super::format::StreamRecord;

/// Most bytes of changed keys that are collected from the log. Beyond it, all records are compared.
/// Not a tuning parameter.
const MOST_COLLECTED: usize = 64 << 20;

/// Records to be compared.
#[derive(Clone, Debug)]
struct RecordRange {
    space: RecordSpace,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
}

/// Compares two snapshots, in parts.
#[derive(Debug)]
pub(super) struct DifferenceWalk {
    spaces: FileKeyspaces,
    before: Option<Snapshot>,
    now: Snapshot,
    /// What is still to be compared, the next last.
    ranges: Vec<RecordRange>,
    /// Whether inodes that differ lead to their blocks. Otherwise the ranges contain all blocks
    /// that may differ.
    follows_inodes: bool,
}

/// Receives records that differ, as they are in the newer snapshot, until it breaks.
type DifferenceVisitor<'v> = dyn FnMut(StreamRecord<'_>) -> ControlFlow<()> + 'v;

/// Returns whether a record is one of its store, and not of the files.
fn is_local(space: RecordSpace, key: &[u8]) -> bool {
    space == RecordSpace::System
        && [format::HEADER_KEY, format::GENERATION_KEY, format::COPY_KEY].contains(&key)
}

impl DifferenceWalk {
    /// Begins a walk over all records of a snapshot.
    pub(super) fn of_all(spaces: &FileKeyspaces, now: Snapshot) -> DifferenceWalk {
        DifferenceWalk {
            spaces: spaces.clone(),
            before: None,
            now,
            ranges: whole(&RecordSpace::ALL),
            follows_inodes: false,
        }
    }

    /// Begins a walk over what differs. It reads the changed records only, if the log still has
    /// all commits between the snapshots. Otherwise it compares all records, and the blocks of
    /// inodes that differ.
    pub(super) fn between(
        db: &Db,
        spaces: &FileKeyspaces,
        before: Snapshot,
        now: Snapshot,
    ) -> Result<DifferenceWalk> {
        let logged = logged_ranges(db, spaces, &before, &now)?;
        let follows_inodes = logged.is_none();
        let ranges = logged.unwrap_or_else(|| {
            let others = RecordSpace::ALL.into_iter();
            let others: Vec<_> = others.filter(|space| !space.has_blocks()).collect();
            whole(&others)
        });
        Ok(DifferenceWalk {
            spaces: spaces.clone(),
            before: Some(before),
            now,
            ranges,
            follows_inodes,
        })
    }

    /// Returns whether the log had all changes, so that nothing else is read.
    #[cfg(test)]
    pub(super) fn is_from_log(&self) -> bool {
        self.before.is_some() && !self.follows_inodes
    }

    /// Goes on until `visit` breaks, and returns whether the end is reached.
    pub(super) fn walk(&mut self, visit: &mut DifferenceVisitor<'_>) -> Result<bool> {
        while let Some(range) = self.ranges.pop() {
            if self.compare(range, visit)?.is_break() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Compares the records of a range. What it leaves is pushed back.
    fn compare(&mut self, range: RecordRange, visit: &mut DifferenceVisitor<'_>) -> Result<ControlFlow<()>> {
        let RecordRange { space, low, high } = range;
        let keyspace = self.spaces.of(space).clone();
        let bounds = (
            Bound::Included(&low[..]),
            high.as_deref().map_or(Bound::Unbounded, Bound::Excluded),
        );
        let mut new = self.now.range::<&[u8]>(&keyspace, bounds);
        let mut old = self
            .before
            .as_ref()
            .map(|before| before.range::<&[u8]>(&keyspace, bounds));
        let mut next_new = new.next().transpose()?;
        let mut next_old = old.as_mut().and_then(Iterator::next).transpose()?;
        loop {
            let is_old = match (&next_new, &next_old) {
                (None, None) => return Ok(ControlFlow::Continue(())),
                (Some((key, value)), Some((old_key, old_value))) if key == old_key => {
                    if value == old_value {
                        next_new = new.next().transpose()?;
                        next_old = old.as_mut().and_then(Iterator::next).transpose()?;
                        continue;
                    }
                    false
                }
                (Some((key, _)), Some((old_key, _))) => old_key < key,
                (new, _) => new.is_none(),
            };
            let (key, value) = match is_old {
                true => (next_old.as_ref().map(|record| &record.0), None),
                false => (
                    next_new.as_ref().map(|record| &record.0),
                    next_new.as_ref().map(|record| &record.1),
                ),
            };
            let Some(key) = key.cloned() else {
                return Ok(ControlFlow::Continue(()));
            };
            let mut flow = ControlFlow::Continue(());
            if !is_local(space, &key) {
                let value = value.map(|value| &value[..]);
                flow = visit(StreamRecord {
                    space,
                    key: &key,
                    value,
                });
            }
            let follows = self.follows_inodes && space == RecordSpace::Inodes;
            if flow.is_break() || follows {
                let sides = [&next_old, &next_new].into_iter().flatten();
                let sides = sides.filter(|(of, _)| follows && *of == key);
                let mut blocks = sides
                    .map(|(_, value)| blocks_of(&key, value))
                    .collect::<Result<Vec<_>>>()?;
                // The locality of an inode does not change, and its compression may.
                blocks.dedup_by(|one, other| one.space == other.space);
                let low = [&key[..], &[0]].concat();
                self.ranges.push(RecordRange { space, low, high });
                self.ranges.append(&mut blocks);
                return Ok(flow);
            }
            let had_both = next_old.as_ref().is_some_and(|(old_key, _)| *old_key == key);
            if had_both {
                next_old = old.as_mut().and_then(Iterator::next).transpose()?;
            }
            if !is_old {
                next_new = new.next().transpose()?;
            }
        }
    }
}

fn whole(spaces: &[RecordSpace]) -> Vec<RecordRange> {
    let ranges = spaces.iter().rev().map(|&space| RecordRange {
        space,
        low: Vec::new(),
        high: None,
    });
    ranges.collect()
}

/// Returns where the blocks of an inode are.
fn blocks_of(key: &[u8], value: &[u8]) -> Result<RecordRange> {
    let damage = |damage| damaged(RecordSpace::Inodes, key, damage);
    let inode = format::owner_of(RecordSpace::Inodes, key).map_err(damage)?;
    let record = InodeRecord::decode(value).map_err(damage)?;
    let locality = &record.locality;
    Ok(RecordRange {
        space: record.block_space(),
        low: format::block_key(locality, inode, 0),
        high: format::blocks_end(locality, inode),
    })
}

/// Ranges of keys by keyspace, each with the end of the range that begins at a key.
type CollectedRanges = BTreeMap<u8, BTreeMap<Vec<u8>, Option<Vec<u8>>>>;

/// Returns the ranges that the commits between two snapshots have changed, or `None` if the log
/// does not have all of these commits any more or they are too many.
fn logged_ranges(
    db: &Db,
    spaces: &FileKeyspaces,
    before: &Snapshot,
    now: &Snapshot,
) -> Result<Option<Vec<RecordRange>>> {
    let is_gone = |error: &alluvium::Error| matches!(error, alluvium::Error::ChangesGone { .. });
    let commits = match db.changes_since(before.sequence()) {
        Err(error) if is_gone(&error) => return Ok(None),
        commits => commits?,
    };
    let mut collected = CollectedRanges::new();
    let mut bytes = 0;
    for commit in commits {
        let commit = match commit {
            Err(error) if is_gone(&error) => return Ok(None),
            commit => commit?,
        };
        if commit.sequence > now.sequence() {
            break;
        }
        for change in commit.changes {
            let Some((keyspace, low, high)) = changed_range(change) else {
                return Ok(None);
            };
            let Some(space) = spaces.named(&keyspace) else {
                continue;
            };
            bytes += low.len() + high.as_ref().map_or(0, Vec::len) + 64;
            if bytes > MOST_COLLECTED {
                return Ok(None);
            }
            let ranges = collected.entry(space as u8).or_default();
            let end = ranges.entry(low).or_insert_with(|| high.clone());
            // `None` is beyond every key.
            let is_longer = match (&high, &*end) {
                (None, _) => true,
                (Some(high), Some(end)) => high > end,
                (Some(_), None) => false,
            };
            if is_longer {
                *end = high;
            }
        }
    }
    let mut ranges = Vec::new();
    for (space, of_space) in collected {
        ranges.extend(disjoint(RecordSpace::ALL[usize::from(space)], of_space));
    }
    ranges.reverse();
    Ok(Some(ranges))
}

/// Returns the keyspace and the keys that a change may have changed, or `None` for changes that
/// this version does not know.
fn changed_range(change: Change) -> Option<(String, Vec<u8>, Option<Vec<u8>>)> {
    let after = |key: &[u8]| Some([key, &[0]].concat());
    Some(match change {
        Change::Put { keyspace, key, .. }
        | Change::Delete { keyspace, key }
        | Change::DeleteAt { keyspace, key, .. }
        | Change::Merge { keyspace, key, .. } => {
            let end = after(&key);
            (keyspace, key, end)
        }
        Change::DeleteRange { keyspace, start, end } => (keyspace, start, end),
        Change::Ingest {
            keyspace,
            first,
            last,
        } => (keyspace, first, after(&last)),
        _ => return None,
    })
}

/// Joins ranges of a keyspace that overlap.
fn disjoint(space: RecordSpace, ranges: BTreeMap<Vec<u8>, Option<Vec<u8>>>) -> Vec<RecordRange> {
    let mut joined: Vec<RecordRange> = Vec::new();
    for (low, high) in ranges {
        if let Some(last) = joined.last_mut()
            && last.high.as_ref().is_none_or(|end| low <= *end)
        {
            let is_longer = match (&high, &last.high) {
                (_, None) => false,
                (None, Some(_)) => true,
                (Some(high), Some(end)) => high > end,
            };
            if is_longer {
                last.high = high;
            }
            continue;
        }
        joined.push(RecordRange { space, low, high });
    }
    joined
}

//! What a branch has changed, by paths.

use super::registry;
use crate::error::Result;
use crate::operations::FileReader;
use crate::overlay::{PathChange, PathChangeKind};
use crate::records::branch::format::{self, BranchRecordKind};
use crate::records::branch::{BaseRecords, BranchRecords, damaged_branch};
use crate::records::format::{self as files, InodeRecord};
use crate::records::{ReadDependence, ReadRecords, RecordSpace, WalkedValues};
use crate::store::conflict;
use crate::store::shared::FileStore;
use crate::types::{FileKind, Inode, Timestamp};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The paths of directories that were asked for.
type KnownPaths = HashMap<Inode, Option<Vec<u8>>>;

/// What a branch shows and what it began with.
struct BranchComparison<'c> {
    now: FileReader<'c>,
    before: FileReader<'c>,
    paths_now: KnownPaths,
    paths_before: KnownPaths,
    changes: Vec<PathChange>,
}

/// Returns the paths that a branch has added, changed and removed, in order.
pub(crate) fn changes(origin: &Arc<FileStore>, name: &str) -> Result<Vec<PathChange>> {
    let store = registry::open(origin, name)?;
    let Some(branch) = &store.branch else {
        return Ok(Vec::new());
    };
    let snapshot = origin.db.snapshot();
    let records = branch.records(&snapshot)?;
    let base = BaseRecords {
        base: &branch.base,
        spaces: &branch.spaces,
    };
    let block_bytes = store.layout.block_bytes;
    let mut comparison = BranchComparison {
        now: FileReader {
            records: &records,
            block_bytes,
        },
        before: FileReader {
            records: &base,
            block_bytes,
        },
        paths_now: KnownPaths::new(),
        paths_before: KnownPaths::new(),
        changes: Vec::new(),
    };
    let mut touched = BTreeMap::new();
    let (low, high) = format::all_records(branch.number);
    let own = snapshot.range(&branch.spaces.branches, low..high);
    for record in own.without_long_values() {
        let (key, value) = record?;
        let damage = |damage| damaged_branch(&key, damage);
        let (space, of) = format::split_record_key(&key).map_err(damage)?;
        if format::decode_kind(&value).map_err(damage)? == BranchRecordKind::Depended {
            continue;
        }
        let (inode, rest) = match space {
            RecordSpace::Counts | RecordSpace::Times | RecordSpace::System => continue,
            _ => files::split_key(of).map_err(damage)?,
        };
        match space {
            RecordSpace::Names => comparison.compare_name(inode, rest)?,
            // Blocks and attributes change with their inodes, whose record may be the same.
            RecordSpace::Inodes => drop(touched.entry(inode).or_insert(false)),
            _ => drop(touched.insert(inode, true)),
        }
    }
    let inodes = comparison.changed_inodes(touched)?;
    comparison.name_inodes(inodes, &records)?;
    let mut changes = comparison.changes;
    changes.sort();
    changes.dedup_by(|second, first| second.path == first.path);
    Ok(changes)
}

fn path_in(known: &mut KnownPaths, reader: &FileReader<'_>, inode: Inode) -> Option<Vec<u8>> {
    known
        .entry(inode)
        .or_insert_with(|| conflict::path_of(reader, inode))
        .clone()
}

impl BranchComparison<'_> {
    fn add(&mut self, path: Option<Vec<u8>>, name: &[u8], change: PathChangeKind, kind: FileKind) {
        self.changes.extend(path.map(|path| PathChange {
            path: conflict::joined(path, name),
            change,
            is_directory: kind == FileKind::Directory,
        }));
    }

    fn compare_name(&mut self, directory: Inode, name: &[u8]) -> Result<()> {
        let untracked = ReadDependence::Untracked;
        let now = self.now.entry(directory, name, untracked)?;
        let before = self.before.entry(directory, name, untracked)?;
        let (change, kind) = match (now, before) {
            (None, None) => return Ok(()),
            (Some((inode, _)), Some((same, _))) if inode == same => return Ok(()),
            (Some((_, kind)), None) => (PathChangeKind::Added, kind),
            (Some((_, kind)), Some(_)) => (PathChangeKind::Changed, kind),
            (None, Some((_, kind))) => (PathChangeKind::Removed, kind),
        };
        let path = match change {
            PathChangeKind::Removed => path_in(&mut self.paths_before, &self.before, directory),
            _ => path_in(&mut self.paths_now, &self.now, directory),
        };
        self.add(path, name, change, kind);
        Ok(())
    }

    /// Returns those of the inodes that exist before and after, and differ.
    fn changed_inodes(&self, touched: BTreeMap<Inode, bool>) -> Result<BTreeSet<Inode>> {
        let mut changed = BTreeSet::new();
        for (inode, has_other_changes) in touched {
            let key = files::inode_key(inode);
            let read = |reader: &FileReader<'_>| {
                let untracked = ReadDependence::Untracked;
                match reader.records.get(RecordSpace::Inodes, &key, untracked)? {
                    Some(_) => reader.load(inode, untracked).map(Some),
                    None => Ok(None),
                }
            };
            let (Some(now), Some(before)) = (read(&self.now)?, read(&self.before)?) else {
                continue;
            };
            let is_there = now.links > 0;
            if is_there && (has_other_changes || comparable(now) != comparable(before)) {
                changed.insert(inode);
            }
        }
        Ok(changed)
    }

    /// Notes changed inodes by their paths. A name by which an inode was known may be gone; then
    /// all names are searched.
    fn name_inodes(&mut self, inodes: BTreeSet<Inode>, records: &BranchRecords<'_>) -> Result<()> {
        let mut nameless = BTreeSet::new();
        for inode in inodes {
            let kind = self.now.load(inode, ReadDependence::Untracked)?.kind;
            match conflict::path_of(&self.now, inode) {
                Some(path) => self.add(Some(path), b"", PathChangeKind::Changed, kind),
                None => drop(nameless.insert(inode)),
            }
        }
        if nameless.is_empty() {
            return Ok(());
        }
        let mut found = Vec::new();
        let (space, values) = (RecordSpace::Names, WalkedValues::All);
        records.walk(space, b"", None, values, &mut |key, value| {
            if let (Ok((directory, name)), Ok((inode, kind))) =
                (files::split_key(key), files::decode_entry(value))
                && nameless.remove(&inode)
            {
                found.push((directory, name.to_vec(), kind));
            }
            match nameless.is_empty() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        for (directory, name, kind) in found {
            let path = path_in(&mut self.paths_now, &self.now, directory);
            self.add(path, &name, PathChangeKind::Changed, kind);
        }
        Ok(())
    }
}

/// Returns what makes an inode another one for a reader of its contents and attributes.
fn comparable(record: InodeRecord) -> InodeRecord {
    InodeRecord {
        links: 1,
        changed: Timestamp::default(),
        known_as: (0, Vec::new()),
        ..record
    }
}

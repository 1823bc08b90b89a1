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
    changed: BTreeSet<Vec<u8>>,
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
            streams: None,
        },
        before: FileReader {
            records: &base,
            block_bytes,
            streams: None,
        },
        paths_now: KnownPaths::new(),
        paths_before: KnownPaths::new(),
        changed: BTreeSet::new(),
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
            RecordSpace::Blocks | RecordSpace::Compressed => {
                (files::owner_of(space, of).map_err(damage)?, &[][..])
            }
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
    let mut changes = Vec::new();
    for path in &comparison.changed {
        changes.extend(comparison.change_of(path)?);
    }
    Ok(changes)
}

fn path_in(known: &mut KnownPaths, reader: &FileReader<'_>, inode: Inode) -> Option<Vec<u8>> {
    known
        .entry(inode)
        .or_insert_with(|| conflict::path_of(reader, inode))
        .clone()
}

impl BranchComparison<'_> {
    fn add(&mut self, path: Option<Vec<u8>>, name: &[u8]) {
        self.changed.extend(path.map(|path| conflict::joined(path, name)));
    }

    /// Returns how a path has changed: by whether it exists before and after.
    fn change_of(&self, path: &[u8]) -> Result<Option<PathChange>> {
        let (before, now) = (kind_at(&self.before, path)?, kind_at(&self.now, path)?);
        let (change, kind) = match (before, now) {
            (None, None) => return Ok(None),
            (None, Some(kind)) => (PathChangeKind::Added, kind),
            (Some(_), Some(kind)) => (PathChangeKind::Changed, kind),
            (Some(kind), None) => (PathChangeKind::Removed, kind),
        };
        Ok(Some(PathChange {
            path: path.to_vec(),
            change,
            is_directory: kind == FileKind::Directory,
        }))
    }

    fn compare_name(&mut self, directory: Inode, name: &[u8]) -> Result<()> {
        let untracked = ReadDependence::Untracked;
        let now = self.now.entry(directory, name, untracked)?;
        let before = self.before.entry(directory, name, untracked)?;
        let number = |entry: Option<(Inode, FileKind)>| entry.map(|(inode, _)| inode);
        if number(now) == number(before) {
            return Ok(());
        }
        let path = match now {
            Some(_) => path_in(&mut self.paths_now, &self.now, directory),
            None => path_in(&mut self.paths_before, &self.before, directory),
        };
        self.add(path, name);
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
            match conflict::path_of(&self.now, inode) {
                Some(path) => self.add(Some(path), b""),
                None => drop(nameless.insert(inode)),
            }
        }
        if nameless.is_empty() {
            return Ok(());
        }
        let mut found = Vec::new();
        let (space, values) = (RecordSpace::Names, WalkedValues::All);
        records.walk(space, b"", None, values, &mut |key, value| {
            if let (Ok((directory, name)), Ok((inode, _))) =
                (files::split_key(key), files::decode_entry(value))
                && nameless.remove(&inode)
            {
                found.push((directory, name.to_vec()));
            }
            match nameless.is_empty() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        for (directory, name) in found {
            let path = path_in(&mut self.paths_now, &self.now, directory);
            self.add(path, &name);
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

/// Returns the kind of the inode at a path, without following symbolic links.
fn kind_at(reader: &FileReader<'_>, path: &[u8]) -> Result<Option<FileKind>> {
    let mut at = (Inode::ROOT, FileKind::Directory);
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        match reader.entry(at.0, name, ReadDependence::Untracked)? {
            Some(found) => at = found,
            None => return Ok(None),
        }
    }
    Ok(Some(at.1))
}

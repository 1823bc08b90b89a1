//! Verification of a whole file system.

use crate::error::Result;
use crate::operations::FileLayout;
use crate::records::format::{self, DamagedRecord, InodeRecord};
use crate::records::{ReadDependence, ReadRecords, RecordSpace, WalkedValues};
use crate::types::{FileKind, Inode};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;

/// Most findings that a report lists.
const MOST_FINDINGS: usize = 1000;

/// What [`Files::check`](crate::Files::check) has found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FilesReport {
    /// Number of directories.
    pub directories: u64,
    /// Number of other inodes.
    pub files: u64,
    /// Number of names.
    pub names: u64,
    /// Number of stored blocks.
    pub blocks: u64,
    /// Sum of the sizes of regular files, in bytes.
    pub bytes: u64,
    /// Number of inodes without names, which are removed once no view holds them.
    pub orphans: u64,
    /// Number of branches. The other numbers do not include what they have changed.
    pub branches: u64,
    /// What is wrong, one sentence each, at most 1,000.
    pub findings: Vec<String>,
}

impl FilesReport {
    /// Returns whether nothing is wrong.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.findings.is_empty()
    }

    pub(crate) fn find(&mut self, finding: String) {
        if self.findings.len() < MOST_FINDINGS {
            self.findings.push(finding);
        }
    }
}

impl fmt::Display for FilesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} directories, {} files, {} names, {} bytes in {} blocks and inodes, {} orphans",
            self.directories, self.files, self.names, self.bytes, self.blocks, self.orphans
        )?;
        if self.branches > 0 {
            writeln!(f, "{} open transactions (branches)", self.branches)?;
        }
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        match self.is_whole() {
            true => writeln!(f, "nothing is wrong"),
            false => Ok(()),
        }
    }
}

/// An inode as far as the check has seen it.
struct SeenInode {
    record: InodeRecord,
    names: u64,
    subdirectories: i64,
    /// The directory and the name of the last entry that refers to it.
    place: Option<(Inode, Vec<u8>)>,
    is_orphan: bool,
    blocks: u64,
}

/// The state of a check.
pub(crate) struct FilesCheck<'c> {
    records: &'c dyn ReadRecords,
    layout: FileLayout,
    /// The first inode number that was not handed out, unless the records tell it.
    next: Option<u64>,
    inodes: HashMap<Inode, SeenInode>,
    report: FilesReport,
}

/// Verifies a file system, and reads all of its records. `next` is the first inode number that was
/// not handed out, if the records do not tell it.
pub(crate) fn check(records: &dyn ReadRecords, layout: FileLayout, next: Option<u64>) -> Result<FilesReport> {
    let mut check = FilesCheck {
        records,
        layout,
        next,
        inodes: HashMap::new(),
        report: FilesReport::default(),
    };
    check.read_inodes()?;
    check.read_names()?;
    check.read_system()?;
    check.read_counts()?;
    check.read_times()?;
    check.read_blocks(RecordSpace::Blocks)?;
    check.read_blocks(RecordSpace::Compressed)?;
    check.read_extended()?;
    check.compare_inodes();
    check.follow_parents();
    Ok(check.report)
}

impl FilesCheck<'_> {
    fn find(&mut self, finding: String) {
        self.report.find(finding);
    }

    /// Visits all records of a keyspace. What cannot be decoded is a finding.
    fn each(
        &mut self,
        space: RecordSpace,
        mut visit: impl FnMut(&mut Self, &[u8], &[u8]) -> std::result::Result<(), DamagedRecord>,
    ) -> Result<()> {
        let records = self.records;
        records.walk(space, b"", None, WalkedValues::All, &mut |key, value| {
            if let Err(damage) = visit(self, key, value) {
                let finding = format!(
                    "the record \"{}\" of {} {}",
                    key.escape_ascii(),
                    space.suffix(),
                    damage.what
                );
                self.find(finding);
            }
            ControlFlow::Continue(())
        })
    }

    fn read_inodes(&mut self) -> Result<()> {
        self.each(RecordSpace::Inodes, |check, key, value| {
            let (inode, _) = format::split_key(key)?;
            let mut record = InodeRecord::decode(value)?;
            // Only whether contents stand in the inode matters, not what they are.
            record.inline = record.inline.map(|_| Vec::new());
            match record.kind {
                FileKind::Directory => check.report.directories += 1,
                _ => check.report.files += 1,
            }
            if record.kind == FileKind::Regular {
                check.report.bytes += record.size;
            }
            let seen = SeenInode {
                record,
                names: 0,
                subdirectories: 0,
                place: None,
                is_orphan: false,
                blocks: 0,
            };
            check.inodes.insert(inode, seen);
            Ok(())
        })?;
        match self.inodes.get(&Inode::ROOT).map(|root| root.record.kind) {
            Some(FileKind::Directory) => (),
            _ => self.find("there is no root directory".to_owned()),
        }
        Ok(())
    }

    fn read_names(&mut self) -> Result<()> {
        self.each(RecordSpace::Names, |check, key, value| {
            let (parent, name) = format::split_key(key)?;
            let (inode, kind) = format::decode_entry(value)?;
            check.report.names += 1;
            let shown = format!("\"{}\" in directory {}", name.escape_ascii(), parent.0);
            if crate::operations::check_name(name).is_err() {
                check.find(format!("{shown} cannot be a name"));
            }
            match check.inodes.get_mut(&parent) {
                Some(directory) if directory.record.kind == FileKind::Directory => {
                    directory.subdirectories += i64::from(kind == FileKind::Directory);
                    if directory.record.links == 0 {
                        check.find(format!("{shown} lies in a directory that was removed"));
                    }
                }
                _ => check.find(format!("{shown} lies in an inode that is no directory")),
            }
            match check.inodes.get_mut(&inode) {
                None => check.find(format!(
                    "{shown} refers to inode {}, which does not exist",
                    inode.0
                )),
                Some(seen) => {
                    seen.names += 1;
                    seen.place = Some((parent, name.to_vec()));
                    if seen.record.kind != kind {
                        let is = seen.record.kind;
                        check.find(format!("{shown} says {kind:?}, but inode {} is {is:?}", inode.0));
                    }
                }
            }
            Ok(())
        })
    }

    fn read_system(&mut self) -> Result<()> {
        let mut next = None;
        self.each(RecordSpace::System, |check, key, value| {
            match key.first() {
                Some(b'o') => {
                    let inode = format::lettered_inode(key)?;
                    format::decode_orphan(value)?;
                    check.report.orphans += 1;
                    match check.inodes.get_mut(&inode) {
                        Some(seen) => seen.is_orphan = true,
                        None => check.find(format!("the orphan {} does not exist", inode.0)),
                    }
                }
                Some(b'p') => {
                    check.compare_place(format::lettered_inode(key)?, format::decode_parent(value)?);
                }
                Some(b'n') => next = Some(format::decode_number(value)?),
                Some(b'g') => drop(format::decode_number(value)?),
                Some(b'h') => drop(format::HeaderRecord::decode(value)?),
                Some(b's') => drop(format::decode_stamp(value)?),
                Some(b'c') if value.is_empty() => {}
                _ => check.find(format!(
                    "the system has an unknown record \"{}\"",
                    key.escape_ascii()
                )),
            }
            Ok(())
        })?;
        let next = self.next.or(next);
        let last = self.inodes.keys().max().copied().unwrap_or(Inode::ROOT);
        if last > Inode::ROOT && next.is_none_or(|next| last.0 >= next) {
            self.find(format!("the number of inode {} was never handed out", last.0));
        }
        Ok(())
    }

    fn compare_place(&mut self, inode: Inode, place: (Inode, &[u8])) {
        let seen = self.inodes.get(&inode);
        let entry = seen.and_then(|seen| seen.place.as_ref());
        if entry.is_none_or(|(parent, name)| *parent != place.0 || name != place.1) {
            let finding = format!(
                "directory {} is said to be \"{}\" in directory {}, and has another name or none",
                inode.0,
                place.1.escape_ascii(),
                place.0.0
            );
            self.find(finding);
        }
    }

    fn read_counts(&mut self) -> Result<()> {
        let mut counted = HashMap::new();
        self.each(RecordSpace::Counts, |_, key, value| {
            counted.insert(format::split_key(key)?.0, format::decode_count(value)?);
            Ok(())
        })?;
        let wrong: Vec<String> = self
            .inodes
            .iter()
            .filter(|(_, seen)| seen.record.kind == FileKind::Directory)
            .filter_map(|(inode, seen)| {
                let count = counted.remove(inode).unwrap_or(0);
                let is = seen.subdirectories;
                (count != is).then(|| {
                    format!(
                        "directory {} counts {count} subdirectories, and has {is}",
                        inode.0
                    )
                })
            })
            .collect();
        wrong.into_iter().for_each(|finding| self.find(finding));
        for inode in counted.into_keys() {
            self.find(format!(
                "subdirectories of inode {} are counted, which is no directory",
                inode.0
            ));
        }
        Ok(())
    }

    fn read_times(&mut self) -> Result<()> {
        self.each(RecordSpace::Times, |check, key, value| {
            let (inode, _) = format::split_key(key)?;
            format::decode_ordered_time(value)?;
            let kind = check.inodes.get(&inode).map(|seen| seen.record.kind);
            if kind != Some(FileKind::Directory) {
                check.find(format!(
                    "inode {} has the times of a directory, and is none",
                    inode.0
                ));
            }
            Ok(())
        })
    }

    fn read_blocks(&mut self, space: RecordSpace) -> Result<()> {
        let bytes = self.layout.block_bytes;
        self.each(space, |check, key, value| {
            let (locality, inode, block) = format::split_block_key(key)?;
            check.report.blocks += 1;
            let Some(seen) = check.inodes.get_mut(&inode) else {
                check.find(format!(
                    "block {block} belongs to inode {}, which does not exist",
                    inode.0
                ));
                return Ok(());
            };
            if locality != seen.record.locality.as_bytes() {
                check.find(format!(
                    "block {block} of inode {} stands among those of other files",
                    inode.0
                ));
                return Ok(());
            }
            if space != seen.record.block_space() {
                check.find(format!(
                    "block {block} of inode {} is among those that are {}compressed",
                    inode.0,
                    if space == RecordSpace::Compressed {
                        ""
                    } else {
                        "not "
                    }
                ));
                return Ok(());
            }
            seen.blocks += 1;
            let record = &seen.record;
            let most = record.size.saturating_sub(block.saturating_mul(bytes)).min(bytes);
            let is_last = record.size.div_ceil(bytes) == block + 1;
            let (tail, is_inline) = (record.tail as usize, record.inline.is_some());
            if is_inline || most == 0 || value.len() as u64 > most {
                check.find(format!(
                    "block {block} of inode {} has {} bytes beyond the end of the file",
                    inode.0,
                    value.len()
                ));
            }
            if is_last && tail > 0 && tail != value.len() {
                check.find(format!(
                    "inode {} says that {tail} bytes of its last block are stored, and {} are",
                    inode.0,
                    value.len()
                ));
            }
            Ok(())
        })
    }

    fn read_extended(&mut self) -> Result<()> {
        self.each(RecordSpace::Extended, |check, key, _| {
            let (inode, name) = format::split_key(key)?;
            let seen = check.inodes.get(&inode);
            if seen.is_none_or(|seen| !seen.record.is_extended) {
                check.find(format!(
                    "inode {} has an attribute \"{}\" that it does not know of",
                    inode.0,
                    name.escape_ascii()
                ));
            }
            Ok(())
        })
    }

    fn compare_inodes(&mut self) {
        let mut findings = Vec::new();
        for (inode, seen) in &self.inodes {
            let (number, record) = (inode.0, &seen.record);
            let is_directory = record.kind == FileKind::Directory;
            let names = match *inode {
                Inode::ROOT => 1,
                _ => seen.names,
            };
            if u64::from(record.links) != names {
                findings.push(format!(
                    "inode {number} counts {} names, and has {names}",
                    record.links
                ));
            }
            if (names == 0) != seen.is_orphan {
                findings.push(format!(
                    "inode {number} has {names} names, and {} in the list of orphans",
                    if seen.is_orphan {
                        "stands"
                    } else {
                        "does not stand"
                    }
                ));
            }
            if record.blocks != seen.blocks {
                findings.push(format!(
                    "inode {number} counts {} blocks, and has {}",
                    record.blocks, seen.blocks
                ));
            }
            if is_directory && (record.inline.is_some() || record.size > 0) {
                findings.push(format!("directory {number} has contents"));
            }
        }
        findings.sort_unstable();
        findings.into_iter().for_each(|finding| self.find(finding));
    }

    /// Verifies that every directory lies below the root, where its place says.
    fn follow_parents(&mut self) {
        // Directories that are known to lie below the root.
        let mut known: HashMap<Inode, bool> = HashMap::from([(Inode::ROOT, true)]);
        let mut findings = Vec::new();
        let directories = self
            .inodes
            .iter()
            .filter(|(_, seen)| seen.record.kind == FileKind::Directory && seen.record.links > 0);
        for (&inode, _) in directories {
            let (mut at, mut way) = (inode, Vec::new());
            let is_below = loop {
                if let Some(&is_below) = known.get(&at) {
                    break is_below;
                }
                // A directory on the way again is a circle.
                known.insert(at, false);
                way.push(at);
                match self.inodes.get(&at).and_then(|seen| seen.place.as_ref()) {
                    Some((parent, _)) => at = *parent,
                    None => break false,
                }
            };
            if !is_below {
                findings.push(format!("directory {} does not lie below the root", inode.0));
            }
            known.extend(way.into_iter().map(|directory| (directory, is_below)));
        }
        for (&inode, seen) in &self.inodes {
            let is_directory = seen.record.kind == FileKind::Directory && seen.record.links > 0;
            let key = format::parent_key(inode);
            if is_directory && inode != Inode::ROOT {
                let untracked = ReadDependence::Untracked;
                let place = self.records.get(RecordSpace::System, &key, untracked);
                if place.is_ok_and(|place| place.is_none()) {
                    findings.push(format!("directory {} has no place", inode.0));
                }
            }
        }
        findings.into_iter().for_each(|finding| self.find(finding));
    }
}

//! Operations that read names and contents.

use super::streams::FileStreams;
use super::{FileReader, check_name, damaged, invalid, is_a_directory, not_found};
use crate::error::{Error, ErrorKind, Result};
use crate::records::format::{self, InodeRecord};
use crate::records::locality::Locality;
use crate::records::{ReadDependence, RecordSpace, WalkedValues};
use crate::types::{Attributes, DirectoryEntry, FileKind, Inode, SeekTarget};
use std::ops::{ControlFlow, Range};

/// Number of blocks that are read together.
/// Tuning: `64` since 2026-11-29.
const BLOCKS_AT_ONCE: u64 = 64;

/// Bytes of each file that are read ahead in a stream of files.
/// Tuning: `64 << 10` since 2026-11-30.
const BYTES_AHEAD: u64 = 64 << 10;

impl FileReader<'_> {
    pub(crate) fn lookup(&self, parent: Inode, name: &[u8]) -> Result<Attributes> {
        check_name(name)?;
        if let Some((inode, _)) = self.entry(parent, name, ReadDependence::Isolated)? {
            return self.attributes(inode);
        }
        self.load_directory(parent, ReadDependence::Isolated)?;
        Err(not_found(parent, name))
    }

    /// Returns an error unless an inode exists.
    pub(crate) fn require(&self, inode: Inode) -> Result<()> {
        self.load(inode, ReadDependence::Untracked).map(drop)
    }

    pub(crate) fn parent(&self, directory: Inode) -> Result<Inode> {
        if directory == Inode::ROOT {
            return Ok(directory);
        }
        self.load_directory(directory, ReadDependence::Isolated)?;
        Ok(self.place(directory, ReadDependence::Isolated)?.0)
    }

    /// Returns the directory that contains a directory, and the name that it has there.
    pub(crate) fn place(&self, directory: Inode, depends: ReadDependence) -> Result<(Inode, Vec<u8>)> {
        let key = format::parent_key(directory);
        let Some(place) = self.records.get(RecordSpace::System, &key, depends)? else {
            let message = format!("directory {} has been removed", directory.0);
            return Err(Error::new(ErrorKind::Stale, message));
        };
        let (parent, name) =
            format::decode_parent(&place).map_err(|damage| damaged(RecordSpace::System, &key, damage))?;
        Ok((parent, name.to_vec()))
    }

    pub(crate) fn read_link(&self, inode: Inode) -> Result<Vec<u8>> {
        let record = self.load(inode, ReadDependence::Isolated)?;
        match record.kind {
            FileKind::Symlink => Ok(record.inline.unwrap_or_default()),
            _ => Err(invalid(format!("inode {} is no symbolic link", inode.0))),
        }
    }

    /// Returns the record of a regular file.
    pub(crate) fn load_file(&self, inode: Inode, depends: ReadDependence) -> Result<InodeRecord> {
        let record = self.load(inode, depends)?;
        match record.kind {
            FileKind::Regular => Ok(record),
            FileKind::Directory => Err(is_a_directory(inode)),
            _ => Err(invalid(format!("inode {} is no regular file", inode.0))),
        }
    }

    /// Replaces the contents of `out` by a range of a file.
    pub(crate) fn read(&self, inode: Inode, offset: u64, length: usize, out: &mut Vec<u8>) -> Result<()> {
        let record = self.load_file(inode, ReadDependence::Isolated)?;
        if offset == 0
            && let Some(streams) = self.streams
        {
            // An error would be that of another file.
            let _ = match record.locality.is_empty() {
                true => streams
                    .note(inode)
                    .map_or(Ok(()), |next| self.bring(next, &record)),
                false => self.bring_along(streams, inode, &record),
            };
        }
        self.read_contents(inode, &record, offset, length, out)
    }

    /// Brings the records and the beginnings of files into memory that follow `read`.
    fn bring(&self, inodes: Range<u64>, read: &InodeRecord) -> Result<()> {
        let keys: Vec<Vec<u8>> = inodes
            .clone()
            .map(|inode| format::inode_key(Inode(inode)).to_vec())
            .collect();
        self.records.get_many(RecordSpace::Inodes, &keys)?;
        let blocks = 0..(BYTES_AHEAD / self.block_bytes).max(1);
        let keys: Vec<Vec<u8>> = inodes
            .flat_map(|inode| {
                blocks
                    .clone()
                    .map(move |block| format::block_key(&Locality::default(), Inode(inode), block))
            })
            .collect();
        self.records.get_many(read.block_space(), &keys)?;
        Ok(())
    }

    /// If files are read in the order of their paths, brings the blocks that follow into memory.
    fn bring_along(&self, streams: &FileStreams, inode: Inode, record: &InodeRecord) -> Result<()> {
        if record.blocks == 0 {
            return Ok(());
        }
        let first = format::block_key(&record.locality, inode, 0);
        let end = format::blocks_end(&record.locality, inode).unwrap_or_default();
        let Some(ahead) = streams.note_blocks(record.is_compressed, &first, &end) else {
            return Ok(());
        };
        // A scan reads values that lie together at once, which single lookups do not.
        let (mut brought, mut last) = (0, Vec::new());
        let (space, values) = (record.block_space(), WalkedValues::About(ahead.bytes));
        self.records
            .walk(space, &ahead.from, None, values, &mut |key, value| {
                brought += value.len();
                last.clear();
                last.extend_from_slice(key);
                match brought < ahead.bytes {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            })?;
        streams.note_brought(record.is_compressed, &first, last);
        Ok(())
    }

    pub(crate) fn read_contents(
        &self,
        inode: Inode,
        record: &InodeRecord,
        offset: u64,
        length: usize,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        out.clear();
        let length = record.size.saturating_sub(offset).min(length as u64);
        if length == 0 {
            return Ok(());
        }
        if let Some(contents) = &record.inline {
            let from = usize::try_from(offset).unwrap_or(usize::MAX);
            let rest = contents.get(from..).unwrap_or_default();
            out.extend_from_slice(&rest[..rest.len().min(length as usize)]);
            return Ok(());
        }
        out.reserve(length as usize);
        if record.blocks > 0 {
            self.read_blocks(inode, record, offset..offset + length, out)?;
        }
        out.resize(length as usize, 0);
        Ok(())
    }

    /// Appends the bytes of a file from `offset` to before `end` to `out`, which is empty, up to
    /// the last byte that is stored.
    fn read_blocks(
        &self,
        inode: Inode,
        record: &InodeRecord,
        range: Range<u64>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let (offset, end) = (range.start, range.end);
        let bytes = self.block_bytes;
        let (mut first, last) = (offset / bytes, (end - 1) / bytes);
        while first <= last {
            let until = last.min(first + BLOCKS_AT_ONCE - 1);
            let keys: Vec<Vec<u8>> = (first..=until)
                .map(|block| format::block_key(&record.locality, inode, block))
                .collect();
            let values = self.records.get_many(record.block_space(), &keys)?;
            for (block, value) in (first..=until).zip(values) {
                let Some(value) = value else { continue };
                let start = block * bytes;
                let from = offset.max(start);
                // Blocks that are absent, and the ends of blocks that are not stored, are zeros.
                out.resize((from - offset) as usize, 0);
                let stored = value.get((from - start) as usize..).unwrap_or_default();
                let length = stored.len().min((end - from) as usize);
                out.extend_from_slice(&stored[..length]);
            }
            first = until + 1;
        }
        Ok(())
    }

    pub(crate) fn seek(&self, inode: Inode, offset: u64, target: SeekTarget) -> Result<u64> {
        let record = self.load_file(inode, ReadDependence::Isolated)?;
        self.seek_contents(inode, &record, offset, target)
    }

    pub(crate) fn seek_contents(
        &self,
        inode: Inode,
        record: &InodeRecord,
        offset: u64,
        target: SeekTarget,
    ) -> Result<u64> {
        let nothing = || {
            let message = format!("inode {} has nothing of this kind from {offset} on", inode.0);
            Error::new(ErrorKind::NoSuchOffset, message)
        };
        if offset >= record.size {
            return Err(nothing());
        }
        let is_dense = record.inline.is_some() || record.blocks == record.size.div_ceil(self.block_bytes);
        match (target, is_dense) {
            (SeekTarget::Data, true) => Ok(offset),
            (SeekTarget::Hole, true) => Ok(record.size),
            (SeekTarget::Data, false) => {
                let found = self.next_block(inode, record, offset / self.block_bytes, NextBlock::Stored)?;
                let found = found.map(|block| offset.max(block * self.block_bytes));
                found.filter(|&at| at < record.size).ok_or_else(nothing)
            }
            (SeekTarget::Hole, false) => {
                let found = self.next_block(inode, record, offset / self.block_bytes, NextBlock::Absent)?;
                let at = found.map_or(record.size, |block| {
                    offset.max(block.saturating_mul(self.block_bytes))
                });
                Ok(at.min(record.size))
            }
        }
    }

    /// Returns the first block from `first` on that is stored or absent.
    fn next_block(
        &self,
        inode: Inode,
        record: &InodeRecord,
        first: u64,
        wanted: NextBlock,
    ) -> Result<Option<u64>> {
        let (mut expected, mut found, mut damage) = (first, None, None);
        self.walk_blocks(inode, record, first..u64::MAX, &mut |block| {
            let block = match block {
                Ok(block) => block,
                Err(error) => {
                    damage = Some(error);
                    return ControlFlow::Break(());
                }
            };
            if wanted == NextBlock::Stored {
                found = Some(block);
                return ControlFlow::Break(());
            }
            if block != expected {
                return ControlFlow::Break(());
            }
            expected += 1;
            ControlFlow::Continue(())
        })?;
        match (damage, wanted) {
            (Some(error), _) => Err(error),
            (None, NextBlock::Stored) => Ok(found),
            (None, NextBlock::Absent) => Ok(Some(expected)),
        }
    }

    /// Visits the numbers of the stored blocks from `first` to before `end`.
    fn walk_blocks(
        &self,
        inode: Inode,
        record: &InodeRecord,
        blocks: Range<u64>,
        visit: &mut dyn FnMut(Result<u64>) -> ControlFlow<()>,
    ) -> Result<()> {
        let key = |block| format::block_key(&record.locality, inode, block);
        let (low, high) = (key(blocks.start), key(blocks.end));
        let space = record.block_space();
        self.records
            .walk(space, &low, Some(&high), WalkedValues::Short, &mut |key, _| {
                let block = format::split_block_key(key).map(|(_, _, block)| block);
                visit(block.map_err(|damage| damaged(space, key, damage)))
            })
    }

    /// Returns how many blocks from `first` to before `end` are stored.
    pub(crate) fn count_blocks(
        &self,
        inode: Inode,
        record: &InodeRecord,
        first: u64,
        end: u64,
    ) -> Result<u64> {
        let mut count = 0;
        if first < end {
            self.walk_blocks(inode, record, first..end, &mut |_| {
                count += 1;
                ControlFlow::Continue(())
            })?;
        }
        Ok(count)
    }

    pub(crate) fn read_directory(
        &self,
        directory: Inode,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        let low = match after {
            None => format::name_key(directory, b""),
            // The successor of a key is the same key with a zero byte appended.
            Some(name) => format::name_key(directory, &[name, &[0]].concat()),
        };
        let high = format::inode_end(directory);
        let high = high.as_ref().map(|high| &high[..]);
        let (mut entries, mut damage) = (Vec::new(), None);
        if limit > 0 {
            self.records.walk(
                RecordSpace::Names,
                &low,
                high,
                WalkedValues::All,
                &mut |key, value| {
                    let decoded =
                        format::split_key(key).and_then(|(_, name)| Ok((name, format::decode_entry(value)?)));
                    match decoded {
                        Ok((name, (inode, kind))) => entries.push(DirectoryEntry {
                            name: name.to_vec(),
                            inode,
                            kind,
                        }),
                        Err(found) => damage = Some(damaged(RecordSpace::Names, key, found)),
                    }
                    match damage.is_some() || entries.len() >= limit {
                        true => ControlFlow::Break(()),
                        false => ControlFlow::Continue(()),
                    }
                },
            )?;
        }
        if let Some(damage) = damage {
            return Err(damage);
        }
        if entries.is_empty() {
            self.load_directory(directory, ReadDependence::Isolated)?;
        }
        Ok(entries)
    }
}

/// Which blocks a search finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextBlock {
    Stored,
    Absent,
}

//! Compression of contents, which programs see as an extended attribute.
//!
//! What is created in a directory that has it gets it, too. The blocks of such files are in a
//! keyspace of their own, whose nodes are compressed.

use super::extended::missing;
use super::{FileReader, FileWriter};
use crate::error::{Error, ErrorKind, Result};
use crate::records::format::{self, InodeRecord};
use crate::records::{ReadDependence, WalkedValues};
use crate::types::{FileKind, Inode, SetMode};
use std::ops::ControlFlow;

/// The name of the extended attribute that compresses the contents of a file, or of the files that
/// are created in a directory. Its value is `zstd`; `none` and its removal end the compression.
/// Not a tuning parameter.
pub const COMPRESSION_ATTRIBUTE: &[u8] = b"user.alluvium.compression";

/// The value of the attribute of what is compressed. Not a tuning parameter.
const ZSTD: &[u8] = b"zstd";

/// Bytes of blocks that are moved at a time.
/// Tuning: `1 << 20` since 2026-11-30.
const MOVED_AT_ONCE: usize = 1 << 20;

impl FileReader<'_> {
    pub(super) fn compression(&self, inode: Inode, record: &InodeRecord) -> Result<Vec<u8>> {
        match record.is_compressed {
            true => Ok(ZSTD.to_vec()),
            false => Err(missing(inode, COMPRESSION_ATTRIBUTE)),
        }
    }
}

impl FileWriter<'_> {
    /// Sets the attribute. The contents of a file are written again if it changes.
    pub(super) fn set_compression(&self, inode: Inode, value: &[u8], mode: SetMode) -> Result<()> {
        let is_compressed = match value {
            ZSTD => true,
            b"none" => false,
            _ => {
                let message = format!(
                    "\"{}\" is no compression of files: use zstd or none",
                    value.escape_ascii()
                );
                return Err(Error::new(ErrorKind::InvalidArgument, message));
            }
        };
        let record = self.reader().load(inode, ReadDependence::Update)?;
        if !matches!(record.kind, FileKind::Regular | FileKind::Directory) {
            let message = format!("inode {} is neither a file nor a directory", inode.0);
            return Err(Error::new(ErrorKind::NotSupported, message));
        }
        match (mode, record.is_compressed) {
            (SetMode::Create, true) => {
                let message = format!("inode {} has a compression already", inode.0);
                Err(Error::new(ErrorKind::Exists, message))
            }
            (SetMode::Replace, false) => Err(missing(inode, COMPRESSION_ATTRIBUTE)),
            _ => self.change_compression(inode, &record, is_compressed),
        }
    }

    pub(super) fn remove_compression(&self, inode: Inode) -> Result<()> {
        let record = self.reader().load(inode, ReadDependence::Update)?;
        match record.is_compressed {
            true => self.change_compression(inode, &record, false),
            false => Err(missing(inode, COMPRESSION_ATTRIBUTE)),
        }
    }

    fn change_compression(&self, inode: Inode, before: &InodeRecord, is_compressed: bool) -> Result<()> {
        if before.is_compressed == is_compressed {
            return Ok(());
        }
        let record = InodeRecord {
            is_compressed,
            changed: self.context.now().max(before.changed.next()),
            ..before.clone()
        };
        self.move_blocks(inode, before, &record)?;
        self.save(inode, &record)?;
        match record.kind {
            FileKind::Directory => self.note_time(inode, format::CHANGED),
            _ => Ok(()),
        }
    }

    /// Moves the blocks of a file to the other keyspace.
    fn move_blocks(&self, inode: Inode, before: &InodeRecord, after: &InodeRecord) -> Result<()> {
        if before.blocks == 0 {
            return Ok(());
        }
        let first = format::block_key(&before.locality, inode, 0);
        let end = format::blocks_end(&before.locality, inode);
        let (from, to) = (before.block_space(), after.block_space());
        let mut low = first.clone();
        loop {
            let (mut moved, mut bytes) = (Vec::new(), 0);
            self.records.walk(
                from,
                &low,
                end.as_deref(),
                WalkedValues::All,
                &mut |key, value| {
                    bytes += value.len();
                    moved.push((key.to_vec(), value.to_vec()));
                    match bytes < MOVED_AT_ONCE {
                        true => ControlFlow::Continue(()),
                        false => ControlFlow::Break(()),
                    }
                },
            )?;
            let Some((last, _)) = moved.last() else {
                break;
            };
            low = [&last[..], &[0]].concat();
            for (key, value) in &moved {
                self.records.put(to, key, value)?;
            }
        }
        self.records.delete_range(from, &first, end.as_deref())
    }
}

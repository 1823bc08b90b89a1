//! The encoding of files in keyspaces, format version 2. Version 1 knows no localities.
//!
//! A file system NAME has eight keyspaces, `files.NAME.` with the endings below. Integers in keys
//! are big-endian, so that byte order equals numeric order. I is an inode number (8 bytes). The
//! operators are those of the keyspaces.
//!
//! ```text
//! ENDING      KEY                                      VALUE
//! names       I of the directory, then the name        the entry
//! inodes      I                                        the inode
//! blocks      locality, I, number of the block (8      contents, then zeros to the block's end (append)
//!             bytes)
//! compressed  as blocks                                as blocks, of files whose contents are compressed
//! counts      I of a directory                         number of its subdirectories, 64 bits, signed (add)
//! times       I of a directory, then what happened     the time, for comparison of bytes (maximum)
//!             last: 1 a change of names, 2 a change of
//!             names or attributes, 3 a read
//! attributes  I, then the name of the attribute        the value of the attribute
//! system      'h'                                      the header
//!             'n'                                      the first inode number not handed out (8 bytes)
//!             'g'                                      number of openings of the file system (8 bytes)
//!             'o', I of an inode without names         1: its last name was removed, 2: created without
//!             'p', I of a directory                    I of the directory that contains it, then its name
//!             's'                                      the stamp of the last snapshot (16 bytes)
//!             'c'                                      the files are a copy: the name of a snapshot that
//!                                                      must still be created, or nothing
//! ```
//!
//! Values have little-endian integers. The header:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  "ALLUFILE"
//!      8     2  version
//!     10     4  bytes of a block
//!     14     4  most bytes of contents that stand in the inode
//!     18     1  the order of contents (version 2): 1 by path. Version 1 orders by inode
//! ```
//!
//! An entry of a directory:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  the inode to which the name refers
//!      8     1  its kind: 1 regular, 2 directory, 3 symbolic link, 4 pipe, 5 socket, 6 block device,
//!               7 character device
//! ```
//!
//! An inode. A time is seconds since 1970 (8 bytes, signed) and nanoseconds (4 bytes):
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  kind
//!      1     1  bit 0: the contents stand here; bit 1: the inode may have extended attributes;
//!               bit 2: it has a locality; bit 3: its blocks are in `compressed`, or those of what
//!               is created in it
//!      2     2  permission bits
//!      4     4  user
//!      8     4  group
//!     12     4  number of names; of a directory, 1, or 0 once it is removed
//!     16     8  generation
//!     24     8  size of the contents
//!     32     8  number of blocks
//!     40     4  how many bytes of the last block are stored, 0 if that is unknown
//!     44     8  number of the device
//!     52    12  when it was created
//!     64    12  when it was last read; of a directory, unused
//!     76    12  when its contents last changed; of a directory, unused
//!     88    12  when it last changed; of a directory, unused
//!    100     8  a directory that contained it, 0 for none
//!    108     1  length of the name that it had there
//!    109        that name; if it has a locality, the length of this (1 byte) and this; then the
//!               contents or the target of the symbolic link
//! ```
//!
//! The [locality](locality) of an inode consists of names, each followed by a zero byte.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::RecordSpace;
use super::locality::Locality;
use crate::types::{ContentOrder, FileKind, Inode, Timestamp};
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};

/// The version of this encoding.
pub(crate) const VERSION: u16 = 2;

/// The version whose file systems order contents by path. What is ordered by inode stays readable
/// for version 1.
const BY_PATH: u16 = 2;

/// Returns the version of the header of a new file system.
pub(crate) fn version_of(order: ContentOrder) -> u16 {
    match order {
        ContentOrder::ByInode => 1,
        ContentOrder::ByPath => BY_PATH,
    }
}

const MAGIC: &[u8; 8] = b"ALLUFILE";

/// Longest name in bytes.
pub(crate) const MAX_NAME: usize = 255;

/// The error for a record that this version cannot decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DamagedRecord {
    pub(crate) what: &'static str,
}

impl From<TruncatedInput> for DamagedRecord {
    fn from(_: TruncatedInput) -> DamagedRecord {
        DamagedRecord { what: "ends early" }
    }
}

type Decoded<T> = Result<T, DamagedRecord>;

/// What is stored about a file system as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeaderRecord {
    pub(crate) version: u16,
    pub(crate) block_bytes: u32,
    pub(crate) inline_bytes: u32,
    pub(crate) order: ContentOrder,
}

/// What is stored about an inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InodeRecord {
    pub(crate) kind: FileKind,
    pub(crate) mode: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) links: u32,
    pub(crate) generation: u64,
    pub(crate) size: u64,
    pub(crate) blocks: u64,
    /// Bytes of the last block that are stored, 0 if that is unknown.
    pub(crate) tail: u32,
    pub(crate) device: u64,
    /// Whether there may be extended attributes.
    pub(crate) is_extended: bool,
    pub(crate) created: Timestamp,
    pub(crate) accessed: Timestamp,
    pub(crate) modified: Timestamp,
    pub(crate) changed: Timestamp,
    /// A directory and a name there by which the inode was known. It may be outdated.
    pub(crate) known_as: (u64, Vec<u8>),
    /// Whether its blocks, or those of what is created in it, are compressed.
    pub(crate) is_compressed: bool,
    /// Where its blocks, or those of the files in it, stand among those of others.
    pub(crate) locality: Locality,
    /// The contents or the target, if they stand in this record.
    pub(crate) inline: Option<Vec<u8>>,
}

/// Whether an orphan had a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrphanKind {
    Unlinked,
    Unnamed,
}

fn kind_number(kind: FileKind) -> u8 {
    match kind {
        FileKind::Regular => 1,
        FileKind::Directory => 2,
        FileKind::Symlink => 3,
        FileKind::Pipe => 4,
        FileKind::Socket => 5,
        FileKind::BlockDevice => 6,
        FileKind::CharacterDevice => 7,
    }
}

fn kind_of(number: u8) -> Decoded<FileKind> {
    Ok(match number {
        1 => FileKind::Regular,
        2 => FileKind::Directory,
        3 => FileKind::Symlink,
        4 => FileKind::Pipe,
        5 => FileKind::Socket,
        6 => FileKind::BlockDevice,
        7 => FileKind::CharacterDevice,
        _ => {
            return Err(DamagedRecord {
                what: "has an unknown kind",
            });
        }
    })
}

fn write_time(writer: &mut ByteWriter<'_>, time: Timestamp) {
    writer.u64(time.seconds as u64).u32(time.nanoseconds);
}

fn read_time(reader: &mut ByteReader<'_>) -> Decoded<Timestamp> {
    Ok(Timestamp {
        seconds: reader.u64()? as i64,
        nanoseconds: reader.u32()?,
    })
}

impl HeaderRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        ByteWriter::new(&mut out)
            .bytes(MAGIC)
            .u16(self.version)
            .u32(self.block_bytes)
            .u32(self.inline_bytes);
        if self.version >= BY_PATH {
            out.push(1);
        }
        out
    }

    /// Decodes a header. Of a newer version, only the version is meaningful.
    pub(crate) fn decode(bytes: &[u8]) -> Decoded<HeaderRecord> {
        let mut reader = ByteReader::new(bytes);
        if reader.take(MAGIC.len())? != MAGIC {
            return Err(DamagedRecord {
                what: "begins with other bytes",
            });
        }
        let version = reader.u16()?;
        if version > VERSION {
            return Ok(HeaderRecord {
                version,
                block_bytes: 0,
                inline_bytes: 0,
                order: ContentOrder::ByInode,
            });
        }
        let (block_bytes, inline_bytes) = (reader.u32()?, reader.u32()?);
        if !block_bytes.is_power_of_two() || block_bytes < 512 {
            return Err(DamagedRecord {
                what: "has an impossible block size",
            });
        }
        let order = match version {
            ..BY_PATH => ContentOrder::ByInode,
            _ => match reader.u8()? {
                1 => ContentOrder::ByPath,
                _ => {
                    return Err(DamagedRecord {
                        what: "has an unknown order of contents",
                    });
                }
            },
        };
        Ok(HeaderRecord {
            version,
            block_bytes,
            inline_bytes,
            order,
        })
    }
}

impl InodeRecord {
    /// Returns the keyspace of its blocks.
    pub(crate) fn block_space(&self) -> RecordSpace {
        match self.is_compressed {
            true => RecordSpace::Compressed,
            false => RecordSpace::Blocks,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let inline = self.inline.as_deref().unwrap_or_default();
        let name = &self.known_as.1;
        let name = name.get(..MAX_NAME).unwrap_or(name);
        let locality = self.locality.as_bytes();
        let flags = [
            self.inline.is_some(),
            self.is_extended,
            !locality.is_empty(),
            self.is_compressed,
        ];
        let flags = flags
            .iter()
            .rev()
            .fold(0, |flags, flag| flags << 1 | u8::from(*flag));
        let mut out = Vec::with_capacity(110 + name.len() + locality.len() + inline.len());
        let mut writer = ByteWriter::new(&mut out);
        writer
            .u8(kind_number(self.kind))
            .u8(flags)
            .u16(self.mode as u16)
            .u32(self.user)
            .u32(self.group)
            .u32(self.links)
            .u64(self.generation)
            .u64(self.size)
            .u64(self.blocks)
            .u32(self.tail)
            .u64(self.device);
        for time in [self.created, self.accessed, self.modified, self.changed] {
            write_time(&mut writer, time);
        }
        writer.u64(self.known_as.0).u8(name.len() as u8).bytes(name);
        if !locality.is_empty() {
            writer.u8(locality.len() as u8).bytes(locality);
        }
        writer.bytes(inline);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Decoded<InodeRecord> {
        let mut reader = ByteReader::new(bytes);
        let kind = kind_of(reader.u8()?)?;
        let flags = reader.u8()?;
        if flags > 15 {
            return Err(DamagedRecord {
                what: "has unknown flags",
            });
        }
        let (is_inline, is_extended, has_locality) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
        let record = InodeRecord {
            kind,
            mode: u32::from(reader.u16()?),
            user: reader.u32()?,
            group: reader.u32()?,
            links: reader.u32()?,
            generation: reader.u64()?,
            size: reader.u64()?,
            blocks: reader.u64()?,
            tail: reader.u32()?,
            device: reader.u64()?,
            is_extended,
            created: read_time(&mut reader)?,
            accessed: read_time(&mut reader)?,
            modified: read_time(&mut reader)?,
            changed: read_time(&mut reader)?,
            known_as: (reader.u64()?, Vec::new()),
            is_compressed: flags & 8 != 0,
            locality: Locality::default(),
            inline: None,
        };
        let length = usize::from(reader.u8()?);
        let name = reader.take(length)?.to_vec();
        let locality = match has_locality {
            true => {
                let length = usize::from(reader.u8()?);
                Locality::decode(reader.take(length)?)?
            }
            false => Locality::default(),
        };
        let rest = reader.take(reader.remaining())?;
        if is_inline && rest.len() as u64 != record.size {
            return Err(DamagedRecord {
                what: "has contents of another size",
            });
        }
        if !is_inline && !rest.is_empty() {
            return Err(DamagedRecord { what: "is too long" });
        }
        Ok(InodeRecord {
            known_as: (record.known_as.0, name),
            locality,
            inline: is_inline.then(|| rest.to_vec()),
            ..record
        })
    }
}

pub(crate) fn inode_key(inode: Inode) -> [u8; 8] {
    inode.0.to_be_bytes()
}

/// Returns the key after all keys that begin with this inode, or `None` if there is none.
pub(crate) fn inode_end(inode: Inode) -> Option<[u8; 8]> {
    inode.0.checked_add(1).map(u64::to_be_bytes)
}

/// Returns the key of a name in a directory, and of an extended attribute of an inode.
pub(crate) fn name_key(inode: Inode, name: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(8 + name.len());
    key.extend_from_slice(&inode.0.to_be_bytes());
    key.extend_from_slice(name);
    key
}

pub(crate) fn block_key(locality: &Locality, inode: Inode, block: u64) -> Vec<u8> {
    let (locality, inode, block) = (locality.as_bytes(), inode.0.to_be_bytes(), block.to_be_bytes());
    [locality, &inode, &block].concat()
}

/// Returns the key after all blocks of an inode, or `None` if there is none.
pub(crate) fn blocks_end(locality: &Locality, inode: Inode) -> Option<Vec<u8>> {
    let inode = inode_end(inode)?;
    Some([locality.as_bytes(), &inode].concat())
}

/// Splits a key that begins with an inode.
pub(crate) fn split_key(key: &[u8]) -> Decoded<(Inode, &[u8])> {
    let (inode, rest) = key.split_first_chunk::<8>().ok_or(DamagedRecord {
        what: "has a short key",
    })?;
    Ok((Inode(u64::from_be_bytes(*inode)), rest))
}

/// Splits the key of a block into locality, inode and number.
pub(crate) fn split_block_key(key: &[u8]) -> Decoded<(&[u8], Inode, u64)> {
    let short = DamagedRecord {
        what: "has a short key",
    };
    let (rest, block) = key.split_last_chunk::<8>().ok_or(short)?;
    let (locality, inode) = rest.split_last_chunk::<8>().ok_or(short)?;
    Ok((
        locality,
        Inode(u64::from_be_bytes(*inode)),
        u64::from_be_bytes(*block),
    ))
}

/// Returns the inode to which a record of blocks, attributes or others belongs.
pub(crate) fn owner_of(space: RecordSpace, key: &[u8]) -> Decoded<Inode> {
    match space {
        RecordSpace::Blocks | RecordSpace::Compressed => Ok(split_block_key(key)?.1),
        RecordSpace::System => lettered_inode(key),
        _ => Ok(split_key(key)?.0),
    }
}

fn decode_big(bytes: &[u8]) -> Decoded<u64> {
    let bytes = bytes.try_into().map_err(|_| DamagedRecord {
        what: "has a number of another length",
    })?;
    Ok(u64::from_be_bytes(bytes))
}

pub(crate) fn entry(inode: Inode, kind: FileKind) -> Vec<u8> {
    let mut out = Vec::with_capacity(9);
    ByteWriter::new(&mut out).u64(inode.0).u8(kind_number(kind));
    out
}

pub(crate) fn decode_entry(bytes: &[u8]) -> Decoded<(Inode, FileKind)> {
    let mut reader = ByteReader::new(bytes);
    Ok((Inode(reader.u64()?), kind_of(reader.u8()?)?))
}

pub(crate) fn count(difference: i64) -> [u8; 8] {
    difference.to_le_bytes()
}

pub(crate) fn decode_count(bytes: &[u8]) -> Decoded<i64> {
    Ok(ByteReader::new(bytes).u64()? as i64)
}

/// The end of the key of the time when a directory's names last changed.
pub(crate) const MODIFIED: u8 = 1;
/// The end of the key of the time when a directory's names or attributes last changed.
pub(crate) const CHANGED: u8 = 2;
/// The end of the key of the time when a directory was last read.
pub(crate) const ACCESSED: u8 = 3;

pub(crate) fn time_key(directory: Inode, which: u8) -> Vec<u8> {
    name_key(directory, &[which])
}

/// Encodes a time so that byte order is the order of time.
pub(crate) fn ordered_time(time: Timestamp) -> [u8; 12] {
    let mut out = [0; 12];
    let seconds = (time.seconds as u64) ^ (1 << 63);
    let bytes = seconds
        .to_be_bytes()
        .into_iter()
        .chain(time.nanoseconds.to_be_bytes());
    for (to, from) in out.iter_mut().zip(bytes) {
        *to = from;
    }
    out
}

pub(crate) fn decode_ordered_time(bytes: &[u8]) -> Decoded<Timestamp> {
    let short = DamagedRecord {
        what: "has a time of another length",
    };
    let (seconds, rest) = bytes.split_first_chunk::<8>().ok_or(short)?;
    let nanoseconds: [u8; 4] = rest.try_into().map_err(|_| short)?;
    Ok(Timestamp {
        seconds: (u64::from_be_bytes(*seconds) ^ (1 << 63)) as i64,
        nanoseconds: u32::from_be_bytes(nanoseconds),
    })
}

pub(crate) const HEADER_KEY: &[u8] = b"h";
pub(crate) const NEXT_KEY: &[u8] = b"n";
pub(crate) const GENERATION_KEY: &[u8] = b"g";
/// Its record is part of the state that it identifies.
pub(crate) const STAMP_KEY: &[u8] = b"s";
/// There while the files are a copy that only streams change.
pub(crate) const COPY_KEY: &[u8] = b"c";
pub(crate) const ORPHANS: &[u8] = b"o";
pub(crate) const ORPHANS_END: &[u8] = b"p";
pub(crate) const PARENTS: &[u8] = b"p";

pub(crate) fn orphan_key(inode: Inode) -> Vec<u8> {
    [ORPHANS, &inode.0.to_be_bytes()].concat()
}

pub(crate) fn parent_key(directory: Inode) -> Vec<u8> {
    [PARENTS, &directory.0.to_be_bytes()].concat()
}

/// Returns the inode in a key that begins with one letter.
pub(crate) fn lettered_inode(key: &[u8]) -> Decoded<Inode> {
    let rest = key.get(1..).unwrap_or_default();
    Ok(Inode(decode_big(rest)?))
}

pub(crate) fn orphan(kind: OrphanKind) -> [u8; 1] {
    match kind {
        OrphanKind::Unlinked => [1],
        OrphanKind::Unnamed => [2],
    }
}

pub(crate) fn decode_orphan(bytes: &[u8]) -> Decoded<OrphanKind> {
    match bytes {
        [1] => Ok(OrphanKind::Unlinked),
        [2] => Ok(OrphanKind::Unnamed),
        _ => Err(DamagedRecord {
            what: "is of an unknown kind",
        }),
    }
}

pub(crate) fn number(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

pub(crate) fn decode_number(bytes: &[u8]) -> Decoded<u64> {
    Ok(ByteReader::new(bytes).u64()?)
}

/// What identifies a state of a file system in all stores that have it.
pub(crate) type SnapshotStamp = [u8; 16];

/// Returns the stamp that two numbers are.
pub(crate) fn stamp([first, second]: [u64; 2]) -> SnapshotStamp {
    (u128::from(first) << 64 | u128::from(second)).to_be_bytes()
}

pub(crate) fn decode_stamp(bytes: &[u8]) -> Decoded<SnapshotStamp> {
    bytes.try_into().map_err(|_| DamagedRecord {
        what: "has a stamp of another length",
    })
}

/// Returns the name of the snapshot in the record of a copy. It is empty if there is none.
pub(crate) fn decode_received(bytes: &[u8]) -> Decoded<&str> {
    std::str::from_utf8(bytes).map_err(|_| DamagedRecord {
        what: "has an impossible name of a snapshot",
    })
}

pub(crate) fn parent(directory: Inode, name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 + name.len());
    ByteWriter::new(&mut out).u64(directory.0).bytes(name);
    out
}

pub(crate) fn decode_parent(bytes: &[u8]) -> Decoded<(Inode, &[u8])> {
    let mut reader = ByteReader::new(bytes);
    let directory = Inode(reader.u64()?);
    Ok((directory, reader.take(reader.remaining())?))
}

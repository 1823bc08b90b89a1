//! The records that an overlay keeps in its upper file system, version 1.
//!
//! The state of an overlay, the contents of `state`:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  `ALLUVOV` and the version, 1
//!      8     1  0 open, 1 committed, 2 applied
//!      9     1  nesting: how many overlays lie below this one
//!     10     8  the next inode number to be handed out
//!     18     8  generation of the lower root
//!     26    12  time of the last change of the lower root at the commit
//!     38    12  time of the last read of the lower root at the commit
//!     50     1  length of the name
//!     51        the name
//! ```
//!
//! The record of an inode, the contents of `i/NUMBER`:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  the version, 1
//!      1     1  kind: 1 regular, 2 directory, 3 symbolic link, 4 pipe, 5 socket, 6 block device,
//!               7 character device
//!      2     1  flags: 1 contents changed, 2 removed, 4 created without a name
//!      3     8  number of names; of a directory, how many subdirectories more than in the lower
//!     11     8  the directory that contains this directory, or 0: the same as in the lower
//!     19     8  bytes at the beginning that are read from the lower where no block is changed
//!     27    12  time of creation
//!     39     8  generation
//! ```
//!
//! A dependency, one after the other in `reads`. A name, or the root with an empty name:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  1
//!      1     8  directory in the lower
//!      9     1  length of the name
//!     10     n  the name
//!   10+n     8  inode to which it refers, or 0: there is no such name, and the record ends here
//!   18+n     1  kind
//!   19+n     8  generation
//!   27+n    12  permission bits, user, group
//!   39+n    16  device, size
//!   55+n    24  times of the last change of contents, and of contents or attributes
//! ```
//!
//! A listing:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  2
//!      1     8  directory in the lower
//!      9     8  checksum of its names, their inodes and kinds
//! ```
//!
//! A marker, the target of a symbolic link `d/DIRECTORY/NAME`, is the text `-` if the name does not
//! exist, or the kind and the inode number in hexadecimal digits, `1:4000000000000012`. Times are
//! seconds, 8 bytes, and nanoseconds, 4 bytes.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use crate::error::{Error, ErrorKind, Result};
use crate::types::{Attributes, DirectoryEntry, FileKind, Inode, Timestamp};
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};

/// Magic bytes of the state, without the version.
const MAGIC: &[u8; 7] = b"ALLUVOV";
/// The version of all records.
const VERSION: u8 = 1;
const CHANGED: u8 = 1;
const REMOVED: u8 = 2;
const UNNAMED: u8 = 4;

/// Result of decoding a part of a record.
type DecodeResult<T> = std::result::Result<T, TruncatedInput>;

/// How far an overlay has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlayPhase {
    /// It can be changed. The lower is as it was.
    Open,
    /// It was committed, and the lower may have a part of its changes.
    Committed,
    /// The lower has all changes.
    Applied,
}

/// The state of an overlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OverlayHeader {
    pub(super) phase: OverlayPhase,
    pub(super) nesting: u8,
    pub(super) next: u64,
    pub(super) root_generation: u64,
    pub(super) root_modified: Timestamp,
    pub(super) root_accessed: Timestamp,
    pub(super) name: Vec<u8>,
}

/// What the overlay knows of an inode that it has created or changed, beside the attributes that
/// the upper file system keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InodeRecord {
    pub(super) kind: FileKind,
    pub(super) has_new_contents: bool,
    pub(super) is_removed: bool,
    pub(super) is_unnamed: bool,
    pub(super) links: i64,
    pub(super) parent: Option<Inode>,
    pub(super) lower_bytes: u64,
    pub(super) created: Timestamp,
    pub(super) generation: u64,
}

/// What a transaction depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Dependency {
    /// A name refers to an inode with these attributes, or to none.
    Name {
        directory: Inode,
        name: Vec<u8>,
        found: Option<LowerIdentity>,
    },
    /// A directory has these names.
    Listing { directory: Inode, checksum: u64 },
}

/// What tells whether an inode of the lower has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LowerIdentity {
    pub(super) inode: Inode,
    pub(super) kind: FileKind,
    pub(super) generation: u64,
    pub(super) mode: u32,
    pub(super) user: u32,
    pub(super) group: u32,
    pub(super) device: u64,
    pub(super) size: u64,
    pub(super) modified: Timestamp,
    pub(super) changed: Timestamp,
}

impl LowerIdentity {
    /// Returns the identity of an inode. Creating and removing files changes size and times of
    /// their directory, on which nothing depends.
    pub(super) fn of(attributes: &Attributes) -> LowerIdentity {
        let is_directory = attributes.kind == FileKind::Directory;
        let unless_directory = |time| if is_directory { Timestamp::default() } else { time };
        LowerIdentity {
            inode: attributes.inode,
            kind: attributes.kind,
            generation: attributes.generation,
            mode: attributes.mode,
            user: attributes.user,
            group: attributes.group,
            device: attributes.device,
            size: if is_directory { 0 } else { attributes.size },
            modified: unless_directory(attributes.modified),
            changed: unless_directory(attributes.changed),
        }
    }
}

/// What a name refers to in the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameMarker {
    /// Nothing, although the lower may have the name.
    Absent,
    /// An inode of this kind.
    Present(Inode, FileKind),
}

fn damaged(what: &str) -> Error {
    Error::new(
        ErrorKind::Damaged,
        format!("{what} of an overlay is damaged: abort the transaction"),
    )
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

fn kind_of_number(number: u8) -> Option<FileKind> {
    Some(match number {
        1 => FileKind::Regular,
        2 => FileKind::Directory,
        3 => FileKind::Symlink,
        4 => FileKind::Pipe,
        5 => FileKind::Socket,
        6 => FileKind::BlockDevice,
        7 => FileKind::CharacterDevice,
        _ => return None,
    })
}

fn put_time(out: &mut ByteWriter<'_>, time: Timestamp) {
    out.u64(time.seconds.cast_unsigned()).u32(time.nanoseconds);
}

fn time(reader: &mut ByteReader<'_>) -> DecodeResult<Timestamp> {
    Ok(Timestamp {
        seconds: reader.u64()?.cast_signed(),
        nanoseconds: reader.u32()?,
    })
}

/// Encodes the state.
pub(super) fn encode_header(header: &OverlayHeader) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = ByteWriter::new(&mut bytes);
    let phase = match header.phase {
        OverlayPhase::Open => 0,
        OverlayPhase::Committed => 1,
        OverlayPhase::Applied => 2,
    };
    out.bytes(MAGIC).u8(VERSION).u8(phase).u8(header.nesting);
    out.u64(header.next).u64(header.root_generation);
    put_time(&mut out, header.root_modified);
    put_time(&mut out, header.root_accessed);
    out.u8(header.name.len() as u8).bytes(&header.name);
    bytes
}

/// Decodes the state.
pub(super) fn decode_header(bytes: &[u8]) -> Result<OverlayHeader> {
    let what = "the state";
    let mut reader = ByteReader::new(bytes);
    let magic = reader.take(MAGIC.len()).map_err(|_| damaged(what))?;
    let version = reader.u8().map_err(|_| damaged(what))?;
    if magic != MAGIC {
        return Err(damaged(what));
    }
    check_version(version)?;
    let parts = (|| {
        let (phase, nesting) = (reader.u8()?, reader.u8()?);
        let (next, root_generation) = (reader.u64()?, reader.u64()?);
        let (root_modified, root_accessed) = (time(&mut reader)?, time(&mut reader)?);
        let length = usize::from(reader.u8()?);
        let header = OverlayHeader {
            phase: OverlayPhase::Open,
            nesting,
            next,
            root_generation,
            root_modified,
            root_accessed,
            name: reader.take(length)?.to_vec(),
        };
        Ok::<_, TruncatedInput>((phase, header))
    })();
    let (phase, header) = parts.map_err(|_| damaged(what))?;
    let phase = match phase {
        0 => OverlayPhase::Open,
        1 => OverlayPhase::Committed,
        2 => OverlayPhase::Applied,
        _ => return Err(damaged(what)),
    };
    Ok(OverlayHeader { phase, ..header })
}

fn check_version(version: u8) -> Result<()> {
    match version {
        VERSION => Ok(()),
        0 => Err(damaged("a record")),
        _ => {
            let text = format!("the overlay has records of version {version}: use a newer Alluvium");
            Err(Error::new(ErrorKind::NewerVersion, text))
        }
    }
}

/// Encodes the record of an inode.
pub(super) fn encode_record(record: &InodeRecord) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = ByteWriter::new(&mut bytes);
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    let flags = flag(record.has_new_contents, CHANGED)
        | flag(record.is_removed, REMOVED)
        | flag(record.is_unnamed, UNNAMED);
    out.u8(VERSION).u8(kind_number(record.kind)).u8(flags);
    out.u64(record.links.cast_unsigned());
    out.u64(record.parent.map_or(0, |parent| parent.0));
    out.u64(record.lower_bytes);
    put_time(&mut out, record.created);
    out.u64(record.generation);
    bytes
}

/// Decodes the record of an inode.
pub(super) fn decode_record(bytes: &[u8]) -> Result<InodeRecord> {
    let mut reader = ByteReader::new(bytes);
    check_version(reader.u8().map_err(|_| damaged("a record"))?)?;
    let parts = (|| {
        let (kind, flags) = (reader.u8()?, reader.u8()?);
        let record = InodeRecord {
            kind: FileKind::Regular,
            has_new_contents: flags & CHANGED != 0,
            is_removed: flags & REMOVED != 0,
            is_unnamed: flags & UNNAMED != 0,
            links: reader.u64()?.cast_signed(),
            parent: Some(Inode(reader.u64()?)).filter(|parent| parent.0 != 0),
            lower_bytes: reader.u64()?,
            created: time(&mut reader)?,
            generation: reader.u64()?,
        };
        Ok::<_, TruncatedInput>((kind, record))
    })();
    let (kind, record) = parts.map_err(|_| damaged("a record"))?;
    let kind = kind_of_number(kind).ok_or_else(|| damaged("a record"))?;
    Ok(InodeRecord { kind, ..record })
}

/// Encodes a dependency.
pub(super) fn encode_dependency(dependency: &Dependency) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = ByteWriter::new(&mut bytes);
    match dependency {
        Dependency::Name {
            directory,
            name,
            found,
        } => {
            out.u8(1).u64(directory.0).u8(name.len() as u8).bytes(name);
            let Some(found) = found else {
                out.u64(0);
                return bytes;
            };
            out.u64(found.inode.0)
                .u8(kind_number(found.kind))
                .u64(found.generation);
            out.u32(found.mode).u32(found.user).u32(found.group);
            out.u64(found.device).u64(found.size);
            put_time(&mut out, found.modified);
            put_time(&mut out, found.changed);
        }
        Dependency::Listing { directory, checksum } => {
            out.u8(2).u64(directory.0).u64(*checksum);
        }
    }
    bytes
}

/// Decodes the first of several dependencies, and returns it with the number of its bytes.
pub(super) fn decode_dependency(bytes: &[u8]) -> Result<(Dependency, usize)> {
    let damaged = || damaged("a dependency");
    let mut reader = ByteReader::new(bytes);
    let parts = (|| match reader.u8()? {
        1 => {
            let directory = Inode(reader.u64()?);
            let length = usize::from(reader.u8()?);
            let name = reader.take(length)?.to_vec();
            let found = identity(&mut reader)?;
            Ok::<_, TruncatedInput>(found.map(|found| Dependency::Name {
                directory,
                name,
                found,
            }))
        }
        2 => Ok(Some(Dependency::Listing {
            directory: Inode(reader.u64()?),
            checksum: reader.u64()?,
        })),
        _ => Ok(None),
    })();
    let dependency = parts.map_err(|_| damaged())?.ok_or_else(damaged)?;
    Ok((dependency, reader.position()))
}

/// Decodes the inode to which a name refers. The outer `None` means an unknown kind.
fn identity(reader: &mut ByteReader<'_>) -> DecodeResult<Option<Option<LowerIdentity>>> {
    let inode = Inode(reader.u64()?);
    if inode.0 == 0 {
        return Ok(Some(None));
    }
    let Some(kind) = kind_of_number(reader.u8()?) else {
        return Ok(None);
    };
    Ok(Some(Some(LowerIdentity {
        inode,
        kind,
        generation: reader.u64()?,
        mode: reader.u32()?,
        user: reader.u32()?,
        group: reader.u32()?,
        device: reader.u64()?,
        size: reader.u64()?,
        modified: time(reader)?,
        changed: time(reader)?,
    })))
}

/// Encodes a marker.
pub(super) fn encode_marker(marker: NameMarker) -> Vec<u8> {
    match marker {
        NameMarker::Absent => b"-".to_vec(),
        NameMarker::Present(inode, kind) => format!("{}:{:x}", kind_number(kind), inode.0).into_bytes(),
    }
}

/// Decodes a marker.
pub(super) fn decode_marker(bytes: &[u8]) -> Result<NameMarker> {
    if bytes == b"-" {
        return Ok(NameMarker::Absent);
    }
    let parse = || {
        let (kind, inode) = std::str::from_utf8(bytes).ok()?.split_once(':')?;
        let kind = kind_of_number(kind.parse().ok()?)?;
        Some(NameMarker::Present(
            Inode(u64::from_str_radix(inode, 16).ok()?),
            kind,
        ))
    };
    parse().ok_or_else(|| damaged("a marker"))
}

/// Returns the name of an inode's records.
pub(super) fn number_name(inode: Inode) -> Vec<u8> {
    format!("{:x}", inode.0).into_bytes()
}

/// Decodes the name of an inode's records.
pub(super) fn decode_number_name(name: &[u8]) -> Result<Inode> {
    let number = std::str::from_utf8(name)
        .ok()
        .and_then(|text| u64::from_str_radix(text, 16).ok());
    number.map(Inode).ok_or_else(|| damaged("the name of a record"))
}

/// Appends what a listing's checksum covers of one entry.
pub(super) fn append_entry(bytes: &mut Vec<u8>, entry: &DirectoryEntry) {
    let mut out = ByteWriter::new(bytes);
    out.u64(entry.inode.0).u8(kind_number(entry.kind));
    out.u8(entry.name.len() as u8).bytes(&entry.name);
}

//! Messages between the kernel and a file system, as `linux/fuse.h` defines them: version 7.31 and
//! what newer kernels add at the ends. Numbers are in the byte order of the machine, which does not
//! matter: no message leaves it.
//!
//! A request begins with:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  bytes of the request
//!      4     4  operation
//!      8     8  number of the request
//!     16     8  inode
//!     24    12  user, group, process of the caller, 4 bytes each
//!     36     4  bytes of extensions after the arguments, in units of 8, and two bytes of padding
//! ```
//!
//! and an answer with:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  bytes of the answer
//!      4     4  0, or the negative number of an error; the kind of a notice
//!      8     8  number of the request; 0 for a notice
//! ```
//!
//! Attributes, as every answer with an inode has them:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0    24  inode, size, blocks of 512 bytes, 8 bytes each
//!     24    24  seconds of the last read, change of contents, change of attributes
//!     48    12  their nanoseconds
//!     60    28  mode, links, user, group, device, preferred block size, flags
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::requests::{KernelRequest, RequestArguments, SetAttributes};
use alluvium_files::{Attributes, FileKind, Inode, SpaceStatistics, TimeChange, Timestamp};
use std::time::Duration;

/// The version of the interface that this program speaks.
pub(super) const VERSION: (u32, u32) = (7, 42);

const REQUEST_HEADER_BYTES: usize = 40;
pub(super) const ANSWER_HEADER_BYTES: usize = 16;

/// Reads the parts of a request.
struct RequestReader<'a> {
    rest: &'a [u8],
}

impl<'a> RequestReader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*first)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_ne_bytes)
    }

    fn inode(&mut self) -> Option<Inode> {
        self.u64().map(Inode)
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.rest = self.rest.get(bytes..)?;
        Some(())
    }

    /// Reads a name, which ends with a zero byte.
    fn name(&mut self) -> Option<&'a [u8]> {
        let end = self.rest.iter().position(|&byte| byte == 0)?;
        let (name, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest.get(1..)?;
        Some(name)
    }
}

/// Returns the number of a request, also of one that cannot be decoded otherwise.
pub(super) fn decode_number(bytes: &[u8]) -> Option<u64> {
    let mut reader = RequestReader { rest: bytes };
    reader.skip(8)?;
    reader.u64()
}

/// Returns a request, or `None` if its operation is not known or its bytes are too few.
pub(super) fn decode_request(bytes: &[u8]) -> Option<KernelRequest<'_>> {
    let mut reader = RequestReader { rest: bytes };
    let length = usize::try_from(reader.u32()?).ok()?;
    let operation = reader.u32()?;
    reader.skip(8)?;
    let inode = reader.inode()?;
    let (user, group) = (reader.u32()?, reader.u32()?);
    reader.skip(8)?;
    let arguments = RequestReader {
        rest: bytes.get(REQUEST_HEADER_BYTES..length)?,
    };
    Some(KernelRequest {
        inode,
        user,
        group,
        arguments: decode_arguments(operation, arguments)?,
    })
}

fn decode_arguments<'a>(operation: u32, reader: RequestReader<'a>) -> Option<RequestArguments<'a>> {
    use RequestArguments as Arguments;
    let mut reader = reader;
    Some(match operation {
        1 => Arguments::Lookup(reader.name()?),
        2 => Arguments::Forget(reader.u64()?),
        3 => Arguments::Attributes,
        4 => Arguments::SetAttributes(decode_set_attributes(&mut reader)?),
        5 => Arguments::ReadLink,
        6 => Arguments::SymbolicLink {
            name: reader.name()?,
            target: reader.name()?,
        },
        8 | 9 => decode_node(operation, &mut reader)?,
        10 => Arguments::Unlink(reader.name()?),
        11 => Arguments::RemoveDirectory(reader.name()?),
        12 | 45 => decode_rename(operation, &mut reader)?,
        13 => Arguments::Link {
            inode: reader.inode()?,
            name: reader.name()?,
        },
        14 | 27 => decode_open(operation, &mut reader)?,
        15 | 28 | 44 => decode_read(operation, &mut reader)?,
        16 => decode_write(&mut reader)?,
        17 => Arguments::Space,
        18 => Arguments::Release,
        20 | 30 | 50 => Arguments::Sync,
        21..=24 => decode_extended(operation, &mut reader)?,
        25 => Arguments::Flush,
        29 => Arguments::ReleaseDirectory(reader.u64()?),
        35 | 51 => decode_create(operation, &mut reader)?,
        36 => Arguments::Interrupt,
        38 => Arguments::Destroy,
        39 => Arguments::Control,
        42 => decode_batch_forget(&mut reader)?,
        43 => {
            reader.skip(8)?;
            Arguments::Allocate {
                offset: reader.u64()?,
                length: reader.u64()?,
                mode: reader.u32()?.cast_signed(),
            }
        }
        46 => {
            reader.skip(8)?;
            Arguments::Seek {
                offset: reader.u64()?.cast_signed(),
                whence: reader.u32()?.cast_signed(),
            }
        }
        47 | 53 => decode_copy(operation, &mut reader)?,
        52 => Arguments::ExtendedStatus,
        _ => return None,
    })
}

fn decode_time(valid: bool, is_now: bool, seconds: u64, nanoseconds: u32) -> Option<TimeChange> {
    let time = Timestamp {
        seconds: seconds.cast_signed(),
        nanoseconds,
    };
    valid.then_some(if is_now {
        TimeChange::Now
    } else {
        TimeChange::At(time)
    })
}

fn decode_set_attributes(reader: &mut RequestReader<'_>) -> Option<SetAttributes> {
    let valid = reader.u32()?;
    let is_valid = |bit: u32| valid & 1 << bit != 0;
    reader.skip(12)?;
    let size = reader.u64()?;
    reader.skip(8)?;
    let (accessed, modified) = (reader.u64()?, reader.u64()?);
    reader.skip(8)?;
    let (accessed_nanoseconds, modified_nanoseconds) = (reader.u32()?, reader.u32()?);
    reader.skip(4)?;
    let mode = reader.u32()?;
    reader.skip(4)?;
    let (user, group) = (reader.u32()?, reader.u32()?);
    let mut change = alluvium_files::AttributeChange {
        mode: is_valid(0).then_some(mode & 0o7777),
        user: is_valid(1).then_some(user),
        group: is_valid(2).then_some(group),
        size: is_valid(3).then_some(size),
        ..Default::default()
    };
    change.accessed = decode_time(is_valid(4), is_valid(7), accessed, accessed_nanoseconds);
    change.modified = decode_time(is_valid(5), is_valid(8), modified, modified_nanoseconds);
    Some(SetAttributes {
        change,
        removes_privileges: is_valid(11),
    })
}

fn decode_node<'a>(operation: u32, reader: &mut RequestReader<'a>) -> Option<RequestArguments<'a>> {
    let mode = reader.u32()?;
    if operation == 9 {
        return Some(RequestArguments::MakeDirectory {
            mode,
            umask: reader.u32()?,
            name: reader.name()?,
        });
    }
    let device = reader.u32()?;
    let umask = reader.u32()?;
    reader.skip(4)?;
    Some(RequestArguments::MakeNode {
        mode,
        umask,
        device: decode_device(device),
        name: reader.name()?,
    })
}

/// Returns a device number from the kernel's 32 bits: the minor number around the major one.
fn decode_device(device: u32) -> u64 {
    let major = (device >> 8) & 0xfff;
    let minor = device & 0xff | (device >> 12) & 0xf_ff00;
    libc::makedev(major, minor)
}

fn encode_device(device: u64) -> u32 {
    let (major, minor) = (libc::major(device), libc::minor(device));
    minor & 0xff | major << 8 | (minor & !0xff) << 12
}

fn decode_rename<'a>(operation: u32, reader: &mut RequestReader<'a>) -> Option<RequestArguments<'a>> {
    let new_parent = reader.inode()?;
    let flags = if operation == 45 { reader.u32()? } else { 0 };
    if operation == 45 {
        reader.skip(4)?;
    }
    Some(RequestArguments::Rename {
        new_parent,
        flags,
        name: reader.name()?,
        new_name: reader.name()?,
    })
}

fn decode_open<'a>(operation: u32, reader: &mut RequestReader<'a>) -> Option<RequestArguments<'a>> {
    let flags = reader.u32()?.cast_signed();
    let removes_privileges = reader.u32()? & 1 != 0;
    Some(match operation {
        14 => RequestArguments::Open {
            flags,
            removes_privileges,
        },
        _ => RequestArguments::OpenDirectory,
    })
}

fn decode_read<'a>(operation: u32, reader: &mut RequestReader<'a>) -> Option<RequestArguments<'a>> {
    let (handle, offset) = (reader.u64()?, reader.u64()?);
    let size = usize::try_from(reader.u32()?).ok()?;
    Some(match operation {
        15 => RequestArguments::Read { offset, size },
        28 => RequestArguments::List { handle, offset, size },
        _ => RequestArguments::ListAttributes { handle, offset, size },
    })
}

fn decode_write<'a>(reader: &mut RequestReader<'a>) -> Option<RequestArguments<'a>> {
    reader.skip(8)?;
    let offset = reader.u64()?;
    let size = usize::try_from(reader.u32()?).ok()?;
    let write_flags = reader.u32()?;
    reader.skip(8)?;
    let flags = reader.u32()?.cast_signed();
    reader.skip(4)?;
    Some(RequestArguments::Write {
        offset,
        flags,
        is_page: write_flags & 1 != 0,
        removes_privileges: write_flags & 4 != 0,
        data: reader.rest.get(..size)?,
    })
}

fn decode_extended<'a>(operation: u32, reader: &mut RequestReader<'a>) -> Option<RequestArguments<'a>> {
    if operation == 24 {
        return Some(RequestArguments::RemoveExtended(reader.name()?));
    }
    let size = usize::try_from(reader.u32()?).ok()?;
    let flags = reader.u32()?.cast_signed();
    Some(match operation {
        22 => RequestArguments::Extended {
            name: reader.name()?,
            size,
        },
        23 => RequestArguments::ExtendedNames { size },
        _ => {
            let removes_group = reader.u32()? & 1 != 0;
            reader.skip(4)?;
            RequestArguments::SetExtended {
                name: reader.name()?,
                value: reader.rest.get(..size)?,
                flags,
                removes_group,
            }
        }
    })
}

fn decode_create<'a>(operation: u32, reader: &mut RequestReader<'a>) -> Option<RequestArguments<'a>> {
    reader.skip(4)?;
    let (mode, umask) = (reader.u32()?, reader.u32()?);
    reader.skip(4)?;
    Some(match operation {
        35 => RequestArguments::Create {
            mode,
            umask,
            name: reader.name()?,
        },
        _ => RequestArguments::CreateUnnamed { mode, umask },
    })
}

fn decode_batch_forget<'a>(reader: &mut RequestReader<'a>) -> Option<RequestArguments<'a>> {
    let count = usize::try_from(reader.u32()?).ok()?;
    reader.skip(4)?;
    let (entries, _) = reader.rest.as_chunks::<16>();
    let forgotten = entries.iter().take(count).filter_map(|entry| {
        let mut reader = RequestReader { rest: entry };
        Some((reader.inode()?, reader.u64()?))
    });
    Some(RequestArguments::ForgetMany(forgotten.collect()))
}

fn decode_copy<'a>(operation: u32, reader: &mut RequestReader<'a>) -> Option<RequestArguments<'a>> {
    reader.skip(8)?;
    let from_offset = reader.u64()?;
    let to = reader.inode()?;
    reader.skip(8)?;
    Some(RequestArguments::Copy {
        from_offset,
        to,
        to_offset: reader.u64()?,
        length: reader.u64()?,
        is_long: operation == 53,
    })
}

/// What the kernel offers at the beginning.
pub(super) struct KernelOffer {
    pub(super) number: u64,
    pub(super) version: (u32, u32),
    pub(super) readahead: u32,
    pub(super) flags: u64,
}

/// Returns the first request of a mount, or `None` if it is another.
pub(super) fn decode_offer(bytes: &[u8]) -> Option<KernelOffer> {
    let mut reader = RequestReader { rest: bytes };
    reader.skip(4)?;
    if reader.u32()? != 26 {
        return None;
    }
    let number = reader.u64()?;
    reader.skip(24)?;
    let version = (reader.u32()?, reader.u32()?);
    let readahead = reader.u32()?;
    let low = reader.u32()?;
    let high = reader.u32().unwrap_or(0);
    Some(KernelOffer {
        number,
        version,
        readahead,
        flags: u64::from(low) | u64::from(high) << 32,
    })
}

/// What a mount accepts of the offer.
pub(super) struct MountAcceptance {
    pub(super) readahead: u32,
    pub(super) flags: u64,
    pub(super) background: u16,
    pub(super) write_bytes: u32,
    pub(super) pages: u16,
}

/// An answer or a notice that is being written.
pub(super) struct AnswerWriter {
    bytes: Vec<u8>,
}

impl AnswerWriter {
    pub(super) fn new() -> AnswerWriter {
        AnswerWriter {
            bytes: Vec::with_capacity(160),
        }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_ne_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_ne_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_ne_bytes());
    }

    fn zeros(&mut self, count: usize) {
        self.bytes.resize(self.bytes.len() + count, 0);
    }

    pub(super) fn acceptance(&mut self, acceptance: &MountAcceptance) {
        self.u32(VERSION.0);
        self.u32(VERSION.1);
        self.u32(acceptance.readahead);
        self.u32((acceptance.flags & u64::from(u32::MAX)) as u32);
        self.u16(acceptance.background);
        self.u16(acceptance.background / 4 * 3);
        self.u32(acceptance.write_bytes);
        // Times have nanoseconds.
        self.u32(1);
        self.u16(acceptance.pages);
        self.u16(0);
        self.u32((acceptance.flags >> 32) as u32);
        self.zeros(28);
    }

    fn timeouts(&mut self, first: Duration, second: Duration) {
        self.u64(first.as_secs());
        self.u64(second.as_secs());
        self.u32(first.subsec_nanos());
        self.u32(second.subsec_nanos());
    }

    /// Writes an inode with its name's and its attributes' timeouts.
    pub(super) fn entry(&mut self, attributes: &Attributes, entry: Duration, attribute: Duration) {
        self.u64(attributes.inode.0);
        self.u64(attributes.generation);
        self.timeouts(entry, attribute);
        self.attributes(attributes);
    }

    /// Writes that a name does not exist.
    pub(super) fn absence(&mut self, timeout: Duration) {
        self.zeros(16);
        self.timeouts(timeout, Duration::ZERO);
        self.zeros(ATTRIBUTES_BYTES);
    }

    /// Writes attributes with their timeout.
    pub(super) fn timed_attributes(&mut self, attributes: &Attributes, timeout: Duration) {
        self.u64(timeout.as_secs());
        self.u32(timeout.subsec_nanos());
        self.zeros(4);
        self.attributes(attributes);
    }

    fn attributes(&mut self, attributes: &Attributes) {
        self.u64(attributes.inode.0);
        self.u64(attributes.size);
        self.u64(attributes.blocks);
        let times = [attributes.accessed, attributes.modified, attributes.changed];
        for time in times {
            self.u64(time.seconds.cast_unsigned());
        }
        for time in times {
            self.u32(time.nanoseconds);
        }
        self.u32(attributes.mode & 0o7777 | kind_bits(attributes.kind));
        self.u32(attributes.links);
        self.u32(attributes.user);
        self.u32(attributes.group);
        self.u32(encode_device(attributes.device));
        self.u32(PREFERRED_BYTES);
        self.u32(0);
    }

    /// Writes attributes as `statx` has them, with the time of creation.
    pub(super) fn extended_status(&mut self, attributes: &Attributes, timeout: Duration) {
        self.u64(timeout.as_secs());
        self.u32(timeout.subsec_nanos());
        self.zeros(20);
        self.u32(libc::STATX_BASIC_STATS | libc::STATX_BTIME);
        self.u32(PREFERRED_BYTES);
        self.zeros(8);
        self.u32(attributes.links);
        self.u32(attributes.user);
        self.u32(attributes.group);
        self.u16((attributes.mode & 0o7777 | kind_bits(attributes.kind)) as u16);
        self.zeros(2);
        self.u64(attributes.inode.0);
        self.u64(attributes.size);
        self.u64(attributes.blocks);
        self.zeros(8);
        for time in [
            attributes.accessed,
            attributes.created,
            attributes.changed,
            attributes.modified,
        ] {
            self.u64(time.seconds.cast_unsigned());
            self.u32(time.nanoseconds);
            self.zeros(4);
        }
        self.u32(libc::major(attributes.device));
        self.u32(libc::minor(attributes.device));
        self.zeros(8 + 14 * 8);
    }

    /// Writes an open file: its handle, and flags.
    pub(super) fn opened(&mut self, handle: u64, flags: u32) {
        self.u64(handle);
        self.u32(flags);
        self.zeros(4);
    }

    /// Writes a number of bytes.
    pub(super) fn count(&mut self, count: u32) {
        self.u32(count);
        self.zeros(4);
    }

    pub(super) fn space(&mut self, space: &SpaceStatistics) {
        self.u64(space.blocks);
        self.u64(space.free_blocks);
        self.u64(space.free_blocks);
        self.u64(space.inodes.saturating_add(space.free_inodes));
        self.u64(space.free_inodes);
        self.u32(space.block_bytes);
        self.u32(space.name_bytes);
        self.u32(space.block_bytes);
        self.zeros(28);
    }

    /// Writes an entry of a directory, unless the answer would be longer than `limit`. Returns
    /// whether it was written.
    pub(super) fn directory_entry(
        &mut self,
        limit: usize,
        entry: (&[u8], Inode, FileKind, u64),
        attributes: Option<ListedAttributes<'_>>,
    ) -> bool {
        let (name, inode, kind, offset) = entry;
        let inode_bytes = attributes.as_ref().map_or(0, |_| ENTRY_BYTES);
        let length = inode_bytes + (DIRECTORY_ENTRY_BYTES + name.len()).next_multiple_of(8);
        if self.bytes.len() + length > limit {
            return false;
        }
        match attributes {
            Some(ListedAttributes::Known(attributes, entry, attribute)) => {
                self.entry(attributes, entry, attribute);
            }
            // The kernel takes inode 0 for an entry without attributes.
            Some(ListedAttributes::Unknown) => self.zeros(ENTRY_BYTES),
            None => {}
        }
        self.u64(inode.0);
        self.u64(offset);
        self.u32(u32::try_from(name.len()).unwrap_or(u32::MAX));
        self.u32(kind_bits(kind) >> 12);
        self.bytes.extend_from_slice(name);
        self.zeros(length - inode_bytes - DIRECTORY_ENTRY_BYTES - name.len());
        true
    }

    /// Writes the notice that an inode's attributes and contents are no longer valid.
    pub(super) fn stale_inode(&mut self, inode: Inode) {
        self.u64(inode.0);
        self.zeros(16);
    }

    /// Writes the notice that a name may refer to another inode now.
    pub(super) fn stale_entry(&mut self, parent: Inode, name: &[u8]) {
        self.u64(parent.0);
        self.u32(u32::try_from(name.len()).unwrap_or(u32::MAX));
        self.zeros(4);
        self.bytes.extend_from_slice(name);
        self.zeros(1);
    }
}

/// The attributes of an entry in a listing that has them.
pub(super) enum ListedAttributes<'a> {
    /// Attributes, the entry's and the attributes' timeout.
    Known(&'a Attributes, Duration, Duration),
    Unknown,
}

/// The kinds of notices.
pub(super) const STALE_INODE: i32 = 2;
pub(super) const STALE_ENTRY: i32 = 3;

const ATTRIBUTES_BYTES: usize = 88;
const ENTRY_BYTES: usize = 40 + ATTRIBUTES_BYTES;
const DIRECTORY_ENTRY_BYTES: usize = 24;
/// The size of blocks that programs are advised to read and write.
const PREFERRED_BYTES: u32 = 4096;

fn kind_bits(kind: FileKind) -> u32 {
    match kind {
        FileKind::Regular => libc::S_IFREG,
        FileKind::Directory => libc::S_IFDIR,
        FileKind::Symlink => libc::S_IFLNK,
        FileKind::Pipe => libc::S_IFIFO,
        FileKind::Socket => libc::S_IFSOCK,
        FileKind::BlockDevice => libc::S_IFBLK,
        FileKind::CharacterDevice => libc::S_IFCHR,
    }
}

/// Returns the header of an answer with so many bytes after it. `code` is 0, the negative number of
/// an error, or the kind of a notice.
pub(super) fn encode_header(number: u64, code: i32, body_bytes: usize) -> [u8; ANSWER_HEADER_BYTES] {
    let length = u32::try_from(ANSWER_HEADER_BYTES + body_bytes).unwrap_or(u32::MAX);
    let mut header = [0; ANSWER_HEADER_BYTES];
    let parts = [
        &length.to_ne_bytes()[..],
        &code.to_ne_bytes(),
        &number.to_ne_bytes(),
    ];
    for (place, byte) in header.iter_mut().zip(parts.into_iter().flatten()) {
        *place = *byte;
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request with these arguments.
    fn request(operation: u32, arguments: &[u8]) -> Vec<u8> {
        let length = (REQUEST_HEADER_BYTES + arguments.len()) as u32;
        let mut bytes = Vec::new();
        for number in [length, operation] {
            bytes.extend_from_slice(&number.to_ne_bytes());
        }
        bytes.extend_from_slice(&9_u64.to_ne_bytes());
        bytes.extend_from_slice(&7_u64.to_ne_bytes());
        for number in [1000_u32, 100, 4321, 0] {
            bytes.extend_from_slice(&number.to_ne_bytes());
        }
        bytes.extend_from_slice(arguments);
        bytes
    }

    #[test]
    fn the_bytes_of_a_header_are_those_of_linux() {
        let mut expected = Vec::new();
        expected.extend_from_slice(&19_u32.to_ne_bytes());
        expected.extend_from_slice(&(-2_i32).to_ne_bytes());
        expected.extend_from_slice(&9_u64.to_ne_bytes());
        assert_eq!(encode_header(9, -2, 3)[..], expected);
    }

    #[test]
    fn a_request_is_taken_apart() {
        let bytes = request(1, b"name\0");
        assert_eq!(decode_number(&bytes), Some(9));
        let request = decode_request(&bytes).unwrap();
        assert_eq!(
            (request.inode, request.user, request.group),
            (Inode(7), 1000, 100)
        );
        assert!(matches!(request.arguments, RequestArguments::Lookup(b"name")));
    }

    #[test]
    fn requests_that_are_cut_off_are_none() {
        for operation in 0..60 {
            let whole = request(operation, &[1; 200]);
            for length in 0..whole.len() {
                assert!(
                    decode_request(&whole[..length]).is_none(),
                    "{operation}, {length} bytes"
                );
                // A header that tells the shorter length.
                let mut short = whole[..length].to_vec();
                if let Some(place) = short.first_chunk_mut::<4>() {
                    *place = (length as u32).to_ne_bytes();
                }
                let _ = decode_request(&short);
                let _ = decode_offer(&short);
            }
        }
    }

    #[test]
    fn device_numbers_survive_the_kernels_encoding() {
        for (major, minor) in [(0, 0), (8, 1), (259, 70_000), (4095, 0xf_ffff)] {
            let device = libc::makedev(major, minor);
            assert_eq!(decode_device(encode_device(device)), device);
        }
    }
}

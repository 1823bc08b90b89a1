//! Answers and notices to the kernel, as `linux/fuse.h` defines them.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  bytes of the answer
//!      4     4  0, or the negative number of an error; the kind of a notice
//!      8     8  number of the request; 0 for a notice
//!     16     n  what the operation answers
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

use alluvium_files::{Attributes, FileKind, Inode, SpaceStatistics};
use std::time::Duration;

/// The version of the interface that this program speaks.
const VERSION: (u32, u32) = (7, 42);
const ANSWER_HEADER_BYTES: usize = 16;

fn encode_device(device: u64) -> u32 {
    let (major, minor) = (libc::major(device), libc::minor(device));
    minor & 0xff | major << 8 | (minor & !0xff) << 12
}

/// What a mount accepts of the offer.
pub(in crate::kernel) struct MountAcceptance {
    pub(in crate::kernel) readahead: u32,
    pub(in crate::kernel) flags: u64,
    pub(in crate::kernel) background: u16,
    pub(in crate::kernel) write_bytes: u32,
    pub(in crate::kernel) pages: u16,
}

/// An answer or a notice that is being written.
pub(in crate::kernel) struct AnswerWriter {
    bytes: Vec<u8>,
}

impl AnswerWriter {
    pub(in crate::kernel) fn new() -> AnswerWriter {
        AnswerWriter {
            bytes: Vec::with_capacity(160),
        }
    }

    pub(in crate::kernel) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(in crate::kernel) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(in crate::kernel) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    fn zeros(&mut self, count: usize) {
        self.bytes.resize(self.bytes.len() + count, 0);
    }

    pub(in crate::kernel) fn acceptance(&mut self, acceptance: &MountAcceptance) {
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
    pub(in crate::kernel) fn entry(&mut self, attributes: &Attributes, entry: Duration, attribute: Duration) {
        self.u64(attributes.inode.0);
        self.u64(attributes.generation);
        self.timeouts(entry, attribute);
        self.attributes(attributes);
    }

    /// Writes that a name does not exist.
    pub(in crate::kernel) fn absence(&mut self, timeout: Duration) {
        self.zeros(16);
        self.timeouts(timeout, Duration::ZERO);
        self.zeros(ATTRIBUTES_BYTES);
    }

    /// Writes attributes with their timeout.
    pub(in crate::kernel) fn timed_attributes(&mut self, attributes: &Attributes, timeout: Duration) {
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
    pub(in crate::kernel) fn extended_status(&mut self, attributes: &Attributes, timeout: Duration) {
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
    pub(in crate::kernel) fn opened(&mut self, handle: u64, flags: u32) {
        self.u64(handle);
        self.u32(flags);
        self.zeros(4);
    }

    /// Writes a number of bytes.
    pub(in crate::kernel) fn count(&mut self, count: u32) {
        self.u32(count);
        self.zeros(4);
    }

    pub(in crate::kernel) fn space(&mut self, space: &SpaceStatistics) {
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
    pub(in crate::kernel) fn directory_entry(
        &mut self,
        limit: usize,
        entry: (&[u8], Inode, FileKind, u64),
        attributes: Option<&ListedAttributes<'_>>,
    ) -> bool {
        let (name, inode, kind, offset) = entry;
        let inode_bytes = attributes.map_or(0, |_| ENTRY_BYTES);
        let length = inode_bytes + (DIRECTORY_ENTRY_BYTES + name.len()).next_multiple_of(8);
        if self.bytes.len() + length > limit {
            return false;
        }
        match attributes {
            Some(ListedAttributes::Known(attributes, entry, attribute)) => {
                self.entry(attributes, *entry, *attribute);
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
    pub(in crate::kernel) fn stale_inode(&mut self, inode: Inode) {
        self.u64(inode.0);
        self.zeros(16);
    }

    /// Writes the notice that a name may refer to another inode now.
    pub(in crate::kernel) fn stale_entry(&mut self, parent: Inode, name: &[u8]) {
        self.u64(parent.0);
        self.u32(u32::try_from(name.len()).unwrap_or(u32::MAX));
        self.zeros(4);
        self.bytes.extend_from_slice(name);
        self.zeros(1);
    }
}

/// The attributes of an entry in a listing that has them.
pub(in crate::kernel) enum ListedAttributes<'a> {
    /// Attributes, the entry's and the attributes' timeout.
    Known(&'a Attributes, Duration, Duration),
    Unknown,
}

/// The kinds of notices.
pub(in crate::kernel) const STALE_INODE: i32 = 2;
pub(in crate::kernel) const STALE_ENTRY: i32 = 3;

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

/// Returns the header of an answer with `body_bytes` after it. `code` is 0, the negative number of
/// an error, or the kind of a notice.
pub(in crate::kernel) fn encode_header(
    number: u64,
    code: i32,
    body_bytes: usize,
) -> [u8; ANSWER_HEADER_BYTES] {
    let length = u32::try_from(ANSWER_HEADER_BYTES + body_bytes).unwrap_or(u32::MAX);
    let mut header = [0; ANSWER_HEADER_BYTES];
    let parts = [
        &length.to_le_bytes()[..],
        &code.to_le_bytes(),
        &number.to_le_bytes(),
    ];
    for (place, byte) in header.iter_mut().zip(parts.into_iter().flatten()) {
        *place = *byte;
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_header_are_those_of_linux() {
        let expected = [19, 0, 0, 0, 254, 255, 255, 255, 9, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(encode_header(9, -2, 3), expected);
    }

    #[test]
    fn an_entry_that_does_not_fit_is_left_out() {
        let mut writer = AnswerWriter::new();
        let entry = (&b"name"[..], Inode(7), FileKind::Regular, 3);
        assert!(!writer.directory_entry(31, entry, None));
        assert!(writer.directory_entry(32, entry, None));
        assert!(!writer.directory_entry(64, entry, Some(&ListedAttributes::Unknown)));
        assert_eq!(writer.into_bytes().len(), 32);
    }

    #[test]
    fn device_numbers_have_the_kernels_encoding() {
        assert_eq!(encode_device(libc::makedev(8, 1)), 0x0801);
        assert_eq!(encode_device(libc::makedev(3, 0x1_1170)), 0x1110_0370);
    }
}

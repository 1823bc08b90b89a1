//! Requests of the kernel, as `linux/fuse.h` defines them: version 7.31 and what newer kernels add
//! at the ends. A machine of the other byte order refuses mounts, because the version in its
//! kernel's offer is another number.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  bytes of the request
//!      4     4  operation
//!      8     8  number of the request
//!     16     8  inode
//!     24    12  user, group, process of the caller, 4 bytes each
//!     36     4  bytes of extensions after the arguments, in units of 8, and two bytes of padding
//!     40     n  arguments, which depend on the operation; names end with a zero byte
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::{KernelOffer, KernelRequest, RequestArguments, SetAttributes};
use alluvium_files::{AttributeChange, Inode, TimeChange, Timestamp};

/// The version of the interface that this program speaks.
pub(in crate::kernel) const VERSION: (u32, u32) = (7, 42);

const REQUEST_HEADER_BYTES: usize = 40;

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
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
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
pub(in crate::kernel) fn decode_number(bytes: &[u8]) -> Option<u64> {
    let mut reader = RequestReader { rest: bytes };
    reader.skip(8)?;
    reader.u64()
}

/// Returns a request, or `None` if its operation is not known or its bytes are too few.
pub(in crate::kernel) fn decode_request(bytes: &[u8]) -> Option<KernelRequest<'_>> {
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
    let mut change = AttributeChange {
        mode: is_valid(0).then_some(mode & 0o7777),
        user: is_valid(1).then_some(user),
        group: is_valid(2).then_some(group),
        size: is_valid(3).then_some(size),
        ..AttributeChange::default()
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

/// Returns the first request of a mount, or `None` if it is another.
pub(in crate::kernel) fn decode_offer(bytes: &[u8]) -> Option<KernelOffer> {
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

/// Encodes a request about an inode with these arguments, for tests and fuzzing.
pub(in crate::kernel) fn encode_request(operation: u32, inode: u64, arguments: &[u8]) -> Vec<u8> {
    let length = (REQUEST_HEADER_BYTES + arguments.len()) as u32;
    let mut bytes = [length, operation].map(u32::to_le_bytes).concat();
    bytes.extend_from_slice(&9_u64.to_le_bytes());
    bytes.extend_from_slice(&inode.to_le_bytes());
    bytes.extend_from_slice(&[1000_u32, 100, 4321, 0].map(u32::to_le_bytes).concat());
    bytes.extend_from_slice(arguments);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request with these arguments.
    fn request(operation: u32, arguments: &[u8]) -> Vec<u8> {
        let length = (REQUEST_HEADER_BYTES + arguments.len()) as u32;
        let mut bytes = Vec::new();
        for number in [length, operation] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&9_u64.to_le_bytes());
        bytes.extend_from_slice(&7_u64.to_le_bytes());
        for number in [1000_u32, 100, 4321, 0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(arguments);
        bytes
    }

    #[test]
    fn the_bytes_of_a_request_are_those_of_linux() {
        let header = [
            43, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 232, 3, 0, 0, 100, 0, 0,
            0,
        ];
        let bytes = request(1, b"ab\0");
        assert_eq!(bytes[..32], header);
        let request = decode_request(&bytes).unwrap();
        assert_eq!(
            (request.inode, request.user, request.group),
            (Inode(7), 1000, 100)
        );
        assert!(matches!(request.arguments, RequestArguments::Lookup(b"ab")));
        assert_eq!(decode_number(&bytes), Some(9));
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
                    *place = (length as u32).to_le_bytes();
                }
                let _ = decode_request(&short);
                let _ = decode_offer(&short);
            }
        }
    }

    #[test]
    fn device_numbers_are_put_together() {
        assert_eq!(decode_device(0x0801), libc::makedev(8, 1));
        assert_eq!(decode_device(0x1110_0370), libc::makedev(3, 0x1_1170));
    }
}

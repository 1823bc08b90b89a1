//! The requests of the kernel.
//!
//! *Scope*: requests as values, and their bytes.
//!
//! *Must not depend on*: what they do.
//!
//! Invariants:
//!
//! - **K2** No bytes of a request make the decoder panic.

mod format;

pub(super) use format::{VERSION, decode_number, decode_offer, decode_request, encode_request};

use alluvium_files::{AttributeChange, Inode};

/// A request.
pub(in crate::kernel) struct KernelRequest<'a> {
    /// The inode that it is about; for names, their directory.
    pub(in crate::kernel) inode: Inode,
    pub(super) user: u32,
    pub(in crate::kernel) group: u32,
    pub(in crate::kernel) arguments: RequestArguments<'a>,
}

/// A change of attributes.
pub(in crate::kernel) struct SetAttributes {
    pub(in crate::kernel) change: AttributeChange,
    /// The caller may not keep set-user-ID bits over a change of the contents.
    pub(in crate::kernel) removes_privileges: bool,
}

/// The operation and its arguments.
pub(in crate::kernel) enum RequestArguments<'a> {
    Lookup(&'a [u8]),
    Forget(u64),
    ForgetMany(Vec<(Inode, u64)>),
    Attributes,
    ExtendedStatus,
    SetAttributes(SetAttributes),
    ReadLink,
    SymbolicLink {
        name: &'a [u8],
        target: &'a [u8],
    },
    MakeNode {
        mode: u32,
        umask: u32,
        device: u64,
        name: &'a [u8],
    },
    MakeDirectory {
        mode: u32,
        umask: u32,
        name: &'a [u8],
    },
    Unlink(&'a [u8]),
    RemoveDirectory(&'a [u8]),
    Rename {
        new_parent: Inode,
        flags: u32,
        name: &'a [u8],
        new_name: &'a [u8],
    },
    Link {
        inode: Inode,
        name: &'a [u8],
    },
    Open {
        flags: i32,
        removes_privileges: bool,
    },
    Create {
        mode: u32,
        umask: u32,
        name: &'a [u8],
    },
    CreateUnnamed {
        mode: u32,
        umask: u32,
    },
    Read {
        offset: u64,
        size: usize,
    },
    Write {
        offset: u64,
        flags: i32,
        /// A page of the kernel's cache, which it writes later and for any of the file's users.
        is_page: bool,
        removes_privileges: bool,
        data: &'a [u8],
    },
    Flush,
    Release,
    Sync,
    OpenDirectory,
    List {
        handle: u64,
        offset: u64,
        size: usize,
    },
    ListAttributes {
        handle: u64,
        offset: u64,
        size: usize,
    },
    ReleaseDirectory(u64),
    Space,
    Extended {
        name: &'a [u8],
        size: usize,
    },
    ExtendedNames {
        size: usize,
    },
    SetExtended {
        name: &'a [u8],
        value: &'a [u8],
        flags: i32,
        /// A new access control list takes the set-group-ID bit away.
        removes_group: bool,
    },
    RemoveExtended(&'a [u8]),
    Allocate {
        offset: u64,
        length: u64,
        mode: i32,
    },
    Seek {
        offset: i64,
        whence: i32,
    },
    Copy {
        from_offset: u64,
        to: Inode,
        to_offset: u64,
        length: u64,
        /// The answer has 8 bytes.
        is_long: bool,
    },
    Control,
    Interrupt,
    Destroy,
}

/// What the kernel offers at the beginning.
pub(in crate::kernel) struct KernelOffer {
    pub(in crate::kernel) number: u64,
    pub(in crate::kernel) version: (u32, u32),
    pub(in crate::kernel) readahead: u32,
    pub(in crate::kernel) flags: u64,
}

//! The storage I/O of Alluvium, none of which happens in any other crate.
//!
//! *Scope*: files, directories, aligned blocks, mappings, syncs and holes; how they fail; what they
//! cost, and how to measure it.
//!
//! *Must not depend on*: the meaning of the bytes, caching, liveness of data.
//!
//! Every implementation keeps the following invariants, and the test suite in
//! `tests/it/contract.rs` runs against all of them:
//!
//! - **D1** The device owns a request's buffer from `submit` until the outcome is taken. If a
//!   [`Ticket`] is dropped early, memory that the device may still write to is not freed.
//! - **D2** The offset and length of a request to a direct file are multiples of [`BLOCK`]. A
//!   misaligned request is a bug in the caller and panics.
//! - **D3** The requests of a batch, and of all batches in flight at the same time, may complete in
//!   any order. A sync makes exactly those writes durable that had *completed* when it was
//!   submitted.
//! - **D4** A failed sync poisons the file: every later write, sync, extension or mapping of the
//!   file fails with [`Error::Poisoned`]. A sync is never retried. Reads still work.
//! - **D5** A full disk is reported as [`Error::DiskFull`]. Acknowledged data is unchanged, and the
//!   file is not poisoned.
//! - **D6** Every request that reaches the device is counted once in [`DeviceCounters`], under its
//!   purpose.
//! - **D7** Directory entries become durable only with [`Directory::sync`]. The contents of a file
//!   become durable only with a sync of the file.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod batch;
pub mod buffer;
pub mod contract;
pub mod counters;
pub mod datagrams;
pub mod error;
pub mod file;
pub mod forward;
pub mod hangups;
pub mod heap;
mod locks;
pub mod machine;
pub mod memory;
pub mod overlay;
pub mod probe;
pub mod simulated;
pub mod skips;
mod slabs;
pub mod socket;
pub mod throttled;
mod uring;

pub use batch::{IoBatch, IoOutcome, IoRequest, Ticket};
pub use buffer::{AlignedBuffer, MemoryRegion};
pub use contract::{
    BootId, CacheMode, Device, Directory, DirectoryLock, FileAccessMode, FileMapping, FileOptions,
    FileSystemSpace, MappingBacking,
};
pub use counters::{DeviceCounters, DeviceCounts, DeviceStats};
pub use error::{DeviceOperation, Error, Result};
pub use overlay::OverlayDirectory;
pub use throttled::ThrottledDirectory;
pub use uring::SubmissionPlug;

/// The logical block size in bytes. Offsets and lengths of direct requests are multiples of it. In
/// a crash, each block of unsynced data is kept or lost as a whole.
pub const BLOCK: u64 = 512;

/// The alignment of buffers in bytes.
pub const BUFFER_ALIGNMENT: usize = 4096;

const _: () = assert!(BLOCK.is_power_of_two() && (BUFFER_ALIGNMENT as u64).is_multiple_of(BLOCK));

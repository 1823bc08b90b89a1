//! Storage I/O. No other crate does any.
//!
//! *Scope*: files, directories, aligned blocks, mappings, syncs and holes; their failure modes,
//! their costs, and how the costs are measured.
//!
//! *Must not depend on*: the meaning of the bytes, caching, liveness of data.
//!
//! Invariants that every implementation keeps (the test suite in `tests/it/contract.rs` runs
//! against all of them):
//!
//! - **D1** A request's buffer is owned by the device from `submit` until its outcome is taken.
//!   Dropping a [`Ticket`] early never frees memory that the device may still write.
//! - **D2** Offsets and lengths of requests to a direct file are multiples of [`BLOCK`]. A
//!   misaligned request is a bug of the caller and panics.
//! - **D3** Requests of one batch, and of batches in flight together, may complete in any order. A
//!   sync covers the writes that had *completed* when it was submitted, and nothing else.
//! - **D4** After a failed sync the file is poisoned: every later write, sync, growth or mapping
//!   fails with [`Error::Poisoned`]. A sync is never retried. Reads still work.
//! - **D5** A full disk is reported as [`Error::DiskFull`], leaves acknowledged data unchanged, and
//!   never poisons.
//! - **D6** Every request that reached the device is counted once, under its purpose, in
//!   [`DeviceCounters`].
//! - **D7** Directory entries are durable only after [`Directory::sync`]; contents only after a
//!   sync of the file.
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

/// The logical block size in bytes. Offsets and lengths of direct requests are multiples of it, and
/// a crash keeps or loses unsynced data in units of it.
pub const BLOCK: u64 = 512;

/// The alignment of buffers, in bytes.
pub const BUFFER_ALIGNMENT: usize = 4096;

const _: () = assert!(BLOCK.is_power_of_two() && (BUFFER_ALIGNMENT as u64).is_multiple_of(BLOCK));

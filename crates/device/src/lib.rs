//! Storage I/O: the only crate that does any.
//!
//! *Knows*: files, directories, aligned blocks, mappings, syncs, holes; how each of them fails;
//! what each costs; how that is measured.
//!
//! *Does not know*: what the bytes mean, who caches them, which of them are live.
//!
//! *Read in this order*: [`buffer`] (large ones: `slabs.rs`), [`batch`], [`contract`],
//! [`counters`], [`memory`], [`mod@file`], then the other implementations; [`forward`] (wrappers);
//! [`socket`] (the file of a Unix socket); [`datagrams`] (bursts of them);
//! [`probe`] (measures what is under a directory); [`skips`] (tests that cannot run).
//!
//! Invariants that every implementation keeps (a shared test suite in `tests/it/contract.rs` runs
//! on all of them):
//!
//! - **D1** A request's buffer is owned by the device from `submit` until its outcome is taken;
//!   dropping a [`Ticket`] early never frees memory that the device may still write.
//! - **D2** Offsets and lengths of a direct file's requests are multiples of [`BLOCK`]; a request
//!   that is not is a bug of the caller and panics.
//! - **D3** Requests of one batch, and of batches in flight together, may complete in any order. A
//!   sync covers the writes that had *completed* when it was submitted, and nothing else.
//! - **D4** After a failed sync the file is poisoned: every later write, sync, growth or mapping
//!   fails with [`Error::Poisoned`]; a sync is never retried. Reads go on.
//! - **D5** A full disk is [`Error::DiskFull`] and changes nothing that was acknowledged; it never
//!   poisons.
//! - **D6** Every request that reached the device is counted once, under its purpose, in
//!   [`Counters`].
//! - **D7** Names of a directory are durable only after [`Directory::sync`]; contents only after a
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

pub use batch::{Batch, Outcome, Request, Ticket};
pub use buffer::{Buffer, MemoryRegion};
pub use contract::{
    Access, BootId, Caching, Device, Directory, FileOptions, Lock, Mapping, MappingBacking, Space,
};
pub use counters::{Counters, Counts, Snapshot};
pub use error::{Error, Operation, Result};
pub use overlay::OverlayDirectory;
pub use throttled::ThrottledDirectory;
pub use uring::Gathering;

/// The logical block: offsets and lengths of direct requests are multiples of this many bytes, and
/// this is the unit in which a crash keeps or loses what was not synced.
pub const BLOCK: u64 = 512;

/// The alignment of every buffer's first byte, in bytes.
pub const BUFFER_ALIGNMENT: usize = 4096;

const _: () = assert!(BLOCK.is_power_of_two() && (BUFFER_ALIGNMENT as u64).is_multiple_of(BLOCK));

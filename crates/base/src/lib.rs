//! Types and contracts that every crate shares.
//!
//! *Scope*: how bytes are encoded and decoded without trusting them, checksums, the purposes of
//! I/Os, cost contracts and device costs, raw device measurements, messages of a dictionary, error
//! classes, cache-line prefetching, and how a task is woken.
//!
//! *Must not depend on*: files, pages, threads, clocks.
//!
//! An item enters this crate only when it has two users.
//!
//! Invariants:
//!
//! - **B1** Everything on disk is little-endian and of a fixed width: no `usize`, no host byte
//!   order.
//! - **B2** A [`bytes::ByteReader`] never panics and never reads outside its slice, whatever the
//!   bytes are.

#![warn(missing_docs)]

pub mod bytes;
pub mod checksum;
pub mod cost;
mod device_profile;
mod error;
pub mod measurements;
pub mod message;
mod prefetch;
pub mod purpose;
mod wake;

pub use checksum::checksum;
pub use device_profile::DeviceProfile;
pub use error::ErrorKind;
pub use message::{Message, MessageKind, SequenceNumber};
pub use prefetch::{prefetch, prefetch_line};
pub use purpose::Purpose;
pub use wake::wake;

/// Bytes in one kibibyte.
pub const KIB: u64 = 1 << 10;
/// Bytes in one mebibyte.
pub const MIB: u64 = 1 << 20;
/// Bytes in one gibibyte.
pub const GIB: u64 = 1 << 30;
/// Bytes in one tebibyte.
pub const TIB: u64 = 1 << 40;

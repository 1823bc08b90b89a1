//! Types and contracts that all crates share.
//!
//! *Scope*: encoding bytes, and decoding untrusted bytes; checksums; I/O purposes; the interface of
//! cost clocks and device costs; raw device measurements; dictionary messages; error classes; cache
//! line prefetches; and waking tasks.
//!
//! *Must not depend on*: files, pages, threads, clocks.
//!
//! An item belongs in this crate only if at least two crates use it.
//!
//! Invariants:
//!
//! - **B1** Integers on disk are little-endian with a fixed width, or LEB128 varints. The encoding
//!   never depends on `usize` or on the host's byte order.
//! - **B2** A [`bytes::ByteReader`] never panics and never reads outside its slice, whatever the
//!   slice contains.

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

/// Number of bytes in a kibibyte.
pub const KIB: u64 = 1 << 10;
/// Number of bytes in a mebibyte.
pub const MIB: u64 = 1 << 20;
/// Number of bytes in a gibibyte.
pub const GIB: u64 = 1 << 30;
/// Number of bytes in a tebibyte.
pub const TIB: u64 = 1 << 40;

//! What the external-memory hash tables run over: extents of bytes, read and written in blocks,
//! with transfers counted.
//!
//! *Knows*: the contract of a space, steps that can fail and leave nothing behind, streams, a
//! space in memory with faults and crashes, and a meter for the DAM, asymmetric and ideal-cache
//! models.
//!
//! *Does not know*: what the bytes mean; devices, files, checksums of a store.
//!
//! *Read in this order*: [`Space`], [`Draft`], [`Reader`] and [`Writer`], [`Meter`],
//! [`MemorySpace`].
//!
//! - **B1** Bytes that the last commit reaches are never written again before the next one.
//! - **B2** A step that fails changes nothing: what it allocated is released, and what it
//!   wanted to release is kept.
//! - **B3** A commit is atomic: after a crash, the space is as the last commit left it.

mod draft;
mod error;
pub(crate) mod format;
mod free;
mod memory;
mod meter;
mod space;
mod stream;
#[cfg(test)]
mod tests;

pub use draft::Draft;
pub use error::{Error, Result};
pub(crate) use format::{commit_state, read_state};
pub use memory::{Fault, MemorySpace};
pub use meter::{Meter, Transfers};
pub use space::{Extent, Machine, Space};
pub use stream::{Reader, Writer};

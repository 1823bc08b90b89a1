//! The foundation of the external-memory hash tables: extents of bytes that are read and written
//! in blocks, with counted transfers.
//!
//! *Knows*: the contract of a space, steps that have no effect if they fail, streams, an
//! in-memory space with faults and crashes, and a meter for the DAM, asymmetric and ideal-cache
//! models.
//!
//! *Does not know*: the meaning of the bytes; devices, files, checksums of a store.
//!
//! *Read in this order*: [`Space`], [`Draft`], [`Reader`] and [`Writer`], [`Meter`],
//! [`MemorySpace`].
//!
//! - **B1** Bytes that the last commit references are not overwritten before the next commit.
//! - **B2** A failed step changes nothing: its allocations are released, and its releases are
//!   discarded.
//! - **B3** A commit is atomic: after a crash, the space is in the state of the last commit.

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

//! The foundation of the external-memory hash tables: extents of bytes that are read and written
//! in blocks, with counted transfers.
//!
//! *Scope*: the contract of a space, steps that have no effect if they fail, streams, an
//! in-memory space with faults and crashes, and a meter for the DAM, asymmetric and ideal-cache
//! models.
//!
//! *Must not depend on*: the meaning of the bytes; devices, files, checksums of a store.
//!
//! - **B1** Bytes that the last commit references are not overwritten before the next commit.
//! - **B2** A failed step changes nothing: its allocations are released, and its releases are
//!   discarded.
//! - **B3** A commit is atomic: after a crash, the space is in the state of the last commit.

mod error;
pub(crate) mod format;
mod free_extents;
mod memory;
mod meter;
mod space;
mod stream;
#[cfg(test)]
mod tests;
mod transaction;

pub use error::{Error, Result};
pub(crate) use format::{commit_state, read_state};
pub use memory::{BlockFault, MemoryBlockSpace};
pub use meter::{BlockTransfers, TransferMeter};
pub use space::{BlockExtent, BlockSpace, MachineModel};
pub use stream::{BlockStreamReader, BlockStreamWriter};
pub use transaction::SpaceTransaction;

//! Items lent to frames: versions, page snapshots, and hints to the frames of referenced pages.
//! They serve ways of descending a tree that are not used in production, so all of this is compiled
//! only with the feature `couplings`.
//!
//! *Scope*: which items are lent to which frame, and when they are taken back.
//!
//! *Must not depend on*: how readers step from a node to its child (`read/couplings.rs`).

#[cfg(feature = "couplings")]
mod item_pool;
#[cfg(feature = "couplings")]
mod loans;
#[cfg(not(feature = "couplings"))]
mod none;
#[cfg(feature = "couplings")]
mod peek;
#[cfg(feature = "couplings")]
mod pins;
#[cfg(feature = "couplings")]
mod versions;

#[cfg(feature = "couplings")]
pub use loans::LatchFreeAccess;
#[cfg(feature = "couplings")]
pub(in crate::paged) use loans::UnlatchedPage;
#[cfg(feature = "couplings")]
pub(in crate::paged::buffer) use loans::{FrameLoans, LoanPool};
#[cfg(not(feature = "couplings"))]
pub use none::LatchFreeAccess;
#[cfg(not(feature = "couplings"))]
pub(in crate::paged::buffer) use none::{FrameLoans, LoanPool};
#[cfg(feature = "couplings")]
pub use peek::OptimisticPage;
#[cfg(feature = "couplings")]
pub use pins::PinPolicy;

//! What frames are lent for couplings that the product does not use: versions, snapshots of pages,
//! and references that remember frames. All of it is compiled with the feature `couplings` only.
//!
//! *Knows*: what is lent to which frame, and when it is taken back.
//!
//! *Does not know*: how readers go from a node to its child (`read/couplings.rs`).
//!
//! *Read in this order*: `none.rs` (in place of all others without the feature), `loans.rs`,
//! `kept.rs`, `versions.rs` and `peek.rs` (reading without pins), `pins.rs`.

#[cfg(feature = "couplings")]
mod kept;
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
pub use loans::Lending;
#[cfg(feature = "couplings")]
pub(in crate::paged) use loans::Unlatched;
#[cfg(feature = "couplings")]
pub(in crate::paged::buffer) use loans::{Lent, Loans};
#[cfg(not(feature = "couplings"))]
pub use none::Lending;
#[cfg(not(feature = "couplings"))]
pub(in crate::paged::buffer) use none::{Lent, Loans};
#[cfg(feature = "couplings")]
pub use peek::Peek;
#[cfg(feature = "couplings")]
pub use pins::PinPolicy;

//! Pure arithmetic: what storage costs.
//!
//! *Knows*: the cost models of external memory (DAM, affine, PDAM) as clocks that charge accesses,
//! how a sequence of accesses translates from one model to another, the parameters of real devices,
//! how to find them from measurements, what follows from those for a store, and which nodes of
//! B-trees and Bε-trees cost least.
//!
//! *Does not know*: devices, files, threads, time that passes. It is arithmetic on what it is told.
//!
//! *Read in this order*: [`costs`], [`translate`], [`presets`], [`fit`], [`nodes`], `profile.rs`
//! (devices as stores are told of them, and the length of nodes), [`probe`].
//!
//! Source: Bender et al., "External-memory Dictionaries in the Affine and PDAM Models", ACM
//! Transactions on Parallel Computing 8(3), 2021; cited below as *Bender*.
//!
//! Invariants:
//!
//! - **M1** Costs are exact integers of nanoseconds: no rounding depends on the order of charges.
//! - **M2** A clock never charges an access for time before it was issued: what an idle device did
//!   not do is lost.

pub mod costs;
pub mod fit;
pub mod nodes;
pub mod presets;
pub mod probe;
mod profile;
pub mod translate;

pub use costs::{Affine, Dam, Pdam};
pub use profile::best_node;

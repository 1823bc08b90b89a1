//! Cost models of storage, as pure arithmetic.
//!
//! *Scope*: the cost models of external memory (DAM, affine, PDAM) as clocks that compute the time
//! of accesses; the parameters of real devices, their fit to measurements, and what they imply for
//! a store; the optimal nodes of B-trees and Bε-trees; the popularity of keys, and the writes,
//! reads and memory of structures under it: LSM-trees, LevelDB, COLA, SAMT and SILT.
//!
//! *Must not depend on*: devices, files, threads, real time. Results depend only on the arguments;
//! random numbers are drawn from a seed given by the caller.
//!
//! Source: Bender et al., "External-memory Dictionaries in the Affine and PDAM Models", ACM
//! Transactions on Parallel Computing 8(3), 2021; cited below as *Bender*. The models of structures
//! are from *Lim* (see [`popularity`]) and *Conway* (see [`lsm`]).
//!
//! Invariants:
//!
//! - **M1** Costs are exact integer nanoseconds: no rounding depends on the order in which accesses
//!   are charged.
//! - **M2** An access never uses time before it was issued: the capacity of an idle device is lost.

mod alias;
mod cache;
pub mod costs;
pub mod fit;
pub mod lsm;
mod minimum;
pub mod mix;
pub mod nodes;
pub mod observed;
pub mod parameter;
pub mod popularity;
pub mod presets;
pub mod probe;
mod profile;
mod random;
pub mod silt;
mod stitching;
pub mod structures;
pub mod tiered;

pub use alias::AliasTable;
pub use costs::{AffineClock, DamClock, PdamClock};
pub use parameter::BadParameter;
pub use popularity::Popularity;
pub use profile::best_node;
pub use random::SplitMix64;
pub use stitching::stitch_break_even;

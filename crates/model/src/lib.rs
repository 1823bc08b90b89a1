//! Cost models of storage: pure arithmetic.
//!
//! *Scope*: the cost models of external memory (DAM, affine, PDAM) as clocks that charge accesses;
//! the parameters of real devices, how to fit them to measurements, and their consequences for a
//! store; the optimal nodes of B-trees and Bε-trees; the popularity of keys, and the resulting
//! writes, reads and memory of structures: LSM-trees, LevelDB, COLA, SAMT and SILT.
//!
//! *Must not depend on*: devices, files, threads, real time. Results depend only on the arguments;
//! random numbers are drawn from a seed given by the caller.
//!
//! Source: Bender et al., "External-memory Dictionaries in the Affine and PDAM Models", ACM
//! Transactions on Parallel Computing 8(3), 2021; cited below as *Bender*. The structures are
//! of *Lim* (see [`popularity`]) and *Conway* (see [`lsm`]).
//!
//! Invariants:
//!
//! - **M1** Costs are exact integers of nanoseconds: no rounding depends on the order of charges.
//! - **M2** A clock never charges an access for time before it was issued: the capacity of an idle
//!   device is lost.

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

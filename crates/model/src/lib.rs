//! Pure arithmetic: what storage costs.
//!
//! *Knows*: the cost models of external memory (DAM, affine, PDAM) as clocks that charge accesses,
//! the parameters of real devices, how to find them from measurements, what follows from those for
//! a store, and which nodes of B-trees and Bε-trees cost least. It also knows how popular keys are,
//! and what structures write, read and keep in memory for that: LSM-trees, LevelDB, COLA, SAMT and
//! SILT.
//!
//! *Does not know*: devices, files, threads, time that passes. It is arithmetic on what it is
//! told. What is random is drawn from a seed that the caller names.
//!
//! *Read in this order*: [`costs`], [`presets`], [`fit`], [`nodes`], [`mix`],
//! `profile.rs` (devices as stores are told of them, and the length of nodes),
//! `stitching.rs` (when merges leave leaves where they are), [`probe`]; then [`popularity`],
//! [`lsm`], [`silt`]. All refuse parameters with [`BadParameter`] and draw
//! from [`Random`] and [`Alias`]; `minimum.rs` finds minima.
//!
//! Source: Bender et al., "External-memory Dictionaries in the Affine and PDAM Models", ACM
//! Transactions on Parallel Computing 8(3), 2021; cited below as *Bender*. The structures are
//! of *Lim* (see [`popularity`]) and *Conway* (see [`lsm`]).
//!
//! Invariants:
//!
//! - **M1** Costs are exact integers of nanoseconds: no rounding depends on the order of
//!   charges.
//! - **M2** A clock never charges an access for time before it was issued: what an idle device
//!   did not do is lost.

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

pub use alias::Alias;
pub use costs::{Affine, Dam, Pdam};
pub use parameter::BadParameter;
pub use popularity::Popularity;
pub use profile::best_node;
pub use random::Random;
pub use stitching::stitch_break_even;

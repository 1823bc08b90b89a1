//! Every structure of this crate in the same small database, under the crash driver and on failing
//! devices.
//!
//! In `cargo test`, the test is small. The large run, which also asserts the counters, is
//!
//! ```text
//! ALLUVIUM_SIM_POINTS=260000 ALLUVIUM_SIM_WORKERS=2 \
//!     cargo test --release -p alluvium-trees --test it -- the_tree_survives_every_crash --nocapture
//! ```
//!
//! [`alluvium_sim::harness`] documents the other variables.

mod levels;
mod map;
mod paged;
mod tiered;

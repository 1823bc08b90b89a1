//! One crash story for every structure: a small database over the contract of a dictionary.
//!
//! *Knows*: the contract in `alluvium_dictionary`, how a store logs commits and seals memtables,
//! and the mistakes that a caller of a structure could make.
//!
//! *Does not know*: any structure. A test of a structure implements [`Subject`].
//!
//! *Read in this order*: [`Subject`] (what a structure's test supplies), [`StructureStory`] (what
//! the simulator runs), `database.rs` (log, memtables and the structure), `background.rs`
//! (incorporation, maintenance, checkpoints, reclaim), `root.rs`, `load.rs` (ingests), `steps.rs`
//! (how a run is drawn), `format.rs` (records of the log), [`Flaw`] (planted mistakes),
//! `campaigns.rs` (how far runs go).
//!
//! This is a crate of its own, and no part of `sim`: `storage` is tested with `sim`, so `sim`
//! cannot use `dictionary`, which uses `storage`.
//!
//! Invariants:
//!
//! - **Z1** A story does the same whenever it runs from the same seed.

mod background;
mod campaigns;
mod database;
mod flaw;
mod format;
mod load;
mod root;
mod stack;
pub mod steps;
mod story;
mod subject;

pub use campaigns::{crashes, faults};
pub use database::Database;
pub use flaw::Flaw;
pub use stack::Stack;
pub use steps::Action;
pub use story::{StructureStory, trouble};
pub use subject::{Layout, Subject, in_order, read};

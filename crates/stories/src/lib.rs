//! The crash story that every structure shares: a small database over the dictionary contract.
//!
//! *Knows*: the contract in `alluvium_dictionary`, how a store logs commits and seals memtables,
//! and the mistakes that a caller of a structure could make.
//!
//! *Does not know*: any structure. A structure's test implements [`StructureSubject`].
//!
//! *Read in this order*: [`StructureSubject`] (provided by a structure's test), [`StructureStory`]
//! (run by the simulator), `database.rs` (log, memtables and the structure), `background.rs`
//! (flushes, maintenance, checkpoints, reclaim), `root.rs`, `ingest.rs` (ingests), `steps.rs`
//! (steps of a run), `format.rs` (log records), [`CallerFlaw`] (planted mistakes), `campaigns.rs`
//! (length of runs).
//!
//! This is a separate crate, not part of `sim`: `storage` is tested with `sim`, so `sim` cannot
//! depend on `dictionary`, which uses `storage`.
//!
//! Invariants:
//!
//! - **Z1** A story is deterministic: the same seed gives the same run.

mod background;
mod campaigns;
mod database;
mod flaw;
mod format;
mod ingest;
mod root;
mod stack;
pub mod steps;
mod story;
mod subject;

pub use campaigns::{crashes, faults};
pub use database::StoryDatabase;
pub use flaw::CallerFlaw;
pub use stack::MemtableStack;
pub use steps::StoryAction;
pub use story::{StructureStory, to_story_error};
pub use subject::{StoreLayout, StructureSubject, in_order, read};

//! The crash story that all structures share. It runs a small database, which accesses the
//! structure through the dictionary interface.
//!
//! *Scope*: the contract in `alluvium_dictionary`, how a store logs commits and seals memtables,
//! and the mistakes that a caller of a structure could make.
//!
//! *Must not depend on*: any structure. A structure's test implements [`StructureSubject`].
//!
//! This is a separate crate rather than a part of `sim` to avoid a dependency cycle: `storage` is
//! tested with `sim`, and `dictionary` uses `storage`.
//!
//! Invariants:
//!
//! - **Z1** A story is deterministic: runs with equal seeds are equal.

mod background;
mod campaigns;
mod database;
mod flaw;
mod format;
mod ingest;
mod layers;
mod root;
mod stack;
pub mod steps;
mod story;
mod subject;

pub use campaigns::{crashes, faults};
pub use database::StoryDatabase;
pub use flaw::CallerFlaw;
pub use layers::layer_history;
pub use stack::MemtableStack;
pub use steps::StoryAction;
pub use story::{StructureStory, to_story_error};
pub use subject::{StoreLayout, StructureSubject, in_order, read};

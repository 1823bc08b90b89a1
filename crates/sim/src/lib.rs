//! Simulation of stores: an operation generator, a reference model, a crash driver, and a shrinker
//! for failures. The crate depends on interfaces rather than on any engine.
//!
//! *Scope*: the promises of a key-value store, the ways in which a machine may crash, and how to
//! explore many crashes.
//!
//! *Must not depend on*: any engine. A system under test comes as a [`Story`].
//!
//! Invariants:
//!
//! - **X1** A run is determined by its story, its settings and its seed. Equal inputs yield equal
//!   traces.
//! - **X2** Every failure can be replayed from a one-line description.

pub mod coverage;
pub mod driver;
pub mod environment;
pub mod generate;
pub mod harness;
pub mod ops;
mod prefix_directory;
pub mod reference;
pub mod replay;
pub mod saboteur;
mod shrink;
pub mod story;

pub use coverage::Coverage;
pub use driver::{
    CampaignReport, CrashCampaign, FaultCampaign, FaultReport, RunCounts, RunSettings, SimulationFinding,
};
pub use prefix_directory::PrefixDirectory;
pub use reference::{CrashHistory, ModelWrite, PromisedDurability, ReferenceModel, StoreContents};
pub use story::{CommitLedger, RunStep, Story, StoryEnvironment, StoryError, StoryErrorKind};

//! Simulation: operation generator, reference model, crash driver, shrinker. The crate depends on
//! contracts, not on engines.
//!
//! *Scope*: the promises of a key-value store, the ways in which a machine may crash, and how to
//! explore many crashes.
//!
//! *Must not depend on*: any engine. A system under test is provided as a [`Story`].
//!
//! Invariants:
//!
//! - **X1** A run is a function of its story, its settings and its seed: equal inputs give equal
//!   traces.
//! - **X2** Every finding has a single line that replays it.

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

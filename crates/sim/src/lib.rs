//! Simulation: operation generator, reference model, crash driver, shrinker. The crate depends on
//! contracts, not on engines.
//!
//! *Knows*: the promises of a key-value store, the ways in which a machine may crash, and how to
//! explore many crashes.
//!
//! *Does not know*: any engine. A system under test is provided as a [`Story`].
//!
//! *Read in this order*: [`story`] (interface of the system under test), [`mod@reference`] (allowed
//! states after a crash), [`generate`] and [`ops`] (steps from a seed), [`harness`] (tests that
//! every structure runs), [`driver`] (crashes and failing devices), `shrink` (minimised failures),
//! [`replay`] (one-line replay), [`environment`], [`saboteur`] (planted bugs, for tests of tests),
//! [`coverage`], [`PrefixDirectory`] (several directories that crash together).
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

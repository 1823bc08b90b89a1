//! Simulation: operation generator, reference model, crash driver, shrinker. It knows contracts,
//! not engines.
//!
//! *Knows*: what a store of keys and values promises, how a machine may die, and how to try many
//! ways of dying.
//!
//! *Does not know*: any engine. A system under test comes as a [`Story`].
//!
//! *Read in this order*: [`story`] (what a system must offer), [`mod@reference`] (what a crash may
//! leave), [`generate`] and [`ops`] (steps from a seed), [`harness`] (the tests that every
//! structure runs), [`driver`] (crashes, and devices that fail), `shrink` (small failures),
//! [`replay`] (one line), [`environment`], [`saboteur`] (planted bugs, for tests of tests),
//! [`coverage`], [`Part`] (several directories under one crash).
//!
//! Invariants:
//!
//! - **X1** A run is a function of its story, its settings and its seed: the same again gives the
//!   same trace.
//! - **X2** Whatever is found comes with one line that replays it.

pub mod coverage;
pub mod driver;
pub mod environment;
pub mod generate;
pub mod harness;
pub mod ops;
mod part;
pub mod reference;
pub mod replay;
pub mod saboteur;
mod shrink;
pub mod story;

pub use coverage::Coverage;
pub use driver::{Campaign, FaultCampaign, FaultReport, Finding, Report, Settings, Tally};
pub use part::Part;
pub use reference::{Contents, Crash, Durability, Reference, Write};
pub use story::{Cause, Ledger, Step, Story, Trouble, World};

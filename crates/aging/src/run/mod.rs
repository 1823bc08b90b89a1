//! Runs of workloads: which steps are measured, and what a run leaves behind.
//!
//! *Scope*: plans, measurements of aged and unaged trees, the state from which a run continues,
//! tables, plots, correlations.
//!
//! *Must not depend on*: single workloads, and the command line.

pub mod constants;
mod measurement;
mod place;
pub mod plan;
pub mod plots;
pub mod report;
pub mod runner;
pub mod state;

pub use plan::{AgingPlan, CacheMode, WorkloadKind, WorkloadSettings};
pub use runner::{RunListener, run};
pub use state::{AgingRow, RunState, SeriesState, TreeAge};

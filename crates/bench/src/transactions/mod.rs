//! Transactions: how many are committed a second, how long one takes, how often one is run again.
//!
//! *Knows*: the contract of an engine with transactions, single commits, the two tests of the
//! GTSSL thesis (Spillane 2012, section 5.4.4), counters that many clients add to.
//!
//! *Does not know*: how engines keep transactions apart; how figures are shown.
//!
//! *Read in this order*: `engine.rs` (what is measured), `phase.rs` (what is done), `job.rs`,
//! `worker.rs` (one client), `child.rs` (one engine in its process), `orders.rs` (all of them);
//! `alluvium.rs` is the engine that is at hand, `prove.rs` is what adapters are tested with.
//!
//! Invariants:
//!
//! - **T1** Every client of every engine draws the same transactions: they follow from the seed,
//!   the phase and the number of the client.
//! - **T2** A phase that adds to counters fails unless the sum of all counters is the number of
//!   increments that were committed: no update is lost, and none counts twice.
//! - **T3** What a client has put last is read back when a phase is over, and is what it has put.
//! - **T4** A transaction that meets a conflict is run again, with the same keys, until it is
//!   committed. Its latency counts from its first run; the pauses between runs are the same for
//!   all engines.

mod alluvium;
mod child;
pub mod engine;
mod job;
mod orders;
pub mod phase;
pub mod prove;
mod worker;

pub use alluvium::OWN;
pub use child::{child, run_job};
pub use job::Job;
pub use orders::{Orders, run};

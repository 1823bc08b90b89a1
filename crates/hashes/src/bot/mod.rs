//! The Bundle of Trees: a log that never moves, routing trees over it, and a queue that carries
//! characters up to them.
//!
//! *Knows*: routing trees and the search that keeps lists aligned, the character queue with its
//! ruler schedule, the β-asymmetric one, cache-oblivious merging (Conway §2.5 to §2.7).
//!
//! *Does not know*: devices, recovery logs, sequence numbers, transactions, threads.
//!
//! *Read in this order*: [`BotOptions`], `schedule.rs`, `tape.rs`, `series.rs`, `funnel.rs`,
//! `queue.rs`, `node.rs`, [`Bot`], `search.rs`, `rebuild.rs`, `check.rs`; `format.rs`.
//!
//! - **T1** The bytes of a record are written once: records lie in the log in the order they
//!   came.
//! - **T2** A root has fewer than λ children and every other node λ. A tree on a deeper level
//!   covers an older part of the log.
//! - **T3** A node's list has an entry for each record below it, by prefix, then by place in
//!   the log. So the entries of a parent that name a child and continue with a character are,
//!   in order, the child's entries with that character next.
//! - **T4** The queue holds the sketches that a record's level and each later level need, once.
//! - **T5** A tape's runs are in the order of the log, so that merges which prefer the earlier
//!   run keep that order among equal prefixes.

mod check;
mod format;
mod funnel;
mod group;
mod node;
mod options;
mod queue;
mod rebuild;
mod schedule;
mod search;
mod series;
mod table;
mod tape;
#[cfg(test)]
mod tests;

pub use check::TreeViolation;
pub use options::{BotOptions, Schedule};
pub use table::{Bot, BotFigures};

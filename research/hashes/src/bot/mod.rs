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
//!
//! Where this differs from the paper:
//!
//! - The queue is the self-consistent one: a promotion into level j begins the series j + 2^q
//!   for q < ρ(j), a leaf those of all powers of two, and items of one prefix are sorted again
//!   when their prefix grows.
//! - A parent hands down the entries that are not alive as well; without them, lists do not
//!   align.
//! - All runs of a series lie on one tape, with what is known of a run after it, so that a tape
//!   needs no directory. A queue of the β-asymmetric BOT has all later sketches of a record
//!   side by side: a merge reads those of deeper levels too, O(λ + log_λ N) in place of O(λ +
//!   β) reads.
//! - A rebuild sorts the log by fingerprint to find what is hidden, then by a hash of it:
//!   leaves in order of fingerprint would make lists uneven. Without blocks, that sort merges
//!   two at a time.
//! - A cache-oblivious table holds one record in memory, which the next one sends to the log.

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

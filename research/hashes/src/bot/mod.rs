//! The Bundle of Trees: an append-only log, routing trees over it, and a queue that delivers
//! characters to the trees.
//!
//! *Scope*: routing trees and the search that keeps lists aligned, the character queue with its
//! ruler schedule, the β-asymmetric schedule, cache-oblivious merging (Conway §2.5 to §2.7).
//!
//! *Must not depend on*: devices, recovery logs, sequence numbers, transactions, threads.
//!
//! - **T1** A record is written once: the log contains records in order of arrival.
//! - **T2** A root has fewer than λ children, and every other node has λ. A tree on a deeper
//!   level covers an older part of the log.
//! - **T3** A node's list has an entry for each record below it, ordered by prefix, then by
//!   position in the log. The entries of a parent that name a child and continue with a given
//!   character are therefore, in order, the child's entries for the prefix extended by that
//!   character.
//! - **T4** The queue contains each sketch that a record's level and each later level need, once.
//! - **T5** A tape's runs are in log order, so merges that prefer the earlier run preserve log
//!   order among equal prefixes.
//!
//! Differences from the paper:
//!
//! - The queue is the self-consistent one: a promotion into level j starts the series j + 2^q for
//!   q < ρ(j), a leaf starts those of all powers of two, and items with the same prefix are
//!   sorted again when their prefix grows.
//! - A parent also passes down the entries that are not alive; without them, lists would not
//!   align.
//! - All runs of a series are on one tape, and each run is followed by a trailer, so a tape needs
//!   no directory. A queue of the β-asymmetric BOT stores all later sketches of a record
//!   together: a merge also reads those of deeper levels, O(λ + log_λ N) instead of O(λ + β)
//!   reads.
//! - A rebuild sorts the log by fingerprint to find obsolete records, then by a hash of the
//!   fingerprint: leaves in fingerprint order would make lists uneven. Without blocks, that sort
//!   merges two runs at a time.
//! - A cache-oblivious table buffers one record in memory; the next record moves it to the log.

mod check;
mod format;
mod funnel;
mod node;
mod options;
mod prefix_group;
mod queue;
mod rebuild;
mod schedule;
mod search;
mod sketch_runs;
mod table;
mod tape;
#[cfg(test)]
mod tests;

pub use check::TreeViolation;
pub use options::{BotOptions, QueueSchedule};
pub use table::{BotCounters, BotTable};

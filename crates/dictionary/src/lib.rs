//! Types and algorithms that all dictionaries of a store share.
//!
//! *Scope*: memtables; merging messages from several sources and folding them into values; the
//! state of a key during a lookup; fetching nodes and long values; keyspace rules.
//!
//! *Must not depend on*: the record layout of any one dictionary; transactions, threads, clocks;
//! who assigned a sequence number.
//!
//! Invariants:
//!
//! - **K1** Keys are compared as byte strings. The messages of one key are ordered from newest to
//!   oldest.
//! - **K2** This crate neither spawns threads nor reads a clock.
//! - **K3** A key is hashed once, when it enters the store, and carries its hash from then on.

pub mod batch;
pub mod blob;
pub mod check_report;
pub mod checkpoint_root;
pub mod contract;
pub mod fetch;
pub mod horizon;
pub mod key;
pub mod lookup;
pub mod lookup_state;
pub mod memtable;
pub mod memtable_slice;
pub mod memtables;
pub mod merge;
pub mod nodes;
pub mod pinned_value;
pub mod placement;
pub mod range;
pub mod range_tombstones;
pub mod read;
pub mod record;
pub mod rules;
pub mod separate_values;
pub mod structure_context;
mod sync;
pub mod value_log;
pub mod versioned;

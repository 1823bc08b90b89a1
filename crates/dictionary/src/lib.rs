//! What every dictionary of a store shares.
//!
//! *Knows*: messages about keys in memory, how messages of several sources merge and fold, what is
//! known of a key while they come, where nodes and long values come from, the rules of keyspaces.
//!
//! *Does not know*: how any one dictionary keeps its records; transactions, threads, clocks; who
//! assigned a sequence number.
//!
//! *Read in this order*: [`key`], [`range`], [`deletes`], [`memtable`], [`memtables`] (with the
//! ranges that walks leap over), [`record`], [`merge`], [`rules`], [`fetch`] and [`nodes`] (where
//! a lookup's nodes come from), [`found`] (what it finds),
//! [`values`], [`gather`], [`batch`] and [`apart`] (what a scan has decided),
//! [`read`] (what a check reads), [`blob`] and [`cut`] (what a checkpoint writes), [`horizon`],
//! [`home`] (what a store hands over), [`placement`] (which tier data goes to),
//! [`share`], [`findings`], [`contract`] (what a dictionary is to its store), [`lookup`] (what
//! drives its lookups), [`versioned`] (what structures that publish versions share).
//!
//! Invariants:
//!
//! - **K1** Keys compare as bytes. Messages of one key are ordered newest first.
//! - **K2** Nothing here spawns a thread or reads a clock.
//! - **K3** A key is hashed once where it enters; its hash travels with it.

pub mod apart;
pub mod batch;
pub mod blob;
pub mod contract;
pub mod cut;
pub mod deletes;
pub mod fetch;
pub mod findings;
pub mod found;
pub mod gather;
pub mod home;
pub mod horizon;
pub mod key;
pub mod lookup;
pub mod memtable;
pub mod memtables;
pub mod merge;
pub mod nodes;
pub mod placement;
pub mod range;
pub mod read;
pub mod record;
pub mod rules;
pub mod share;
mod sync;
pub mod values;
pub mod versioned;

//! Types and algorithms that all dictionary structures of a store share.
//!
//! *Knows*: memtables, merging and folding messages from several sources, the state of a key during
//! a lookup, how nodes and long values are fetched, the rules of keyspaces.
//!
//! *Does not know*: the record layout of any one dictionary; transactions, threads, clocks; who
//! assigned a sequence number.
//!
//! *Read in this order*: [`key`], [`range`], [`deletes`], [`memtable`], [`memtables`] (with the
//! deleted ranges that scans skip), [`record`], [`merge`], [`rules`], [`fetch`] and [`nodes`]
//! (sources of a lookup's nodes), [`found`] (the result of a lookup), [`values`], [`gather`],
//! [`batch`] and [`apart`] (the output of a scan), [`read`] (input of a check), [`blob`] and
//! [`cut`] (output of a checkpoint), [`horizon`], [`home`] (what a store passes to a dictionary),
//! [`placement`] (choice of tier), [`share`], [`findings`], [`contract`] (the traits between a
//! store and its dictionaries), [`lookup`] (the lookup driver), [`versioned`] (shared by structures
//! that publish versions).
//!
//! Invariants:
//!
//! - **K1** Keys compare as bytes. Messages of one key are ordered newest first.
//! - **K2** Nothing here spawns a thread or reads a clock.
//! - **K3** A key is hashed once, on entry; its hash is passed along with it.

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

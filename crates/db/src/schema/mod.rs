//! The catalog of keyspaces, and the formats of records, keys and the manifest.
//!
//! *Knows*: which keyspaces a store has, and the bytes of its log records, of its keys and of its
//! manifest.
//!
//! *Does not know*: when a record is written, and who reads it.
//!
//! *Read in this order*: `format.rs` (keys of the tree, log records, records of the catalog),
//! `catalog.rs`, `manifest/`; `keys/` (typed parts of keys, for users who want them).

pub(crate) mod catalog;
pub(crate) mod format;
pub mod keys;
pub(crate) mod manifest;

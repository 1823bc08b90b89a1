//! The catalog of keyspaces, and the encodings of log records, keys and the manifest.
//!
//! *Scope*: which keyspaces a store has, and how its log records, its keys and its manifest are
//! encoded.
//!
//! *Must not depend on*: when a record is written, and who reads it.

pub(crate) mod catalog;
#[allow(missing_docs, reason = "only tests and fuzz targets can name its items")]
pub(crate) mod format;
pub mod keys;
pub(crate) mod manifest;

//! The catalog of keyspaces, and the formats of records, keys and the manifest.
//!
//! *Scope*: which keyspaces a store has, and the bytes of its log records, of its keys and of its
//! manifest.
//!
//! *Must not depend on*: when a record is written, and who reads it.

pub(crate) mod catalog;
#[allow(missing_docs, reason = "only tests and fuzz targets can name its items")]
pub(crate) mod format;
pub mod keys;
pub(crate) mod manifest;

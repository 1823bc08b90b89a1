//! The log store: records in the order of their arrival, and a cuckoo table of where they are.
//!
//! *Scope*: the bytes of records; how a log is read to its torn end; which record is a key's.
//!
//! *Must not depend on*: files. The owner reads records for it.

pub mod format;
mod index;

pub use format::{SiltLogRecord, SiltLogScan, SiltRecordKind, UNIT};
pub use index::{LogIndex, PutOutcome};

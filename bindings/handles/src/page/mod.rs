//! Pages of records in one buffer, with which other languages exchange many records in one call.
//!
//! *Scope*: records that follow each other in a buffer.
//!
//! *Must not depend on*: where the records come from, stores.

mod format;

pub use format::{SplitRecord, encoded_length, next_record, push_record};

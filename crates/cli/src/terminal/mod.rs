//! The terminal side of verbs: output, confirmations, errors with their exit codes, the log.
//!
//! *Scope*: standard output and standard error, whether they are a terminal, the exit codes.
//!
//! *Must not depend on*: what is printed.

pub(crate) mod confirm;
pub(crate) mod exit;
pub(crate) mod log;
pub(crate) mod screen;

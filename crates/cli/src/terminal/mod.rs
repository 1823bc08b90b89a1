//! The interface between verbs and the terminal: output, confirmations, error messages and exit
//! codes, and the log.
//!
//! *Scope*: standard output and standard error, terminal detection, and exit codes.
//!
//! *Must not depend on*: what is printed.

pub(crate) mod confirm;
pub(crate) mod exit;
pub(crate) mod log;
pub(crate) mod screen;

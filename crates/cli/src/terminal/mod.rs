//! The interface between verbs and the terminal: output, confirmations, errors with their exit
//! codes, and the log.
//!
//! *Scope*: standard output and standard error, the detection of a terminal, and the exit codes.
//!
//! *Must not depend on*: what is printed.

pub(crate) mod confirm;
pub(crate) mod exit;
pub(crate) mod log;
pub(crate) mod screen;

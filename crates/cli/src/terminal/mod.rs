//! What people and scripts see of a verb: output, confirmations, errors with their exit codes, the
//! log.
//!
//! *Knows*: standard output and standard error, whether they are a terminal, the exit codes.
//!
//! *Does not know*: what is printed.
//!
//! *Read in this order*: `screen.rs` (output), `exit.rs` (exit codes and error messages),
//! `confirm.rs` (irreversible operations), `log.rs` (events of background work).

pub(crate) mod confirm;
pub(crate) mod exit;
pub(crate) mod log;
pub(crate) mod screen;

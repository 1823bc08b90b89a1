//! Workshop commands that keep the workspace consistent with `docs/architecture.md`.
//!
//! *Scope*: the source text of the workspace, its Cargo manifests, and the project rules that can
//! be checked in text.
//!
//! *Must not depend on*: run-time behaviour, which the compiler, clippy and the tests check.
//!
//! Invariants:
//!
//! - **X1** A check reads only the workspace passed to it, so each check can be tested on planted
//!   violations.
//! - **X2** A finding names the file and the line, and says how to fix the violation.
//! - **X3** The ratchet only goes down: no command raises a number in `ratchet.toml`.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod api;
pub mod tidy;

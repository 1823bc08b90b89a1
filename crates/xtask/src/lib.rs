//! Workshop commands: what keeps the workspace as `docs/architecture.md` describes it.
//!
//! *Knows*: the source text of the workspace, its Cargo manifests, and the rules that text can
//! show.
//!
//! *Does not know*: what the code does when it runs; the compiler, clippy and the tests know that.
//!
//! *Read in this order*: [`tidy`], `tidy/source.rs` (how text is cut into tokens),
//! `tidy/workspace.rs` (what there is to check), then any check: each is one pure function from a
//! [`tidy::Workspace`] to its findings.
//!
//! Invariants:
//!
//! - **X1** A check reads the workspace it is handed and nothing else, so that each is tested on
//!   planted violations.
//! - **X2** A finding names file and line, and says what to do.
//! - **X3** The ratchet only goes down: no command raises a number in `ratchet.toml`.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod api;
pub mod tidy;

//! A read-only HTTP interface: a web page for people, JSON for programs and text for Prometheus.
//!
//! *Knows*: authentication, queries, the presentation of the server and its store, their activity
//! in the last minutes.
//!
//! *Does not know*: how commands change the store.
//!
//! *Read in this order*: `listen.rs` (the thread and its connections), `guard.rs` (access control),
//! `site.rs` (routes), `query.rs`, `refusal.rs`, `json.rs`; then the answers: `history.rs`,
//! `tree.rs`, `browse.rs` with `typed.rs`, `metrics.rs` with `families.rs` and
//! `transaction_metrics.rs`; `assets/` is the page itself.
//!
//! Invariants:
//!
//! - **S12** Neither a client without the password nor a page of another site learns anything:
//!   unknown host names are refused, other sites may not read or frame answers, and the page runs
//!   only its own scripts.
//! - **S13** The memory of a request is bounded independently of the store, except for a single
//!   value that is requested without encoding.

mod browse;
#[cfg(test)]
mod contrast;
mod families;
mod guard;
mod history;
mod json;
mod listen;
mod metrics;
mod predicted;
mod query;
mod refusal;
mod site;
mod transaction_metrics;
mod tree;
mod typed;

pub(crate) use listen::{WebOptions, WebServer};

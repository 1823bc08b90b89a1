//! A read-only HTTP interface: a web page for people, JSON for programs and text for Prometheus.
//!
//! *Scope*: authentication, queries, the presentation of the server and its store, their activity
//! in the last minutes.
//!
//! *Must not depend on*: how commands change the store.
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

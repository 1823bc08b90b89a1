//! A read-only HTTP interface with a web page for people, JSON for programs, and metrics for
//! Prometheus.
//!
//! *Scope*: authentication, queries, and the display of the server, its store, and their activity
//! in the last minutes.
//!
//! *Must not depend on*: how commands change the store.
//!
//! Invariants:
//!
//! - **S12** A client without the password learns nothing about the server or its data, and neither
//!   does another web site's page. Requests with unknown host names are rejected, other sites
//!   cannot read responses or embed them in frames, and the page runs only its own scripts.
//! - **S13** A request's memory has a limit that does not depend on the size of the store, unless
//!   the request asks for a single value without encoding.

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

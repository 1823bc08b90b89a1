//! A web page for people, JSON for programs and text for Prometheus, over HTTP. It only reads.
//!
//! *Knows*: who may ask, what is asked, how the server and its store are shown, what they did in
//! the last minutes.
//!
//! *Does not know*: how commands change the store.
//!
//! *Read in this order*: `listen.rs` (the thread and its connections), `guard.rs` (who is refused),
//! `site.rs` (what is where), `query.rs`, `refusal.rs`, `json.rs`; then what is answered:
//! `history.rs`, `tree.rs`, `browse.rs` with `typed.rs`, `metrics.rs` with `families.rs` and
//! `open.rs`;
//! `assets/` is the page itself.
//!
//! Invariants:
//!
//! - **S12** No client without the password learns anything, and no page of another site either:
//!   names of hosts that are not ours are refused, answers may not be read or framed by others, and
//!   the page runs no script but its own.
//! - **S13** A request takes memory within limits that do not depend on the store, but for one
//!   value that is asked for as it is.

mod browse;
#[cfg(test)]
mod contrast;
mod families;
mod guard;
mod history;
mod json;
mod listen;
mod metrics;
mod open;
mod predicted;
mod query;
mod refusal;
mod site;
mod tree;
mod typed;

pub(crate) use listen::{Setting, Web};

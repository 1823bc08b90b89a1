//! The memcached protocol: text and meta commands.
//!
//! *Knows*: the syntax of requests, their effects on items, their replies.
//!
//! *Does not know*: sockets; the encoding of an item in the store (`store/model/format.rs`).
//!
//! *Read in this order*: `request.rs` (lines and blocks), `session.rs` (one connection), `run.rs`
//! (requests that are executed together) and `outcome.rs` (their progress), `items.rs` (operations
//! on items), `text.rs`, `meta.rs`, `execute.rs`, `stats.rs`, `dump.rs`; `cached/` (a connection to
//! a cache).
//!
//! ```text
//! request = WORD { " " WORD } CRLF                        all but those that bring an item
//!         | WORD { " " WORD } CRLF BYTES CRLF             set, add, replace, append, prepend, cas; ms
//! ```

pub(crate) mod cached;
mod dump;
mod execute;
mod items;
mod meta;
mod outcome;
mod permission;
pub mod request;
mod run;
mod session;
mod stats;
mod text;

pub(crate) use cached::CachedSession;
pub(crate) use session::MemcachedSession;

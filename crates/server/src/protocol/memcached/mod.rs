//! The memcached protocol, with its text commands and meta commands.
//!
//! *Scope*: the syntax of requests, their effects on items, and their replies.
//!
//! *Must not depend on*: sockets; the encoding of an item in the store (`store/model/format.rs`).
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

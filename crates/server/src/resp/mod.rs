//! The codec of the Redis protocol: RESP2, RESP3, and commands typed by hand.
//!
//! *Knows*: how requests look on the wire, what is refused before it is one, how replies are
//! written in either version.
//!
//! *Does not know*: commands.
//!
//! *Read in this order*: `parse.rs` (requests), `reply.rs` (replies), `number.rs` and
//! `hexadecimal.rs` (numbers as Redis writes and reads them).
//!
//! ```text
//! request   = *COUNT CRLF { $LENGTH CRLF BYTES CRLF }      what clients send
//!           | WORD { BLANK WORD } LF                       what people type; words may stand in quotes
//! ```
//!
//! Bytes from a socket are not trusted: nothing is allocated because a length says so, only because
//! bytes have come.

mod hexadecimal;
pub mod number;
pub mod parse;
pub mod reply;

pub use parse::{Args, BadRequest, Limits, Parser, Requests};
pub(crate) use reply::{Progress, Tail};
pub use reply::{Reply, Version};

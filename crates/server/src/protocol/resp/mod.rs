//! The encoding of the Redis protocol: RESP2, RESP3, and inline commands.
//!
//! *Scope*: the wire format of requests, limits on incomplete requests, and the format of replies
//! in both protocol versions.
//!
//! *Must not depend on*: commands.
//!
//! ```text
//! request   = *COUNT CRLF { $LENGTH CRLF BYTES CRLF }      what clients send
//!           | WORD { BLANK WORD } LF                       what people type; words may stand in quotes
//! ```
//!
//! Input from a socket is not trusted. Memory is allocated only for bytes that have arrived, never
//! for a length that a client has merely announced.

mod hexadecimal;
pub mod number;
pub mod parse;
pub mod reply;

pub use parse::{Args, BadRequest, ParsedRequests, RequestLimits, RequestParser};
pub(crate) use reply::{ReplyProgress, ReplyTail};
pub use reply::{ReplyWriter, RespVersion};

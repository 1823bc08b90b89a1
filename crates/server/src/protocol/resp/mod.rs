//! The codec of the Redis protocol: RESP2, RESP3, and inline commands.
//!
//! *Scope*: the wire format of requests, the limits on incomplete ones, the format of replies in
//! both versions.
//!
//! *Must not depend on*: commands.
//!
//! ```text
//! request   = *COUNT CRLF { $LENGTH CRLF BYTES CRLF }      what clients send
//!           | WORD { BLANK WORD } LF                       what people type; words may stand in quotes
//! ```
//!
//! Input from a socket is not trusted: memory is allocated only for bytes that have arrived, never
//! for a stated length.

mod hexadecimal;
pub mod number;
pub mod parse;
pub mod reply;

pub use parse::{Args, BadRequest, ParsedRequests, RequestLimits, RequestParser};
pub(crate) use reply::{ReplyProgress, ReplyTail};
pub use reply::{ReplyWriter, RespVersion};

//! The settings that a client chooses for its connection.

use super::reply_mode::ReplyMode;
use crate::protocol::resp::RespVersion;

/// The client's settings for its connection. RESET restores the defaults.
#[derive(Clone, Copy, Debug)]
pub(in crate::redis) struct SessionSettings {
    /// The database selected with SELECT, from 0 to 15.
    pub(in crate::redis) database: u8,
    /// The protocol version selected with HELLO.
    pub(in crate::redis) version: RespVersion,
    pub(in crate::redis) reply_mode: ReplyMode,
    /// Whether reads count as uses of keys. CLIENT NO-TOUCH ON sets this to false.
    pub(in crate::redis) touches_keys: bool,
}

impl Default for SessionSettings {
    fn default() -> SessionSettings {
        SessionSettings {
            database: 0,
            version: RespVersion::Two,
            reply_mode: ReplyMode::On,
            touches_keys: true,
        }
    }
}

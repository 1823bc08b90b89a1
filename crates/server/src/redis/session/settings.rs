//! Per-connection settings that a client chooses.

use super::reply_mode::ReplyMode;
use crate::protocol::resp::Version;

/// The settings of a client. RESET restores the defaults.
#[derive(Clone, Copy, Debug)]
pub(in crate::redis) struct Settings {
    /// The selected database.
    pub(in crate::redis) database: u8,
    /// The protocol version chosen with HELLO.
    pub(in crate::redis) version: Version,
    pub(in crate::redis) reply_mode: ReplyMode,
    /// Whether reads count as uses of keys, as set by CLIENT NO-TOUCH.
    pub(in crate::redis) touches_keys: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            database: 0,
            version: Version::Two,
            reply_mode: ReplyMode::On,
            touches_keys: true,
        }
    }
}

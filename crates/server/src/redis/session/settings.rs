//! What a client chooses for its connection.

use super::reply_mode::ReplyMode;
use crate::resp::Version;

/// The choices of a client. RESET makes all of them the defaults again.
#[derive(Clone, Copy, Debug)]
pub(in crate::redis) struct Settings {
    /// The database that SELECT names.
    pub(in crate::redis) database: u8,
    /// The version of the protocol that HELLO names.
    pub(in crate::redis) version: Version,
    pub(in crate::redis) reply_mode: ReplyMode,
    /// Whether reads count as uses of keys. CLIENT NO-TOUCH changes it.
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

//! Which replies a client wants: CLIENT REPLY.

/// Whether replies are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) enum ReplyMode {
    On,
    Off,
    /// The next command has no reply.
    SkipNext,
}

impl ReplyMode {
    /// Discards the replies of a command, from `start` on, that the client does not want. `before`
    /// is the mode that the command began with.
    pub(in crate::redis) fn apply(&mut self, before: ReplyMode, output: &mut Vec<u8>, start: usize) {
        match before {
            // CLIENT REPLY ON has a reply whatever the mode was.
            ReplyMode::Off | ReplyMode::SkipNext if *self == ReplyMode::On => {}
            ReplyMode::Off => output.truncate(start),
            ReplyMode::SkipNext => {
                output.truncate(start);
                if *self == ReplyMode::SkipNext {
                    *self = ReplyMode::On;
                }
            }
            ReplyMode::On if *self != ReplyMode::On => output.truncate(start),
            ReplyMode::On => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_kept_only_while_the_client_wants_it() {
        use ReplyMode::{Off, On, SkipNext};
        let applied = |before, mut now: ReplyMode| {
            let mut output = b"sent+OK\r\n".to_vec();
            now.apply(before, &mut output, 4);
            (output.len() > 4, now)
        };
        assert_eq!(applied(On, On), (true, On));
        assert_eq!(applied(On, Off), (false, Off));
        assert_eq!(applied(On, SkipNext), (false, SkipNext));
        assert_eq!(applied(SkipNext, SkipNext), (false, On), "one command is skipped");
        assert_eq!(applied(SkipNext, Off), (false, Off));
        assert_eq!(applied(SkipNext, On), (true, On));
        assert_eq!(applied(Off, Off), (false, Off));
        assert_eq!(applied(Off, SkipNext), (false, SkipNext));
        assert_eq!(applied(Off, On), (true, On));
    }
}

//! The suppression of replies by CLIENT REPLY.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) enum ReplyMode {
    On,
    Off,
    /// The reply to the next command is suppressed.
    SkipNext,
}

impl ReplyMode {
    /// Discards a command's reply, which begins at `start` in the output, if replies are
    /// suppressed. `before` is the mode before the command.
    pub(in crate::redis) fn apply(&mut self, before: ReplyMode, output: &mut Vec<u8>, start: usize) {
        match before {
            // The reply to CLIENT REPLY ON is always sent.
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

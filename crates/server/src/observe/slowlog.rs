//! SLOWLOG: the log of the most recent slow commands.

use parking_lot::Mutex;
use std::collections::VecDeque;

/// Maximum number of arguments in an entry, and (`BYTES`) maximum number of bytes of each.
const ARGUMENTS: usize = 32;
const BYTES: usize = 128;

/// A log entry: a slow command, or the first command of a slow batch.
#[derive(Clone, Debug)]
pub(crate) struct SlowLogEntry {
    pub(crate) id: u64,
    pub(crate) at_s: u64,
    pub(crate) took_us: u64,
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) peer: String,
    pub(crate) name: String,
}

/// The log of the most recent slow commands, from newest to oldest.
#[derive(Debug, Default)]
pub(crate) struct SlowLog {
    entries: Mutex<(u64, VecDeque<SlowLogEntry>)>,
}

impl SlowLog {
    /// Adds an entry to the log, and removes the oldest ones beyond `most` entries.
    pub(crate) fn note<'a>(
        &self,
        mut slow: SlowLogEntry,
        args: impl ExactSizeIterator<Item = &'a [u8]>,
        most: usize,
    ) {
        let count = args.len();
        for (index, arg) in args.enumerate().take(ARGUMENTS) {
            slow.args.push(if index + 1 == ARGUMENTS && count > ARGUMENTS {
                format!("... ({} more arguments)", count - ARGUMENTS + 1).into_bytes()
            } else if arg.len() > BYTES {
                let rest = format!("... ({} more bytes)", arg.len() - BYTES);
                [&arg[..BYTES], rest.as_bytes()].concat()
            } else {
                arg.to_vec()
            });
        }
        let mut entries = self.entries.lock();
        slow.id = entries.0;
        entries.0 += 1;
        entries.1.push_front(slow);
        entries.1.truncate(most);
    }

    pub(crate) fn newest(&self, most: usize) -> Vec<SlowLogEntry> {
        self.entries.lock().1.iter().take(most).cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.lock().1.len()
    }

    pub(crate) fn reset(&self) {
        self.entries.lock().1.clear();
    }
}

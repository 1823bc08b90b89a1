//! What was denied, and to whom: what ACL LOG shows.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many entries are kept, unless CONFIG SET acllog-max-len says otherwise, and at most.
const USUAL: usize = 128;
const MOST: usize = 10_000;

/// How many of the newest entries are compared with a new one.
const COMPARED: usize = 10;

/// What is the same as an entry of so long ago is counted there.
const TOGETHER_MS: u64 = 60_000;

/// The longest name of a key or user that is kept, in bytes.
const LONGEST: usize = 512;

/// Why something was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The user may not use the command.
    Command,
    /// The user may not use the key so.
    Key,
    /// The password was wrong, or there is no such user.
    Auth,
}

/// Where it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    TopLevel,
    Multi,
}

/// Something that was denied, perhaps more than once.
#[derive(Clone, Debug)]
pub(crate) struct Denial {
    pub(crate) count: u64,
    pub(crate) reason: Reason,
    pub(crate) context: Context,
    /// The command or the key.
    pub(crate) object: Vec<u8>,
    pub(crate) user: Vec<u8>,
    pub(crate) at_ms: u64,
    /// The connection, in a line.
    pub(crate) client: String,
}

impl Denial {
    fn is_like(&self, other: &Denial) -> bool {
        self.reason == other.reason
            && self.context == other.context
            && self.object == other.object
            && self.user == other.user
            && self.at_ms.abs_diff(other.at_ms) <= TOGETHER_MS
    }
}

/// The last denials, newest first.
#[derive(Debug)]
pub(crate) struct DenialLog {
    entries: Mutex<VecDeque<Denial>>,
    kept: AtomicUsize,
}

impl Default for DenialLog {
    fn default() -> DenialLog {
        DenialLog {
            entries: Mutex::default(),
            kept: AtomicUsize::new(USUAL),
        }
    }
}

impl DenialLog {
    /// Notes one.
    pub(crate) fn note(&self, mut denial: Denial) {
        denial.object.truncate(LONGEST);
        denial.user.truncate(LONGEST);
        let mut entries = self.entries.lock();
        let alike = entries
            .iter()
            .take(COMPARED)
            .position(|known| known.is_like(&denial));
        if let Some(known) = alike.and_then(|index| entries.remove(index)) {
            denial.count += known.count;
        }
        entries.push_front(denial);
        entries.truncate(self.kept());
    }

    /// How many entries are kept.
    pub(crate) fn kept(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }

    /// Keeps at most this number of entries from the next one on.
    pub(crate) fn keep(&self, count: usize) {
        self.kept.store(count.min(MOST), Ordering::Relaxed);
    }

    pub(crate) fn newest(&self, most: usize) -> Vec<Denial> {
        self.entries.lock().iter().take(most).cloned().collect()
    }

    pub(crate) fn reset(&self) {
        self.entries.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(object: &str, at_ms: u64) -> Denial {
        Denial {
            count: 1,
            reason: Reason::Key,
            context: Context::TopLevel,
            object: object.into(),
            user: b"somebody".to_vec(),
            at_ms,
            client: String::new(),
        }
    }

    #[test]
    fn what_is_denied_again_is_counted_and_the_log_is_bounded() {
        let log = DenialLog::default();
        log.note(denial("a", 0));
        log.note(denial("b", 1));
        log.note(denial("a", 2));
        let newest = log.newest(10);
        assert_eq!((newest.len(), newest[0].count, newest[0].at_ms), (2, 2, 2));
        log.note(denial("a", 70_000));
        assert_eq!(log.newest(1)[0].count, 1);
        for number in 0..1000 {
            log.note(denial(&"x".repeat(number), 80_000));
        }
        let all = log.newest(usize::MAX);
        assert_eq!(all.len(), USUAL);
        assert!(all.iter().all(|denial| denial.object.len() <= LONGEST));
        log.keep(5);
        log.note(denial("a", 90_000));
        assert_eq!(log.newest(usize::MAX).len(), 5);
        log.reset();
        assert!(log.newest(1).is_empty());
    }
}

//! The log of denied commands, as shown by ACL LOG.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Entries that are kept: the default of CONFIG SET acllog-max-len, and its maximum.
const USUAL: usize = 128;
const MOST: usize = 10_000;

/// Number of newest entries that a new one may be merged with.
const COMPARED: usize = 10;

/// Largest age of an entry that a new one may be merged with, in milliseconds.
const TOGETHER_MS: u64 = 60_000;

/// Longest stored name of a key or user, in bytes. Longer names are truncated.
const LONGEST: usize = 512;

/// The reason of a denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DenialReason {
    /// The user may not use the command.
    Command,
    /// The user may not access the key in this way.
    Key,
    /// The user does not exist or the password is wrong.
    Auth,
}

/// The context of the denied command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DenialContext {
    TopLevel,
    Multi,
}

/// An entry of the log, which may stand for several equal denials.
#[derive(Clone, Debug)]
pub(crate) struct Denial {
    pub(crate) count: u64,
    pub(crate) reason: DenialReason,
    pub(crate) context: DenialContext,
    /// The denied command or key.
    pub(crate) object: Vec<u8>,
    pub(crate) user: Vec<u8>,
    pub(crate) at_ms: u64,
    /// Description of the connection, in one line.
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

/// The most recent denials, newest first.
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
    /// Adds an entry, or merges it with a recent equal one.
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

    /// Returns the maximum number of entries.
    pub(crate) fn kept(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }

    /// Sets the maximum number of entries. It takes effect with the next entry.
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
            reason: DenialReason::Key,
            context: DenialContext::TopLevel,
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

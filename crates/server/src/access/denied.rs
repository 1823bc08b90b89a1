//! The log of denied commands and failed logins, shown by ACL LOG.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Default number of log entries, and the maximum that CONFIG SET acllog-max-len can set.
const USUAL: usize = 128;
const MOST: usize = 10_000;

/// Number of the newest entries that are searched for one to merge with a new denial.
const COMPARED: usize = 10;

/// Maximum age in milliseconds of an entry that a new denial can be merged with.
const TOGETHER_MS: u64 = 60_000;

/// Maximum length in bytes of a key or user name in an entry. Longer ones are truncated.
const LONGEST: usize = 512;

/// Why access was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DenialReason {
    /// The user may not use the command.
    Command,
    /// The user may not access the key in this way.
    Key,
    /// The user may not access the channel.
    Channel,
    /// The user does not exist, or the password is wrong.
    Auth,
}

/// Whether the denied command was sent on its own or within MULTI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DenialContext {
    TopLevel,
    Multi,
}

/// A log entry, which may represent several equal denials.
#[derive(Clone, Debug)]
pub(crate) struct Denial {
    pub(crate) count: u64,
    pub(crate) reason: DenialReason,
    pub(crate) context: DenialContext,
    /// The denied command's name, or the denied key.
    pub(crate) object: Vec<u8>,
    pub(crate) user: Vec<u8>,
    pub(crate) at_ms: u64,
    /// A one-line description of the connection that sent the command.
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

/// The log of the most recent denials, from newest to oldest.
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
    /// Adds a denial to the log, or merges it with an equal recent entry.
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

    /// Returns the maximum number of entries that the log keeps.
    pub(crate) fn kept(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }

    /// Sets the maximum number of log entries. Surplus entries are removed when the next one is
    /// added.
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

//! A server's log level, which can be changed at run time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tracing::Level;

/// The names of the log levels in Redis, each with the least severe event level that is still
/// printed.
const NAMES: [(&str, Level); 4] = [
    ("debug", Level::TRACE),
    ("verbose", Level::DEBUG),
    ("notice", Level::INFO),
    ("warning", Level::WARN),
];

/// A log level whose value all clones share. The function that prints log events reads it, and
/// `CONFIG SET loglevel` changes it.
///
/// ```
/// use alluvium_server::LogLevel;
/// let level = LogLevel::warning();
/// assert!(level.admits(tracing::Level::ERROR) && !level.admits(tracing::Level::INFO));
/// ```
#[derive(Clone, Debug)]
pub struct LogLevel(Arc<AtomicU8>);

impl LogLevel {
    /// Returns a log level at which only warnings and errors are printed.
    #[must_use]
    pub fn warning() -> LogLevel {
        LogLevel(Arc::new(AtomicU8::new(3)))
    }

    fn index(&self) -> usize {
        usize::from(self.0.load(Ordering::Relaxed)).min(NAMES.len() - 1)
    }

    /// Returns whether events of severity `level` are printed at the current log level.
    #[must_use]
    pub fn admits(&self, level: Level) -> bool {
        level <= NAMES[self.index()].1
    }

    /// Returns the current log level's name in Redis.
    pub(crate) fn name(&self) -> &'static str {
        NAMES[self.index()].0
    }

    /// Sets the log level by its name in Redis: debug, verbose, notice or warning. Returns whether
    /// the name is known.
    #[must_use]
    pub fn set_by_name(&self, name: &str) -> bool {
        self.set(name.as_bytes())
    }

    pub(crate) fn set(&self, name: &[u8]) -> bool {
        let found = (0..)
            .zip(NAMES)
            .find(|(_, (known, _))| name.eq_ignore_ascii_case(known.as_bytes()));
        if let Some((index, _)) = found {
            self.0.store(index, Ordering::Relaxed);
        }
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_has_the_names_of_redis() {
        let level = LogLevel::warning();
        assert_eq!(level.name(), "warning");
        for (name, least) in NAMES {
            assert!(level.set(name.to_ascii_uppercase().as_bytes()));
            assert!(level.name() == name && level.admits(least));
        }
        assert!(!level.set(b"nothing") && level.name() == "warning");
        assert!(level.set(b"notice") && level.admits(Level::INFO) && !level.admits(Level::DEBUG));
    }
}

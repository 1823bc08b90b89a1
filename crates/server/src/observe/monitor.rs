//! MONITOR: sends a copy of every executed command to subscribed connections, within a memory
//! limit.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;

/// Maximum number of a monitoring connection's unsent bytes, beyond which the connection is closed.
const MOST_BYTES: usize = 1 << 20;

/// The commands not yet sent to one monitoring connection.
#[derive(Debug, Default)]
pub(crate) struct MonitorBacklog {
    lines: Mutex<Vec<u8>>,
    waker: Mutex<Option<Waker>>,
    is_overrun: AtomicBool,
}

impl MonitorBacklog {
    /// Sets the waker to call when the backlog has new content.
    pub(crate) fn is_woken_by(&self, waker: &Waker) {
        *self.waker.lock() = Some(waker.clone());
    }

    /// Returns the backlog's memory in bytes.
    pub(crate) fn held(&self) -> usize {
        self.lines.lock().capacity()
    }

    /// Returns whether the backlog has exceeded its limit, so that the connection must be closed.
    pub(crate) fn is_overrun(&self) -> bool {
        self.is_overrun.load(Ordering::Acquire)
    }

    /// Moves the backlog to the end of `output`. Returns false if it has exceeded its limit, so
    /// that the connection must be closed.
    pub(crate) fn take(&self, output: &mut Vec<u8>) -> bool {
        let lines = std::mem::take(&mut *self.lines.lock());
        output.extend_from_slice(&lines);
        !self.is_overrun()
    }

    fn show(&self, line: &[u8]) {
        {
            let mut lines = self.lines.lock();
            if lines.len() + line.len() > MOST_BYTES {
                *lines = Vec::new();
                self.is_overrun.store(true, Ordering::Release);
            } else if !self.is_overrun() {
                lines.extend_from_slice(line);
            }
        }
        if let Some(waker) = &*self.waker.lock() {
            waker.wake_by_ref();
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct MonitorRegistry {
    count: AtomicUsize,
    feeds: Mutex<Vec<Arc<MonitorBacklog>>>,
}

impl MonitorRegistry {
    /// Returns whether at least one connection is monitoring.
    pub(crate) fn are_there(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn join(&self) -> Arc<MonitorBacklog> {
        let feed = Arc::new(MonitorBacklog::default());
        let mut feeds = self.feeds.lock();
        feeds.push(Arc::clone(&feed));
        self.count.store(feeds.len(), Ordering::Relaxed);
        feed
    }

    pub(crate) fn leave(&self, feed: &Arc<MonitorBacklog>) {
        let mut feeds = self.feeds.lock();
        feeds.retain(|other| !Arc::ptr_eq(other, feed));
        self.count.store(feeds.len(), Ordering::Relaxed);
    }

    pub(crate) fn show(&self, line: &[u8]) {
        self.feeds.lock().iter().for_each(|feed| feed.show(line));
    }
}

/// Formats a command as MONITOR prints it: `+time [database address] "word" …`.
pub(crate) fn line<'a>(
    now_us: u64,
    database: u8,
    address: &str,
    words: impl Iterator<Item = &'a [u8]>,
) -> Vec<u8> {
    let mut line = format!(
        "+{}.{:06} [{database} {address}]",
        now_us / 1_000_000,
        now_us % 1_000_000
    )
    .into_bytes();
    for word in words {
        line.extend_from_slice(b" \"");
        for &byte in word {
            match byte {
                b'"' | b'\\' => line.extend_from_slice(&[b'\\', byte]),
                b'\n' => line.extend_from_slice(b"\\n"),
                b'\r' => line.extend_from_slice(b"\\r"),
                b'\t' => line.extend_from_slice(b"\\t"),
                0x07 => line.extend_from_slice(b"\\a"),
                0x08 => line.extend_from_slice(b"\\b"),
                b' '..=b'~' => line.push(byte),
                _ => line.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
            }
        }
        line.push(b'"');
    }
    line.extend_from_slice(b"\r\n");
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_as_redis_shows_them() {
        let words: [&[u8]; 3] = [b"SET", b"a\"b", b"\x00\n"];
        let shown = line(1_500_000_000_000_123, 9, "127.0.0.1:5", words.into_iter());
        assert_eq!(
            String::from_utf8(shown).unwrap(),
            "+1500000000.000123 [9 127.0.0.1:5] \"SET\" \"a\\\"b\" \"\\x00\\n\"\r\n"
        );
    }

    #[test]
    fn one_that_takes_nothing_is_ended_and_holds_no_more_than_the_bound() {
        let monitors = MonitorRegistry::default();
        let (slow, quick) = (monitors.join(), monitors.join());
        let mut taken = Vec::new();
        for _ in 0..40 {
            monitors.show(&[b'x'; 64 << 10]);
            taken.clear();
            assert!(quick.take(&mut taken));
            assert_eq!(taken.len(), 64 << 10);
        }
        taken.clear();
        assert!(!slow.take(&mut taken));
        assert!(taken.len() <= MOST_BYTES);
        monitors.leave(&slow);
        monitors.leave(&quick);
        assert!(!monitors.are_there());
    }
}

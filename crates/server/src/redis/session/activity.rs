//! When a connection executes requests: for the time of commands, and for CLIENT LIST.

use std::time::Instant;

/// The times of a connection's last batch.
#[derive(Default)]
pub(in crate::redis) struct Activity {
    /// When the batch under way began. It may have to wait in between.
    began: Option<Instant>,
    /// When the last batch ended, until it is noted.
    ended: Option<Instant>,
    /// Whether requests were noted since [`Activity::take_noted`].
    has_noted: bool,
}

impl Activity {
    /// Returns when the batch under way began: now, if it was not tried before.
    pub(in crate::redis) fn begin(&mut self) -> Instant {
        *self.began.get_or_insert_with(Instant::now)
    }

    /// Ends the batch under way without a result.
    pub(in crate::redis) fn cancel(&mut self) {
        self.began = None;
    }

    /// Ends the batch under way, and returns when it ended.
    pub(in crate::redis) fn end(&mut self) -> Instant {
        let now = Instant::now();
        (self.began, self.ended) = (None, Some(now));
        now
    }

    /// Notes that requests were executed, and returns when.
    pub(super) fn note(&mut self) -> Instant {
        self.has_noted = true;
        self.ended.take().unwrap_or_else(Instant::now)
    }

    /// Returns whether requests were noted since this was last called.
    pub(super) fn take_noted(&mut self) -> bool {
        std::mem::take(&mut self.has_noted)
    }
}

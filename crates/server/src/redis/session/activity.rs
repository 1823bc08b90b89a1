//! Execution times of a connection's requests, for latency statistics and CLIENT LIST.

use std::time::Instant;

/// The times of a connection's last batch.
#[derive(Default)]
pub(in crate::redis) struct SessionActivity {
    /// Start of the current batch, which may be suspended in between.
    began: Option<Instant>,
    /// End of the last batch, until it is published.
    ended: Option<Instant>,
    /// Whether activity was published since the last [`SessionActivity::take_noted`].
    has_noted: bool,
}

impl SessionActivity {
    /// Returns the start of the current batch, which is now unless the batch was suspended.
    pub(in crate::redis) fn begin(&mut self) -> Instant {
        *self.began.get_or_insert_with(Instant::now)
    }

    /// Abandons the current batch, whose commands are executed again in smaller batches.
    pub(in crate::redis) fn cancel(&mut self) {
        self.began = None;
    }

    /// Ends the current batch and returns the time.
    pub(in crate::redis) fn end(&mut self) -> Instant {
        let now = Instant::now();
        (self.began, self.ended) = (None, Some(now));
        now
    }

    /// Publishes activity and returns its time.
    pub(super) fn note(&mut self) -> Instant {
        self.has_noted = true;
        self.ended.take().unwrap_or_else(Instant::now)
    }

    /// Returns whether activity was published since the last call.
    pub(super) fn take_noted(&mut self) -> bool {
        std::mem::take(&mut self.has_noted)
    }
}

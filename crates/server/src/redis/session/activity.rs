//! Records when a connection executes requests, for latency statistics and CLIENT LIST.

use std::time::Instant;

/// The times of a connection's current and previous batches.
#[derive(Default)]
pub(in crate::redis) struct SessionActivity {
    /// The start of the current batch. It remains set while the batch is suspended.
    began: Option<Instant>,
    /// The end of the previous batch. It is cleared when the activity is published.
    ended: Option<Instant>,
    /// Whether activity was published since the last call to [`SessionActivity::take_noted`].
    has_noted: bool,
}

impl SessionActivity {
    /// Begins a batch and returns its start time. A suspended batch keeps its original start time.
    pub(in crate::redis) fn begin(&mut self) -> Instant {
        *self.began.get_or_insert_with(Instant::now)
    }

    /// Cancels the current batch, whose commands will run again in smaller batches.
    pub(in crate::redis) fn cancel(&mut self) {
        self.began = None;
    }

    /// Ends the current batch and returns the current time.
    pub(in crate::redis) fn end(&mut self) -> Instant {
        let now = Instant::now();
        (self.began, self.ended) = (None, Some(now));
        now
    }

    /// Records that activity is being published, and returns the time of that activity.
    pub(super) fn note(&mut self) -> Instant {
        self.has_noted = true;
        self.ended.take().unwrap_or_else(Instant::now)
    }

    /// Returns whether activity was published since the last call.
    pub(super) fn take_noted(&mut self) -> bool {
        std::mem::take(&mut self.has_noted)
    }
}

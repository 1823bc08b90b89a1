//! Pipeline flow control. Replies are sent before further replies are produced, and a reply that
//! does not fit into the clients' memory waits or is refused.

use super::session::RedisSession;
use crate::net::{ConnectionBudget, HIGH_WATER, SMALL_HOLDER};
use crate::protocol::resp::{Args, ReplyWriter};
use crate::store::ValueSizeStats;
use std::sync::atomic::Ordering;

/// Maximum number of records read by a connection's first batch, and by any batch. All records of a
/// batch are in memory at the same time, whatever their size.
const FIRST: usize = 16;
const MOST: usize = 64;

/// A connection's flow control state, which adapts to the sizes of previous replies.
#[derive(Debug)]
pub(super) struct PipelineFlowControl {
    /// Maximum number of records that the next batch may read.
    records: usize,
    /// Number of commands that the current batch executed before it ended early. `None` if it did
    /// not.
    cut: Option<usize>,
    /// Number of upcoming requests to execute one by one, because a batch that contained them has
    /// failed.
    alone: usize,
    /// Number of commands whose results are final although their batch has failed. The remaining
    /// commands of the batch will be executed one by one.
    divided: Option<usize>,
    /// Whether the next reply does not fit into the clients' memory.
    is_full: bool,
    /// Whether a reply that does not fit is refused instead of waiting for memory.
    pub(super) refuses: bool,
    /// Total number of commands refused for lack of memory.
    pub(super) refusals: u64,
    /// Index of the request at which execution continues after a pause.
    paused: Option<usize>,
    /// Length of the output buffer when the current execution began.
    before: usize,
}

impl Default for PipelineFlowControl {
    fn default() -> PipelineFlowControl {
        PipelineFlowControl {
            records: FIRST,
            cut: None,
            alone: 0,
            divided: None,
            is_full: false,
            refuses: false,
            refusals: 0,
            paused: None,
            before: 0,
        }
    }
}

impl PipelineFlowControl {
    /// Begins or continues execution. Returns the index of the first request to execute. `output`
    /// is the output buffer's current length.
    pub(super) fn begin(&mut self, output: usize) -> usize {
        self.before = output;
        self.paused.take().unwrap_or(0)
    }

    /// Returns whether some parsed requests have not been executed yet.
    pub(super) fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Returns whether execution must pause until the replies have been sent, because they are
    /// long. Execution then continues with request `index`.
    pub(super) fn pauses(&mut self, index: usize, output: usize) -> bool {
        let has_enough = output.saturating_sub(self.before) > HIGH_WATER;
        if has_enough {
            self.paused = Some(index);
        }
        has_enough
    }

    /// Returns the maximum number of records that the next batch may read.
    pub(super) fn max_records(&self, sizes: &ValueSizeStats) -> usize {
        self.records.min(sizes.most())
    }

    /// Returns whether a batch of `all` commands must end after `executed` commands, either because
    /// their `bytes` bytes of replies are long or because the last reply does not fit.
    pub(super) fn should_end_batch(&mut self, executed: usize, all: usize, bytes: usize) -> bool {
        if self.is_full {
            self.cut = Some(executed - 1);
        } else if bytes > HIGH_WATER && executed < all {
            self.cut = Some(executed);
        }
        self.cut.is_some()
    }

    /// Makes a batch of `all` commands end after `executed` commands.
    pub(super) fn end_batch(&mut self, executed: usize, all: usize) {
        if executed < all {
            self.cut = Some(executed);
        }
    }

    /// Returns how many commands of a batch of `all` commands were executed.
    pub(super) fn executed(&self, all: usize) -> usize {
        self.cut.unwrap_or(all)
    }

    /// Returns whether the last command's reply was discarded and the command must therefore run
    /// again.
    pub(super) fn has_taken_back(&self) -> bool {
        self.is_full
    }

    /// Makes the last command run again when memory is available.
    pub(super) fn wait_for_room(&mut self) {
        self.is_full = true;
    }

    /// Makes the whole batch run again when memory for its reads is available.
    pub(super) fn wait_before_all(&mut self) {
        (self.is_full, self.cut) = (true, Some(0));
    }

    /// Cancels the batch's early end, because the batch has failed.
    pub(super) fn forget_cut(&mut self) {
        self.cut = None;
        self.is_full = false;
    }

    /// Records that a batch has failed with an error that may not affect all of its commands. The
    /// results of the first `executed` commands are final; the other `rest` commands will be
    /// executed one by one.
    pub(super) fn divide(&mut self, executed: usize, rest: usize) {
        (self.divided, self.alone) = (Some(executed), rest);
    }

    /// Returns whether the next command must run in a batch of its own.
    pub(super) fn is_alone(&self) -> bool {
        self.alone > 0
    }

    /// Updates the state after a batch of `all` commands that began with request `at`. Returns the
    /// index of the next request, and whether its reply fits into memory.
    pub(super) fn adapt_to_result(&mut self, at: usize, all: usize) -> (usize, ReplyFit) {
        if let Some(executed) = self.divided.take() {
            return (at + executed, ReplyFit::Yes);
        }
        if self.cut != Some(0) {
            self.alone = self.alone.saturating_sub(1);
        }
        let Some(executed) = self.cut.take() else {
            self.records = (2 * self.records).min(MOST);
            self.refuses = false;
            return (at + all, ReplyFit::Yes);
        };
        self.records = executed.max(1);
        if std::mem::take(&mut self.is_full) {
            self.paused = Some(at + executed);
            return (at + executed, ReplyFit::NotYet);
        }
        (at + executed, ReplyFit::Yes)
    }
}

/// Whether the next request's reply fits into the clients' memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyFit {
    Yes,
    NotYet,
}

/// Returns the error for `what` (for example, a reply) that does not fit into the clients' memory.
pub(super) fn no_room(what: &str, budget: &ConnectionBudget) -> String {
    format!(
        "OOM {what} does not fit into the client memory, {} bytes for all clients; make it smaller, or \
         raise --client-memory (CONFIG SET maxmemory-clients)",
        budget.limit()
    )
}

impl RedisSession {
    /// Returns the maximum reply size in bytes for a command that only reads.
    pub(super) fn reply_room(&self) -> usize {
        self.shared.budget.reply_room()
    }

    /// Discards a reply that does not fit into memory. The command either runs again later, or
    /// replies with an error.
    pub(super) fn discard_reply(&mut self, reply: &mut ReplyWriter<'_>, start: usize) {
        let bytes = reply.position() - start;
        reply.rewind(start);
        if bytes <= self.shared.budget.limit() && !self.paging.refuses {
            self.paging.is_full = true;
            return;
        }
        let text = no_room("the reply", &self.shared.budget);
        let counters = &self.shared.counters;
        counters.memory_refusals.fetch_add(1, Ordering::Relaxed);
        self.shared.count_error(&text);
        reply.error(&text);
    }

    /// Returns whether a command may wait until `bytes` bytes of memory are available. Otherwise it
    /// is refused.
    pub(super) fn may_wait_for(&self, bytes: usize) -> bool {
        bytes <= self.shared.budget.limit() && !self.paging.refuses
    }

    /// Returns whether there is enough memory to queue a command after MULTI.
    pub(super) fn has_room_in_queue(&self, args: Args<'_>) -> bool {
        let bytes = args.iter().map(<[u8]>::len).sum::<usize>();
        let budget = &self.shared.budget;
        let free = budget.limit().saturating_sub(budget.used());
        self.multi.held() + self.within_held() + bytes <= SMALL_HOLDER || bytes <= free
    }

    /// Returns whether there is enough memory to watch another key, which needs `bytes` bytes.
    /// Includes the keys watched during the current turn, which are charged only at its end.
    pub(super) fn has_room_to_watch(&self, bytes: usize) -> bool {
        let budget = &self.shared.budget;
        let held = self.multi.held() + bytes;
        let charged = self.client.load.queued.load(Ordering::Relaxed);
        let more = held.saturating_sub(charged);
        held <= SMALL_HOLDER || budget.used().saturating_add(more) <= budget.limit()
    }

    /// Returns whether there is enough memory for further subscriptions, which need `bytes` bytes.
    pub(super) fn has_room_to_subscribe(&self, bytes: usize) -> bool {
        let budget = &self.shared.budget;
        let held = self.subscriptions.as_ref().map_or(0, |held| held.held()) + bytes;
        held <= SMALL_HOLDER || budget.used().saturating_add(bytes) <= budget.limit()
    }

    /// Rejects the incomplete request and skips its remaining bytes.
    pub(super) fn refuse_begun(&mut self, output: &mut Vec<u8>) {
        self.is_ending |= !self.reader.skip_begun();
        self.fail_transaction();
        let text = no_room("the request", &self.shared.budget);
        self.shared.count_error(&text);
        self.reply(output, |reply| reply.error(&text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_replies_make_batches_short_and_short_ones_make_them_long_again() {
        let (mut paging, sizes) = (PipelineFlowControl::default(), ValueSizeStats::default());
        assert_eq!((paging.begin(0), paging.max_records(&sizes)), (0, FIRST));
        assert!(!paging.should_end_batch(3, 16, 1000));
        assert!(
            !paging.should_end_batch(16, 16, HIGH_WATER + 1),
            "nothing is left to cut off"
        );
        assert_eq!(paging.adapt_to_result(0, 16), (16, ReplyFit::Yes));
        assert_eq!(paging.max_records(&sizes), 2 * FIRST);
        assert!(paging.should_end_batch(2, 32, HIGH_WATER + 1));
        assert_eq!(paging.adapt_to_result(16, 32), (18, ReplyFit::Yes));
        assert_eq!(paging.max_records(&sizes), 2);
        assert!(paging.pauses(18, HIGH_WATER + 1) && paging.is_paused());
        assert_eq!(paging.begin(5), 18);
        assert!(!paging.pauses(19, HIGH_WATER + 5));
        sizes.note(1 << 20);
        assert_eq!(paging.max_records(&sizes), 1);
    }

    #[test]
    fn a_reply_without_room_is_the_first_to_go_on_with() {
        let mut paging = PipelineFlowControl::default();
        paging.begin(0);
        paging.is_full = true;
        assert!(paging.should_end_batch(3, 8, 10));
        assert_eq!(paging.adapt_to_result(10, 8), (12, ReplyFit::NotYet));
        assert_eq!(paging.begin(10), 12);
    }
}

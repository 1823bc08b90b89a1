//! The reasons why a connection suspends the execution of its requests.

use super::{ExecutionFlow, RedisSession};
use crate::protocol::resp::{ReplyProgress, ReplyTail, ReplyWriter};
use crate::redis::blocking::{WaitOutcome, WaitingCommand};
use crate::redis::prefetch::{PendingRead, ReadResult};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

/// Why the execution of request `next` is suspended. A session has at most one reason at a time.
pub(super) enum Suspension {
    /// The reply to a wrong password is delayed.
    LoginDelay {
        until: Duration,
        reply: Vec<u8>,
        next: usize,
    },
    /// CLIENT PAUSE is in force. The pause is checked again when execution resumes.
    ClientPause { next: usize },
    /// A batch of `count` requests waits for a read. The batch may have a different size
    /// afterwards, because the user's permissions may have changed in the meantime.
    Read {
        awaited: Box<PendingRead>,
        next: usize,
        count: usize,
    },
    /// A command waits until another client changes one of its keys.
    Change {
        waiting: Arc<WaitingCommand>,
        next: usize,
    },
    /// The client has not yet received the part of a long reply that has been written.
    PartialReply { tail: Box<dyn ReplyTail>, next: usize },
}

/// Where execution continues: the index of the next request and, after a suspension for a read, the
/// number of requests in the batch and the read's result.
pub(super) type ResumePoint = (usize, Option<(usize, ReadResult)>);

impl RedisSession {
    /// Returns where execution continues after a suspension, or why it remains suspended.
    pub(super) fn resume(
        &mut self,
        output: &mut Vec<u8>,
        context: &mut Context<'_>,
    ) -> Result<ResumePoint, ExecutionFlow> {
        let first = self.paging.begin(output.len());
        match self.suspension.take() {
            None => Ok((first, None)),
            Some(Suspension::ClientPause { next }) => Ok((next, None)),
            Some(Suspension::LoginDelay { until, reply, next }) => {
                let delays = &self.shared.access.delays;
                if delays.is_over() {
                    self.is_ending = true;
                    return Err(ExecutionFlow::Done);
                }
                if delays.clock().now() < until {
                    self.suspension = Some(Suspension::LoginDelay { until, reply, next });
                    return Err(ExecutionFlow::Wait);
                }
                output.extend_from_slice(&reply);
                Ok((next, None))
            }
            Some(Suspension::Read {
                mut awaited,
                next,
                count,
            }) => match Pin::new(&mut awaited.reading).poll(context) {
                Poll::Ready(values) => {
                    let PendingRead { memory, number, .. } = *awaited;
                    self.reservation = Some(memory);
                    Ok((next, Some((count, ReadResult { values, number }))))
                }
                Poll::Pending => {
                    self.suspension = Some(Suspension::Read { awaited, next, count });
                    Err(ExecutionFlow::Wait)
                }
            },
            Some(Suspension::Change { waiting, next }) => {
                let Some(outcome) = waiting.take_outcome() else {
                    self.suspension = Some(Suspension::Change { waiting, next });
                    return Err(ExecutionFlow::Block);
                };
                self.client.is_blocked.store(false, Ordering::Relaxed);
                if outcome == WaitOutcome::Closed {
                    self.is_ending = true;
                    return Err(ExecutionFlow::Done);
                }
                self.end_wait(&waiting, outcome, output);
                Ok((next, None))
            }
            Some(Suspension::PartialReply { tail, next }) => match self.write_part(tail, next, output) {
                ExecutionFlow::Done => Ok((next, None)),
                other => Err(other),
            },
        }
    }

    /// Writes the next part of a long reply. If the reply cannot be completed, closes the
    /// connection, because the client may already have received the beginning.
    fn write_part(
        &mut self,
        mut tail: Box<dyn ReplyTail>,
        next: usize,
        output: &mut Vec<u8>,
    ) -> ExecutionFlow {
        match tail.write(&mut ReplyWriter::new(output, self.settings.version)) {
            Ok(ReplyProgress::Whole) => return ExecutionFlow::Done,
            Ok(ReplyProgress::More) => self.suspension = Some(Suspension::PartialReply { tail, next }),
            Err(error) => {
                tracing::warn!(client = self.client.id, %error, "closed a connection: a long reply could not be completed");
                self.is_ending = true;
            }
        }
        ExecutionFlow::PartialReply
    }

    /// Suspends execution until the delayed reply to a wrong password is due.
    pub(super) fn delay(
        &mut self,
        until: Duration,
        reply: Vec<u8>,
        next: usize,
        context: &Context<'_>,
    ) -> ExecutionFlow {
        let clock = self.shared.access.delays.clock();
        clock.wake_at(until, context.waker());
        self.suspend(Suspension::LoginDelay { until, reply, next })
    }

    /// Suspends execution until `resume` finds that the reason is gone.
    pub(super) fn suspend(&mut self, suspension: Suspension) -> ExecutionFlow {
        assert!(
            self.suspension.is_none(),
            "a session waits for one thing at a time"
        );
        self.suspension = Some(suspension);
        ExecutionFlow::Wait
    }

    /// Writes the reply of a command that has waited.
    fn end_wait(&mut self, waiting: &WaitingCommand, outcome: WaitOutcome, output: &mut Vec<u8>) {
        let (start, before) = (output.len(), self.settings.reply_mode);
        let counted = self.shared.tally.of(waiting.command().counted_as(waiting.args()));
        let mut reply = ReplyWriter::new(output, self.settings.version);
        match outcome {
            WaitOutcome::Reply(bytes) => {
                self.wants_sync |= self.shared.store.waits_for_disk();
                reply.raw(&bytes);
            }
            WaitOutcome::Unblocked => {
                let text = "UNBLOCKED client unblocked via CLIENT UNBLOCK";
                self.shared.count_error(text);
                reply.error(text);
            }
            WaitOutcome::TimedOut | WaitOutcome::Closed => reply.null_array(),
        }
        if output.get(start) == Some(&b'-') {
            counted.failed();
        }
        // As in Redis, the time of waiting is not the command's.
        counted.called(1, Duration::ZERO);
        self.settings.reply_mode.apply(before, output, start);
    }

    /// Ends the wait of a command whose connection ends.
    pub(super) fn stop_waiting(&mut self) {
        if let Some(Suspension::Change { waiting, .. }) = &self.suspension {
            self.shared.waits.cancel(waiting);
        }
    }

    /// Returns the memory of a command that waits, in bytes.
    pub(super) fn waiting_held(&self) -> usize {
        match &self.suspension {
            Some(Suspension::Change { waiting, .. }) => waiting.memory(),
            _ => 0,
        }
    }

    /// Returns whether a long reply has been written only partially.
    pub(super) fn is_in_reply(&self) -> bool {
        matches!(self.suspension, Some(Suspension::PartialReply { .. }))
    }
}

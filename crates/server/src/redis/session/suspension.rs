//! The reasons why a connection suspends the execution of requests.

use super::{ExecutionFlow, RedisSession};
use crate::protocol::resp::{ReplyProgress, ReplyTail, ReplyWriter};
use crate::redis::batch::{PendingRead, ReadResult};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Why the execution of request `next` is suspended. A session is suspended for only one reason at
/// a time.
pub(super) enum Suspension {
    /// The reply to a wrong password must not be sent yet.
    LoginDelay {
        until: Duration,
        reply: Vec<u8>,
        next: usize,
    },
    /// A pause by CLIENT PAUSE suspends the request. When execution resumes, the pause is checked
    /// again.
    ClientPause { next: usize },
    /// A batch of `count` requests waits for a read. After the read, the batch may have a different
    /// number of requests, because the permissions of the user may have changed in the meantime.
    Read {
        awaited: Box<PendingRead>,
        next: usize,
        count: usize,
    },
    /// The client has not yet received the part of a long reply that was written.
    PartialReply { tail: Box<dyn ReplyTail>, next: usize },
}

/// Where execution continues: the index of the next request, and, if it was suspended for a read,
/// the number of requests in the batch and the result of the read.
pub(super) type ResumePoint = (usize, Option<(usize, ReadResult)>);

impl RedisSession {
    /// Returns where execution continues after a suspension, or why it must remain suspended.
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
            Some(Suspension::PartialReply { tail, next }) => match self.write_part(tail, next, output) {
                ExecutionFlow::Done => Ok((next, None)),
                other => Err(other),
            },
        }
    }

    /// Writes the next part of a long reply. If the reply cannot be completed, closes the
    /// connection, because the beginning of the reply has already been sent.
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

    /// Suspends execution until the time at which the reply to a wrong password must be sent.
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

    /// Suspends execution until `resume` finds that the reason for the suspension no longer exists.
    pub(super) fn suspend(&mut self, suspension: Suspension) -> ExecutionFlow {
        assert!(
            self.suspension.is_none(),
            "a session waits for one thing at a time"
        );
        self.suspension = Some(suspension);
        ExecutionFlow::Wait
    }

    /// Returns whether a long reply has been written only in part.
    pub(super) fn is_in_reply(&self) -> bool {
        matches!(self.suspension, Some(Suspension::PartialReply { .. }))
    }
}

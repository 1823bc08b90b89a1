//! The write future.

use crate::error::{Error, Result};
use crate::options::Durability;
use crate::shared::SharedStore;
use crate::write::async_commit::{CommitJob, SubmittedWrite};
use crate::write::batch::WriteBatch;
use alluvium_base::SequenceNumber;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A future for a write: see [`Db::write_async`](crate::Db::write_async).
///
/// It works in any executor. The first poll passes the write to a thread of the store. If the
/// future is dropped after that, a write that the thread has already started still takes effect.
/// Otherwise the write is discarded and its memory freed. Once the future was ready, it must not be
/// polled again.
#[must_use = "futures do nothing unless they are polled"]
pub struct WriteFuture {
    stage: WriteFutureStage,
}

enum WriteFutureStage {
    Refused(Error),
    New(Arc<SharedStore>, Box<CommitJob>),
    /// A thread of the store has the write. The reference keeps the store open until the write is
    /// done.
    Handed(Arc<SharedStore>, Arc<SubmittedWrite>),
    Done,
}

impl WriteFuture {
    pub(crate) fn new(shared: &Arc<SharedStore>, batch: Result<WriteBatch>) -> WriteFuture {
        WriteFuture {
            stage: match batch {
                Ok(batch) => WriteFutureStage::New(Arc::clone(shared), Box::new(CommitJob::Batch(batch))),
                Err(error) => WriteFutureStage::Refused(error),
            },
        }
    }

    /// Returns a future that runs `run` on a thread of the store. `run` is called with the
    /// durability at which it must commit. If `durability` is [`Durability::Disk`], a sync follows.
    /// `run` must not own a handle of the store.
    pub(crate) fn deferred(
        shared: &Arc<SharedStore>,
        durability: Durability,
        run: impl FnOnce(Durability) -> Result<SequenceNumber> + Send + 'static,
    ) -> WriteFuture {
        let job = CommitJob::Deferred {
            durability,
            run: Box::new(run),
        };
        WriteFuture {
            stage: WriteFutureStage::New(Arc::clone(shared), Box::new(job)),
        }
    }
}

impl Future for WriteFuture {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        match std::mem::replace(&mut self.stage, WriteFutureStage::Done) {
            WriteFutureStage::Refused(error) => Poll::Ready(Err(error)),
            WriteFutureStage::New(shared, job) => {
                if let Err(error) = shared.healthy() {
                    shared.release_in_background();
                    return Poll::Ready(Err(error));
                }
                let outcome = shared.committer.submit(job, context.waker());
                self.stage = WriteFutureStage::Handed(shared, outcome);
                Poll::Pending
            }
            WriteFutureStage::Handed(shared, outcome) => {
                let polled = outcome.poll(context.waker());
                match polled.is_ready() {
                    true => shared.release_in_background(),
                    false => self.stage = WriteFutureStage::Handed(shared, outcome),
                }
                polled
            }
            WriteFutureStage::Done => unreachable!("a future is not polled after it was ready"),
        }
    }
}

impl Drop for WriteFuture {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.stage, WriteFutureStage::Done) {
            WriteFutureStage::New(shared, _) => shared.release_in_background(),
            WriteFutureStage::Handed(shared, outcome) => {
                outcome.leave();
                shared.release_in_background();
            }
            WriteFutureStage::Refused(_) | WriteFutureStage::Done => {}
        }
    }
}

impl fmt::Debug for WriteFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteFuture").finish_non_exhaustive()
    }
}

//! The future of a write.

use crate::error::{Error, Result};
use crate::options::Durability;
use crate::shared::Shared;
use crate::write::async_commit::{Job, Outcome};
use crate::write::batch::WriteBatch;
use alluvium_base::Sequence;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Future of a write: see [`Db::write_async`](crate::Db::write_async).
///
/// It works in any executor. The first poll hands the write to a thread of the store. If the future
/// is dropped after that, a write that the thread has already started still takes effect; any other
/// is discarded and its memory freed. The future must not be polled again after it was ready.
#[must_use = "futures do nothing unless they are polled"]
pub struct Write {
    stage: Stage,
}

enum Stage {
    Refused(Error),
    New(Arc<Shared>, Box<Job>),
    /// Keeps the store open until the write is done.
    Handed(Arc<Shared>, Arc<Outcome>),
    Done,
}

impl Write {
    pub(crate) fn new(shared: &Arc<Shared>, batch: Result<WriteBatch>) -> Write {
        Write {
            stage: match batch {
                Ok(batch) => Stage::New(Arc::clone(shared), Box::new(Job::Batch(batch))),
                Err(error) => Stage::Refused(error),
            },
        }
    }

    /// Returns a future that calls `run` with a durability, followed by a sync if `durability` is
    /// [`Durability::Disk`]. `run` must not hold a handle of the store.
    pub(crate) fn deferred(
        shared: &Arc<Shared>,
        durability: Durability,
        run: impl FnOnce(Durability) -> Result<Sequence> + Send + 'static,
    ) -> Write {
        let job = Job::Deferred {
            durability,
            run: Box::new(run),
        };
        Write {
            stage: Stage::New(Arc::clone(shared), Box::new(job)),
        }
    }
}

impl Future for Write {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Refused(error) => Poll::Ready(Err(error)),
            Stage::New(shared, job) => {
                if let Err(error) = shared.healthy() {
                    shared.let_go();
                    return Poll::Ready(Err(error));
                }
                let outcome = shared.committer.submit(job, context.waker());
                self.stage = Stage::Handed(shared, outcome);
                Poll::Pending
            }
            Stage::Handed(shared, outcome) => {
                let polled = outcome.poll(context.waker());
                match polled.is_ready() {
                    true => shared.let_go(),
                    false => self.stage = Stage::Handed(shared, outcome),
                }
                polled
            }
            Stage::Done => unreachable!("a future is not polled after it was ready"),
        }
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::New(shared, _) => shared.let_go(),
            Stage::Handed(shared, outcome) => {
                outcome.leave();
                shared.let_go();
            }
            Stage::Refused(_) | Stage::Done => {}
        }
    }
}

impl fmt::Debug for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Write").finish_non_exhaustive()
    }
}

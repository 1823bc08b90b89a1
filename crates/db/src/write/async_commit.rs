//! Commits of asynchronous writes.
//!
//! One thread of the store commits the writes of futures. It commits all writes that have arrived
//! before it syncs, so that the durable writes of a round share one sync.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::options::Durability;
use crate::write::batch::WriteBatch;
use alluvium_base::SequenceNumber;
use parking_lot::{Condvar, Mutex};
use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::thread::JoinHandle;

/// Maximum number of writes in a round, which ends with a sync.
const ROUND: usize = 1024;

thread_local! {
    /// Whether this thread commits the writes of futures.
    static COMMITS: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether the calling thread is a committer, of this store or another.
pub(crate) fn is_here() -> bool {
    COMMITS.get()
}

/// The committer thread and its queue. The thread is started by the first write.
#[derive(Clone, Debug)]
pub(crate) struct AsyncCommitter(Arc<AsyncCommitQueue>);

#[derive(Debug)]
struct AsyncCommitQueue {
    engine: Arc<Engine>,
    state: Mutex<AsyncCommitState>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct AsyncCommitState {
    /// Submitted writes that no round has taken yet, oldest first.
    promises: VecDeque<CompletionGuard>,
    phase: CommitThreadPhase,
}

#[derive(Debug, Default)]
enum CommitThreadPhase {
    /// No thread is running: none was needed yet, or it panicked.
    #[default]
    Idle,
    Running(JoinHandle<()>),
    /// The store is closed, and accepts no further write.
    Stopped,
}

/// Commits with a given durability, and returns the sequence number of its last write.
type DeferredCommit = Box<dyn FnOnce(Durability) -> Result<SequenceNumber> + Send>;

/// A commit to be executed.
pub(crate) enum CommitJob {
    Batch(WriteBatch),
    /// A function that commits. It must not hold a handle of the store, because the thread that
    /// runs it cannot close the store.
    Deferred {
        durability: Durability,
        run: DeferredCommit,
    },
}

impl fmt::Debug for CommitJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").finish_non_exhaustive()
    }
}

impl CommitJob {
    fn durability(&self) -> Option<Durability> {
        match self {
            CommitJob::Batch(batch) => batch.durability,
            CommitJob::Deferred { durability, .. } => Some(*durability),
        }
    }

    fn run(self, engine: &Engine, durability: Durability) -> Result<SequenceNumber> {
        match self {
            CommitJob::Batch(batch) => engine.commit(&batch.commit, batch.owners(), durability),
            CommitJob::Deferred { run, .. } => run(durability),
        }
    }
}

/// A submitted write and its result.
#[derive(Debug, Default)]
pub(crate) struct SubmittedWrite(Mutex<SubmissionState>);

#[derive(Debug, Default)]
struct SubmissionState {
    /// The write, until the thread starts it.
    job: Option<Box<CommitJob>>,
    result: Option<Result<()>>,
    waker: Option<Waker>,
}

impl SubmittedWrite {
    fn new(job: Box<CommitJob>, waker: &Waker) -> SubmittedWrite {
        SubmittedWrite(Mutex::new(SubmissionState {
            job: Some(job),
            result: None,
            waker: Some(waker.clone()),
        }))
    }

    /// Returns the result of the write, or registers the waker for it.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Result<()>> {
        let mut settled = self.0.lock();
        if let Some(result) = settled.result.take() {
            return Poll::Ready(result);
        }
        let before = settled.waker.replace(waker.clone());
        drop(settled);
        // The waker may hold the last reference to a task, so it is dropped outside the lock.
        drop(before);
        Poll::Pending
    }

    /// Discards the write unless the thread has started it. Called when its future is dropped.
    pub(crate) fn leave(&self) {
        let left = std::mem::take(&mut *self.0.lock());
        drop(left);
    }

    /// Removes and returns the write; `None` if its future was dropped.
    fn begin(&self) -> Option<Box<CommitJob>> {
        self.0.lock().job.take()
    }

    fn settle(&self, result: Result<()>) {
        let waker = {
            let mut settled = self.0.lock();
            settled.result = Some(result);
            settled.waker.take()
        };
        if let Some(waker) = waker {
            alluvium_base::wake(waker);
        }
    }
}

impl AsyncCommitter {
    pub(crate) fn new(engine: &Arc<Engine>) -> AsyncCommitter {
        AsyncCommitter(Arc::new(AsyncCommitQueue {
            engine: Arc::clone(engine),
            state: Mutex::default(),
            arrived: Condvar::new(),
        }))
    }

    /// Submits a write and registers the waker of its task. The write fails at once if no thread
    /// can run.
    pub(crate) fn submit(&self, job: Box<CommitJob>, waker: &Waker) -> Arc<SubmittedWrite> {
        let outcome = Arc::new(SubmittedWrite::new(job, waker));
        self.enqueue(CompletionGuard(Some(Arc::clone(&outcome))));
        outcome
    }

    fn enqueue(&self, promise: CompletionGuard) {
        let mut state = self.0.state.lock();
        match state.phase {
            CommitThreadPhase::Running(_) => {}
            CommitThreadPhase::Stopped => {
                drop(state);
                return promise.keep(Err(Error::Closed));
            }
            CommitThreadPhase::Idle => {
                let queue = Arc::clone(&self.0);
                let started = std::thread::Builder::new()
                    .name("alluvium-commit".to_owned())
                    .spawn(move || queue.run());
                match started {
                    Ok(thread) => state.phase = CommitThreadPhase::Running(thread),
                    Err(error) => {
                        drop(state);
                        let cause = format!("no thread could be started for asynchronous writes: {error}");
                        return promise.keep(Err(Error::Background { cause }));
                    }
                }
            }
        }
        state.promises.push_back(promise);
        drop(state);
        self.0.arrived.notify_one();
    }

    /// Commits all submitted writes, and ends the thread.
    pub(crate) fn stop(&self) {
        let before = std::mem::replace(&mut self.0.state.lock().phase, CommitThreadPhase::Stopped);
        self.0.arrived.notify_one();
        if let CommitThreadPhase::Running(thread) = before
            && thread.join().is_err()
        {
            tracing::error!("the thread that commits asynchronous writes has panicked");
        }
    }
}

impl AsyncCommitQueue {
    fn run(&self) {
        COMMITS.set(true);
        let _ending = CommitThreadGuard(self);
        loop {
            let round: Vec<CompletionGuard> = {
                let mut state = self.state.lock();
                while state.promises.is_empty() {
                    if matches!(state.phase, CommitThreadPhase::Stopped) {
                        return;
                    }
                    self.arrived.wait(&mut state);
                }
                let most = state.promises.len().min(ROUND);
                state.promises.drain(..most).collect()
            };
            self.commit(round);
        }
    }

    /// Commits a round of writes, and syncs once for the durable ones.
    fn commit(&self, round: Vec<CompletionGuard>) {
        let mut durable: Vec<(CompletionGuard, SequenceNumber)> = Vec::new();
        for promise in round {
            let Some(job) = promise.begin() else {
                continue;
            };
            let wanted = job.durability().unwrap_or(self.engine.durability);
            // The sync follows, once for all of them.
            let now = wanted.min(Durability::Process);
            match job.run(&self.engine, now) {
                Ok(last) if wanted == Durability::Disk => durable.push((promise, last)),
                other => promise.keep(other.map(|_| ())),
            }
        }
        let Some(through) = durable.iter().map(|(_, last)| *last).max() else {
            return;
        };
        let mut failure = self.engine.sync_through(through).map_err(Some);
        for (promise, last) in durable {
            promise.keep(match &mut failure {
                Ok(()) => Ok(()),
                // The first write gets the error of the sync. The others sync for themselves, like
                // concurrent blocking calls: after a failed sync the log rejects them.
                Err(first) => first.take().map_or_else(|| self.engine.sync_through(last), Err),
            });
        }
    }
}

/// The obligation to report the result of a write. If it is dropped, as by a panic of the thread,
/// the future fails.
#[derive(Debug)]
struct CompletionGuard(Option<Arc<SubmittedWrite>>);

impl CompletionGuard {
    fn begin(&self) -> Option<Box<CommitJob>> {
        self.0.as_ref().and_then(|outcome| outcome.begin())
    }

    fn keep(mut self, result: Result<()>) {
        if let Some(outcome) = self.0.take() {
            outcome.settle(result);
        }
    }
}

impl Drop for CompletionGuard {
    fn drop(&mut self) {
        if let Some(outcome) = self.0.take() {
            let cause = "the thread that commits asynchronous writes has ended".to_owned();
            outcome.settle(Err(Error::Background { cause }));
        }
    }
}

/// Fails the queued writes if the thread panics. The next write starts a new thread.
struct CommitThreadGuard<'q>(&'q AsyncCommitQueue);

impl Drop for CommitThreadGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if let CommitThreadPhase::Running(_) = state.phase {
            state.phase = CommitThreadPhase::Idle;
        }
        let left = std::mem::take(&mut state.promises);
        drop(state);
        // Dropping the promises fails their futures.
        drop(left);
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use crate::options::Options;

    fn small() -> Options {
        Options::new().memory(16 << 20)
    }

    #[test]
    fn a_write_of_a_thread_that_panics_fails_and_the_next_one_starts_another() {
        let db = small().in_memory().unwrap();
        let seas = db.keyspace("seas").unwrap();
        let outcome = Arc::new(SubmittedWrite::default());
        // The round is lost, as after a panic in the middle of it.
        let queue = Arc::clone(&seas.shared().committer.0);
        let promise = CompletionGuard(Some(Arc::clone(&outcome)));
        queue.state.lock().promises.push_back(promise);
        let panicked = std::thread::spawn(move || {
            let _ending = CommitThreadGuard(&queue);
            panic!("injected by a test");
        });
        assert!(panicked.join().is_err());
        let failed = outcome.0.lock().result.take();
        assert!(
            matches!(failed, Some(Err(Error::Background { .. }))),
            "{failed:?}"
        );
        pollster::block_on(seas.put_async("North", "1")).unwrap();
        assert!(seas.contains("North").unwrap());
    }

    #[test]
    fn a_closed_store_starts_no_thread() {
        let db = small().in_memory().unwrap();
        let seas = db.keyspace("seas").unwrap();
        db.close().unwrap();
        let late = pollster::block_on(seas.put_async("Baltic", "2"));
        assert!(matches!(late, Err(Error::Closed)), "{late:?}");
        assert!(matches!(
            seas.shared().committer.0.state.lock().phase,
            CommitThreadPhase::Stopped
        ));
    }
}

//! Commits asynchronous writes.
//!
//! Each store has one thread that commits the writes of futures. It works in rounds. In each round,
//! it commits all writes that have arrived so far and then syncs once, so that all durable writes
//! of the round share a single sync.

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

/// Maximum number of writes in one round. Each round ends with a sync.
const ROUND: usize = 1024;

thread_local! {
    /// Whether this thread commits the writes of futures.
    static COMMITS: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether the calling thread commits asynchronous writes, for this store or another.
pub(crate) fn is_here() -> bool {
    COMMITS.get()
}

/// The thread that commits asynchronous writes, and its queue. The first write starts the thread.
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
    /// Submitted writes that are not part of a round yet, oldest first.
    promises: VecDeque<CompletionGuard>,
    phase: CommitThreadPhase,
}

#[derive(Debug, Default)]
enum CommitThreadPhase {
    /// No thread is running, because none has been needed so far or because it has panicked.
    #[default]
    Idle,
    Running(JoinHandle<()>),
    /// The store is closed and accepts no further writes.
    Stopped,
}

/// A function that commits with the given durability, and returns the sequence number of the last
/// write.
type DeferredCommit = Box<dyn FnOnce(Durability) -> Result<SequenceNumber> + Send>;

/// A commit for the thread to perform.
pub(crate) enum CommitJob {
    Batch(WriteBatch),
    /// A function that commits. It must not own a handle of the store. If that were the last
    /// handle, this thread would have to close the store, which it cannot do.
    Deferred {
        durability: Durability,
        run: DeferredCommit,
    },
}

impl fmt::Debug for CommitJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommitJob").finish_non_exhaustive()
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

/// A submitted write, and its result once it is available.
#[derive(Debug, Default)]
pub(crate) struct SubmittedWrite(Mutex<SubmissionState>);

#[derive(Debug, Default)]
struct SubmissionState {
    /// The commit to perform. `None` once the thread has started it.
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

    /// Returns the result of the write. If it is not available yet, registers the waker to be
    /// called when it is.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Result<()>> {
        let mut settled = self.0.lock();
        if let Some(result) = settled.result.take() {
            return Poll::Ready(result);
        }
        let before = settled.waker.replace(waker.clone());
        drop(settled);
        // Dropping the waker may drop a task, which may run arbitrary code, so do this after
        // releasing the lock.
        drop(before);
        Poll::Pending
    }

    /// Discards the write unless the thread has already started it. Must be called when the write's
    /// future is dropped.
    pub(crate) fn leave(&self) {
        let left = std::mem::take(&mut *self.0.lock());
        drop(left);
    }

    /// Removes and returns the commit to perform, or returns `None` if the write's future was
    /// dropped.
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

    /// Submits a write for the task with this waker. The write fails immediately if no thread can
    /// be started.
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

    /// Commits all submitted writes and ends the thread.
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

    /// Commits the writes of one round, and then syncs once for those that must be durable.
    fn commit(&self, round: Vec<CompletionGuard>) {
        let mut durable: Vec<(CompletionGuard, SequenceNumber)> = Vec::new();
        for promise in round {
            let Some(job) = promise.begin() else {
                continue;
            };
            let wanted = job.durability().unwrap_or(self.engine.durability);
            // Do not sync here. All durable writes of the round share one sync afterwards.
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
                // The first write gets the sync's error. Each other write syncs again on its own,
                // as concurrent blocking writes do. The log rejects these syncs after a failed
                // sync.
                Err(first) => first.take().map_or_else(|| self.engine.sync_through(last), Err),
            });
        }
    }
}

/// The obligation to report a write's result to its future. If this is dropped without a result,
/// for example because the thread has panicked, the future fails.
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

/// Fails all queued writes if the thread panics. The next write then starts a new thread.
struct CommitThreadGuard<'q>(&'q AsyncCommitQueue);

impl Drop for CommitThreadGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if let CommitThreadPhase::Running(_) = state.phase {
            state.phase = CommitThreadPhase::Idle;
        }
        let left = std::mem::take(&mut state.promises);
        drop(state);
        // Dropping these guards makes the futures of their writes fail.
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
        // Dropping the round simulates a thread that panics while committing it.
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

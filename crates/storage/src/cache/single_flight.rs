//! A job that many threads wait for but only one executes, such as a read in flight.
//! `model_check.rs` model-checks it.
//!
//! The first thread that needs the result executes the job: it waits for the device and publishes
//! every node of the batch. The other threads sleep until the job is done. If the executing thread
//! panics, the job is abandoned, and the other threads start over.
//!
//! An asynchronous task must not sleep, so it registers a waker and polls again when it is woken.
//! Some thread must still wait for the device, which the first task that registers a waker for a
//! ready job is asked to arrange.

use crate::sync::{Condvar, Mutex};
use std::task::Waker;

#[derive(Debug)]
enum JobState<J, R> {
    /// The job is still under construction and cannot be executed.
    Preparing,
    /// The job can be executed, but no thread has started it.
    Ready(J),
    /// A thread is executing the job.
    Running,
    Done(R),
    /// The job was abandoned and will never have a result.
    Abandoned,
}

/// A job and its result, shared by all threads that wait for it.
#[derive(Debug)]
pub(super) struct SingleFlight<J, R> {
    inner: Mutex<FlightState<J, R>>,
    changed: Condvar,
}

#[derive(Debug)]
struct FlightState<J, R> {
    state: JobState<J, R>,
    /// Wakers to call when the state changes.
    wakers: Vec<Waker>,
    /// Whether a task was already asked to arrange that a thread waits for the device.
    is_watched: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobProgress {
    Done,
    /// The job was abandoned, so it will never have a result.
    Abandoned,
    /// The job has no result yet.
    Waiting,
}

impl<J, R: Clone> SingleFlight<J, R> {
    /// Creates a flight whose job is still under construction.
    pub(super) fn new() -> Self {
        SingleFlight {
            inner: Mutex::new(FlightState {
                state: JobState::Preparing,
                wakers: Vec::new(),
                is_watched: false,
            }),
            changed: Condvar::default(),
        }
    }

    /// Makes the job available for a waiting thread to execute.
    pub(super) fn ready(&self, job: J) {
        self.set(JobState::Ready(job));
    }

    /// Executes the job in the thread that constructed it, and returns the result.
    pub(super) fn run_at_once(&self, run: impl FnOnce() -> R) -> R {
        let unwinding = AbandonGuard(self);
        let result = run();
        self.set(JobState::Done(result.clone()));
        std::mem::forget(unwinding);
        result
    }

    /// Abandons the job and notifies all threads and tasks that wait for it.
    pub(super) fn abandon(&self) {
        self.set(JobState::Abandoned);
    }

    fn set(&self, state: JobState<J, R>) {
        let mut inner = self.inner.lock();
        if !matches!(inner.state, JobState::Done(_)) {
            inner.state = state;
        }
        let wakers = std::mem::take(&mut inner.wakers);
        drop(inner);
        self.changed.notify_all();
        wakers.into_iter().for_each(alluvium_base::wake);
    }

    /// Returns the result of the job. If no thread has started the job, this thread executes it
    /// with `run`; otherwise this thread waits. Returns `None` if the job was abandoned.
    pub(super) fn finish(&self, run: impl FnOnce(J) -> R) -> Option<R> {
        let mut inner = self.inner.lock();
        loop {
            match &inner.state {
                JobState::Done(result) => return Some(result.clone()),
                JobState::Abandoned => return None,
                JobState::Preparing | JobState::Running => inner = self.changed.wait(inner),
                JobState::Ready(_) => {
                    let job = inner.begin();
                    drop(inner);
                    return Some(self.run(job, run));
                }
            }
        }
    }

    /// Executes the job with `run` if no thread has started it and `is_ready` says that it would
    /// not block. Returns the state of the job afterwards.
    pub(super) fn try_finish(
        &self,
        is_ready: impl FnOnce(&J) -> bool,
        run: impl FnOnce(J) -> R,
    ) -> JobProgress {
        let mut inner = self.inner.lock();
        match &inner.state {
            JobState::Done(_) => JobProgress::Done,
            JobState::Abandoned => JobProgress::Abandoned,
            JobState::Ready(job) if is_ready(job) => {
                let job = inner.begin();
                drop(inner);
                self.run(job, run);
                JobProgress::Done
            }
            JobState::Preparing | JobState::Ready(_) | JobState::Running => JobProgress::Waiting,
        }
    }

    /// Registers a waker to call when the job becomes ready, done or abandoned. Returns `None` if
    /// the job is already done or abandoned. The first caller that finds the job ready but not
    /// started gets the result of `watch`, and must ensure that the job is executed.
    pub(super) fn wake<W>(&self, waker: &Waker, watch: impl FnOnce(&J) -> W) -> Option<Option<W>> {
        let mut inner = self.inner.lock();
        let watched = match &inner.state {
            JobState::Done(_) | JobState::Abandoned => return None,
            JobState::Ready(job) if !inner.is_watched => Some(watch(job)),
            JobState::Preparing | JobState::Ready(_) | JobState::Running => None,
        };
        inner.is_watched |= watched.is_some();
        if !inner.wakers.iter().any(|known| known.will_wake(waker)) {
            inner.wakers.push(waker.clone());
        }
        Some(watched)
    }

    /// Returns the result of `look` for a job that is ready but not started, and `None` in any
    /// other state.
    pub(super) fn peek_job<W>(&self, look: impl FnOnce(&J) -> W) -> Option<W> {
        match &self.inner.lock().state {
            JobState::Ready(job) => Some(look(job)),
            _ => None,
        }
    }

    fn run(&self, job: J, run: impl FnOnce(J) -> R) -> R {
        self.run_at_once(|| run(job))
    }
}

/// Abandons the job if the thread that executes it panics.
struct AbandonGuard<'a, J, R: Clone>(&'a SingleFlight<J, R>);

impl<J, R: Clone> Drop for AbandonGuard<'_, J, R> {
    fn drop(&mut self) {
        // This has no effect if the job is already done.
        self.0.abandon();
    }
}

impl<J, R> FlightState<J, R> {
    /// Takes the job from a ready flight, and marks the flight as running.
    fn begin(&mut self) -> J {
        match std::mem::replace(&mut self.state, JobState::Running) {
            JobState::Ready(job) => job,
            _ => unreachable!("the state was just seen, and is locked"),
        }
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    #[test]
    fn many_who_wait_have_the_job_done_once() {
        let turn = Arc::new(SingleFlight::<u32, u32>::new());
        let done = Arc::new(AtomicUsize::new(0));
        let waiters: Vec<_> = (0..8)
            .map(|_| {
                let (turn, done) = (Arc::clone(&turn), Arc::clone(&done));
                thread::spawn(move || {
                    turn.finish(|job| {
                        done.fetch_add(1, Ordering::Relaxed);
                        job + 1
                    })
                })
            })
            .collect();
        turn.ready(41);
        assert!(
            waiters
                .into_iter()
                .all(|waiter| waiter.join().unwrap() == Some(42))
        );
        assert_eq!(done.load(Ordering::Relaxed), 1);
        assert_eq!(turn.try_finish(|_| true, |_| 0), JobProgress::Done);
    }

    #[test]
    fn who_waits_for_a_job_that_panics_is_told() {
        let turn = Arc::new(SingleFlight::<u32, u32>::new());
        turn.ready(1);
        assert_eq!(turn.try_finish(|_| false, |_| 0), JobProgress::Waiting);
        let theirs = Arc::clone(&turn);
        let panicked = thread::spawn(move || theirs.finish(|_| panic!("the job fails, as this test wants")));
        assert!(panicked.join().is_err());
        assert_eq!(turn.finish(|_| 0), None);
        assert_eq!(turn.try_finish(|_| true, |_| 0), JobProgress::Abandoned);
    }

    /// A waker that counts how often it is called.
    #[derive(Default)]
    struct WakeCounter(AtomicUsize);

    impl std::task::Wake for WakeCounter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn wakers_are_woken_once_and_one_of_them_sees_to_the_device() {
        let count = Arc::new(WakeCounter::default());
        let waker = Waker::from(Arc::clone(&count));
        let other = Waker::from(Arc::new(WakeCounter::default()));
        let turn = SingleFlight::<u32, u32>::new();
        assert_eq!(
            turn.wake(&waker, |job| *job),
            Some(None),
            "it is being put together"
        );
        turn.ready(7);
        assert_eq!(
            count.0.load(Ordering::Relaxed),
            1,
            "who came too early asks again"
        );
        assert_eq!(turn.wake(&waker, |job| *job), Some(Some(7)));
        assert_eq!(turn.wake(&waker, |job| *job), Some(None));
        assert_eq!(turn.wake(&other, |job| *job), Some(None));
        assert_eq!(turn.try_finish(|_| true, |job| job), JobProgress::Done);
        assert_eq!(count.0.load(Ordering::Relaxed), 2);
        assert_eq!(turn.wake(&waker, |job| *job), None);
    }
}

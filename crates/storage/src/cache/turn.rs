//! One job that many wait for and one of them does: a read in flight. Model-checked in `model.rs`.
//!
//! Whoever needs the result first takes the job and does it (it waits for the device and settles every node of the
//! batch); the others sleep until it is done. If the one who does it panics, the others are told, and try anew.

use crate::sync::{Condvar, Mutex};

#[derive(Debug)]
enum State<J, R> {
    /// The job is being put together.
    Preparing,
    /// Nobody does the job yet.
    Ready(J),
    /// Somebody does it.
    Running,
    /// It is done.
    Done(R),
    /// It will never be done.
    Abandoned,
}

/// A job and its result, shared by everyone who waits for it.
#[derive(Debug)]
pub(super) struct Turn<J, R> {
    state: Mutex<State<J, R>>,
    changed: Condvar,
}

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Its result is there.
    Done,
    /// Its result will never be there.
    Abandoned,
    /// It is not done yet.
    Waiting,
}

impl<J, R: Clone> Turn<J, R> {
    /// A job that is being put together.
    pub(super) fn new() -> Self {
        Turn {
            state: Mutex::new(State::Preparing),
            changed: Condvar::default(),
        }
    }

    /// The job may be done now.
    pub(super) fn ready(&self, job: J) {
        self.set(State::Ready(job));
    }

    /// The job will never be done. Everyone who waits is told.
    pub(super) fn abandon(&self) {
        self.set(State::Abandoned);
    }

    fn set(&self, state: State<J, R>) {
        let mut current = self.state.lock();
        if !matches!(*current, State::Done(_)) {
            *current = state;
        }
        drop(current);
        self.changed.notify_all();
    }

    /// The result: does the job if nobody has begun to, else waits. `None` when it was abandoned.
    pub(super) fn finish(&self, run: impl FnOnce(J) -> R) -> Option<R> {
        let mut state = self.state.lock();
        loop {
            match &*state {
                State::Done(result) => return Some(result.clone()),
                State::Abandoned => return None,
                State::Preparing | State::Running => state = self.changed.wait(state),
                State::Ready(_) => {
                    let State::Ready(job) = std::mem::replace(&mut *state, State::Running) else {
                        unreachable!("the state was just seen, and is locked");
                    };
                    drop(state);
                    return Some(self.run(job, run));
                }
            }
        }
    }

    /// Does the job if nobody has begun to and `is_ready` says that it would not block.
    pub(super) fn try_finish(&self, is_ready: impl FnOnce(&J) -> bool, run: impl FnOnce(J) -> R) -> Progress {
        let mut state = self.state.lock();
        match &*state {
            State::Done(_) => Progress::Done,
            State::Abandoned => Progress::Abandoned,
            State::Ready(job) if is_ready(job) => {
                let State::Ready(job) = std::mem::replace(&mut *state, State::Running) else {
                    unreachable!("the state was just seen, and is locked");
                };
                drop(state);
                self.run(job, run);
                Progress::Done
            }
            State::Preparing | State::Ready(_) | State::Running => Progress::Waiting,
        }
    }

    fn run(&self, job: J, run: impl FnOnce(J) -> R) -> R {
        struct AbandonUnlessDone<'a, J, R: Clone>(&'a Turn<J, R>);
        impl<J, R: Clone> Drop for AbandonUnlessDone<'_, J, R> {
            fn drop(&mut self) {
                // After `Done` this changes nothing.
                self.0.abandon();
            }
        }
        let unwinding = AbandonUnlessDone(self);
        let result = run(job);
        self.set(State::Done(result.clone()));
        drop(unwinding);
        result
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
        let turn = Arc::new(Turn::<u32, u32>::new());
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
        assert_eq!(turn.try_finish(|_| true, |_| 0), Progress::Done);
    }

    #[test]
    fn who_waits_for_a_job_that_panics_is_told() {
        let turn = Arc::new(Turn::<u32, u32>::new());
        turn.ready(1);
        assert_eq!(turn.try_finish(|_| false, |_| 0), Progress::Waiting);
        let theirs = Arc::clone(&turn);
        let panicked = thread::spawn(move || theirs.finish(|_| panic!("the job fails, as this test wants")));
        assert!(panicked.join().is_err());
        assert_eq!(turn.finish(|_| 0), None);
        assert_eq!(turn.try_finish(|_| true, |_| 0), Progress::Abandoned);
    }
}

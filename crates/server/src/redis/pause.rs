//! CLIENT PAUSE suspends commands on all connections until a deadline, or until a client ends the
//! pause.

use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

/// Which commands a pause suspends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PauseScope {
    Writes,
    All,
}

#[derive(Debug, Default)]
struct PauseState {
    until: Option<(Instant, PauseScope)>,
    waiting: Vec<Waker>,
    is_over: bool,
}

/// The current pause, if any, and the wakers of the connections that it suspends.
#[derive(Debug, Default)]
pub(crate) struct PauseControl {
    is_on: AtomicBool,
    state: Mutex<PauseState>,
    changed: Condvar,
}

impl PauseControl {
    /// Begins a pause of this length, or extends the current pause.
    pub(crate) fn begin(&self, length: Duration, scope: PauseScope) {
        let mut state = self.state.lock();
        let now = Instant::now();
        let until = now.checked_add(length).unwrap_or(now);
        let (end, wider) = match state.until {
            Some((other, PauseScope::All)) => (other.max(until), PauseScope::All),
            Some((other, PauseScope::Writes)) => (other.max(until), scope),
            None => (until, scope),
        };
        state.until = Some((end, wider));
        self.is_on.store(!state.is_over, Ordering::Release);
        self.changed.notify_all();
    }

    /// Ends the pause, and wakes the suspended connections.
    pub(crate) fn end(&self) {
        PauseControl::release(&self.is_on, &mut self.state.lock());
    }

    /// Ends the pause and prevents any further pause.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_over = true;
        PauseControl::release(&self.is_on, &mut state);
        self.changed.notify_all();
    }

    fn release(is_on: &AtomicBool, state: &mut PauseState) {
        state.until = None;
        is_on.store(false, Ordering::Release);
        state.waiting.drain(..).for_each(Waker::wake);
    }

    /// Returns whether a pause is in force.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Returns whether a command must wait for the end of the pause. If so, the waker is called
    /// then. `writes` tells whether the command is a write.
    pub(crate) fn holds(&self, writes: impl FnOnce() -> bool, waker: &Waker) -> bool {
        if !self.is_on() {
            return false;
        }
        let mut state = self.state.lock();
        let holds = match state.until {
            Some((_, PauseScope::All)) => true,
            Some((_, PauseScope::Writes)) => writes(),
            None => false,
        };
        if holds && !state.waiting.iter().any(|other| other.will_wake(waker)) {
            state.waiting.push(waker.clone());
        }
        holds
    }

    /// Waits for at most `most`, and ends a pause if its deadline passes in the meantime. Returns
    /// false once [`PauseControl::close`] has been called.
    pub(crate) fn watch(&self, most: Duration) -> bool {
        let end = Instant::now() + most;
        let mut state = self.state.lock();
        loop {
            let now = Instant::now();
            if state.until.is_some_and(|(until, _)| until <= now) {
                PauseControl::release(&self.is_on, &mut state);
            }
            if state.is_over || now >= end {
                return !state.is_over;
            }
            let until = state.until.map_or(end, |(until, _)| until.min(end));
            self.changed.wait_until(&mut state, until);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_of_writes_holds_writes_alone_and_a_wider_one_takes_over() {
        let pause = PauseControl::default();
        let holds = |writes: bool| pause.holds(|| writes, Waker::noop());
        assert!(!holds(true));
        pause.begin(Duration::from_secs(60), PauseScope::Writes);
        assert!(holds(true) && !holds(false));
        pause.begin(Duration::ZERO, PauseScope::All);
        assert!(holds(false));
        pause.end();
        assert!(!holds(true));
    }

    #[test]
    fn a_pause_ends_when_its_time_comes_and_none_begins_after_the_last() {
        let pause = PauseControl::default();
        pause.begin(Duration::from_millis(1), PauseScope::All);
        assert!(pause.watch(Duration::from_millis(50)));
        assert!(!pause.is_on());
        pause.close();
        pause.begin(Duration::from_secs(60), PauseScope::All);
        assert!(!pause.is_on());
        assert!(!pause.watch(Duration::from_secs(60)));
    }
}

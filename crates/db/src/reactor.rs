//! Waits for the device while tasks sleep.

use alluvium_storage::Watched;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The threads of one store that wait for its device, one for each part of it.
#[derive(Debug, Default)]
pub(crate) struct Reactor {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    lanes: HashMap<usize, Arc<Lane>>,
    threads: Vec<JoinHandle<()>>,
    is_stopped: bool,
}

/// One part of the device.
#[derive(Debug, Default)]
struct Lane {
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    arrivals: Vec<Watched>,
    is_stopped: bool,
}

impl Reactor {
    /// Sees to it that this is waited for: by a thread, or at once when there can be none.
    pub(crate) fn watch(&self, watched: Watched) {
        match self.lane(watched.home()) {
            Some(lane) => lane.push(watched),
            None => wait(&watched),
        }
    }

    fn lane(&self, home: usize) -> Option<Arc<Lane>> {
        let mut state = self.state.lock();
        if state.is_stopped {
            return None;
        }
        if let Some(lane) = state.lanes.get(&home) {
            return Some(Arc::clone(lane));
        }
        let lane = Arc::new(Lane::default());
        let theirs = Arc::clone(&lane);
        let thread = std::thread::Builder::new()
            .name(format!("alluvium-read-{home}"))
            .spawn(move || theirs.run());
        match thread {
            Ok(thread) => {
                state.threads.push(thread);
                state.lanes.insert(home, Arc::clone(&lane));
                Some(lane)
            }
            Err(error) => {
                tracing::warn!(%error, "a thread that waits for reads could not be started");
                None
            }
        }
    }

    /// Ends the threads once they have finished what they have.
    pub(crate) fn stop(&self) {
        let threads = {
            let mut state = self.state.lock();
            state.is_stopped = true;
            for lane in state.lanes.values() {
                lane.queue.lock().is_stopped = true;
                lane.arrived.notify_one();
            }
            std::mem::take(&mut state.threads)
        };
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread that waits for reads has panicked");
            }
        }
    }
}

fn wait(watched: &Watched) {
    while !watched.settle() {
        watched.wait_some();
    }
}

impl Lane {
    fn push(&self, watched: Watched) {
        let mut queue = self.queue.lock();
        if queue.is_stopped {
            drop(queue);
            return wait(&watched);
        }
        queue.arrivals.push(watched);
        drop(queue);
        self.arrived.notify_one();
    }

    fn run(&self) {
        let mut under_way: Vec<Watched> = Vec::new();
        loop {
            {
                let mut queue = self.queue.lock();
                while under_way.is_empty() && queue.arrivals.is_empty() {
                    if queue.is_stopped {
                        return;
                    }
                    self.arrived.wait(&mut queue);
                }
                under_way.append(&mut queue.arrivals);
            }
            // The oldest: what came later is carried by the same part of the device, and completes
            // meanwhile.
            under_way[0].wait_some();
            under_way.retain(|watched| !watched.settle());
        }
    }
}

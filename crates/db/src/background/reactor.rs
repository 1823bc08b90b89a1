//! Threads that wait for device reads on behalf of sleeping asynchronous tasks.

use alluvium_storage::WatchedRead;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The threads that wait for reads from the store's devices, one thread for each part of the
/// device.
#[derive(Debug, Default)]
pub(crate) struct Reactor {
    state: Mutex<ReactorState>,
}

#[derive(Debug, Default)]
struct ReactorState {
    lanes: HashMap<usize, Arc<ReactorLane>>,
    threads: Vec<JoinHandle<()>>,
    is_stopped: bool,
}

/// Queue of reads for the thread that serves one part of the device.
#[derive(Debug, Default)]
struct ReactorLane {
    queue: Mutex<ReactorQueue>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct ReactorQueue {
    arrivals: Vec<WatchedRead>,
    is_stopped: bool,
}

impl Reactor {
    /// Hands `watched` to the thread of its device part, which waits until its reads complete. If
    /// that thread cannot be started, the calling thread waits instead.
    pub(crate) fn watch(&self, watched: WatchedRead) {
        match self.lane(watched.device_part()) {
            Some(lane) => lane.push(watched),
            None => wait(&watched),
        }
    }

    fn lane(&self, home: usize) -> Option<Arc<ReactorLane>> {
        let mut state = self.state.lock();
        if state.is_stopped {
            return None;
        }
        if let Some(lane) = state.lanes.get(&home) {
            return Some(Arc::clone(lane));
        }
        let lane = Arc::new(ReactorLane::default());
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

    /// Stops all threads. Each thread first completes the reads in its queue.
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

fn wait(watched: &WatchedRead) {
    while !watched.settle() {
        watched.wait_some();
    }
}

impl ReactorLane {
    fn push(&self, watched: WatchedRead) {
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
        let mut under_way: Vec<WatchedRead> = Vec::new();
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
            // Wait only for the oldest read. The later reads are served by the same part of the
            // device and may complete in the meantime.
            under_way[0].wait_some();
            under_way.retain(|watched| !watched.settle());
        }
    }
}

//! A bounded pool of threads for blocking calls.
//!
//! If the kernel refuses io_uring, this pool is the whole engine. Otherwise, it executes requests
//! that a ring handles poorly: syncs, and the remainders of short transfers. Threads are started
//! when work queues up, and end when the pool is dropped, which waits for all work.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;

type BlockingJob = Box<dyn FnOnce() + Send>;

/// Up to `most` threads for blocking jobs, started on demand.
pub(crate) struct WorkerPool {
    shared: Arc<WorkerState>,
    most: usize,
}

#[derive(Default)]
struct WorkerState {
    queue: Mutex<JobQueue>,
    work: Condvar,
}

#[derive(Default)]
struct JobQueue {
    jobs: VecDeque<BlockingJob>,
    /// Number of threads waiting for work.
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    closed: bool,
}

impl WorkerPool {
    /// Creates a pool of up to `most` threads, none of which starts before there is work.
    ///
    /// # Panics
    /// If `most` is zero.
    pub(crate) fn new(most: usize) -> WorkerPool {
        assert!(most > 0, "a pool of no threads does no work");
        WorkerPool {
            shared: Arc::default(),
            most,
        }
    }

    /// Returns the number of started threads.
    pub(crate) fn started(&self) -> usize {
        self.shared.queue.lock().threads.len()
    }

    /// Queues jobs. They start in order and run concurrently on the available threads.
    pub(crate) fn push(&self, jobs: impl IntoIterator<Item = BlockingJob>) {
        let mut queue = self.shared.queue.lock();
        queue.jobs.extend(jobs);
        while queue.jobs.len() > queue.idle && queue.threads.len() < self.most {
            let shared = Arc::clone(&self.shared);
            let started = std::thread::Builder::new()
                .name("alluvium-io".to_owned())
                .spawn(move || shared.work());
            match started {
                Ok(thread) => {
                    // Count the thread as idle already, so that a single job does not start two
                    // threads.
                    queue.idle += 1;
                    queue.threads.push(thread);
                }
                Err(_) if !queue.threads.is_empty() => break,
                Err(_) => {
                    // No thread can be started, so the caller executes the jobs.
                    while let Some(job) = queue.jobs.pop_front() {
                        parking_lot::MutexGuard::unlocked(&mut queue, job);
                    }
                    return;
                }
            }
        }
        let wakes = queue.jobs.len().min(queue.idle);
        drop(queue);
        for _ in 0..wakes {
            self.shared.work.notify_one();
        }
    }
}

impl WorkerState {
    fn work(&self) {
        let mut queue = self.queue.lock();
        loop {
            // This thread is counted as idle here.
            if let Some(job) = queue.jobs.pop_front() {
                queue.idle -= 1;
                parking_lot::MutexGuard::unlocked(&mut queue, job);
                queue.idle += 1;
            } else if queue.closed {
                return;
            } else {
                self.work.wait(&mut queue);
            }
        }
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        let threads = {
            let mut queue = self.shared.queue.lock();
            queue.closed = true;
            std::mem::take(&mut queue.threads)
        };
        self.shared.work.notify_all();
        let current = std::thread::current().id();
        for thread in threads {
            // A job may drop the last handle of the pool. Its thread cannot join itself, and ends
            // later.
            if thread.thread().id() != current {
                // A job that panicked has already reported it on its own thread.
                let _ = thread.join();
            }
        }
    }
}

impl fmt::Debug for WorkerPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerPool")
            .field("most", &self.most)
            .field("started", &self.started())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn dropping_the_pool_waits_for_every_job() {
        let done = Arc::new(AtomicUsize::new(0));
        let workers = WorkerPool::new(3);
        for _ in 0..100 {
            let done = Arc::clone(&done);
            workers.push([Box::new(move || {
                std::thread::sleep(std::time::Duration::from_micros(100));
                done.fetch_add(1, Ordering::SeqCst);
            }) as BlockingJob]);
        }
        drop(workers);
        assert_eq!(done.load(Ordering::SeqCst), 100);
    }

    #[test]
    fn jobs_run_together_up_to_the_bound_and_no_further() {
        let workers = WorkerPool::new(4);
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        // The first four jobs can pass the barrier only together.
        let barrier = Arc::new(Barrier::new(4));
        workers.push((0..16).map(|number| {
            let (running, most, barrier) = (Arc::clone(&running), Arc::clone(&most), Arc::clone(&barrier));
            Box::new(move || {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                if number < 4 {
                    barrier.wait();
                }
                running.fetch_sub(1, Ordering::SeqCst);
            }) as BlockingJob
        }));
        drop(workers);
        assert_eq!(most.load(Ordering::SeqCst), 4);
    }

    #[test]
    fn a_job_may_hold_the_last_handle_of_its_pool() {
        let workers = Arc::new(WorkerPool::new(2));
        let held = Arc::clone(&workers);
        let (done, told) = std::sync::mpsc::channel();
        let gate = Arc::new(Barrier::new(2));
        let inside = Arc::clone(&gate);
        workers.push([Box::new(move || {
            inside.wait();
            drop(held);
            done.send(()).unwrap();
        }) as BlockingJob]);
        drop(workers);
        gate.wait();
        told.recv_timeout(std::time::Duration::from_secs(10)).unwrap();
    }
}

//! Lets all threads run operations for one window, whose length is a time or a number of
//! operations, at full speed or by a schedule.

use crate::account::latency::PhaseRecorder;
use crate::workload::phase::WindowLength;
use anyhow::{Context, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A thread's work, as single operations.
pub(crate) trait OperationStepper: Send {
    /// Returns the index of the thread.
    fn thread(&self) -> usize;

    /// Executes the next operation. Returns false if there are no more operations.
    fn step(&mut self) -> Result<bool>;
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct MeasurementWindow {
    /// Length of the window, or `None` if it lasts until no operations remain.
    pub(crate) amount: Option<WindowLength>,
    /// Scheduled number of operations per second, over all threads.
    pub(crate) rate: Option<f64>,
    /// Length of a throughput interval.
    pub(crate) interval: Duration,
}

/// Number of operations between two progress reports of a thread.
const SAY: u64 = 256;
/// A thread spins if its next scheduled operation is nearer than this.
const SPIN: Duration = Duration::from_micros(80);

impl MeasurementWindow {
    /// Runs the window. Returns the combined records of all threads, and the duration in seconds.
    pub(crate) fn run<W: OperationStepper>(
        &self,
        workers: &mut [W],
        progress: &mut dyn FnMut(u64, f64),
    ) -> Result<(PhaseRecorder, f64)> {
        let threads = workers.len();
        let done: Vec<AtomicU64> = (0..threads).map(|_| AtomicU64::new(0)).collect();
        let is_over = AtomicBool::new(false);
        let start = Instant::now();
        let recorders = std::thread::scope(|scope| {
            let handles: Vec<_> = workers
                .iter_mut()
                .zip(&done)
                .map(|(worker, done)| {
                    let is_over = &is_over;
                    scope.spawn(move || {
                        let result = self.work(worker, threads, start, done, is_over);
                        if result.is_err() {
                            is_over.store(true, Ordering::Relaxed);
                        }
                        result
                    })
                })
                .collect();
            let mut said = start;
            while !handles.iter().all(|handle| handle.is_finished()) {
                std::thread::sleep(Duration::from_millis(5));
                if said.elapsed() >= Duration::from_secs(1) {
                    said = Instant::now();
                    let sum = done.iter().map(|done| done.load(Ordering::Relaxed)).sum();
                    progress(sum, start.elapsed().as_secs_f64());
                }
            }
            handles
                .into_iter()
                .map(|handle| handle.join().expect("a worker does not panic"))
                .collect::<Result<Vec<_>>>()
        })?;
        // The window ends when the slowest thread completes its last operation.
        let end = recorders.iter().map(|(_, end)| *end).max().unwrap_or(start);
        let mut sum = PhaseRecorder::new(start, self.interval);
        for (recorder, _) in &recorders {
            sum.add(recorder);
        }
        Ok((sum, end.duration_since(start).as_secs_f64()))
    }

    /// Runs one thread's part of the operations. Returns the recorded latencies, and the time at
    /// which the part ended.
    fn work(
        &self,
        worker: &mut impl OperationStepper,
        threads: usize,
        start: Instant,
        done: &AtomicU64,
        is_over: &AtomicBool,
    ) -> Result<(PhaseRecorder, Instant)> {
        let (mut left, deadline) = match self.amount {
            None => (u64::MAX, None),
            Some(WindowLength::Operations(all)) => {
                let at = |thread: usize| all * thread as u64 / threads as u64;
                (at(worker.thread() + 1) - at(worker.thread()), None)
            }
            Some(WindowLength::Milliseconds(ms)) => (u64::MAX, Some(start + Duration::from_millis(ms))),
        };
        let mut recorder = PhaseRecorder::new(start, self.interval);
        let schedule = self.rate.map(|rate| OperationSchedule {
            start,
            each: threads as f64 / rate,
            first: worker.thread() as f64 / rate,
        });
        let mut last = Instant::now();
        let mut count = 0;
        while left > 0 && deadline.is_none_or(|deadline| last < deadline) {
            let begins = match &schedule {
                None => last,
                Some(schedule) => {
                    let begins = schedule.begin(count);
                    if deadline.is_some_and(|deadline| begins >= deadline) {
                        break;
                    }
                    wait_until(begins);
                    begins
                }
            };
            if !worker
                .step()
                .with_context(|| format!("thread {}", worker.thread()))?
            {
                break;
            }
            last = Instant::now();
            recorder.record(begins, last);
            left -= 1;
            count += 1;
            if count % SAY == 0 {
                done.store(count, Ordering::Relaxed);
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
        Ok((recorder, last))
    }
}

/// The scheduled start times of a thread's operations, in seconds.
#[derive(Clone, Copy, Debug)]
struct OperationSchedule {
    start: Instant,
    first: f64,
    each: f64,
}

impl OperationSchedule {
    fn begin(&self, count: u64) -> Instant {
        self.start + Duration::from_secs_f64(self.first + self.each * count as f64)
    }
}

fn wait_until(moment: Instant) {
    loop {
        let left = moment.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        if left > SPIN {
            std::thread::sleep(left - SPIN);
        } else {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_a_schedule_evenly() {
        let start = Instant::now();
        let of = |thread: usize| OperationSchedule {
            start,
            first: thread as f64 / 1000.0,
            each: 2.0 / 1000.0,
        };
        let mut moments: Vec<Duration> = (0..2)
            .flat_map(|thread| (0..500).map(move |count| (thread, count)))
            .map(|(thread, count)| of(thread).begin(count) - start)
            .collect();
        moments.sort();
        for (place, moment) in moments.iter().enumerate() {
            let ms = moment.as_secs_f64() * 1000.0;
            assert!((ms - place as f64).abs() < 1e-3, "{place}: {ms}");
        }
    }
}

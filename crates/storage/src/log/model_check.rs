//! Loom model checks of group commit and of the completion watermark. `crate::sync` has the command
//! that runs them.

use super::commit::GroupCommit;
use crate::Error;
use crate::watermark::Watermark;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

/// A model of a log that tracks which sequence numbers are complete and which are on the device.
struct CommitModel {
    watermark: Watermark,
    commit: GroupCommit,
    /// The device contains every record up to this sequence number.
    device: AtomicU64,
    /// Number of syncs that succeed before all others fail.
    good: u64,
    syncs: AtomicU64,
}

impl CommitModel {
    fn new(good: u64) -> Arc<CommitModel> {
        Arc::new(CommitModel {
            watermark: Watermark::new(0),
            commit: GroupCommit::new(0),
            device: AtomicU64::new(0),
            good,
            syncs: AtomicU64::new(0),
        })
    }

    fn append(&self, sequence: u64) {
        if self.watermark.complete(sequence, sequence) {
            self.commit.completed_moved();
        }
    }

    /// Performs a sync, after which the device contains every record that was complete when the
    /// sync began.
    fn sync(&self) -> crate::Result<()> {
        if self.syncs.fetch_add(1, Ordering::SeqCst) >= self.good {
            let cause = "the device".to_owned();
            return Err(Error::Poisoned { cause });
        }
        self.device
            .fetch_max(self.watermark.completed(), Ordering::SeqCst);
        Ok(())
    }

    fn wait(&self, sequence: u64) -> crate::Result<()> {
        self.commit
            .wait(sequence, || self.watermark.completed(), |_| self.sync())
    }

    /// Appends a record, waits until it is synced, and checks that every acknowledged record is on
    /// the device.
    fn write(&self, sequence: u64) {
        self.append(sequence);
        match self.wait(sequence) {
            Ok(()) => assert!(self.device.load(Ordering::SeqCst) >= sequence, "L5"),
            Err(_) => assert!(self.commit.healthy().is_err(), "L7"),
        }
        assert!(self.commit.synced() <= self.device.load(Ordering::SeqCst), "L5");
    }
}

#[test]
fn nothing_is_acknowledged_that_no_sync_covered() {
    loom::model(|| {
        let world = CommitModel::new(u64::MAX);
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.write(2))
        };
        world.write(1);
        other.join().unwrap();
        assert_eq!((world.commit.synced(), world.watermark.completed()), (2, 2));
    });
}

#[test]
fn a_record_without_a_waiter_is_not_taken_for_synced() {
    loom::model(|| {
        let world = CommitModel::new(u64::MAX);
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.append(2))
        };
        world.write(1);
        assert!(world.commit.synced() <= world.device.load(Ordering::SeqCst), "L5");
        other.join().unwrap();
    });
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged_and_no_thread_sleeps_on() {
    loom::model(|| {
        let world = CommitModel::new(1);
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.write(2))
        };
        world.write(1);
        other.join().unwrap();
    });
}

#[test]
fn a_failure_wakes_who_waits_for_a_lower_sequence() {
    loom::model(|| {
        let world = CommitModel::new(u64::MAX);
        let waiter = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.append(2);
                assert!(world.wait(2).is_err());
            })
        };
        world.commit.poison("a test");
        waiter.join().unwrap();
    });
}

/// Sequence numbers that several threads complete, each with a memory location whose accesses loom
/// checks.
struct WatermarkModel {
    watermark: Watermark,
    bytes: [UnsafeCell<u64>; 4],
}

impl WatermarkModel {
    fn new() -> Arc<WatermarkModel> {
        Arc::new(WatermarkModel {
            watermark: Watermark::new(0),
            bytes: std::array::from_fn(|_| UnsafeCell::new(0)),
        })
    }

    fn write(&self, sequence: u64) {
        // SAFETY: the model shows that no thread reads this location before its sequence number is
        // complete.
        self.bytes[sequence as usize].with_mut(|bytes| unsafe { *bytes = sequence });
        self.watermark.complete(sequence, sequence);
        self.read();
    }

    /// Reads the location of every sequence number up to the watermark.
    fn read(&self) {
        for sequence in 1..=self.watermark.completed() {
            // SAFETY: the model shows that this location is not written after its sequence number
            // is complete.
            self.bytes[sequence as usize].with(|bytes| assert_eq!(unsafe { *bytes }, sequence));
        }
    }
}

#[test]
fn the_watermark_passes_over_everything_that_is_complete_and_nothing_else() {
    loom::model(|| {
        let pages = WatermarkModel::new();
        let threads: Vec<_> = [2, 3]
            .into_iter()
            .map(|sequence| {
                let pages = Arc::clone(&pages);
                thread::spawn(move || pages.write(sequence))
            })
            .collect();
        pages.write(1);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(pages.watermark.completed(), 3, "nothing is left behind");
    });
}

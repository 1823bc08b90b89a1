//! The state shared by all open handles of a file: its length, whether it is poisoned, and its
//! syncs in progress.

use crate::{DeviceOperation, Error};
use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// The state of a file, regardless of its names and handles.
#[derive(Debug)]
pub(super) struct FileState {
    len: AtomicU64,
    /// Held while the length of the file changes, so that extension and truncation do not
    /// interleave.
    pub(super) resizing: Mutex<()>,
    pub(super) syncs: SyncCoalescer,
    /// Whether the file system can allocate space in this file without writing. Unset until this is
    /// known.
    allocates: OnceLock<bool>,
}

impl FileState {
    pub(super) fn new(len: u64) -> FileState {
        FileState {
            len: AtomicU64::new(len),
            resizing: Mutex::new(()),
            syncs: SyncCoalescer::default(),
            allocates: OnceLock::new(),
        }
    }

    /// Records whether space in this file could be allocated without writing. Only the first answer
    /// is kept, because it does not change.
    pub(super) fn note_allocation(&self, allocates: bool) {
        let _ = self.allocates.set(allocates);
    }

    /// Returns whether space can be allocated without writing, from the recorded answer or else
    /// from `probe`.
    pub(super) fn can_allocate(&self, probe: impl FnOnce() -> bool) -> bool {
        match self.allocates.get() {
            Some(allocates) => *allocates,
            None => probe(),
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// Must be called with `resizing` held.
    pub(super) fn set_len(&self, len: u64) {
        self.len.store(len, Ordering::Release);
    }

    /// # Errors
    /// `Poisoned` after a failed sync.
    pub(super) fn require_unpoisoned(&self, operation: DeviceOperation, file: &str) -> Result<(), Error> {
        if self.syncs.is_poisoned() {
            return Err(Error::Poisoned {
                operation,
                file: file.to_owned(),
            });
        }
        Ok(())
    }
}

/// The states of all open files, by device and inode. Handles of the same file share one state.
#[derive(Debug, Default)]
pub(super) struct FileStates {
    open: Mutex<HashMap<(u64, u64), Weak<FileState>>>,
}

impl FileStates {
    /// Returns the state of the file with this device and inode. If the file has no open handle,
    /// creates a state with length `len`.
    pub(super) fn of(&self, device: u64, inode: u64, len: u64) -> Arc<FileState> {
        let mut open = self.open.lock();
        if let Some(state) = open.get(&(device, inode)).and_then(Weak::upgrade) {
            return state;
        }
        open.retain(|_, state| state.strong_count() > 0);
        let state = Arc::new(FileState::new(len));
        open.insert((device, inode), Arc::downgrade(&state));
        state
    }
}

/// Serialises the syncs of a file. The kernel executes at most one sync at a time, and one sync
/// serves all threads waiting for it.
///
/// Syncs do not run concurrently, because the kernel reports a failed write-back only once per open
/// file description. Of two concurrent syncs, the second could return success for writes whose
/// failure was reported only to the first, and that success could be acknowledged before the first
/// sync has poisoned the file (D4).
///
/// One sync can serve several requests, because a sync that *begins* after a request has arrived
/// covers all writes that the request must make durable (D3).
#[derive(Debug, Default)]
pub(super) struct SyncCoalescer {
    turn: Mutex<SyncProgress>,
    changed: Condvar,
    poisoned: AtomicBool,
}

#[derive(Debug, Default)]
struct SyncProgress {
    busy: bool,
    /// Number of sync rounds that have begun. Rounds never overlap, so this is also the number of
    /// the latest one.
    begun: u64,
    /// Number of the latest sync round that has completed.
    ended: u64,
    /// The number and error of the round that failed. At most one round can fail.
    failed: Option<(u64, Errno)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncFailure {
    /// The operating system returned this error, and the file is now poisoned.
    Failed(Errno),
    /// An earlier sync failed, so none was attempted.
    Poisoned,
}

impl SyncFailure {
    pub(super) fn into_error(self, operation: DeviceOperation, file: &str, len: u64) -> Error {
        let file = file.to_owned();
        match self {
            // Never `DiskFull`: if a sync reports a full disk, writes that were acknowledged as
            // complete have been lost.
            SyncFailure::Failed(errno) => Error::Io {
                operation,
                file,
                offset: 0,
                len,
                source: io::Error::from(errno),
            },
            SyncFailure::Poisoned => Error::Poisoned { operation, file },
        }
    }
}

impl SyncCoalescer {
    pub(super) fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Acquire)
    }

    /// Makes the whole file durable, by calling `sync` or waiting for a sync that another thread
    /// begins after this call.
    pub(super) fn whole(&self, sync: impl FnOnce() -> Result<(), Errno>) -> Result<(), SyncFailure> {
        let mut turn = self.turn.lock();
        let needed = turn.begun + 1;
        loop {
            if turn.ended >= needed {
                return match turn.failed {
                    Some((round, errno)) if round >= needed => Err(SyncFailure::Failed(errno)),
                    _ => Ok(()),
                };
            }
            if self.is_poisoned() {
                return Err(SyncFailure::Poisoned);
            }
            if !turn.busy {
                break;
            }
            self.changed.wait(&mut turn);
        }
        turn.busy = true;
        turn.begun += 1;
        drop(turn);
        let outcome = sync();
        let mut turn = self.turn.lock();
        turn.busy = false;
        turn.ended = turn.begun;
        if let Err(errno) = outcome {
            turn.failed = Some((turn.ended, errno));
            self.poisoned.store(true, Ordering::Release);
        }
        self.changed.notify_all();
        outcome.map_err(SyncFailure::Failed)
    }

    /// Calls `sync`, which makes part of the file durable, while no other sync of the file runs.
    pub(super) fn part(&self, sync: impl FnOnce() -> Result<(), Errno>) -> Result<(), SyncFailure> {
        let mut turn = self.turn.lock();
        while turn.busy {
            self.changed.wait(&mut turn);
        }
        if self.is_poisoned() {
            return Err(SyncFailure::Poisoned);
        }
        turn.busy = true;
        drop(turn);
        let outcome = sync();
        let mut turn = self.turn.lock();
        turn.busy = false;
        if outcome.is_err() {
            self.poisoned.store(true, Ordering::Release);
        }
        self.changed.notify_all();
        outcome.map_err(SyncFailure::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    #[test]
    fn a_failed_sync_is_never_retried() {
        let turn = SyncCoalescer::default();
        assert_eq!(turn.whole(|| Ok(())), Ok(()));
        assert_eq!(turn.whole(|| Err(Errno::IO)), Err(SyncFailure::Failed(Errno::IO)));
        assert_eq!(turn.whole(|| panic!("retried")), Err(SyncFailure::Poisoned));
        assert_eq!(turn.part(|| panic!("retried")), Err(SyncFailure::Poisoned));
    }

    #[test]
    fn a_failed_sync_of_a_part_poisons_the_whole() {
        let turn = SyncCoalescer::default();
        assert_eq!(
            turn.part(|| Err(Errno::NOSPC)),
            Err(SyncFailure::Failed(Errno::NOSPC))
        );
        assert_eq!(turn.whole(|| panic!("retried")), Err(SyncFailure::Poisoned));
    }

    #[test]
    fn a_full_disk_found_by_a_sync_is_not_a_harmless_disk_full() {
        let error = SyncFailure::Failed(Errno::NOSPC).into_error(DeviceOperation::Sync, "log", 0);
        assert!(!error.is_disk_full(), "{error}");
    }

    /// Starts one sync, lets `waiters` more arrive while it is in the kernel, and returns their
    /// results and the total number of calls.
    fn pile_up(waiters: usize, later: Result<(), Errno>) -> (Vec<Result<(), SyncFailure>>, usize) {
        let turn = SyncCoalescer::default();
        let (calls, arriving) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let results = thread::scope(|scope| {
            let (entered, leave) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
            let (turn, calls, arriving) = (&turn, &calls, &arriving);
            let (inside, outside) = (Arc::clone(&entered), Arc::clone(&leave));
            scope.spawn(move || {
                let first = turn.whole(|| {
                    calls.fetch_add(1, Ordering::SeqCst);
                    inside.wait();
                    outside.wait();
                    Ok(())
                });
                assert_eq!(first, Ok(()));
            });
            entered.wait();
            let waiters: Vec<_> = (0..waiters)
                .map(|_| {
                    scope.spawn(move || {
                        arriving.fetch_add(1, Ordering::SeqCst);
                        turn.whole(|| {
                            calls.fetch_add(1, Ordering::SeqCst);
                            later
                        })
                    })
                })
                .collect();
            while arriving.load(Ordering::SeqCst) < waiters.len() {
                thread::yield_now();
            }
            thread::sleep(std::time::Duration::from_millis(50));
            leave.wait();
            waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect()
        });
        (results, calls.into_inner())
    }

    #[test]
    fn syncs_that_arrive_during_one_share_the_next() {
        let (results, calls) = pile_up(8, Ok(()));
        assert!(results.iter().all(Result::is_ok));
        assert!((2..9).contains(&calls), "{calls} calls for nine requests");
    }

    #[test]
    fn nobody_is_acknowledged_by_a_shared_sync_that_fails() {
        let (results, calls) = pile_up(8, Err(Errno::IO));
        assert!(results.iter().all(Result::is_err), "{results:?}");
        assert_eq!(calls, 2, "the first and the one that failed");
    }
}

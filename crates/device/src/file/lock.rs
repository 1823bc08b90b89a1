//! The lock on a directory, an advisory lock on a file that contains the holder's process number.
//!
//! *A killed process may still be writing.* Its ring requests continue after it has ended, and may
//! overwrite data of the next holder. Each ring therefore also keeps the lock file open. The kernel
//! closes that file together with the ring, after the last request, and only then releases the
//! lock. If the process recorded in the file has ended, the next holder waits for this.

use super::directory::OWN_FILE;
use crate::uring::{FileSlot, RingPool};
use crate::{DeviceOperation, DirectoryLock, Error, Result};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use rustix::process::Pid;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum length of a process number, in bytes.
const LONGEST_HOLDER: usize = 16;

/// Maximum time for which an open waits for the remaining ring requests of a terminated process.
const MAX_LOCK_WAIT: Duration = Duration::from_secs(5);

/// A locked file, which the rings also keep open.
struct LockedFile {
    rings: Option<FileSlot>,
    file: OwnedFd,
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // Remove this process's number from the file. Otherwise, it could be reported as the holder
        // before a later holder has written its own number. If the removal fails, the number is
        // stale only briefly.
        let _ = rustix::fs::ftruncate(&self.file, 0);
        self.rings = None;
        // A ring may release the file later, so release the lock explicitly. If this fails, the
        // lock is released with the file.
        let _ = rustix::fs::flock(&self.file, FlockOperation::NonBlockingUnlock);
    }
}

/// Acquires the lock in exclusive mode. A `flock` lock belongs to the open file description, so a
/// second handle in this process is refused just like another process.
pub(super) fn take(
    directory: BorrowedFd<'_>,
    name: &str,
    rings: Option<&Arc<RingPool>>,
) -> Result<DirectoryLock> {
    let failed = |errno: Errno| Error::from_io(DeviceOperation::Lock, name, 0, 0, io::Error::from(errno));
    let file = rustix::io::retry_on_intr(|| {
        rustix::fs::openat(
            directory,
            name,
            OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW,
            OWN_FILE,
        )
    })
    .map_err(failed)?;
    claim(&file, name, FlockOperation::NonBlockingLockExclusive)?;
    let held = LockedFile {
        rings: rings.and_then(|rings| rings.register(file.as_raw_fd())),
        file,
    };
    // Ignore a failure to record the process number, because it must be possible to open the store
    // on a full disk.
    let _ = rustix::fs::ftruncate(&held.file, 0);
    let _ = rustix::io::pwrite(&held.file, std::process::id().to_string().as_bytes(), 0);
    Ok(DirectoryLock::new(held))
}

/// Acquires the lock in shared mode. The lock file is opened read-only, because the file system may
/// not permit more.
pub(super) fn take_shared(directory: BorrowedFd<'_>, name: &str) -> Result<DirectoryLock> {
    let failed = |errno: Errno| Error::from_io(DeviceOperation::Lock, name, 0, 0, io::Error::from(errno));
    let open = |flags: OFlags| {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        rustix::io::retry_on_intr(|| rustix::fs::openat(directory, name, flags, OWN_FILE))
    };
    let file = match open(OFlags::RDONLY) {
        Err(Errno::NOENT) => match open(OFlags::RDONLY | OFlags::CREATE) {
            // No process can write here, so none has to be locked out.
            Err(Errno::ROFS | Errno::ACCESS | Errno::PERM) => return Ok(DirectoryLock::new(())),
            created => created,
        },
        opened => opened,
    };
    let file = file.map_err(failed)?;
    claim(&file, name, FlockOperation::NonBlockingLockShared)?;
    Ok(DirectoryLock::new(file))
}

fn claim(file: &OwnedFd, name: &str, operation: FlockOperation) -> Result<()> {
    let began = Instant::now();
    loop {
        let errno = match rustix::io::retry_on_intr(|| rustix::fs::flock(file, operation)) {
            Ok(()) => return Ok(()),
            Err(errno) => errno,
        };
        if errno != Errno::WOULDBLOCK {
            let source = io::Error::from(errno);
            return Err(Error::from_io(DeviceOperation::Lock, name, 0, 0, source));
        }
        let holder = holder(file);
        if !holder.is_some_and(has_gone) || began.elapsed() > MAX_LOCK_WAIT {
            return Err(Error::Locked {
                file: name.to_owned(),
                holder,
            });
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns whether no process has this number.
fn has_gone(process: u32) -> bool {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    process.is_none_or(|process| rustix::process::test_kill_process(process) == Err(Errno::SRCH))
}

/// Returns the process number in the lock file, if it contains one.
fn holder(file: &OwnedFd) -> Option<u32> {
    let mut bytes = [0; LONGEST_HOLDER];
    let len = rustix::io::pread(file, &mut bytes, 0).ok()?;
    std::str::from_utf8(bytes.get(..len)?).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{DirectoryNotes, WorkerPool};
    use rustix::fs::Mode;
    use std::os::fd::AsFd;

    #[test]
    fn the_rings_of_a_killed_process_keep_its_lock_until_they_are_gone() {
        let place = tempfile::tempdir().unwrap();
        let directory =
            rustix::fs::open(place.path(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let new_rings = || RingPool::new(Arc::new(WorkerPool::new(1)), Arc::new(DirectoryNotes::default()));
        let Ok(rings) = new_rings() else {
            crate::skipped!("io_uring", "no rings can be made");
            return;
        };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o644);
        let file = rustix::fs::openat(&directory, "lock", flags, mode).unwrap();
        claim(&file, "lock", FlockOperation::NonBlockingLockExclusive).unwrap();
        let slot = rings.register(file.as_raw_fd());
        assert!(slot.is_some());
        // Do what the system does for a killed process: close descriptors without unlocking
        // anything.
        std::mem::forget(slot);
        drop(file);
        // The file names this process, which is alive, so the call does not wait.
        let other = rustix::fs::openat(&directory, "lock", flags, mode).unwrap();
        rustix::io::pwrite(&other, std::process::id().to_string().as_bytes(), 0).unwrap();
        let refused = take(directory.as_fd(), "lock", None).unwrap_err();
        assert!(matches!(refused, Error::Locked { .. }), "{refused}");
        // If the named process has ended, the call waits for its rings.
        let gone = u32::MAX >> 2;
        assert!(has_gone(gone) && !has_gone(std::process::id()));
        rustix::io::pwrite(&other, gone.to_string().as_bytes(), 0).unwrap();
        let waiting = std::thread::spawn(move || {
            let lock = take(directory.as_fd(), "lock", None);
            (directory, lock.unwrap())
        });
        std::thread::sleep(Duration::from_millis(30));
        assert!(!waiting.is_finished(), "the lock was free while a ring was there");
        drop(rings);
        let (directory, lock) = waiting.join().unwrap();
        drop(lock);
        // A released lock is free at once, no matter what the rings hold.
        let rings = new_rings().unwrap();
        for _ in 0..3 {
            drop(take(directory.as_fd(), "lock", Some(&rings)).unwrap());
        }
    }
}

//! The lock on a directory: an advisory lock on a file, with the holder's process number written in it.

use crate::{Error, Lock, Operation, Result};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// The longest process number that is read, in bytes.
const LONGEST_HOLDER: usize = 16;

/// A locked file. Closing its descriptor gives the lock back, also when the process dies.
struct Held(OwnedFd);

impl Drop for Held {
    fn drop(&mut self) {
        // So that whoever takes the lock next is not told of us, should it be asked before it has written its own
        // number. When this fails the text is stale for a moment, nothing else.
        let _ = rustix::fs::ftruncate(&self.0, 0);
    }
}

/// Takes the lock. `flock` locks belong to the open file description, so a second handle of this process is refused like
/// any other process.
pub(super) fn take(directory: BorrowedFd<'_>, name: &str) -> Result<Lock> {
    let failed = |errno: Errno| Error::from_io(Operation::Lock, name, 0, 0, io::Error::from(errno));
    let file = rustix::io::retry_on_intr(|| {
        rustix::fs::openat(
            directory,
            name,
            OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW,
            Mode::from_raw_mode(0o644),
        )
    })
    .map_err(failed)?;
    claim(&file, name, FlockOperation::NonBlockingLockExclusive)?;
    let held = Held(file);
    // Who cannot be told of the holder is told of the lock all the same: on a full disk the store must still open.
    let _ = rustix::fs::ftruncate(&held.0, 0);
    let _ = rustix::io::pwrite(&held.0, std::process::id().to_string().as_bytes(), 0);
    Ok(Lock::new(held))
}

/// Takes the lock together with others who do. Its file is opened for reading only, for that is all that a file system may allow.
pub(super) fn take_shared(directory: BorrowedFd<'_>, name: &str) -> Result<Lock> {
    let failed = |errno: Errno| Error::from_io(Operation::Lock, name, 0, 0, io::Error::from(errno));
    let open = |flags: OFlags| {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        rustix::io::retry_on_intr(|| rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(0o644)))
    };
    let file = match open(OFlags::RDONLY) {
        Err(Errno::NOENT) => match open(OFlags::RDONLY | OFlags::CREATE) {
            // Nobody can write here, so nobody needs to be kept from it.
            Err(Errno::ROFS | Errno::ACCESS | Errno::PERM) => return Ok(Lock::new(())),
            created => created,
        },
        opened => opened,
    };
    let file = file.map_err(failed)?;
    claim(&file, name, FlockOperation::NonBlockingLockShared)?;
    Ok(Lock::new(file))
}

fn claim(file: &OwnedFd, name: &str, operation: FlockOperation) -> Result<()> {
    match rustix::io::retry_on_intr(|| rustix::fs::flock(file, operation)) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(Error::Locked {
            file: name.to_owned(),
            holder: holder(file),
        }),
        Err(errno) => Err(Error::from_io(
            Operation::Lock,
            name,
            0,
            0,
            io::Error::from(errno),
        )),
    }
}

/// The process that wrote its number into the lock file, if that is what is in it.
fn holder(file: &OwnedFd) -> Option<u32> {
    let mut bytes = [0; LONGEST_HOLDER];
    let len = rustix::io::pread(file, &mut bytes, 0).ok()?;
    std::str::from_utf8(bytes.get(..len)?).ok()?.trim().parse().ok()
}

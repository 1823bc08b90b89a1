//! The path of the management socket, and the check of who may connect.
//!
//! The socket is created in the store's directory and accessible only to its owner. A Unix socket's
//! address is limited to 107 bytes; for a longer path, the directory is opened and addressed as
//! `/proc/self/fd/N`. The socket file of a killed process remains without a listener until the next
//! process that opens the store replaces it.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, chmodat, openat, renameat, statat, unlinkat};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Uid, geteuid};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Name of the socket file in the store's directory.
pub const SOCKET: &str = "manage.sock";
/// Name under which the socket file is created. It gets its final name once only the owner can
/// access it.
const NEW: &str = "manage.sock.new";
/// Maximum length of a Unix socket address in bytes.
const MOST_ADDRESS: usize = 107;

/// An open directory, through which sockets can be addressed whatever the length of their path.
struct SocketDirectory {
    file: OwnedFd,
    path: PathBuf,
}

impl SocketDirectory {
    fn open(path: &Path) -> io::Result<SocketDirectory> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(SocketDirectory {
            file: openat(CWD, path, flags, Mode::empty())?,
            path: path.to_owned(),
        })
    }

    /// Returns an address for the socket `name` in this directory.
    fn address(&self, name: &str) -> PathBuf {
        let direct = self.path.join(name);
        if direct.as_os_str().as_bytes().len() <= MOST_ADDRESS {
            return direct;
        }
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.file.as_raw_fd()))
    }
}

/// A listening management socket. Dropping it removes the socket file.
pub(super) struct ManagementListener {
    pub(super) socket: UnixListener,
    directory: SocketDirectory,
    /// The socket file's device number and inode number.
    file: (u64, u64),
}

impl ManagementListener {
    /// Creates the socket in a store's directory and starts listening.
    pub(super) fn start(path: &Path) -> io::Result<ManagementListener> {
        let directory = SocketDirectory::open(path)?;
        match unlinkat(&directory.file, NEW, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let socket = UnixListener::bind(directory.address(NEW))?;
        chmodat(&directory.file, NEW, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
        renameat(&directory.file, NEW, &directory.file, SOCKET)?;
        let file = number(&directory)?;
        Ok(ManagementListener {
            socket,
            directory,
            file,
        })
    }
}

fn number(directory: &SocketDirectory) -> io::Result<(u64, u64)> {
    let stat = statat(&directory.file, SOCKET, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok((stat.st_dev, stat.st_ino))
}

impl Drop for ManagementListener {
    fn drop(&mut self) {
        // Another process may have opened the store since and replaced the socket file with its
        // own. Remove the file only if it is still this process's; a leftover file is harmless.
        if number(&self.directory).is_ok_and(|file| file == self.file) {
            let _ = unlinkat(&self.directory.file, SOCKET, AtFlags::empty());
        }
    }
}

/// Connects to the process that listens on the socket in a store's directory.
pub(super) fn connect(directory: &Path) -> io::Result<UnixStream> {
    let directory = SocketDirectory::open(directory)?;
    UnixStream::connect(directory.address(SOCKET))
}

/// Checks that the peer process runs as root or as this process's user (S22). Otherwise returns the
/// peer's user ID as the error.
pub(super) fn admit(stream: &UnixStream) -> Result<(), u32> {
    match socket_peercred(stream) {
        Ok(peer) if may_connect(peer.uid, geteuid()) => Ok(()),
        Ok(peer) => Err(peer.uid.as_raw()),
        Err(_) => Err(u32::MAX),
    }
}

fn may_connect(peer: Uid, own: Uid) -> bool {
    peer == own || peer.is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_user_and_root_may_connect() {
        let user = |number| Uid::from_raw(number);
        assert!(may_connect(user(1000), user(1000)) && may_connect(user(0), user(1000)));
        assert!(!may_connect(user(1001), user(1000)) && !may_connect(user(1000), user(0)));
    }

    #[test]
    fn a_directory_with_a_long_name_has_a_socket_that_only_its_owner_may_open() {
        let place = tempfile::tempdir().unwrap();
        for name in ["a".to_owned(), "b".repeat(200)] {
            let path = place.path().join(name);
            rustix::fs::mkdir(&path, Mode::RWXU).unwrap();
            for _ in 0..2 {
                let listening = ManagementListener::start(&path).unwrap();
                let stat = rustix::fs::stat(path.join(SOCKET)).unwrap();
                assert_eq!(stat.st_mode & 0o777, 0o600);
                let stream = connect(&path).unwrap();
                let (accepted, _) = listening.socket.accept().unwrap();
                assert_eq!((admit(&stream), admit(&accepted)), (Ok(()), Ok(())));
            }
            assert!(connect(&path).is_err(), "its file has gone");
            // Leave the socket file behind, as a killed process would.
            std::mem::forget(ManagementListener::start(&path).unwrap());
            let listening = ManagementListener::start(&path).unwrap();
            connect(&path).unwrap();
            drop(listening);
        }
    }

    #[test]
    fn the_socket_of_another_process_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let first = ManagementListener::start(place.path()).unwrap();
        let second = ManagementListener::start(place.path()).unwrap();
        drop(first);
        connect(place.path()).unwrap();
        drop(second);
    }
}

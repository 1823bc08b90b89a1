//! The file of a Unix socket. Its mode determines who may connect, and it is removed when its
//! server ends.

use rustix::fs::{FileType, Mode, Stat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Maximum number of connections waiting for the server to accept them.
const BACKLOG: i32 = 1024;

/// The file of a listening socket, removed on drop.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode of the file, which show whether another server has replaced it since.
    identity: (u64, u64),
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

impl SocketFile {
    /// Creates a non-blocking socket that listens at `path`. Replaces a socket file left behind by
    /// a terminated server. `mode` is the mode of the file, which determines who may connect.
    ///
    /// # Errors
    /// `AddrInUse` if another server is listening at the path; `AlreadyExists` if the path exists
    /// and is not a socket; I/O errors.
    pub fn listen(path: impl AsRef<Path>, mode: u32) -> Result<(UnixListener, SocketFile)> {
        let path = path.as_ref();
        let address = SocketAddrUnix::new(path)?;
        clear(path, &address)?;
        let socket = new_socket()?;
        // Let only the owner connect until the requested mode is set.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        rustix::net::bind(&socket, &address)?;
        let stat = rustix::fs::lstat(path)?;
        let file = SocketFile {
            path: path.to_owned(),
            identity: identity(&stat),
        };
        rustix::net::listen(&socket, BACKLOG)?;
        rustix::fs::chmod(path, Mode::from_raw_mode(mode))?;
        Ok((UnixListener::from(socket), file))
    }

    /// Returns the path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_own = rustix::fs::lstat(&self.path).is_ok_and(|stat| identity(&stat) == self.identity);
        if is_own {
            // If the file remains, the next server finds that no process is listening on it and
            // removes it.
            let _ = rustix::fs::unlink(&self.path);
        }
    }
}

fn new_socket() -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    Ok(socket)
}

/// Removes the socket file of a terminated process.
fn clear(path: &Path, address: &SocketAddrUnix) -> Result<()> {
    let stat = match rustix::fs::lstat(path) {
        Err(Errno::NOENT) => return Ok(()),
        stat => stat?,
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        let why = "the file at this path is not a socket: remove it, or choose another path";
        return Err(Error::new(ErrorKind::AlreadyExists, why));
    }
    match rustix::net::connect(new_socket()?, address) {
        Err(Errno::CONNREFUSED) => Ok(rustix::fs::unlink(path)?),
        // A server that is too busy to accept another connection is still alive.
        Ok(()) | Err(Errno::AGAIN) => {
            let why = "another server listens at this path: stop it, or choose another path";
            Err(Error::new(ErrorKind::AddrInUse, why))
        }
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn files_of_dead_servers_are_replaced_and_others_are_not() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("socket");
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        let (listener, file) = SocketFile::listen(&path, 0o660).unwrap();
        assert_eq!(mode(), 0o660);
        let alive = SocketFile::listen(&path, 0o600).unwrap_err();
        assert_eq!(alive.kind(), ErrorKind::AddrInUse);
        // Leave the state that a killed process leaves.
        drop(listener);
        std::mem::forget(file);
        let (_listener, first) = SocketFile::listen(&path, 0o600).unwrap();
        assert_eq!(mode(), 0o600);
        // The file of another server is kept.
        fs::remove_file(&path).unwrap();
        let (_other, second) = SocketFile::listen(&path, 0o600).unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
        fs::write(&path, "precious").unwrap();
        let other = SocketFile::listen(&path, 0o600).unwrap_err();
        assert_eq!(other.kind(), ErrorKind::AlreadyExists);
        assert!(path.exists());
    }
}

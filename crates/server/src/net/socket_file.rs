//! The file of a socket: made for those who may connect, removed with the server.

use crate::error::{Error, Result};
use mio::net::{UnixListener, UnixStream};
use rustix::fs::{FileType, Mode, Stat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io::ErrorKind;
use std::os::unix::net;
use std::path::Path;
use std::sync::Arc;

/// How many connections may wait for being accepted.
const BACKLOG: i32 = 1024;

/// The file of a socket that is being listened at. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: Arc<Path>,
    /// By which it is known: another server may have put its own there since.
    identity: (u64, u64),
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

impl SocketFile {
    /// Listens at a path. What a server has left there that ended without removing it is replaced.
    ///
    /// # Errors
    /// [`Error::Socket`] if a server listens there, or anything else is in the way.
    pub(crate) fn listen(path: &Path, mode: u32) -> Result<(UnixListener, SocketFile)> {
        let refused = |why: String| Error::Socket {
            path: path.to_owned(),
            why,
        };
        let failed = |errno: Errno| refused(errno.to_string());
        clear(path).map_err(refused)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let socket = socket.map_err(failed)?;
        // Until the mode is what was asked for, nobody but the owner can connect.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        let address = SocketAddrUnix::new(path).map_err(failed)?;
        rustix::net::bind(&socket, &address).map_err(failed)?;
        let stat = rustix::fs::lstat(path).map_err(failed)?;
        let file = SocketFile {
            path: path.into(),
            identity: identity(&stat),
        };
        rustix::net::listen(&socket, BACKLOG).map_err(failed)?;
        rustix::fs::chmod(path, Mode::from_raw_mode(mode)).map_err(failed)?;
        let listener = UnixListener::from_std(net::UnixListener::from(socket));
        Ok((listener, file))
    }

    pub(crate) fn path(&self) -> Arc<Path> {
        Arc::clone(&self.path)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_own = rustix::fs::lstat(&*self.path).is_ok_and(|stat| identity(&stat) == self.identity);
        if is_own && let Err(error) = rustix::fs::unlink(&*self.path) {
            tracing::warn!(%error, path = %self.path.display(), "the file of the socket could not be removed");
        }
    }
}

/// Removes the socket of a process that has ended.
fn clear(path: &Path) -> std::result::Result<(), String> {
    let stat = match rustix::fs::lstat(path) {
        Err(Errno::NOENT) => return Ok(()),
        stat => stat.map_err(|errno| errno.to_string())?,
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        return Err("what is there is no socket: remove it, or name another path".to_owned());
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            rustix::fs::unlink(path).map_err(|errno| errno.to_string())
        }
        // One that is too busy to take another connection is alive.
        Err(error) if error.kind() != ErrorKind::WouldBlock => Err(format!(
            "it cannot be told whether a server listens there: {error}"
        )),
        _ => Err("another server listens there: stop it, or name another path".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_dead_servers_are_replaced_and_others_are_not() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("socket");
        let mode = || rustix::fs::stat(&path).unwrap().st_mode & 0o777;
        let (listener, file) = SocketFile::listen(&path, 0o660).unwrap();
        assert_eq!(mode(), 0o660);
        let alive = SocketFile::listen(&path, 0o600).unwrap_err().to_string();
        assert!(
            alive.contains("socket") && alive.contains("another server"),
            "{alive}"
        );
        // What a killed process leaves.
        drop(listener);
        std::mem::forget(file);
        let (_listener, first) = SocketFile::listen(&path, 0o600).unwrap();
        assert_eq!(mode(), 0o600);
        // The file of another server stays.
        rustix::fs::unlink(&path).unwrap();
        let (_other, second) = SocketFile::listen(&path, 0o600).unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
        // So does one that is no socket.
        let directory = SocketFile::listen(place.path(), 0o600).unwrap_err().to_string();
        assert!(
            directory.contains("no socket") && place.path().exists(),
            "{directory}"
        );
    }
}

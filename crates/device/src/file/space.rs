//! The space on the file system that a directory lies on.

use crate::contract::Space;
use crate::error::{Error, Operation, Result};
use rustix::io::Errno;
use std::io;
use std::os::fd::BorrowedFd;

/// Returns the space around an open directory, which errors call by its path.
pub(super) fn of(descriptor: BorrowedFd<'_>, path: &str) -> Result<Space> {
    let failed = |errno: Errno| Error::from_io(Operation::List, path, 0, 0, io::Error::from(errno));
    if rustix::fs::fstat(descriptor).map_err(failed)?.st_nlink == 0 {
        return Err(Error::DirectoryRemoved {
            directory: path.to_owned(),
        });
    }
    let stat = rustix::fs::fstatvfs(descriptor).map_err(failed)?;
    Ok(Space {
        free: stat.f_bavail.saturating_mul(stat.f_frsize),
        total: stat.f_blocks.saturating_mul(stat.f_frsize),
    })
}

#[cfg(test)]
mod tests {
    use crate::Directory as _;
    use crate::error::Error;
    use crate::file::FileDirectory;

    #[test]
    fn a_directory_that_was_removed_while_it_was_open_has_no_space() {
        let place = tempfile::tempdir().unwrap();
        let directory = FileDirectory::open(place.path()).unwrap();
        assert!(directory.space().unwrap().total > 0);
        place.close().unwrap();
        let error = directory.space().unwrap_err();
        assert!(matches!(error, Error::DirectoryRemoved { .. }), "{error}");
    }
}

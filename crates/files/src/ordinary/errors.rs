//! Errors of the operating system as errors of operations on files.

use crate::error::{Error, ErrorKind, Result};
use crate::types::Inode;
use rustix::io::Errno;

/// The kinds that have an error number of their own. All other numbers are kept in errors of the
/// kind [`ErrorKind::Io`].
const KINDS: [(Errno, ErrorKind); 18] = [
    (Errno::NOENT, ErrorKind::NotFound),
    (Errno::EXIST, ErrorKind::Exists),
    (Errno::NOTDIR, ErrorKind::NotADirectory),
    (Errno::ISDIR, ErrorKind::IsADirectory),
    (Errno::NOTEMPTY, ErrorKind::NotEmpty),
    (Errno::NAMETOOLONG, ErrorKind::NameTooLong),
    (Errno::INVAL, ErrorKind::InvalidArgument),
    (Errno::PERM, ErrorKind::NotPermitted),
    (Errno::ROFS, ErrorKind::ReadOnly),
    (Errno::NOSPC, ErrorKind::NoSpace),
    (Errno::FBIG, ErrorKind::TooLarge),
    (Errno::MLINK, ErrorKind::TooManyLinks),
    (Errno::NODATA, ErrorKind::NoAttribute),
    (Errno::TOOBIG, ErrorKind::AttributeTooLarge),
    (Errno::OPNOTSUPP, ErrorKind::NotSupported),
    (Errno::STALE, ErrorKind::Stale),
    (Errno::LOOP, ErrorKind::Loop),
    (Errno::NXIO, ErrorKind::NoSuchOffset),
];

/// Returns an error with the number of the operating system. `place` says what was attempted.
pub(super) fn system(errno: Errno, place: impl Into<String>) -> Error {
    let error = std::io::Error::from_raw_os_error(errno.raw_os_error());
    match KINDS.iter().find(|(number, _)| *number == errno) {
        Some((_, kind)) => Error::new(*kind, format!("{}: {error}", place.into())),
        None => Error::from_system(&error, place),
    }
}

/// Returns an error that names an entry of a directory.
pub(super) fn entry(errno: Errno, action: &str, parent: Inode, name: &[u8]) -> Error {
    let name = String::from_utf8_lossy(name);
    system(
        errno,
        format!("cannot {action} \"{name}\" in directory {}", parent.0),
    )
}

/// Returns an error that names an inode.
pub(super) fn inode(errno: Errno, action: &str, inode: Inode) -> Error {
    system(errno, format!("cannot {action} inode {}", inode.0))
}

/// Returns the error for an inode that is not known or has gone.
pub(super) fn stale(inode: Inode) -> Error {
    Error::new(
        ErrorKind::Stale,
        format!("there is no inode {} any more", inode.0),
    )
}

/// Checks that a name may stand in a directory.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    let text = || String::from_utf8_lossy(name).into_owned();
    if name.len() > 255 {
        let text = format!(
            "a name has at most 255 bytes, and this one has {}: \"{}\"",
            name.len(),
            text()
        );
        return Err(Error::new(ErrorKind::NameTooLong, text));
    }
    let is_special = matches!(name, b"" | b"." | b"..");
    if is_special || name.iter().any(|byte| matches!(byte, b'/' | 0)) {
        let text = format!("\"{}\" is not a name of a file", text().escape_debug());
        return Err(Error::new(ErrorKind::InvalidArgument, text));
    }
    Ok(())
}

//! Files that contain data of a store. Only their owner can read them.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The access mode of a new file. The umask may restrict it further.
const MODE: u32 = 0o600;

/// Opens a file for writing. If the file is new, only its owner can access it. The mode of an
/// existing file is not changed.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(MODE)
        .open(path)
}

/// Truncates an existing file, or creates a file that only its owner can access.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let file = open(path)?;
    // A device or a pipe has no length and cannot be truncated.
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

/// Replaces the content of an existing file, or creates a file that only its owner can access.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create(path)?.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn new_files_are_their_owners_and_others_keep_their_modes() {
        let place = tempfile::tempdir().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let new = place.path().join("new");
        write(&new, b"long").unwrap();
        write(&new, b"sh").unwrap();
        assert_eq!(
            (std::fs::read(&new).unwrap(), mode(&new)),
            (b"sh".to_vec(), 0o600)
        );
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o644)).unwrap();
        write(&new, b"known").unwrap();
        assert_eq!(mode(&new), 0o644);
    }
}

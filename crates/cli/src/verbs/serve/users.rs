//! The user file that `serve` loads and ACL SAVE writes.

use crate::store::private;
use alluvium_server::UserFile;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The path of the file.
#[derive(Debug)]
pub(crate) struct AclFile(PathBuf);

impl AclFile {
    pub(crate) fn new(path: &Path) -> AclFile {
        AclFile(path.to_owned())
    }
}

impl UserFile for AclFile {
    fn place(&self) -> String {
        self.0.display().to_string()
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        fs::read(&self.0)
    }

    /// Writes the text to a temporary file, which is then renamed to replace the old file. The new
    /// file has the access mode of the old one.
    fn write(&self, text: &[u8]) -> io::Result<()> {
        // If the path is a symbolic link, its target is replaced, so that the link is preserved.
        let path = fs::canonicalize(&self.0).unwrap_or_else(|_| self.0.clone());
        let mut name = path.as_os_str().to_owned();
        name.push(".partial");
        let partial = PathBuf::from(name);
        // A killed process may have left a temporary file, whose access mode might be wrong, so
        // remove it first.
        let _ = fs::remove_file(&partial);
        let mut file = private::create(&partial)?;
        let written = file.write_all(text).and_then(|()| {
            if let Ok(known) = fs::metadata(&path) {
                file.set_permissions(known.permissions())?;
            }
            file.sync_all()?;
            fs::rename(&partial, &path)
        });
        if written.is_err() {
            let _ = fs::remove_file(&partial);
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_file_is_replaced_and_keeps_its_mode() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("users");
        let users = AclFile::new(&path);
        assert!(users.read().is_err());
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        users.write(b"one").unwrap();
        assert_eq!((users.read().unwrap(), mode()), (b"one".to_vec(), 0o600));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        users.write(b"two").unwrap();
        assert_eq!((users.read().unwrap(), mode()), (b"two".to_vec(), 0o640));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }
}

//! Copies an engine's files and leaves nothing of the copies in the page cache, so that they are as
//! slow to read as files that the engine itself has written.

use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;

/// Copies a directory with the program `cp`, preserving holes in files.
///
/// # Errors
/// Returns errors of `cp`, and I/O errors.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    let said = Command::new("cp")
        .arg("-a")
        .args([from, to])
        .output()
        .context("starting cp")?;
    if !said.status.success() {
        bail!(
            "copying {} to {}: {}",
            from.display(),
            to.display(),
            String::from_utf8_lossy(&said.stderr).trim()
        );
    }
    evict_page_cache(from).and_then(|()| evict_page_cache(to))
}

/// Writes all files below a directory to the device and drops them from the page cache.
fn evict_page_cache(directory: &Path) -> Result<()> {
    let failed = || format!("reading {}", directory.display());
    for entry in fs::read_dir(directory).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        let path = entry.path();
        let kind = entry.file_type().with_context(failed)?;
        if kind.is_dir() {
            evict_page_cache(&path)?;
        } else if kind.is_file() {
            let file = File::open(&path).with_context(|| format!("opening {}", path.display()))?;
            file.sync_all()
                .with_context(|| format!("writing {}", path.display()))?;
            // SAFETY: the descriptor is open, and the call does not access this process's memory.
            unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_every_file() {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        fs::create_dir_all(from.join("inner")).unwrap();
        fs::write(from.join("one"), b"1").unwrap();
        fs::write(from.join("inner/two"), b"22").unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(fs::read(to.join("one")).unwrap(), b"1");
        assert_eq!(fs::read(to.join("inner/two")).unwrap(), b"22");
    }

    #[test]
    fn a_copy_of_nothing_says_so() {
        let place = tempfile::tempdir().unwrap();
        let error = copy(&place.path().join("nowhere"), &place.path().join("to")).unwrap_err();
        assert!(error.to_string().contains("nowhere"), "{error}");
    }
}

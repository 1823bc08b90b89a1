//! Mounting for tests.

use crate::memory::MemoryFiles;
use alluvium_files::FileSystem;
use alluvium_mount::{Mount, MountOptions};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// Whether this environment can mount. The macro names the calling test, so it stands there.
pub(crate) fn can_mount() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    is_root && Path::new("/dev/fuse").exists()
}

/// Returns from the test if the environment cannot mount.
macro_rules! need_mounts {
    () => {
        if !$crate::support::can_mount() {
            alluvium_device::skipped!("/dev/fuse", "mounts need /dev/fuse and root");
            return;
        }
    };
}
pub(crate) use need_mounts;

/// A file system in memory that is mounted on a temporary directory.
pub(crate) struct MountedDirectory {
    pub(crate) files: Arc<MemoryFiles>,
    pub(crate) mount: Option<Mount>,
    pub(crate) directory: TempDir,
}

impl MountedDirectory {
    pub(crate) fn new() -> MountedDirectory {
        MountedDirectory::with(MemoryFiles::new(), &MountOptions::default())
    }

    pub(crate) fn with(files: MemoryFiles, options: &MountOptions) -> MountedDirectory {
        let (files, directory) = (Arc::new(files), tempfile::tempdir().unwrap());
        let shared: Arc<dyn FileSystem> = files.clone();
        let mount = Mount::new(shared, directory.path(), options).unwrap();
        MountedDirectory {
            files,
            mount: Some(mount),
            directory,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn mount(&self) -> &Mount {
        self.mount.as_ref().unwrap()
    }
}

impl Drop for MountedDirectory {
    fn drop(&mut self) {
        // Before the directory, which could not be removed.
        self.mount = None;
    }
}

pub(crate) fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// Returns the error number of a failed call.
pub(crate) fn errno<T: std::fmt::Debug>(result: io::Result<T>) -> i32 {
    result.unwrap_err().raw_os_error().unwrap()
}

pub(crate) fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

//! A temporary directory for one measurement.

use alluvium_device::file::FileDirectory;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A directory under the system's temporary directory, removed on drop.
pub(super) struct ScratchDirectory {
    path: PathBuf,
    pub(super) directory: Arc<FileDirectory>,
}

impl ScratchDirectory {
    pub(super) fn new() -> Result<ScratchDirectory> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("alluvium-lab-{}-{number}", std::process::id()));
        let directory = FileDirectory::create(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(ScratchDirectory {
            path,
            directory: Arc::new(directory),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        // A directory that cannot be removed remains in the system's temporary directory.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

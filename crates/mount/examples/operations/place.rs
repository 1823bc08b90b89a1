//! The places that are measured: directories, and mounts on them.

use crate::Outcome;
use alluvium_files::FileSystem;
use alluvium_mount::{Mount, MountOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory in which files are made.
pub(crate) struct Place {
    directory: PathBuf,
    files: Option<(Arc<dyn FileSystem>, MountOptions)>,
    mount: Option<Mount>,
}

impl Place {
    /// Returns a directory of an ordinary file system.
    pub(crate) fn ordinary(directory: &Path) -> Place {
        Place {
            directory: directory.to_owned(),
            files: None,
            mount: None,
        }
    }

    /// Mounts files on a directory.
    pub(crate) fn mounted(
        files: Arc<dyn FileSystem>,
        directory: &Path,
        options: MountOptions,
    ) -> Outcome<Place> {
        let mut place = Place {
            files: Some((files, options)),
            ..Place::ordinary(directory)
        };
        place.forget()?;
        Ok(place)
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Mounts again, so that the kernel remembers nothing of the files.
    pub(crate) fn forget(&mut self) -> Outcome<()> {
        if let Some(mut mount) = self.mount.take() {
            mount.unmount()?;
        }
        if let Some((files, options)) = &self.files {
            self.mount = Some(Mount::new(files.clone(), &self.directory, options)?);
        }
        Ok(())
    }
}

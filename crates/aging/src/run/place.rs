//! Where a tree is aged or copied to: a file system on an image, or a directory.

use crate::measure::cold::{CacheState, advise, drop_caches};
use crate::volumes::counts::DeviceTraffic;
use crate::volumes::volume::{Volume, VolumePlan};
use crate::{Error, ErrorContext, Result, StopRequest};
use std::fs;
use std::path::{Path, PathBuf};

/// Directory of the tree in its file system, apart from what the file system makes itself.
const TREE: &str = "tree";
/// File in a directory that this crate made.
const MARKER: &str = ".alluvium-aging";

/// How a place is made.
#[derive(Clone, Debug)]
pub(super) enum PlacePlan {
    Volume(VolumePlan),
    Directory(PathBuf),
}

/// A place with a tree.
#[derive(Debug)]
pub(super) enum TreePlace {
    Volume(Box<Volume>),
    Directory(PathBuf),
}

impl PlacePlan {
    /// Makes an empty place. An earlier one of the same name is removed if this crate made it.
    pub(super) fn create(&self) -> Result<TreePlace> {
        let place = match self {
            PlacePlan::Volume(plan) => TreePlace::Volume(Box::new(Volume::create(plan.clone())?)),
            PlacePlan::Directory(path) => {
                remove_marked(path)?;
                fs::create_dir_all(path).at("creating", path)?;
                let marker = path.join(MARKER);
                fs::write(&marker, "made by `alluvium aging`\n").at("writing", &marker)?;
                TreePlace::Directory(path.clone())
            }
        };
        let tree = place.tree();
        fs::create_dir(&tree).at("creating", &tree)?;
        Ok(place)
    }

    /// Opens the place that an interrupted run left.
    pub(super) fn open(&self) -> Result<TreePlace> {
        match self {
            PlacePlan::Volume(plan) => Ok(TreePlace::Volume(Box::new(Volume::open(plan.clone())?))),
            PlacePlan::Directory(path) => {
                require_marked(path)?;
                Ok(TreePlace::Directory(path.clone()))
            }
        }
    }

    /// Returns whether an interrupted run left the place.
    pub(super) fn exists(&self) -> bool {
        match self {
            PlacePlan::Volume(plan) => plan.exists(),
            PlacePlan::Directory(path) => path.join(MARKER).exists(),
        }
    }
}

fn require_marked(path: &Path) -> Result<()> {
    match path.join(MARKER).exists() {
        true => Ok(()),
        false => Err(Error::Refused(format!(
            "{} exists and was not made by `alluvium aging`: choose another directory",
            path.display()
        ))),
    }
}

fn remove_marked(path: &Path) -> Result<()> {
    if path.exists() {
        require_marked(path)?;
        fs::remove_dir_all(path).at("removing", path)?;
    }
    Ok(())
}

impl TreePlace {
    /// Returns the root of the tree.
    pub(super) fn tree(&self) -> PathBuf {
        match self {
            TreePlace::Volume(volume) => volume.root().join(TREE),
            TreePlace::Directory(path) => path.join(TREE),
        }
    }

    pub(super) fn volume(&self) -> Option<&Volume> {
        match self {
            TreePlace::Volume(volume) => Some(volume),
            TreePlace::Directory(_) => None,
        }
    }

    /// Returns the requests to the device, if it serves this file system only.
    pub(super) fn traffic(&self) -> Result<Option<DeviceTraffic>> {
        self.volume().map(Volume::traffic).transpose()
    }

    /// Writes everything to the device.
    pub(super) fn sync(&self) -> Result<()> {
        match self {
            TreePlace::Volume(volume) => volume.sync(),
            TreePlace::Directory(path) => {
                let directory = fs::File::open(path).at("opening", path)?;
                rustix::fs::syncfs(&directory).at("syncing", path)
            }
        }
    }

    /// Empties the caches, and returns how far that was possible.
    pub(super) fn make_cold(&mut self, stop: StopRequest<'_>) -> Result<CacheState> {
        match self {
            TreePlace::Volume(volume) => volume.remount().map(|()| CacheState::Remounted),
            TreePlace::Directory(path) => match drop_caches() {
                Ok(()) => Ok(CacheState::Dropped),
                Err(_) => advise(path, stop).map(|()| CacheState::Advised),
            },
        }
    }

    /// Leaves the place for a later process.
    pub(super) fn close(self) -> Result<()> {
        match self {
            TreePlace::Volume(volume) => volume.close(),
            TreePlace::Directory(_) => Ok(()),
        }
    }

    pub(super) fn remove(self) -> Result<()> {
        match self {
            TreePlace::Volume(volume) => volume.remove(),
            TreePlace::Directory(path) => remove_marked(&path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_another_program_made_is_neither_used_nor_removed() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("aged");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("letter"), "river").unwrap();
        let plan = PlacePlan::Directory(path.clone());
        for refused in [plan.create().unwrap_err(), plan.open().unwrap_err()] {
            assert!(matches!(refused, Error::Refused(_)), "{refused}");
        }
        assert_eq!(fs::read(path.join("letter")).unwrap(), b"river");
        fs::remove_dir_all(&path).unwrap();
        plan.create().unwrap().close().unwrap();
        assert!(plan.exists());
        plan.create().unwrap().remove().unwrap();
        assert!(!path.exists());
    }
}

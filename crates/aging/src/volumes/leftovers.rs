//! Releases what killed runs left behind: mounts and loop devices of images whose process has
//! ended.

use super::image::{MarkedImage, SYSTEM, backing_file, detach, require_marked};
use super::mounts;
use crate::{ErrorContext, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// A loop device with an image of this crate that no process uses.
#[derive(Debug)]
struct OrphanedDevice {
    name: String,
    image: MarkedImage,
}

/// Unmounts and detaches every image of this crate whose process has ended, and returns the images.
/// They stay where they are, because a run may continue with them.
///
/// # Errors
/// I/O errors; a mount is in use by other processes.
pub fn release_leftovers() -> Result<Vec<PathBuf>> {
    let mut released = Vec::new();
    for orphan in orphans(Path::new(SYSTEM))? {
        let image = orphan.image.path().to_owned();
        unmount_all(&orphan.name, &image)?;
        detach(&orphan.name, &image)?;
        released.push(image);
    }
    Ok(released)
}

fn orphans(system: &Path) -> Result<Vec<OrphanedDevice>> {
    let directory = system.join("block");
    let mut orphans = Vec::new();
    let Ok(entries) = fs::read_dir(&directory) else {
        return Ok(orphans);
    };
    for entry in entries {
        let name = entry.at("listing", &directory)?.file_name();
        let Some(name) = name.to_str().filter(|name| name.starts_with("loop")) else {
            continue;
        };
        let image = backing_file(system, name).filter(|image| require_marked(image).is_ok());
        // A locked image belongs to a process that runs.
        let image = image.and_then(|image| MarkedImage::lock(image).ok());
        // Another run may have released it before this process had the lock.
        let is_attached = |image: &MarkedImage| backing_file(system, name).as_deref() == Some(image.path());
        if let Some(image) = image.filter(is_attached) {
            orphans.push(OrphanedDevice {
                name: name.to_owned(),
                image,
            });
        }
    }
    Ok(orphans)
}

/// Unmounts the file system of a device, and the mounts of Alluvium whose store lies in it: these
/// are on directories beside the image whose names begin with that of the image.
fn unmount_all(name: &str, image: &Path) -> Result<()> {
    let source = format!("/dev/{name}");
    let beside = image.with_extension("");
    let is_ours = |entry: &mounts::MountEntry| {
        entry.source == source || entry.file_system.starts_with("fuse") && entry.directory == beside.as_path()
    };
    // The newest mount first: a mount of Alluvium uses the file system below.
    for entry in mounts::list()?.into_iter().rev().filter(is_ours) {
        let is_own = entry.file_system.starts_with("fuse");
        match is_own {
            // Its server may have been killed, and would then never answer.
            true => mounts::detach(&entry.directory)?,
            false => mounts::unmount(&entry.directory)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_in_use_and_a_foreign_one_are_no_leftovers() {
        let (place, system) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let image = MarkedImage::create(place.path(), "a", 4096).unwrap();
        let foreign = place.path().join("foreign.img");
        fs::write(&foreign, "").unwrap();
        // Nor is one whose marker is of another program.
        fs::write(place.path().join("foreign.img.aging"), "{}").unwrap();
        for (name, backing) in [("loop1", image.path()), ("loop2", foreign.as_path())] {
            let directory = system.path().join("block").join(name).join("loop");
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("backing_file"), format!("{}\n", backing.display())).unwrap();
        }
        assert!(orphans(system.path()).unwrap().is_empty());
        drop(image);
        let found = orphans(system.path()).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].name, "loop1");
    }
}

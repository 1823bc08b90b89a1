//! Image files with markers, and the loop devices behind which they are attached.
//!
//! An image `NAME.img` has a marker `NAME.img.aging` beside it, which names the inode of the image.
//! The process that uses the image holds a lock on the marker, which the kernel releases however
//! the process ends.

use crate::measure::events::DeviceNumber;
use crate::{Error, ErrorContext, Result, run_program};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Maximum time to wait until a device is detached.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where the kernel describes devices.
pub(super) const SYSTEM: &str = "/sys";

const KIND: &str = "image of alluvium aging";

/// What the marker beside an image says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ImageMarker {
    /// Always [`KIND`].
    kind: String,
    inode: u64,
    device: u64,
}

/// An image file of this crate, which this process has locked.
#[derive(Debug)]
pub struct MarkedImage {
    path: PathBuf,
    /// Holds the lock.
    _marker: File,
}

/// Returns the path of the marker of an image.
fn marker_path(image: &Path) -> PathBuf {
    let mut name = OsString::from(image);
    name.push(".aging");
    PathBuf::from(name)
}

/// Returns an error unless the image has a marker of this crate that names its inode (AG1).
pub(super) fn require_marked(image: &Path) -> Result<()> {
    let foreign = |why: &str| {
        Error::Refused(format!(
            "{} is no image of `alluvium aging`: {why}; only images that it created are formatted, mounted or detached",
            image.display()
        ))
    };
    let marker = marker_path(image);
    let Ok(text) = fs::read(&marker) else {
        return Err(foreign("it has no marker beside it"));
    };
    let marker: ImageMarker =
        serde_json::from_slice(&text).map_err(|_| foreign("its marker is not readable"))?;
    let status = fs::symlink_metadata(image).at("reading the attributes of", image)?;
    if marker.kind != KIND || !status.is_file() {
        return Err(foreign("its marker is of something else"));
    }
    if (marker.inode, marker.device) != (status.ino(), status.dev()) {
        return Err(foreign("its marker names another file"));
    }
    Ok(())
}

impl MarkedImage {
    /// Creates a sparse image and its marker.
    ///
    /// # Errors
    /// I/O errors; a file of this name exists.
    pub fn create(directory: &Path, name: &str, bytes: u64) -> Result<MarkedImage> {
        let directory = fs::canonicalize(directory).at("finding", directory)?;
        let path = directory.join(format!("{name}.img"));
        let image = File::create_new(&path).at("creating", &path)?;
        image.set_len(bytes).at("extending", &path)?;
        let status = image.metadata().at("reading the attributes of", &path)?;
        let marker = ImageMarker {
            kind: KIND.to_owned(),
            inode: status.ino(),
            device: status.dev(),
        };
        let text = serde_json::to_vec(&marker).expect("a marker has no maps");
        let beside = marker_path(&path);
        fs::write(&beside, text).at("writing", &beside)?;
        MarkedImage::lock(path)
    }

    /// Opens an image that an earlier process created.
    ///
    /// # Errors
    /// [`Error::Refused`] if it is not an image of this crate, or if another process uses it.
    pub fn open(directory: &Path, name: &str) -> Result<MarkedImage> {
        let directory = fs::canonicalize(directory).at("finding", directory)?;
        let path = directory.join(format!("{name}.img"));
        require_marked(&path)?;
        MarkedImage::lock(path)
    }

    /// Locks an image of this crate.
    pub(super) fn lock(path: PathBuf) -> Result<MarkedImage> {
        let beside = marker_path(&path);
        let marker = File::open(&beside).at("opening", &beside)?;
        match flock(&marker, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(MarkedImage {
                path,
                _marker: marker,
            }),
            Err(Errno::WOULDBLOCK) => Err(Error::Refused(format!(
                "another run uses {}: wait until it ends, or choose another directory",
                path.display()
            ))),
            Err(error) => Err(error).at("locking", &beside),
        }
    }

    /// Returns the canonical path of the image.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the image and its marker. It must not be attached.
    ///
    /// # Errors
    /// I/O errors.
    pub fn remove(self) -> Result<()> {
        fs::remove_file(&self.path).at("removing", &self.path)?;
        let beside = marker_path(&self.path);
        fs::remove_file(&beside).at("removing", &beside)
    }

    /// Attaches the image to a free loop device, past the page cache of the file system below.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the machine has no loop devices or the process may not use them.
    pub fn attach(&self) -> Result<LoopDevice> {
        let words = ["--find", "--show", "--direct-io=on"].map(OsStr::new);
        let shown = run_program("losetup", words.into_iter().chain([self.path.as_os_str()]));
        let shown = shown.map_err(|error| match error {
            Error::Program { output, .. } => Error::Unavailable(format!(
                "no loop device can be attached: {output}; run the command as root on a kernel with loop devices, or age a directory with \
                 --dir"
            )),
            error => error,
        })?;
        let name = shown.trim().trim_start_matches("/dev/").to_owned();
        let device = LoopDevice {
            name,
            image: self.path.clone(),
        };
        device.verify()?;
        Ok(device)
    }
}

/// A loop device with an image of this crate. It is detached when the handle is dropped.
#[derive(Debug)]
pub struct LoopDevice {
    name: String,
    image: PathBuf,
}

impl LoopDevice {
    /// Returns the name, as in `loop0`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path, as in `/dev/loop0`.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }

    /// Returns an error unless the device is attached to this image, and the image is marked (AG1).
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn verify(&self) -> Result<()> {
        verify_backing(Path::new(SYSTEM), &self.name, &self.image)
    }

    /// Returns the number of the device.
    ///
    /// # Errors
    /// I/O errors.
    pub fn number(&self) -> Result<DeviceNumber> {
        let path = self.system_path("dev");
        let text = fs::read_to_string(&path).at("reading", &path)?;
        DeviceNumber::parse(&text)
            .ok_or_else(|| Error::Refused(format!("{} names no device: {text:?}", path.display())))
    }

    /// Returns a path below the kernel's description of the device.
    pub(super) fn system_path(&self, name: &str) -> PathBuf {
        Path::new(SYSTEM).join("block").join(&self.name).join(name)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // Another process may have detached it, and the device may belong to another image since.
        if self.verify().is_ok() {
            let _ = detach(&self.name, &self.image);
        }
    }
}

/// Detaches a loop device from its image, and waits for that: the kernel detaches a device once its
/// last user, such as a scanner of new devices, has closed it.
pub(super) fn detach(name: &str, image: &Path) -> Result<()> {
    run_program("losetup", ["-d".to_owned(), format!("/dev/{name}")])?;
    let began = Instant::now();
    while backing_file(Path::new(SYSTEM), name).is_some_and(|path| path == image) {
        if began.elapsed() > PATIENCE {
            return Err(Error::Refused(format!(
                "/dev/{name} is still in use: end the program that has it open"
            )));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Returns the backing file of a loop device, or `None` if it has none.
pub(super) fn backing_file(system: &Path, name: &str) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let mut path = fs::read(system.join("block").join(name).join("loop/backing_file")).ok()?;
    if path.last() == Some(&b'\n') {
        path.pop();
    }
    Some(PathBuf::from(OsString::from_vec(path)))
}

/// Returns an error unless a loop device is attached to a marked image (AG1).
fn verify_backing(system: &Path, name: &str, image: &Path) -> Result<()> {
    match backing_file(system, name) {
        Some(path) if path == image => require_marked(image),
        other => Err(Error::Refused(format!(
            "/dev/{name} is not attached to {} but to {}: only images that `alluvium aging` created are formatted, mounted or detached",
            image.display(),
            other.map_or_else(|| "nothing".to_owned(), |path| path.display().to_string())
        ))),
    }
}

/// Returns the image of this crate behind a block device.
///
/// # Errors
/// [`Error::Refused`] if the device is anything else.
pub fn image_of(device: &Path) -> Result<PathBuf> {
    let name = device.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let path = backing_file(Path::new(SYSTEM), name).ok_or_else(|| {
        Error::Refused(format!(
            "{} is not a loop device with an image: only images that `alluvium aging` created are remounted",
            device.display()
        ))
    })?;
    require_marked(&path).map(|()| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plants the kernel's description of a loop device.
    fn plant(system: &Path, name: &str, backing: &Path) {
        let directory = system.join("block").join(name).join("loop");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("backing_file"), format!("{}\n", backing.display())).unwrap();
    }

    #[test]
    fn only_a_marked_image_behind_its_own_device_is_accepted() {
        let (place, system) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let system = system.path();
        let image = MarkedImage::create(place.path(), "a", 1 << 20).unwrap();
        plant(system, "loop7", image.path());
        verify_backing(system, "loop7", image.path()).unwrap();
        // A device with another image, one with none, and one that is no loop device.
        let foreign = place.path().join("foreign.img");
        fs::write(&foreign, "data").unwrap();
        plant(system, "loop8", &fs::canonicalize(&foreign).unwrap());
        for name in ["loop8", "loop9", "sda"] {
            let refused = verify_backing(system, name, image.path()).unwrap_err();
            assert!(matches!(refused, Error::Refused(_)), "{name}: {refused}");
        }
        let refused = verify_backing(system, "loop8", &fs::canonicalize(&foreign).unwrap()).unwrap_err();
        assert!(refused.to_string().contains("no marker"), "{refused}");
    }

    #[test]
    fn a_marker_names_one_inode_and_no_copy_or_link() {
        let place = tempfile::tempdir().unwrap();
        let image = MarkedImage::create(place.path(), "a", 1 << 20).unwrap();
        require_marked(image.path()).unwrap();
        let path = image.path().to_owned();
        // A file that took the place of the image is foreign.
        fs::rename(&path, place.path().join("moved")).unwrap();
        fs::write(&path, "other data").unwrap();
        let refused = require_marked(&path).unwrap_err().to_string();
        assert!(refused.contains("names another file"), "{refused}");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(place.path().join("moved"), &path).unwrap();
        assert!(require_marked(&path).is_err());
        // So is a copy of the image with a copy of the marker.
        fs::copy(place.path().join("moved"), place.path().join("b.img")).unwrap();
        fs::copy(marker_path(&path), place.path().join("b.img.aging")).unwrap();
        assert!(MarkedImage::open(place.path(), "b").is_err());
        // And a marker that is none.
        fs::write(place.path().join("b.img.aging"), "{}").unwrap();
        assert!(MarkedImage::open(place.path(), "b").is_err());
    }

    #[test]
    fn an_image_is_used_by_one_process_at_a_time_and_never_replaces_a_file() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("b.img"), "data").unwrap();
        assert!(MarkedImage::create(place.path(), "b", 1 << 20).is_err());
        assert_eq!(fs::read(place.path().join("b.img")).unwrap(), b"data");
        let image = MarkedImage::create(place.path(), "a", 1 << 20).unwrap();
        let busy = MarkedImage::open(place.path(), "a").unwrap_err().to_string();
        assert!(busy.contains("another run uses"), "{busy}");
        drop(image);
        MarkedImage::open(place.path(), "a").unwrap().remove().unwrap();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_device_that_is_no_image_is_refused() {
        for device in ["/dev/null", "/dev/vda", "/dev/loop-control"] {
            let refused = image_of(Path::new(device)).unwrap_err();
            assert!(matches!(refused, Error::Refused(_)), "{refused}");
        }
    }
}

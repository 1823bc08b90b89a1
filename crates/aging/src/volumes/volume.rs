//! A mounted file system on an image of this crate.

use super::counts::DeviceTraffic;
use super::file_system::FileSystemKind;
use super::image::{LoopDevice, MarkedImage};
use super::mounts;
use super::own_mount::{OwnMount, OwnProgram};
use crate::{Error, ErrorContext, Result};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// How a file system is made and mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumePlan {
    pub kind: FileSystemKind,
    /// Where the image and its mount point are.
    pub directory: PathBuf,
    /// Name of the image and of the mount point in the directory.
    pub name: String,
    /// Size of the image, which is sparse.
    pub bytes: u64,
    /// Read-ahead of the kernel in KiB; 0 turns it off.
    pub read_ahead_kib: u32,
    /// How stores of Alluvium are mounted.
    pub program: OwnProgram,
}

impl VolumePlan {
    fn beside(&self, suffix: &str) -> PathBuf {
        self.directory.join(format!("{}{suffix}", self.name))
    }

    /// Returns whether an image of this name exists.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.beside(".img").exists()
    }
}

/// A mounted file system. Dropping the handle unmounts it and detaches its device; the image stays.
#[derive(Debug)]
pub struct Volume {
    plan: VolumePlan,
    // The order of these fields is the order in which they are released.
    own: Option<OwnMount>,
    device: LoopDevice,
    _image: MarkedImage,
}

impl Volume {
    /// Makes and mounts a file system. An image of the same name, if it is one of this crate, is
    /// removed first.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where the machine has no loop devices, [`Error::Refused`] if a file
    /// of another origin has the image's name, or an error of a program or of I/O.
    pub fn create(plan: VolumePlan) -> Result<Volume> {
        if plan.bytes < plan.kind.least_bytes() {
            return Err(Error::Refused(format!(
                "{} needs a device of at least {} MiB: choose a larger --size",
                plan.kind,
                plan.kind.least_bytes() >> 20
            )));
        }
        fs::create_dir_all(&plan.directory).at("creating", &plan.directory)?;
        if plan.exists() {
            MarkedImage::open(&plan.directory, &plan.name)?.remove()?;
        }
        let image = MarkedImage::create(&plan.directory, &plan.name, plan.bytes)?;
        let mut volume = Volume::attach(plan, image)?;
        volume.device.verify()?;
        volume.plan.kind.make(&volume.device.path())?;
        volume.mount()?;
        Ok(volume)
    }

    /// Mounts the file system of an existing image.
    ///
    /// # Errors
    /// As [`Volume::create`].
    pub fn open(plan: VolumePlan) -> Result<Volume> {
        let image = MarkedImage::open(&plan.directory, &plan.name)?;
        let mut volume = Volume::attach(plan, image)?;
        volume.mount()?;
        Ok(volume)
    }

    fn attach(mut plan: VolumePlan, image: MarkedImage) -> Result<Volume> {
        // The kernel's list of mounts has canonical paths.
        plan.directory = fs::canonicalize(&plan.directory).at("finding", &plan.directory)?;
        Ok(Volume {
            device: image.attach()?,
            plan,
            own: None,
            _image: image,
        })
    }

    /// Returns the directory in which the files are shown.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.plan.beside("")
    }

    /// Returns where the file system of the device is mounted.
    fn base(&self) -> PathBuf {
        match self.plan.kind {
            FileSystemKind::Alluvium => self.plan.beside(".device"),
            _ => self.root(),
        }
    }

    #[must_use]
    pub fn device(&self) -> &LoopDevice {
        &self.device
    }

    fn mount(&mut self) -> Result<()> {
        self.device.verify()?;
        let (root, base) = (self.root(), self.base());
        for directory in [&root, &base] {
            fs::create_dir_all(directory).at("creating", directory)?;
        }
        mounts::mount(self.plan.kind.kernel_name(), &self.device.path(), &base, "rw")?;
        if self.plan.kind == FileSystemKind::Alluvium {
            let log = self.plan.beside(".log");
            let own = OwnMount::start(&self.plan.program, &base.join("store"), &root, log)?;
            self.own = Some(own);
        }
        self.set_read_ahead()
    }

    fn unmount(&mut self) -> Result<()> {
        if let Some(own) = self.own.take() {
            own.stop()?;
        }
        self.device.verify()?;
        mounts::unmount(&self.base())?;
        mounts::wait_until_unused(&self.device.path())
    }

    /// Unmounts and mounts the file system, so that the kernel has nothing of it in its caches.
    ///
    /// # Errors
    /// An error of a program or of I/O.
    pub fn remount(&mut self) -> Result<()> {
        self.unmount()?;
        self.mount()
    }

    /// Writes everything to the device.
    ///
    /// # Errors
    /// I/O errors.
    pub fn sync(&self) -> Result<()> {
        for directory in [self.root(), self.base()] {
            let open = File::open(&directory).at("opening", &directory)?;
            rustix::fs::syncfs(&open).at("syncing", &directory)?;
        }
        Ok(())
    }

    /// Returns the requests to the device since it was attached.
    ///
    /// # Errors
    /// I/O errors.
    pub fn traffic(&self) -> Result<DeviceTraffic> {
        DeviceTraffic::of(self.device.name())
    }

    /// Sets the read-ahead of the device and of the file systems on it. Btrfs and FUSE have values
    /// of their own.
    fn set_read_ahead(&self) -> Result<()> {
        let text = self.plan.read_ahead_kib.to_string();
        let mut places = vec![self.device.system_path("queue/read_ahead_kb")];
        for directory in [self.root(), self.base()] {
            if let Some(entry) = mounts::find(&directory)? {
                places.push(PathBuf::from(format!(
                    "/sys/class/bdi/{}/read_ahead_kb",
                    entry.device
                )));
            }
        }
        if let Ok(volumes) = fs::read_dir("/sys/fs/btrfs") {
            let volumes = volumes
                .filter_map(std::result::Result::ok)
                .map(|entry| entry.path());
            let ours = volumes.filter(|path| path.join("devices").join(self.device.name()).exists());
            places.extend(ours.map(|path| path.join("bdi/read_ahead_kb")));
        }
        for place in places.iter().filter(|place| place.exists()) {
            fs::write(place, &text).at("setting the read-ahead with", place)?;
        }
        Ok(())
    }

    /// Unmounts the file system and detaches its device. Its image stays.
    ///
    /// # Errors
    /// An error of a program or of I/O.
    pub fn close(mut self) -> Result<()> {
        self.unmount()
    }

    /// Unmounts the file system, and removes the image and the mount points.
    ///
    /// # Errors
    /// An error of a program or of I/O.
    pub fn remove(mut self) -> Result<()> {
        self.unmount()?;
        let (directory, name) = (self.plan.directory.clone(), self.plan.name.clone());
        let directories = [self.root(), self.base()];
        let log = self.plan.beside(".log");
        drop(self);
        for path in directories {
            remove_if_there(&path, fs::remove_dir)?;
        }
        remove_if_there(&log, fs::remove_file)?;
        MarkedImage::open(&directory, &name)?.remove()
    }
}

fn remove_if_there<'a>(path: &'a Path, remove: fn(&'a Path) -> std::io::Result<()>) -> Result<()> {
    match remove(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).at("removing", path),
        _ => Ok(()),
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // Errors were returned by `close` and `remove`; here they would hide the first one.
        drop(self.own.take());
        if self.device.verify().is_ok() {
            let _ = mounts::unmount(&self.base());
        }
    }
}

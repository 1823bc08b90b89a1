//! A file system that ends in the middle of its work, and volumes of other file systems.

use crate::contract::FileSystem;
use crate::error::{Error, ErrorKind, Result};
use crate::types::{
    AllocateMode, AttributeChange, Attributes, DirectoryEntry, Inode, NewNode, RenameMode, SeekTarget,
    SetMode, SpaceStatistics, WritePosition,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// A file system whose calls fail, all of them, after a number of calls that change something.
pub(super) struct FailingFileSystem {
    pub(super) files: Arc<dyn FileSystem>,
    left: AtomicI64,
}

impl FailingFileSystem {
    pub(super) fn new(files: Arc<dyn FileSystem>, calls: i64) -> FailingFileSystem {
        FailingFileSystem {
            files,
            left: AtomicI64::new(calls),
        }
    }

    fn ended() -> Error {
        Error::new(ErrorKind::Io, "the process has ended")
    }

    fn change(&self) -> Result<&dyn FileSystem> {
        if self.left.fetch_sub(1, Ordering::Relaxed) <= 0 {
            Err(Self::ended())
        } else {
            Ok(&*self.files)
        }
    }

    fn look(&self) -> Result<&dyn FileSystem> {
        if self.left.load(Ordering::Relaxed) < 0 {
            Err(Self::ended())
        } else {
            Ok(&*self.files)
        }
    }
}

impl FileSystem for FailingFileSystem {
    fn lookup(&self, parent: Inode, name: &[u8]) -> Result<Attributes> {
        self.look()?.lookup(parent, name)
    }

    fn attributes(&self, inode: Inode) -> Result<Attributes> {
        self.look()?.attributes(inode)
    }

    fn parent(&self, directory: Inode) -> Result<Inode> {
        self.look()?.parent(directory)
    }

    fn set_attributes(&self, inode: Inode, change: &AttributeChange) -> Result<Attributes> {
        self.change()?.set_attributes(inode, change)
    }

    fn create(&self, parent: Inode, name: &[u8], node: &NewNode<'_>) -> Result<Attributes> {
        self.change()?.create(parent, name, node)
    }

    fn create_unnamed(&self, parent: Inode, node: &NewNode<'_>) -> Result<Attributes> {
        self.change()?.create_unnamed(parent, node)
    }

    fn link(&self, inode: Inode, parent: Inode, name: &[u8]) -> Result<Attributes> {
        self.change()?.link(inode, parent, name)
    }

    fn unlink(&self, parent: Inode, name: &[u8]) -> Result<()> {
        self.change()?.unlink(parent, name)
    }

    fn remove_directory(&self, parent: Inode, name: &[u8]) -> Result<()> {
        self.change()?.remove_directory(parent, name)
    }

    fn rename(
        &self,
        parent: Inode,
        name: &[u8],
        new_parent: Inode,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        self.change()?.rename(parent, name, new_parent, new_name, mode)
    }

    fn read_link(&self, inode: Inode) -> Result<Vec<u8>> {
        self.look()?.read_link(inode)
    }

    fn hold(&self, inode: Inode) -> Result<()> {
        self.look()?.hold(inode)
    }

    fn release(&self, inode: Inode) -> Result<()> {
        self.look()?.release(inode)
    }

    fn read(&self, inode: Inode, offset: u64, length: usize) -> Result<Vec<u8>> {
        self.look()?.read(inode, offset, length)
    }

    fn write(&self, inode: Inode, position: WritePosition, data: &[u8]) -> Result<u64> {
        self.change()?.write(inode, position, data)
    }

    fn allocate(&self, inode: Inode, mode: AllocateMode, offset: u64, length: u64) -> Result<()> {
        self.change()?.allocate(inode, mode, offset, length)
    }

    fn seek(&self, inode: Inode, offset: u64, target: SeekTarget) -> Result<u64> {
        self.look()?.seek(inode, offset, target)
    }

    fn copy_range(
        &self,
        from: Inode,
        from_offset: u64,
        to: Inode,
        to_offset: u64,
        length: u64,
    ) -> Result<u64> {
        self.change()?
            .copy_range(from, from_offset, to, to_offset, length)
    }

    fn read_directory(
        &self,
        directory: Inode,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        self.look()?.read_directory(directory, after, limit)
    }

    fn extended_attribute(&self, inode: Inode, name: &[u8]) -> Result<Vec<u8>> {
        self.look()?.extended_attribute(inode, name)
    }

    fn extended_attributes(&self, inode: Inode) -> Result<Vec<Vec<u8>>> {
        self.look()?.extended_attributes(inode)
    }

    fn set_extended_attribute(&self, inode: Inode, name: &[u8], value: &[u8], mode: SetMode) -> Result<()> {
        self.change()?.set_extended_attribute(inode, name, value, mode)
    }

    fn remove_extended_attribute(&self, inode: Inode, name: &[u8]) -> Result<()> {
        self.change()?.remove_extended_attribute(inode, name)
    }

    /// The tests run thousands of these, and lose no power.
    fn sync(&self) -> Result<()> {
        self.change().map(drop)
    }

    fn space(&self) -> Result<SpaceStatistics> {
        self.look()?.space()
    }
}

/// A file system of some kind in a sparse file, mounted while this lives.
pub(super) struct MountedVolume {
    place: tempfile::TempDir,
}

impl MountedVolume {
    /// Returns `None`, and records that the test was skipped, where it cannot be had. `make` is the
    /// program that creates it, if one is needed.
    pub(super) fn new(name: &str, make: &str) -> Option<MountedVolume> {
        let place = tempfile::tempdir().unwrap();
        let (image, root) = (place.path().join("image"), place.path().join("root"));
        std::fs::create_dir(&root).unwrap();
        let runs = |command: &mut Command| match command.output() {
            Ok(output) if output.status.success() => true,
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                alluvium_device::skipped!(&format!("mounts of {name}"), "{why}");
                false
            }
            Err(error) => {
                let program = command.get_program().to_string_lossy().into_owned();
                alluvium_device::skipped!(&program, "{error}");
                false
            }
        };
        let mounted = if make.is_empty() {
            runs(Command::new("mount").args(["-t", name, "none"]).arg(&root))
        } else {
            std::fs::File::create(&image).unwrap().set_len(400 << 20).unwrap();
            runs(Command::new(make).arg(&image))
                && runs(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&root))
        };
        mounted.then_some(MountedVolume { place })
    }

    pub(super) fn path(&self) -> PathBuf {
        self.place.path().join("root")
    }
}

impl Drop for MountedVolume {
    fn drop(&mut self) {
        let path: &Path = &self.path();
        let plain = Command::new("umount").arg(path).output();
        if !plain.is_ok_and(|done| done.status.success()) {
            let _ = Command::new("umount").arg("-l").arg(path).status();
        }
    }
}

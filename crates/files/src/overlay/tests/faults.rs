//! A file system that ends in the middle of its work, and volumes of other file systems.

use crate::contract::FileSystem;
use crate::error::{Error, ErrorKind, Result};
use crate::types::{
    AllocateMode, AttributeChange, Attributes, DirectoryEntry, Inode, NewNode, RenameMode, SeekTarget,
    SetMode, SpaceStatistics, WritePosition,
};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// A file system whose calls fail, all of them, after a number of calls that change something. It
/// notes which calls it was asked for.
pub(super) struct FailingFileSystem {
    files: Arc<dyn FileSystem>,
    left: AtomicI64,
    calls: Mutex<Vec<String>>,
}

impl FailingFileSystem {
    pub(super) fn new(files: Arc<dyn FileSystem>, calls: i64) -> FailingFileSystem {
        FailingFileSystem {
            files,
            left: AtomicI64::new(calls),
            calls: Mutex::default(),
        }
    }

    /// Returns the calls that were to change something, with the names that they set or remove.
    pub(super) fn calls(&self) -> Vec<String> {
        self.calls.lock().clone()
    }

    fn ended() -> Error {
        Error::new(ErrorKind::Io, "the process has ended")
    }

    fn change(&self, call: &str, name: &[u8]) -> Result<&dyn FileSystem> {
        self.calls
            .lock()
            .push(format!("{call}{}", String::from_utf8_lossy(name)));
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
        self.change("set_attributes", b"")?.set_attributes(inode, change)
    }

    fn create(&self, parent: Inode, name: &[u8], node: &NewNode<'_>) -> Result<Attributes> {
        self.change("create ", name)?.create(parent, name, node)
    }

    fn create_unnamed(&self, parent: Inode, node: &NewNode<'_>) -> Result<Attributes> {
        self.change("create_unnamed", b"")?.create_unnamed(parent, node)
    }

    fn link(&self, inode: Inode, parent: Inode, name: &[u8]) -> Result<Attributes> {
        self.change("link", b"")?.link(inode, parent, name)
    }

    fn unlink(&self, parent: Inode, name: &[u8]) -> Result<()> {
        self.change("unlink ", name)?.unlink(parent, name)
    }

    fn remove_directory(&self, parent: Inode, name: &[u8]) -> Result<()> {
        self.change("remove ", name)?.remove_directory(parent, name)
    }

    fn rename(
        &self,
        parent: Inode,
        name: &[u8],
        new_parent: Inode,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        self.change("rename to ", new_name)?
            .rename(parent, name, new_parent, new_name, mode)
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
        self.change("write", b"")?.write(inode, position, data)
    }

    fn allocate(&self, inode: Inode, mode: AllocateMode, offset: u64, length: u64) -> Result<()> {
        self.change("allocate", b"")?
            .allocate(inode, mode, offset, length)
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
        self.change("copy_range", b"")?
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
        self.change("set_extended_attribute", b"")?
            .set_extended_attribute(inode, name, value, mode)
    }

    fn remove_extended_attribute(&self, inode: Inode, name: &[u8]) -> Result<()> {
        self.change("remove_extended_attribute", b"")?
            .remove_extended_attribute(inode, name)
    }

    /// The tests run thousands of these, and lose no power.
    fn sync(&self) -> Result<()> {
        self.change("sync", b"").map(drop)
    }

    fn space(&self) -> Result<SpaceStatistics> {
        self.look()?.space()
    }
}

/// A file system of some kind, mounted while this lives.
pub(super) struct MountedVolume {
    _place: tempfile::TempDir,
    root: PathBuf,
}

impl MountedVolume {
    /// Creates a file system in a sparse file with the program `make`. Returns `None`, and records
    /// that the test was skipped, where it cannot be had.
    pub(super) fn image(name: &str, make: &str) -> Option<MountedVolume> {
        let place = tempfile::tempdir().unwrap();
        let (image, root) = (place.path().join("image"), place.path().join("root"));
        std::fs::create_dir(&root).unwrap();
        std::fs::File::create(&image).unwrap().set_len(400 << 20).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-o", "loop"]).arg(&image).arg(&root);
        let is_mounted = runs(name, Command::new(make).arg(&image)) && runs(name, &mut mount);
        is_mounted.then_some(MountedVolume { _place: place, root })
    }

    /// Mounts a file system in memory with options.
    pub(super) fn in_memory(options: &str) -> Option<MountedVolume> {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        std::fs::create_dir(&root).unwrap();
        MountedVolume::in_memory_at(options, root, place)
    }

    /// Mounts a file system in memory over a directory.
    pub(super) fn over(root: &Path) -> Option<MountedVolume> {
        MountedVolume::in_memory_at("size=4m", root.to_owned(), tempfile::tempdir().unwrap())
    }

    fn in_memory_at(options: &str, root: PathBuf, place: tempfile::TempDir) -> Option<MountedVolume> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "none"]).arg(&root);
        runs("tmpfs", &mut mount).then_some(MountedVolume { _place: place, root })
    }

    pub(super) fn path(&self) -> &Path {
        &self.root
    }
}

/// Runs a command, and records that the test was skipped if it fails.
fn runs(name: &str, command: &mut Command) -> bool {
    match command.output() {
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
    }
}

impl Drop for MountedVolume {
    fn drop(&mut self) {
        let plain = Command::new("umount").arg(&self.root).output();
        if !plain.is_ok_and(|done| done.status.success()) {
            let _ = Command::new("umount").arg("-l").arg(&self.root).status();
        }
    }
}

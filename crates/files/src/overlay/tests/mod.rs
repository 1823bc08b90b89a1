//! Overlays over ordinary directories in temporary folders. The upper file system is one too.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod commits;
mod crashes;
mod faults;
mod images;
mod limits;
mod model;
mod operations;
mod records;
mod views;

use super::{Overlay, OverlayOptions, apply};
use crate::contract::FileSystem;
use crate::types::{FileKind, Inode, NewNode, WritePosition};
use crate::{AccessTimes, ApplyOutcome, OrdinaryDirectory, Result};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;

/// A lower directory and the directory in which changes are kept.
struct OverlayBench {
    place: TempDir,
}

impl OverlayBench {
    fn new() -> OverlayBench {
        OverlayBench::within(None)
    }

    /// Creates the directories on the file system of `volume`.
    fn within(volume: Option<&Path>) -> OverlayBench {
        let place = match volume {
            Some(volume) => tempfile::tempdir_in(volume).unwrap(),
            None => tempfile::tempdir().unwrap(),
        };
        std::fs::create_dir(place.path().join("lower")).unwrap();
        std::fs::create_dir(place.path().join("upper")).unwrap();
        OverlayBench { place }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn lower(&self) -> Arc<OrdinaryDirectory> {
        Arc::new(OrdinaryDirectory::open(&self.path("lower"), AccessTimes::Keep).unwrap())
    }

    fn upper(&self) -> Arc<dyn FileSystem> {
        Arc::new(OrdinaryDirectory::open(&self.path("upper"), AccessTimes::Update).unwrap())
    }

    fn create(&self) -> Overlay {
        let options = OverlayOptions {
            name: "test".to_owned(),
            nesting: 0,
        };
        Overlay::create(self.lower(), self.upper(), Inode::ROOT, &options).unwrap()
    }

    fn open(&self) -> Overlay {
        Overlay::open(self.lower(), self.upper(), Inode::ROOT).unwrap()
    }

    /// Returns what the view shows, through a copy of the upper. The transaction does not depend on
    /// what the image looks at.
    fn view_image(&self) -> images::TreeImage {
        self.copy("upper", "looked at");
        let upper = OrdinaryDirectory::open(&self.path("looked at"), AccessTimes::Update).unwrap();
        let overlay = Overlay::open(self.lower(), Arc::new(upper), Inode::ROOT).unwrap();
        images::image(&overlay, images::ImageTimes::With)
    }

    fn apply(&self) -> Result<ApplyOutcome> {
        apply(&*self.lower(), self.upper(), Inode::ROOT)
    }

    /// Copies the lower or the upper directory with all attributes.
    fn copy(&self, from: &str, to: &str) {
        copy_tree(&self.path(from), &self.path(to));
    }
}

/// Returns whether random modes are no obstacle, and records otherwise that the test was skipped.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        alluvium_device::skipped!(
            "root",
            "files of all modes are read and written, which only root may do"
        );
    }
    is_root
}

fn copy_tree(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

fn node(kind: FileKind, mode: u32) -> NewNode<'static> {
    NewNode {
        kind,
        mode,
        user: rustix::process::geteuid().as_raw(),
        group: rustix::process::getegid().as_raw(),
        device: 0,
        target: b"target",
    }
}

/// Returns the inode to which a path leads.
fn find(files: &dyn FileSystem, path: &str) -> Result<Inode> {
    let mut at = Inode::ROOT;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        at = files.lookup(at, name.as_bytes())?.inode;
    }
    Ok(at)
}

fn split(path: &str) -> (&str, &[u8]) {
    match path.rsplit_once('/') {
        Some((parent, name)) => (parent, name.as_bytes()),
        None => ("", path.as_bytes()),
    }
}

fn make(files: &dyn FileSystem, path: &str, kind: FileKind) -> Inode {
    let (parent, name) = split(path);
    let mode = if kind == FileKind::Directory { 0o755 } else { 0o644 };
    files
        .create(find(files, parent).unwrap(), name, &node(kind, mode))
        .unwrap()
        .inode
}

fn put(files: &dyn FileSystem, path: &str, data: &[u8]) -> Inode {
    let inode = find(files, path).unwrap_or_else(|_| make(files, path, FileKind::Regular));
    let cut = crate::AttributeChange {
        size: Some(0),
        ..crate::AttributeChange::default()
    };
    files.set_attributes(inode, &cut).unwrap();
    files.write(inode, WritePosition::At(0), data).unwrap();
    inode
}

fn get(files: &dyn FileSystem, path: &str) -> Result<Vec<u8>> {
    files.read(find(files, path)?, 0, 1 << 22)
}

fn rename(files: &dyn FileSystem, from: &str, to: &str) -> Result<()> {
    let ((from, name), (to, new_name)) = (split(from), split(to));
    let (from, to) = (find(files, from)?, find(files, to)?);
    files.rename(from, name, to, new_name, crate::RenameMode::Replace)
}

fn unlink(files: &dyn FileSystem, path: &str) -> Result<()> {
    let (parent, name) = split(path);
    files.unlink(find(files, parent)?, name)
}

fn remove_directory(files: &dyn FileSystem, path: &str) -> Result<()> {
    let (parent, name) = split(path);
    files.remove_directory(find(files, parent)?, name)
}

fn link(files: &dyn FileSystem, from: &str, to: &str) -> Result<()> {
    let (parent, name) = split(to);
    files
        .link(find(files, from)?, find(files, parent)?, name)
        .map(drop)
}

//! Compares an ordinary directory with the calls of the operating system on the same files.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod contents;
mod names;
mod reach;

use super::nodes::NodeTable;
use super::{AccessTimes, OrdinaryDirectory};
use crate::contract::FileSystem;
use crate::types::{Attributes, FileKind, Inode, NewNode};
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::path::PathBuf;
use tempfile::TempDir;

/// A temporary directory, seen through its path and through the file system under test.
struct Workbench {
    place: TempDir,
    files: OrdinaryDirectory,
}

impl Workbench {
    fn new() -> Workbench {
        let place = tempfile::tempdir().unwrap();
        let files = OrdinaryDirectory::open(place.path(), AccessTimes::Update).unwrap();
        Workbench { place, files }
    }

    /// Keeps few descriptors open.
    fn with_most_open(most_open: usize) -> Workbench {
        let mut bench = Workbench::new();
        let root = openat(CWD, bench.place.path(), OFlags::PATH, Mode::empty()).unwrap();
        bench.files.nodes = NodeTable::new(root, most_open).unwrap();
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn create(&self, parent: Inode, name: &str, kind: FileKind, mode: u32) -> Attributes {
        self.files
            .create(parent, name.as_bytes(), &node(kind, mode))
            .unwrap()
    }

    fn file(&self, name: &str) -> Inode {
        self.create(Inode::ROOT, name, FileKind::Regular, 0o644).inode
    }

    fn directory(&self, name: &str) -> Inode {
        self.create(Inode::ROOT, name, FileKind::Directory, 0o755).inode
    }
}

fn node(kind: FileKind, mode: u32) -> NewNode<'static> {
    NewNode {
        kind,
        mode,
        user: rustix::process::geteuid().as_raw(),
        group: rustix::process::getegid().as_raw(),
        device: 0,
        target: b"../a target",
    }
}

//! Tests of file systems in stores.

mod branches;
mod contents;
mod crashes;
mod damage;
mod generate;
mod model;
mod operations;
mod perform;
mod reference;
mod streams;
mod transactions;
mod views;

use crate::{
    AttributeChange, Attributes, ContentOrder, ErrorKind, FileKind, FileSystem, Files, FilesOptions, Inode,
    NewNode, Result, Timestamp,
};
use alluvium::{Db, Options};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// A store in memory with a file system whose blocks are small and whose clock steps.
struct TestPlace {
    db: Db,
    files: Files,
}

/// Options with a clock that steps by a second with each call.
fn stepping_options(block_bytes: u32, inline_bytes: u32) -> FilesOptions {
    let seconds = Arc::new(AtomicI64::new(0));
    FilesOptions::new()
        .block_bytes(block_bytes)
        .inline_bytes(inline_bytes)
        .clock(move || Timestamp {
            seconds: seconds.fetch_add(1, Ordering::Relaxed),
            nanoseconds: 7,
        })
}

/// Returns the order of contents that a test with a seed uses.
fn order(seed: u64) -> ContentOrder {
    match seed % 2 {
        0 => ContentOrder::ByInode,
        _ => ContentOrder::ByPath,
    }
}

impl TestPlace {
    fn new() -> TestPlace {
        TestPlace::with(&stepping_options(512, 100))
    }

    fn with(options: &FilesOptions) -> TestPlace {
        let db = Options::new().memory(16 << 20).in_memory().unwrap();
        let files = Files::open_with(&db, "test", options).unwrap();
        TestPlace { db, files }
    }

    /// Ends a test: the file system must be whole.
    #[track_caller]
    fn verify(&self) {
        let report = self.files.check().unwrap();
        assert!(report.is_whole(), "{report}");
    }
}

fn node(kind: FileKind) -> NewNode<'static> {
    NewNode {
        kind,
        mode: 0o640,
        user: 1000,
        group: 100,
        device: 0,
        target: if kind == FileKind::Symlink { b"target" } else { b"" },
    }
}

fn file(files: &dyn FileSystem, parent: Inode, name: &[u8]) -> Inode {
    files
        .create(parent, name, &node(FileKind::Regular))
        .unwrap()
        .inode
}

fn directory(files: &dyn FileSystem, parent: Inode, name: &[u8]) -> Inode {
    files
        .create(parent, name, &node(FileKind::Directory))
        .unwrap()
        .inode
}

fn size(size: u64) -> AttributeChange {
    AttributeChange {
        size: Some(size),
        ..AttributeChange::default()
    }
}

#[track_caller]
fn fails<T: std::fmt::Debug>(result: Result<T>, kind: ErrorKind) {
    assert_eq!(result.unwrap_err().kind(), kind);
}

fn names(files: &dyn FileSystem, directory: Inode) -> Vec<Vec<u8>> {
    let entries = files.read_directory(directory, None, usize::MAX).unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

fn attributes(files: &dyn FileSystem, inode: Inode) -> Attributes {
    files.attributes(inode).unwrap()
}

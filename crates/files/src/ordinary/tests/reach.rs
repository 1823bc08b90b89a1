//! Invariants D1 to D4: what a number refers to while others change the directory.

use super::{Workbench, node};
use crate::contract::FileSystem;
use crate::error::ErrorKind;
use crate::types::{FileKind, Inode, RenameMode, WritePosition};
use crate::{AccessTimes, OrdinaryDirectory};
use std::fs::FileTimes;
use std::os::unix::fs::{MetadataExt, symlink};
use std::time::{Duration, SystemTime};

#[test]
fn no_symbolic_link_leads_out_of_the_directory() {
    let bench = Workbench::with_most_open(0);
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("file"), b"outside").unwrap();
    let directory = bench.directory("directory");
    let file = bench.create(directory, "file", FileKind::Regular, 0o644).inode;
    std::fs::rename(bench.path("directory"), bench.path("moved")).unwrap();
    symlink(outside.path(), bench.path("directory")).unwrap();
    let write = bench.files.write(file, WritePosition::At(0), b"inside");
    assert_eq!(write.unwrap_err().kind(), ErrorKind::Stale);
    let create = bench
        .files
        .create(directory, b"new", &node(FileKind::Regular, 0o644));
    assert_eq!(create.unwrap_err().kind(), ErrorKind::Stale);
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(std::fs::read(outside.path().join("file")).unwrap(), b"outside");
    let link = bench.files.lookup(Inode::ROOT, b"directory").unwrap();
    assert_eq!(link.kind, FileKind::Symlink);
    let moved = bench.files.lookup(Inode::ROOT, b"moved").unwrap();
    assert_eq!(moved.inode, directory);
    bench.files.lookup(moved.inode, b"file").unwrap();
    bench.files.write(file, WritePosition::At(0), b"inside").unwrap();
    assert_eq!(std::fs::read(bench.path("moved/file")).unwrap(), b"inside");
}

#[test]
fn a_file_that_another_program_replaced_is_stale() {
    let bench = Workbench::with_most_open(0);
    let file = bench.file("file");
    std::fs::write(bench.path("new"), b"new").unwrap();
    std::fs::rename(bench.path("new"), bench.path("file")).unwrap();
    assert_eq!(bench.files.attributes(file).unwrap_err().kind(), ErrorKind::Stale);
    assert_eq!(bench.files.read(file, 0, 9).unwrap_err().kind(), ErrorKind::Stale);
    let new = bench.files.lookup(Inode::ROOT, b"file").unwrap();
    assert_eq!(bench.files.read(new.inode, 0, 9).unwrap(), b"new");
}

#[test]
fn a_held_file_outlives_its_names() {
    let bench = Workbench::with_most_open(0);
    let file = bench.file("file");
    bench.files.write(file, WritePosition::At(0), b"kept").unwrap();
    bench.files.hold(file).unwrap();
    for n in 0..50 {
        let other = bench.file(&format!("other {n}"));
        bench.files.read(other, 0, 1).unwrap();
    }
    std::fs::remove_file(bench.path("file")).unwrap();
    assert_eq!(bench.files.read(file, 0, 9).unwrap(), b"kept");
    assert_eq!(bench.files.attributes(file).unwrap().links, 0);
    let link = bench.files.link(file, Inode::ROOT, b"again").unwrap_err();
    assert_eq!(link.kind(), ErrorKind::NotFound);
    bench.files.release(file).unwrap();
    assert_eq!(bench.files.attributes(file).unwrap_err().kind(), ErrorKind::Stale);
}

#[test]
fn a_file_without_a_name_gets_one_or_goes() {
    let bench = Workbench::new();
    let made = match bench
        .files
        .create_unnamed(Inode::ROOT, &node(FileKind::Regular, 0o640))
    {
        Err(error) if error.kind() == ErrorKind::NotSupported => {
            alluvium_device::skipped!("O_TMPFILE", "the file system of the temporary directory has none");
            return;
        }
        other => other.unwrap(),
    };
    assert_eq!((made.links, made.mode), (0, 0o640));
    bench
        .files
        .write(made.inode, WritePosition::At(0), b"named later")
        .unwrap();
    assert_eq!(
        bench.files.link(made.inode, Inode::ROOT, b"name").unwrap().links,
        1
    );
    bench.files.release(made.inode).unwrap();
    assert_eq!(std::fs::read(bench.path("name")).unwrap(), b"named later");
    let lost = bench
        .files
        .create_unnamed(Inode::ROOT, &node(FileKind::Regular, 0o640))
        .unwrap();
    bench.files.release(lost.inode).unwrap();
    assert_eq!(
        bench.files.attributes(lost.inode).unwrap_err().kind(),
        ErrorKind::Stale
    );
}

#[test]
fn few_descriptors_reach_many_files() {
    let bench = Workbench::with_most_open(4);
    let mut at = Inode::ROOT;
    let mut files = Vec::new();
    for depth in 0..60 {
        at = bench
            .create(at, &format!("directory {depth}"), FileKind::Directory, 0o755)
            .inode;
        files.push(bench.create(at, "file", FileKind::Regular, 0o644).inode);
    }
    for (depth, file) in files.iter().enumerate().rev() {
        bench
            .files
            .write(*file, WritePosition::At(0), &[depth as u8])
            .unwrap();
    }
    bench
        .files
        .rename(
            Inode::ROOT,
            b"directory 0",
            Inode::ROOT,
            b"renamed",
            RenameMode::Replace,
        )
        .unwrap();
    for (depth, file) in files.iter().enumerate() {
        assert_eq!(bench.files.read(*file, 0, 9).unwrap(), [depth as u8]);
    }
}

#[test]
fn a_file_keeps_its_number_when_the_name_it_was_seen_under_goes() {
    let bench = Workbench::with_most_open(0);
    let file = bench.file("first");
    bench.files.link(file, Inode::ROOT, b"second").unwrap();
    bench.files.link(file, Inode::ROOT, b"third").unwrap();
    bench.files.unlink(Inode::ROOT, b"third").unwrap();
    assert_eq!(bench.files.attributes(file).unwrap().links, 2);
    bench.file("other");
    bench.files.lookup(Inode::ROOT, b"second").unwrap();
    bench
        .files
        .rename(Inode::ROOT, b"other", Inode::ROOT, b"second", RenameMode::Replace)
        .unwrap();
    assert_eq!(bench.files.attributes(file).unwrap().links, 1);
}

#[test]
fn a_rename_onto_another_name_of_the_same_file_changes_nothing() {
    let bench = Workbench::new();
    let file = bench.file("first");
    bench.files.link(file, Inode::ROOT, b"second").unwrap();
    bench
        .files
        .rename(Inode::ROOT, b"first", Inode::ROOT, b"second", RenameMode::Replace)
        .unwrap();
    assert_eq!(bench.files.attributes(file).unwrap().links, 2);
    assert!(bench.path("first").is_file() && bench.path("second").is_file());
}

#[test]
fn a_program_can_be_executed_after_it_was_written() {
    let bench = Workbench::new();
    let file = bench
        .create(Inode::ROOT, "program", FileKind::Regular, 0o755)
        .inode;
    bench.files.hold(file).unwrap();
    bench
        .files
        .write(file, WritePosition::At(0), b"#!/bin/sh\nexit 3\n")
        .unwrap();
    bench.files.release(file).unwrap();
    bench.files.write(file, WritePosition::End, b"\n").unwrap();
    let status = std::process::Command::new(bench.path("program"))
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(3));
}

#[test]
fn reading_leaves_the_times_of_access_if_asked_to() {
    let bench = Workbench::new();
    bench.file("file");
    bench.directory("directory");
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
    for name in ["file", "directory"] {
        let file = std::fs::File::open(bench.path(name)).unwrap();
        file.set_times(FileTimes::new().set_accessed(long_ago)).unwrap();
    }
    let quiet = OrdinaryDirectory::open(bench.place.path(), AccessTimes::Keep).unwrap();
    let file = quiet.lookup(Inode::ROOT, b"file").unwrap().inode;
    let directory = quiet.lookup(Inode::ROOT, b"directory").unwrap().inode;
    quiet.read(file, 0, 10).unwrap();
    quiet.read_directory(directory, None, 10).unwrap();
    for name in ["file", "directory"] {
        assert_eq!(
            std::fs::metadata(bench.path(name)).unwrap().atime(),
            1000,
            "{name}"
        );
    }
}

#[test]
fn files_of_a_file_system_mounted_below_have_numbers_of_their_own() {
    let bench = Workbench::new();
    let below = bench.path("below");
    std::fs::create_dir(&below).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "none"])
        .arg(&below)
        .output();
    if !mounted.is_ok_and(|done| done.status.success()) {
        alluvium_device::skipped!("mounts", "only root mounts, and not in every container");
        return;
    }
    let mount = bench.files.lookup(Inode::ROOT, b"below").unwrap();
    let made = bench
        .files
        .create(mount.inode, b"file", &node(FileKind::Regular, 0o644))
        .unwrap();
    bench
        .files
        .write(made.inode, WritePosition::At(0), b"below")
        .unwrap();
    let read = bench.files.read(made.inode, 0, 9);
    let moved = bench
        .files
        .rename(mount.inode, b"file", Inode::ROOT, b"file", RenameMode::Replace);
    let listed = bench.files.read_directory(mount.inode, None, 9).unwrap();
    bench
        .files
        .nodes
        .forget(&bench.files.nodes.get(mount.inode).unwrap());
    bench
        .files
        .nodes
        .forget(&bench.files.nodes.get(made.inode).unwrap());
    let unmounted = std::process::Command::new("umount")
        .arg("-l")
        .arg(&below)
        .status();
    assert_eq!(read.unwrap(), b"below");
    assert_eq!(moved.unwrap_err().errno(), libc::EXDEV);
    assert!(made.inode.0 >= 1 << 63 && listed[0].inode == made.inode);
    assert!(unmounted.unwrap().success());
}

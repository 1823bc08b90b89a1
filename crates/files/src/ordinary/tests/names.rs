//! Names, kinds and attributes.

use super::{Workbench, node};
use crate::contract::FileSystem;
use crate::error::{ErrorKind, Result};
use crate::types::{AttributeChange, FileKind, Inode, RenameMode, TimeChange, Timestamp};
use rustix::process::geteuid;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};

#[test]
fn attributes_are_those_that_the_path_has() {
    let bench = Workbench::new();
    let made = bench.create(Inode::ROOT, "all bits", FileKind::Regular, 0o6777);
    bench
        .files
        .write(made.inode, crate::WritePosition::At(5), b"hello")
        .unwrap();
    let change = AttributeChange {
        mode: Some(0o4721),
        accessed: Some(TimeChange::At(Timestamp {
            seconds: -5,
            nanoseconds: 123_456_789,
        })),
        modified: Some(TimeChange::At(Timestamp {
            seconds: 5_000_000_000,
            nanoseconds: 999_999_999,
        })),
        ..AttributeChange::default()
    };
    let changed = bench.files.set_attributes(made.inode, &change).unwrap();
    let real = std::fs::metadata(bench.path("all bits")).unwrap();
    assert_eq!(
        (made.mode, changed.mode, real.mode() & 0o7777),
        (0o6777, 0o4721, 0o4721)
    );
    assert_eq!(
        (changed.size, changed.blocks, changed.links),
        (10, real.blocks(), 1)
    );
    assert_eq!((real.atime(), real.atime_nsec()), (-5, 123_456_789));
    assert_eq!(
        (changed.modified.seconds, changed.modified.nanoseconds),
        (5_000_000_000, 999_999_999)
    );
    assert_eq!(
        (changed.changed.seconds, i64::from(changed.changed.nanoseconds)),
        (real.ctime(), real.ctime_nsec())
    );
    assert_eq!(changed.inode, Inode(real.ino()));
    assert_eq!(bench.files.lookup(Inode::ROOT, b"all bits").unwrap(), changed);
}

#[test]
fn every_kind_is_created_as_asked() {
    let bench = Workbench::new();
    let is = |name: &str, kind: FileKind| {
        let made = bench.create(Inode::ROOT, name, kind, 0o777);
        assert_eq!(made.kind, kind);
        std::fs::symlink_metadata(bench.path(name)).unwrap()
    };
    assert!(is("file", FileKind::Regular).is_file());
    assert!(is("directory", FileKind::Directory).is_dir());
    assert!(is("pipe", FileKind::Pipe).file_type().is_fifo());
    assert!(is("socket", FileKind::Socket).file_type().is_socket());
    assert!(is("link", FileKind::Symlink).is_symlink());
    let link = bench.files.lookup(Inode::ROOT, b"link").unwrap();
    assert_eq!(bench.files.read_link(link.inode).unwrap(), b"../a target");
    assert_eq!(link.size, 11);
    let directory = bench.files.lookup(Inode::ROOT, b"directory").unwrap();
    assert_eq!(directory.mode, 0o777);
    if !geteuid().is_root() {
        alluvium_device::skipped!("root", "only root creates device files");
        return;
    }
    let mut null = node(FileKind::CharacterDevice, 0o600);
    (null.device, null.user, null.group) = (rustix::fs::makedev(1, 3), 1234, 4321);
    let made = bench.files.create(Inode::ROOT, b"null", &null).unwrap();
    let real = std::fs::metadata(bench.path("null")).unwrap();
    assert_eq!(
        (made.device, real.rdev()),
        (rustix::fs::makedev(1, 3), rustix::fs::makedev(1, 3))
    );
    assert_eq!(
        (real.uid(), real.gid(), made.user, made.group),
        (1234, 4321, 1234, 4321)
    );
}

#[test]
fn a_directory_with_the_set_group_bit_gives_its_group() {
    let bench = Workbench::new();
    if !geteuid().is_root() {
        alluvium_device::skipped!("root", "only root gives files away");
        return;
    }
    let team = bench.directory("team");
    let change = AttributeChange {
        mode: Some(0o2775),
        group: Some(77),
        ..AttributeChange::default()
    };
    bench.files.set_attributes(team, &change).unwrap();
    let file = bench.create(team, "file", FileKind::Regular, 0o640);
    let directory = bench.create(team, "directory", FileKind::Directory, 0o750);
    assert_eq!((file.group, file.mode), (77, 0o640));
    assert_eq!((directory.group, directory.mode), (77, 0o2750));
}

#[test]
fn refusals_have_the_numbers_of_the_system() {
    let bench = Workbench::new();
    let file = bench.file("file");
    let directory = bench.directory("directory");
    bench.create(directory, "inner", FileKind::Directory, 0o755);
    let link = bench.create(Inode::ROOT, "link", FileKind::Symlink, 0).inode;
    let files = &bench.files;
    let root = Inode::ROOT;
    let number = |result: Result<()>| result.unwrap_err().errno();
    let long = [b'n'; 256];
    let rename = |from: &[u8], to: (Inode, &[u8]), mode| number(files.rename(root, from, to.0, to.1, mode));
    assert_eq!(number(files.lookup(root, b"none").map(drop)), libc::ENOENT);
    assert_eq!(number(files.lookup(file, b"none").map(drop)), libc::ENOTDIR);
    assert_eq!(number(files.lookup(link, b"none").map(drop)), libc::ENOTDIR);
    assert_eq!(number(files.lookup(root, &long).map(drop)), libc::ENAMETOOLONG);
    assert_eq!(number(files.lookup(root, b"..").map(drop)), libc::EINVAL);
    assert_eq!(number(files.lookup(root, b"a/b").map(drop)), libc::EINVAL);
    assert_eq!(
        number(files.create(root, b"file", &node(FileKind::Pipe, 0)).map(drop)),
        libc::EEXIST
    );
    assert_eq!(number(files.unlink(root, b"directory")), libc::EISDIR);
    assert_eq!(number(files.remove_directory(root, b"file")), libc::ENOTDIR);
    assert_eq!(
        number(files.remove_directory(root, b"directory")),
        libc::ENOTEMPTY
    );
    assert_eq!(
        number(files.link(directory, root, b"second").map(drop)),
        libc::EPERM
    );
    assert_eq!(number(files.link(file, root, b"link").map(drop)), libc::EEXIST);
    assert_eq!(
        rename(b"directory", (directory, b"self"), RenameMode::Replace),
        libc::EINVAL
    );
    assert_eq!(
        rename(b"file", (root, b"directory"), RenameMode::Replace),
        libc::EISDIR
    );
    assert_eq!(
        rename(b"directory", (root, b"file"), RenameMode::Replace),
        libc::ENOTDIR
    );
    assert_eq!(rename(b"file", (root, b"link"), RenameMode::Keep), libc::EEXIST);
    assert_eq!(
        rename(b"file", (root, b"none"), RenameMode::Exchange),
        libc::ENOENT
    );
    assert_eq!(number(files.read(directory, 0, 1).map(drop)), libc::EISDIR);
    assert_eq!(number(files.read_link(file).map(drop)), libc::EINVAL);
    assert_eq!(
        number(files.read_directory(file, None, 1).map(drop)),
        libc::ENOTDIR
    );
    assert_eq!(
        number(files.extended_attribute(file, b"user.none").map(drop)),
        libc::ENODATA
    );
    assert_eq!(number(files.attributes(Inode(u64::MAX)).map(drop)), libc::ESTALE);
    let size = AttributeChange {
        size: Some(1),
        ..AttributeChange::default()
    };
    assert_eq!(
        number(files.set_attributes(directory, &size).map(drop)),
        libc::EISDIR
    );
}

#[test]
fn renames_replace_keep_and_exchange() {
    let bench = Workbench::new();
    let (a, b) = (bench.file("a"), bench.directory("b"));
    let root = Inode::ROOT;
    bench
        .files
        .rename(root, b"a", root, b"b", RenameMode::Exchange)
        .unwrap();
    assert!(bench.path("a").is_dir() && bench.path("b").is_file());
    assert_eq!(bench.files.lookup(root, b"b").unwrap().inode, a);
    bench.files.rename(root, b"b", b, b"c", RenameMode::Keep).unwrap();
    assert!(bench.path("a/c").is_file());
    let d = bench.file("d");
    bench
        .files
        .rename(root, b"d", b, b"c", RenameMode::Replace)
        .unwrap();
    assert_eq!(bench.files.lookup(b, b"c").unwrap().inode, d);
    assert_eq!(bench.files.attributes(a).unwrap_err().kind(), ErrorKind::Stale);
    assert_eq!(bench.files.parent(b).unwrap(), root);
    assert_eq!(bench.files.parent(root).unwrap(), root);
}

#[test]
fn a_listing_is_sorted_and_continues_while_names_go() {
    let bench = Workbench::new();
    let mut wanted: Vec<Vec<u8>> = (0..700)
        .map(|n| format!("{:x}", n * 7919 % 1009).into_bytes())
        .collect();
    wanted.push(vec![0xff, 0xfe, b'\n']);
    wanted.sort();
    for name in &wanted {
        bench
            .files
            .create(Inode::ROOT, name, &node(FileKind::Regular, 0o600))
            .unwrap();
    }
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let batch = bench
            .files
            .read_directory(Inode::ROOT, after.as_deref(), 64)
            .unwrap();
        let Some(last) = batch.last() else { break };
        after = Some(last.name.clone());
        for entry in &batch {
            let path = bench.place.path().join(std::ffi::OsStr::from_bytes(&entry.name));
            assert_eq!(Inode(std::fs::metadata(path).unwrap().ino()), entry.inode);
            bench.files.unlink(Inode::ROOT, &entry.name).unwrap();
        }
        found.extend(batch.into_iter().map(|entry| entry.name));
    }
    assert_eq!(found, wanted);
    assert!(
        bench
            .files
            .read_directory(Inode::ROOT, None, 1)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_name_removed_or_created_here_is_seen_by_a_listing_that_continues() {
    let bench = Workbench::new();
    for name in ["a", "b", "c"] {
        bench.file(name);
    }
    let names = |after: Option<&[u8]>| {
        let entries = bench.files.read_directory(Inode::ROOT, after, 9).unwrap();
        entries
            .into_iter()
            .map(|entry| entry.name[0])
            .collect::<Vec<u8>>()
    };
    assert_eq!(names(None), b"abc");
    bench.files.unlink(Inode::ROOT, b"b").unwrap();
    assert_eq!(names(Some(b"a")), b"c");
    bench.file("bb");
    assert_eq!(names(Some(b"a")), b"bc");
}

#[test]
fn a_mode_without_permission_to_write_does_not_stop_the_creator() {
    let bench = Workbench::new();
    let made = bench.create(Inode::ROOT, "once", FileKind::Regular, 0o444).inode;
    bench
        .files
        .write(made, crate::WritePosition::At(0), b"written")
        .unwrap();
    assert_eq!(std::fs::read(bench.path("once")).unwrap(), b"written");
    let mode = std::fs::metadata(bench.path("once"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o444);
}

#[test]
fn a_listed_inode_can_be_used_before_its_name_is_looked_up() {
    let bench = Workbench::new();
    std::fs::write(bench.path("file"), b"contents").unwrap();
    let listed = bench.files.read_directory(Inode::ROOT, None, 9).unwrap();
    assert_eq!(bench.files.read(listed[0].inode, 0, 9).unwrap(), b"contents");
}

//! What the kernel remembers, and when it forgets it.

use crate::memory::MemoryFiles;
use crate::support::{MountedDirectory, errno, need_mounts};
use alluvium_files::{AttributeChange, FileKind, FileSystem, Inode, NewNode, RenameMode, WritePosition};
use alluvium_mount::{MountOptions, ViewOptions, run_in_view};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const FILE: NewNode<'static> = NewNode {
    kind: FileKind::Regular,
    mode: 0o644,
    user: 0,
    group: 0,
    device: 0,
    target: b"",
};

/// A mount that remembers everything for an hour, and another view of its files.
fn patient() -> (MountedDirectory, MemoryFiles) {
    let hour = Duration::from_secs(3600);
    let options = MountOptions {
        entry_timeout: hour,
        absence_timeout: hour,
        attribute_timeout: hour,
        ..MountOptions::default()
    };
    let files = MemoryFiles::new();
    let other = files.another();
    (MountedDirectory::with(files, &options), other)
}

#[test]
fn the_kernel_reads_far_ahead_in_mounts_and_views() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    let device = fs::metadata(mounted.path("")).unwrap().dev();
    let (major, minor) = (libc::major(device), libc::minor(device));
    let setting = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    if fs::OpenOptions::new().write(true).open(&setting).is_err() {
        alluvium_device::skipped!("/dev/fuse", "{setting} cannot be written");
        return;
    }
    assert_eq!(fs::read_to_string(&setting).unwrap(), "1024\n");
    // The command of a view may be faster than the setting.
    let mut command = Command::new("sh");
    let script = "for i in $(seq 1000); do \
        test $(cat /sys/class/bdi/$(stat -c %Hd:%Ld .)/read_ahead_kb) = 1024 && exit 7; sleep 0.01; done";
    command.args(["-c", script]);
    let (files, directory) = (Arc::new(MemoryFiles::new()), tempfile::tempdir().unwrap());
    let outcome = run_in_view(files, directory.path(), command, &ViewOptions::default());
    assert_eq!(outcome.unwrap().status.code(), Some(7));
}

#[test]
fn names_that_others_change_are_looked_up_again() {
    need_mounts!();
    let (mounted, other) = patient();
    let path = mounted.path("a");
    assert!(!path.exists());
    let node = other.create(Inode::ROOT, b"a", &FILE).unwrap();
    mounted.mount().settle();
    assert_eq!(fs::metadata(&path).unwrap().ino(), node.inode.0);
    other
        .rename(Inode::ROOT, b"a", Inode::ROOT, b"b", RenameMode::Replace)
        .unwrap();
    mounted.mount().settle();
    assert!(!path.exists() && mounted.path("b").exists());
    other.unlink(Inode::ROOT, b"b").unwrap();
    mounted.mount().settle();
    assert!(!mounted.path("b").exists());
    assert_eq!(fs::read_dir(mounted.directory.path()).unwrap().count(), 0);
}

#[test]
fn attributes_and_pages_that_others_change_are_read_again() {
    need_mounts!();
    let (mounted, other) = patient();
    let path = mounted.path("a");
    fs::write(&path, [1; 10_000]).unwrap();
    let file = fs::File::open(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), [1; 10_000]);
    let inode = Inode(file.metadata().unwrap().ino());
    other.write(inode, WritePosition::At(5000), &[2]).unwrap();
    mounted.mount().settle();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 5000).unwrap();
    assert_eq!(byte, [2]);
    let change = AttributeChange {
        mode: Some(0o600),
        size: Some(7),
        ..AttributeChange::default()
    };
    other.set_attributes(inode, &change).unwrap();
    mounted.mount().settle();
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!(
        (metadata.permissions().mode() & 0o777, metadata.len()),
        (0o600, 7)
    );
}

#[test]
fn an_append_without_a_notice_so_far_shows_no_zeros() {
    need_mounts!();
    let options = MountOptions {
        attribute_timeout: Duration::ZERO,
        ..MountOptions::default()
    };
    let files = MemoryFiles::new();
    let silent = files.same_view();
    let mounted = MountedDirectory::with(files, &options);
    let path = mounted.path("a");
    fs::write(&path, [1; 100]).unwrap();
    let file = fs::File::open(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), [1; 100]);
    let inode = Inode(file.metadata().unwrap().ino());
    silent.write(inode, WritePosition::At(100), &[2; 50]).unwrap();
    // The page of the first read has zeros behind the old end of the file.
    assert_eq!(fs::read(&path).unwrap(), [&[1; 100][..], &[2; 50]].concat());
}

#[test]
fn the_kernel_answers_what_it_remembers_by_itself() {
    need_mounts!();
    let (mounted, other) = patient();
    fs::write(mounted.path("a"), b"contents").unwrap();
    assert_eq!(fs::read(mounted.path("a")).unwrap(), b"contents");
    // A read that reached the file system would panic.
    other.panic_once();
    assert_eq!(fs::read(mounted.path("a")).unwrap(), b"contents");
}

#[test]
fn a_default_list_that_others_set_is_inherited() {
    need_mounts!();
    let (mounted, other) = patient();
    fs::write(mounted.path("before"), b"").unwrap();
    // Version 2; owner rwx, group r-x, others ---.
    let mut list = vec![2, 0, 0, 0];
    for (tag, bits) in [(1, 7), (4, 5), (32, 0)] {
        list.extend_from_slice(&[tag, 0, bits, 0, 255, 255, 255, 255]);
    }
    let name = b"system.posix_acl_default";
    other
        .set_extended_attribute(Inode::ROOT, name, &list, alluvium_files::SetMode::Any)
        .unwrap();
    mounted.mount().settle();
    fs::write(mounted.path("after"), b"").unwrap();
    let mode = |name: &str| fs::metadata(mounted.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("after"), 0o640);
}

#[test]
fn notices_and_requests_do_not_wait_for_each_other() {
    need_mounts!();
    let (mounted, other) = patient();
    let (mounted, stop) = (Arc::new(mounted), Arc::new(AtomicBool::new(false)));
    let users: Vec<_> = (0..3)
        .map(|user| {
            let (mounted, stop) = (mounted.clone(), stop.clone());
            std::thread::spawn(move || {
                let mut rounds = 0;
                while rounds == 0 || !stop.load(Ordering::Relaxed) {
                    let own = mounted.path(&format!("own-{user}"));
                    fs::write(&own, b"x").unwrap();
                    // The other view creates and removes it.
                    let _ = fs::read(mounted.path("shared"));
                    let _ = fs::read_dir(mounted.directory.path()).unwrap().count();
                    fs::remove_file(&own).unwrap();
                    rounds += 1;
                }
                rounds
            })
        })
        .collect();
    for _ in 0..500 {
        let node = other.create(Inode::ROOT, b"shared", &FILE).unwrap();
        other.write(node.inode, WritePosition::At(0), b"text").unwrap();
        other.unlink(Inode::ROOT, b"shared").unwrap();
    }
    mounted.mount().settle();
    stop.store(true, Ordering::Relaxed);
    for user in users {
        assert!(user.join().unwrap() > 0);
    }
    assert_eq!(errno(fs::read(mounted.path("shared"))), libc::ENOENT);
}

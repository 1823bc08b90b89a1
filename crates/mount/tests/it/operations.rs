//! Names through the kernel.

use crate::support::{MountedDirectory, c_path, checked, errno, need_mounts};
use crate::views::wait_until;
use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

fn names(directory: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name()).collect()
}

#[test]
fn a_file_is_written_and_read() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    fs::create_dir(mounted.path("a")).unwrap();
    fs::write(mounted.path("a/b"), b"hello").unwrap();
    assert_eq!(fs::read(mounted.path("a/b")).unwrap(), b"hello");
    assert_eq!(names(&mounted.path("a")), ["b"]);
    fs::remove_file(mounted.path("a/b")).unwrap();
    fs::remove_dir(mounted.path("a")).unwrap();
    wait_until("forgetting", || mounted.files.inodes() == 1);
}

#[test]
fn links_refer_to_one_inode_and_symbolic_links_to_paths() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    fs::write(mounted.path("a"), b"1").unwrap();
    fs::hard_link(mounted.path("a"), mounted.path("b")).unwrap();
    let (a, b) = (
        fs::metadata(mounted.path("a")).unwrap(),
        fs::metadata(mounted.path("b")).unwrap(),
    );
    assert_eq!((a.ino(), a.nlink()), (b.ino(), 2));
    std::os::unix::fs::symlink("b", mounted.path("c")).unwrap();
    assert_eq!(fs::read_link(mounted.path("c")).unwrap(), Path::new("b"));
    assert_eq!(fs::read(mounted.path("c")).unwrap(), b"1");
    fs::remove_file(mounted.path("b")).unwrap();
    assert_eq!(errno(fs::read(mounted.path("c"))), libc::ENOENT);
    assert_eq!(fs::metadata(mounted.path("a")).unwrap().nlink(), 1);
    let into_itself = fs::hard_link(mounted.directory.path(), mounted.path("d"));
    assert_eq!(errno(into_itself), libc::EPERM);
}

#[test]
fn a_file_that_was_looked_up_is_opened_after_another_has_replaced_it() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    fs::write(mounted.path("a"), b"old").unwrap();
    fs::write(mounted.path("b"), b"new").unwrap();
    // Such a descriptor refers to what was looked up, without opening it.
    let found = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(mounted.path("a"))
        .unwrap();
    fs::rename(mounted.path("b"), mounted.path("a")).unwrap();
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    assert_eq!(fs::read(path).unwrap(), b"old");
    assert_eq!(fs::read(mounted.path("a")).unwrap(), b"new");
    drop(found);
    wait_until("forgetting", || mounted.files.inodes() == 2);
}

fn rename(mounted: &MountedDirectory, from: &str, to: &str, flags: u32) -> std::io::Result<i32> {
    let (from, to) = (c_path(&mounted.path(from)), c_path(&mounted.path(to)));
    let (here, there) = (libc::AT_FDCWD, libc::AT_FDCWD);
    // SAFETY: both paths end with a zero byte.
    checked(unsafe { libc::renameat2(here, from.as_ptr(), there, to.as_ptr(), flags) })
}

#[test]
fn a_rename_replaces_keeps_or_exchanges() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    for name in ["a", "b"] {
        fs::write(mounted.path(name), name).unwrap();
    }
    assert_eq!(
        errno(rename(&mounted, "a", "b", libc::RENAME_NOREPLACE)),
        libc::EEXIST
    );
    rename(&mounted, "a", "b", libc::RENAME_EXCHANGE).unwrap();
    assert_eq!(fs::read(mounted.path("a")).unwrap(), b"b");
    assert_eq!(
        errno(rename(&mounted, "a", "b", libc::RENAME_WHITEOUT)),
        libc::EINVAL
    );
    rename(&mounted, "a", "b", 0).unwrap();
    assert_eq!(fs::read(mounted.path("b")).unwrap(), b"b");
    assert_eq!(names(mounted.directory.path()), ["b"]);
    fs::create_dir_all(mounted.path("d/e")).unwrap();
    assert_eq!(errno(rename(&mounted, "d", "d/e/f", 0)), libc::EINVAL);
    assert_eq!(errno(rename(&mounted, "b", "d", 0)), libc::EISDIR);
    assert_eq!(errno(fs::remove_dir(mounted.path("d"))), libc::ENOTEMPTY);
}

#[test]
fn special_files_are_made_and_used() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    let make = |name: &str, mode, device| {
        let path = c_path(&mounted.path(name));
        // SAFETY: the path ends with a zero byte.
        checked(unsafe { libc::mknod(path.as_ptr(), mode, device) }).unwrap();
        fs::metadata(mounted.path(name)).unwrap()
    };
    let large = libc::makedev(259, 70_000);
    let block = make("block", libc::S_IFBLK | 0o600, large);
    assert!(block.file_type().is_block_device());
    assert_eq!(block.rdev(), large);
    assert!(
        make("null", libc::S_IFCHR | 0o666, libc::makedev(1, 3))
            .file_type()
            .is_char_device()
    );
    assert_eq!(fs::read(mounted.path("null")).unwrap(), b"");
    assert!(make("socket", libc::S_IFSOCK | 0o600, 0).file_type().is_socket());
    assert!(make("pipe", libc::S_IFIFO | 0o600, 0).file_type().is_fifo());
    let mut pipe = fs::File::options()
        .read(true)
        .write(true)
        .open(mounted.path("pipe"))
        .unwrap();
    fs::remove_file(mounted.path("pipe")).unwrap();
    assert_eq!(pipe.metadata().unwrap().nlink(), 0);
    std::io::Write::write_all(&mut pipe, b"x").unwrap();
    let mut byte = [0];
    pipe.read_exact(&mut byte).unwrap();
    assert_eq!(&byte, b"x");
}

#[test]
fn names_have_any_bytes_and_at_most_255_of_them() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    let all: Vec<u8> = (1..=255).filter(|&byte| byte != b'/').collect();
    let longest = OsString::from_vec(vec![b'x'; 255]);
    for name in [
        OsStr::from_bytes(&all),
        &longest,
        OsStr::new(" "),
        OsStr::new("..."),
    ] {
        let path = mounted.directory.path().join(name);
        fs::write(&path, b"").unwrap();
        assert!(path.exists());
    }
    assert_eq!(names(mounted.directory.path()).len(), 4);
    let longer = mounted.directory.path().join(OsString::from_vec(vec![b'x'; 256]));
    assert_eq!(errno(fs::write(longer, b"")), libc::ENAMETOOLONG);
}

#[test]
fn a_listing_has_each_name_once_while_others_come_and_go() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    let stable: BTreeSet<String> = (0..1000).map(|number| format!("{number:04}")).collect();
    for name in &stable {
        fs::write(mounted.path(name), b"").unwrap();
        fs::write(mounted.path(&format!("{name}-goes")), b"").unwrap();
    }
    let mut listed = Vec::new();
    for (number, entry) in fs::read_dir(mounted.directory.path()).unwrap().enumerate() {
        listed.push(entry.unwrap().file_name().into_string().unwrap());
        let path = mounted.path(&format!("{number:04}-goes"));
        if path.exists() {
            fs::remove_file(path).unwrap();
        }
        fs::write(mounted.path(&format!("{:04}-comes", number * 7 % 1000)), b"").unwrap();
    }
    let unique: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(unique.len(), listed.len(), "no name comes twice");
    assert!(stable.is_subset(&unique));
}

#[test]
fn a_position_in_a_directory_is_returned_to() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    for number in 0..500 {
        fs::write(mounted.path(&format!("{number:03}")), b"").unwrap();
    }
    let path = c_path(mounted.directory.path());
    // SAFETY: the path ends with a zero byte; the directory is open until the end, and each entry
    // is read before the next call.
    unsafe {
        let directory = libc::opendir(path.as_ptr());
        let next = || {
            let entry = libc::readdir(directory);
            (!entry.is_null()).then(|| CStr::from_ptr((*entry).d_name.as_ptr()).to_owned())
        };
        let mut positions = Vec::new();
        loop {
            let position = libc::telldir(directory);
            let Some(name) = next() else { break };
            positions.push((position, name));
        }
        assert_eq!(positions.len(), 502);
        for number in [3, 100, 250, 499] {
            fs::remove_file(mounted.path(&format!("{number:03}"))).unwrap();
        }
        for index in [500, 7, 0, 333, 1, 2] {
            let (position, name) = &positions[index];
            libc::seekdir(directory, *position);
            assert_eq!(next().as_ref(), Some(name), "position {index}");
        }
        libc::rewinddir(directory);
        assert_eq!(std::iter::from_fn(next).count(), 498);
        libc::closedir(directory);
    }
}

#[test]
fn a_removed_directory_stays_until_the_last_process_leaves_it() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    fs::create_dir(mounted.path("a")).unwrap();
    let open = fs::File::open(mounted.path("a")).unwrap();
    fs::remove_dir(mounted.path("a")).unwrap();
    assert_eq!(open.metadata().unwrap().nlink(), 0);
    let inside = format!("/proc/self/fd/{}/b", open.as_raw_fd());
    assert_eq!(errno(fs::write(inside, b"")), libc::ENOENT);
    drop(open);
    wait_until("forgetting", || mounted.files.inodes() == 1);
}

#[test]
fn modes_follow_the_umask_and_set_group_directories() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    let script = "umask 027; mkdir d; touch f; chgrp 7 d; chmod 2775 d; mkdir d/e; touch d/g";
    let status = std::process::Command::new("sh")
        .args(["-c", script])
        .current_dir(mounted.directory.path())
        .status();
    assert!(status.unwrap().success());
    let mode = |name: &str| {
        let metadata = fs::metadata(mounted.path(name)).unwrap();
        (metadata.permissions().mode() & 0o7777, metadata.gid())
    };
    assert_eq!(mode("f"), (0o640, 0));
    assert_eq!(mode("d/e"), (0o2750, 7));
    assert_eq!(mode("d/g"), (0o640, 7));
}

#[test]
fn space_is_reported() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    let space = rustix::fs::statvfs(mounted.directory.path()).unwrap();
    assert_eq!(
        (space.f_frsize, space.f_blocks, space.f_bfree),
        (4096, 1 << 20, 1 << 19)
    );
    assert_eq!((space.f_namemax, space.f_ffree), (255, 1 << 30));
}

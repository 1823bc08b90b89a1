//! Permissions, access control lists, extended attributes and times through the kernel.

use crate::support::{MountedDirectory, c_path, checked, errno, need_mounts};
use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

const ACCESS: &CStr = c"system.posix_acl_access";
const DEFAULT: &CStr = c"system.posix_acl_default";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn set(path: &Path, name: &CStr, value: &[u8], flags: i32) -> io::Result<i32> {
    let path = c_path(path);
    // SAFETY: both strings end with a zero byte, and the value has this length.
    checked(unsafe {
        libc::setxattr(
            path.as_ptr(),
            name.as_ptr(),
            value.as_ptr().cast(),
            value.len(),
            flags,
        )
    })
}

fn get(path: &Path, name: &CStr) -> io::Result<Vec<u8>> {
    let (path, mut value) = (c_path(path), vec![0; 65_536]);
    // SAFETY: both strings end with a zero byte, and the buffer has this length.
    let length = unsafe {
        libc::getxattr(
            path.as_ptr(),
            name.as_ptr(),
            value.as_mut_ptr().cast(),
            value.len(),
        )
    };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    value.truncate(length);
    Ok(value)
}

/// Runs a script as a user who is not root. Returns whether it succeeded.
fn as_user(directory: &Path, script: &str) -> bool {
    let status = Command::new("setpriv")
        .args([
            "--reuid=1234",
            "--regid=1234",
            "--clear-groups",
            "sh",
            "-c",
            script,
        ])
        .current_dir(directory)
        .stderr(std::process::Stdio::null())
        .status();
    status.unwrap().success()
}

/// An access control list: tag, permissions, user or group.
fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&permissions.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}

const NOBODY: u32 = u32::MAX;

#[test]
fn other_users_do_what_permissions_say() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    let directory = mounted.directory.path();
    set_mode(directory, 0o755);
    fs::write(mounted.path("secret"), b"x").unwrap();
    set_mode(&mounted.path("secret"), 0o600);
    fs::write(mounted.path("public"), b"x").unwrap();
    assert!(as_user(directory, "cat public > /dev/null"));
    assert!(!as_user(directory, "cat secret"));
    assert!(!as_user(directory, "echo > public"));
    assert!(!as_user(directory, "touch new"));
    set_mode(directory, 0o1777);
    assert!(as_user(
        directory,
        "touch new && test \"$(stat -c %u new)\" = 1234"
    ));
    assert!(!as_user(directory, "rm -f public"), "the directory is sticky");
}

#[test]
fn writing_takes_the_set_user_bit_away() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    let directory = mounted.directory.path();
    set_mode(directory, 0o777);
    let path = mounted.path("a");
    for script in [
        "echo x > a",
        "echo x >> a",
        "truncate -s 1 a",
        "fallocate -l 10 a",
        "dd if=/dev/zero of=a count=1 conv=notrunc",
    ] {
        fs::write(&path, b"contents").unwrap();
        set_mode(&path, 0o6777);
        assert!(as_user(directory, script), "{script}");
        assert_eq!(mode(&path), 0o777, "{script}");
    }
    set_mode(&path, 0o6777);
    fs::write(&path, b"by root").unwrap();
    assert_eq!(mode(&path), 0o6777, "root may keep it");
    std::os::unix::fs::chown(&path, Some(7), None).unwrap();
    assert_eq!(mode(&path), 0o777, "a new owner gets none");
    set_mode(&path, 0o2767);
    fs::write(&path, b"").unwrap();
    assert!(as_user(directory, "echo x > a"));
    assert_eq!(mode(&path), 0o2767, "the group cannot execute");
}

#[test]
fn capabilities_of_a_file_go_with_its_contents() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    let path = mounted.path("a");
    fs::write(&path, b"x").unwrap();
    // Version 2, cap_net_raw.
    let capability = [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    set(&path, c"security.capability", &capability, 0).unwrap();
    assert_eq!(get(&path, c"security.capability").unwrap(), capability);
    fs::write(&path, b"y").unwrap();
    assert_eq!(errno(get(&path, c"security.capability")), libc::ENODATA);
}

#[test]
fn extended_attributes_are_set_listed_and_removed() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    let path = mounted.path("a");
    fs::write(&path, b"").unwrap();
    set(&path, c"user.one", b"1", libc::XATTR_CREATE).unwrap();
    assert_eq!(
        errno(set(&path, c"user.one", b"2", libc::XATTR_CREATE)),
        libc::EEXIST
    );
    assert_eq!(
        errno(set(&path, c"user.two", b"2", libc::XATTR_REPLACE)),
        libc::ENODATA
    );
    let large = vec![7; 60_000];
    set(&path, c"user.large", &large, 0).unwrap();
    assert_eq!(get(&path, c"user.large").unwrap(), large);
    set(&path, c"trusted.secret", b"", 0).unwrap();
    let names = |buffer: &mut [u8]| {
        let path = c_path(&path);
        // SAFETY: the path ends with a zero byte, and the buffer has this length.
        let length = unsafe { libc::listxattr(path.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) };
        usize::try_from(length).map_err(|_| io::Error::last_os_error())
    };
    let mut buffer = [0; 100];
    let length = names(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"trusted.secret\0user.large\0user.one\0");
    assert_eq!(names(&mut []).unwrap(), length);
    assert_eq!(errno(names(&mut [0; 3])), libc::ERANGE);
    let (path, name) = (c_path(&path), c"user.one");
    // SAFETY: both strings end with a zero byte.
    let remove = || checked(unsafe { libc::removexattr(path.as_ptr(), name.as_ptr()) });
    remove().unwrap();
    assert_eq!(errno(remove()), libc::ENODATA);
}

#[test]
fn an_access_control_list_lets_one_user_in() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    let directory = mounted.directory.path();
    set_mode(directory, 0o755);
    let path = mounted.path("a");
    fs::write(&path, b"x").unwrap();
    set_mode(&path, 0o600);
    assert!(!as_user(directory, "cat a > /dev/null"));
    let entries = [
        (1, 6, NOBODY),
        (2, 6, 1234),
        (4, 0, NOBODY),
        (16, 6, NOBODY),
        (32, 0, NOBODY),
    ];
    set(&path, ACCESS, &list(&entries), 0).unwrap();
    assert!(as_user(directory, "cat a > /dev/null && echo >> a"));
    assert_eq!(mode(&path), 0o660, "the group's bits show the mask");
    set_mode(&path, 0o640);
    assert!(as_user(directory, "cat a > /dev/null") && !as_user(directory, "echo >> a"));
    let mut masked = entries;
    masked[3].1 = 4;
    assert_eq!(get(&path, ACCESS).unwrap(), list(&masked));
    set(
        &path,
        ACCESS,
        &list(&[(1, 6, NOBODY), (4, 4, NOBODY), (32, 0, NOBODY)]),
        0,
    )
    .unwrap();
    assert_eq!(mode(&path), 0o640);
    assert_eq!(
        errno(get(&path, ACCESS)),
        libc::ENODATA,
        "the mode says all of it"
    );
    assert!(!as_user(directory, "cat a > /dev/null"));
    set(&path, ACCESS, b"nonsense", 0).unwrap_err();
}

#[test]
fn new_files_inherit_the_default_list_of_their_directory() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    let path = mounted.path("d");
    fs::create_dir(&path).unwrap();
    // Remembered: the directory has no list.
    fs::write(path.join("before"), b"").unwrap();
    let entries = [
        (1, 7, NOBODY),
        (2, 7, 1234),
        (4, 5, NOBODY),
        (16, 7, NOBODY),
        (32, 0, NOBODY),
    ];
    set(&path, DEFAULT, &list(&entries), 0).unwrap();
    fs::write(path.join("file"), b"").unwrap();
    assert_eq!(mode(&path.join("file")), 0o660, "the umask does not count");
    fs::create_dir(path.join("e")).unwrap();
    assert_eq!(mode(&path.join("e")), 0o770);
    assert_eq!(get(&path.join("e"), DEFAULT).unwrap(), list(&entries));
    assert!(as_user(&path, "echo x > file && touch e/f"));
    assert_eq!(mode(&path.join("before")), 0o644);
    let d = c_path(&path);
    // SAFETY: both strings end with a zero byte.
    checked(unsafe { libc::removexattr(d.as_ptr(), DEFAULT.as_ptr()) }).unwrap();
    fs::write(path.join("plain"), b"").unwrap();
    assert_eq!(mode(&path.join("plain")), 0o644);
}

#[test]
fn times_have_nanoseconds_also_before_1970() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    fs::write(mounted.path("a"), b"").unwrap();
    let path = c_path(&mounted.path("a"));
    let metadata = || fs::metadata(mounted.path("a")).unwrap();
    for (seconds, nanoseconds) in [
        (1_000_000_000, 123_456_789),
        (-1, 999_999_999),
        (-2, 200_000_000),
        (0, 0),
        (1 << 40, 1),
        (-5, 0),
        (i64::MIN + 1, 1),
        (i64::MAX - 1, 999_999_999),
    ] {
        let time = libc::timespec {
            tv_sec: seconds,
            tv_nsec: nanoseconds,
        };
        let omitted = libc::timespec {
            tv_sec: 0,
            tv_nsec: libc::UTIME_OMIT,
        };
        let before = (metadata().atime(), metadata().atime_nsec());
        let times = [omitted, time];
        // SAFETY: the path ends with a zero byte, and there are two times.
        checked(unsafe { libc::utimensat(libc::AT_FDCWD, path.as_ptr(), times.as_ptr(), 0) }).unwrap();
        let now = metadata();
        assert_eq!((now.mtime(), now.mtime_nsec()), (seconds, nanoseconds));
        assert_eq!((now.atime(), now.atime_nsec()), before);
    }
}

#[test]
fn the_time_of_creation_is_told() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    fs::write(mounted.path("a"), b"").unwrap();
    let before = fs::metadata(mounted.path("a")).unwrap();
    fs::write(mounted.path("a"), b"more").unwrap();
    let after = fs::metadata(mounted.path("a")).unwrap();
    assert_eq!(after.created().unwrap(), before.created().unwrap());
    assert!(after.created().unwrap() <= before.modified().unwrap());
}

//! Contents of files through the kernel.

use crate::memory::MemoryFiles;
use crate::support::{MountedDirectory, c_path, checked, errno, need_mounts};
use crate::views::wait_until;
use alluvium_mount::{MountOptions, WriteCaching};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::{Command, Stdio};
use std::sync::Arc;

fn read_write(mounted: &MountedDirectory, name: &str) -> File {
    let path = mounted.path(name);
    let open = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path);
    open.unwrap()
}

#[test]
fn several_writers_append_without_gaps() {
    need_mounts!();
    let mounted = Arc::new(MountedDirectory::new());
    let writers: Vec<_> = (0..4_u8)
        .map(|writer| {
            let path = mounted.path("log");
            std::thread::spawn(move || {
                let mut file = File::options().append(true).create(true).open(path).unwrap();
                for _ in 0..250 {
                    file.write_all(&[writer; 17]).unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    let log = fs::read(mounted.path("log")).unwrap();
    assert_eq!(log.len(), 4 * 250 * 17);
    assert!(
        log.chunks(17)
            .all(|record| record.iter().all(|byte| *byte == record[0]))
    );
}

#[test]
fn an_append_after_another_view_has_appended_lands_at_the_end() {
    need_mounts!();
    let files = MemoryFiles::new();
    let (one, two) = (
        MountedDirectory::with(files.another(), &MountOptions::default()),
        MountedDirectory::with(files.another(), &MountOptions::default()),
    );
    let open = |mounted: &MountedDirectory| {
        File::options()
            .append(true)
            .create(true)
            .open(mounted.path("log"))
            .unwrap()
    };
    let (mut first, mut second) = (open(&one), open(&two));
    for round in 0..50 {
        first.write_all(&[b'a'; 10]).unwrap();
        second.write_all(&[b'b'; 10]).unwrap();
        if round % 10 == 0 {
            one.mount().settle();
            two.mount().settle();
        }
    }
    // The kernel's size is old now: it puts these bytes into a page that it has read, where others
    // stand.
    one.mount().settle();
    two.mount().settle();
    let reader = File::open(one.path("log")).unwrap();
    second.write_all(&[b'b'; 10]).unwrap();
    one.mount().settle();
    reader.read_exact_at(&mut [0], 0).unwrap();
    first.write_all(&[b'a'; 10]).unwrap();
    one.mount().settle();
    two.mount().settle();
    let (log, same) = (
        fs::read(one.path("log")).unwrap(),
        fs::read(two.path("log")).unwrap(),
    );
    assert_eq!(log.len(), 1020);
    assert_eq!(log, same);
    assert_eq!(log.iter().filter(|&&byte| byte == b'a').count(), 510);
}

#[test]
fn truncation_cuts_and_extends_with_zeros() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    fs::write(mounted.path("a"), [1; 10_000]).unwrap();
    let file = read_write(&mounted, "a");
    file.set_len(5000).unwrap();
    file.set_len(6000).unwrap();
    let contents = fs::read(mounted.path("a")).unwrap();
    assert!(contents[..5000].iter().all(|&byte| byte == 1));
    assert!(contents[5000..].iter().all(|&byte| byte == 0));
    assert_eq!(contents.len(), 6000);
    File::create(mounted.path("a")).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 0);
}

#[test]
fn an_unlinked_file_is_there_until_it_is_closed() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    let mut file = read_write(&mounted, "a");
    file.write_all(b"still").unwrap();
    fs::remove_file(mounted.path("a")).unwrap();
    fs::write(mounted.path("a"), b"another").unwrap();
    file.write_all(b" here").unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "still here");
    fs::rename(mounted.path("a"), mounted.path("b")).unwrap();
    drop(file);
    wait_until("removal", || {
        mounted.files.inodes() == 2 && mounted.files.holds() == 0
    });
}

#[test]
fn a_file_without_a_name_gets_one_or_goes() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    let unnamed = || {
        let mut options = File::options();
        options
            .read(true)
            .write(true)
            .mode(0o600)
            .custom_flags(libc::O_TMPFILE);
        options.open(mounted.directory.path()).unwrap()
    };
    let mut file = unnamed();
    file.write_all(b"contents").unwrap();
    let metadata = file.metadata().unwrap();
    let nlink = std::os::unix::fs::MetadataExt::nlink(&metadata);
    assert_eq!((metadata.len(), nlink), (8, 0));
    assert_eq!(fs::read_dir(mounted.directory.path()).unwrap().count(), 0);
    let (from, to) = (
        c_path(format!("/proc/self/fd/{}", file.as_raw_fd()).as_ref()),
        c_path(&mounted.path("a")),
    );
    // SAFETY: both paths end with a zero byte.
    let linked = unsafe {
        libc::linkat(
            libc::AT_FDCWD,
            from.as_ptr(),
            libc::AT_FDCWD,
            to.as_ptr(),
            libc::AT_SYMLINK_FOLLOW,
        )
    };
    checked(linked).unwrap();
    drop(file);
    assert_eq!(fs::read(mounted.path("a")).unwrap(), b"contents");
    drop(unnamed());
    wait_until("removal", || {
        mounted.files.inodes() == 2 && mounted.files.holds() == 0
    });
}

#[test]
fn direct_writes_and_cached_reads_see_each_other() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    fs::write(mounted.path("a"), [1; 8192]).unwrap();
    assert_eq!(fs::read(mounted.path("a")).unwrap(), [1; 8192]);
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_DIRECT);
    let direct = options.open(mounted.path("a")).unwrap();
    let buffer = vec![2_u8; 3 * 4096];
    let start = buffer.as_ptr().align_offset(4096);
    direct.write_all_at(&buffer[start..start + 4096], 4096).unwrap();
    let contents = fs::read(mounted.path("a")).unwrap();
    assert_eq!((contents[4095], contents[4096]), (1, 2));
}

/// A mapping of a whole file.
struct FileMapping {
    address: *mut u8,
    length: usize,
}

impl FileMapping {
    fn new(file: &File, length: usize, flags: libc::c_int) -> FileMapping {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses an address that is free.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                flags,
                file.as_raw_fd(),
                0,
            )
        };
        assert_ne!(address, libc::MAP_FAILED);
        FileMapping {
            address: address.cast(),
            length,
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has this length and lives as long as this value.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.length) }
    }

    fn sync(&self) {
        // SAFETY: the mapping has this length.
        let result = unsafe { libc::msync(self.address.cast(), self.length, libc::MS_SYNC) };
        assert_eq!(result, 0);
    }
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping has this length, and nothing uses it any more.
        unsafe { libc::munmap(self.address.cast(), self.length) };
    }
}

#[test]
fn shared_mappings_write_to_the_file_and_private_ones_do_not() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    fs::write(mounted.path("a"), [1; 10_000]).unwrap();
    let file = read_write(&mounted, "a");
    let mut private = FileMapping::new(&file, 10_000, libc::MAP_PRIVATE);
    private.bytes()[9_000] = 3;
    let mut shared = FileMapping::new(&file, 10_000, libc::MAP_SHARED);
    shared.bytes()[9_999] = 2;
    assert_eq!(fs::read(mounted.path("a")).unwrap()[9_999], 2);
    shared.sync();
    let inode = std::os::unix::fs::MetadataExt::ino(&file.metadata().unwrap());
    let stored = |offset| {
        let inode = alluvium_files::Inode(inode);
        alluvium_files::FileSystem::read(&*mounted.files, inode, offset, 1).unwrap()
    };
    assert_eq!((stored(9_999), stored(9_000)), (vec![2], vec![1]));
    file.write_all_at(&[4], 5).unwrap();
    assert_eq!(shared.bytes()[5], 4);
    shared.bytes()[6] = 5;
    drop(shared);
    assert_eq!(stored(6), [5], "the end of a mapping writes it");
}

fn allocate(file: &File, mode: libc::c_int, offset: i64, length: i64) -> std::io::Result<i32> {
    // SAFETY: the call takes no pointers.
    checked(unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, length) })
}

fn seek(file: &File, offset: i64, whence: libc::c_int) -> Result<i64, i32> {
    // SAFETY: the call takes no pointers.
    let found = unsafe { libc::lseek(file.as_raw_fd(), offset, whence) };
    let error = || std::io::Error::last_os_error().raw_os_error().unwrap();
    if found < 0 { Err(error()) } else { Ok(found) }
}

#[test]
fn ranges_are_allocated_punched_and_zeroed() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    let file = read_write(&mounted, "a");
    file.write_all_at(&[1; 16_384], 0).unwrap();
    let keep = libc::FALLOC_FL_KEEP_SIZE;
    allocate(&file, 0, 0, 20_000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 20_000);
    allocate(&file, keep, 0, 50_000).unwrap();
    allocate(&file, libc::FALLOC_FL_PUNCH_HOLE | keep, 4096, 4096).unwrap();
    allocate(&file, libc::FALLOC_FL_ZERO_RANGE | keep, 10_000, 90_000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 20_000);
    let contents = fs::read(mounted.path("a")).unwrap();
    let ones = contents.iter().filter(|&&byte| byte == 1).count();
    assert_eq!(
        (contents[4095], contents[4096], contents[8192], ones),
        (1, 0, 1, 4096 + 1808)
    );
    allocate(&file, libc::FALLOC_FL_ZERO_RANGE, 0, 30_000).unwrap();
    assert_eq!(fs::read(mounted.path("a")).unwrap(), [0; 30_000]);
    for refused in [libc::FALLOC_FL_COLLAPSE_RANGE, libc::FALLOC_FL_INSERT_RANGE] {
        assert_eq!(errno(allocate(&file, refused, 0, 4096)), libc::EOPNOTSUPP);
    }
    assert_eq!(errno(allocate(&file, 0, 0, 0)), libc::EINVAL);
}

#[test]
fn holes_are_found() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    let file = read_write(&mounted, "a");
    file.write_all_at(&[1; 4096], 8192).unwrap();
    file.set_len(100_000).unwrap();
    assert_eq!(seek(&file, 0, libc::SEEK_DATA), Ok(8192));
    assert_eq!(seek(&file, 8192, libc::SEEK_HOLE), Ok(12_288));
    assert_eq!(seek(&file, 20_000, libc::SEEK_HOLE), Ok(20_000));
    assert_eq!(seek(&file, 20_000, libc::SEEK_DATA), Err(libc::ENXIO));
    assert_eq!(seek(&file, 100_000, libc::SEEK_HOLE), Err(libc::ENXIO));
}

#[test]
fn ranges_are_copied_between_files() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    let data: Vec<u8> = (0..200_000_u32).map(|number| (number % 251) as u8).collect();
    fs::write(mounted.path("a"), &data).unwrap();
    let (from, to) = (read_write(&mounted, "a"), read_write(&mounted, "b"));
    to.write_all_at(&[9; 1000], 0).unwrap();
    let (mut from_offset, mut to_offset) = (1000_i64, 500_i64);
    // SAFETY: both offsets live during the call.
    let copied = unsafe {
        libc::copy_file_range(
            from.as_raw_fd(),
            &raw mut from_offset,
            to.as_raw_fd(),
            &raw mut to_offset,
            500_000,
            0,
        )
    };
    assert_eq!(copied, 199_000);
    let contents = fs::read(mounted.path("b")).unwrap();
    assert_eq!(contents.len(), 199_500);
    assert_eq!(
        (&contents[..500], &contents[500..]),
        (&[9; 500][..], &data[1000..])
    );
}

#[test]
fn locks_hold_between_processes() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    let file = read_write(&mounted, "a");
    file.lock().unwrap();
    let flock = |arguments: &[&str]| {
        let mut command = Command::new("flock");
        command.args(arguments).arg(mounted.path("a")).arg("true");
        command.stderr(Stdio::null()).status().unwrap().success()
    };
    assert!(!flock(&["-n"]));
    file.unlock().unwrap();
    assert!(flock(&["-n"]));
    let mut whole = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // SAFETY: the structure lives during the call.
    let locked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const whole) };
    assert_eq!(locked, 0);
    let other = read_write(&mounted, "a");
    // SAFETY: as above.
    let asked = unsafe { libc::fcntl(other.as_raw_fd(), libc::F_OFD_GETLK, &raw mut whole) };
    assert_eq!(asked, 0);
    assert_eq!(i32::from(whole.l_type), libc::F_WRLCK);
}

#[test]
fn a_sync_reaches_the_file_system() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    let file = read_write(&mounted, "a");
    file.sync_all().unwrap();
    file.sync_data().unwrap();
    File::open(mounted.directory.path()).unwrap().sync_all().unwrap();
    assert_eq!(mounted.files.syncs(), 3);
}

#[test]
fn a_panic_is_an_error_of_one_request() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    fs::write(mounted.path("a"), b"contents").unwrap();
    let mut options = File::options();
    let file = options
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(mounted.path("a"))
        .unwrap();
    mounted.files.panic_once();
    let mut buffer = vec![0; 8192];
    let start = buffer.as_ptr().align_offset(4096);
    assert_eq!(
        errno(file.read_at(&mut buffer[start..start + 4096], 0)),
        libc::EIO
    );
    assert_eq!(file.read_at(&mut buffer[start..start + 4096], 0).unwrap(), 8);
}

#[test]
fn writes_that_the_kernel_keeps_back_arrive_at_a_sync() {
    need_mounts!();
    let options = MountOptions {
        writes: WriteCaching::Back,
        ..MountOptions::default()
    };
    let mounted = MountedDirectory::with(MemoryFiles::new(), &options);
    let mut file = File::options()
        .append(true)
        .create(true)
        .open(mounted.path("a"))
        .unwrap();
    for _ in 0..1000 {
        file.write_all(b"0123456789").unwrap();
    }
    file.sync_all().unwrap();
    let stored =
        alluvium_files::FileSystem::lookup(&*mounted.files, alluvium_files::Inode::ROOT, b"a").unwrap();
    assert_eq!(stored.size, 10_000);
    assert_eq!(fs::read(mounted.path("a")).unwrap(), b"0123456789".repeat(1000));
    let missing = c_path(&mounted.path("missing"));
    // SAFETY: the path ends with a zero byte.
    let truncated = checked(unsafe { libc::truncate(missing.as_ptr(), 0) });
    assert_eq!(errno(truncated), libc::ENOENT);
}

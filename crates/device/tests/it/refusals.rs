//! Failures of the environment: full disks, failing devices, missing permissions, and unusual file
//! systems. Tests that need a file system of their own mount one. If they may not, they are skipped
//! with a message.

use crate::places::{Mounted, open};
use alluvium_base::Purpose;
use alluvium_device::file::{FileDirectory, FileDirectoryOptions, IoEngine};
use alluvium_device::{AlignedBuffer, Device, Directory, Error, FileOptions, IoBatch};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

const OTHER: Purpose = Purpose::Other;
const ENGINES: [IoEngine; 2] = [IoEngine::Auto, IoEngine::Threads];
const KINDS: [FileOptions; 2] = [FileOptions::DIRECT, FileOptions::BUFFERED];

pub(crate) fn temporary() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary directory")
}

#[test]
fn what_is_made_is_its_owners_and_what_is_there_keeps_its_mode() {
    let place = temporary();
    let (above, store) = (place.path().join("above"), place.path().join("above/store"));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let directory = FileDirectory::create(&store).unwrap();
    directory.create("file", FileOptions::BUFFERED).unwrap();
    drop(directory.lock("lock").unwrap());
    drop(directory.lock_shared("shared").unwrap());
    for made in [&above, &store] {
        assert_eq!(mode(made), 0o700, "{}", made.display());
    }
    for made in ["file", "lock", "shared"] {
        assert_eq!(mode(&store.join(made)), 0o600, "{made}");
    }
    for (path, known) in [(store.clone(), 0o755), (store.join("file"), 0o644)] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(known)).unwrap();
        let directory = FileDirectory::create(&store).unwrap();
        directory.open("file", FileOptions::BUFFERED).unwrap();
        assert_eq!(mode(&path), known, "{}", path.display());
    }
}

#[test]
fn a_full_disk_is_an_error_that_changes_nothing() {
    let Some(mounted) = Mounted::nodev("tmpfs", "size=1m") else {
        return;
    };
    let directory = open(mounted.path(), IoEngine::Auto);
    grow_until_full(&directory);
}

#[test]
fn a_full_disk_is_an_error_that_changes_nothing_on_ext4() {
    let images = temporary();
    let Some(mounted) = Mounted::ext4(&images.path().join("image"), 16, 512) else {
        return;
    };
    let directory = open(mounted.path(), IoEngine::Auto);
    grow_until_full(&directory);
    // Write directly to a hole for which there is no space.
    let holes = directory.create("holes", FileOptions::DIRECT).unwrap();
    holes.grow(1 << 20).unwrap();
    holes.punch_hole(0..1 << 20).unwrap();
    fill(mounted.path());
    match holes.write_at(0, AlignedBuffer::zeroed(1 << 20), OTHER) {
        Err(error) => assert!(error.is_disk_full(), "{error}"),
        Ok(_) => panic!("a write without space succeeded"),
    }
    assert!(holes.allocate(0..1 << 20).unwrap_err().is_disk_full());
    assert_eq!(holes.len(), 1 << 20);
    std::fs::remove_file(mounted.path().join("filler")).unwrap();
    holes.allocate(0..1 << 20).unwrap();
    holes.write_at(0, AlignedBuffer::zeroed(1 << 20), OTHER).unwrap();
    holes.sync(OTHER).unwrap();
}

fn grow_until_full(directory: &Arc<FileDirectory>) {
    for options in KINDS {
        let file = directory.create("f", options).unwrap();
        file.grow(256 << 10).unwrap();
        file.write_at(0, AlignedBuffer::padded(b"kept"), OTHER).unwrap();
        let before = directory.space().unwrap();
        let error = file.grow(64 << 20).unwrap_err();
        assert!(error.is_disk_full(), "{error}");
        assert!(error.to_string().contains("the disk is full"), "{error}");
        assert_eq!(file.len(), 256 << 10);
        let after = directory.space().unwrap();
        assert_eq!(
            before.free, after.free,
            "what was allocated for it was given back"
        );
        assert_eq!(
            std::fs::metadata(directory.path().join("f")).unwrap().len(),
            256 << 10
        );
        // The file is not poisoned, and later operations succeed as far as there is space.
        assert_eq!(&file.read_at(0, 512, OTHER).unwrap()[..4], b"kept");
        file.sync(OTHER).unwrap();
        file.grow(512 << 10).unwrap();
        assert!(
            file.read_at(256 << 10, 256 << 10, OTHER)
                .unwrap()
                .iter()
                .all(|&byte| byte == 0)
        );
        directory.remove("f").unwrap();
    }
}

/// Fills all the space left at a path.
fn fill(path: &Path) {
    use std::io::Write;
    let mut filler = std::fs::File::create(path.join("filler")).unwrap();
    for size in [1 << 20, 4096, 512] {
        while filler.write_all(&vec![0xff; size]).is_ok() {}
    }
    let _ = filler.sync_all();
}

/// A file on ext4, on a loop device, on a sparse image, and a file that takes up the space that the
/// image needs. From then on, every write to the loop device that needs a new block of the image
/// fails, like writes to a broken disk.
struct BrokenDisk {
    directory: Arc<FileDirectory>,
    file: Arc<dyn Device>,
    _mounted: Mounted,
    below: Mounted,
}

impl BrokenDisk {
    fn new(engine: IoEngine) -> Option<BrokenDisk> {
        let below = Mounted::nodev("tmpfs", "size=24m")?;
        let mounted = Mounted::ext4(&below.path().join("image"), 64, 512)?;
        let directory = open(mounted.path(), engine);
        let file = directory.create("log", FileOptions::BUFFERED).unwrap();
        file.grow(8 << 20).unwrap();
        file.write_at(0, AlignedBuffer::padded(b"durable"), OTHER)
            .unwrap();
        file.sync(OTHER).unwrap();
        directory.sync().unwrap();
        Some(BrokenDisk {
            directory,
            file,
            _mounted: mounted,
            below,
        })
    }

    fn breaks(&self) {
        fill(self.below.path());
    }
}

#[allow(clippy::needless_pass_by_value)]
pub(crate) fn assert_poisoned(result: Result<(), Error>) {
    assert!(matches!(result, Err(Error::Poisoned { .. })), "{result:?}");
}

#[test]
fn a_failed_sync_poisons_the_file_for_every_handle() {
    for engine in ENGINES {
        let Some(disk) = BrokenDisk::new(engine) else {
            return;
        };
        let other_handle = disk.directory.open("log", FileOptions::BUFFERED).unwrap();
        let mapping = disk.file.map(0..4096).unwrap();
        disk.breaks();
        for at in 0..64 {
            let buffer = AlignedBuffer::zeroed(64 << 10);
            disk.file
                .write_at((1 << 20) + at * (64 << 10), buffer, OTHER)
                .unwrap();
        }
        let failed = disk.file.sync(OTHER).unwrap_err();
        assert!(matches!(failed, Error::Io { .. }), "{failed}");
        for file in [&disk.file, &other_handle] {
            assert_poisoned(file.sync(OTHER));
            assert_poisoned(file.write_at(0, AlignedBuffer::zeroed(512), OTHER).map(|_| ()));
            assert_poisoned(file.grow(16 << 20));
            assert_poisoned(file.allocate(0..4096));
            assert_poisoned(file.map(0..4096).map(|_| ()));
            assert_eq!(&file.read_at(0, 512, OTHER).unwrap()[..7], b"durable");
            let mut batch = IoBatch::new();
            batch.write(0, AlignedBuffer::zeroed(512), OTHER);
            batch.read(0, AlignedBuffer::zeroed(512), OTHER);
            batch.sync(OTHER);
            let ticket = file.submit(batch);
            file.wait(&ticket);
            let mut outcomes = ticket.take().into_iter();
            assert_poisoned(outcomes.next().unwrap().result);
            outcomes.next().unwrap().into_buffer().unwrap();
            assert_poisoned(outcomes.next().unwrap().result);
        }
        assert_poisoned(mapping.sync(0..4096, OTHER));
    }
}

#[test]
fn a_failed_sync_in_a_batch_poisons_the_file() {
    for engine in ENGINES {
        let Some(disk) = BrokenDisk::new(engine) else {
            return;
        };
        disk.breaks();
        for at in 0..64 {
            let buffer = AlignedBuffer::zeroed(64 << 10);
            disk.file
                .write_at((1 << 20) + at * (64 << 10), buffer, OTHER)
                .unwrap();
        }
        let tickets: Vec<_> = (0..4)
            .map(|_| {
                let mut batch = IoBatch::new();
                batch.sync(OTHER);
                disk.file.submit(batch)
            })
            .collect();
        for ticket in tickets {
            disk.file.wait(&ticket);
            let outcome = ticket.take().remove(0);
            assert!(
                outcome.result.is_err(),
                "a sync was acknowledged beside one that failed"
            );
        }
        assert_poisoned(disk.file.sync(OTHER));
    }
}

#[test]
fn a_failed_sync_of_a_mapping_poisons_the_file() {
    let Some(disk) = BrokenDisk::new(IoEngine::Auto) else {
        return;
    };
    let mapping = disk.file.map(1 << 20..5 << 20).unwrap();
    mapping.populate(0..4 << 20).unwrap();
    disk.breaks();
    // SAFETY: only this test uses the file.
    unsafe { mapping.write(0, &vec![3; 4 << 20]) };
    let failed = mapping.sync(0..4 << 20, OTHER).unwrap_err();
    assert!(matches!(failed, Error::Io { .. }), "{failed}");
    assert_poisoned(mapping.sync(0..4096, OTHER));
    assert_poisoned(disk.file.sync(OTHER));
    assert_poisoned(
        disk.file
            .write_at(0, AlignedBuffer::zeroed(512), OTHER)
            .map(|_| ()),
    );
}

#[test]
fn a_file_system_that_refuses_direct_io_is_noted_and_used() {
    // ramfs supports neither direct I/O, nor allocation, nor punching holes.
    let Some(mounted) = Mounted::nodev("ramfs", "mode=700") else {
        return;
    };
    for engine in ENGINES {
        let directory = open(mounted.path(), engine);
        let file = directory.create("f", FileOptions::DIRECT).unwrap();
        let notes = directory.notes();
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(
            notes[0].contains("O_DIRECT") && notes[0].contains("page cache"),
            "{notes:?}"
        );
        file.grow(3 << 20).unwrap();
        assert_eq!(file.len(), 3 << 20);
        file.allocate(0..1 << 20).unwrap();
        let mut batch = IoBatch::new();
        for at in 0..64u64 {
            batch.write(at * 4096, AlignedBuffer::padded(&[at as u8 + 1; 4096]), OTHER);
        }
        file.run(batch).unwrap();
        let before = directory.counters().snapshot().total().punched_bytes;
        file.punch_hole(0..4096).unwrap();
        assert_eq!(
            directory.counters().snapshot().total().punched_bytes,
            before,
            "nothing happened"
        );
        assert_eq!(file.read_at(63 * 4096, 4096, OTHER).unwrap()[0], 64);
        file.sync(OTHER).unwrap();
        directory.open("f", FileOptions::DIRECT).unwrap();
        assert_eq!(directory.notes().len(), 1, "a note is made once");
        directory.remove("f").unwrap();
    }
}

#[test]
fn a_device_with_larger_blocks_takes_small_requests_through_the_page_cache() {
    let images = temporary();
    let Some(mounted) = Mounted::ext4(&images.path().join("image"), 16, 4096) else {
        return;
    };
    for engine in ENGINES {
        let directory = open(mounted.path(), engine);
        let file = directory.create("f", FileOptions::DIRECT).unwrap();
        file.grow(1 << 20).unwrap();
        let notes = directory.notes();
        assert!(notes.iter().any(|note| note.contains("4096 bytes")), "{notes:?}");
        let mut batch = IoBatch::new();
        for at in 0..32u64 {
            batch.write(at * 4096, AlignedBuffer::padded(&[at as u8 + 1; 4096]), OTHER);
        }
        file.run(batch).unwrap();
        file.write_at(512, AlignedBuffer::padded(&[99; 512]), OTHER)
            .unwrap();
        let page = file.read_at(0, 4096, OTHER).unwrap();
        assert_eq!((page[0], page[512], page[1024]), (1, 99, 1));
        let mut batch = IoBatch::new();
        batch.read(512, AlignedBuffer::zeroed(512), OTHER);
        batch.read(4096, AlignedBuffer::zeroed(4096), OTHER);
        batch.read(1024, AlignedBuffer::zeroed(8192), OTHER);
        let buffers = file.run(batch).unwrap();
        assert_eq!((buffers[0][0], buffers[1][0], buffers[2][8191]), (99, 2, 3));
        file.sync(OTHER).unwrap();
        directory.remove("f").unwrap();
    }
}

#[test]
fn a_file_truncated_under_an_open_handle_is_past_its_end() {
    for engine in ENGINES {
        for options in KINDS {
            let place = temporary();
            let directory = open(place.path(), engine);
            let file = directory.create("f", options).unwrap();
            file.grow(1 << 20).unwrap();
            file.write_at(0, AlignedBuffer::padded(&[5; 8192]), OTHER)
                .unwrap();
            for end in [4096, 4096 + 100, 4096 + 512] {
                let outside = std::fs::File::options()
                    .write(true)
                    .open(place.path().join("f"))
                    .unwrap();
                outside.set_len(end).unwrap();
                let mut batch = IoBatch::new();
                batch.read(0, AlignedBuffer::zeroed(4096), OTHER);
                batch.read(0, AlignedBuffer::zeroed(8192), OTHER);
                batch.read(512 << 10, AlignedBuffer::zeroed(4096), OTHER);
                let ticket = file.submit(batch);
                file.wait(&ticket);
                let outcomes = ticket.take();
                assert!(outcomes[0].result.is_ok(), "{outcomes:?}");
                for outcome in &outcomes[1..] {
                    match &outcome.result {
                        Err(Error::PastEnd { end: told, .. }) => assert_eq!(*told, end),
                        other => panic!("{other:?}"),
                    }
                }
                let blocking = file.read_at(4096, 8192, OTHER);
                assert!(matches!(blocking, Err(Error::PastEnd { .. })), "{blocking:?}");
            }
        }
    }
}

#[test]
fn a_directory_is_made_with_those_above_it_and_opened_again() {
    let place = temporary();
    let path = place.path().join("a/b/c");
    let missing = FileDirectory::open(&path).unwrap_err();
    assert!(
        matches!(missing, Error::NotFound { ref file } if file.ends_with("a/b/c")),
        "{missing}"
    );
    FileDirectory::create(&path)
        .unwrap()
        .create("f", FileOptions::BUFFERED)
        .unwrap();
    assert_eq!(FileDirectory::create(&path).unwrap().list().unwrap(), ["f"]);
    assert_eq!(FileDirectory::open(&path).unwrap().list().unwrap(), ["f"]);
    let file = FileDirectory::open(path.join("f")).unwrap_err();
    assert!(file.to_string().contains("ot a directory"), "{file}");
    assert!(FileDirectory::create(path.join("f/g")).is_err());
}

#[test]
fn only_regular_files_directly_inside_are_files() {
    let place = temporary();
    let directory = open(place.path(), IoEngine::Auto);
    std::fs::create_dir(place.path().join("folder")).unwrap();
    std::fs::write(place.path().join("outside"), b"").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", place.path().join("link")).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(place.path().join("pipe"))
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(directory.list().unwrap(), ["outside"]);
    for name in ["link", "pipe", "folder", "../x", "folder/x", ".", ""] {
        for options in [FileOptions::BUFFERED, FileOptions::DIRECT.read_only()] {
            assert!(directory.open(name, options).is_err(), "{name:?} was opened");
        }
        assert!(
            directory.create(name, FileOptions::BUFFERED).is_err(),
            "{name:?} was created"
        );
    }
    assert!(directory.rename("outside", "../outside").is_err());
    assert!(directory.remove("folder/../outside").is_err());
    assert!(directory.lock("../LOCK").is_err());
    assert_eq!(directory.list().unwrap(), ["outside"]);
}

#[test]
fn a_file_system_for_reading_only_says_so() {
    let Some(mounted) = Mounted::nodev("tmpfs", "size=1m") else {
        return;
    };
    let directory = open(mounted.path(), IoEngine::Auto);
    directory
        .create("f", FileOptions::BUFFERED)
        .unwrap()
        .grow(4096)
        .unwrap();
    let Some(()) = mounted.make_read_only() else {
        return;
    };
    let error = directory.create("g", FileOptions::BUFFERED).unwrap_err();
    assert!(matches!(error, Error::ReadOnlyFileSystem { .. }), "{error}");
    let error = directory.open("f", FileOptions::DIRECT).unwrap_err();
    assert!(matches!(error, Error::ReadOnlyFileSystem { .. }), "{error}");
    let file = directory.open("f", FileOptions::BUFFERED.read_only()).unwrap();
    assert_eq!(file.read_at(0, 4096, OTHER).unwrap()[0], 0);
}

#[test]
fn a_file_without_permission_says_so() {
    let place = temporary();
    let directory = open(place.path(), IoEngine::Auto);
    directory
        .create("f", FileOptions::BUFFERED)
        .unwrap()
        .grow(4096)
        .unwrap();
    let path = place.path().join("f");
    // Permissions do not restrict the superuser, but the immutable flag does.
    match Command::new("chattr").arg("+i").arg(&path).status() {
        Ok(status) if status.success() => {}
        other => {
            alluvium_device::skipped!("immutable files", "chattr +i: {other:?}");
            return;
        }
    }
    let opened = directory.open("f", FileOptions::BUFFERED);
    let removed = directory.remove("f");
    let read = directory.open("f", FileOptions::BUFFERED.read_only());
    assert!(
        Command::new("chattr")
            .arg("-i")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    for error in [opened.unwrap_err(), removed.unwrap_err()] {
        assert!(matches!(error, Error::PermissionDenied { .. }), "{error}");
        assert!(error.to_string().contains("check its owner and mode"), "{error}");
    }
    assert_eq!(read.unwrap().len(), 4096);
}

#[test]
fn a_lock_held_by_another_process_names_it_and_ends_with_it() {
    let place = temporary();
    let directory = open(place.path(), IoEngine::Auto);
    let script = "exec 9>LOCK && flock 9 && printf %s $$ >&9 && echo ready && exec sleep 100";
    let mut child = Command::new("sh")
        .args(["-c", script])
        .current_dir(place.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "ready\n", "flock is installed");
    let refused = directory.lock("LOCK");
    child.kill().unwrap();
    child.wait().unwrap();
    match refused {
        Err(error @ Error::Locked { .. }) => {
            assert!(
                error.to_string().contains(&format!("process {}", child.id())),
                "{error}"
            );
        }
        other => panic!("{other:?}"),
    }
    let lock = directory.lock("LOCK").expect("the lock ended with its process");
    let other = Command::new("flock")
        .args(["-n", "LOCK", "true"])
        .current_dir(place.path())
        .status();
    assert!(
        !other.unwrap().success(),
        "another process took a lock that is held"
    );
    drop(lock);
    let other = Command::new("flock")
        .args(["-n", "LOCK", "true"])
        .current_dir(place.path())
        .status();
    assert!(other.unwrap().success());
}

#[test]
fn a_kernel_that_refuses_io_uring_gets_threads_and_a_note() {
    let place = temporary();
    let path = place.path().to_owned();
    // A filter applies to the thread that installs it and to its children, so install it in a
    // separate thread.
    let has_filters = std::thread::spawn(move || {
        if !forbid_io_uring() {
            return false;
        }
        let directory = FileDirectory::open(&path).unwrap();
        assert_eq!(directory.engine(), IoEngine::Threads);
        let notes = directory.notes();
        assert!(
            notes.iter().any(|note| note.contains("refuses io_uring")),
            "{notes:?}"
        );
        let file = directory.create("f", FileOptions::DIRECT).unwrap();
        file.grow(1 << 20).unwrap();
        let mut batch = IoBatch::new();
        for at in 0..256 {
            batch.read(at * 4096, AlignedBuffer::zeroed(4096), OTHER);
        }
        assert_eq!(file.run(batch).unwrap().len(), 256);
        let options = FileDirectoryOptions {
            engine: IoEngine::Uring,
            ..FileDirectoryOptions::default()
        };
        let error = FileDirectory::open_with(&path, options).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        true
    })
    .join()
    .unwrap();
    if !has_filters {
        alluvium_device::skipped!("seccomp", "this kernel has no filters of system calls");
    }
}

/// Makes `io_uring_setup` fail with EPERM in this thread, as container runtimes do.
fn forbid_io_uring() -> bool {
    let load = |k| libc::sock_filter {
        code: (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16,
        jt: 0,
        jf: 0,
        k,
    };
    let answer = |k| libc::sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k,
    };
    let mut filter = [
        // The system call number is at offset 0 of the filter's input.
        load(0),
        libc::sock_filter {
            code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
            jt: 0,
            jf: 1,
            k: libc::SYS_io_uring_setup as u32,
        },
        answer(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        answer(libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the calls read the program, which lives until they return, and change only what this
    // thread may call.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ) == 0
    }
}

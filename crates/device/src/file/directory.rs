//! A directory of a file system as a [`Directory`].

use super::device::{FileDevice, IoBackend};
use super::lock;
use super::names::{has_no_name, parse_boot_id, unique_boot_id};
use super::open_file::OpenFile;
use super::state::FileStates;
use super::threads::WorkerPool;
use super::{FileDirectoryOptions, IoEngine};
use crate::uring::RingPool;
use crate::{
    BLOCK, BootId, CacheMode, Device, DeviceCounters, DeviceOperation, Directory, DirectoryLock, Error,
    FileAccessMode, FileOptions, FileSystemSpace, MemoryRegion, Result,
};
use alluvium_base::Purpose;
use parking_lot::Mutex;
use rustix::fs::{Advice, AtFlags, Dir, FileType, Mode, OFlags, StatxFlags};
use rustix::io::{Errno, retry_on_intr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A directory of files in a real file system.
///
/// Clones share all state. Dropping the last handle of the directory and its files waits for the
/// requests in flight.
///
/// ```
/// use alluvium_base::Purpose;
/// use alluvium_device::{AlignedBuffer, Device, Directory, FileOptions, file::FileDirectory};
/// # let place = tempfile::tempdir().unwrap();
/// # let path = place.path().join("store");
/// let directory = FileDirectory::create(&path)?;
/// let file = directory.create("tier-0", FileOptions::DIRECT)?;
/// file.grow(1 << 20)?;
/// file.write_at(4096, AlignedBuffer::padded(b"hello"), Purpose::Other)?;
/// file.sync(Purpose::Other)?;
/// directory.sync()?;
/// assert_eq!(&file.read_at(4096, 512, Purpose::Other)?[..5], b"hello");
/// # Ok::<(), alluvium_device::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct FileDirectory {
    shared: Arc<FileDirectoryState>,
}

#[derive(Debug)]
struct FileDirectoryState {
    path: PathBuf,
    descriptor: OwnedFd,
    carrier: IoBackend,
    workers: Arc<WorkerPool>,
    states: FileStates,
    counters: DeviceCounters,
    poisoned: AtomicBool,
    boot: BootId,
    notes: Arc<DirectoryNotes>,
}

/// The mode of new files, which only the owner may read and write. The process's umask may remove
/// further bits. Existing files keep their mode.
pub(super) const OWN_FILE: Mode = Mode::from_raw_mode(0o600);

/// The mode of new directories, to which only the owner has access.
const OWN_DIRECTORY: u32 = 0o700;

/// The notes about a directory, without duplicates.
#[derive(Debug, Default)]
pub(crate) struct DirectoryNotes {
    texts: Mutex<Vec<String>>,
}

impl DirectoryNotes {
    pub(crate) fn add(&self, text: String) {
        let mut texts = self.texts.lock();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
}

impl FileDirectory {
    /// Durably creates the directory and its missing ancestors, or opens the directory if it
    /// exists.
    ///
    /// # Errors
    /// `PermissionDenied`, `DiskFull`, or I/O errors.
    pub fn create(path: impl AsRef<Path>) -> Result<FileDirectory> {
        FileDirectory::create_with(path, FileDirectoryOptions::default())
    }

    /// Like [`FileDirectory::create`], but with the given options.
    ///
    /// # Errors
    /// As `create`, and `Unsupported` if the kernel refuses the requested engine.
    pub fn create_with(path: impl AsRef<Path>, options: FileDirectoryOptions) -> Result<FileDirectory> {
        let path = path.as_ref();
        make_durably(path).map_err(|source| {
            Error::from_io(DeviceOperation::Create, &path.display().to_string(), 0, 0, source)
        })?;
        FileDirectory::open_with(path, options)
    }

    /// Opens an existing directory.
    ///
    /// # Errors
    /// `NotFound`, `PermissionDenied`, or I/O errors.
    pub fn open(path: impl AsRef<Path>) -> Result<FileDirectory> {
        FileDirectory::open_with(path, FileDirectoryOptions::default())
    }

    /// Like [`FileDirectory::open`], but with the given options.
    ///
    /// # Errors
    /// As `open`, and `Unsupported` if the kernel refuses the requested engine.
    ///
    /// # Panics
    /// If `options.threads` is zero.
    pub fn open_with(path: impl AsRef<Path>, options: FileDirectoryOptions) -> Result<FileDirectory> {
        let path = path.as_ref();
        let shown = path.display().to_string();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))
            .map_err(|errno| Error::from_io(DeviceOperation::Open, &shown, 0, 0, io::Error::from(errno)))?;
        let notes = Arc::new(DirectoryNotes::default());
        let workers = Arc::new(WorkerPool::new(options.threads));
        let carrier = match options.engine {
            IoEngine::Threads => IoBackend::Workers,
            IoEngine::Auto | IoEngine::Uring => match RingPool::new(Arc::clone(&workers), Arc::clone(&notes))
            {
                Ok(rings) => IoBackend::Rings(rings),
                Err(refusal) if options.engine == IoEngine::Auto => {
                    notes.add(format!(
                        "the kernel refuses io_uring ({refusal}); up to {} threads make blocking calls instead",
                        options.threads
                    ));
                    IoBackend::Workers
                }
                Err(refusal) => {
                    return Err(Error::Unsupported {
                        operation: DeviceOperation::Open,
                        file: shown,
                        why: format!(
                            "the kernel refuses io_uring ({refusal}); use Engine::Auto or Engine::Threads"
                        ),
                    });
                }
            },
        };
        let boot = boot_id().and_then(|boot| on_mount(boot, &descriptor));
        let boot = boot.unwrap_or_else(|why| {
            notes.add(format!(
                "the current boot could not be identified ({why}); every opening counts as one after a restart"
            ));
            unique_boot_id()
        });
        Ok(FileDirectory {
            shared: Arc::new(FileDirectoryState {
                path: path.canonicalize().unwrap_or_else(|_| path.to_owned()),
                descriptor,
                carrier,
                workers,
                states: FileStates::default(),
                counters: DeviceCounters::new(),
                poisoned: AtomicBool::new(false),
                boot,
                notes,
            }),
        })
    }

    /// Returns the engine in use, either [`IoEngine::Uring`] or [`IoEngine::Threads`].
    #[must_use]
    pub fn engine(&self) -> IoEngine {
        match self.shared.carrier {
            IoBackend::Rings(_) => IoEngine::Uring,
            IoBackend::Workers => IoEngine::Threads,
        }
    }

    /// Returns the path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    fn failed(operation: DeviceOperation, name: &str, errno: Errno) -> Error {
        Error::from_io(operation, name, 0, 0, io::Error::from(errno))
    }

    fn require_unpoisoned(&self, operation: DeviceOperation, name: &str) -> Result<()> {
        if self.shared.poisoned.load(Ordering::Acquire) {
            return Err(Error::Poisoned {
                operation,
                file: name.to_owned(),
            });
        }
        Ok(())
    }

    /// Creates a device for an open descriptor, after determining whether the descriptor supports
    /// direct I/O and advising the kernel on the access pattern.
    fn device(&self, name: &str, options: FileOptions, descriptor: OwnedFd) -> Result<Arc<dyn Device>> {
        let failed = |errno| Self::failed(DeviceOperation::Open, name, errno);
        let stat = rustix::fs::fstat(&descriptor).map_err(failed)?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(Error::Unsupported {
                operation: DeviceOperation::Open,
                file: name.to_owned(),
                why: "it is not a regular file".to_owned(),
            });
        }
        let alignment = match options.caching {
            CacheMode::Direct => self.make_direct(&descriptor),
            CacheMode::Buffered => None,
        };
        if alignment.is_none() {
            // The neighbours of a block that is read are usually not needed, and sequential readers
            // request large blocks themselves, so the kernel's read-ahead would only multiply the
            // number of bytes read. The advice is a hint, so a failure is harmless.
            let _ = rustix::fs::fadvise(&descriptor, 0, None, Advice::Random);
        }
        let file = Arc::new(OpenFile {
            name: name.to_owned(),
            options,
            direct: alignment.is_some(),
            alignment: alignment.unwrap_or(1),
            slot: OnceLock::new(),
            descriptor,
            cached_descriptor: OnceLock::new(),
            state: self
                .shared
                .states
                .of(stat.st_dev, stat.st_ino, stat.st_size as u64),
            counters: self.shared.counters.clone(),
        });
        if let IoBackend::Rings(rings) = &self.shared.carrier {
            rings.register_file(&file);
        }
        Ok(Arc::new(FileDevice {
            file,
            carrier: self.shared.carrier.clone(),
            workers: Arc::clone(&self.shared.workers),
        }))
    }

    /// Makes requests through a descriptor bypass the page cache, and returns the alignment that
    /// this requires. If the file system refuses, adds a note and returns `None`.
    fn make_direct(&self, descriptor: &OwnedFd) -> Option<u64> {
        let refused = |how: &str| {
            self.shared.notes.add(format!(
                "{how} by the file system of {}: its files are read and written through the page cache",
                self.shared.path.display()
            ));
            None
        };
        // Set the flag after opening the file, because a refused open with O_CREAT would leave the
        // file behind.
        let flags = match rustix::fs::fcntl_getfl(descriptor) {
            Ok(flags) => flags,
            Err(errno) => return refused(&format!("the flags of a file are not reported ({errno})")),
        };
        if rustix::fs::fcntl_setfl(descriptor, flags | OFlags::DIRECT).is_err() {
            return refused("direct I/O (O_DIRECT) is refused");
        }
        let told = rustix::fs::statx(descriptor, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
        let alignment = match told {
            Ok(stat) if StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN) => {
                u64::from(stat.stx_dio_offset_align)
            }
            // The kernel is older, or the file system does not report the alignment. The first
            // request will show whether this guess is right.
            _ => BLOCK,
        };
        if alignment == 0 {
            // The flag was accepted, but requests would ignore it or fail.
            let _ = rustix::fs::fcntl_setfl(descriptor, flags);
            return refused("direct I/O is not offered");
        }
        if alignment > BLOCK {
            self.shared.notes.add(format!(
                "the blocks below {} have {alignment} bytes: requests that are not multiples of that go through the page cache",
                self.shared.path.display()
            ));
        }
        Some(alignment.max(BLOCK))
    }

    fn open_descriptor(
        &self,
        operation: DeviceOperation,
        name: &str,
        options: FileOptions,
        extra: OFlags,
    ) -> Result<OwnedFd> {
        check_name(operation, name)?;
        let access = match options.access {
            FileAccessMode::ReadOnly => OFlags::RDONLY,
            FileAccessMode::ReadWrite => OFlags::RDWR,
        };
        // NONBLOCK keeps the open of a FIFO from waiting for the other end.
        let flags = access | extra | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let opened = retry_on_intr(|| rustix::fs::openat(&self.shared.descriptor, name, flags, OWN_FILE));
        opened
            .and_then(|descriptor| {
                // If the flag stayed set, a ring would return EAGAIN instead of waiting.
                let flags = rustix::fs::fcntl_getfl(&descriptor)?;
                rustix::fs::fcntl_setfl(&descriptor, flags - OFlags::NONBLOCK)?;
                Ok(descriptor)
            })
            .map_err(|errno| Self::failed(operation, name, errno))
    }
}

impl Directory for FileDirectory {
    fn create(&self, name: &str, options: FileOptions) -> Result<Arc<dyn Device>> {
        self.require_unpoisoned(DeviceOperation::Create, name)?;
        // A new file that is read-only stays empty; the operating system does not require write
        // access to create it.
        let descriptor = self.open_descriptor(
            DeviceOperation::Create,
            name,
            options,
            OFlags::CREATE | OFlags::EXCL,
        )?;
        self.device(name, options, descriptor)
    }

    fn open(&self, name: &str, options: FileOptions) -> Result<Arc<dyn Device>> {
        let descriptor = self.open_descriptor(DeviceOperation::Open, name, options, OFlags::empty())?;
        self.device(name, options, descriptor)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.require_unpoisoned(DeviceOperation::Rename, from)?;
        check_name(DeviceOperation::Rename, from)?;
        check_name(DeviceOperation::Rename, to)?;
        let here = &self.shared.descriptor;
        retry_on_intr(|| rustix::fs::renameat(here, from, here, to))
            .map_err(|errno| Self::failed(DeviceOperation::Rename, from, errno))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.require_unpoisoned(DeviceOperation::Remove, name)?;
        check_name(DeviceOperation::Remove, name)?;
        retry_on_intr(|| rustix::fs::unlinkat(&self.shared.descriptor, name, AtFlags::empty()))
            .map_err(|errno| Self::failed(DeviceOperation::Remove, name, errno))
    }

    /// Skips names that are not UTF-8 and entries that are not regular files, because the store
    /// never creates them.
    fn list(&self) -> Result<Vec<String>> {
        let failed = |errno| Self::failed(DeviceOperation::List, &self.describe(), errno);
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.shared.descriptor).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    let flags = AtFlags::SYMLINK_NOFOLLOW;
                    match rustix::fs::statat(&self.shared.descriptor, entry.file_name(), flags) {
                        Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                        // The entry was removed meanwhile.
                        Err(Errno::NOENT) => continue,
                        Err(errno) => return Err(failed(errno)),
                    }
                }
                kind => kind,
            };
            if kind.is_file()
                && let Ok(name) = entry.file_name().to_str()
            {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn sync(&self) -> Result<()> {
        let name = self.describe();
        self.require_unpoisoned(DeviceOperation::SyncDirectory, &name)?;
        self.shared.counters.sync(Purpose::Other);
        match retry_on_intr(|| rustix::fs::fsync(&self.shared.descriptor)) {
            Ok(()) => Ok(()),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => {
                self.shared.notes.add(format!(
                    "directories cannot be synced on the file system of {name}: new files may be lost in a power failure"
                ));
                Ok(())
            }
            Err(errno) => {
                self.shared.poisoned.store(true, Ordering::Release);
                Err(Error::Io {
                    operation: DeviceOperation::SyncDirectory,
                    file: name,
                    offset: 0,
                    len: 0,
                    source: io::Error::from(errno),
                })
            }
        }
    }

    fn lock(&self, name: &str) -> Result<DirectoryLock> {
        check_name(DeviceOperation::Lock, name)?;
        let rings = match &self.shared.carrier {
            IoBackend::Rings(rings) => Some(rings),
            IoBackend::Workers => None,
        };
        lock::take(self.shared.descriptor.as_fd(), name, rings)
    }

    fn lock_shared(&self, name: &str) -> Result<DirectoryLock> {
        check_name(DeviceOperation::Lock, name)?;
        lock::take_shared(self.shared.descriptor.as_fd(), name)
    }

    fn space(&self) -> Result<FileSystemSpace> {
        let stat = rustix::fs::fstatvfs(&self.shared.descriptor)
            .map_err(|errno| Self::failed(DeviceOperation::List, &self.describe(), errno))?;
        Ok(FileSystemSpace {
            free: stat.f_bavail.saturating_mul(stat.f_frsize),
            total: stat.f_blocks.saturating_mul(stat.f_frsize),
        })
    }

    fn boot_id(&self) -> BootId {
        self.shared.boot
    }

    fn is_removed(&self) -> bool {
        has_no_name(&self.shared.descriptor)
    }

    fn counters(&self) -> &DeviceCounters {
        &self.shared.counters
    }

    fn notes(&self) -> Vec<String> {
        self.shared.notes.texts.lock().clone()
    }

    fn register_memory(&self, region: MemoryRegion) {
        if let IoBackend::Rings(rings) = &self.shared.carrier {
            rings.register_memory(region);
        }
    }

    fn describe(&self) -> String {
        self.shared.path.display().to_string()
    }
}

/// # Errors
/// `Unsupported` if the name is not a single plain file name.
fn check_name(operation: DeviceOperation, name: &str) -> Result<()> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        return Err(Error::Unsupported {
            operation,
            file: format!("{name:?}"),
            why: "a file name must not be empty, . or .., and must not contain separators".to_owned(),
        });
    }
    Ok(())
}

/// Creates a directory and its missing ancestors. Syncing the parent of each new directory makes it
/// durable.
fn make_durably(path: &Path) -> io::Result<()> {
    match make_own(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let above = path
                .parent()
                .filter(|above| !above.as_os_str().is_empty())
                .ok_or(error)?;
            make_durably(above)?;
            match make_own(path) {
                // Another thread or process has created the directory meanwhile.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
                made => made?,
            }
        }
        Err(error) => return Err(error),
    }
    std::fs::File::open(path)?.sync_all()?;
    let above = match path.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    };
    std::fs::File::open(above)?.sync_all()
}

fn make_own(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().mode(OWN_DIRECTORY).create(path)
}

/// Returns the kernel's boot id.
fn boot_id() -> std::result::Result<BootId, String> {
    let path = "/proc/sys/kernel/random/boot_id";
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    parse_boot_id(&text).ok_or_else(|| format!("{path} holds {text:?}"))
}

/// Returns an id for the current boot and the directory's mount, because a file system may lose its
/// page cache when it is remounted. Kernels before 6.8 reuse mount ids, so there, two mounts may
/// have equal ids.
fn on_mount(boot: BootId, directory: &OwnedFd) -> std::result::Result<BootId, String> {
    const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);
    let mount = |flags: StatxFlags| {
        let stat = rustix::fs::statx(directory, "", AtFlags::EMPTY_PATH, flags);
        let stat = stat.map_err(|errno| format!("statx: {errno}"))?;
        let known = StatxFlags::from_bits_retain(stat.stx_mask).contains(flags);
        known
            .then_some(stat.stx_mnt_id)
            .ok_or_else(|| "the kernel does not identify mounts".to_owned())
    };
    let mount = mount(UNIQUE).or_else(|_| mount(StatxFlags::MNT_ID))?;
    let mut text = boot.0.to_vec();
    text.extend((0..8).map(|at| (mount >> (8 * at)) as u8));
    let mixed = alluvium_base::checksum(&text);
    let mut id = boot.0;
    for (at, byte) in id.iter_mut().take(8).enumerate() {
        *byte ^= (mixed >> (8 * at)) as u8;
    }
    Ok(BootId(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_could_leave_the_directory_is_refused() {
        for name in ["", ".", "..", "a/b", "/etc/passwd", "../a", "a\0b"] {
            let error = check_name(DeviceOperation::Open, name).unwrap_err();
            assert!(matches!(error, Error::Unsupported { .. }), "{name:?}: {error}");
        }
        for name in ["a", "tier-0", "..a", "a..", "log-1.seg"] {
            check_name(DeviceOperation::Open, name).unwrap();
        }
    }

    #[test]
    fn a_boot_is_told_from_its_uuid() {
        let id = parse_boot_id("01234567-89ab-cdef-0123-456789abcdef\n").unwrap();
        assert_eq!(id.0[..4], [0x01, 0x23, 0x45, 0x67]);
        assert_eq!(parse_boot_id("01234567"), None);
        assert_eq!(parse_boot_id("zz234567-89ab-cdef-0123-456789abcdef"), None);
        assert_eq!(boot_id().unwrap(), boot_id().unwrap(), "the boot does not change");
        assert_ne!(unique_boot_id(), unique_boot_id());
    }

    #[test]
    fn what_rings_carry_needs_no_worker() {
        let place = tempfile::tempdir_in(std::env::temp_dir()).unwrap();
        let directory = FileDirectory::open(place.path()).unwrap();
        let IoBackend::Rings(_) = directory.shared.carrier else {
            crate::skipped!("io_uring", "{:?}", directory.notes());
            return;
        };
        let mut arena = crate::AlignedBuffer::zeroed(1 << 20);
        let start = std::ptr::NonNull::new(arena.as_mut_ptr()).unwrap();
        let keeper: Arc<crate::AlignedBuffer> = Arc::new(arena);
        directory.register_memory(MemoryRegion {
            start,
            len: 1 << 20,
            keeper: keeper.clone(),
        });
        let file = directory.create("f", FileOptions::DIRECT).unwrap();
        file.grow(4 << 20).unwrap();
        for round in 0..2 {
            let mut batch = crate::IoBatch::new();
            for page in 0..128u64 {
                // SAFETY: the page is inside the arena, and each page is in one request only.
                let registered = unsafe {
                    crate::AlignedBuffer::from_region(start.add(page as usize * 4096), 4096, keeper.clone())
                };
                batch.read(page * 4096, registered, Purpose::Other);
                batch.read(page * 8192, crate::AlignedBuffer::zeroed(8192), Purpose::Other);
                batch.write(
                    (page + 512 + round) * 4096,
                    crate::AlignedBuffer::zeroed(4096),
                    Purpose::Other,
                );
            }
            file.run(batch).unwrap();
        }
        assert_eq!(
            directory.shared.workers.started(),
            0,
            "the rest of a transfer went to a worker"
        );
        assert!(directory.notes().is_empty(), "{:?}", directory.notes());
    }

    #[test]
    fn a_kernel_that_refuses_its_rings_later_is_done_without() {
        let place = tempfile::tempdir_in(std::env::temp_dir()).unwrap();
        let directory = FileDirectory::open(place.path()).unwrap();
        let IoBackend::Rings(rings) = &directory.shared.carrier else {
            crate::skipped!("io_uring", "{:?}", directory.notes());
            return;
        };
        let file = directory.create("f", FileOptions::DIRECT).unwrap();
        file.grow(4 << 20).unwrap();
        let round = |number: u64| {
            let mut batch = crate::IoBatch::new();
            // More requests than a ring can hold at once.
            for page in 0..400 {
                let bytes = [number as u8 + page as u8 % 7; 4096];
                batch.write(page * 4096, crate::AlignedBuffer::padded(&bytes), Purpose::Other);
            }
            file.run(batch).unwrap();
            let tickets = (0..8).map(|part: u64| {
                let mut batch = crate::IoBatch::new();
                for page in 50 * part..50 * (part + 1) {
                    batch.read(page * 4096, crate::AlignedBuffer::zeroed(4096), Purpose::Other);
                }
                (part, file.submit(batch))
            });
            for (part, ticket) in tickets.collect::<Vec<_>>() {
                file.wait(&ticket);
                for (page, buffer) in (50 * part..).zip(ticket.take_buffers().unwrap()) {
                    assert_eq!(buffer[4095], number as u8 + page as u8 % 7);
                }
            }
        };
        round(1);
        let mut batch = crate::IoBatch::new();
        for page in 0..100u64 {
            batch.read(page * 4096, crate::AlignedBuffer::zeroed(4096), Purpose::Other);
        }
        // By the time the kernel begins to refuse, it already has these requests.
        let before = file.submit(batch);
        rings.refuse();
        round(2);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| file.read_at(0, 4096, Purpose::Other).unwrap());
            }
        });
        file.wait(&before);
        assert_eq!(before.take_buffers().unwrap().len(), 100);
        assert!(directory.notes().iter().any(|note| note.contains("refuses")));
        round(3);
    }
}

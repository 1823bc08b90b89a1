//! The directories that the suite runs on, and file systems made for a single test.

use alluvium_base::cost::{CostClock, CostFault, DeviceAccess};
use alluvium_device::file::{FileDirectory, FileDirectoryOptions, IoEngine};
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::simulated::{CompletionOrder, SimDirectory, SimOptions};
use alluvium_device::{CacheMode, Directory, FileOptions, OverlayDirectory, ThrottledDirectory};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;

/// A directory to test, the options of its files, and a guard that keeps it in existence.
pub(crate) struct Place {
    pub(crate) directory: Arc<dyn Directory>,
    pub(crate) options: FileOptions,
    _keeper: Option<TempDir>,
}

impl Place {
    pub(crate) fn memory(caching: CacheMode) -> Place {
        Place::new(Arc::new(MemoryDirectory::new()), caching, None)
    }

    pub(crate) fn simulated(caching: CacheMode) -> Place {
        Place::new(Arc::new(SimDirectory::new(0xa11u64)), caching, None)
    }

    /// A simulated machine on which requests complete when a thread waits, in an order drawn from
    /// the seed.
    pub(crate) fn shuffled(caching: CacheMode) -> Place {
        let options = SimOptions {
            completion: CompletionOrder::Shuffled,
            ..SimOptions::new(0xa11)
        };
        Place::new(Arc::new(SimDirectory::with(options)), caching, None)
    }

    /// Memory with a clock that charges a microsecond per request.
    pub(crate) fn throttled(caching: CacheMode) -> Place {
        struct Microsecond(u64);
        impl CostClock for Microsecond {
            fn charge(&mut self, now_ns: u64, _access: &DeviceAccess) -> Result<u64, CostFault> {
                self.0 = self.0.max(now_ns) + 1000;
                Ok(self.0)
            }
        }
        let inner = Arc::new(MemoryDirectory::new());
        let directory = ThrottledDirectory::new(inner, Box::new(Microsecond(0)));
        Place::new(Arc::new(directory), caching, None)
    }

    /// An overlay on an empty directory, so that all files stay in the overlay.
    pub(crate) fn overlay(caching: CacheMode) -> Place {
        let below = Arc::new(MemoryDirectory::new());
        Place::new(Arc::new(OverlayDirectory::new(below).unwrap()), caching, None)
    }

    pub(crate) fn files(engine: IoEngine, caching: CacheMode) -> Place {
        Place::files_in(Path::new(env!("CARGO_TARGET_TMPDIR")), engine, caching)
    }

    /// A directory on tmpfs, which has no device. Depending on the kernel version, direct requests
    /// use the page cache or are refused.
    pub(crate) fn tmpfs(engine: IoEngine, caching: CacheMode) -> Place {
        Place::files_in(Path::new("/dev/shm"), engine, caching)
    }

    fn files_in(above: &Path, engine: IoEngine, caching: CacheMode) -> Place {
        let keeper = tempfile::tempdir_in(above).expect("a temporary directory");
        let directory = open(keeper.path(), engine);
        Place::new(directory, caching, Some(keeper))
    }

    fn new(directory: Arc<dyn Directory>, caching: CacheMode, keeper: Option<TempDir>) -> Place {
        let options = match caching {
            CacheMode::Direct => FileOptions::DIRECT,
            CacheMode::Buffered => FileOptions::BUFFERED,
        };
        Place {
            directory,
            options,
            _keeper: keeper,
        }
    }
}

/// Opens a directory of real files with this engine.
pub(crate) fn open(path: &Path, engine: IoEngine) -> Arc<FileDirectory> {
    let options = FileDirectoryOptions {
        engine,
        ..FileDirectoryOptions::default()
    };
    Arc::new(FileDirectory::open_with(path, options).expect("the directory opens"))
}

/// A file system made for a single test, and unmounted on drop.
pub(crate) struct Mounted {
    path: PathBuf,
    loop_device: Option<String>,
    _keeper: TempDir,
}

impl Mounted {
    /// Mounts a file system that needs no device. If that is not allowed, prints the reason and
    /// returns `None`.
    pub(crate) fn nodev(kind: &str, options: &str) -> Option<Mounted> {
        let keeper = tempfile::tempdir().expect("a temporary directory");
        let path = keeper.path().to_owned();
        let mut mount = Command::new("mount");
        mount.args(["-t", kind, "-o", options, kind]).arg(&path);
        runs(&mut mount)?;
        Some(Mounted {
            path,
            loop_device: None,
            _keeper: keeper,
        })
    }

    /// Makes an ext4 file system of `mebibytes` in a sparse image at `image`, on a loop device with
    /// the given sector size.
    pub(crate) fn ext4(image: &Path, mebibytes: u64, sector: u32) -> Option<Mounted> {
        std::fs::File::create(image)
            .and_then(|file| file.set_len(mebibytes << 20))
            .expect("an image file");
        runs(
            Command::new("mkfs.ext4")
                .args(["-q", "-b", "4096", "-F"])
                .arg(image),
        )?;
        let sector = sector.to_string();
        let attached = runs(
            Command::new("losetup")
                .args(["--find", "--show", "--sector-size", &sector])
                .arg(image),
        )?;
        let device = attached.trim().to_owned();
        let keeper = tempfile::tempdir().expect("a temporary directory");
        let path = keeper.path().to_owned();
        let mounted = runs(Command::new("mount").arg(&device).arg(&path));
        let place = Mounted {
            path,
            loop_device: Some(device),
            _keeper: keeper,
        };
        mounted.map(|_| place)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Remounts the file system read-only.
    pub(crate) fn make_read_only(&self) -> Option<()> {
        runs(Command::new("mount").args(["-o", "remount,ro"]).arg(&self.path)).map(|_| ())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
        if let Some(device) = &self.loop_device {
            let _ = Command::new("losetup").args(["-d", device]).status();
        }
    }
}

/// Runs a command and returns its output, or prints why the test is skipped.
fn runs(command: &mut Command) -> Option<String> {
    match command.output() {
        Ok(output) if output.status.success() => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            alluvium_device::skipped!("mounts", "{command:?}: {why}");
            None
        }
        Err(error) => {
            let program = command.get_program().to_string_lossy().into_owned();
            alluvium_device::skipped!(&program, "{command:?}: {error}");
            None
        }
    }
}

//! What a phase cost: time, processors, device, memory, space.
//!
//! *Knows*: where Linux says what a process, a control group and a block device did.
//!
//! *Does not know*: why.
//!
//! *Read in this order*: this file, `device.rs`, `memory.rs`, `latency.rs`.

pub mod device;
pub mod latency;
pub mod memory;

use device::Counted;
use std::path::Path;
use std::time::Instant;

/// Everything that only grows, at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// When.
    pub at: Instant,
    /// Microseconds of processor time of the process, all its threads, user and system.
    pub cpu_us: u64,
    /// What the device did.
    pub device: Counted,
}

impl Snapshot {
    /// As it is now, for an engine whose files are in a directory.
    #[must_use]
    pub fn take(directory: &Path, blkio: Option<&Path>) -> Snapshot {
        Snapshot {
            cpu_us: cpu_us(),
            device: Counted::now(directory, blkio),
            at: Instant::now(),
        }
    }
}

/// Microseconds of processor time that this process has taken, user and system, all threads.
#[must_use]
pub fn cpu_us() -> u64 {
    // SAFETY: zeros are a valid `rusage`, a struct of numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a whole `rusage` of our own.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let us = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    us(usage.ru_utime) + us(usage.ru_stime)
}

/// Bytes that a directory and all in it take on the device.
#[must_use]
pub fn disk_bytes(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(directory) else {
        return 0;
    };
    entries
        .filter_map(Result::ok)
        .map(|entry| match entry.metadata() {
            // What is gone by now takes nothing.
            Err(_) => 0,
            Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
            Ok(metadata) => metadata.blocks() * 512,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_processor_time_and_files_take_space() {
        let before = cpu_us();
        let mut sum = 0u64;
        while cpu_us() < before + 20_000 {
            sum = std::hint::black_box(sum + 1);
        }
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("below")).unwrap();
        std::fs::write(place.path().join("below").join("file"), vec![1; 100_000]).unwrap();
        std::fs::File::open(place.path().join("below").join("file"))
            .unwrap()
            .sync_all()
            .unwrap();
        assert!(disk_bytes(place.path()) >= 100_000);
    }
}

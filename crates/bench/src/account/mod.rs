//! The costs of a phase: time, CPU, device traffic, memory and disk space.
//!
//! *Scope*: the counters that Linux provides for a process, a control group and a block device.
//!
//! *Must not depend on*: the causes of the costs.

pub mod device;
pub mod dips;
pub mod latency;
pub mod memory;

use device::TrafficCounters;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A process, whose counters are read from its files in `/proc`.
#[derive(Clone, Debug)]
pub struct ProcfsProcess {
    /// The directory of the process in `/proc`.
    place: PathBuf,
}

impl ProcfsProcess {
    #[must_use]
    pub fn own() -> ProcfsProcess {
        ProcfsProcess {
            place: PathBuf::from("/proc/self"),
        }
    }

    /// Returns the process with the given process ID.
    #[must_use]
    pub fn of(number: u32) -> ProcfsProcess {
        ProcfsProcess {
            place: PathBuf::from(format!("/proc/{number}")),
        }
    }

    /// Reads a file of the process's directory. Returns an empty string if it cannot be read.
    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.place.join(name)).unwrap_or_default()
    }

    /// Returns the CPU time of all threads of the process in microseconds, user and system time
    /// together. The resolution is ten milliseconds.
    #[must_use]
    pub fn cpu_us(&self) -> u64 {
        // SAFETY: the call only reads a system constant.
        let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
        ticks_of(&self.read("stat")) * (1_000_000 / ticks)
    }
}

/// Returns the sum of user and system time in clock ticks, given the text of a `stat` file
/// (proc(5)).
fn ticks_of(stat: &str) -> u64 {
    // The process name, which precedes the other fields, may contain spaces and parentheses.
    let Some((_, fields)) = stat.rsplit_once(')') else {
        return 0;
    };
    let times = fields.split_ascii_whitespace().skip(11).take(2);
    times.filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// The values of all monotonic counters at one point in time.
#[derive(Clone, Debug)]
pub struct CostSnapshot {
    pub at: Instant,
    /// CPU time of all threads of the process in microseconds, user and system time together.
    pub cpu_us: u64,
    pub device: TrafficCounters,
}

impl CostSnapshot {
    /// Reads the counters of the current process. `directory` contains the files of the engine.
    #[must_use]
    pub fn take(directory: &Path, blkio: Option<&Path>) -> CostSnapshot {
        CostSnapshot {
            cpu_us: cpu_us(),
            device: TrafficCounters::now(&ProcfsProcess::own(), directory, blkio),
            at: Instant::now(),
        }
    }

    /// Reads the counters of a server that runs in another process. `directory` contains its files.
    #[must_use]
    pub fn of(process: &ProcfsProcess, directory: &Path) -> CostSnapshot {
        CostSnapshot {
            cpu_us: process.cpu_us(),
            device: TrafficCounters::now(process, directory, None),
            at: Instant::now(),
        }
    }
}

/// Returns the CPU time of all threads of the current process in microseconds, user and system time
/// together.
#[must_use]
pub fn cpu_us() -> u64 {
    // SAFETY: `rusage` consists of numbers only, so all bytes zero is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer refers to a complete `rusage` that this function owns.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let us = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    us(usage.ru_utime) + us(usage.ru_stime)
}

/// Returns the disk space in bytes that a directory and its contents occupy.
#[must_use]
pub fn disk_bytes(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(directory) else {
        return 0;
    };
    entries
        .filter_map(Result::ok)
        .map(|entry| match entry.metadata() {
            // A file removed in the meantime occupies no space.
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
    fn a_process_is_seen_from_outside_as_it_sees_itself() {
        let own = ProcfsProcess::of(std::process::id());
        let began = cpu_us();
        while cpu_us() < began + 50_000 {
            std::hint::black_box(began);
        }
        let (seen, known) = (own.cpu_us(), cpu_us());
        // The kernel counts a clock tick when it ends, and counts user and system time separately.
        assert!(
            seen <= known + 20_000 && seen + 30_000 >= began + 50_000,
            "{seen} {known}"
        );
        assert_eq!(ticks_of("7 (a) b) S 1 2 3 4 5 6 7 8 9 10 30 12 0"), 42);
        assert_eq!(ticks_of(""), 0);
    }

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

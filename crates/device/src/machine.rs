//! Queries the memory of the machine and of the process's container, and the process's CPU time,
//! and sets thread priorities.

use std::fs;
use std::path::{Path, PathBuf};

/// Number of ticks per second in which Linux reports CPU time on x86-64 and 64-bit Arm.
const TICKS_PER_SECOND: u64 = 100;

/// A memory limit at or above this value means that a control group has no limit.
const NO_LIMIT: u64 = 1 << 60;

/// Returns the size of the machine's memory in bytes, or `None` if the operating system does not
/// report it.
#[must_use]
pub fn memory() -> Option<u64> {
    total(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// Returns a memory counter of this process in bytes, by its name in Linux's `/proc/self/status`:
/// `VmHWM` is the peak resident size, `RssFile` the resident memory of mapped files.
#[must_use]
pub fn memory_of_process(name: &str) -> Option<u64> {
    counted(&fs::read_to_string("/proc/self/status").ok()?, name)
}

/// Returns how many bytes of this program's executable are resident, from Linux's
/// `/proc/self/smaps`. The kernel maps a file in the units in which it was read, so a copy of a
/// program may have more resident bytes than the original.
#[must_use]
pub fn memory_of_program() -> Option<u64> {
    let program = std::env::current_exe().ok()?;
    let maps = fs::read_to_string("/proc/self/smaps").ok()?;
    Some(resident_of(&maps, program.to_str()?))
}

/// Returns a file's resident bytes from the text of `smaps`. The header line of each mapping ends
/// with the file, and the mapping's counters follow.
fn resident_of(maps: &str, file: &str) -> u64 {
    let (mut resident, mut is_wanted) = (0, false);
    for line in maps.lines() {
        match line.split_once(':') {
            Some((name, _)) if !name.contains(' ') => {
                let counted = (is_wanted && name == "Rss").then(|| counted(line, name));
                resident += counted.flatten().unwrap_or(0);
            }
            _ => is_wanted = line.ends_with(file),
        }
    }
    resident
}

/// The CPU time that this process has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    pub user_us: u64,
    pub system_us: u64,
    /// User time of terminated children, in microseconds.
    pub children_user_us: u64,
    /// System time of terminated children, in microseconds.
    pub children_system_us: u64,
}

/// Returns the CPU time of this process, from Linux's `/proc/self/stat`.
#[must_use]
pub fn processor_time() -> Option<ProcessorTime> {
    times(&fs::read_to_string("/proc/self/stat").ok()?, TICKS_PER_SECOND)
}

/// Returns the kernel version, from Linux's `/proc/sys/kernel/osrelease`.
#[must_use]
pub fn kernel() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    Some(text.trim().to_owned())
}

/// Parses the CPU times of a process, which follow its name in parentheses.
fn times(text: &str, ticks_per_second: u64) -> Option<ProcessorTime> {
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let mut next_us = || {
        let ticks: u64 = fields.next()?.parse().ok()?;
        ticks.checked_mul(1_000_000)?.checked_div(ticks_per_second)
    };
    Some(ProcessorTime {
        user_us: next_us()?,
        system_us: next_us()?,
        children_user_us: next_us()?,
        children_system_us: next_us()?,
    })
}

/// Returns the memory limit of this process's container in bytes, which is the lowest limit of any
/// of its control groups, or `None` if there is no limit.
#[must_use]
pub fn container_memory() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    least_limit(&groups, Path::new("/sys/fs/cgroup"))
}

/// Returns the lowest limit of a process's control groups.
fn least_limit(groups: &str, mount: &Path) -> Option<u64> {
    let limits = group_files(groups, mount)
        .into_iter()
        .filter_map(|file| limit(&fs::read_to_string(file).ok()?));
    limits.min()
}

/// The nice value of background threads. In competition for a processor, such a thread gets a third
/// of the share of any other.
const BACKGROUND_NICE: i32 = 5;

/// Lowers the calling thread's priority in favour of other threads, if the system permits it.
pub fn lower_priority() {
    // On Linux, nice values apply to single threads.
    let _ = rustix::process::setpriority_process(None, BACKGROUND_NICE);
}

/// Parses the machine's memory from `/proc/meminfo`.
fn total(text: &str) -> Option<u64> {
    counted(text, "MemTotal")
}

/// Returns the value on the line with this name, converted from KiB to bytes.
fn counted(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

fn limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|&bytes| bytes < NO_LIMIT)
}

/// Returns the files that may hold a memory limit for a process in these groups
/// (`/proc/self/cgroup`): those of its group and of all ancestors, for both versions of control
/// groups. In a container, the group's path may be absent, and the group is then the root of the
/// mount.
fn group_files(groups: &str, mount: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let (root, name) = match controllers {
            "" => (mount.to_owned(), "memory.max"),
            list if list.split(',').any(|one| one == "memory") => {
                (mount.join("memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let mut group = root.join(path.trim_start_matches('/'));
        while group.starts_with(&root) {
            files.push(group.join(name));
            if !group.pop() {
                break;
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_process_follow_its_name_whatever_that_is() {
        let text = "1 (a ) b) S 0 1 1 0 -1 4194560 9 8 7 6 250 50 3 2 20 0 1";
        let expected = ProcessorTime {
            user_us: 2_500_000,
            system_us: 500_000,
            children_user_us: 30_000,
            children_system_us: 20_000,
        };
        assert_eq!(times(text, 100), Some(expected));
        assert_eq!(times("nothing", 100), None);
        assert!(processor_time().is_some() && kernel().is_some());
    }

    #[test]
    fn the_least_limit_of_the_group_and_those_above_counts() {
        let files = group_files("4:memory,hugetlb:/a/b\n1:cpu:/a\n0::/c\n", Path::new("/m"));
        let names: Vec<_> = files.iter().map(|file| file.to_str().unwrap()).collect();
        assert_eq!(
            names,
            [
                "/m/memory/a/b/memory.limit_in_bytes",
                "/m/memory/a/memory.limit_in_bytes",
                "/m/memory/memory.limit_in_bytes",
                "/m/c/memory.max",
                "/m/memory.max",
            ]
        );
        assert_eq!((limit("max\n"), limit("4096\n")), (None, Some(4096)));
        assert_eq!(limit("9223372036854771712"), None, "version 1 without a limit");
    }

    #[test]
    fn a_group_has_no_more_than_those_around_it() {
        let place = tempfile::tempdir().unwrap();
        let group = |path: &str, file: &str, says: &str| {
            let path = place.path().join(path);
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join(file), says).unwrap();
        };
        let least = |groups| least_limit(groups, place.path());
        assert_eq!(least("0::/outer/inner\n"), None);
        group("outer/inner", "memory.max", "max\n");
        group("outer", "memory.max", "67108864\n");
        group("", "memory.max", "max\n");
        assert_eq!(least("0::/outer/inner\n"), Some(64 << 20));
        group("outer/inner", "memory.max", "33554432\n");
        assert_eq!(least("0::/outer/inner\n"), Some(32 << 20));
        // Version 1, as seen in a container whose group is the root of the mount.
        let groups = "5:memory:/docker/abc\n0::/elsewhere\n";
        assert_eq!(least(groups), None);
        group("memory", "memory.limit_in_bytes", "134217728\n");
        assert_eq!(least(groups), Some(128 << 20));
    }

    #[test]
    fn the_machine_has_memory() {
        assert_eq!(total("MemFree: 1 kB\nMemTotal:       24 kB\n"), Some(24 << 10));
        assert_eq!(counted("VmHWM:\t  12 kB\nVm:\t1 kB\n", "Vm"), Some(1 << 10));
        assert!(memory_of_process("VmHWM").is_none_or(|bytes| bytes > 1 << 20));
        assert!(memory_of_program().is_none_or(|bytes| bytes > 1 << 12));
        let maps = "1-2 r-xp 00 fe:00 7 /bin/a\nSize: 9 kB\nRss:  8 kB\n2-3 rw-p 00 00:00 0\nRss: 4 kB\n\
                    3-4 r--p 00 fe:00 7 /bin/a\nRss: 16 kB\nPss: 1 kB\n";
        assert_eq!(resident_of(maps, "/bin/a"), 24 << 10);
        assert!(memory().is_none_or(|bytes| bytes > 1 << 20));
        assert!(container_memory().is_none_or(|bytes| bytes > 1 << 20));
    }
}

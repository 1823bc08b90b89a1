//! Control groups (version 1). A child process is placed in a memory controller group, whose limit
//! includes the page cache, and in a block controller group, which counts its reads.
//!
//! Each group is created below the current process's group and removed when its handle is dropped.
//! If a runner is killed, the next one removes its groups.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const MOUNT: &str = "/sys/fs/cgroup";
const PREFIX: &str = "alluvium-bench-";

/// Maximum time to wait until the last process of a group has disappeared.
const PATIENCE: Duration = Duration::from_secs(5);

/// Tests whether memory can be limited, by creating and removing a memory group.
///
/// # Errors
/// Why memory cannot be limited on this machine: it has no control groups of version 1, or the user
/// may not create them.
pub fn try_cap(bytes: u64) -> Result<()> {
    ControlGroup::memory("try", bytes).map(drop)
}

/// A control group of one controller, which is removed when the handle is dropped.
#[derive(Debug)]
pub struct ControlGroup {
    path: PathBuf,
}

impl ControlGroup {
    /// Creates a group of the memory controller that limits the memory of all its processes,
    /// including their page cache, to `bytes` bytes.
    ///
    /// # Errors
    /// Returns an error if the machine has no control groups of version 1, or if a group cannot be
    /// created.
    pub fn memory(name: &str, bytes: u64) -> Result<ControlGroup> {
        let group = ControlGroup::make("memory", name)?;
        group.write("memory.limit_in_bytes", &bytes.to_string())?;
        // Ignore errors: without swap or swap accounting, swap need not be limited.
        let _ = group.write("memory.memsw.limit_in_bytes", &bytes.to_string());
        let _ = group.write("memory.swappiness", "0");
        Ok(group)
    }

    /// Creates a group of the block controller that counts requests to the device of a directory.
    ///
    /// # Errors
    /// As [`ControlGroup::memory`].
    pub fn blkio(name: &str, directory: &Path) -> Result<ControlGroup> {
        use std::os::unix::fs::MetadataExt;
        let group = ControlGroup::make("blkio", name)?;
        let (major, minor) = crate::account::device::split(fs::metadata(directory)?.dev());
        // The kernel counts requests only if a limit is set, so set the largest possible one.
        group.write(
            "blkio.throttle.read_iops_device",
            &format!("{major}:{minor} {}", u32::MAX),
        )?;
        Ok(group)
    }

    fn make(controller: &str, name: &str) -> Result<ControlGroup> {
        let groups = fs::read_to_string("/proc/self/cgroup").context("reading /proc/self/cgroup")?;
        let mount = Path::new(MOUNT).join(controller);
        let Some(own) = own_path(&groups, controller).filter(|_| mount.is_dir()) else {
            bail!(
                "there is no {controller} controller of control groups, version 1, in {}: use --no-cap to measure without a cap; under version 2, `systemd-run \
                 --scope -p MemoryMax=512M alluvium bench … --no-cap` caps all of it",
                mount.display()
            );
        };
        let parent = mount.join(own.trim_start_matches('/'));
        // In a container, the group's path may not exist, and the root of the mount is then this
        // process's group.
        let parent = if parent.is_dir() { parent } else { mount };
        remove_stale(&parent);
        let path = parent.join(format!("{PREFIX}{}-{name}", std::process::id()));
        if let Err(error) = fs::create_dir(&path) {
            bail!(
                "creating the control group {}: {error}; run the command as root, or use --no-cap to measure without a cap",
                path.display()
            );
        }
        Ok(ControlGroup { path })
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.path.join(name);
        fs::write(&path, text).with_context(|| format!("writing {text} to {}", path.display()))
    }

    /// Moves a process into the group.
    ///
    /// # Errors
    /// I/O errors.
    pub fn admit(&self, process: u32) -> Result<()> {
        self.write("cgroup.procs", &process.to_string())
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // Release the page cache of the group's processes, or it would later be charged to another
        // group.
        let _ = fs::write(self.path.join("memory.force_empty"), "0");
        let began = Instant::now();
        while let Err(error) = fs::remove_dir(&self.path) {
            if began.elapsed() > PATIENCE {
                eprintln!(
                    "alluvium: the control group {} could not be removed: {error}; remove it with `rmdir`",
                    self.path.display()
                );
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns the path of the current process's group in a controller's hierarchy.
fn own_path<'a>(groups: &'a str, controller: &str) -> Option<&'a str> {
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        controllers
            .split(',')
            .any(|one| one == controller)
            .then_some(path)
    })
}

/// Removes control groups that killed runners left behind.
fn remove_stale(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let process = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists()) {
            // A group that still contains processes cannot be removed. The next runner will try
            // again.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found() {
        let groups = "8:pids:/\n4:memory,hugetlb:/a/b:c\n7:blkio:/\n0::/x\n";
        assert_eq!(own_path(groups, "memory"), Some("/a/b:c"));
        assert_eq!(own_path(groups, "blkio"), Some("/"));
        assert_eq!(own_path(groups, "cpu"), None);
    }

    #[test]
    fn a_process_is_kept_within_its_cap_and_the_group_is_removed() {
        // Only root may create control groups. For other users, this fails.
        let group = match ControlGroup::memory("test", 32 << 20) {
            Ok(group) => group,
            Err(error) => {
                let text = format!("{error:#}");
                assert!(text.contains("--no-cap"), "{text}");
                alluvium_device::skipped!("memory groups", "{text}");
                return;
            }
        };
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        let mut child = std::process::Command::new("sh")
            .arg("-c")
            .arg(format!(
                "read go; head -c 100000000 /dev/zero > {}",
                file.display()
            ))
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        group.admit(child.id()).unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        let most = fs::read_to_string(group.path().join("memory.max_usage_in_bytes")).unwrap();
        let most: u64 = most.trim().parse().unwrap();
        assert!(most <= 32 << 20, "a page cache of {most} bytes");
        let path = group.path().to_owned();
        drop(group);
        assert!(!path.exists());
    }
}

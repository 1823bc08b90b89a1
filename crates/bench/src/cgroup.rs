//! Control groups (version 1): a child is placed into a group of the memory controller with a limit
//! that includes its page cache, and into a group of the block controller that counts its reads.
//!
//! A group is created below the group of this process, and removed on drop. Groups left by a killed
//! runner are removed by the next runner.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const MOUNT: &str = "/sys/fs/cgroup";
const PREFIX: &str = "alluvium-bench-";

/// Time limit for the last process of a group to disappear.
const PATIENCE: Duration = Duration::from_secs(5);

/// Creates a group with a cap and removes it again.
///
/// # Errors
/// The reason why capping is impossible here: no control groups of version 1, or no permission.
pub fn try_cap(bytes: u64) -> Result<()> {
    ControlGroup::memory("try", bytes).map(drop)
}

/// A group of one controller, removed on drop.
#[derive(Debug)]
pub struct ControlGroup {
    path: PathBuf,
}

impl ControlGroup {
    /// Creates a group of the memory controller that limits the total memory of its processes,
    /// including page cache, to this number of bytes.
    ///
    /// # Errors
    /// If control groups of version 1 are missing or cannot be created.
    pub fn memory(name: &str, bytes: u64) -> Result<ControlGroup> {
        let group = ControlGroup::make("memory", name)?;
        group.write("memory.limit_in_bytes", &bytes.to_string())?;
        // Without swap, or without swap accounting, there is nothing to limit.
        let _ = group.write("memory.memsw.limit_in_bytes", &bytes.to_string());
        let _ = group.write("memory.swappiness", "0");
        Ok(group)
    }

    /// Creates a group of the block controller that counts the requests to a directory's device.
    ///
    /// # Errors
    /// As [`ControlGroup::memory`].
    pub fn blkio(name: &str, directory: &Path) -> Result<ControlGroup> {
        use std::os::unix::fs::MetadataExt;
        let group = ControlGroup::make("blkio", name)?;
        let (major, minor) = crate::account::device::split(fs::metadata(directory)?.dev());
        // The kernel counts only where a limit is set. This one is the largest possible.
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
        // In a container the group's path may be missing: the root of the mount is then the group.
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
        // Release the page cache of the group's processes first, so that none of it is charged to
        // another group.
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

/// Returns the path of this process's group in the hierarchy of a controller.
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

/// Removes groups of terminated runners.
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
            // A group with running processes remains, and the next runner tries again.
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
        // Only root may create groups; other users get an error.
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

//! The limit of memory of a warm run: a control group that contains this process.

use alluvium_bench::cgroup::ControlGroup;
use anyhow::{Context as _, Result};
use std::path::PathBuf;

/// Limits the memory of this process and of all that it starts, page cache included. The process
/// leaves the group when the handle is dropped.
#[derive(Debug)]
pub(super) struct MemoryLimit {
    parent: PathBuf,
    _group: ControlGroup,
}

impl MemoryLimit {
    pub(super) fn apply(bytes: u64) -> Result<MemoryLimit> {
        let group = ControlGroup::memory("aging", bytes).context("--warm limits the page cache")?;
        let parent = group.path().parent().unwrap_or(group.path()).join("cgroup.procs");
        group.admit(std::process::id())?;
        Ok(MemoryLimit {
            parent,
            _group: group,
        })
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // Fields are dropped after this: the group is removed once the process has left it. If it
        // cannot leave, the group stays, and the next run removes it.
        let _ = std::fs::write(&self.parent, std::process::id().to_string());
    }
}

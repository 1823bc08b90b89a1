//! Processes that use a view: those in other mount namespaces in whose table of mounts it stands.
//! This finds daemons and processes that have entered further namespaces too. A process in the
//! namespace of this one is never among them, whatever its table says: if a view were visible here,
//! all programs of the machine would be.

use crate::attach::{process_mounts, read_process_file};
use rustix::fs::{Dir, Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::ffi::{CStr, CString};
use std::io;
use std::path::Path;

/// Returns the users of the view with this source, as `name (process)`.
pub(super) fn users(source: &str) -> Vec<String> {
    let Some(own) = namespace_without(source) else {
        return Vec::new();
    };
    let all = process_ids().unwrap_or_default();
    let using = all.into_iter().filter(|&process| uses(process, source, &own));
    using.map(described).collect()
}

/// Returns whether this process's namespace has a mount with this source, or may have one.
pub(super) fn is_visible_here(source: &str) -> bool {
    process_mounts("self").map_or(true, |mounts| mounts.iter().any(|mount| mount.source == source))
}

/// Returns this process's mount namespace, or `None` if the view is visible in it.
fn namespace_without(source: &str) -> Option<CString> {
    if is_visible_here(source) {
        tracing::error!("the view {source} is visible outside of its namespace: no process is ended");
        return None;
    }
    namespace("self")
}

/// Returns the name that the kernel gives to the mount namespace of a process.
fn namespace(process: &str) -> Option<CString> {
    rustix::fs::readlink(format!("/proc/{process}/ns/mnt"), Vec::new()).ok()
}

/// Sends a signal to all users of a view, and returns them.
pub(super) fn end(source: &str, signal: Signal) -> Vec<String> {
    let Some(own) = namespace_without(source) else {
        return Vec::new();
    };
    let all = process_ids().unwrap_or_default();
    let ended = all.into_iter().filter(|&process| {
        let Some(id) = Pid::from_raw(process) else {
            return false;
        };
        // The handle keeps the number from being given to another process meanwhile.
        let Ok(handle) = rustix::process::pidfd_open(id, PidfdFlags::empty()) else {
            return false;
        };
        uses(process, source, &own) && rustix::process::pidfd_send_signal(&handle, signal).is_ok()
    });
    ended.map(described).collect()
}

/// Returns whether a process is in another namespace than `own`, and has the view there.
fn uses(process: i32, source: &str, own: &CStr) -> bool {
    let process = process.to_string();
    if namespace(&process).is_none_or(|namespace| *namespace == *own) {
        return false;
    }
    let mounts = process_mounts(&process).unwrap_or_default();
    mounts.iter().any(|mount| mount.source == source)
}

fn described(process: i32) -> String {
    let name = read_process_file(Path::new(&format!("/proc/{process}/comm"))).unwrap_or_default();
    format!("{} ({process})", String::from_utf8_lossy(&name).trim_end())
}

fn process_ids() -> io::Result<Vec<i32>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = Dir::new(rustix::fs::open("/proc", flags, Mode::empty())?)?;
    let entries = directory.filter_map(Result::ok);
    Ok(entries
        .filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_outside_of_a_view_are_never_its_users() {
        // Each namespace has this mount, this process's too.
        assert!(is_visible_here("proc"));
        assert_eq!(users("proc"), [""; 0]);
        let own = namespace("self").unwrap();
        let this = i32::try_from(std::process::id()).unwrap();
        assert!(!uses(this, "proc", &own));
    }
}

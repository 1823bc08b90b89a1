//! Processes that use a view: those in whose table of mounts it stands. This finds daemons and
//! processes that have entered further namespaces too.

use crate::attach::{process_mounts, read_process_file};
use rustix::fs::{Dir, Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::ffi::CString;
use std::io;
use std::path::Path;

/// Returns the users of the view with this source, as `name (process)`.
pub(super) fn users(source: &str) -> Vec<String> {
    let all = process_ids().unwrap_or_default();
    let using = all.into_iter().filter(|&process| uses(process, source));
    using.map(described).collect()
}

/// Sends a signal to all users of a view, and returns them.
pub(super) fn end(source: &str, signal: Signal) -> Vec<String> {
    let all = process_ids().unwrap_or_default();
    let ended = all.into_iter().filter(|&process| {
        let Some(id) = Pid::from_raw(process) else {
            return false;
        };
        // The handle keeps the number from being given to another process meanwhile.
        let Ok(handle) = rustix::process::pidfd_open(id, PidfdFlags::empty()) else {
            return false;
        };
        uses(process, source) && rustix::process::pidfd_send_signal(&handle, signal).is_ok()
    });
    ended.map(described).collect()
}

fn uses(process: i32, source: &str) -> bool {
    // Processes in the namespace of this one are outside of the view, whatever their table shows.
    if namespace(&process.to_string()) == namespace("self") {
        return false;
    }
    let mounts = process_mounts(&process.to_string()).unwrap_or_default();
    mounts.iter().any(|mount| mount.source == source)
}

/// Returns the mount namespace of a process, or `None` if the process has ended.
fn namespace(process: &str) -> Option<CString> {
    let path = format!("/proc/{process}/ns/mnt");
    rustix::fs::readlink(path, Vec::new()).ok()
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

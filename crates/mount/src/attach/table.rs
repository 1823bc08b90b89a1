//! The kernel's table of mounts (`/proc/PID/mountinfo`, described in `proc_pid_mountinfo(5)`).

use rustix::fs::{Mode, OFlags};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountEntry {
    pub(crate) directory: PathBuf,
    /// The numbers of the device, as `major:minor`.
    pub(crate) device: String,
    pub(crate) kind: String,
    pub(crate) source: String,
}

/// Returns the newest mount at a path, in the namespace of a process.
pub(super) fn mounted_at(process: &str, path: &Path) -> Option<MountEntry> {
    let entries = process_mounts(process).ok()?;
    entries.into_iter().rev().find(|entry| entry.directory == path)
}

/// Returns the mounts in the namespace of a process, older ones first.
pub(crate) fn process_mounts(process: &str) -> io::Result<Vec<MountEntry>> {
    let table = read_process_file(Path::new(&format!("/proc/{process}/mountinfo")))?;
    Ok(table.split(|&byte| byte == b'\n').filter_map(parse).collect())
}

/// Reads a whole file that the kernel makes up.
pub(crate) fn read_process_file(path: &Path) -> io::Result<Vec<u8>> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = Vec::new();
    let mut buffer = [0_u8; 16 << 10];
    loop {
        match rustix::io::read(&file, &mut buffer) {
            Ok(0) => return Ok(bytes),
            Ok(length) => bytes.extend_from_slice(&buffer[..length]),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn parse(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|&byte| byte == b' ');
    let device = fields.nth(2)?;
    let directory = fields.nth(1)?;
    fields.find(|&field| field == b"-")?;
    let kind = String::from_utf8_lossy(fields.next()?).into_owned();
    let source = unescape(fields.next()?);
    Some(MountEntry {
        directory: PathBuf::from(OsString::from_vec(unescape(directory))),
        device: String::from_utf8_lossy(device).into_owned(),
        kind,
        source: OsString::from_vec(source).to_string_lossy().into_owned(),
    })
}

/// Replaces `\040` and other octal numbers by the bytes for which they stand.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let octal = after.first_chunk::<3>().filter(|_| first == b'\\');
        let number = octal.and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        match number {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_line_of_the_table_is_taken_apart() {
        let line = br"36 35 98:0 / /mnt/a\040b\134c rw,noatime master:1 - fuse.alluvium my\040store rw";
        let entry = parse(line).unwrap();
        assert_eq!(entry.directory.as_os_str().as_bytes(), br"/mnt/a b\c");
        assert_eq!(
            (entry.device.as_str(), entry.kind.as_str(), entry.source.as_str()),
            ("98:0", "fuse.alluvium", "my store")
        );
    }

    #[test]
    fn lines_that_are_cut_off_are_passed_over() {
        assert_eq!(parse(b"36 35 98:0 / /mnt rw"), None);
        assert_eq!(parse(b""), None);
    }
}

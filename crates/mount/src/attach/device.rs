//! Opening `/dev/fuse` and mounting it.

use super::{KIND, c_string, system};
use crate::error::MountError;
use crate::options::{DeviceFiles, MountAccess, MountOptions, MountWritability};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// The arguments of the call that mounts a device. A forked child may use them: nothing is
/// allocated.
pub(crate) struct KernelMount {
    source: CString,
    directory: CString,
    kind: CString,
    flags: libc::c_ulong,
    /// The options that follow the number of the descriptor.
    options: CString,
}

/// Longest text of options.
const OPTIONS_BYTES: usize = 256;

/// Returns the arguments for a mount on a directory by this user.
pub(crate) fn kernel_mount(directory: &Path, options: &MountOptions) -> Result<KernelMount, MountError> {
    let text = kernel_options(options);
    debug_assert!(text.len() + 32 < OPTIONS_BYTES, "the options are short");
    Ok(KernelMount {
        source: c_string(Path::new(&options.source))?,
        directory: c_string(directory)?,
        kind: c_string(Path::new(KIND))?,
        flags: flags(options),
        options: c_string(Path::new(&text))?,
    })
}

fn kernel_options(options: &MountOptions) -> String {
    let user = rustix::process::geteuid().as_raw();
    let group = rustix::process::getegid().as_raw();
    let others = match options.access {
        MountAccess::Everyone => ",allow_other",
        MountAccess::Owner => "",
    };
    format!(",rootmode=40000,user_id={user},group_id={group},default_permissions{others}")
}

fn flags(options: &MountOptions) -> libc::c_ulong {
    let mut flags = 0;
    if options.writability == MountWritability::ReadOnly {
        flags |= libc::MS_RDONLY;
    }
    if options.devices == DeviceFiles::Ignored || rustix::process::geteuid().as_raw() != 0 {
        flags |= libc::MS_NOSUID | libc::MS_NODEV;
    }
    flags
}

impl KernelMount {
    /// Mounts the device.
    pub(crate) fn mount(&self, device: &OwnedFd) -> io::Result<()> {
        let mut bytes = [0_u8; OPTIONS_BYTES];
        let text = write_options(&mut bytes, device.as_raw_fd(), self.options.as_bytes());
        let text = text.ok_or_else(|| io::Error::from_raw_os_error(libc::E2BIG))?;
        system::mount(&self.source, &self.directory, &self.kind, self.flags, text)
    }

    /// Opens `/dev/fuse`.
    pub(crate) fn open_device() -> io::Result<OwnedFd> {
        system::open_device()
    }
}

/// Writes `fd=…` and the other options into a buffer.
fn write_options<'a>(buffer: &'a mut [u8], descriptor: i32, options: &[u8]) -> Option<&'a CStr> {
    let mut digits = [0_u8; 10];
    let mut first = digits.len();
    let mut number = descriptor;
    loop {
        first -= 1;
        digits[first] = b'0' + u8::try_from(number % 10).ok()?;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    let mut end = 0;
    for part in [b"fd=", &digits[first..], options, b"\0"] {
        buffer.get_mut(end..end + part.len())?.copy_from_slice(part);
        end += part.len();
    }
    CStr::from_bytes_with_nul(&buffer[..end]).ok()
}

/// Opens a device and mounts it.
pub(super) fn open_and_mount(directory: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    let arguments = kernel_mount(directory, options)?;
    let refused = |step| MountError::NotPermitted {
        directory: directory.to_owned(),
        step,
        advice: "run the command as root, or install `fusermount3` (on Debian: apt-get install fuse3)",
    };
    let device = KernelMount::open_device().map_err(|error| match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => MountError::NoDevice,
        Some(libc::EACCES | libc::EPERM) => refused("opening /dev/fuse"),
        _ => super::system_error(directory, "opening /dev/fuse", error),
    })?;
    arguments
        .mount(&device)
        .map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => refused("mounting"),
            Some(libc::ENODEV) => MountError::NoDevice,
            _ => super::system_error(directory, "mounting", error),
        })?;
    Ok(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_begin_with_the_descriptor() {
        let mut buffer = [0_u8; 32];
        for (descriptor, expected) in [
            (0, c"fd=0,a"),
            (7, c"fd=7,a"),
            (2_147_483_647, c"fd=2147483647,a"),
        ] {
            assert_eq!(write_options(&mut buffer, descriptor, b",a"), Some(expected));
        }
        assert_eq!(write_options(&mut buffer[..6], 10, b",a"), None);
    }
}

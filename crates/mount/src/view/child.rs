//! What the forked child does before it becomes the command: it enters a mount namespace, mounts
//! the view there, and hands the device to its parent. Between `fork` and `exec` of a process with
//! threads nothing may be allocated or locked, so everything is prepared before.

use crate::attach::{
    DetachMode, KernelMount, c_string, detach, receive_descriptor, send_descriptor, system_error,
};
use crate::error::MountError;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The parent serves the mount: the child may use it.
pub(super) const CONTINUE: u8 = b'C';

/// The steps of the child, by the byte that reports a failure.
const NAMESPACE: u8 = b'N';
const USERS: u8 = b'U';
const PROPAGATION: u8 = b'P';
const DEVICE: u8 = b'D';
const MOUNT: u8 = b'M';
const WORKING_DIRECTORY: u8 = b'W';

/// Why a child did not become the command.
pub(super) enum ChildFailure {
    /// The child has failed at this step.
    Step(u8),
    /// The parent has failed.
    System(io::Error),
    /// The mount appears outside of the child's namespace.
    Visible,
}

impl ChildFailure {
    /// Describes the failure. `error` is that of the child.
    pub(super) fn into_error(self, directory: &Path, error: Option<io::Error>) -> MountError {
        let byte = match self {
            ChildFailure::System(source) => {
                return system_error(directory, "serving the view", error.unwrap_or(source));
            }
            ChildFailure::Visible => {
                // The directory shows what was there before.
                let hidden = detach(directory, DetachMode::Forced);
                let source = io::Error::other("the view is visible outside of its namespace");
                return hidden
                    .err()
                    .unwrap_or_else(|| system_error(directory, "hiding the view", source));
            }
            ChildFailure::Step(byte) => byte,
        };
        let error = error.unwrap_or_else(|| io::Error::other("the child ended"));
        let step = match byte {
            NAMESPACE => "entering a mount namespace",
            USERS => "mapping the user into a user namespace",
            PROPAGATION => "making the namespace's mounts private",
            DEVICE => "opening /dev/fuse",
            MOUNT => "mounting the view",
            _ => "changing to the working directory in the view",
        };
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES | libc::ENOSPC | libc::EUSERS) if byte != WORKING_DIRECTORY => {
                MountError::NotPermitted {
                    directory: directory.to_owned(),
                    step,
                    advice: "run the command as root, or allow user namespaces (sysctl user.max_user_namespaces, \
                             kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0) and \
                             access to /dev/fuse",
                }
            }
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) if byte == DEVICE || byte == MOUNT => {
                MountError::NoDevice
            }
            _ => system_error(directory, step, error),
        }
    }
}

/// Everything that the child needs to enter its namespace.
pub(super) struct NamespaceEntry {
    mount: KernelMount,
    working: CString,
    socket: OwnedFd,
    /// The parent's end of the socket, of which the child has a copy.
    parent_socket: RawFd,
    /// The user and the group, mapped to themselves: `1000 1000 1`.
    user_map: CString,
    group_map: CString,
}

impl NamespaceEntry {
    pub(super) fn new(
        mount: KernelMount,
        working: &Path,
        (socket, parent_socket): (OwnedFd, BorrowedFd<'_>),
    ) -> Result<NamespaceEntry, MountError> {
        let map = |id: u32| c_string(Path::new(&format!("{id} {id} 1")));
        Ok(NamespaceEntry {
            mount,
            working: c_string(working)?,
            socket,
            parent_socket: parent_socket.as_raw_fd(),
            user_map: map(rustix::process::geteuid().as_raw())?,
            group_map: map(rustix::process::getegid().as_raw())?,
        })
    }

    /// Makes a command enter the namespace before it begins.
    pub(super) fn add_to(self, command: &mut Command) {
        let enter = move || {
            self.enter().map_err(|(step, error)| {
                let number = error.raw_os_error().unwrap_or(libc::EIO);
                // The parent learns of the failure also from `exec` that does not happen.
                let _ = send_descriptor(self.socket.as_fd(), step, None);
                io::Error::from_raw_os_error(number)
            })
        };
        // SAFETY: the closure only makes system calls; it allocates nothing and takes no lock.
        unsafe { command.pre_exec(enter) };
    }

    fn enter(&self) -> Result<(), (u8, io::Error)> {
        let at = |step| move |error| (step, error);
        close_copy(self.parent_socket);
        if unshare(libc::CLONE_NEWNS).is_err() {
            unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS).map_err(at(NAMESPACE))?;
            self.map_users().map_err(at(USERS))?;
        }
        hide_mounts().map_err(at(PROPAGATION))?;
        let device = KernelMount::open_device().map_err(at(DEVICE))?;
        self.mount.mount(&device).map_err(at(MOUNT))?;
        send_descriptor(self.socket.as_fd(), b'F', Some(device.as_fd())).map_err(at(MOUNT))?;
        match receive_descriptor(self.socket.as_fd()).map_err(at(MOUNT))? {
            Some((CONTINUE, _)) => {}
            _ => return Err((MOUNT, io::Error::from_raw_os_error(libc::ENOTCONN))),
        }
        // If the server ends, requests fail only if no other process has the device.
        drop(device);
        change_directory(&self.working).map_err(at(WORKING_DIRECTORY))?;
        die_with_parent().map_err(at(NAMESPACE))
    }

    fn map_users(&self) -> io::Result<()> {
        write_file(c"/proc/self/setgroups", c"deny")?;
        write_file(c"/proc/self/uid_map", &self.user_map)?;
        write_file(c"/proc/self/gid_map", &self.group_map)
    }
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Closes the child's copy of its parent's socket: the child then notices when the parent ends.
fn close_copy(descriptor: RawFd) {
    // SAFETY: the parent owns the descriptor, of which this process has a copy that nothing uses.
    unsafe { libc::close(descriptor) };
}

fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: the call takes no pointers.
    checked(unsafe { libc::unshare(flags) })
}

/// Keeps mounts of this namespace from appearing in others. Those of others still appear here, so
/// that what is mounted on demand works.
fn hide_mounts() -> io::Result<()> {
    let flags = libc::MS_REC | libc::MS_SLAVE;
    // SAFETY: the path ends with a zero byte, and the kernel ignores the null pointers for these
    // flags.
    checked(unsafe {
        libc::mount(
            std::ptr::null(),
            c"/".as_ptr(),
            std::ptr::null(),
            flags,
            std::ptr::null(),
        )
    })
}

fn change_directory(path: &CStr) -> io::Result<()> {
    // SAFETY: the path ends with a zero byte.
    checked(unsafe { libc::chdir(path.as_ptr()) })
}

/// Asks the kernel to kill this process when the thread that forked it ends.
fn die_with_parent() -> io::Result<()> {
    // SAFETY: the call takes no pointers.
    checked(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) })
}

fn write_file(path: &CStr, text: &CStr) -> io::Result<()> {
    let bytes = text.to_bytes();
    // SAFETY: the path ends with a zero byte; the buffer has the given length; the descriptor is
    // closed by the function that opened it.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        checked(file)?;
        let written = libc::write(file, bytes.as_ptr().cast(), bytes.len());
        let result = if written < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        };
        libc::close(file);
        result
    }
}

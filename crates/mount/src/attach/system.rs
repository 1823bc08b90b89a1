//! Calls of the operating system that have no safe interface. Those that a forked child uses
//! allocate nothing.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Returns the error of the last call.
fn last_error() -> io::Error {
    io::Error::last_os_error()
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(last_error()) } else { Ok(result) }
}

/// Calls `mount(2)`. A forked child may call it.
pub(crate) fn mount(
    source: &CStr,
    target: &CStr,
    kind: &CStr,
    flags: libc::c_ulong,
    data: &CStr,
) -> io::Result<()> {
    // SAFETY: all pointers are strings that end with a zero byte and live during the call.
    let result = unsafe {
        libc::mount(
            source.as_ptr(),
            target.as_ptr(),
            kind.as_ptr(),
            flags,
            data.as_ptr().cast(),
        )
    };
    checked(result).map(|_| ())
}

/// Calls `umount2(2)`.
pub(crate) fn unmount(target: &CStr, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: the pointer is a string that ends with a zero byte and lives during the call.
    checked(unsafe { libc::umount2(target.as_ptr(), flags) }).map(|_| ())
}

/// Opens `/dev/fuse`; the next program that this process executes does not get it. A forked child
/// may call it.
pub(crate) fn open_device() -> io::Result<OwnedFd> {
    // SAFETY: the path is a string that ends with a zero byte.
    let descriptor = checked(unsafe { libc::open(c"/dev/fuse".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) })?;
    // SAFETY: the descriptor was opened just now, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Returns another descriptor of a mounted device, from which a further thread reads requests.
pub(crate) fn clone_device(device: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    /// `FUSE_DEV_IOC_CLONE` of `linux/fuse.h`: `_IOR(229, 0, uint32_t)`.
    const CLONE: u32 = 0x8004_e500;
    let clone = open_device()?;
    let mut number = device.as_raw_fd().cast_unsigned();
    // SAFETY: the kernel reads a 32-bit number, which lives during the call.
    checked(unsafe { libc::ioctl(clone.as_raw_fd(), CLONE.into(), &raw mut number) })?;
    Ok(clone)
}

/// Returns two connected sockets that keep messages apart.
pub(crate) fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut pair: [RawFd; 2] = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: the array has space for two descriptors.
    checked(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) })?;
    // SAFETY: the descriptors were made just now, and nothing else owns them.
    Ok(unsafe { (OwnedFd::from_raw_fd(pair[0]), OwnedFd::from_raw_fd(pair[1])) })
}

/// Space for the header and one descriptor of a control message, aligned as the header is.
#[repr(C)]
union ControlBuffer {
    header: libc::cmsghdr,
    bytes: [u8; 64],
}

/// Sends one byte, with a descriptor if there is one. A forked child may call it.
pub(crate) fn send_descriptor(
    socket: BorrowedFd<'_>,
    byte: u8,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut byte = byte;
    let mut part = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    let mut control = ControlBuffer { bytes: [0; 64] };
    // SAFETY: a message header of zeros is valid; its pointers are set to values that live until
    // the call has ended; the control buffer is large enough for one descriptor.
    let sent = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        if let Some(descriptor) = descriptor {
            let bytes = size_of::<RawFd>() as u32;
            message.msg_control = (&raw mut control).cast();
            message.msg_controllen = libc::CMSG_SPACE(bytes) as usize;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(bytes) as usize;
            libc::CMSG_DATA(header)
                .cast::<RawFd>()
                .write_unaligned(descriptor.as_raw_fd());
        }
        libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    if sent < 0 { Err(last_error()) } else { Ok(()) }
}

/// Receives one byte, and the descriptor that came with it. `None` if the other side has closed its
/// socket. A forked child may call it.
pub(crate) fn receive_descriptor(socket: BorrowedFd<'_>) -> io::Result<Option<(u8, Option<OwnedFd>)>> {
    let mut byte = 0_u8;
    let mut part = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    let mut control = ControlBuffer { bytes: [0; 64] };
    loop {
        // SAFETY: a message header of zeros is valid, and its pointers are set to values that live
        // until the call has ended. The kernel writes a valid header or none into the control
        // buffer, and the descriptor in it belongs to this process from then on.
        unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = &raw mut part;
            message.msg_iovlen = 1;
            message.msg_control = (&raw mut control).cast();
            message.msg_controllen = size_of::<ControlBuffer>();
            let received = libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC);
            if received < 0 {
                let error = last_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(error);
            }
            if received == 0 {
                return Ok(None);
            }
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            let is_descriptor = !header.is_null()
                && (*header).cmsg_level == libc::SOL_SOCKET
                && (*header).cmsg_type == libc::SCM_RIGHTS;
            let descriptor = is_descriptor.then(|| {
                let descriptor = libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned();
                OwnedFd::from_raw_fd(descriptor)
            });
            return Ok(Some((byte, descriptor)));
        }
    }
}

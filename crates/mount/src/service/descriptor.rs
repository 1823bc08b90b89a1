//! Descriptors that are sent over a Unix socket.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Sends a descriptor with one byte.
///
/// # Errors
/// Errors of the socket.
pub(super) fn send(stream: &UnixStream, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let descriptors = [descriptor];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("no room for a descriptor in a message"));
    }
    sendmsg(
        stream.as_fd(),
        &[IoSlice::new(&[0])],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// Receives a descriptor and its byte.
///
/// # Errors
/// Errors of the socket; `InvalidData` if no descriptor comes.
pub(super) fn receive(stream: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(
        stream.as_fd(),
        &mut [IoSliceMut::new(&mut byte)],
        &mut control,
        flags,
    )?;
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message
            && let Some(descriptor) = descriptors.next()
        {
            return Ok(descriptor);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        "the request to serve a mount came without its descriptor",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_descriptor_arrives_and_its_absence_is_an_error() {
        let (one, mut other) = UnixStream::pair().unwrap();
        let (mut source, sent) = UnixStream::pair().unwrap();
        send(&one, sent.as_fd()).unwrap();
        drop(sent);
        source.write_all(b"river").unwrap();
        drop(source);
        let mut text = String::new();
        UnixStream::from(receive(&other).unwrap())
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "river");
        other.write_all(b"x").unwrap();
        assert_eq!(receive(&one).unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop(other);
        assert_eq!(receive(&one).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}

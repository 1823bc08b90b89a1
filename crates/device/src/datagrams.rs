//! Datagrams in bursts: many are received, and many sent, by one call of the system.

use std::io;
use std::net::{SocketAddr, UdpSocket};

/// Datagrams with their addresses, whose memory is used again for replies.
///
/// ```
/// use alluvium_device::datagrams::Burst;
/// use std::net::UdpSocket;
/// let (one, other) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
/// one.send_to(b"question", other.local_addr()?)?;
/// let mut burst = Burst::new(8, 2048);
/// assert_eq!(burst.receive(&other)?, 1);
/// assert_eq!(burst.bytes(0), b"question");
/// burst.buffer(0)[..6].copy_from_slice(b"answer");
/// burst.set_length(0, 6);
/// burst.send(&other, 1)?;
/// let mut answer = [0; 16];
/// assert_eq!(one.recv(&mut answer)?, 6);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Burst {
    bytes: Box<[u8]>,
    most_bytes: usize,
    lengths: Box<[usize]>,
    addresses: Box<[Option<SocketAddr>]>,
}

impl Burst {
    /// Returns a burst of at most `most` datagrams of at most `most_bytes` each. What is longer is
    /// cut, so that a length of `most_bytes` may be a part only.
    ///
    /// # Panics
    /// When either is zero.
    #[must_use]
    pub fn new(most: usize, most_bytes: usize) -> Burst {
        assert!(most > 0 && most_bytes > 0, "a burst has datagrams");
        Burst {
            bytes: vec![0; most * most_bytes].into_boxed_slice(),
            most_bytes,
            lengths: vec![0; most].into_boxed_slice(),
            addresses: vec![None; most].into_boxed_slice(),
        }
    }

    /// Returns how many datagrams there may be.
    #[must_use]
    pub fn most(&self) -> usize {
        self.lengths.len()
    }

    /// Returns a datagram.
    #[must_use]
    pub fn bytes(&self, index: usize) -> &[u8] {
        &self.bytes[index * self.most_bytes..][..self.lengths[index]]
    }

    /// Returns all memory of a datagram.
    pub fn buffer(&mut self, index: usize) -> &mut [u8] {
        &mut self.bytes[index * self.most_bytes..][..self.most_bytes]
    }

    /// Sets how long a datagram is. One of no bytes is not sent.
    ///
    /// # Panics
    /// When that is more than its memory.
    pub fn set_length(&mut self, index: usize, bytes: usize) {
        assert!(bytes <= self.most_bytes, "{bytes} of {}", self.most_bytes);
        self.lengths[index] = bytes;
    }

    /// Returns where a datagram came from, or goes to.
    #[must_use]
    pub fn address(&self, index: usize) -> Option<SocketAddr> {
        self.addresses[index]
    }

    /// Sets where a datagram goes to.
    pub fn set_address(&mut self, index: usize, address: SocketAddr) {
        self.addresses[index] = Some(address);
    }

    /// Waits for datagrams, as long as the socket's time-out says, and receives all that are there
    /// by then. Returns how many.
    ///
    /// # Errors
    /// As the system says; `WouldBlock` or `TimedOut` when none came.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        system::receive(self, socket)
    }

    /// Sends the first `count` datagrams. What the system does not take is lost, as datagrams may
    /// be.
    ///
    /// # Errors
    /// As the system says.
    pub fn send(&mut self, socket: &UdpSocket, count: usize) -> io::Result<()> {
        assert!(count <= self.most(), "{count} of {}", self.most());
        system::send(self, socket, count)
    }
}

#[cfg(target_os = "linux")]
mod system {
    use super::Burst;
    use rustix::net::SocketAddrAny;
    use std::io;
    use std::net::{SocketAddr, UdpSocket};
    use std::os::fd::AsRawFd;
    use std::{mem, ptr};

    /// Headers of a burst and what they point to.
    struct Headers {
        names: Vec<libc::sockaddr_storage>,
        parts: Vec<libc::iovec>,
        all: Vec<libc::mmsghdr>,
    }

    impl Headers {
        fn new(most: usize) -> Headers {
            Headers {
                names: Vec::with_capacity(most),
                parts: Vec::with_capacity(most),
                all: Vec::with_capacity(most),
            }
        }

        /// Adds a datagram. Vectors have space for it, so that pointers to their items stay valid.
        fn push(&mut self, bytes: &mut [u8], name: libc::sockaddr_storage, name_len: u32) {
            assert!(self.names.len() < self.names.capacity(), "there is space for it");
            self.names.push(name);
            self.parts.push(libc::iovec {
                iov_base: bytes.as_mut_ptr().cast(),
                iov_len: bytes.len(),
            });
            // SAFETY: all zeros are a header without anything.
            let mut header: libc::mmsghdr = unsafe { mem::zeroed() };
            let last = self.names.len() - 1;
            header.msg_hdr.msg_name = ptr::from_mut(&mut self.names[last]).cast();
            header.msg_hdr.msg_namelen = name_len;
            header.msg_hdr.msg_iov = ptr::from_mut(&mut self.parts[last]);
            header.msg_hdr.msg_iovlen = 1;
            self.all.push(header);
        }
    }

    fn empty_name() -> libc::sockaddr_storage {
        // SAFETY: all zeros are an address of no family.
        unsafe { mem::zeroed() }
    }

    /// Returns the name that the system has for an address, and its length.
    fn name_of(address: SocketAddr) -> (libc::sockaddr_storage, u32) {
        let mut name = empty_name();
        let any = SocketAddrAny::from(address);
        // SAFETY: an address of the network is no longer than the storage, which holds any.
        unsafe {
            ptr::copy_nonoverlapping(
                any.as_ptr().cast::<u8>(),
                ptr::from_mut(&mut name).cast::<u8>(),
                any.addr_len() as usize,
            );
        }
        (name, any.addr_len())
    }

    fn address_of(name: &libc::sockaddr_storage, length: u32) -> Option<SocketAddr> {
        if (length as usize) < size_of::<libc::sa_family_t>() {
            return None;
        }
        // SAFETY: the system has written `length` bytes of an address there, its family among them.
        let any = unsafe { SocketAddrAny::read(ptr::from_ref(name).cast(), length) };
        SocketAddr::try_from(any).ok()
    }

    pub(super) fn receive(burst: &mut Burst, socket: &UdpSocket) -> io::Result<usize> {
        let most = burst.most();
        let mut headers = Headers::new(most);
        let length = size_of::<libc::sockaddr_storage>() as u32;
        for bytes in burst.bytes.chunks_exact_mut(burst.most_bytes) {
            headers.push(bytes, empty_name(), length);
        }
        // SAFETY: each header points to a name and to a part, whose memory is the burst's; all live
        // until the call has returned.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.all.as_mut_ptr(),
                most as u32,
                libc::MSG_WAITFORONE,
                ptr::null_mut(),
            )
        };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        for (index, header) in headers.all.iter().take(count).enumerate() {
            burst.lengths[index] = (header.msg_len as usize).min(burst.most_bytes);
            let length = header.msg_hdr.msg_namelen;
            burst.addresses[index] = address_of(&headers.names[index], length);
        }
        Ok(count)
    }

    pub(super) fn send(burst: &mut Burst, socket: &UdpSocket, count: usize) -> io::Result<()> {
        let mut headers = Headers::new(count);
        let buffers = burst.bytes.chunks_exact_mut(burst.most_bytes);
        for (index, bytes) in buffers.take(count).enumerate() {
            let length = burst.lengths[index];
            if let Some(address) = burst.addresses[index].filter(|_| length > 0) {
                let (name, name_len) = name_of(address);
                headers.push(&mut bytes[..length], name, name_len);
            }
        }
        let mut rest = &mut headers.all[..];
        while !rest.is_empty() {
            // SAFETY: as above, for as many headers as are left.
            let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), rest.as_mut_ptr(), rest.len() as u32, 0) };
            match usize::try_from(sent) {
                Ok(sent) => rest = &mut rest[sent.max(1)..],
                Err(_) => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    // This one is lost; those behind it may go elsewhere.
                    error if rest.len() == 1 => return Err(error),
                    _ => rest = &mut rest[1..],
                },
            }
        }
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::Burst;
    use std::io;
    use std::net::UdpSocket;

    /// One at a time, where the system has no call for several.
    pub(super) fn receive(burst: &mut Burst, socket: &UdpSocket) -> io::Result<usize> {
        let (length, address) = socket.recv_from(burst.buffer(0))?;
        (burst.lengths[0], burst.addresses[0]) = (length, Some(address));
        Ok(1)
    }

    pub(super) fn send(burst: &mut Burst, socket: &UdpSocket, count: usize) -> io::Result<()> {
        for index in 0..count {
            if let Some(address) = burst.addresses[index].filter(|_| burst.lengths[index] > 0) {
                socket.send_to(burst.bytes(index), address)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_burst_comes_back_to_where_each_datagram_came_from() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let clients: Vec<UdpSocket> = (0..5).map(|_| UdpSocket::bind("[::1]:0").unwrap()).collect();
        let six = UdpSocket::bind("[::1]:0").unwrap();
        for (server, clients) in [
            (&six, clients),
            (&server, vec![UdpSocket::bind("127.0.0.1:0").unwrap()]),
        ] {
            let address = server.local_addr().unwrap();
            let timeout = Some(Duration::from_secs(10));
            server.set_read_timeout(timeout).unwrap();
            for (number, client) in clients.iter().enumerate() {
                client.set_read_timeout(timeout).unwrap();
                client.send_to(&vec![number as u8; number + 1], address).unwrap();
            }
            let (mut burst, mut left) = (Burst::new(3, 4), clients.len());
            while left > 0 {
                let count = burst.receive(server).unwrap();
                for index in 0..count {
                    let length = burst.bytes(index).len();
                    burst.buffer(index)[length - 1] += 10;
                }
                burst.send(server, count).unwrap();
                left -= count;
            }
            for (number, client) in clients.iter().enumerate() {
                let mut answer = [0; 16];
                let length = client.recv(&mut answer).unwrap();
                assert_eq!(length, (number + 1).min(4), "longer ones are cut");
                assert_eq!(answer[length - 1], number as u8 + 10);
            }
        }
    }

    #[test]
    fn nothing_comes_in_time_and_nothing_of_no_length_goes() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let mut burst = Burst::new(2, 8);
        burst.set_address(0, socket.local_addr().unwrap());
        burst.send(&socket, 2).unwrap();
        let kind = burst.receive(&socket).unwrap_err().kind();
        assert!(matches!(
            kind,
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
        ));
        assert_eq!(burst.address(1), None);
    }
}

//! Bursts of datagrams, in which one system call receives or sends many.
//!
//! *Scope*: how datagrams pass through the system together. Datagrams of equal length and
//! destination travel as a *train*, which the system processes as one unit (Linux: `UDP_SEGMENT`
//! and `UDP_GRO`), so that most of its work is done once per train.
//!
//! *Must not depend on*: the contents of the datagrams.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod trains;

use std::io;
use std::net::{SocketAddr, UdpSocket};

#[cfg(target_os = "linux")]
use linux as system;

/// Datagrams with their addresses, in memory that is reused for replies.
///
/// ```
/// use alluvium_device::datagrams::DatagramBurst;
/// use std::net::UdpSocket;
/// let (one, other) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
/// one.send_to(b"question", other.local_addr()?)?;
/// let mut burst = DatagramBurst::new(8, 2048);
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
pub struct DatagramBurst {
    bytes: Box<[u8]>,
    most_bytes: usize,
    lengths: Box<[usize]>,
    addresses: Box<[Option<SocketAddr>]>,
    system: system::BurstState,
}

/// Makes a socket receive the datagrams of a train as one unit if the system supports it, which
/// makes [`DatagramBurst::receive`] cheaper. Call this once per socket that receives bursts, and
/// then receive from it only in bursts.
pub fn receive_trains(socket: &UdpSocket) {
    system::receive_trains(socket);
}

impl DatagramBurst {
    /// Creates a burst of up to `most` datagrams of up to `most_bytes` each. Longer datagrams are
    /// truncated, so one of length `most_bytes` may be incomplete.
    ///
    /// # Panics
    /// If either is zero.
    #[must_use]
    pub fn new(most: usize, most_bytes: usize) -> DatagramBurst {
        assert!(most > 0 && most_bytes > 0, "a burst has datagrams");
        DatagramBurst {
            bytes: vec![0; most * most_bytes].into_boxed_slice(),
            most_bytes,
            lengths: vec![0; most].into_boxed_slice(),
            addresses: vec![None; most].into_boxed_slice(),
            system: system::BurstState::new(most),
        }
    }

    /// Returns the capacity in datagrams.
    #[must_use]
    pub fn most(&self) -> usize {
        self.lengths.len()
    }

    /// Returns the bytes of a datagram.
    #[must_use]
    pub fn bytes(&self, index: usize) -> &[u8] {
        &self.bytes[index * self.most_bytes..][..self.lengths[index]]
    }

    /// Returns a datagram's whole buffer.
    pub fn buffer(&mut self, index: usize) -> &mut [u8] {
        &mut self.bytes[index * self.most_bytes..][..self.most_bytes]
    }

    /// Sets the length of a datagram. Empty datagrams are not sent.
    ///
    /// # Panics
    /// If the length exceeds the buffer.
    pub fn set_length(&mut self, index: usize, bytes: usize) {
        assert!(bytes <= self.most_bytes, "{bytes} of {}", self.most_bytes);
        self.lengths[index] = bytes;
    }

    /// Returns a datagram's source or destination address.
    #[must_use]
    pub fn address(&self, index: usize) -> Option<SocketAddr> {
        self.addresses[index]
    }

    /// Sets the destination of a datagram.
    pub fn set_address(&mut self, index: usize, address: SocketAddr) {
        self.addresses[index] = Some(address);
    }

    /// Waits for datagrams until the socket times out, and receives those that have arrived.
    /// Returns their number. Datagrams that do not fit into the burst are returned by the next
    /// call, so a burst belongs to one socket.
    ///
    /// # Errors
    /// I/O errors; `WouldBlock` or `TimedOut` if no datagram arrived.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        system::receive(self, socket)
    }

    /// Sends the first `count` datagrams, in any order. Datagrams that the system refuses are lost,
    /// as UDP permits.
    ///
    /// # Errors
    /// I/O errors.
    pub fn send(&mut self, socket: &UdpSocket, count: usize) -> io::Result<()> {
        assert!(count <= self.most(), "{count} of {}", self.most());
        system::send(self, socket, count)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::Burst;
    use std::io;
    use std::net::UdpSocket;

    #[derive(Debug)]
    pub(super) struct State;

    impl State {
        pub(super) fn new(_most: usize) -> State {
            State
        }
    }

    pub(super) fn receive_trains(_socket: &UdpSocket) {}

    /// Receives one datagram, because the system has no call for several.
    pub(super) fn receive(burst: &mut DatagramBurst, socket: &UdpSocket) -> io::Result<usize> {
        let (length, address) = socket.recv_from(burst.buffer(0))?;
        (burst.lengths[0], burst.addresses[0]) = (length, Some(address));
        Ok(1)
    }

    pub(super) fn send(burst: &mut DatagramBurst, socket: &UdpSocket, count: usize) -> io::Result<()> {
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
            let (mut burst, mut left) = (DatagramBurst::new(3, 4), clients.len());
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
    fn trains_are_received_as_what_was_coupled_and_the_rest_by_the_next_call() {
        let timeout = Some(Duration::from_secs(10));
        let [one, other] = ["127.0.0.1:0"; 2].map(|address| {
            let socket = UdpSocket::bind(address).unwrap();
            socket.set_read_timeout(timeout).unwrap();
            receive_trains(&socket);
            socket
        });
        let plain = UdpSocket::bind("127.0.0.1:0").unwrap();
        plain.set_read_timeout(timeout).unwrap();
        let lengths: Vec<usize> = (0..40).map(|at| [7, 7, 3, 7, 8][at % 5]).collect();
        let mut expected: Vec<Vec<u8>> = Vec::new();
        let mut burst = DatagramBurst::new(lengths.len(), 16);
        for (at, &length) in lengths.iter().enumerate() {
            burst.buffer(at).fill(at as u8);
            burst.set_length(at, length);
            burst.set_address(at, other.local_addr().unwrap());
            expected.push(vec![at as u8; length]);
        }
        burst.send(&one, lengths.len()).unwrap();
        // A burst that can hold only part of a train, and only short datagrams.
        let mut small = DatagramBurst::new(3, 7);
        let mut found = Vec::new();
        while found.len() < expected.len() {
            let count = small.receive(&other).unwrap();
            assert!((1..=3).contains(&count));
            for at in 0..count {
                assert_eq!(small.address(at), Some(one.local_addr().unwrap()));
                found.push(small.bytes(at).to_vec());
            }
        }
        found.sort();
        expected.iter_mut().for_each(|bytes| bytes.truncate(7));
        assert_eq!(found, expected);
        other.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        assert!(small.receive(&other).is_err(), "nothing is left");
        // A socket that does not receive trains still gets their datagrams.
        for at in 0..lengths.len() {
            burst.set_address(at, plain.local_addr().unwrap());
        }
        burst.send(&one, lengths.len()).unwrap();
        let mut buffer = [0; 64];
        for _ in &lengths {
            let length = plain.recv(&mut buffer).unwrap();
            assert_eq!(length, lengths[usize::from(buffer[0])]);
        }
    }

    #[test]
    fn nothing_comes_in_time_and_nothing_of_no_length_goes() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let mut burst = DatagramBurst::new(2, 8);
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

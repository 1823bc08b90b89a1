//! A client of the datagram protocol, which retransmits requests whose replies are lost.

use super::format::{
    self, Datagram, DatagramDirection, DatagramHeader, DatagramOperation, DatagramOutcome, PortDirectory,
    SharedKey,
};
use super::routing::PortRouting;
use super::server::MOST_DATAGRAM;
use alluvium_base::checksum::seeded;
use alluvium_device::datagrams::{DatagramBurst, receive_trains};
use std::io::{Error, ErrorKind, Result};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Maximum number of datagrams sent by one system call.
const BURST: usize = 64;

/// Maximum number of outstanding requests. Must be below the number of request numbers that a port
/// remembers per client.
const WINDOW: usize = 256;

/// How long to wait for a reply before retransmitting the request, and maximum number of
/// transmissions.
const PATIENCE: Duration = Duration::from_millis(20);
const TRIES: u32 = 100;

/// A request to a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramRequest<'a> {
    /// Reads a key's value.
    Get(&'a [u8]),
    /// Sets a key's value, optionally with a time to live.
    Set(&'a [u8], &'a [u8], Option<Duration>),
    Delete(&'a [u8]),
}

/// The parts of a request: its operation, key, value, and time to live.
pub(super) type RequestParts<'a> = (DatagramOperation, &'a [u8], &'a [u8], Option<Duration>);

impl<'a> DatagramRequest<'a> {
    pub(super) fn parts(&self) -> RequestParts<'a> {
        match *self {
            DatagramRequest::Get(key) => (DatagramOperation::Get, key, &[][..], None),
            DatagramRequest::Set(key, value, time) => (DatagramOperation::Set, key, value, time),
            DatagramRequest::Delete(key) => (DatagramOperation::Delete, key, &[][..], None),
        }
    }
}

/// A cache's answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatagramAnswer {
    /// The request succeeded. Contains the value if it was a get.
    Done(Vec<u8>),
    /// The cache has no item with this key.
    Missing,
    /// The item is too large for a datagram or for the cache.
    TooLarge,
}

/// Calls `exchange`, which may deliver the answers to `count` requests in any order, and returns
/// them in request order.
pub(super) fn collect(
    count: usize,
    exchange: impl FnOnce(&mut dyn FnMut(usize, DatagramOutcome, &[u8])) -> Result<()>,
) -> Result<Vec<DatagramAnswer>> {
    let mut answers: Vec<Option<DatagramAnswer>> = vec![None; count];
    exchange(&mut |index, outcome, value| {
        answers[index] = Some(match outcome {
            DatagramOutcome::Done => DatagramAnswer::Done(value.to_vec()),
            DatagramOutcome::Missing => DatagramAnswer::Missing,
            _ => DatagramAnswer::TooLarge,
        });
    })?;
    let all: Option<Vec<DatagramAnswer>> = answers.into_iter().collect();
    Ok(all.expect("every request was answered"))
}

struct OutstandingRequest {
    index: usize,
    hash: u64,
    at: Instant,
    tries: u32,
}

/// Number of bits in the filter of keys with outstanding requests. If two keys map to the same bit,
/// their requests wait for each other.
const KEY_BITS: usize = 1 << 16;

struct UnderWay {
    /// The outstanding requests. A request's slot is its number modulo the number of slots.
    slots: Vec<Option<(u32, OutstandingRequest)>>,
    count: usize,
    /// Index of the next request that has not been sent yet.
    next: usize,
    /// A bitmap with the bits of all keys that have outstanding requests.
    keys: Vec<u64>,
}

impl Default for UnderWay {
    fn default() -> UnderWay {
        UnderWay {
            slots: (0..WINDOW).map(|_| None).collect(),
            count: 0,
            next: 0,
            keys: vec![0; KEY_BITS / 64],
        }
    }
}

impl UnderWay {
    fn has_space(&self, number: u32) -> bool {
        self.slots[number as usize % WINDOW].is_none()
    }

    /// Returns whether a request is outstanding for this key or for another key with the same bit.
    fn has_key(&self, hash: u64) -> bool {
        let bit = hash as usize % KEY_BITS;
        self.keys[bit / 64] >> (bit % 64) & 1 == 1
    }

    fn put(&mut self, number: u32, sent: OutstandingRequest) {
        let bit = sent.hash as usize % KEY_BITS;
        self.keys[bit / 64] |= 1 << (bit % 64);
        self.slots[number as usize % WINDOW] = Some((number, sent));
        self.count += 1;
    }

    /// Removes and returns the outstanding request with this number, or returns `None` if there is
    /// none.
    fn take(&mut self, number: u32) -> Option<OutstandingRequest> {
        let slot = &mut self.slots[number as usize % WINDOW];
        let (_, sent) = slot.take_if(|(found, _)| *found == number)?;
        let bit = sent.hash as usize % KEY_BITS;
        self.keys[bit / 64] &= !(1 << (bit % 64));
        self.count -= 1;
        Some(sent)
    }
}

/// A client of a cache that serves datagrams. It sends each request to its key's port, and
/// retransmits lost requests.
///
/// ```
/// use alluvium_server::{CacheMemory, CacheServer, DatagramAnswer, DatagramClient, DatagramOptions};
/// use alluvium_server::{DatagramRequest, ServerOptions};
/// let server = CacheServer::start(CacheMemory::new(16 << 20), ServerOptions::default())?;
/// let address = server.serve_datagrams(&DatagramOptions::new("127.0.0.1:0".parse().unwrap()))?;
/// let mut client = DatagramClient::connect(address, None)?;
/// let set = DatagramRequest::Set(b"river", b"Rhine", None);
/// let answers = client.execute(&[set, DatagramRequest::Get(b"river")])?;
/// assert_eq!(answers[1], DatagramAnswer::Done(b"Rhine".to_vec()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DatagramClient {
    socket: UdpSocket,
    server: SocketAddr,
    directory: PortDirectory,
    direction: PortRouting,
    key: Option<SharedKey>,
    client: u64,
    sequence: u32,
    since: Instant,
    burst: DatagramBurst,
}

impl DatagramClient {
    /// Connects to a cache by requesting the port directory from its first port. `key` is the
    /// shared key, if the cache requires one.
    ///
    /// # Errors
    /// I/O errors. `TimedOut` if the server does not answer, and `PermissionDenied` if it uses
    /// another shared key.
    pub fn connect(server: SocketAddr, key: Option<&[u8]>) -> Result<DatagramClient> {
        let own = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(own)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        receive_trains(&socket);
        let mut client = DatagramClient {
            socket,
            server,
            directory: PortDirectory {
                seed: 0,
                ports: vec![server.port()],
            },
            direction: PortRouting::Client,
            key: key.map(SharedKey::new),
            client: fastrand::u64(..),
            sequence: fastrand::u32(..),
            since: Instant::now(),
            burst: DatagramBurst::new(BURST, MOST_DATAGRAM),
        };
        let mut told = None;
        let asked = |index| (index == 0).then_some((DatagramOperation::Directory, &b""[..], &b""[..], None));
        client.ask(&asked, |_, _, value| told = PortDirectory::decode(value))?;
        client.directory = told.ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidData,
                "the server sent a port directory that cannot be decoded",
            )
        })?;
        Ok(client)
    }

    /// Sets who routes requests to the port that owns their key. With [`PortRouting::Software`],
    /// the client may send a request to any port, and the server forwards it.
    pub fn set_direction(&mut self, direction: PortRouting) {
        self.direction = direction;
    }

    /// Executes requests and returns their answers in the same order. Requests for the same key are
    /// executed in order, all others in any order. Each request is executed once, even if datagrams
    /// are lost or duplicated.
    ///
    /// # Errors
    /// I/O errors. `TimedOut` if the server does not answer; the client then cannot know which of
    /// the requests were executed.
    pub fn execute(&mut self, requests: &[DatagramRequest<'_>]) -> Result<Vec<DatagramAnswer>> {
        collect(requests.len(), |respond| self.exchange(requests, respond))
    }

    /// Like [`DatagramClient::execute`], but passes each reply to the callback `respond` without
    /// copying the value. The callback's arguments are the request's index, the outcome (done,
    /// missing or too large), and the value.
    ///
    /// # Errors
    /// Returns the errors of [`DatagramClient::execute`].
    pub fn exchange(
        &mut self,
        requests: &[DatagramRequest<'_>],
        respond: impl FnMut(usize, DatagramOutcome, &[u8]),
    ) -> Result<()> {
        self.ask(&|index| requests.get(index).map(DatagramRequest::parts), respond)
    }

    /// Sends requests and passes their replies to `respond`. `asked` returns the request at an
    /// index, or `None` after the last one.
    fn ask<'a>(
        &mut self,
        asked: &dyn Fn(usize) -> Option<RequestParts<'a>>,
        mut respond: impl FnMut(usize, DatagramOutcome, &[u8]),
    ) -> Result<()> {
        let mut way = UnderWay::default();
        let mut looked = Instant::now();
        loop {
            self.send_next(asked, &mut way, &mut respond)?;
            if way.count == 0 {
                return Ok(());
            }
            let count = match self.burst.receive(&self.socket) {
                Ok(count) => count,
                Err(error) if may_come_later(&error) => 0,
                Err(error) => return Err(error),
            };
            for index in 0..count {
                let bytes = self.burst.bytes(index);
                if let Some((sequence, outcome, value)) = self.decode_reply(bytes)?
                    && let Some(done) = way.take(sequence)
                {
                    respond(done.index, outcome, value);
                }
            }
            // Check for overdue replies often, so that retransmissions are hardly delayed.
            if count == 0 || looked.elapsed() > PATIENCE / 4 {
                looked = Instant::now();
                self.send_again(asked, &mut way)?;
            }
        }
    }

    /// Decodes a reply. Returns `None` if the datagram is not a valid reply to this client.
    fn decode_reply<'b>(&self, bytes: &'b [u8]) -> Result<Option<(u32, DatagramOutcome, &'b [u8])>> {
        let Some(Datagram { header, value, .. }) = format::read(bytes) else {
            return Ok(None);
        };
        let DatagramDirection::Reply(outcome) = header.way else {
            return Ok(None);
        };
        if header.client != self.client {
            return Ok(None);
        }
        // Accept denials without a valid tag, because a server with another key cannot compute a
        // tag that this client accepts.
        if outcome != DatagramOutcome::Denied && self.key.as_ref().is_some_and(|key| !key.admits(bytes)) {
            return Ok(None);
        }
        match outcome {
            DatagramOutcome::Done | DatagramOutcome::Missing | DatagramOutcome::TooLarge => {
                Ok(Some((header.sequence, outcome, value)))
            }
            DatagramOutcome::Denied => {
                let why = "the server requires another shared key; use the key of its --datagram-key-file";
                Err(Error::new(ErrorKind::PermissionDenied, why))
            }
            DatagramOutcome::WrongPort | DatagramOutcome::Bad => {
                let why = "the server refused a request as malformed or sent to the wrong port; connect \
                           again to read its ports";
                Err(Error::new(ErrorKind::InvalidData, why))
            }
        }
    }

    /// Sends requests for the first time, in order. Stops at a request whose key already has an
    /// outstanding request, or when too many are outstanding.
    fn send_next<'a>(
        &mut self,
        asked: &dyn Fn(usize) -> Option<RequestParts<'a>>,
        way: &mut UnderWay,
        respond: &mut impl FnMut(usize, DatagramOutcome, &[u8]),
    ) -> Result<()> {
        let (mut count, now) = (0, Instant::now());
        while let Some(parts) = asked(way.next) {
            let hash = seeded(self.directory.seed, parts.1);
            let number = self.sequence.wrapping_add(1);
            if !way.has_space(number) || way.has_key(hash) {
                break;
            }
            self.sequence = number;
            let index = way.next;
            way.next += 1;
            if !self.put(count, &parts, (hash, number), now) {
                respond(index, DatagramOutcome::TooLarge, &[]);
                continue;
            }
            let (at, tries) = (now, 1);
            let sent = OutstandingRequest {
                index,
                hash,
                at,
                tries,
            };
            way.put(number, sent);
            count += 1;
            if count == BURST {
                self.burst.send(&self.socket, count)?;
                count = 0;
            }
        }
        self.burst.send(&self.socket, count)
    }

    /// Retransmits all requests whose replies are overdue.
    fn send_again<'a>(
        &mut self,
        asked: &dyn Fn(usize) -> Option<RequestParts<'a>>,
        way: &mut UnderWay,
    ) -> Result<()> {
        let (mut count, now) = (0, Instant::now());
        for (number, waiting) in way.slots.iter_mut().flatten() {
            if now.saturating_duration_since(waiting.at) < PATIENCE || count == BURST {
                continue;
            }
            if waiting.tries == TRIES {
                let why = "the server did not reply to repeated datagrams; check that it is running and \
                           that its UDP ports are reachable";
                return Err(Error::new(ErrorKind::TimedOut, why));
            }
            let parts = asked(waiting.index).expect("what was sent was asked");
            self.put(count, &parts, (waiting.hash, *number), now);
            (waiting.at, waiting.tries) = (now, waiting.tries + 1);
            count += 1;
        }
        self.burst.send(&self.socket, count)
    }

    /// Encodes a request into the burst to be sent. Returns whether it fits into a datagram.
    fn put(
        &mut self,
        place: usize,
        &(operation, key, value, time): &RequestParts<'_>,
        (hash, sequence): (u64, u32),
        now: Instant,
    ) -> bool {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
        let age = now.saturating_duration_since(self.since);
        let header = DatagramHeader {
            operation,
            way: DatagramDirection::Request,
            sequence,
            client: self.client,
            hash,
            expires_in_ms: time.map_or(0, millis),
            echo: u64::try_from(age.as_nanos()).unwrap_or(u64::MAX),
        };
        let datagram = Datagram { header, key, value };
        let buffer = self.burst.buffer(place);
        let Some(length) = format::write(&datagram, buffer) else {
            return false;
        };
        if let Some(key) = &self.key {
            key.seal(&mut buffer[..length]);
        }
        let mut address = self.server;
        let port = match self.direction {
            PortRouting::Client => self.directory.place(hash),
            // Use other bits of the hash to spread the requests over the ports.
            PortRouting::Software => self.directory.place(hash << 48),
        };
        address.set_port(self.directory.ports[port]);
        self.burst.set_length(place, length);
        self.burst.set_address(place, address);
        true
    }
}

/// Returns whether, after this error, the client should keep waiting for replies.
fn may_come_later(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted | ErrorKind::ConnectionRefused
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(index: usize, hash: u64) -> OutstandingRequest {
        OutstandingRequest {
            index,
            hash,
            at: Instant::now(),
            tries: 1,
        }
    }

    #[test]
    fn a_late_reply_is_not_taken_for_that_to_a_later_request() {
        let mut way = UnderWay::default();
        way.put(7, sent(0, 1));
        assert!(!way.has_space(7 + WINDOW as u32), "the one before waits");
        assert_eq!(way.take(7).unwrap().index, 0);
        assert!(way.take(7).is_none(), "a doubled reply");
        way.put(7 + WINDOW as u32, sent(1, 2));
        assert!(way.take(7).is_none(), "a reply that was long on its way");
        assert_eq!(way.take(7 + WINDOW as u32).unwrap().index, 1);
        assert_eq!(way.count, 0);
    }

    #[test]
    fn requests_about_one_key_wait_for_each_other() {
        let mut way = UnderWay::default();
        way.put(u32::MAX, sent(0, 5));
        assert!(way.has_key(5) && way.has_key(5 + (1 << 16)) && !way.has_key(6));
        way.put(0, sent(1, 6));
        way.take(u32::MAX);
        assert!(!way.has_key(5) && way.has_key(6));
    }
}

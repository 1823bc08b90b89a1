//! A client that sends again what is lost.

use super::direct::Direction;
use super::format::{self, Datagram, Directory, Header, Operation, Outcome, SharedKey, Way};
use super::server::MOST_DATAGRAM;
use alluvium_base::checksum::seeded;
use alluvium_device::datagrams::Burst;
use std::collections::{HashMap, HashSet};
use std::io::{Error, ErrorKind, Result};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Datagrams that are sent by one call.
const BURST: usize = 32;

/// Requests that wait for their replies at most. A port knows more numbers of a client than that.
const WINDOW: usize = 256;

/// How long a reply is waited for before a request is sent again, and how often that is done.
const PATIENCE: Duration = Duration::from_millis(20);
const TRIES: u32 = 100;

/// What is asked of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramRequest<'a> {
    /// The value of a key.
    Get(&'a [u8]),
    /// A key gets a value, for a time if one is said.
    Set(&'a [u8], &'a [u8], Option<Duration>),
    /// A key loses its value.
    Delete(&'a [u8]),
}

impl<'a> DatagramRequest<'a> {
    fn key(&self) -> &'a [u8] {
        match self {
            DatagramRequest::Get(key) | DatagramRequest::Set(key, ..) | DatagramRequest::Delete(key) => key,
        }
    }
}

/// What a cache answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatagramAnswer {
    /// It was done; of a get, with the value.
    Done(Vec<u8>),
    /// The key has no value.
    Missing,
    /// The item is too large for a datagram or for the cache.
    TooLarge,
}

/// A request that waits for its reply.
struct Sent {
    index: usize,
    at: Instant,
    tries: u32,
}

/// A client of a cache that serves datagrams. It finds the port that has a key by itself, and sends
/// again what is lost.
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
    directory: Directory,
    direction: Direction,
    key: Option<SharedKey>,
    client: u64,
    sequence: u32,
    since: Instant,
    burst: Burst,
}

impl DatagramClient {
    /// Asks the first port of a cache which others there are.
    ///
    /// # Errors
    /// As the system says; `TimedOut` when nothing answers, `PermissionDenied` for another shared
    /// key.
    pub fn connect(server: SocketAddr, key: Option<&[u8]>) -> Result<DatagramClient> {
        let own = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(own)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut client = DatagramClient {
            socket,
            server,
            directory: Directory {
                seed: 0,
                ports: vec![server.port()],
            },
            direction: Direction::Client,
            key: key.map(SharedKey::new),
            client: fastrand::u64(..),
            sequence: fastrand::u32(..),
            since: Instant::now(),
            burst: Burst::new(BURST, MOST_DATAGRAM),
        };
        let told = client.exchange(&[(Operation::Directory, b"", b"", None)])?;
        let Some(DatagramAnswer::Done(bytes)) = told.into_iter().next() else {
            return Err(Error::new(
                ErrorKind::InvalidData,
                "the server tells no directory",
            ));
        };
        client.directory = Directory::decode(&bytes).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidData,
                "the directory of the server cannot be read",
            )
        })?;
        Ok(client)
    }

    /// Says who finds the port that has a key. With [`Direction::Software`] requests go to any of
    /// the ports: the server has to hand them over.
    pub fn set_direction(&mut self, direction: Direction) {
        self.direction = direction;
    }

    /// Has the cache execute requests. Those about one key are executed in their order, others in
    /// any. Each is executed once, whatever is lost or doubled on the way.
    ///
    /// # Errors
    /// As the system says; `TimedOut` when the server does not answer: then it is not known which
    /// of the requests were executed.
    pub fn execute(&mut self, requests: &[DatagramRequest<'_>]) -> Result<Vec<DatagramAnswer>> {
        let asked: Vec<Asked<'_>> = requests.iter().map(DatagramRequest::parts).collect();
        debug_assert!(
            asked
                .iter()
                .zip(requests)
                .all(|(asked, request)| asked.1 == request.key())
        );
        self.exchange(&asked)
    }

    fn exchange(&mut self, asked: &[Asked<'_>]) -> Result<Vec<DatagramAnswer>> {
        let mut answers: Vec<Option<DatagramAnswer>> = vec![None; asked.len()];
        let mut left: Vec<usize> = (0..asked.len()).rev().collect();
        let mut sent: HashMap<u32, Sent> = HashMap::new();
        let mut busy: HashSet<&[u8]> = HashSet::new();
        while !left.is_empty() || !sent.is_empty() {
            self.send_next(asked, &mut left, &mut sent, &mut busy, &mut answers)?;
            self.send_again(asked, &mut sent)?;
            if sent.is_empty() {
                continue;
            }
            let count = match self.burst.receive(&self.socket) {
                Ok(count) => count,
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock
                            | ErrorKind::TimedOut
                            | ErrorKind::Interrupted
                            | ErrorKind::ConnectionRefused
                    ) =>
                {
                    0
                }
                Err(error) => return Err(error),
            };
            for index in 0..count {
                let bytes = self.burst.bytes(index);
                if let Some((sequence, answer)) = self.understand(bytes)?
                    && let Some(done) = sent.remove(&sequence)
                {
                    busy.remove(asked[done.index].1);
                    answers[done.index] = Some(answer);
                }
            }
        }
        let all: Option<Vec<DatagramAnswer>> = answers.into_iter().collect();
        Ok(all.expect("every request was answered"))
    }

    /// Reads a reply; nothing if it is none of this client.
    fn understand(&self, bytes: &[u8]) -> Result<Option<(u32, DatagramAnswer)>> {
        let Some(Datagram { header, value, .. }) = format::read(bytes) else {
            return Ok(None);
        };
        let Way::Reply(outcome) = header.way else {
            return Ok(None);
        };
        if header.client != self.client {
            return Ok(None);
        }
        // That it was refused cannot be proved to a client with another key: so it is believed.
        if outcome != Outcome::Denied && self.key.as_ref().is_some_and(|key| !key.admits(bytes)) {
            return Ok(None);
        }
        let answer = match outcome {
            Outcome::Done => DatagramAnswer::Done(value.to_vec()),
            Outcome::Missing => DatagramAnswer::Missing,
            Outcome::TooLarge => DatagramAnswer::TooLarge,
            Outcome::Denied => {
                let why = "the server has another shared key";
                return Err(Error::new(ErrorKind::PermissionDenied, why));
            }
            Outcome::WrongPort | Outcome::Bad => {
                let why = "the server has other ports than its directory said: connect again";
                return Err(Error::new(ErrorKind::InvalidData, why));
            }
        };
        Ok(Some((header.sequence, answer)))
    }

    /// Sends requests that were not sent yet, as far as none about their key waits.
    fn send_next<'a>(
        &mut self,
        asked: &[Asked<'a>],
        left: &mut Vec<usize>,
        sent: &mut HashMap<u32, Sent>,
        busy: &mut HashSet<&'a [u8]>,
        answers: &mut [Option<DatagramAnswer>],
    ) -> Result<()> {
        let mut count = 0;
        while let Some(&index) = left.last()
            && sent.len() < WINDOW
            && busy.insert(asked[index].1)
        {
            left.pop();
            self.sequence = self.sequence.wrapping_add(1);
            let number = self.sequence;
            if !self.put(count, &asked[index], number) {
                busy.remove(asked[index].1);
                answers[index] = Some(DatagramAnswer::TooLarge);
                continue;
            }
            let at = Instant::now();
            sent.insert(number, Sent { index, at, tries: 1 });
            count += 1;
            if count == BURST {
                self.burst.send(&self.socket, count)?;
                count = 0;
            }
        }
        self.burst.send(&self.socket, count)
    }

    /// Sends requests again whose replies did not come in time.
    fn send_again(&mut self, asked: &[Asked<'_>], sent: &mut HashMap<u32, Sent>) -> Result<()> {
        let mut count = 0;
        for (&number, waiting) in sent.iter_mut() {
            if waiting.at.elapsed() < PATIENCE || count == BURST {
                continue;
            }
            if waiting.tries == TRIES {
                let why = "the server does not answer datagrams";
                return Err(Error::new(ErrorKind::TimedOut, why));
            }
            self.put(count, &asked[waiting.index], number);
            (waiting.at, waiting.tries) = (Instant::now(), waiting.tries + 1);
            count += 1;
        }
        self.burst.send(&self.socket, count)
    }

    /// Puts a request into the burst. Returns whether it fits.
    fn put(&mut self, place: usize, asked: &Asked<'_>, sequence: u32) -> bool {
        let &(operation, key, value, time) = asked;
        let hash = seeded(self.directory.seed, key);
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
        let header = Header {
            operation,
            way: Way::Request,
            sequence,
            client: self.client,
            hash,
            expires_in_ms: time.map_or(0, millis),
            echo: u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX),
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
            Direction::Client => self.directory.place(hash),
            // Another part of the hash: any port.
            Direction::Software => self.directory.place(hash << 48),
        };
        address.set_port(self.directory.ports[port]);
        self.burst.set_length(place, length);
        self.burst.set_address(place, address);
        true
    }
}

/// A request as it is sent: what, the key, the value, for how long.
type Asked<'a> = (Operation, &'a [u8], &'a [u8], Option<Duration>);

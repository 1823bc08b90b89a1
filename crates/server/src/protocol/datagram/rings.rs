//! Serves datagrams without a network: clients are threads of the same process and exchange frames
//! with the ports through ring buffers. This shows the cost of requests without the operating
//! system's share.

use super::client::{DatagramAnswer, DatagramRequest, collect};
use super::format::{self, Datagram, DatagramDirection, DatagramHeader, DatagramOutcome, PortDirectory};
use super::port::DatagramPort;
use super::routing::{BURST, PortForwarder, PortRouting, PortWaker, pause};
use crate::cache::CacheContext;
use crate::error::{Error, Result};
use alluvium_base::checksum::seeded;
use alluvium_hashes::mica::{RingRequester, RingResponder, ring};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Maximum number of ports, and also of clients.
const MOST: usize = 256;

/// Maximum number of a client's outstanding requests that may be reordered: the number of request
/// numbers that a port remembers per client.
const MOST_UNDER_WAY: usize = super::deduplication::KNOWN as usize;

/// Number of consecutive idle polls after which a port sleeps between polls, and the duration of
/// each sleep.
const IDLE_TURNS: u32 = 20_000;
const SLEEP: Duration = Duration::from_micros(50);

/// Options for connecting threads of this process to a cache through ring buffers.
///
/// ```
/// use alluvium_server::RingOptions;
/// assert_eq!(RingOptions::new(2, 1).frames, 128);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingOptions {
    /// Number of ports, each with a thread.
    pub ports: usize,
    /// Number of clients, each with a ring to every port.
    pub clients: usize,
    /// Maximum number of requests in a ring.
    pub frames: usize,
    /// Maximum size of a request or a reply in bytes, including the 64-byte header.
    pub frame_bytes: usize,
    /// Who routes requests to the port that owns their key.
    pub direction: PortRouting,
}

impl RingOptions {
    /// Returns options suitable for items of up to about 2 KB.
    #[must_use]
    pub fn new(ports: usize, clients: usize) -> RingOptions {
        RingOptions {
            ports,
            clients,
            frames: 128,
            frame_bytes: 2048,
            direction: PortRouting::default(),
        }
    }

    fn check(&self) -> Result<()> {
        let refuse = |why: String| Err(Error::Cache { why });
        for (what, count) in [("ports", self.ports), ("clients", self.clients)] {
            if !(1..=MOST).contains(&count) {
                return refuse(format!("{count} ring {what} were requested; choose 1 to {MOST}"));
            }
        }
        if !(1..=1 << 16).contains(&self.frames) {
            return refuse(format!(
                "a ring cannot have {} frames; choose 1 to 65536",
                self.frames
            ));
        }
        let under_way = self.frames * self.ports;
        if self.direction == PortRouting::Software && under_way > MOST_UNDER_WAY {
            return refuse(format!(
                "a client would have {under_way} frames in {} rings; with routing in software choose at \
                 most {MOST_UNDER_WAY} in all",
                self.ports
            ));
        }
        if !(format::HEADER..=1 << 20).contains(&self.frame_bytes) {
            return refuse(format!(
                "a frame cannot have {} bytes; choose {} to 1048576",
                self.frame_bytes,
                format::HEADER
            ));
        }
        Ok(())
    }
}

/// The ports and their threads, which serve rings until they are stopped.
pub(crate) struct RingServer {
    is_stopping: Arc<AtomicBool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl RingServer {
    /// Starts the ports. Returns the server and the configured number of clients.
    ///
    /// # Errors
    /// [`Error::Cache`] if the options are invalid; I/O errors.
    pub(crate) fn start(
        cached: &Arc<CacheContext>,
        options: &RingOptions,
    ) -> Result<(RingServer, Vec<RingClient>)> {
        options.check()?;
        let directory = Arc::new(PortDirectory {
            seed: fastrand::u64(..),
            ports: (0..options.ports as u16).collect(),
        });
        let mut clients: Vec<RingClient> = (0..options.clients)
            .map(|_| RingClient::new(&directory, options.direction))
            .collect();
        let bells: Vec<PortWaker> = (0..options.ports).map(|_| PortWaker::new(None)).collect();
        let mut ways = match options.direction {
            PortRouting::Client => Vec::new(),
            PortRouting::Software => PortForwarder::between(&bells, options.frame_bytes),
        }
        .into_iter();
        let rings = RingServer {
            is_stopping: Arc::default(),
            threads: Mutex::default(),
        };
        for place in 0..options.ports {
            let mut answerers = Vec::new();
            for client in &mut clients {
                let (asker, answerer) = ring(options.frames, options.frame_bytes);
                client.ways.push(asker);
                client.waiting.push(VecDeque::with_capacity(options.frames));
                answerers.push(answerer);
            }
            let served = RingPort {
                port: DatagramPort::new(&directory, place, None),
                others: ways.next(),
                answerers,
            };
            let (cached, is_stopping) = (Arc::clone(cached), Arc::clone(&rings.is_stopping));
            let thread = std::thread::Builder::new()
                .name("alluvium-ring".to_owned())
                .spawn(move || served.run(&cached, &is_stopping))?;
            rings.threads.lock().push(thread);
        }
        Ok((rings, clients))
    }
}

impl Drop for RingServer {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Release);
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("the thread of a ring port has panicked");
            }
        }
    }
}

/// A port and its ends of the rings that deliver requests to it.
struct RingPort {
    port: DatagramPort,
    others: Option<PortForwarder>,
    answerers: Vec<RingResponder>,
}

impl RingPort {
    /// Serves requests until the server is stopped.
    fn run(mut self, cached: &CacheContext, is_stopping: &AtomicBool) {
        let mut turns = 0;
        while !is_stopping.load(Ordering::Acquire) {
            let mut has_served = false;
            for answerer in &mut self.answerers {
                let count = answerer.poll().min(BURST);
                if count == 0 {
                    continue;
                }
                match &mut self.others {
                    Some(others) => {
                        let (port, content) = (&mut self.port, &cached.content);
                        others.execute(port, content, answerer, count, None, is_stopping);
                    }
                    None => self.port.execute(&cached.content, answerer, count),
                }
                answerer.publish(count);
                let commands = &cached.common.counters.commands;
                commands.fetch_add(count as u64, Ordering::Relaxed);
                has_served = true;
            }
            if let Some(others) = &mut self.others {
                has_served |= others.serve(&mut self.port, &cached.content);
            }
            if has_served {
                turns = 0;
                continue;
            }
            self.answerers.retain(|answerer| !answerer.is_disconnected());
            pause(&mut turns);
            if turns > IDLE_TURNS {
                std::thread::sleep(SLEEP);
            }
        }
    }
}

/// A client of a cache in the same process, connected through ring buffers.
///
/// ```
/// use alluvium_server::{CacheMemory, CacheServer, DatagramAnswer, DatagramRequest};
/// use alluvium_server::{RingOptions, ServerOptions};
/// let server = CacheServer::start(CacheMemory::new(16 << 20), ServerOptions::default())?;
/// let mut client = server.serve_rings(&RingOptions::new(2, 1))?.remove(0);
/// let set = DatagramRequest::Set(b"river", b"Rhine", None);
/// let answers = client.execute(&[set, DatagramRequest::Get(b"river")])?;
/// assert_eq!(answers[1], DatagramAnswer::Done(b"Rhine".to_vec()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RingClient {
    ways: Vec<RingRequester>,
    /// For each ring, the indexes of its outstanding requests, oldest first. A ring returns replies
    /// in request order.
    waiting: Vec<VecDeque<usize>>,
    directory: Arc<PortDirectory>,
    direction: PortRouting,
    client: u64,
    sequence: u32,
}

impl RingClient {
    fn new(directory: &Arc<PortDirectory>, direction: PortRouting) -> RingClient {
        RingClient {
            ways: Vec::new(),
            waiting: Vec::new(),
            directory: Arc::clone(directory),
            direction,
            client: fastrand::u64(..),
            sequence: fastrand::u32(..),
        }
    }

    /// Executes requests and returns their answers in the same order. Requests for the same key are
    /// executed in order.
    ///
    /// # Errors
    /// `ConnectionAborted` if the server has stopped; the client then cannot know which of the
    /// requests were executed.
    pub fn execute(&mut self, requests: &[DatagramRequest<'_>]) -> std::io::Result<Vec<DatagramAnswer>> {
        collect(requests.len(), |respond| self.exchange(requests, respond))
    }

    /// Like [`RingClient::execute`], but passes each reply to the callback `respond` without
    /// copying the value. The callback's arguments are the request's index, the outcome, and the
    /// value.
    ///
    /// # Errors
    /// Returns the errors of [`RingClient::execute`].
    pub fn exchange(
        &mut self,
        requests: &[DatagramRequest<'_>],
        mut respond: impl FnMut(usize, DatagramOutcome, &[u8]),
    ) -> std::io::Result<()> {
        let (mut next, mut done, mut turns) = (0, 0, 0);
        while done < requests.len() {
            let before = (next, done);
            while let Some(request) = requests.get(next)
                && let Some(fits) = self.write(request, next)
            {
                if !fits {
                    respond(next, DatagramOutcome::TooLarge, &[]);
                    done += 1;
                }
                next += 1;
            }
            self.ways.iter_mut().for_each(RingRequester::send);
            for (way, waiting) in self.ways.iter_mut().zip(&mut self.waiting) {
                let count = way.poll();
                for at in 0..count {
                    let index = waiting.pop_front().expect("what was answered was asked");
                    let (outcome, value) = decode_reply(way.reply(at))?;
                    respond(index, outcome, value);
                }
                way.take(count);
                done += count;
            }
            if before == (next, done) {
                if self.ways.iter().any(RingRequester::is_disconnected) {
                    return Err(stopped());
                }
                pause(&mut turns);
            } else {
                turns = 0;
            }
        }
        Ok(())
    }

    /// Writes a request to its port's ring. Returns whether the request fits into a frame, or
    /// `None` if the ring is full.
    fn write(&mut self, request: &DatagramRequest<'_>, index: usize) -> Option<bool> {
        let (operation, key, value, time) = request.parts();
        let hash = seeded(self.directory.seed, key);
        let place = match self.direction {
            PortRouting::Client => self.directory.place(hash),
            // Send the request to an arbitrary port, but always the same one for a key, so that the
            // key's requests stay in order.
            PortRouting::Software => self.directory.place(hash << 48),
        };
        let frame = self.ways[place].next_frame()?;
        self.sequence = self.sequence.wrapping_add(1);
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
        let header = DatagramHeader {
            operation,
            way: DatagramDirection::Request,
            sequence: self.sequence,
            client: self.client,
            hash,
            expires_in_ms: time.map_or(0, millis),
            echo: 0,
        };
        let datagram = Datagram { header, key, value };
        if let Some(length) = format::write(&datagram, frame.buffer()) {
            frame.set_length(length);
            self.waiting[place].push_back(index);
            return Some(true);
        }
        self.ways[place].cancel_frame();
        Some(false)
    }
}

fn stopped() -> std::io::Error {
    let why = "the cache has stopped";
    std::io::Error::new(std::io::ErrorKind::ConnectionAborted, why)
}

fn decode_reply(bytes: &[u8]) -> std::io::Result<(DatagramOutcome, &[u8])> {
    match format::read(bytes) {
        Some(Datagram {
            header:
                DatagramHeader {
                    way: DatagramDirection::Reply(outcome),
                    ..
                },
            value,
            ..
        }) if matches!(
            outcome,
            DatagramOutcome::Done | DatagramOutcome::Missing | DatagramOutcome::TooLarge
        ) =>
        {
            Ok((outcome, value))
        }
        // This client's requests are always valid, and a port omits a reply only while it stops.
        _ => Err(stopped()),
    }
}

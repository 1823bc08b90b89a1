//! A client's connections to a server. Each connection sends a fixed number of pipelined requests
//! as soon as all previous ones have been answered.

use super::protocol::{ServerProtocol, ServerReply};
use crate::account::latency::PhaseRecorder;
use crate::workload::choose::{RecordChooser, RecordDistribution};
use crate::workload::keys::{KeyOrdering, RecordKey, scatter};
use crate::workload::phase::WindowLength;
use crate::workload::values::ValueGenerator;
use anyhow::{Context, Result, bail};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    Load,
    /// Overwrites existing records, all equally likely.
    Set,
    /// Reads existing records, all equally likely.
    Get,
}

/// A client program that opens many connections to a server.
#[derive(Clone, Debug)]
pub struct LoadClient {
    pub address: SocketAddr,
    pub protocol: ServerProtocol,
    /// Total number of connections, over all threads.
    pub connections: usize,
    /// Number of requests that a connection sends at a time.
    pub depth: usize,
    /// Number of threads that serve the connections.
    pub threads: usize,
    pub records: u64,
    /// Length of a value in bytes.
    pub value_bytes: usize,
    /// Seed from which each thread derives its own.
    pub seed: u64,
    /// Length of a throughput interval.
    pub interval: Duration,
}

/// The result of running the client.
#[derive(Debug)]
pub struct LoadResult {
    /// Latencies, each measured from the sending of a request's pipeline to the arrival of the
    /// request's reply.
    pub recorder: PhaseRecorder,
    pub seconds: f64,
}

/// One in this number of values is compared completely with the expected one.
const PROVE_EVERY: u64 = 8;

/// Maximum time for which a server may send nothing.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a thread checks its state while no data arrives.
const TICK: Duration = Duration::from_millis(100);

/// State that all threads of the client share.
struct LoadRun<'a> {
    client: &'a LoadClient,
    kind: RequestKind,
    start: Instant,
    deadline: Option<Instant>,
    operations: u64,
    issued: AtomicU64,
    is_over: AtomicBool,
    is_stopped: &'a (dyn Fn() -> bool + Sync),
}

impl LoadClient {
    /// Sends requests for the given amount, or until every record is written if they load records.
    ///
    /// # Errors
    /// Returns an error if the server reports an error, sends a wrong reply, or does not reply.
    pub fn run_load(
        &self,
        kind: RequestKind,
        amount: WindowLength,
        is_stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<LoadResult> {
        let start = Instant::now();
        let (deadline, operations) = match (kind, amount) {
            (RequestKind::Load, _) => (None, self.records),
            (_, WindowLength::Operations(operations)) => (None, operations),
            (_, WindowLength::Milliseconds(ms)) => (Some(start + Duration::from_millis(ms)), u64::MAX),
        };
        let shared = LoadRun {
            client: self,
            kind,
            start,
            deadline,
            operations,
            issued: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            is_stopped,
        };
        let recorders = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads)
                .map(|thread| {
                    let shared = &shared;
                    scope.spawn(move || {
                        let done = shared.drive(thread);
                        if done.is_err() {
                            shared.is_over.store(true, Ordering::Relaxed);
                        }
                        done
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("a client does not panic"))
                .collect::<Result<Vec<_>>>()
        })?;
        let seconds = start.elapsed().as_secs_f64();
        let mut sum = PhaseRecorder::new(start, self.interval);
        for recorder in &recorders {
            sum.add(recorder);
        }
        Ok(LoadResult {
            recorder: sum,
            seconds,
        })
    }
}

impl LoadRun<'_> {
    /// The main function of a thread, which serves its share of the connections.
    fn drive(&self, thread: usize) -> Result<PhaseRecorder> {
        let client = self.client;
        let at = |thread: usize| client.connections * thread / client.threads;
        let mut poll = Poll::new().context("creating a poll")?;
        let mut connections = Vec::new();
        for place in 0..at(thread + 1) - at(thread) {
            let mut connection = LoadConnection::open(client)?;
            poll.registry()
                .register(
                    &mut connection.stream,
                    Token(place),
                    Interest::READABLE | Interest::WRITABLE,
                )
                .context("registering a connection")?;
            connections.push(connection);
        }
        let mut teller = LoadThread {
            random: fastrand::Rng::with_seed(scatter(client.seed ^ scatter(thread as u64))),
            chooser: RecordChooser::new(RecordDistribution::Uniform, client.records),
            value: vec![0; client.value_bytes],
            recorder: PhaseRecorder::new(self.start, client.interval),
            answered: 0,
        };
        let mut asking = 0;
        for connection in &mut connections {
            if connection.begin(self, &mut teller)? {
                asking += 1;
            }
        }
        let mut events = Events::with_capacity(256);
        let mut heard = Instant::now();
        while asking > 0 {
            match poll.poll(&mut events, Some(TICK)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                done => done.context("waiting for replies")?,
            }
            if (self.is_stopped)() || self.is_over.load(Ordering::Relaxed) {
                break;
            }
            if events.is_empty() && heard.elapsed() > PATIENCE {
                bail!("the server has not answered for {} s", PATIENCE.as_secs());
            }
            for event in &events {
                heard = Instant::now();
                if !connections[event.token().0].handle_ready(self, &mut teller)? {
                    asking -= 1;
                }
            }
        }
        Ok(teller.recorder)
    }

    /// Returns the numbers of the requests to send next, or an empty range if there are no more.
    fn next(&self, now: Instant) -> std::ops::Range<u64> {
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            return 0..0;
        }
        let depth = self.client.depth as u64;
        let first = self.issued.fetch_add(depth, Ordering::Relaxed);
        first..first.saturating_add(depth).min(self.operations)
    }
}

/// The state of a thread.
struct LoadThread {
    random: fastrand::Rng,
    chooser: RecordChooser,
    value: Vec<u8>,
    recorder: PhaseRecorder,
    answered: u64,
}

/// A connection and its pipeline of sent requests.
struct LoadConnection {
    stream: TcpStream,
    request: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    /// The keys of the sent requests, and how many of these have been answered.
    keys: Vec<RecordKey>,
    answered: usize,
    began: Instant,
}

/// Maximum number of bytes read from a socket at once.
const READ: usize = 64 << 10;

impl LoadConnection {
    fn open(client: &LoadClient) -> Result<LoadConnection> {
        let open = || -> std::io::Result<TcpStream> {
            let stream = std::net::TcpStream::connect(client.address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            Ok(TcpStream::from_std(stream))
        };
        Ok(LoadConnection {
            stream: open().with_context(|| format!("connecting to {}", client.address))?,
            request: Vec::new(),
            sent: 0,
            received: Vec::new(),
            keys: Vec::with_capacity(client.depth),
            answered: 0,
            began: Instant::now(),
        })
    }

    /// Sends the next requests of a connection. Returns false if there are no more requests.
    fn begin(&mut self, shared: &LoadRun<'_>, teller: &mut LoadThread) -> Result<bool> {
        let client = shared.client;
        self.request.clear();
        self.keys.clear();
        (self.sent, self.answered) = (0, 0);
        for number in shared.next(Instant::now()) {
            let record = match shared.kind {
                RequestKind::Load => number,
                RequestKind::Set | RequestKind::Get => {
                    teller.chooser.draw(&mut teller.random, client.records)
                }
            };
            let key = KeyOrdering::default().of(record);
            if shared.kind == RequestKind::Get {
                client.protocol.get(&mut self.request, &key);
            } else {
                ValueGenerator::fill(&mut teller.value, &key, teller.random.u64(..));
                client.protocol.set(&mut self.request, &key, &teller.value);
            }
            self.keys.push(key);
        }
        self.began = Instant::now();
        self.send()?;
        Ok(!self.keys.is_empty())
    }

    fn send(&mut self) -> Result<()> {
        while self.sent < self.request.len() {
            match self.stream.write(&self.request[self.sent..]) {
                Ok(0) => bail!("the server has closed a connection"),
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("sending requests"),
            }
        }
        Ok(())
    }

    /// Called when the socket is ready. Sends pending data, processes received data, and sends the
    /// next requests once all earlier ones have been answered. Returns whether the connection is
    /// still active.
    fn handle_ready(&mut self, shared: &LoadRun<'_>, teller: &mut LoadThread) -> Result<bool> {
        if self.keys.is_empty() {
            // The connection had already ended, and was counted then.
            return Ok(true);
        }
        self.send()?;
        loop {
            let len = self.received.len();
            self.received.resize(len + READ, 0);
            let read = self.stream.read(&mut self.received[len..]);
            self.received
                .truncate(len + read.as_ref().map_or(0, |&read| read));
            match read {
                Ok(0) => bail!("the server has closed a connection"),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).context("reading replies"),
            }
            self.take(shared, teller)?;
            if self.answered == self.keys.len() && !self.begin(shared, teller)? {
                return Ok(false);
            }
        }
    }

    /// Processes all complete replies. Returns an error at the first wrong one.
    fn take(&mut self, shared: &LoadRun<'_>, teller: &mut LoadThread) -> Result<()> {
        let now = Instant::now();
        let mut start = 0;
        while self.answered < self.keys.len() {
            let received = &self.received[start..];
            let Some((len, reply)) = shared.client.protocol.reply(received)? else {
                break;
            };
            self.prove(shared, teller, &reply, received)?;
            teller.recorder.record(self.began, now);
            self.answered += 1;
            start += len;
        }
        self.received.drain(..start);
        if self.answered == self.keys.len() && !self.received.is_empty() {
            bail!("the server has sent more replies than requests");
        }
        Ok(())
    }

    fn prove(
        &self,
        shared: &LoadRun<'_>,
        teller: &mut LoadThread,
        reply: &ServerReply,
        received: &[u8],
    ) -> Result<()> {
        let key = &self.keys[self.answered];
        match (shared.kind, reply) {
            (RequestKind::Load | RequestKind::Set, ServerReply::Stored) => return Ok(()),
            (RequestKind::Get, ServerReply::Value(range)) => {
                teller.answered += 1;
                let value = &received[range.clone()];
                let is_proven =
                    !teller.answered.is_multiple_of(PROVE_EVERY) || ValueGenerator::is_of(value, key);
                if value.len() == shared.client.value_bytes && is_proven {
                    return Ok(());
                }
            }
            _ => {}
        }
        bail!(
            "{:?} of {}: a wrong answer, {reply:?}",
            shared.kind,
            String::from_utf8_lossy(key)
        )
    }
}

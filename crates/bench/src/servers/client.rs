//! Connections that ask a server. Each sends a fixed number of requests at a time, as soon as those
//! before are answered.

use super::protocol::{Protocol, Reply};
use crate::account::latency::Recorder;
use crate::workload::choose::{Chooser, Distribution};
use crate::workload::keys::{Key, Keys, scatter};
use crate::workload::phase::Amount;
use crate::workload::values::Values;
use anyhow::{Context, Result, bail};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Every record is set once.
    Load,
    /// Records are set, each as often as any other.
    Set,
    /// Records are got, each as often as any other.
    Get,
}

/// A client of many connections.
#[derive(Clone, Debug)]
pub struct Client {
    /// The server's.
    pub address: SocketAddr,
    /// What it speaks.
    pub protocol: Protocol,
    /// How many connections there are, of all threads together.
    pub connections: usize,
    /// How many requests a connection sends at once.
    pub depth: usize,
    /// How many threads drive them.
    pub threads: usize,
    /// How many records there are.
    pub records: u64,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// What the draws follow from.
    pub seed: u64,
    /// The length of an interval of the throughput over time.
    pub interval: Duration,
}

/// What came of it.
#[derive(Debug)]
pub struct Asked {
    /// Latencies: from when a request was sent, with those beside it, until its reply was there.
    pub recorder: Recorder,
    /// For how long.
    pub seconds: f64,
}

/// Every how many values one is compared to its last byte.
const PROVE_EVERY: u64 = 8;

/// How long a server may be silent.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a thread looks up while nothing comes.
const TICK: Duration = Duration::from_millis(100);

/// What all threads share.
struct Shared<'a> {
    client: &'a Client,
    kind: Kind,
    start: Instant,
    deadline: Option<Instant>,
    operations: u64,
    issued: AtomicU64,
    is_over: AtomicBool,
    is_stopped: &'a (dyn Fn() -> bool + Sync),
}

impl Client {
    /// Asks for so long or so much; a load goes on until every record is set.
    ///
    /// # Errors
    /// When the server answers with an error or wrongly, or not at all.
    pub fn ask(&self, kind: Kind, amount: Amount, is_stopped: &(dyn Fn() -> bool + Sync)) -> Result<Asked> {
        let start = Instant::now();
        let (deadline, operations) = match (kind, amount) {
            (Kind::Load, _) => (None, self.records),
            (_, Amount::Operations(operations)) => (None, operations),
            (_, Amount::Milliseconds(ms)) => (Some(start + Duration::from_millis(ms)), u64::MAX),
        };
        let shared = Shared {
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
        let mut sum = Recorder::new(start, self.interval);
        for recorder in &recorders {
            sum.add(recorder);
        }
        Ok(Asked {
            recorder: sum,
            seconds,
        })
    }
}

impl Shared<'_> {
    /// One thread, with its share of the connections.
    fn drive(&self, thread: usize) -> Result<Recorder> {
        let client = self.client;
        let at = |thread: usize| client.connections * thread / client.threads;
        let mut poll = Poll::new().context("making a poll")?;
        let mut connections = Vec::new();
        for place in 0..at(thread + 1) - at(thread) {
            let mut connection = Connection::open(client)?;
            poll.registry()
                .register(
                    &mut connection.stream,
                    Token(place),
                    Interest::READABLE | Interest::WRITABLE,
                )
                .context("registering a connection")?;
            connections.push(connection);
        }
        let mut teller = Teller {
            random: fastrand::Rng::with_seed(scatter(client.seed ^ scatter(thread as u64))),
            chooser: Chooser::new(Distribution::Uniform, client.records),
            value: vec![0; client.value_bytes],
            recorder: Recorder::new(self.start, client.interval),
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
                if !connections[event.token().0].turn(self, &mut teller)? {
                    asking -= 1;
                }
            }
        }
        Ok(teller.recorder)
    }

    /// Returns how many requests come next, and the number of the first; none at the end.
    fn next(&self, now: Instant) -> std::ops::Range<u64> {
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            return 0..0;
        }
        let depth = self.client.depth as u64;
        let first = self.issued.fetch_add(depth, Ordering::Relaxed);
        first..first.saturating_add(depth).min(self.operations)
    }
}

/// What a thread says and counts.
struct Teller {
    random: fastrand::Rng,
    chooser: Chooser,
    value: Vec<u8>,
    recorder: Recorder,
    answered: u64,
}

/// One connection.
struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    /// The keys of the requests that were sent, and how many of them are answered.
    keys: Vec<Key>,
    answered: usize,
    began: Instant,
}

/// How much is read at once.
const READ: usize = 64 << 10;

impl Connection {
    fn open(client: &Client) -> Result<Connection> {
        let open = || -> std::io::Result<TcpStream> {
            let stream = std::net::TcpStream::connect(client.address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            Ok(TcpStream::from_std(stream))
        };
        Ok(Connection {
            stream: open().with_context(|| format!("connecting to {}", client.address))?,
            request: Vec::new(),
            sent: 0,
            received: Vec::new(),
            keys: Vec::with_capacity(client.depth),
            answered: 0,
            began: Instant::now(),
        })
    }

    /// Sends the next requests. Returns whether there were any.
    fn begin(&mut self, shared: &Shared<'_>, teller: &mut Teller) -> Result<bool> {
        let client = shared.client;
        self.request.clear();
        self.keys.clear();
        (self.sent, self.answered) = (0, 0);
        for number in shared.next(Instant::now()) {
            let record = match shared.kind {
                Kind::Load => number,
                Kind::Set | Kind::Get => teller.chooser.draw(&mut teller.random, client.records),
            };
            let key = Keys::default().of(record);
            if shared.kind == Kind::Get {
                client.protocol.get(&mut self.request, &key);
            } else {
                Values::fill(&mut teller.value, &key, teller.random.u64(..));
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

    /// Its socket is ready: sends what is left, takes what has come, and goes on when all is
    /// answered. Returns whether it still asks.
    fn turn(&mut self, shared: &Shared<'_>, teller: &mut Teller) -> Result<bool> {
        if self.keys.is_empty() {
            // It had ended before, and was counted then.
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

    /// Takes the replies that are whole.
    fn take(&mut self, shared: &Shared<'_>, teller: &mut Teller) -> Result<()> {
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
            bail!("the server answers more than it was asked");
        }
        Ok(())
    }

    fn prove(&self, shared: &Shared<'_>, teller: &mut Teller, reply: &Reply, received: &[u8]) -> Result<()> {
        let key = &self.keys[self.answered];
        match (shared.kind, reply) {
            (Kind::Load | Kind::Set, Reply::Stored) => return Ok(()),
            (Kind::Get, Reply::Value(range)) => {
                teller.answered += 1;
                let value = &received[range.clone()];
                let is_proven = !teller.answered.is_multiple_of(PROVE_EVERY) || Values::is_of(value, key);
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

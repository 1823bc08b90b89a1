//! Servers on this machine, asked over loopback by many connections at once.
//!
//! *Knows*: the processes of servers, both protocols as a client speaks them, closed loops of
//! pipelined requests.
//!
//! *Does not know*: what a server does inside; how figures are shown.
//!
//! *Read in this order*: this file, `process.rs` (servers), `protocol.rs` (requests and replies),
//! `client.rs` (who asks).
//!
//! Client and server share the processors of the machine, so that a server which takes more of them
//! slows its own client. What a server costs by itself is the processor time of its process for
//! each request.

pub mod client;
mod process;
mod protocol;

pub use process::{Kind, SERVERS, Server};
pub use protocol::{Protocol, Reply};

use crate::account::memory::{self, Memory};
use crate::account::{Process, Snapshot, disk_bytes};
use crate::run::{Event, Listener, Outcome, Row, Turns, each};
use crate::workload::keys::KEY_BYTES;
use crate::workload::phase::Amount;
use anyhow::{Context, Result};
use client::{Asked, Client};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Orders {
    /// The servers, by their names.
    pub servers: Vec<String>,
    /// How often each.
    pub repetitions: usize,
    /// How many requests a connection has under way, point after point.
    pub depths: Vec<usize>,
    /// How many connections there are.
    pub connections: usize,
    /// How many threads the client has.
    pub threads: usize,
    /// How many records are set first.
    pub records: u64,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// The memory that servers are told to use, those that can be told.
    pub memory: u64,
    /// For how long a server is left alone before each phase.
    pub settle: Duration,
    /// What is done before a phase is measured.
    pub warm: Amount,
    /// What is measured of it.
    pub run: Amount,
    /// What the draws follow from.
    pub seed: u64,
    /// Where the files of the servers are made, and removed in the end.
    pub directory: PathBuf,
    /// The program of Alluvium.
    pub own: PathBuf,
}

/// The length of an interval of the throughput over time.
const INTERVAL: Duration = Duration::from_millis(100);

/// Measures every server, repetition by repetition: a load, then sets and gets at each depth.
///
/// # Errors
/// When a server is not there; when nothing could be measured at all.
pub fn run(orders: &Orders, listener: &dyn Listener) -> Result<Outcome> {
    for name in &orders.servers {
        Kind::find(name)?.is_there()?;
    }
    each(
        &orders.servers,
        orders.repetitions,
        Turns::Same,
        listener,
        &mut |name, repetition, outcome| {
            let directory = orders.directory.join(name);
            let done = run_one(orders, name, repetition, &directory, listener, outcome);
            // What cannot be removed now can be removed by hand; the measurement stands.
            let _ = std::fs::remove_dir_all(&directory);
            done
        },
    )
}

fn run_one(
    orders: &Orders,
    name: &str,
    repetition: usize,
    directory: &Path,
    listener: &dyn Listener,
    outcome: &mut Outcome,
) -> Result<()> {
    if directory.exists() {
        std::fs::remove_dir_all(directory).with_context(|| format!("removing {}", directory.display()))?;
    }
    std::fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
    let kind = Kind::find(name)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let server = kind.start(&orders.own, directory, orders.memory, threads)?;
    let settings = vec![("command".to_owned(), server.command.clone())];
    let opened = Event::Opened {
        settings: settings.clone(),
    };
    listener.hear(name, repetition, &opened);
    if repetition == 1 {
        outcome.settings.push((name.to_owned(), settings));
    }
    let deepest = orders.depths.iter().copied().max().unwrap_or(1);
    let mut phases = vec![(client::Kind::Load, deepest)];
    for &depth in &orders.depths {
        phases.extend([(client::Kind::Set, depth), (client::Kind::Get, depth)]);
    }
    for (place, (asked_for, depth)) in phases.into_iter().enumerate() {
        let phase = Phase {
            orders,
            server: &server,
            directory,
            client: Client {
                address: server.address,
                protocol: kind.protocol,
                connections: orders.connections,
                depth,
                threads: orders.threads,
                records: orders.records,
                value_bytes: orders.value_bytes,
                seed: orders.seed.wrapping_add(place as u64),
                interval: INTERVAL,
            },
            kind: asked_for,
        };
        let row = phase.measure(listener)?;
        if listener.is_stopped() {
            return Ok(());
        }
        let row = Row {
            engine: name.to_owned(),
            repetition,
            ..row
        };
        listener.hear(name, repetition, &Event::Measured(Box::new(row.clone())));
        outcome.rows.push(row);
    }
    let began = Instant::now();
    server.stop()?;
    let closed = Event::Closed {
        seconds: began.elapsed().as_secs_f64(),
    };
    listener.hear(name, repetition, &closed);
    Ok(())
}

/// One kind of request at one depth.
struct Phase<'a> {
    orders: &'a Orders,
    server: &'a Server,
    directory: &'a Path,
    client: Client,
    kind: client::Kind,
}

impl Phase<'_> {
    fn measure(&self, listener: &dyn Listener) -> Result<Row> {
        let (orders, kind) = (self.orders, self.kind);
        let name = match kind {
            client::Kind::Load => "load".to_owned(),
            client::Kind::Set => format!("set, depth {}", self.client.depth),
            client::Kind::Get => format!("get, depth {}", self.client.depth),
        };
        let is_stopped = || listener.is_stopped();
        let ask = |amount| {
            let asked = self.client.ask(kind, amount, &is_stopped);
            asked.with_context(|| format!("phase {name}"))
        };
        if kind != client::Kind::Load {
            self.rest(listener);
            if !orders.warm.is_nothing() {
                ask(orders.warm)?;
            }
        }
        let process = Process::of(self.server.number());
        memory::reset(&process, None);
        let before = Snapshot::of(&process, self.directory);
        let Asked { recorder, seconds } = ask(orders.run)?;
        let after = Snapshot::of(&process, self.directory);
        let device = after.device.since(&before.device);
        let memory = Memory::now(&process, None);
        let operations = recorder.operations();
        let record = (KEY_BYTES + orders.value_bytes) as u64;
        let user_bytes = operations * record;
        let user_written = if kind == client::Kind::Get { 0 } else { user_bytes };
        let ratio = |bytes: u64, of: u64| (of > 0).then(|| bytes as f64 / of as f64);
        Ok(Row {
            phase: name.clone(),
            threads: orders.threads,
            ops_per_s: operations as f64 / seconds.max(1e-9),
            latency: recorder.percentiles(),
            cpu_us_per_op: (after.cpu_us - before.cpu_us) as f64 / operations.max(1) as f64,
            device_write_bytes: device.write_bytes(),
            device_read_bytes: device.read_bytes(),
            device_reads: device.reads(),
            user_bytes,
            user_written_bytes: user_written,
            write_amplification: ratio(device.write_bytes(), user_written),
            read_amplification: ratio(device.read_bytes(), user_bytes - user_written),
            space_amplification: ratio(disk_bytes(self.directory), orders.records * record),
            rss_peak_bytes: memory.rss_peak_bytes,
            memory,
            device,
            operations,
            seconds,
            records: orders.records,
            series: recorder.series().to_vec(),
            interval_ms: INTERVAL.as_millis() as u64,
            ..Row::default()
        })
    }

    /// Leaves the server alone for a while.
    fn rest(&self, listener: &dyn Listener) {
        let began = Instant::now();
        while began.elapsed() < self.orders.settle && !listener.is_stopped() {
            std::thread::sleep(self.orders.settle.min(Duration::from_millis(50)));
        }
    }
}

//! Measures servers on the same machine, through many concurrent connections over the loopback
//! interface.
//!
//! *Scope*: the processes of servers, the client side of both protocols, and closed loops of
//! pipelined requests.
//!
//! *Must not depend on*: the internals of servers; how figures are displayed.
//!
//! The client and the server share the machine's processors, so a server that uses more of them
//! slows down its own client. The server's own cost is the CPU time of its process per request.

pub mod client;
mod process;
mod protocol;

pub use process::{SERVERS, ServerKind, ServerProcess};
pub use protocol::{ServerProtocol, ServerReply};

use crate::account::memory::{self, MemoryCounters};
use crate::account::{CostSnapshot, ProcfsProcess, disk_bytes};
use crate::run::{BenchOutcome, ChildEvent, EngineOrder, ResultRow, RunListener, each};
use crate::workload::keys::KEY_BYTES;
use crate::workload::phase::WindowLength;
use anyhow::{Context, Result};
use client::{LoadClient, LoadResult};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[derive(Clone, Debug)]
pub struct ServerPlan {
    pub servers: Vec<String>,
    /// Number of repetitions for each server.
    pub repetitions: usize,
    /// Pipeline depths of the connections, each of which is measured separately.
    pub depths: Vec<usize>,
    pub connections: usize,
    /// Number of client threads, which share the connections.
    pub threads: usize,
    /// Number of records written before the measured phases.
    pub records: u64,
    /// Length of a value in bytes.
    pub value_bytes: usize,
    /// Memory in bytes that servers are told to use, if they support this.
    pub memory: u64,
    /// How long a server stays idle before each phase.
    pub settle: Duration,
    /// Length of the warm-up before each phase, which is not measured.
    pub warm: WindowLength,
    pub run: WindowLength,
    /// Seed of the random choice of records.
    pub seed: u64,
    /// Directory for the files of the servers, which are removed at the end.
    pub directory: PathBuf,
    /// Path of the Alluvium executable, which starts Alluvium's servers.
    pub own: PathBuf,
}

/// Length of a throughput interval.
const INTERVAL: Duration = Duration::from_millis(100);

/// Measures all servers. Each repetition starts every server once, loads the records, and then
/// measures sets and gets at each pipeline depth.
///
/// # Errors
/// Returns an error if a server is not installed, and the first failure if no measurement has
/// succeeded.
pub fn run(orders: &ServerPlan, listener: &dyn RunListener) -> Result<BenchOutcome> {
    for name in &orders.servers {
        ServerKind::find(name)?.is_there()?;
    }
    each(
        &orders.servers,
        orders.repetitions,
        EngineOrder::Same,
        listener,
        &mut |name, repetition, outcome| {
            let directory = orders.directory.join(name);
            let done = run_one(orders, name, repetition, &directory, listener, outcome);
            // The measurement is valid even if the directory cannot be removed. The user can remove
            // it later.
            let _ = std::fs::remove_dir_all(&directory);
            done
        },
    )
}

fn run_one(
    orders: &ServerPlan,
    name: &str,
    repetition: usize,
    directory: &Path,
    listener: &dyn RunListener,
    outcome: &mut BenchOutcome,
) -> Result<()> {
    if directory.exists() {
        std::fs::remove_dir_all(directory).with_context(|| format!("removing {}", directory.display()))?;
    }
    std::fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
    let kind = ServerKind::find(name)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let server = kind.start(&orders.own, directory, orders.memory, threads)?;
    let settings = vec![("command".to_owned(), server.command.clone())];
    let opened = ChildEvent::Opened {
        settings: settings.clone(),
    };
    listener.on_event(name, repetition, &opened);
    if repetition == 1 {
        outcome.settings.push((name.to_owned(), settings));
    }
    let deepest = orders.depths.iter().copied().max().unwrap_or(1);
    let mut phases = vec![(client::RequestKind::Load, deepest)];
    for &depth in &orders.depths {
        phases.extend([
            (client::RequestKind::Set, depth),
            (client::RequestKind::Get, depth),
        ]);
    }
    for (place, (asked_for, depth)) in phases.into_iter().enumerate() {
        let phase = ServerPhase {
            orders,
            server: &server,
            directory,
            client: LoadClient {
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
        let row = ResultRow {
            engine: name.to_owned(),
            repetition,
            ..row
        };
        listener.on_event(name, repetition, &ChildEvent::Measured(Box::new(row.clone())));
        outcome.rows.push(row);
    }
    let began = Instant::now();
    server.stop()?;
    let closed = ChildEvent::Closed {
        seconds: began.elapsed().as_secs_f64(),
    };
    listener.on_event(name, repetition, &closed);
    Ok(())
}

/// A phase with one kind of request and one pipeline depth.
struct ServerPhase<'a> {
    orders: &'a ServerPlan,
    server: &'a ServerProcess,
    directory: &'a Path,
    client: LoadClient,
    kind: client::RequestKind,
}

impl ServerPhase<'_> {
    fn measure(&self, listener: &dyn RunListener) -> Result<ResultRow> {
        let (orders, kind) = (self.orders, self.kind);
        let name = match kind {
            client::RequestKind::Load => "load".to_owned(),
            client::RequestKind::Set => format!("set, depth {}", self.client.depth),
            client::RequestKind::Get => format!("get, depth {}", self.client.depth),
        };
        let is_stopped = || listener.is_stopped();
        let ask = |amount| {
            let asked = self.client.run_load(kind, amount, &is_stopped);
            asked.with_context(|| format!("phase {name}"))
        };
        if kind != client::RequestKind::Load {
            self.rest(listener);
            if !orders.warm.is_nothing() {
                ask(orders.warm)?;
            }
        }
        let process = ProcfsProcess::of(self.server.number());
        memory::reset(&process, None);
        let before = CostSnapshot::of(&process, self.directory);
        let LoadResult { recorder, seconds } = ask(orders.run)?;
        let after = CostSnapshot::of(&process, self.directory);
        let device = after.device.since(&before.device);
        let memory = MemoryCounters::now(&process, None);
        let operations = recorder.operations();
        let record = (KEY_BYTES + orders.value_bytes) as u64;
        let user_bytes = operations * record;
        let user_written = if kind == client::RequestKind::Get {
            0
        } else {
            user_bytes
        };
        let ratio = |bytes: u64, of: u64| (of > 0).then(|| bytes as f64 / of as f64);
        Ok(ResultRow {
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
            ..ResultRow::default()
        })
    }

    /// Leaves the server idle for some time.
    fn rest(&self, listener: &dyn RunListener) {
        let began = Instant::now();
        while began.elapsed() < self.orders.settle && !listener.is_stopped() {
            std::thread::sleep(self.orders.settle.min(Duration::from_millis(50)));
        }
    }
}

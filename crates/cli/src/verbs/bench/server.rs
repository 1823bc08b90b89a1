//! `bench server`: measures sets and gets over many connections, on Alluvium's server and on other
//! servers.

use super::{ScreenRunner, publish, report, usage};
use crate::context::CommandContext;
use crate::terminal::exit::CommandExit;
use crate::values::sizes::{count, human};
use alluvium_bench::engine::require_once;
use alluvium_bench::run::FileRetention;
use alluvium_bench::servers::{self, ServerPlan};
use alluvium_bench::workload::keys::KEY_BYTES;
use alluvium_bench::workload::phase::{WindowLength, parse_amount, parse_records, parse_threads};
use alluvium_bench::workload::values;
use anyhow::{Context as _, Result};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  alluvium bench server --servers alluvium,redis --depths 1,16,64
  alluvium bench server --servers alluvium-memcached,memcached --repetitions 3 --json report.json
  alluvium bench server --servers alluvium-cache,memcached    # caches in memory

--memory is the limit that servers are given, if they have one [default: four times the data, at least 1G].
Redis and memcached must be in PATH: apt-get install redis-server memcached";

/// Measure the server, Redis and memcached. `--memory` is the memory limit of servers that have one
/// [default: four times the data, at least 1 GiB].
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct BenchServerCommand {
    /// The servers, separated by commas: alluvium and alluvium-memcached, a store with the Redis or
    /// the memcached protocol; alluvium-cache, a cache in memory with memcached's; redis;
    /// redis-aof, which syncs its log every second; memcached.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "alluvium")]
    pub servers: Vec<String>,
    /// The numbers of requests that a connection sends at once, separated by commas.
    #[arg(
        long,
        value_name = "NUMBERS",
        value_delimiter = ',',
        default_value = "1,16,64"
    )]
    pub depths: Vec<usize>,
    /// The number of connections.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub connections: usize,
    /// The number of client threads that use the connections.
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_threads)]
    pub threads: usize,
    /// The number of records. The client first sets all of them, then sets and reads random ones
    /// with equal probability.
    #[arg(long, value_name = "N", default_value = "1M", value_parser = parse_records)]
    pub records: u64,
    /// The length of values in bytes, at least 16; keys have 24 bytes.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub value_bytes: usize,
    /// The number of repetitions; the report has the medians.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub repetitions: usize,
    /// The pause before each phase.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_amount)]
    pub settle: WindowLength,
    /// The warm-up before each phase: requests, as in 2M, or a time, as in 8s.
    #[arg(long, value_name = "AMOUNT", default_value = "1s", value_parser = parse_amount)]
    pub warm: WindowLength,
    /// The measured part of each phase: requests, as in 2M, or a time, as in 8s.
    #[arg(long, value_name = "AMOUNT", default_value = "4s", value_parser = parse_amount)]
    pub run: WindowLength,
    /// The seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The directory for the files of the servers, which are removed at the end.
    #[arg(long, value_name = "PATH", default_value = "alluvium-bench-data")]
    pub directory: PathBuf,
    /// The JSON file for the report. Plots (SVG) and a page with everything (HTML) are written next
    /// to it. Without it, --json prints the report.
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Maximum number of the client's connections, each of which needs a port.
const MOST_CONNECTIONS: usize = 50_000;

/// Maximum number of outstanding requests per connection.
const MOST_DEPTH: usize = 1 << 16;

/// Lower bound in bytes of the default --memory.
const LEAST_MEMORY: u64 = 1 << 30;

impl BenchServerCommand {
    pub(super) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let orders = self.orders(context)?;
        let report = report(
            &self.directory,
            described(&orders),
            FileRetention::Removed,
            || servers::run(&orders, &ScreenRunner),
        )?;
        publish(context, self.file.as_deref(), &report)
    }

    fn orders(&self, context: &CommandContext) -> Result<ServerPlan> {
        for name in &self.servers {
            servers::ServerKind::find(name).map_err(usage)?;
        }
        let positive = [
            ("--records", self.records as usize),
            ("--connections", self.connections),
            ("--threads", self.threads),
            ("--repetitions", self.repetitions),
            ("--depths", self.depths.iter().copied().min().unwrap_or(0)),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, number)| *number == 0) {
            return Err(usage(format!(
                "{name} 0 leaves nothing to measure: give a number above 0"
            )));
        }
        if self.value_bytes < values::LEAST {
            return Err(usage(format!(
                "--value-bytes {}: give at least {}, so that values can be verified",
                self.value_bytes,
                values::LEAST
            )));
        }
        super::require_short(self.value_bytes)?;
        require_once("--servers", &self.servers).map_err(usage)?;
        let most = [
            ("--connections", self.connections, MOST_CONNECTIONS),
            (
                "--depths",
                self.depths.iter().copied().max().unwrap_or(0),
                MOST_DEPTH,
            ),
        ];
        if let Some((name, number, most)) = most.iter().find(|(_, number, most)| number > most) {
            return Err(usage(format!("{name} {number}: give at most {most}")));
        }
        let WindowLength::Milliseconds(settle_ms) = self.settle else {
            return Err(usage("--settle must be a duration such as 1s"));
        };
        let data = self.records * (KEY_BYTES + self.value_bytes) as u64;
        Ok(ServerPlan {
            servers: self.servers.clone(),
            repetitions: self.repetitions,
            depths: self.depths.clone(),
            connections: self.connections,
            threads: self.threads.min(self.connections),
            records: self.records,
            value_bytes: self.value_bytes,
            memory: context.memory.unwrap_or(data.saturating_mul(4).max(LEAST_MEMORY)),
            settle: Duration::from_millis(settle_ms),
            warm: self.warm,
            run: self.run,
            seed: self.seed,
            directory: std::path::absolute(&self.directory)?,
            own: std::env::current_exe().context("looking for this program")?,
        })
    }
}

/// Describes the parameters of a server benchmark in words.
fn described(orders: &ServerPlan) -> Vec<(&'static str, String)> {
    let record = (KEY_BYTES + orders.value_bytes) as u64;
    let depths: Vec<String> = orders.depths.iter().map(usize::to_string).collect();
    vec![
        (
            "data",
            format!(
                "{} records of {record} bytes, {}",
                count(orders.records),
                human(orders.records * record)
            ),
        ),
        ("memory", human(orders.memory)),
        ("connections", orders.connections.to_string()),
        ("depths", depths.join(", ")),
        ("threads of the client", orders.threads.to_string()),
        ("seed", orders.seed.to_string()),
    ]
}

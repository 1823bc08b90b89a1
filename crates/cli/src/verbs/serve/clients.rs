//! Limits for clients of a server, as flags of `serve`.

use crate::terminal::exit::{CommandExit, failure};
use crate::values::sizes::{self, ByteSize};
use alluvium_server::{ServerLimits, ServerOptions};
use anyhow::Result;
use clap::Args;
use std::time::Duration;

/// Smallest memory limit for all clients together.
const LEAST_MEMORY: u64 = 1 << 20;

/// What clients may take.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "What clients may take")]
pub struct ClientLimits {
    /// The memory that all clients may hold together, within --memory: requests, replies that they
    /// have not taken, transactions. The slowest readers are closed when it is used up [default: a
    /// quarter of --memory, 8M at least].
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub client_memory: Option<ByteSize>,
    /// Clients at once.
    #[arg(long, value_name = "COUNT", default_value = "10000", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_clients: u32,
    /// Bytes of replies that a client may leave untaken; a client that leaves more is closed.
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = sizes::parse)]
    pub client_output_limit: ByteSize,
    /// How long a client may be idle, as in 15m; 0 for ever.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = sizes::parse_duration)]
    pub client_timeout: Duration,
    /// How long a client may take until it has given the password that it needs and ended the
    /// handshake of TLS, as in 10s; 0 for ever.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = sizes::parse_duration)]
    pub login_timeout: Duration,
    /// After how long a silence the system asks whether a client is still there, as in 5m; 0 for
    /// never.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = sizes::parse_duration)]
    pub tcp_keepalive: Duration,
}

impl ClientLimits {
    /// Converts the limits to options of a server. `memory` is the memory of the store, if given.
    pub(crate) fn options(&self, memory: Option<u64>) -> Result<ServerOptions> {
        let client_memory = self.client_memory.map(|memory| memory.0);
        if let Some(bytes) = client_memory {
            let human = sizes::human(bytes);
            let text = match memory {
                _ if bytes < LEAST_MEMORY => format!("--client-memory {human}: clients need 1M or more"),
                Some(memory) if bytes > memory => format!(
                    "--client-memory {human} is more than --memory {}, which it is a part of",
                    sizes::human(memory)
                ),
                _ => String::new(),
            };
            if !text.is_empty() {
                return Err(failure(CommandExit::Usage, text));
            }
        }
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let time = |time: Duration| (!time.is_zero()).then_some(time);
        Ok(ServerOptions {
            limits: ServerLimits {
                connections: self.max_clients as usize,
                output: size(self.client_output_limit.0).max(1),
                memory: client_memory.map(size),
                ..ServerLimits::default()
            },
            idle_timeout: time(self.client_timeout),
            login_timeout: time(self.login_timeout).unwrap_or(Duration::MAX),
            keepalive: time(self.tcp_keepalive),
            ..ServerOptions::default()
        })
    }
}

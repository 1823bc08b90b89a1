//! The options of `serve` that limit clients.

use crate::terminal::exit::{CommandExit, failure};
use crate::values::sizes::{self, ByteSize};
use alluvium_server::{ServerLimits, ServerOptions};
use anyhow::Result;
use clap::Args;
use std::time::Duration;

/// Lower bound in bytes of the memory limit for all clients together.
const LEAST_MEMORY: u64 = 1 << 20;

/// Limits of clients.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Limits of clients")]
pub struct ClientLimits {
    /// The memory for the requests, unread replies and transactions of all clients, a part of
    /// --memory. When it is used up, the server disconnects the slowest readers [default: a quarter
    /// of --memory, at least 8M].
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub client_memory: Option<ByteSize>,
    /// The largest number of connected clients.
    #[arg(long, value_name = "COUNT", default_value = "10000", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_clients: u32,
    /// The largest size of a client's unread replies. The server disconnects a client that exceeds
    /// it.
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = sizes::parse)]
    pub client_output_limit: ByteSize,
    /// The time after which an idle client is disconnected, as in 15m; 0 for never.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = alluvium::text::parse_duration)]
    pub client_timeout: Duration,
    /// The time limit of a new client for the TLS handshake and the password, as in 10s; 0 for
    /// none.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = alluvium::text::parse_duration)]
    pub login_timeout: Duration,
    /// The silence after which the system checks whether a client still responds, as in 5m; 0 for
    /// never.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = alluvium::text::parse_duration)]
    pub tcp_keepalive: Duration,
}

impl ClientLimits {
    /// Converts the limits to options of the server. `memory` is the store's memory limit, if one
    /// was given.
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

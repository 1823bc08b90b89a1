//! The options for starting a server. The defaults suit a server whose clients all run on the same
//! machine.

use crate::access::{UserFile, WakeupClock};
use crate::observe::log_level::LogLevel;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Which clients may connect if the server requires neither a password nor client certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exposure {
    /// Only clients on this machine may connect. The server refuses to start at an address that
    /// other machines can reach.
    #[default]
    Protected,
    /// Every client that can reach the server may connect. Use this only in networks that are
    /// protected by other means.
    Unprotected,
}

/// How the store arranges the clients' keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyLayout {
    /// Use the existing store's layout. A new store orders its keys.
    #[default]
    AsStored,
    /// Use hashed keys. A lookup needs only one read and less than one byte of memory per key, but
    /// the keys have no order. Each collection still stores its elements in order. If the store
    /// already has ordered keys, the server refuses to start.
    Hashed,
}

/// Options for encrypting connections with TLS.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsOptions {
    /// The server's certificate chain, in PEM format.
    pub certificate: Vec<u8>,
    /// The private key for the server's certificate, in PEM format.
    pub key: Vec<u8>,
    /// Certificate authorities for client certificates, in PEM format. If present, each client must
    /// present a certificate signed by one of them. If absent, every client may open an encrypted
    /// connection, so TLS alone does not authenticate clients.
    pub client_authority: Option<Vec<u8>>,
}

impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsOptions").finish_non_exhaustive()
    }
}

/// Limits on the clients' resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Maximum number of concurrent connections with the Redis and memcached protocols. Further
    /// connections are rejected.
    pub connections: usize,
    /// Maximum request size in bytes.
    pub request: usize,
    /// Maximum number of arguments in a request, including the command name.
    pub arguments: usize,
    /// Maximum number of a connection's commands in one batch. Further commands form the next
    /// batch.
    pub batch: usize,
    /// Maximum number of reply bytes per connection that the client has not read yet.
    pub output: usize,
    /// Maximum number of command bytes that a connection can queue between MULTI and EXEC.
    pub transaction: usize,
    /// Maximum total memory of all connections in bytes: requests, replies, and commands queued
    /// between MULTI and EXEC. This memory counts towards the store's memory. If absent, the limit
    /// is a quarter of the store's memory.
    pub memory: Option<usize>,
}

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        ServerLimits {
            connections: 10_000,
            request: 256 << 20,
            arguments: 1 << 20,
            batch: 512,
            output: 512 << 20,
            transaction: 256 << 20,
            memory: None,
        }
    }
}

/// Options for starting a server.
///
/// ```
/// use alluvium_server::ServerOptions;
/// let options = ServerOptions {
///     redis: Some("127.0.0.1:0".parse().unwrap()),
///     ..ServerOptions::default()
/// };
/// ```
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Address for the Redis protocol, or `None` not to serve it. If the port is 0, the operating
    /// system chooses a free port.
    pub redis: Option<SocketAddr>,
    /// Address for the memcached protocol, or `None` not to serve it.
    pub memcached: Option<SocketAddr>,
    /// Path of an additional Unix domain socket for the Redis protocol, without TLS. The server
    /// creates the socket file when it starts and removes it when it stops.
    pub redis_socket: Option<PathBuf>,
    /// Path of an additional Unix domain socket for the memcached protocol, under the same rules as
    /// `redis_socket`.
    pub memcached_socket: Option<PathBuf>,
    /// File mode of the Unix domain sockets, which determines which users of the machine can
    /// connect.
    pub socket_mode: u32,
    /// Address for the web page, or `None` not to serve it.
    pub web: Option<SocketAddr>,
    /// Host names, besides IP addresses and localhost, under which browsers may request the web
    /// page.
    pub web_names: Vec<String>,
    /// How the store arranges the clients' keys.
    pub keys: KeyLayout,
    /// Number of event loops. If absent, three quarters of the number of processors.
    pub loops: Option<usize>,
    /// The password that clients must send, or `None` if none is required. Redis clients send it
    /// with the command AUTH, memcached clients as the value `default PASSWORD` of a `set` command.
    pub password: Option<String>,
    /// The file with further users and their permissions. It can also replace the password and
    /// permissions of the user `default`.
    pub users: Option<Arc<dyn UserFile>>,
    /// The clock for delaying answers to wrong passwords. If absent, the operating system's clock.
    pub clock: Option<Arc<dyn WakeupClock>>,
    /// TLS options for all TCP connections, or `None` for unencrypted ones.
    pub tls: Option<TlsOptions>,
    /// Which clients may connect if the server requires neither a password nor client certificates.
    pub exposure: Exposure,
    /// Limits on the clients' resources.
    pub limits: ServerLimits,
    /// Absolute path of the directory for backups by BGSAVE and SAVE. If absent, both commands are
    /// rejected. `CONFIG SET dir` can change it at run time.
    pub backup_directory: Option<PathBuf>,
    /// The log level of the embedding program. If present, `CONFIG SET loglevel` can change it.
    pub log_level: Option<LogLevel>,
    /// Time in whole seconds after which an idle connection is closed. If absent, idle connections
    /// are never closed.
    pub idle_timeout: Option<Duration>,
    /// Time limit for a connection to finish the TLS handshake and, if required, to authenticate.
    pub login_timeout: Duration,
    /// Time in whole seconds without received data after which the kernel sends TCP keepalive
    /// probes. If absent, it sends none. A peer that does not answer three further probes within
    /// the same time is disconnected.
    pub keepalive: Option<Duration>,
    /// How long a stopping server waits for clients to read their replies.
    pub grace: Duration,
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions {
            redis: None,
            memcached: None,
            redis_socket: None,
            memcached_socket: None,
            socket_mode: 0o600,
            web: None,
            web_names: Vec::new(),
            keys: KeyLayout::default(),
            loops: None,
            password: None,
            users: None,
            clock: None,
            tls: None,
            exposure: Exposure::default(),
            limits: ServerLimits::default(),
            backup_directory: None,
            log_level: None,
            idle_timeout: None,
            login_timeout: Duration::from_secs(60),
            keepalive: Some(Duration::from_secs(300)),
            grace: Duration::from_secs(5),
        }
    }
}

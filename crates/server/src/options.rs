//! The options with which a server is started. The defaults are suitable if all clients run on the
//! same machine.

use crate::access::{UserFile, WakeupClock};
use crate::observe::log_level::LogLevel;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The clients that may connect if the server requires neither a password nor client certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exposure {
    /// Only clients on this machine may connect. The server refuses to start at an address that
    /// other machines can reach.
    #[default]
    Protected,
    /// Every client that can reach the server may connect. This is suitable only for networks that
    /// are protected by other means.
    Unprotected,
}

/// The way in which the store arranges the keys of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyLayout {
    /// Use the layout of the existing store. A new store arranges its keys in order.
    #[default]
    AsStored,
    /// Use hashed keys. A lookup needs only one read and less than one byte of memory per key, but
    /// keys have no order. The elements of each collection are nevertheless stored in order. If the
    /// store already has ordered keys, the server refuses to start.
    Hashed,
}

/// Options for the encryption of connections with TLS.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsOptions {
    /// The certificate chain of the server, in PEM format.
    pub certificate: Vec<u8>,
    /// The private key that belongs to the server's certificate, in PEM format.
    pub key: Vec<u8>,
    /// Certificate authorities for client certificates, in PEM format. If present, each client must
    /// present a certificate that is signed by one of them. If absent, every client may open an
    /// encrypted connection, so TLS alone does not authenticate clients.
    pub client_authority: Option<Vec<u8>>,
}

impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsOptions").finish_non_exhaustive()
    }
}

/// Limits on the resources that clients may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Maximum number of concurrent connections of both protocols together. Further connections are
    /// rejected.
    pub connections: usize,
    /// Maximum size of a request in bytes.
    pub request: usize,
    /// Maximum number of arguments of a request, including the name of the command.
    pub arguments: usize,
    /// Maximum number of commands of one connection that are executed as one batch. Further
    /// commands are executed in the next batch.
    pub batch: usize,
    /// Maximum number of reply bytes that a client has not read yet, per connection.
    pub output: usize,
    /// Maximum number of bytes of commands that a connection can queue between MULTI and EXEC.
    pub transaction: usize,
    /// Maximum number of bytes used by all connections together: requests, replies, and commands
    /// queued between MULTI and EXEC. This memory counts towards the memory of the store. If
    /// absent, the limit is a quarter of the store's memory.
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
    /// Address at which the Redis protocol is served, or `None` if it is not served. If the port is
    /// 0, the operating system chooses a free port.
    pub redis: Option<SocketAddr>,
    /// Address at which the memcached protocol is served, or `None` if it is not served.
    pub memcached: Option<SocketAddr>,
    /// Path of a Unix domain socket at which the Redis protocol is served additionally, without
    /// TLS. The server creates the socket file when it starts and removes it when it stops.
    pub redis_socket: Option<PathBuf>,
    /// Path of a Unix domain socket at which the memcached protocol is served additionally, by the
    /// same rules as `redis_socket`.
    pub memcached_socket: Option<PathBuf>,
    /// File mode of the Unix domain sockets. It determines which users of the machine can connect.
    pub socket_mode: u32,
    /// Address at which the web page is served, or `None` if it is not served.
    pub web: Option<SocketAddr>,
    /// Host names under which browsers may request the web page, in addition to IP addresses and
    /// localhost.
    pub web_names: Vec<String>,
    /// The way in which the store arranges the keys of clients.
    pub keys: KeyLayout,
    /// Number of event loops. If absent, it is three quarters of the number of processors.
    pub loops: Option<usize>,
    /// The password that clients must send, or `None` if none is required. Redis clients send it
    /// with the command AUTH. Memcached clients send it as the value `default PASSWORD` of a `set`
    /// command.
    pub password: Option<String>,
    /// The file with further users and their permissions. It can also replace the password and the
    /// permissions of the user `default`.
    pub users: Option<Arc<dyn UserFile>>,
    /// The clock by which answers to wrong passwords are delayed. If absent, the clock of the
    /// operating system is used.
    pub clock: Option<Arc<dyn WakeupClock>>,
    /// TLS options for all TCP connections, or `None` if they are not encrypted.
    pub tls: Option<TlsOptions>,
    /// The clients that may connect if the server requires neither a password nor client
    /// certificates.
    pub exposure: Exposure,
    /// Limits on the resources that clients may use.
    pub limits: ServerLimits,
    /// Absolute path of the directory in which BGSAVE and SAVE create backups. If absent, both
    /// commands are rejected. `CONFIG SET dir` can change it while the server runs.
    pub backup_directory: Option<PathBuf>,
    /// The log level of the embedding program. If present, `CONFIG SET loglevel` can change it.
    pub log_level: Option<LogLevel>,
    /// Time in whole seconds after which an idle connection is closed. If absent, idle connections
    /// are never closed.
    pub idle_timeout: Option<Duration>,
    /// Maximum time within which a connection must finish the TLS handshake and, if required,
    /// authenticate.
    pub login_timeout: Duration,
    /// Time in whole seconds without received data after which the kernel sends TCP keepalive
    /// probes. If absent, no probes are sent. If the peer does not answer three further probes
    /// within the same time, it is disconnected.
    pub keepalive: Option<Duration>,
    /// Maximum time for which a stopping server waits for clients to read their replies.
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

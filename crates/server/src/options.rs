//! Options for starting a server. The defaults suit clients on the same machine.

use crate::access::{UserFile, WakeupClock};
use crate::observe::log_level::LogLevel;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Who may connect when neither a password nor client certificates are required.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exposure {
    /// Only this machine. A server with an address that other machines can reach refuses to start.
    #[default]
    Protected,
    /// Every client that can reach the server, for networks that are protected by other means.
    Unprotected,
}

/// The layout of the clients' keys in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyLayout {
    /// The layout of the store. A new store is ordered.
    #[default]
    AsStored,
    /// Hashed: a lookup needs one read and less than one byte of memory per key, but keys have no
    /// order. Elements of collections stay ordered. A store with ordered keys is refused.
    Hashed,
}

/// Encryption of connections with TLS.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsOptions {
    /// The certificate chain of the server, as PEM.
    pub certificate: Vec<u8>,
    /// The private key of the certificate, as PEM.
    pub key: Vec<u8>,
    /// Certificate authorities for clients, as PEM: a client must present a certificate signed by
    /// one of them. If absent, any client may connect encrypted, so TLS alone does not authenticate
    /// clients.
    pub client_authority: Option<Vec<u8>>,
}

impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// Limits on the resources that clients may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Concurrent connections of both protocols. Further ones are refused.
    pub connections: usize,
    /// Size of a request in bytes.
    pub request: usize,
    /// Arguments of one request, including the command's name.
    pub arguments: usize,
    /// Commands of one connection that are executed as one batch. Further commands follow in the
    /// next batch.
    pub batch: usize,
    /// Bytes of replies that a connection has not read yet.
    pub output: usize,
    /// Bytes of commands queued between MULTI and EXEC.
    pub transaction: usize,
    /// Bytes held by all connections together: requests, replies, commands queued between MULTI and
    /// EXEC. They count towards the memory of the store. Defaults to a quarter of it.
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
    /// Address of the Redis protocol, if served. Port 0 picks a free port.
    pub redis: Option<SocketAddr>,
    /// Address of the memcached protocol, if served.
    pub memcached: Option<SocketAddr>,
    /// Path of a Unix domain socket that also serves the Redis protocol, without TLS. The server
    /// creates the file when it starts and removes it when it stops.
    pub redis_socket: Option<PathBuf>,
    /// Path of a Unix domain socket for the memcached protocol, as `redis_socket`.
    pub memcached_socket: Option<PathBuf>,
    /// File mode of these sockets, which controls who may connect.
    pub socket_mode: u32,
    /// Address of the web page, if served.
    pub web: Option<SocketAddr>,
    /// Host names that browsers may use for the page, besides IP addresses and localhost.
    pub web_names: Vec<String>,
    /// The layout of keys in the store.
    pub keys: KeyLayout,
    /// Number of event loops. Defaults to the number of processors less a quarter of them.
    pub loops: Option<usize>,
    /// The password, if one is required. Redis clients send it with AUTH, memcached clients as a
    /// `set` of `default PASSWORD`.
    pub password: Option<String>,
    /// Further users and their permissions. The file may also set another password and other rules
    /// for `default`.
    pub users: Option<Arc<dyn UserFile>>,
    /// The clock that delays clients after wrong passwords. Defaults to the system's clock.
    pub clock: Option<Arc<dyn WakeupClock>>,
    /// TLS for all TCP connections, if any.
    pub tls: Option<TlsOptions>,
    /// Who may connect when neither a password nor client certificates are required.
    pub exposure: Exposure,
    /// Limits on the resources that clients may use.
    pub limits: ServerLimits,
    /// Absolute path of the directory for the backups of BGSAVE and SAVE. Without it both commands
    /// are refused. `CONFIG SET dir` changes it.
    pub backup_directory: Option<PathBuf>,
    /// The log level of the embedding program, if `CONFIG SET loglevel` may change it.
    pub log_level: Option<LogLevel>,
    /// Idle time after which a connection is closed, in whole seconds. Never, if absent.
    pub idle_timeout: Option<Duration>,
    /// Time limit for a connection to finish the TLS handshake and to authenticate where that is
    /// required.
    pub login_timeout: Duration,
    /// Silence after which the kernel sends TCP keepalive probes, in whole seconds. Never, if
    /// absent. A peer is disconnected if it does not answer three further probes within the same
    /// time.
    pub keepalive: Option<Duration>,
    /// Time for connections to read their replies when the server stops.
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

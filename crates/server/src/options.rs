//! How a server is started: every default is right for programs on the same machine.

use crate::LogLevel;
use crate::access::{Clock, UserFile};
use crate::resp;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Who may connect when neither a password nor certificates of clients are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exposure {
    /// This machine alone: a server that others could reach does not start.
    #[default]
    Protected,
    /// Every client that can reach it: for a network that keeps others out.
    Unprotected,
}

/// How the keys of clients are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyLayout {
    /// As the store has them; in a new store, in order.
    #[default]
    AsStored,
    /// Hashed: a key is found with one read and less than a byte of memory, and keys have no order.
    /// Elements of collections stay in order. A store that has keys in order is refused.
    Hashed,
}

/// What keeps others from reading along.
#[derive(Clone, PartialEq, Eq)]
pub struct Tls {
    /// The certificate and those that it rests on, as PEM.
    pub certificate: Vec<u8>,
    /// Its private key, as PEM.
    pub key: Vec<u8>,
    /// Certificates, as PEM: clients must show a certificate signed by one of these. Without
    /// it every client may encrypt, so that encryption does not keep clients out.
    pub client_authority: Option<Vec<u8>>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// What clients may ask for at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Bytes of one request.
    pub request: usize,
    /// Arguments of one request.
    pub arguments: usize,
    /// Commands of one connection that are executed as one batch. More are sent on behind them.
    pub batch: usize,
    /// Bytes of replies that a connection has not taken.
    pub output: usize,
    /// Bytes of commands between MULTI and EXEC.
    pub transaction: usize,
    /// Bytes that all connections hold together: requests, replies, commands between MULTI and
    /// EXEC. They count within the memory of the store. A quarter of it, if absent.
    pub memory: Option<usize>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
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

impl Limits {
    /// What the parser of the Redis protocol refuses.
    pub(crate) fn of_requests(&self) -> resp::Limits {
        resp::Limits {
            bytes: self.request,
            argument: self.request,
            arguments: self.arguments,
            line: 64 << 10,
        }
    }
}

/// How a server is started.
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
    /// Where the Redis protocol is spoken, if it is; port 0 means any that is free.
    pub redis: Option<SocketAddr>,
    /// Where the memcached protocol is spoken, if it is.
    pub memcached: Option<SocketAddr>,
    /// A socket of the file system where the Redis protocol is spoken as well, without TLS. The
    /// file is made when the server starts and removed when it ends.
    pub redis_socket: Option<PathBuf>,
    /// The same for the memcached protocol.
    pub memcached_socket: Option<PathBuf>,
    /// Who may connect to these sockets, as the mode of their files.
    pub socket_mode: u32,
    /// Where the web page is served, if it is.
    pub web: Option<SocketAddr>,
    /// Names by which browsers may ask for the page, besides IP addresses and localhost.
    pub web_names: Vec<String>,
    /// How keys are kept in the store.
    pub keys: KeyLayout,
    /// How many loops serve connections: one for each processor but a quarter of them, if absent.
    pub loops: Option<usize>,
    /// What Redis clients must say to AUTH, and memcached clients as `set` of `default PASSWORD`,
    /// if anything.
    pub password: Option<String>,
    /// More users than `default`, and what each of them may do; or another password and other rules
    /// for `default`.
    pub users: Option<Arc<dyn UserFile>>,
    /// The time that clients who give wrong passwords wait by: the system's, if absent.
    pub clock: Option<Arc<dyn Clock>>,
    /// Encryption of all connections, if any.
    pub tls: Option<Tls>,
    /// Who may connect when neither is set.
    pub exposure: Exposure,
    /// What clients may ask for at most.
    pub limits: Limits,
    /// The directory that BGSAVE and SAVE put a backup into, absolute; they are refused without
    /// one. `CONFIG SET dir` changes it.
    pub backup_directory: Option<PathBuf>,
    /// What the program that runs the server prints of its log, if `CONFIG SET loglevel` may change
    /// that.
    pub log_level: Option<LogLevel>,
    /// After how long an idle connection is closed, in whole seconds: never, if absent.
    pub idle_timeout: Option<Duration>,
    /// After how long a connection is closed that has not ended the handshake of TLS, or not given
    /// the password that it needs.
    pub login_timeout: Duration,
    /// After how long a silence the system asks whether a peer is still there, in whole seconds;
    /// never, if absent. Who does not answer is closed after three more questions within the same
    /// time.
    pub keepalive: Option<Duration>,
    /// How long connections have for taking their replies when the server stops.
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
            limits: Limits::default(),
            backup_directory: None,
            log_level: None,
            idle_timeout: None,
            login_timeout: Duration::from_secs(60),
            keepalive: Some(Duration::from_secs(300)),
            grace: Duration::from_secs(5),
        }
    }
}

//! Starts and stops a server with a store or a cache, and provides the handles of running servers.
//!
//! *Scope*: which components a server consists of, in which order they are started and stopped, and
//! how its options determine listeners, users and TLS.
//!
//! *Must not depend on*: what its parts do.

mod cache;

pub use cache::CacheServer;

use crate::access::{LoginThrottle, SystemClock, UserRegistry};
use crate::control::{ConnectionServices, ManagementServer, ServerInfo};
use crate::error::{Error, Result};
use crate::net::{
    self, Acceptor, ConnectionReaper, EventLoop, GroupSyncer, ListeningSocket, LoopPool,
    MemoryPressureListener, ProtocolListener, TlsSettings, WireProtocol,
};
use crate::observe::sampler;
use crate::options::{Exposure, ServerOptions, TlsOptions};
use crate::protocol::memcached;
use crate::redis;
use crate::shared::{ListenPorts, StoreContext};
use crate::store::{ExpiryReaper, ServerStore};
use crate::web::{WebOptions, WebServer};
use alluvium::Db;
use alluvium_device::socket::SocketFile;
use mio::net::{TcpListener, UnixListener};
use parking_lot::{Condvar, Mutex};
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

/// The handle of a running server. Dropping it stops the server.
///
/// ```
/// # let place = tempfile::tempdir().unwrap();
/// use alluvium_server::{Server, ServerOptions};
/// use std::io::{Read, Write};
/// let db = alluvium::Db::open(place.path().join("store"))?;
/// let options = ServerOptions {
///     redis: Some("127.0.0.1:0".parse().unwrap()),
///     ..ServerOptions::default()
/// };
/// let server = Server::start(&db, options)?;
/// let mut socket = std::net::TcpStream::connect(server.redis_addr().unwrap())?;
/// socket.write_all(b"PING\r\n")?;
/// let mut reply = [0; 7];
/// socket.read_exact(&mut reply)?;
/// assert_eq!(&reply, b"+PONG\r\n");
/// server.stop();
/// server.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Server {
    redis: Option<SocketAddr>,
    memcached: Option<SocketAddr>,
    running: Arc<ServerComponents>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("redis", &self.redis)
            .field("memcached", &self.memcached)
            .finish_non_exhaustive()
    }
}

/// The server components to stop at shutdown.
struct ServerComponents {
    options: ServerOptions,
    shared: Arc<StoreContext>,
    pool: Arc<LoopPool>,
    syncer: Arc<GroupSyncer>,
    control: Arc<net::AcceptorHandle>,
    web: Option<WebServer>,
    tls: Option<Arc<TlsSettings>>,
    managing: Mutex<Option<ManagementServer>>,
    threads: Mutex<Option<ServerThreads>>,
    socket_files: Mutex<Vec<SocketFile>>,
    state: Mutex<ServerState>,
    changed: Condvar,
}

struct ServerThreads {
    acceptor: JoinHandle<()>,
    syncer: JoinHandle<()>,
    reaper: ExpiryReaper,
    keeper: ConnectionReaper,
    sampler: JoinHandle<()>,
    waits: JoinHandle<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerState {
    Running,
    Stopping,
}

/// Returns the default number of event loops: three quarters of the processors, rounded down. The
/// remaining processors are left to compactions and the kernel, because a loop that waits for a
/// processor delays all of its connections. In a measurement with Redis on the same machine, 50
/// connections on two processors and pipelines of 64 SETs, the 99th percentile latency was 27 ms
/// with two loops and 10 ms with one, at the same throughput.
fn usual_loops() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    processors - processors.div_ceil(4)
}

/// Starts the web page if its address is configured.
fn start_web(
    options: &ServerOptions,
    shared: &Arc<StoreContext>,
    tls: Option<&Arc<TlsSettings>>,
) -> Result<Option<WebServer>> {
    let Some(address) = options.web else {
        return Ok(None);
    };
    let setting = WebOptions {
        address,
        names: options.web_names.clone(),
        tls: tls.cloned(),
        grace: options.grace,
    };
    Ok(Some(WebServer::start(shared, setting)?))
}

impl Server {
    /// Starts a server for an open store.
    ///
    /// # Errors
    /// Returns [`Error::Unprotected`] if other machines can reach an address without a password or
    /// a client certificate. Also returns [`Error::Listen`], [`Error::Tls`],
    /// [`Error::BackupDirectory`] and [`Error::Store`].
    pub fn start(db: &Db, options: ServerOptions) -> Result<Server> {
        let access = access(&options)?;
        protected(&options, &access)?;
        let tls = options.tls.as_ref().map(TlsSettings::new).transpose()?;
        let tls = tls.map(Arc::new);
        let mut listeners = Vec::new();
        let redis = listen(options.redis, WireProtocol::Redis, &mut listeners)?;
        let memcached = listen(options.memcached, WireProtocol::Memcached, &mut listeners)?;
        let socket_files = listen_at_files(&options, &mut listeners)?;
        let store = Arc::new(ServerStore::open(db, options.keys)?);
        let port = |address: Option<SocketAddr>| address.map_or(0, |address| address.port());
        let ports = ListenPorts {
            redis: port(redis),
            memcached: port(memcached),
        };
        let loops = options.loops.unwrap_or_else(usual_loops).max(1);
        let shared = Arc::new(StoreContext::new(
            Arc::clone(&store),
            &options,
            access,
            ports,
            loops,
        ));
        shared.place_backups(&options)?;
        let syncer = Arc::new(GroupSyncer::new({
            let db = db.clone();
            Box::new(move || db.sync())
        }));
        let seats: std::io::Result<Vec<_>> = (0..loops).map(|_| EventLoop::seat(&syncer)).collect();
        let pool = Arc::new(LoopPool::new(seats?, &shared.budget));
        let web = start_web(&options, &shared, tls.as_ref())?;
        let sessions = sessions(&shared);
        let (acceptor, control) = Acceptor::new(listeners, &shared.common, sessions, &pool, tls.clone())?;
        let waking = Arc::downgrade(&pool);
        let wake = move || {
            if let Some(pool) = waking.upgrade() {
                pool.seats.iter().for_each(net::LoopSlot::request_check);
            }
        };
        assert!(shared.wake.set(Box::new(wake)).is_ok(), "it is set once");
        pool.start();
        let threads = ServerThreads {
            acceptor: std::thread::Builder::new()
                .name("alluvium-accept".to_owned())
                .spawn(move || acceptor.run())?,
            syncer: net::start_syncer(&syncer, &pool)?,
            reaper: ExpiryReaper::start(&store)?,
            keeper: ConnectionReaper::start(&shared.common, Arc::clone(&shared) as _)?,
            sampler: sampler::start(&shared)?,
            waits: shared.waits.start()?,
        };
        let running = Arc::new(ServerComponents {
            options,
            shared,
            pool,
            syncer,
            control,
            web,
            tls,
            managing: Mutex::new(None),
            threads: Mutex::new(Some(threads)),
            socket_files: Mutex::new(socket_files),
            state: Mutex::new(ServerState::Running),
            changed: Condvar::new(),
        });
        let stopping = Arc::downgrade(&running);
        let stop = move || {
            if let Some(running) = stopping.upgrade() {
                running.stop();
            }
        };
        assert!(running.shared.stop.set(Box::new(stop)).is_ok(), "it is set once");
        Ok(Server {
            redis,
            memcached,
            running,
        })
    }

    /// Returns the address of the Redis protocol, with its actual port.
    #[must_use]
    pub fn redis_addr(&self) -> Option<SocketAddr> {
        self.redis
    }

    /// Returns the address of the memcached protocol, with its actual port.
    #[must_use]
    pub fn memcached_addr(&self) -> Option<SocketAddr> {
        self.memcached
    }

    /// Returns the address of the web page, or `None` if it is not served.
    #[must_use]
    pub fn web_addr(&self) -> Option<SocketAddr> {
        self.running.web.as_ref().map(WebServer::address)
    }

    /// Creates the management socket in the store's directory, through which other processes of the
    /// same user can manage the store: see [`control`](crate::control). The socket is closed when
    /// the server stops.
    ///
    /// # Errors
    /// Returns I/O errors from creating the socket or starting its thread.
    pub fn manage(&self, directory: impl AsRef<Path>) -> std::io::Result<()> {
        self.manage_with_services(directory, ConnectionServices::new())
    }

    /// Like [`Server::manage`], and hands connections to services that ask for them.
    ///
    /// # Errors
    /// Returns the errors of [`Server::manage`].
    pub fn manage_with_services(
        &self,
        directory: impl AsRef<Path>,
        services: ConnectionServices,
    ) -> std::io::Result<()> {
        let shared = &self.running.shared;
        let about = ServerInfo {
            store: Arc::clone(&shared.store),
            counts: Arc::new({
                let shared = Arc::clone(shared);
                move || shared.counts()
            }),
        };
        let control =
            ManagementServer::start_with(&shared.store.db, directory.as_ref(), Some(about), services)?;
        *self.running.managing.lock() = Some(control);
        Ok(())
    }

    /// Loads the users from their file again, as `ACL LOAD` does. Connections of users that no
    /// longer exist or are now disabled end. Does nothing if no file stores the users.
    ///
    /// # Errors
    /// Returns [`Error::Users`], with the place of the mistake. No user has changed then.
    pub fn reload_users(&self) -> Result<()> {
        let shared = &self.running.shared;
        let ended = shared.access.load().map_err(|why| Error::Users { why })?;
        shared.end_connections_of(&ended, None);
        Ok(())
    }

    /// Replaces certificate, key and client authority for connections that begin later.
    ///
    /// # Errors
    /// Returns [`Error::Tls`] if they are not valid, or the server was started without TLS. The
    /// earlier ones stay in use then.
    pub fn reload_tls(&self, tls: &TlsOptions) -> Result<()> {
        let settings = self.running.tls.as_ref().ok_or_else(|| Error::Tls {
            why: "the server was started without TLS, and must be restarted with it".to_owned(),
        })?;
        settings.replace(tls)
    }

    /// Returns the number of connected clients.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.running.shared.clients.len()
    }

    /// Starts the shutdown and returns immediately. The server stops accepting connections and
    /// executes the requests that it has already received. Each connection is closed once its
    /// replies have been sent, or after [`ServerOptions::grace`] at the latest. Any thread may call
    /// this, also repeatedly.
    pub fn stop(&self) {
        self.running.stop();
    }

    /// Waits until a shutdown is requested and complete. The store remains open.
    ///
    /// # Errors
    /// Returns errors from the final sync, which makes acknowledged writes durable.
    pub fn join(&self) -> Result<()> {
        {
            let mut state = self.running.state.lock();
            while *state == ServerState::Running {
                self.running.changed.wait(&mut state);
            }
        }
        self.running.finish()
    }
}

impl ServerComponents {
    fn stop(&self) {
        let mut state = self.state.lock();
        if *state == ServerState::Running {
            *state = ServerState::Stopping;
            self.shared.access.delays.end();
            self.control.stop();
            if let Some(web) = &self.web {
                web.stop();
            }
            self.changed.notify_all();
        }
    }

    fn finish(&self) -> Result<()> {
        let mut threads = self.threads.lock();
        let Some(ServerThreads {
            acceptor,
            syncer,
            reaper,
            keeper,
            sampler,
            waits,
        }) = threads.take()
        else {
            return Ok(());
        };
        // Closing the pause resumes the commands that it suspends.
        self.shared.pause.close();
        self.shared.waits.close();
        self.shared.scripts.close();
        if waits.join().is_err() {
            tracing::error!("the thread that ends the waits of clients has panicked");
        }
        if sampler.join().is_err() {
            tracing::error!("the thread that samples counters has panicked");
        }
        // Stop the components that receive requests before the threads that execute them.
        if let Some(control) = self.managing.lock().take() {
            control.stop();
        }
        if acceptor.join().is_err() {
            tracing::error!("the thread that accepts connections has panicked");
        }
        self.socket_files.lock().clear();
        self.pool.stop(Instant::now() + self.options.grace);
        self.pool.join();
        self.syncer.stop();
        if syncer.join().is_err() {
            tracing::error!("the thread that syncs the log has panicked");
        }
        reaper.stop();
        keeper.stop();
        if let Some(web) = &self.web {
            web.join();
        }
        self.shared.store.note_time()?;
        self.shared.store.db.sync()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        if let Err(error) = self.running.finish() {
            tracing::error!(%error, "the server did not stop cleanly");
        }
    }
}

/// Returns the session factory for a store's clients.
fn sessions(shared: &Arc<StoreContext>) -> net::SessionFactory {
    let shared = Arc::clone(shared);
    Box::new(move |language, client| match language {
        WireProtocol::Redis => Box::new(redis::RedisSession::new(&shared, client)),
        WireProtocol::Memcached => Box::new(memcached::MemcachedSession::new(&shared, client)),
    })
}

impl MemoryPressureListener for StoreContext {
    fn release_memory(&self, held: u64) -> std::result::Result<(), String> {
        let counted = self.store.db.set_external_memory(held);
        counted.map_err(|error| error.to_string())
    }

    fn age_statistics(&self) {
        self.store.sizes.age();
    }

    fn budget(&self) -> u64 {
        self.store.db.stats().memory.budget
    }
}

/// Creates the registry of users who may log in.
pub(crate) fn access(options: &ServerOptions) -> Result<UserRegistry> {
    let clock = match &options.clock {
        Some(clock) => Arc::clone(clock),
        None => Arc::new(SystemClock::start()?),
    };
    let access = UserRegistry::new(
        options.password.as_deref(),
        options.users.clone(),
        LoginThrottle::new(clock),
    );
    access.map_err(|why| Error::Users { why })
}

/// Listens on an address if one is configured. Returns the listener and its address with the actual
/// port.
pub(crate) fn listen(
    address: Option<SocketAddr>,
    language: WireProtocol,
    listeners: &mut Vec<ProtocolListener>,
) -> Result<Option<SocketAddr>> {
    let Some(address) = address else {
        return Ok(None);
    };
    let failed = |cause| Error::Listen { address, cause };
    let socket = TcpListener::bind(address).map_err(failed)?;
    let bound = socket.local_addr().map_err(failed)?;
    let socket = ListeningSocket::Network(socket);
    listeners.push(ProtocolListener { socket, language });
    Ok(Some(bound))
}

/// Creates the configured Unix domain sockets and listens on them.
pub(crate) fn listen_at_files(
    options: &ServerOptions,
    listeners: &mut Vec<ProtocolListener>,
) -> Result<Vec<SocketFile>> {
    let asked = [
        (&options.redis_socket, WireProtocol::Redis),
        (&options.memcached_socket, WireProtocol::Memcached),
    ];
    let mut files = Vec::new();
    for (path, language) in asked {
        let Some(path) = path else { continue };
        let listened = SocketFile::listen(path, options.socket_mode);
        let (socket, file) = listened.map_err(|cause| Error::Socket {
            path: path.clone(),
            cause,
        })?;
        let socket = ListeningSocket::File(UnixListener::from_std(socket), file.path().into());
        listeners.push(ProtocolListener { socket, language });
        files.push(file);
    }
    Ok(files)
}

/// Returns an error if other machines can reach an address without authenticating. TLS alone is not
/// sufficient, because any client can open an encrypted connection.
pub(crate) fn protected(options: &ServerOptions, access: &UserRegistry) -> Result<()> {
    if options.exposure == Exposure::Unprotected {
        return Ok(());
    }
    let asks_for_certificates = options
        .tls
        .as_ref()
        .is_some_and(|tls| tls.client_authority.is_some());
    if !access.is_open() || asks_for_certificates {
        return Ok(());
    }
    let addresses = [options.redis, options.memcached, options.web];
    match addresses
        .into_iter()
        .flatten()
        .find(|address| !address.ip().is_loopback())
    {
        Some(address) => Err(Error::Unprotected { address }),
        None => Ok(()),
    }
}

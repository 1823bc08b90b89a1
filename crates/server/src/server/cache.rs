//! Starts and stops a cache server, and provides its handle.

use crate::cache::{CacheContext, CacheMemory, ItemCache};
use crate::error::{Error, Result};
use crate::net::{
    self, Acceptor, ConnectionBudget, ConnectionReaper, EventLoop, GroupSyncer, LoopPool,
    MemoryPressureListener, TlsSettings, WireProtocol,
};
use crate::options::ServerOptions;
use crate::protocol::datagram::{
    DatagramOptions, DatagramServer, PortFigures, RingClient, RingOptions, RingServer,
};
use crate::protocol::memcached;
use crate::redis;
use crate::server::{access, listen, listen_at_files, protected};
use crate::shared::{ListenPorts, ServerContext};
use alluvium_device::socket::SocketFile;
use parking_lot::{Condvar, Mutex};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

/// A server in cache mode, which keeps its data only in memory. Dropping the handle stops the
/// server and discards all data.
///
/// ```
/// use alluvium_server::{CacheMemory, CacheServer, ServerOptions};
/// use std::io::{Read, Write};
/// let options = ServerOptions {
///     memcached: Some("127.0.0.1:0".parse().unwrap()),
///     ..ServerOptions::default()
/// };
/// let server = CacheServer::start(CacheMemory::new(16 << 20), options)?;
/// let mut socket = std::net::TcpStream::connect(server.memcached_addr().unwrap())?;
/// socket.write_all(b"set river 0 0 5\r\nRhine\r\nget river\r\n")?;
/// let mut reply = [0; 37];
/// socket.read_exact(&mut reply)?;
/// assert_eq!(&reply[..], b"STORED\r\nVALUE river 0 5\r\nRhine\r\nEND\r\n".as_slice());
/// server.stop();
/// server.join();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CacheServer {
    redis: Option<SocketAddr>,
    memcached: Option<SocketAddr>,
    running: Arc<CacheComponents>,
}

impl fmt::Debug for CacheServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheServer")
            .field("redis", &self.redis)
            .field("memcached", &self.memcached)
            .finish_non_exhaustive()
    }
}

/// The server components to stop at shutdown.
struct CacheComponents {
    options: ServerOptions,
    cached: Arc<CacheContext>,
    pool: Arc<LoopPool>,
    control: Arc<net::AcceptorHandle>,
    threads: Mutex<Option<(JoinHandle<()>, ConnectionReaper)>>,
    datagrams: Mutex<Vec<DatagramServer>>,
    rings: Mutex<Vec<RingServer>>,
    socket_files: Mutex<Vec<SocketFile>>,
    is_stopping: Mutex<bool>,
    changed: Condvar,
}

/// In cache mode, the connections' memory comes on top of the cache's. The cache does not release
/// memory for connections.
impl MemoryPressureListener for CacheContext {
    fn release_memory(&self, _held: u64) -> std::result::Result<(), String> {
        Ok(())
    }

    fn age_statistics(&self) {}

    fn budget(&self) -> u64 {
        self.content.memory.bytes + self.common.budget.limit() as u64
    }
}

/// Returns the session factory for a cache's clients.
fn sessions(cached: &Arc<CacheContext>) -> net::SessionFactory {
    let cached = Arc::clone(cached);
    Box::new(move |language, client| match language {
        WireProtocol::Redis => Box::new(redis::CachedSession::new(&cached, client)),
        WireProtocol::Memcached => Box::new(memcached::CachedSession::new(&cached, client)),
    })
}

/// Returns the default number of event loops: one per processor. Unlike a store, a cache has no
/// compactions that need processors of their own.
fn usual_loops() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl CacheServer {
    /// Starts a server in cache mode. Its connections use memory in addition to the cache's, by
    /// default limited to a quarter of the cache's size: see
    /// [`ServerLimits::memory`](crate::ServerLimits::memory).
    ///
    /// # Errors
    /// Returns [`Error::Cache`] if the memory cannot be allocated or an option applies only to
    /// stores. Returns [`Error::Unprotected`], [`Error::Listen`] and [`Error::Tls`] for the same
    /// reasons as [`Server::start`](crate::Server::start).
    pub fn start(memory: CacheMemory, options: ServerOptions) -> Result<CacheServer> {
        refuse_what_stores_have(&options)?;
        let access = access(&options)?;
        protected(&options, &access)?;
        let tls = options.tls.as_ref().map(TlsSettings::new).transpose()?;
        let tls = tls.map(Arc::new);
        let content = ItemCache::new(memory, fastrand::u64(..))?;
        let mut listeners = Vec::new();
        let redis = listen(options.redis, WireProtocol::Redis, &mut listeners)?;
        let memcached = listen(options.memcached, WireProtocol::Memcached, &mut listeners)?;
        let socket_files = listen_at_files(&options, &mut listeners)?;
        let port = |address: Option<SocketAddr>| address.map_or(0, |address| address.port());
        let ports = ListenPorts {
            redis: port(redis),
            memcached: port(memcached),
        };
        let loops = options.loops.unwrap_or_else(usual_loops).max(1);
        let of_clients = options
            .limits
            .memory
            .unwrap_or_else(|| net::share_of(memory.bytes));
        let budget = Arc::new(ConnectionBudget::new(of_clients));
        let common = Arc::new(ServerContext::new(&options, access, budget, ports, loops));
        let cached = Arc::new(CacheContext { common, content });
        let syncer = Arc::new(GroupSyncer::new(Box::new(|| Ok(()))));
        let seats: std::io::Result<Vec<_>> = (0..loops).map(|_| EventLoop::seat(&syncer)).collect();
        let pool = Arc::new(LoopPool::new(seats?, &cached.common.budget));
        let common = &cached.common;
        let (acceptor, control) = Acceptor::new(listeners, common, sessions(&cached), &pool, tls)?;
        let waking = Arc::downgrade(&pool);
        let wake = move || {
            if let Some(pool) = waking.upgrade() {
                pool.seats.iter().for_each(net::LoopSlot::request_check);
            }
        };
        assert!(common.wake.set(Box::new(wake)).is_ok(), "it is set once");
        pool.start();
        let acceptor = std::thread::Builder::new()
            .name("alluvium-accept".to_owned())
            .spawn(move || acceptor.run())?;
        let keeper = ConnectionReaper::start(common, Arc::clone(&cached) as _)?;
        let running = Arc::new(CacheComponents {
            options,
            cached,
            pool,
            control,
            threads: Mutex::new(Some((acceptor, keeper))),
            datagrams: Mutex::default(),
            rings: Mutex::default(),
            socket_files: Mutex::new(socket_files),
            is_stopping: Mutex::new(false),
            changed: Condvar::new(),
        });
        Ok(CacheServer {
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

    /// Also serves the cache's items through MICA's datagram protocol: see
    /// [`DatagramClient`](crate::DatagramClient). Returns the address of the first port. Each
    /// further call adds more ports.
    ///
    /// # Errors
    /// Returns [`Error::Unprotected`] if other machines can reach the address and no shared key is
    /// given, [`Error::Cache`] if the number of ports is invalid, and [`Error::Listen`].
    pub fn serve_datagrams(&self, options: &DatagramOptions) -> Result<SocketAddr> {
        let datagrams = DatagramServer::start(&self.running.cached, options)?;
        let address = datagrams.address;
        self.running.datagrams.lock().push(datagrams);
        Ok(address)
    }

    /// Returns the receive statistics of all datagram ports, in port order.
    ///
    /// ```
    /// use alluvium_server::{CacheMemory, CacheServer, DatagramClient, DatagramOptions, ServerOptions};
    /// let server = CacheServer::start(CacheMemory::new(16 << 20), ServerOptions::default())?;
    /// let options = DatagramOptions { ports: 2, ..DatagramOptions::new("127.0.0.1:0".parse().unwrap()) };
    /// let address = server.serve_datagrams(&options)?;
    /// DatagramClient::connect(address, None)?;
    /// let figures = server.datagram_figures();
    /// assert_eq!((figures[0].datagrams, figures[1].datagrams), (1, 0), "it has told the directory");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn datagram_figures(&self) -> Vec<PortFigures> {
        let all = self.running.datagrams.lock();
        all.iter().flat_map(DatagramServer::figures).collect()
    }

    /// Also serves the cache's items to threads of this process, through ring buffers in shared
    /// memory. Returns the client ends of the ring buffers.
    ///
    /// # Errors
    /// Returns [`Error::Cache`] if the options are invalid.
    pub fn serve_rings(&self, options: &RingOptions) -> Result<Vec<RingClient>> {
        let (rings, clients) = RingServer::start(&self.running.cached, options)?;
        self.running.rings.lock().push(rings);
        Ok(clients)
    }

    /// Returns the number of connected clients.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.running.cached.common.clients.len()
    }

    /// Starts the shutdown and returns immediately. The server stops accepting connections and
    /// executes the requests that it has already received. Each connection is closed once its
    /// replies have been sent, or after [`ServerOptions::grace`] at the latest. Any thread may call
    /// this, also repeatedly.
    pub fn stop(&self) {
        self.running.stop();
    }

    /// Waits until a shutdown is requested and complete.
    pub fn join(&self) {
        {
            let mut is_stopping = self.running.is_stopping.lock();
            while !*is_stopping {
                self.running.changed.wait(&mut is_stopping);
            }
        }
        self.running.finish();
    }
}

impl CacheComponents {
    fn stop(&self) {
        let mut is_stopping = self.is_stopping.lock();
        if !std::mem::replace(&mut *is_stopping, true) {
            self.cached.common.access.delays.end();
            self.control.stop();
            self.changed.notify_all();
        }
    }

    /// Stops the components that receive requests, and then the threads that execute them.
    fn finish(&self) {
        let Some((acceptor, keeper)) = self.threads.lock().take() else {
            return;
        };
        if acceptor.join().is_err() {
            tracing::error!("the thread that accepts connections has panicked");
        }
        self.datagrams.lock().clear();
        self.rings.lock().clear();
        self.socket_files.lock().clear();
        self.pool.stop(Instant::now() + self.options.grace);
        self.pool.join();
        keeper.stop();
    }
}

impl Drop for CacheServer {
    fn drop(&mut self) {
        self.stop();
        self.running.finish();
    }
}

/// Rejects options that apply only to a server with a store.
fn refuse_what_stores_have(options: &ServerOptions) -> Result<()> {
    let asked = [
        ("a web page", options.web.is_some()),
        ("users", options.users.is_some()),
        ("a directory for backups", options.backup_directory.is_some()),
    ];
    match asked.into_iter().find(|(_, is_asked)| *is_asked) {
        Some((what, _)) => Err(Error::Cache {
            why: format!(
                "a server in cache mode does not support {}; leave out this option",
                what.trim_start_matches("a ")
            ),
        }),
        None => Ok(()),
    }
}

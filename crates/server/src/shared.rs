//! What all connections of a server share: the store, clients, counters, settings.

use crate::monitor::Monitors;
use crate::net::Language;
use crate::options::{Limits, ServerOptions};
use crate::pause::Pause;
use crate::redis;
use crate::sampler::Samples;
use crate::slowlog::SlowLog;
use crate::store::Store;
use crate::tally::Tally;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

/// What is counted since the server was started.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connections: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) commands: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) received: AtomicU64,
    pub(crate) sent: AtomicU64,
    /// Reads of sockets that brought something, and writes to them.
    pub(crate) reads: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) output_overflows: AtomicU64,
    /// Connections that were closed since a command panicked.
    pub(crate) panics: AtomicU64,
    pub(crate) items_got: AtomicU64,
    pub(crate) items_hit: AtomicU64,
    pub(crate) items_set: AtomicU64,
    pub(crate) items_touched: AtomicU64,
    pub(crate) item_flushes: AtomicU64,
    /// What else became of commands about items.
    pub(crate) items: crate::memcached::Counts,
}

/// What is known of a connection by others.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) since: Instant,
    pub(crate) name: Mutex<String>,
    pub(crate) database: AtomicU8,
    /// 2 or 3.
    pub(crate) version: AtomicU8,
    /// Commands in a MULTI that was begun, or -1.
    pub(crate) queued: AtomicI64,
    /// Milliseconds from `since` to the last command.
    pub(crate) last_ms: AtomicU64,
    /// The number under which the last command is counted, or [`NO_COMMAND`].
    last_command: AtomicU16,
    pub(crate) is_killed: AtomicBool,
    /// What it speaks.
    pub(crate) language: Language,
    /// The number of its socket, or -1.
    pub(crate) descriptor: AtomicI64,
    /// Whether it is shown what others send.
    pub(crate) is_monitor: AtomicBool,
    /// What it says of itself.
    pub(crate) library: Mutex<(String, String)>,
    pub(crate) memory: ClientMemory,
}

/// The number of the last command of a connection that has sent none.
const NO_COMMAND: u16 = u16::MAX;

impl Client {
    pub(crate) fn set_last_command(&self, counted_as: u16) {
        self.last_command.store(counted_as, Ordering::Relaxed);
    }

    /// Returns the name of the last command.
    pub(crate) fn last_command(&self) -> &'static str {
        let index = usize::from(self.last_command.load(Ordering::Relaxed));
        redis::counted_names().get(index).map_or("NULL", String::as_str)
    }
}

/// Bytes that a connection holds, as it noted them last.
#[derive(Debug, Default)]
pub(crate) struct ClientMemory {
    /// Received and not yet understood.
    pub(crate) input: AtomicU64,
    /// What the buffer for that takes beyond.
    pub(crate) input_room: AtomicU64,
    /// Replies that were not sent.
    pub(crate) output: AtomicU64,
    /// What their buffer takes in all.
    pub(crate) output_room: AtomicU64,
    /// Commands between MULTI and EXEC.
    pub(crate) queued: AtomicU64,
}

impl ClientMemory {
    /// Returns all that it holds.
    pub(crate) fn total(&self) -> u64 {
        let buffers = [&self.input, &self.input_room, &self.output_room, &self.queued];
        let held: u64 = buffers.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum();
        held + size_of::<Client>() as u64
    }
}

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    all: Mutex<BTreeMap<u64, Arc<Client>>>,
    next: AtomicU64,
}

impl Clients {
    /// One more, if there may be as many.
    pub(crate) fn admit(
        &self,
        language: Language,
        peer: SocketAddr,
        local: SocketAddr,
        most: usize,
    ) -> Option<Arc<Client>> {
        let mut all = self.all.lock();
        if all.len() >= most {
            return None;
        }
        let client = Arc::new(Client {
            id: self.next.fetch_add(1, Ordering::Relaxed) + 1,
            peer,
            local,
            since: Instant::now(),
            name: Mutex::default(),
            database: AtomicU8::new(0),
            version: AtomicU8::new(2),
            queued: AtomicI64::new(-1),
            last_ms: AtomicU64::new(0),
            last_command: AtomicU16::new(NO_COMMAND),
            is_killed: AtomicBool::new(false),
            language,
            descriptor: AtomicI64::new(-1),
            is_monitor: AtomicBool::new(false),
            library: Mutex::default(),
            memory: ClientMemory::default(),
        });
        all.insert(client.id, Arc::clone(&client));
        Some(client)
    }

    pub(crate) fn remove(&self, id: u64) {
        self.all.lock().remove(&id);
    }

    pub(crate) fn list(&self) -> Vec<Arc<Client>> {
        self.all.lock().values().cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.lock().len()
    }
}

/// Settings that CONFIG SET may change while the server runs.
#[derive(Debug)]
pub(crate) struct Config {
    max_clients: AtomicUsize,
    max_output: AtomicUsize,
    pub(crate) slow_us: AtomicI64,
    pub(crate) slow_entries: AtomicUsize,
    password: RwLock<Option<Arc<str>>>,
    pub(crate) limits: Limits,
}

impl Config {
    pub(crate) fn max_clients(&self) -> usize {
        self.max_clients.load(Ordering::Relaxed)
    }

    pub(crate) fn set_max_clients(&self, most: usize) {
        self.max_clients.store(most, Ordering::Relaxed);
    }

    pub(crate) fn max_output(&self) -> usize {
        self.max_output.load(Ordering::Relaxed)
    }

    pub(crate) fn password(&self) -> Option<Arc<str>> {
        self.password.read().clone()
    }

    /// Whether a user's name and password are right. There is one user, `default`, as in Redis.
    pub(crate) fn admits(&self, user: &[u8], password: &[u8]) -> bool {
        let wanted = self.password.read();
        let is_right = |wanted: &Arc<str>| equal(wanted.as_bytes(), password);
        user == b"default" && wanted.as_ref().is_none_or(is_right)
    }

    pub(crate) fn set_password(&self, password: Option<&str>) {
        *self.password.write() = password.map(Arc::from);
    }
}

/// Compares without telling by the time it takes where the difference is.
fn equal(left: &[u8], right: &[u8]) -> bool {
    let differences = left.iter().zip(right).fold(0, |all, (a, b)| all | (a ^ b));
    left.len() == right.len() && differences == 0
}

/// The ports that protocols are spoken at; 0 where they are not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) redis: u16,
    pub(crate) memcached: u16,
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) store: Arc<Store>,
    pub(crate) clients: Clients,
    pub(crate) counters: Counters,
    pub(crate) config: Config,
    pub(crate) slow: SlowLog,
    pub(crate) tally: Tally,
    pub(crate) latencies: crate::latency::Latencies,
    pub(crate) monitors: Monitors,
    pub(crate) pause: Pause,
    pub(crate) samples: Samples,
    /// Tells this life of the server from others: 40 hexadecimal digits.
    pub(crate) run_id: String,
    pub(crate) since: Instant,
    /// When everything was last made durable on request, in seconds since 1970.
    pub(crate) saved: AtomicU64,
    /// The last commit that was in it.
    pub(crate) saved_sequence: AtomicU64,
    /// When all items of memcached are to be deleted, in milliseconds since 1970, or 0.
    pub(crate) flush_at: AtomicU64,
    /// The port that the Redis protocol is spoken at, or 0.
    pub(crate) redis_port: u16,
    /// The port that the memcached protocol is spoken at, or 0.
    pub(crate) memcached_port: u16,
    /// How many loops serve connections.
    pub(crate) loops: usize,
    /// Wakes all loops, so that they end connections that were killed.
    pub(crate) wake: std::sync::OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Begins to stop the server.
    pub(crate) stop: std::sync::OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Shared {
    pub(crate) fn new(store: Arc<Store>, options: &ServerOptions, ports: Ports, loops: usize) -> Shared {
        let saved = store.now_ms() / 1000;
        let saved_sequence = store.db.sequence();
        Shared {
            store,
            clients: Clients::default(),
            counters: Counters::default(),
            config: Config {
                max_clients: AtomicUsize::new(options.limits.connections),
                max_output: AtomicUsize::new(options.limits.output),
                slow_us: AtomicI64::new(10_000),
                slow_entries: AtomicUsize::new(128),
                password: RwLock::new(options.password.as_deref().map(Arc::from)),
                limits: options.limits,
            },
            slow: SlowLog::default(),
            tally: Tally::new(redis::counted_names().len()),
            latencies: crate::latency::Latencies::default(),
            monitors: Monitors::default(),
            pause: Pause::default(),
            samples: Samples::default(),
            run_id: (0..5).map(|_| format!("{:08x}", fastrand::u32(..))).collect(),
            since: Instant::now(),
            saved: AtomicU64::new(saved),
            saved_sequence: AtomicU64::new(saved_sequence),
            flush_at: AtomicU64::new(0),
            redis_port: ports.redis,
            memcached_port: ports.memcached,
            loops,
            wake: std::sync::OnceLock::new(),
            stop: std::sync::OnceLock::new(),
        }
    }

    /// Counts an error reply.
    pub(crate) fn count_error(&self, text: &str) {
        self.counters.errors.fetch_add(1, Ordering::Relaxed);
        self.tally.error(text);
    }

    /// Returns the bytes of memory that are in use by the store, not those that it may take.
    pub(crate) fn used_memory(&self) -> u64 {
        let stats = self.store.db.stats();
        let memory = &stats.memory;
        let caches = stats.cache.charged_bytes + stats.records.used_bytes;
        memory.memtables + memory.log + memory.tree + memory.tables + caches
    }
}

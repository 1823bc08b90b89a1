//! The state that all connections of a server share: the store, the client registry, counters and
//! settings.

use crate::access::{AclUser, UserRegistry};
use crate::net::{self, ConnectionBudget, ConnectionMemory, EndpointAddress, WireProtocol};
use crate::observe::command_stats::CommandStats;
use crate::observe::forecast::ForecastCache;
use crate::observe::log_level::LogLevel;
use crate::observe::monitor::MonitorRegistry;
use crate::observe::sampler::SampleHistory;
use crate::observe::slowlog::SlowLog;
use crate::options::{ServerLimits, ServerOptions};
use crate::redis;
use crate::redis::backups::BackupManager;
use crate::redis::blocking::WaitRegistry;
use crate::redis::commit_hub::{CommitHub, NotifiedEvents};
use crate::redis::pause::PauseControl;
use crate::redis::pubsub::SubscriptionRegistry;
use crate::redis::scripting::ScriptRegistry;
use crate::store::ServerStore;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Event counters since the server started.
#[derive(Debug, Default)]
pub(crate) struct ServerCounters {
    pub(crate) connections: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) commands: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) received: AtomicU64,
    pub(crate) sent: AtomicU64,
    /// Number of socket reads that returned data.
    pub(crate) reads: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) output_overflows: AtomicU64,
    /// Number of connections closed because the total memory of connections was too large.
    pub(crate) evicted: AtomicU64,
    /// Number of requests and replies rejected because the total memory of connections was too
    /// large.
    pub(crate) memory_refusals: AtomicU64,
    /// Number of connections closed because they exceeded the idle timeout or the time limit for
    /// authentication.
    pub(crate) timed_out: AtomicU64,
    /// Number of connections closed because one of their commands panicked.
    pub(crate) panics: AtomicU64,
    pub(crate) items_got: AtomicU64,
    pub(crate) items_hit: AtomicU64,
    pub(crate) items_set: AtomicU64,
    pub(crate) items_touched: AtomicU64,
    pub(crate) item_flushes: AtomicU64,
    /// Further counters for commands on memcached items.
    pub(crate) items: crate::observe::item_counts::ItemCounters,
}

/// The part of a connection's state that other connections can read.
#[derive(Debug)]
pub(crate) struct ClientHandle {
    pub(crate) id: u64,
    pub(crate) peer: EndpointAddress,
    pub(crate) local: EndpointAddress,
    /// The user of this connection, initially `default`.
    pub(crate) user: Mutex<Arc<AclUser>>,
    pub(crate) since: Instant,
    pub(crate) name: Mutex<String>,
    pub(crate) database: AtomicU8,
    /// The connection's Redis protocol version, 2 or 3.
    pub(crate) version: AtomicU8,
    /// Number of commands queued since MULTI, or -1 if no transaction is open.
    pub(crate) queued: AtomicI64,
    /// Time of the last command, in milliseconds after `since`.
    pub(crate) last_ms: AtomicU64,
    /// The last command's index in the command statistics, or [`NO_COMMAND`] if there is none.
    last_command: AtomicU16,
    pub(crate) is_killed: AtomicBool,
    /// Whether the connection is being served or waits for the store.
    pub(crate) is_busy: AtomicBool,
    pub(crate) load: ConnectionMemory,
    /// The protocol that the connection uses.
    pub(crate) language: WireProtocol,
    /// The socket's file descriptor number, or -1 if it has none.
    pub(crate) descriptor: AtomicI64,
    /// Whether the connection receives other connections' commands (MONITOR).
    pub(crate) is_monitor: AtomicBool,
    /// Numbers of subscriptions: of channels, patterns and sharded channels.
    pub(crate) subscriptions: [AtomicUsize; 3],
    /// Whether a command waits until another client changes a key.
    pub(crate) is_blocked: AtomicBool,
    /// The client library's name and version, set with CLIENT SETINFO.
    pub(crate) library: Mutex<(String, String)>,
}

/// The reads of one batch may use at most 1/`BATCH_SHARE` of the memory limit for all clients.
const BATCH_SHARE: usize = 8;

/// The value of `last_command` before a connection's first command.
const NO_COMMAND: u16 = u16::MAX;

impl ClientHandle {
    pub(crate) fn set_last_command(&self, counted_as: u16) {
        self.last_command.store(counted_as, Ordering::Relaxed);
    }

    /// Returns the name of the connection's last command.
    pub(crate) fn last_command(&self) -> &'static str {
        let index = usize::from(self.last_command.load(Ordering::Relaxed));
        redis::counted_names().get(index).map_or("NULL", String::as_str)
    }

    /// Returns whether the connection has subscriptions.
    pub(crate) fn is_subscriber(&self) -> bool {
        let mut counts = self.subscriptions.iter();
        counts.any(|count| count.load(Ordering::Relaxed) > 0)
    }

    /// Returns the connection's age in milliseconds.
    pub(crate) fn age_ms(&self) -> u64 {
        self.age_ms_at(Instant::now())
    }

    /// Returns the connection's age at the time `now` in milliseconds.
    pub(crate) fn age_ms_at(&self, now: Instant) -> u64 {
        let age = now.saturating_duration_since(self.since);
        age.as_secs() * 1000 + u64::from(age.subsec_millis())
    }

    /// Returns the time since bytes were last received or sent in milliseconds.
    pub(crate) fn idle_ms(&self) -> u64 {
        self.age_ms()
            .saturating_sub(self.load.moved_ms.load(Ordering::Relaxed))
    }
}

/// The open Redis and memcached connections, by connection ID. IDs start at 1 and are never reused.
#[derive(Debug, Default)]
pub(crate) struct ClientRegistry {
    all: Mutex<BTreeMap<u64, Arc<ClientHandle>>>,
    next: AtomicU64,
}

impl ClientRegistry {
    /// Registers a connection. Returns `None` if there are already too many connections.
    pub(crate) fn admit(
        &self,
        language: WireProtocol,
        (peer, local): (EndpointAddress, EndpointAddress),
        user: Arc<AclUser>,
        most: usize,
    ) -> Option<Arc<ClientHandle>> {
        let mut all = self.all.lock();
        if all.len() >= most {
            return None;
        }
        let client = Arc::new(ClientHandle {
            id: self.next.fetch_add(1, Ordering::Relaxed) + 1,
            peer,
            local,
            user: Mutex::new(user),
            since: Instant::now(),
            name: Mutex::default(),
            database: AtomicU8::new(0),
            version: AtomicU8::new(2),
            queued: AtomicI64::new(-1),
            last_ms: AtomicU64::new(0),
            last_command: AtomicU16::new(NO_COMMAND),
            is_killed: AtomicBool::new(false),
            is_busy: AtomicBool::new(false),
            load: ConnectionMemory::default(),
            language,
            descriptor: AtomicI64::new(-1),
            is_monitor: AtomicBool::new(false),
            subscriptions: Default::default(),
            is_blocked: AtomicBool::new(false),
            library: Mutex::default(),
        });
        all.insert(client.id, Arc::clone(&client));
        Some(client)
    }

    pub(crate) fn remove(&self, id: u64) {
        self.all.lock().remove(&id);
    }

    /// Calls `look` for each open connection.
    pub(crate) fn each(&self, look: impl FnMut(&Arc<ClientHandle>)) {
        self.all.lock().values().for_each(look);
    }

    pub(crate) fn list(&self) -> Vec<Arc<ClientHandle>> {
        self.all.lock().values().cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.lock().len()
    }
}

/// Settings that CONFIG SET can change while the server runs.
#[derive(Debug)]
pub(crate) struct RuntimeConfig {
    max_clients: AtomicUsize,
    max_output: AtomicUsize,
    /// Maximum total memory of all connections in bytes, or 0 for a share of the store's memory.
    client_memory: AtomicUsize,
    /// Idle timeout of connections in seconds, or 0 for none.
    idle_s: AtomicU64,
    /// Seconds without received data before the first TCP keepalive probe, or 0 to send none.
    keepalive_s: AtomicU64,
    pub(crate) slow_us: AtomicI64,
    pub(crate) slow_entries: AtomicUsize,
    pub(crate) limits: ServerLimits,
    /// Time limit for a connection to authenticate.
    pub(crate) login_timeout: Duration,
}

impl RuntimeConfig {
    pub(crate) fn max_clients(&self) -> usize {
        self.max_clients.load(Ordering::Relaxed)
    }

    pub(crate) fn set_max_clients(&self, most: usize) {
        self.max_clients.store(most, Ordering::Relaxed);
    }

    pub(crate) fn max_output(&self) -> usize {
        self.max_output.load(Ordering::Relaxed)
    }

    pub(crate) fn set_max_output(&self, most: usize) {
        self.max_output.store(most, Ordering::Relaxed);
    }

    /// Returns the idle timeout of connections, or zero if there is none.
    pub(crate) fn idle_timeout(&self) -> Duration {
        Duration::from_secs(self.idle_s.load(Ordering::Relaxed))
    }

    pub(crate) fn set_idle_timeout(&self, seconds: u64) {
        self.idle_s.store(seconds, Ordering::Relaxed);
    }

    /// Returns the time without received data before the first TCP keepalive probe, or zero if none
    /// are sent.
    pub(crate) fn keepalive(&self) -> Duration {
        Duration::from_secs(self.keepalive_s.load(Ordering::Relaxed))
    }

    pub(crate) fn set_keepalive(&self, seconds: u64) {
        self.keepalive_s.store(seconds, Ordering::Relaxed);
    }
}

/// The ports of the protocols. A port is 0 if its protocol is not served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListenPorts {
    pub(crate) redis: u16,
    pub(crate) memcached: u16,
}

/// The state that all connections of a server share, whether it serves a store or a cache: the
/// client registry, counters and settings.
pub(crate) struct ServerContext {
    pub(crate) clients: ClientRegistry,
    pub(crate) counters: ServerCounters,
    pub(crate) config: RuntimeConfig,
    pub(crate) access: UserRegistry,
    /// The memory budget that all connections share.
    pub(crate) budget: Arc<ConnectionBudget>,
    pub(crate) tally: CommandStats,
    /// A random identifier of this server run: 40 hexadecimal digits.
    pub(crate) run_id: String,
    pub(crate) since: Instant,
    /// When all memcached items will be deleted, in milliseconds since 1970, or 0 if no deletion is
    /// scheduled.
    pub(crate) flush_at: AtomicU64,
    /// The port of the Redis protocol, or 0 if it is not served.
    pub(crate) redis_port: u16,
    /// The port of the memcached protocol, or 0 if it is not served.
    pub(crate) memcached_port: u16,
    /// Number of event loops, which memcached's `stats` reports as the number of threads.
    pub(crate) loops: usize,
    /// Wakes all event loops, so that they close killed connections.
    pub(crate) wake: std::sync::OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Starts the server's shutdown.
    pub(crate) stop: std::sync::OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl ServerContext {
    pub(crate) fn new(
        options: &ServerOptions,
        access: UserRegistry,
        budget: Arc<ConnectionBudget>,
        ports: ListenPorts,
        loops: usize,
    ) -> ServerContext {
        ServerContext {
            clients: ClientRegistry::default(),
            counters: ServerCounters::default(),
            config: RuntimeConfig {
                max_clients: AtomicUsize::new(options.limits.connections),
                max_output: AtomicUsize::new(options.limits.output),
                client_memory: AtomicUsize::new(options.limits.memory.unwrap_or(0)),
                idle_s: AtomicU64::new(options.idle_timeout.map_or(0, |timeout| timeout.as_secs().max(1))),
                keepalive_s: AtomicU64::new(options.keepalive.map_or(0, |silence| silence.as_secs().max(1))),
                slow_us: AtomicI64::new(10_000),
                slow_entries: AtomicUsize::new(128),
                limits: options.limits,
                login_timeout: options.login_timeout,
            },
            access,
            budget,
            tally: CommandStats::new(redis::counted_names().len()),
            run_id: (0..5).map(|_| format!("{:08x}", fastrand::u32(..))).collect(),
            since: Instant::now(),
            flush_at: AtomicU64::new(0),
            redis_port: ports.redis,
            memcached_port: ports.memcached,
            loops,
            wake: std::sync::OnceLock::new(),
            stop: std::sync::OnceLock::new(),
        }
    }

    /// Ends the connections of users, all but that with this ID.
    pub(crate) fn end_connections_of(&self, users: &[Arc<AclUser>], except: Option<u64>) {
        if users.is_empty() {
            return;
        }
        for client in self.clients.list() {
            let is_theirs = users.iter().any(|one| Arc::ptr_eq(one, &client.user.lock()));
            if is_theirs && Some(client.id) != except {
                client.is_killed.store(true, Ordering::Relaxed);
            }
        }
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }

    /// Counts an error reply, both in the total and under its first word.
    pub(crate) fn count_error(&self, text: &str) {
        self.counters.errors.fetch_add(1, Ordering::Relaxed);
        self.tally.error(text);
    }

    /// Returns the total memory of all connections in bytes.
    pub(crate) fn client_bytes(&self) -> u64 {
        self.budget.held_with(self.clients.len()) as u64
    }

    /// Returns the counters as JSON, for the web page and management clients.
    pub(crate) fn counts(&self) -> Value {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        json!({
            "connections": self.clients.len(),
            "most_connections": self.config.max_clients(),
            "connections_accepted": count(&self.counters.connections),
            "connections_rejected": count(&self.counters.rejected),
            "commands": count(&self.counters.commands),
            "errors": count(&self.counters.errors),
            "received_bytes": count(&self.counters.received),
            "sent_bytes": count(&self.counters.sent),
        })
    }
}

/// The state that all connections of a server with a store share.
pub(crate) struct StoreContext {
    pub(crate) common: Arc<ServerContext>,
    pub(crate) store: Arc<ServerStore>,
    pub(crate) slow: SlowLog,
    pub(crate) backups: BackupManager,
    /// The program's log level, or `None` if clients may not change it.
    pub(crate) log_level: Option<LogLevel>,
    pub(crate) latencies: crate::observe::latency::LatencyMonitor,
    pub(crate) monitors: MonitorRegistry,
    pub(crate) pause: PauseControl,
    pub(crate) samples: SampleHistory,
    pub(crate) forecasts: ForecastCache,
    /// Time of the last backup in seconds since 1970. Before the first backup, the time at which
    /// the server started.
    pub(crate) saved: AtomicU64,
    /// The commands that wait until other clients change keys.
    pub(crate) waits: Arc<WaitRegistry>,
    pub(crate) subscriptions: Arc<SubscriptionRegistry>,
    /// The scripts of clients.
    pub(crate) scripts: Arc<ScriptRegistry>,
    /// The changes of keys that subscribers of keyspace events hear of.
    pub(crate) events: Arc<NotifiedEvents>,
    /// The settings of Redis that have no effect here.
    pub(crate) foreign_settings: redis::ForeignSettings,
}

impl Deref for StoreContext {
    type Target = ServerContext;

    fn deref(&self) -> &ServerContext {
        &self.common
    }
}

impl StoreContext {
    pub(crate) fn new(
        store: Arc<ServerStore>,
        options: &ServerOptions,
        access: UserRegistry,
        ports: ListenPorts,
        loops: usize,
    ) -> StoreContext {
        let saved = store.now_ms() / 1000;
        let hub = CommitHub {
            waits: Arc::new(WaitRegistry::new(&store)),
            subscriptions: Arc::new(SubscriptionRegistry::new(&store.budget)),
            events: Arc::default(),
        };
        let (waits, subscriptions) = (Arc::clone(&hub.waits), Arc::clone(&hub.subscriptions));
        let events = Arc::clone(&hub.events);
        let scripts = Arc::new(ScriptRegistry::new(&store.budget));
        store.locks.set_listener(Arc::new(hub));
        let backups = BackupManager::since(store.db.sequence());
        let common = ServerContext::new(options, access, Arc::clone(&store.budget), ports, loops);
        let shared = StoreContext {
            common: Arc::new(common),
            store,
            slow: SlowLog::default(),
            backups,
            log_level: options.log_level.clone(),
            latencies: crate::observe::latency::LatencyMonitor::default(),
            monitors: MonitorRegistry::default(),
            pause: PauseControl::default(),
            samples: SampleHistory::default(),
            forecasts: ForecastCache::default(),
            saved: AtomicU64::new(saved),
            waits,
            subscriptions,
            scripts,
            events,
            foreign_settings: redis::ForeignSettings::default(),
        };
        shared.fit_client_memory();
        shared
    }

    /// Returns the memory that the store actually uses in bytes, as opposed to its budget.
    pub(crate) fn used_memory(&self) -> u64 {
        let stats = self.store.db.stats();
        let memory = &stats.memory;
        let caches = stats.cache.charged_bytes + stats.records.used_bytes;
        memory.memtables + memory.log + memory.tree + memory.tables + caches
    }

    /// Sets the maximum total memory of all connections in bytes, or 0 for a share of the store's
    /// memory.
    pub(crate) fn set_client_memory(&self, bytes: usize) {
        self.config.client_memory.store(bytes, Ordering::Relaxed);
        self.fit_client_memory();
    }

    /// Recomputes the connections' maximum memory from the store's memory, unless it was set
    /// explicitly.
    pub(crate) fn fit_client_memory(&self) {
        let bytes = match self.config.client_memory.load(Ordering::Relaxed) {
            0 => net::share_of(self.store.db.stats().memory.budget),
            set => set,
        };
        self.budget.set_limit(bytes);
        self.store.sizes.set_share(bytes / BATCH_SHARE);
    }

    /// Sets the backup directory from the options.
    pub(crate) fn place_backups(&self, options: &ServerOptions) -> crate::error::Result<()> {
        match &options.backup_directory {
            Some(directory) => {
                let placed = self.backups.set_directory(directory);
                placed.map_err(|why| crate::error::Error::BackupDirectory { why })
            }
            None => Ok(()),
        }
    }
}

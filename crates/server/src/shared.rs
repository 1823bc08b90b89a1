//! What all connections of a server share: the store, clients, counters, settings.

use crate::LogLevel;
use crate::access::{Access, User};
use crate::backups::Backups;
use crate::net::Address;
use crate::options::{Limits, ServerOptions};
use crate::slowlog::SlowLog;
use crate::store::Store;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
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
    pub(crate) output_overflows: AtomicU64,
    /// Connections that were closed since a command panicked.
    pub(crate) panics: AtomicU64,
    pub(crate) items_got: AtomicU64,
    pub(crate) items_hit: AtomicU64,
    pub(crate) items_set: AtomicU64,
    pub(crate) items_touched: AtomicU64,
    pub(crate) item_flushes: AtomicU64,
}

/// What is known of a connection by others.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) peer: Address,
    pub(crate) local: Address,
    /// Whose it is: `default`, until it says otherwise.
    pub(crate) user: Mutex<Arc<User>>,
    pub(crate) since: Instant,
    pub(crate) name: Mutex<String>,
    pub(crate) database: AtomicU8,
    /// 2 or 3.
    pub(crate) version: AtomicU8,
    /// Commands in a MULTI that was begun, or -1.
    pub(crate) queued: AtomicI64,
    /// Milliseconds from `since` to the last command.
    pub(crate) last_ms: AtomicU64,
    pub(crate) last_command: Mutex<&'static str>,
    pub(crate) is_killed: AtomicBool,
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
        (peer, local): (Address, Address),
        user: Arc<User>,
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
            user: Mutex::new(user),
            since: Instant::now(),
            name: Mutex::default(),
            database: AtomicU8::new(0),
            version: AtomicU8::new(2),
            queued: AtomicI64::new(-1),
            last_ms: AtomicU64::new(0),
            last_command: Mutex::new("NULL"),
            is_killed: AtomicBool::new(false),
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
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) store: Arc<Store>,
    pub(crate) clients: Clients,
    pub(crate) counters: Counters,
    pub(crate) config: Config,
    pub(crate) access: Access,
    pub(crate) slow: SlowLog,
    pub(crate) backups: Backups,
    /// How much is logged, if clients may change that.
    pub(crate) log_level: Option<LogLevel>,
    pub(crate) since: Instant,
    /// When everything was last made durable on request, in seconds since 1970.
    pub(crate) saved: AtomicU64,
    /// When all items of memcached are to be deleted, in milliseconds since 1970, or 0.
    pub(crate) flush_at: AtomicU64,
    /// The port that the Redis protocol is spoken at, or 0.
    pub(crate) redis_port: u16,
    /// Wakes all loops, so that they end connections that were killed.
    pub(crate) wake: std::sync::OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Shared {
    pub(crate) fn new(store: Arc<Store>, options: &ServerOptions, access: Access, redis_port: u16) -> Shared {
        let saved = store.now_ms() / 1000;
        let backups = Backups::since(store.db.sequence());
        Shared {
            store,
            clients: Clients::default(),
            counters: Counters::default(),
            config: Config {
                max_clients: AtomicUsize::new(options.limits.connections),
                max_output: AtomicUsize::new(options.limits.output),
                slow_us: AtomicI64::new(10_000),
                slow_entries: AtomicUsize::new(128),
                limits: options.limits,
            },
            access,
            slow: SlowLog::default(),
            backups,
            log_level: options.log_level.clone(),
            since: Instant::now(),
            saved: AtomicU64::new(saved),
            flush_at: AtomicU64::new(0),
            redis_port,
            wake: std::sync::OnceLock::new(),
        }
    }

    /// Has backups go where the options say.
    pub(crate) fn place_backups(&self, options: &ServerOptions) -> crate::Result<()> {
        match &options.backup_directory {
            Some(directory) => {
                let placed = self.backups.set_directory(directory);
                placed.map_err(|why| crate::Error::BackupDirectory { why })
            }
            None => Ok(()),
        }
    }

    /// What is counted, as the page and managers show it.
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

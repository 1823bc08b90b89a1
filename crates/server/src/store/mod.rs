//! The store as commands see it: databases of keys with typed values, changed atomically.
//!
//! *Scope*: keyspaces, key locks, transactions, the allocation of collection numbers, the expiry of
//! collections, and the memory that commands use during execution.
//!
//! *Must not depend on*: protocols, connections, replies.
//!
//! Invariants:
//!
//! - **S6** A command that writes a user's key holds the key's lock from the first read on which
//!   the write depends until the commit is visible. The lock is normally exclusive. If the write
//!   depends on no read (a blind write), the lock admits other blind writers.
//! - **S7** All writes of a command belong to one commit, and so do all writes of a MULTI
//!   transaction. A commit may contain several commands of a batch. A very large batch is committed
//!   in several parts, but no command is split between parts. The elements of a new collection may
//!   be committed earlier, because no reader can see them yet (`staged_writes.rs`).
//! - **S8** Both the store and an in-memory filter list the keys that may have collections
//!   (`collection_filter.rs`), and a SET of any other key needs no read. The filter lists a key
//!   with a collection from before the commit that creates the collection becomes visible until
//!   after the commit that deletes it. The filter changes only under the key's lock.
//! - **S30** Each record is in exactly one keyspace: the keyspace of its database if keys are
//!   hashed, otherwise the common keyspace. A commit that writes to several keyspaces writes them
//!   in one batch.
//! - **S24** A command uses the database mapping that is valid while it holds its locks. A command
//!   without locks uses the mapping that was valid when its keys were read.

mod clock;
mod collection_filter;
mod commit_reports;
mod cursors;
mod databases;
mod deferred_record;
mod entries;
mod expiry_reaper;
mod expiry_tracker;
mod interactive;
mod key_events;
mod last_uses;
mod layout;
mod locks;
mod lookups;
mod memory_reservation;
pub(crate) mod model;
mod nested_transaction;
mod order;
mod own_records;
mod record_walk;
mod records;
mod scan;
mod sizes;
mod staged_writes;
mod transaction;
mod upgrade;
mod vacant_ranges;

pub(crate) use clock::{MOST_BEHIND_MS, StoreClock};
pub(crate) use commit_reports::WaitLength;
pub(crate) use databases::{DatabaseMap, numbers_of};
pub(crate) use expiry_reaper::ExpiryReaper;
pub(crate) use interactive::{InteractiveTransaction, JointOutcome, ReadTracking, explained};
pub(crate) use key_events::{
    AwaitedKey, ChannelMessage, CommitListener, EventClass, KeyChange, KeyEvent, KeyKind,
};
pub(crate) use layout::{existing, is_hashed};
pub(crate) use locks::{KeyLockGuard, KeyLockRequest, Mode};
pub(crate) use lookups::LookupCounts;
pub(crate) use memory_reservation::{ReadReservation, WorkingMemory};
pub(crate) use order::ChunkCounter;
pub(crate) use records::RecordKeyspaces;
pub(crate) use scan::{OwnedPair, WalkDirection};
pub(crate) use sizes::ValueSizeStats;
pub(crate) use staged_writes::StagingWriter;
pub(crate) use transaction::{CommandTransaction, CommitOutcome};

use crate::net::{ConnectionBudget, wait_hooks};
use crate::options::KeyLayout;
use crate::store::model::format;
use alluvium::{Db, Durability, Keyspace, Result, Value};

use collection_filter::CollectionFilter;
use cursors::CursorTable;
use expiry_tracker::ExpiryTracker;
use locks::KeyLocks;
use order::OrderCache;
use parking_lot::Mutex;
use record_walk::WalkCache;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Number of Redis databases. `databases.rs` packs each of their stored numbers into four bits.
pub(crate) const DATABASES: u8 = 16;

/// Name of the keyspace for all Redis data except hashed records.
pub(crate) const DATA: &str = "redis";

/// Name of the keyspace of memcached items.
pub(crate) const ITEMS: &str = "memcached";

/// Number of collection numbers reserved by each write to the store.
const NUMBERS: u64 = 1 << 20;

/// Divisor of the store's memory. The quotient limits the filter of keys with collections and,
/// separately, the cache of sorted sets' rank indexes.
const SHARE: u64 = 64;
/// The durability that a write must reach before it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteDurability {
    /// The write survives a power failure.
    ForDisk,
    /// The write survives a crash of the process.
    ForProcess,
}

/// The store, together with the server's own state about it.
pub(crate) struct ServerStore {
    pub(crate) db: Db,
    pub(crate) data: Keyspace,
    pub(crate) items: Keyspace,
    pub(crate) records: RecordKeyspaces,
    /// Suspended SCAN iterators over hashed records, kept to be resumed.
    pub(crate) walks: WalkCache,
    pub(crate) locks: KeyLocks,
    /// The mapping from the clients' databases to stored numbers (S24).
    pub(crate) databases: DatabaseMap,
    clock: StoreClock,
    pub(crate) expiring: ExpiryTracker,
    /// Filter of the keys that may have collections (S8).
    pub(crate) marks: CollectionFilter,
    /// Cache of the rank indexes of large sorted sets (S17).
    orders: OrderCache,
    numbers: Mutex<Range<u64>>,
    cas: AtomicU64,
    waits_for_disk: AtomicBool,
    /// The table that maps SCAN cursors to keys.
    pub(crate) cursors: CursorTable,
    /// Number of read-only commands' lookups that found the key, and number that did not.
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    /// Statistics on the sizes of values.
    pub(crate) sizes: ValueSizeStats,
    /// Approximate time at which each key was last used.
    pub(crate) uses: last_uses::LastUses,
    /// The clients' memory budget, to which executing commands also charge their memory.
    pub(crate) budget: Arc<ConnectionBudget>,
}

impl fmt::Debug for ServerStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerStore")
            .field("db", &self.db)
            .finish_non_exhaustive()
    }
}

impl ServerStore {
    /// Opens the server's data in a store.
    ///
    /// # Errors
    /// [`Error::InOrder`](crate::Error::InOrder),
    /// [`Error::SnapshotInOrder`](crate::Error::SnapshotInOrder),
    /// [`Error::Newer`](crate::Error::Newer), and errors of the store.
    pub(crate) fn open(db: &Db, keys: KeyLayout) -> crate::error::Result<ServerStore> {
        let found = layout::decide(db, keys)?;
        let data = db.keyspace(DATA)?;
        let items = found.settle(db, &data)?;
        upgrade::upgrade(db, &data)?;
        let records = RecordKeyspaces::open(db, found.layout)?;
        ServerStore::forget_staged(&data, db)?;
        let number = |key: &[u8]| -> Result<u64> {
            let value = data.get(key)?;
            Ok(value.map_or(0, |value| format::decode_number(&value).unwrap_or_default()))
        };
        let latest_ms = number(&format::time_key())?;
        let clock = StoreClock::new(latest_ms);
        let numbers = number(&format::numbers_key())?;
        let most = db.stats().memory.budget / SHARE;
        let marks = CollectionFilter::new(usize::try_from(most).unwrap_or(usize::MAX));
        marks.load(&data)?;
        let orders = OrderCache::new(usize::try_from(most).unwrap_or(usize::MAX));
        // CAS values must differ from those of earlier runs, even if the clock was set back in the
        // meantime.
        let cas = latest_ms.max(clock.now_ms()) << 20;
        let uses = last_uses::LastUses::since(clock.now_ms());
        let db_durability = data.durability();
        Ok(ServerStore {
            db: db.clone(),
            databases: DatabaseMap::load(&data)?,
            data,
            items,
            records,
            walks: WalkCache::default(),
            locks: KeyLocks::new(),
            clock,
            expiring: ExpiryTracker::default(),
            marks,
            orders,
            numbers: Mutex::new(numbers..numbers),
            cas: AtomicU64::new(cas),
            waits_for_disk: AtomicBool::new(db_durability == Durability::Disk),
            cursors: CursorTable::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            sizes: ValueSizeStats::default(),
            uses,
            budget: Arc::new(ConnectionBudget::new(usize::MAX)),
        })
    }

    /// Reads keys of a keyspace. Returns the values in the order of the keys, and a memory charge
    /// that the caller must keep while it uses the values. If the read must wait for the device,
    /// other threads serve the remaining clients meanwhile.
    pub(crate) fn read_charged(
        &self,
        keyspace: &Keyspace,
        keys: &[impl AsRef<[u8]>],
    ) -> Result<(Vec<Option<Value>>, Option<ReadReservation>)> {
        if let Some(values) = keyspace.multi_get_in_memory(keys)? {
            return Ok((values, None));
        }
        let reading = self.wait_for_room_to_read(keys.len());
        Ok((wait_hooks::wait_for(keyspace.multi_get_async(keys))?, reading))
    }

    /// Like [`ServerStore::read_charged`], but releases the memory charge. The caller must drop the
    /// values soon.
    pub(crate) fn read_all(
        &self,
        keyspace: &Keyspace,
        keys: &[impl AsRef<[u8]>],
    ) -> Result<Vec<Option<Value>>> {
        Ok(self.read_charged(keyspace, keys)?.0)
    }

    pub(crate) fn read(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Value>> {
        Ok(self.read_all(keyspace, &[key])?.pop().flatten())
    }

    /// Returns the time in milliseconds since 1970. It goes backwards only if the system clock is
    /// set back by more than a day.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Returns whether writes are acknowledged only after they have been synced to the disk.
    pub(crate) fn waits_for_disk(&self) -> bool {
        self.waits_for_disk.load(Ordering::Relaxed)
    }

    /// Sets the durability that writes must reach before they are acknowledged.
    pub(crate) fn set_waits(&self, waits: WriteDurability) {
        self.waits_for_disk
            .store(waits == WriteDurability::ForDisk, Ordering::Relaxed);
    }

    /// Allocates a number for a new collection (S4).
    pub(crate) fn new_number(&self) -> Result<u64> {
        let mut numbers = self.numbers.lock();
        if numbers.is_empty() {
            let end = numbers.end + NUMBERS;
            self.data
                .put(&format::numbers_key()[..], format::encode_number(end))?;
            numbers.end = end;
        }
        Ok(numbers.next().expect("some were reserved"))
    }

    /// Allocates the next CAS value. Every change of an item gets its own value.
    pub(crate) fn next_cas(&self) -> u64 {
        self.cas.fetch_add(1, Ordering::Relaxed)
    }

    /// Stores the current time, so that the server's time does not go backwards after a restart.
    pub(crate) fn note_time(&self) -> Result<()> {
        let now = format::encode_number(self.now_ms());
        self.data.put(&format::time_key()[..], now)
    }
}

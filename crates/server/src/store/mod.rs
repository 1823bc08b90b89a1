//! The store as commands see it: databases of typed keys with atomic changes.
//!
//! *Scope*: keyspaces, key locks, transactions, numbers of collections, expiry of collections, and
//! the memory of commands during their execution.
//!
//! *Must not depend on*: protocols, connections, replies.
//!
//! Invariants:
//!
//! - **S6** A command that writes to a user's key holds its lock from the first read that the write
//!   depends on until the commit is visible. The lock excludes all other commands, or, if the write
//!   depends on no read (a blind write), all except other blind writers.
//! - **S7** The writes of a command are one commit, together with those of other commands in its
//!   batch; so are the writes of a whole MULTI. A very large batch is committed in parts, each
//!   consisting of whole commands. Elements of a new collection may be written earlier, where no
//!   reader sees them (`staged_writes.rs`).
//! - **S8** The store and the memory record which keys may have collections
//!   (`collection_filter.rs`); a SET of any other key needs no read. A key with a collection is
//!   recorded from before its commit is visible until after the commit that deletes it, under the
//!   key's lock.
//! - **S30** A record is in exactly one keyspace: that of its database if keys are hashed,
//!   otherwise the common one. Writes of a commit to both are one batch.
//! - **S24** A command works on the keys that its database has while the command holds its locks,
//!   or, if it holds none, that the database had when its keys were read.

mod clock;
mod collection_filter;
mod cursors;
mod databases;
mod deferred_record;
mod entries;
mod expiry_reaper;
mod expiry_tracker;
mod interactive;
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
pub(crate) use databases::{DatabaseMap, numbers_of};
pub(crate) use expiry_reaper::ExpiryReaper;
pub(crate) use interactive::{InteractiveTransaction, ReadTracking, explained};
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

/// Number of Redis databases. `databases.rs` packs their numbers into four bits each.
pub(crate) const DATABASES: u8 = 16;

/// The keyspace of all data of Redis clients, except records if they are hashed.
pub(crate) const DATA: &str = "redis";

/// The keyspace of memcached's items.
pub(crate) const ITEMS: &str = "memcached";

/// Collection numbers reserved by one write.
const NUMBERS: u64 = 1 << 20;

/// Divisor for the share of the memory that marks of collections may use, and for the share of the
/// orders of sorted sets.
const SHARE: u64 = 64;
/// The durability at which a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteDurability {
    /// The write survives a loss of power.
    ForDisk,
    /// The write survives the death of the process.
    ForProcess,
}

/// The store with the server's additions.
pub(crate) struct ServerStore {
    pub(crate) db: Db,
    pub(crate) data: Keyspace,
    pub(crate) items: Keyspace,
    pub(crate) records: RecordKeyspaces,
    /// Walks of SCAN over hashed records that can be continued.
    pub(crate) walks: WalkCache,
    pub(crate) locks: KeyLocks,
    /// The mapping of databases (S24).
    pub(crate) databases: DatabaseMap,
    clock: StoreClock,
    pub(crate) expiring: ExpiryTracker,
    /// The keys that may have collections (S8).
    pub(crate) marks: CollectionFilter,
    /// Indexes of ranks in large sorted sets (S17).
    orders: OrderCache,
    numbers: Mutex<Range<u64>>,
    cas: AtomicU64,
    waits_for_disk: AtomicBool,
    /// The positions of SCAN cursors.
    pub(crate) cursors: CursorTable,
    /// Lookups by read-only commands: keys that existed, and keys that did not.
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    /// The sizes of values that were read.
    pub(crate) sizes: ValueSizeStats,
    /// Times of the last use of keys.
    pub(crate) uses: last_uses::LastUses,
    /// The memory budget of clients, which also covers commands in execution.
    pub(crate) budget: Arc<ConnectionBudget>,
}

impl fmt::Debug for ServerStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("db", &self.db)
            .finish_non_exhaustive()
    }
}

impl ServerStore {
    /// Opens the server's part of a store.
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
        // CAS values must differ from those of an earlier run, even if the clock was set back.
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

    /// Reads keys of a keyspace. Returns their values in order, and the memory charge to hold while
    /// they are in use. Before waiting for the device it lets other clients be served.
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

    /// Like [`ServerStore::read_charged`], for values that are dropped at once.
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

    /// Returns the milliseconds since 1970. The time goes back only if the clock is set back by
    /// more than a day.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Returns whether writes are acknowledged only when they are on the disk.
    pub(crate) fn waits_for_disk(&self) -> bool {
        self.waits_for_disk.load(Ordering::Relaxed)
    }

    /// Changes the durability at which writes are acknowledged.
    pub(crate) fn set_waits(&self, waits: WriteDurability) {
        self.waits_for_disk
            .store(waits == WriteDurability::ForDisk, Ordering::Relaxed);
    }

    /// Returns the number for a new collection (S4).
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

    /// Returns the next CAS value. Every change gets a new one.
    pub(crate) fn next_cas(&self) -> u64 {
        self.cas.fetch_add(1, Ordering::Relaxed)
    }

    /// Records the time in the store, so that it does not go back after a restart.
    pub(crate) fn note_time(&self) -> Result<()> {
        let now = format::encode_number(self.now_ms());
        self.data.put(&format::time_key()[..], now)
    }
}

//! The store as commands see it: databases of typed keys, changed atomically.
//!
//! *Knows*: which keyspaces there are, locks of keys, transactions, numbers of collections, what
//! becomes of collections that expire, and the memory that commands may take while they are
//! executed.
//!
//! *Does not know*: protocols, connections, replies.
//!
//! *Read in this order*: `transaction.rs` (what a command reads and writes through), `entries.rs`
//! (typed keys on top of it), `kept.rs` (records that pipelines work on), `scan.rs` (walks),
//! `layout.rs`, `records.rs`, `own_records.rs` and
//! `walking.rs` (records that have no order), `locks.rs`, `databases.rs` (SWAPDB),
//! `interactive.rs` and `within.rs` (transactions of clients), `staging.rs` (collections larger
//! than a commit), `order/` (ranks in sorted sets), `working.rs` (memory of commands), `marks.rs`
//! (which keys may have collections), `upgrade.rs` (stores of earlier versions), `clock.rs`,
//! `idle.rs`, `reaper.rs` with `expiring.rs`.
//!
//! Invariants:
//!
//! - **S6** A command that writes to a user's key holds its lock from the first read that the write
//!   depends on until the commit is seen: against all others, or, if it depends on none (a blind
//!   write), against all but other blind writers.
//! - **S7** What a command writes is one commit, together with what others of its batch write; so
//!   is a whole MULTI. A batch that writes very much is committed in parts, each of whole commands.
//!   Elements of a collection that is made may be written before, where no reader sees them
//!   (`staging.rs`).
//! - **S8** It is known, in the store and in memory, which keys may have collections (`marks.rs`):
//!   a SET of any other needs no read. A key that has one is among them from before its commit is
//!   seen until after that which deletes it, under the key's lock.
//! - **S30** A record is in one keyspace: that of its database where keys are hashed, else with all
//!   the rest. What a commit writes to both is one batch.
//! - **S24** A command works on the keys that its database has while the command holds its locks,
//!   or, if it has none, that the database had when its keys were read.

mod clock;
mod databases;
mod entries;
mod expiring;
mod idle;
mod interactive;
mod kept;
mod layout;
mod locks;
mod lookups;
mod marks;
mod order;
mod own_records;
mod reaper;
mod records;
mod scan;
mod sizes;
mod staging;
mod transaction;
mod upgrade;
mod vacancies;
mod walking;
mod within;
mod working;

pub(crate) use clock::{Clock, MOST_BEHIND_MS};
pub(crate) use databases::{Databases, numbers_of};
pub(crate) use interactive::{Dependence, Interactive, explained};
pub(crate) use layout::{existing, is_hashed};
pub(crate) use locks::{Held, Mode, Wanted};
pub(crate) use lookups::Lookups;
pub(crate) use order::Counting;
pub(crate) use reaper::Reaper;
pub(crate) use records::Records;
pub(crate) use scan::{Direction, Pair};
pub(crate) use sizes::Sizes;
pub(crate) use staging::Staging;
pub(crate) use transaction::{Outcome, Transaction};
pub(crate) use working::{Reading, Working};

use crate::cursors::Cursors;
use crate::model::format;
use crate::net::Budget;
use crate::options::KeyLayout;
use crate::waits;
use alluvium::{Db, Durability, Keyspace, Result, Value};

use expiring::Expiring;
use locks::Locks;
use marks::Marks;
use order::Orders;
use parking_lot::Mutex;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use walking::Walks;

/// How many databases SELECT chooses from.
pub(crate) const DATABASES: u8 = 16;

/// The keyspace of everything that Redis clients have, but of records that have no order.
pub(crate) const DATA: &str = "redis";

/// The keyspace of memcached's items.
pub(crate) const ITEMS: &str = "memcached";

/// How many numbers of collections are reserved with one write.
const NUMBERS: u64 = 1 << 20;

/// The part of the memory that may say which keys have collections; and that which may hold orders
/// of sorted sets.
const SHARE: u64 = 64;
/// What the acknowledgement of a write waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// That the write survives the loss of power.
    ForDisk,
    /// That it survives the death of the process.
    ForProcess,
}

/// The store with what the server adds to it.
pub(crate) struct Store {
    pub(crate) db: Db,
    pub(crate) data: Keyspace,
    pub(crate) items: Keyspace,
    /// Where records are.
    pub(crate) records: Records,
    /// Walks of SCAN over hashed records that may go on.
    pub(crate) walks: Walks,
    pub(crate) locks: Locks,
    /// Where the keys of databases are (S24).
    pub(crate) databases: Databases,
    clock: Clock,
    pub(crate) expiring: Expiring,
    /// Which keys may have collections (S8).
    pub(crate) marks: Marks,
    /// Where ranks in large sorted sets are found (S17).
    orders: Orders,
    numbers: Mutex<Range<u64>>,
    cas: AtomicU64,
    waits_for_disk: AtomicBool,
    /// Where walks over all keys go on.
    pub(crate) cursors: Cursors,
    /// Keys that commands which only read have asked for and that were there, and not there.
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    /// How long values are that are read.
    pub(crate) sizes: Sizes,
    /// When keys were last used.
    pub(crate) uses: idle::LastUses,
    /// The memory of clients, which commands take from while they are executed.
    pub(crate) budget: Arc<Budget>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("db", &self.db)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the server's part of a store.
    ///
    /// # Errors
    /// [`Error::InOrder`](crate::Error::InOrder), [`Error::Newer`](crate::Error::Newer), as the
    /// store says.
    pub(crate) fn open(db: &Db, keys: KeyLayout) -> crate::Result<Store> {
        let found = layout::decide(db, keys)?;
        let data = db.keyspace(DATA)?;
        let items = found.settle(db, &data)?;
        upgrade::upgrade(db, &data)?;
        let records = Records::open(db, found.layout)?;
        Store::forget_staged(&data, db)?;
        let number = |key: &[u8]| -> Result<u64> {
            let value = data.get(key)?;
            Ok(value.map_or(0, |value| format::decode_number(&value).unwrap_or_default()))
        };
        let latest_ms = number(&format::time_key())?;
        let clock = Clock::new(latest_ms);
        let numbers = number(&format::numbers_key())?;
        let most = db.stats().memory.budget / SHARE;
        let marks = Marks::new(usize::try_from(most).unwrap_or(usize::MAX));
        marks.load(&data)?;
        let orders = Orders::new(usize::try_from(most).unwrap_or(usize::MAX));
        // What CAS compares must differ from what it was in an earlier life, though a clock was
        // set back.
        let cas = latest_ms.max(clock.now_ms()) << 20;
        let uses = idle::LastUses::since(clock.now_ms());
        let db_durability = data.durability();
        Ok(Store {
            db: db.clone(),
            databases: Databases::load(&data)?,
            data,
            items,
            records,
            walks: Walks::default(),
            locks: Locks::new(),
            clock,
            expiring: Expiring::default(),
            marks,
            orders,
            numbers: Mutex::new(numbers..numbers),
            cas: AtomicU64::new(cas),
            waits_for_disk: AtomicBool::new(db_durability == Durability::Disk),
            cursors: Cursors::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            sizes: Sizes::default(),
            uses,
            budget: Arc::new(Budget::new(usize::MAX)),
        })
    }

    /// What many keys of a keyspace have, in their order, and the memory that they take until they
    /// are done with. Others are let go on while this waits for the device.
    pub(crate) fn read_charged(
        &self,
        keyspace: &Keyspace,
        keys: &[impl AsRef<[u8]>],
    ) -> Result<(Vec<Option<Value>>, Option<Reading>)> {
        if let Some(values) = keyspace.multi_get_in_memory(keys)? {
            return Ok((values, None));
        }
        let reading = self.wait_for_room_to_read(keys.len());
        Ok((waits::wait_for(keyspace.multi_get_async(keys))?, reading))
    }

    /// The same, for values that are done with at once.
    pub(crate) fn read_all(
        &self,
        keyspace: &Keyspace,
        keys: &[impl AsRef<[u8]>],
    ) -> Result<Vec<Option<Value>>> {
        Ok(self.read_charged(keyspace, keys)?.0)
    }

    /// The same of one key.
    pub(crate) fn read(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Value>> {
        Ok(self.read_all(keyspace, &[key])?.pop().flatten())
    }

    /// Milliseconds since 1970, which do not go back by less than a day.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Whether commits are acknowledged when they are on the disk.
    pub(crate) fn waits_for_disk(&self) -> bool {
        self.waits_for_disk.load(Ordering::Relaxed)
    }

    /// Changes what acknowledgements wait for from now on.
    pub(crate) fn set_waits(&self, waits: Waits) {
        self.waits_for_disk
            .store(waits == Waits::ForDisk, Ordering::Relaxed);
    }

    /// A number for a new collection (S4).
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

    /// What CAS compares: another one for every change.
    pub(crate) fn next_cas(&self) -> u64 {
        self.cas.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes the time, so that a later life does not fall behind it.
    pub(crate) fn note_time(&self) -> Result<()> {
        let now = format::encode_number(self.now_ms());
        self.data.put(&format::time_key()[..], now)
    }
}

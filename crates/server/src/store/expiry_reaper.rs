//! A background thread that deletes the elements of expired collections.
//!
//! The store itself hides expired records and drops them when it compacts the data around them.
//! Once much of the store has expired, this thread also compacts the whole store
//! (`expiry_tracker.rs`). Compaction removes strings and the records of collections, but not the
//! elements of collections. Every collection with an expiry time is therefore listed in an index
//! sorted by that time, and this thread deletes the elements of the collections at its front.

use super::databases::database_of;
use super::key_events::{KeyChange, KeyEvent, KeyKind};
use super::locks::{KeyLockRequest, Mode};
use super::model::format;
use super::{CommandTransaction, DATABASES, ServerStore};
use crate::error::CommandError;
use alluvium::Keyspace;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval at which the thread checks the index.
const TICK: Duration = Duration::from_millis(500);

/// Number of checks after which the thread stores the current time even if it has deleted nothing.
const TICKS_PER_NOTE: u32 = 20;

/// Maximum number of collections to delete before other threads get a turn.
const AT_ONCE: usize = 256;

/// Handle to the thread that deletes expired collections.
pub(crate) struct ExpiryReaper {
    state: Arc<(Mutex<bool>, Condvar)>,
    thread: JoinHandle<()>,
}

impl ExpiryReaper {
    pub(crate) fn start(store: &Arc<ServerStore>) -> std::io::Result<ExpiryReaper> {
        let state = Arc::new((Mutex::new(false), Condvar::new()));
        let (shared, store) = (Arc::clone(&state), Arc::clone(store));
        let thread = std::thread::Builder::new()
            .name("alluvium-reaper".to_owned())
            .spawn(move || {
                let mut ticks = 0;
                loop {
                    let mut is_stopping = shared.0.lock();
                    if !*is_stopping {
                        shared.1.wait_for(&mut is_stopping, TICK);
                    }
                    if *is_stopping {
                        break;
                    }
                    drop(is_stopping);
                    ticks += 1;
                    store.walks.close_old(store.now_ms());
                    let result = store.reap().and_then(|count| {
                        if count > 0 || ticks % TICKS_PER_NOTE == 0 {
                            store.note_time()?;
                        }
                        store.make_room()?;
                        Ok(())
                    });
                    if let Err(error) = result {
                        tracing::warn!(%error, "cannot delete expired collections; they stay hidden from \
                                                clients, and the server tries again");
                    }
                }
            })?;
        Ok(ExpiryReaper { state, thread })
    }

    pub(crate) fn stop(self) {
        *self.state.0.lock() = true;
        self.state.1.notify_all();
        if self.thread.join().is_err() {
            tracing::error!("the thread that deletes expired collections has panicked");
        }
    }
}

impl ServerStore {
    /// Compacts the whole store if at least half of its data has expired.
    fn make_room(&self) -> Result<(), CommandError> {
        let size = || {
            let all = [&self.data, &self.items].into_iter().chain(self.records.all());
            all.map(Keyspace::size_on_disk).sum()
        };
        if self.expiring.is_much(self.now_ms(), size)? {
            self.db.compact()?;
        }
        Ok(())
    }

    /// Deletes the elements of expired collections, up to [`AT_ONCE`] per database. Returns the
    /// number of collections whose elements were deleted.
    pub(crate) fn reap(&self) -> Result<usize, CommandError> {
        let mut count = 0;
        for database in (0..DATABASES).filter(|&database| self.marks.has_any(database)) {
            let (start, end) = format::expired(database, self.now_ms());
            let mut due = Vec::new();
            for pair in self.data.range(&start[..]..&end[..]).take(AT_ONCE) {
                due.push(pair?);
            }
            for (listed, key) in due {
                count += usize::from(self.reap_one(database, &listed, &key)?);
            }
        }
        Ok(count)
    }

    fn reap_one(&self, database: u8, listed: &[u8], key: &[u8]) -> Result<bool, CommandError> {
        let mut wanted = KeyLockRequest::default();
        wanted.key(database, key, Mode::Exclusive);
        let held = self.locks.lock(wanted);
        let Some(number) = format::expiring_number(listed) else {
            return Ok(false);
        };
        // Another command may have changed the expiry time before this thread acquired the lock.
        if self.data.get(listed)?.is_none() {
            return Ok(false);
        }
        let mut transaction = CommandTransaction::new(self, database);
        let start = format::elements(database, number);
        let end = format::behind(&start);
        transaction.delete_range(start, end);
        transaction.delete(listed.into());
        if self.data.get(format::collection_key(database, number))?.is_some() {
            transaction.unmark(key, number);
        }
        transaction.commit(&held)?;
        if self.locks.has_listeners() {
            held.report_event(&KeyChange {
                database: database_of(&self.databases.numbers(), database),
                key: key.into(),
                kind: KeyKind::Absent,
                event: KeyEvent::EXPIRED,
            });
        }
        Ok(true)
    }
}

//! Iterates over a database's records, whether they are ordered or hashed.
//!
//! Hashed records are iterated in the order of their key hashes, which merges do not change. SCAN
//! can therefore continue after the last key that it returned, and returns every key that exists
//! throughout the scan. Creating such an iterator requires a pass over all keys that exist only in
//! memory, so SCAN's iterators are kept for a short time to be resumed. Because a kept iterator
//! reads an old snapshot, SCAN looks up each of its keys again.

use super::model::format::{self, InnerKey};
use super::own_records::OwnRecords;
use super::scan::{LentPair, OwnedPair, TransactionScan, ValueSelection, WalkDirection};
use super::transaction::CommandTransaction;
use crate::error::CommandError;
use crate::net::wait_hooks::{self, MayWait};
use alluvium::{UnorderedScan, Value};
use parking_lot::Mutex;
use std::collections::VecDeque;

/// Maximum number of kept iterators. Each one stores the keys that were only in memory at its
/// creation.
const KEPT: usize = 4;

/// Lifetime of a kept iterator in milliseconds. Throughout this time, the store retains old
/// versions for it.
const KEPT_MS: u64 = 1_000;

/// An iterator over records, merged with the transaction's own writes.
pub(crate) struct RecordWalk<'t>(RecordWalkKind<'t>);

enum RecordWalkKind<'t> {
    Ordered(TransactionScan<'t>),
    Hashed {
        /// The transaction's own records, which are returned first.
        own: std::vec::IntoIter<OwnedPair>,
        store: Option<CommittedRecords<'t>>,
        hidden: OwnWriteFilter<'t>,
        /// The pair that the caller currently borrows.
        lent: Option<OwnedPair>,
        _may_wait: MayWait,
    },
}

/// Hashed records with their user keys, either as committed in the store or as a client's
/// transaction sees them.
type CommittedRecords<'t> = Box<dyn Iterator<Item = alluvium::Result<(Vec<u8>, Value)>> + 't>;

/// Filters out stored records that the transaction has overwritten or deleted.
struct OwnWriteFilter<'t> {
    records: Option<&'t OwnRecords>,
    database: u8,
}

impl OwnWriteFilter<'_> {
    fn has(&self, key: &[u8]) -> bool {
        let own = |records: &OwnRecords| records.own(&format::record_key(self.database, key)).is_some();
        self.records.is_some_and(own)
    }
}

impl RecordWalk<'_> {
    /// Returns the next user key and its record, both borrowed until the next call.
    pub(crate) fn lend(&mut self) -> Result<Option<LentPair<'_>>, CommandError> {
        match &mut self.0 {
            RecordWalkKind::Ordered(scan) => {
                let next = scan.lend()?;
                Ok(next.map(|(key, record)| (format::user_key(key), record)))
            }
            RecordWalkKind::Hashed {
                own,
                store,
                hidden,
                lent,
                ..
            } => {
                *lent = own.next();
                if lent.is_none() {
                    for pair in store.iter_mut().flatten() {
                        let (key, record) = pair?;
                        if !hidden.has(&key) {
                            *lent = Some((key, record.into_vec()));
                            break;
                        }
                    }
                }
                Ok(lent.as_ref().map(|(key, record)| (&key[..], &record[..])))
            }
        }
    }
}

/// A page of keys, returned by one call of a scan.
#[derive(Debug)]
pub(crate) struct KeyPage {
    /// The page's user keys. Some of them may have been deleted since the iterator was created.
    pub(crate) keys: Vec<Vec<u8>>,
    /// The cursor for requesting the next page, or 0 if this is the last page.
    pub(crate) next: u64,
}

impl CommandTransaction<'_> {
    /// Returns an iterator over the records between two keys, or over all records of the database
    /// if records are hashed. Empty values may replace long ones.
    pub(crate) fn walk_records(
        &self,
        start: InnerKey,
        end: InnerKey,
    ) -> Result<RecordWalk<'_>, CommandError> {
        if !self.store.records.are_hashed() {
            return Ok(RecordWalk(RecordWalkKind::Ordered(self.scan_keys(
                start,
                end,
                WalkDirection::Forward,
            ))));
        }
        let store: Option<CommittedRecords<'_>> = match &self.within {
            Some(within) => Some(Box::new(within.walk_hashed(self.store, self.database)?)),
            None => self
                .committed()
                .map(|walk| Box::new(walk) as CommittedRecords<'_>),
        };
        Ok(RecordWalk(RecordWalkKind::Hashed {
            own: self.own_pairs().into_iter(),
            store,
            hidden: OwnWriteFilter {
                records: self.records.as_deref(),
                database: self.database,
            },
            lent: None,
            _may_wait: wait_hooks::may_wait(),
        }))
    }

    /// Returns the records that the transaction has written to its database. Empty values replace
    /// long ones.
    fn own_pairs(&self) -> Vec<OwnedPair> {
        let own = self.records.iter().flat_map(|records| records.of(self.database));
        own.map(|(key, record)| (key.to_vec(), ValueSelection::Short.shown(record).to_vec()))
            .collect()
    }

    /// Returns whether the transaction has deleted all stored records of its database.
    fn has_emptied(&self) -> bool {
        let is_emptied = |records: &OwnRecords| records.is_emptied(self.database);
        self.records.as_deref().is_some_and(is_emptied)
    }

    /// Returns an iterator over the database's stored records, or `None` if there are none or the
    /// transaction has deleted them all.
    fn committed(&self) -> Option<UnorderedScan> {
        let space = self.store.records.existing(self.database)?;
        (!self.has_emptied()).then(|| space.unordered().without_long_values())
    }

    /// Selects a random key among the hashed records: the first key whose hash follows `random`,
    /// which should be uniformly distributed. Returns `None` if no key's hash follows it.
    pub(crate) fn draw_hashed(&self, random: [u8; 16]) -> Result<Option<Vec<u8>>, CommandError> {
        let _may_wait = wait_hooks::may_wait();
        let Some(walk) = self.committed() else {
            return Ok(None);
        };
        let next = walk.after(random).next().transpose()?;
        Ok(next.map(|(key, _)| key))
    }

    /// Returns the key at which a scan with this cursor continues.
    pub(crate) fn cursor_place(&self, cursor: u64) -> Result<Vec<u8>, CommandError> {
        let cursors = &self.store.cursors;
        let place = cursors.place(self.client, self.database, cursor);
        place.ok_or(CommandError::say("ERR invalid cursor"))
    }

    /// Returns a cursor for a scan that continues at a key.
    pub(crate) fn cursor_at(&self, key: &[u8]) -> u64 {
        let store = self.store;
        store.cursors.keep(self.client, self.database, key, &store.budget)
    }

    /// Returns the iterator for a scan with this cursor: a kept one if available, otherwise a new
    /// one that continues after the key `place`. Returns `None` if there are no stored records to
    /// iterate over.
    fn walk_from(&self, cursor: u64, place: Option<Vec<u8>>) -> Option<ResumableWalk> {
        if self.has_emptied() {
            return None;
        }
        let now_ms = self.store.now_ms();
        if place.is_some()
            && let Some(kept) = self.store.walks.take(self.whose(), cursor, now_ms)
        {
            return Some(kept);
        }
        if place.is_none() {
            self.store.walks.end(self.whose());
        }
        let walk = self.committed()?;
        Some(ResumableWalk {
            whose: self.whose(),
            cursor,
            began_ms: now_ms,
            first: None,
            walk: match place {
                Some(place) => walk.after(place),
                None => walk,
            },
        })
    }

    /// Returns the client and the database, which identify the owner of an iterator.
    fn whose(&self) -> (u64, u8) {
        (self.client, self.database)
    }

    /// Returns the hashed records of user keys. Empty values may replace long ones.
    pub(crate) fn short_records(&self, names: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, CommandError> {
        let mut records: Vec<Option<Vec<u8>>> = Vec::with_capacity(names.len());
        let mut unknown = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let place = format::record_key(self.database, name);
            let own = self.records.as_ref().and_then(|records| records.own(&place));
            records.push(
                own.flatten()
                    .map(|record| ValueSelection::Short.shown(record).to_vec()),
            );
            if own.is_none() {
                unknown.push(index);
            }
        }
        let Some(space) = self.store.records.existing(self.database) else {
            return Ok(records);
        };
        let _may_wait = wait_hooks::may_wait();
        let asked = unknown.iter().map(|&index| &names[index]);
        let found = space.multi_get_without_long_values(asked)?;
        for (index, record) in unknown.into_iter().zip(found) {
            records[index] = record.map(Value::into_vec);
        }
        Ok(records)
    }

    /// Returns a page of about `count` user keys of hashed records, starting at a cursor. The page
    /// ends early once its keys exceed `most_bytes` bytes.
    pub(crate) fn some_keys(
        &self,
        cursor: u64,
        count: usize,
        most_bytes: usize,
    ) -> Result<KeyPage, CommandError> {
        let _may_wait = wait_hooks::may_wait();
        let database = self.database;
        let place = match cursor {
            0 => None,
            _ => Some(self.cursor_place(cursor)?),
        };
        let mut page = KeyPage {
            keys: Vec::new(),
            next: 0,
        };
        // Keys written by the transaction have no position in the hash order, so the first page
        // returns all of them. If such a key is also stored, the first page skips the stored one,
        // but a later page may return the key again.
        let is_first = place.is_none();
        if is_first || self.has_emptied() {
            page.keys = self.own_pairs().into_iter().map(|(key, _)| key).collect();
        }
        let hidden = OwnWriteFilter {
            records: self.records.as_deref().filter(|_| is_first),
            database,
        };
        let Some(mut kept) = self.walk_from(cursor, place) else {
            return Ok(page);
        };
        let mut last: Option<Vec<u8>> = None;
        let mut bytes: usize = page.keys.iter().map(Vec::len).sum();
        while let Some(key) = kept.next()? {
            let is_full = page.keys.len() >= count || bytes > most_bytes;
            if let Some(last) = last.take_if(|_| is_full) {
                kept.first = Some(key);
                kept.cursor = self.cursor_at(&last);
                page.next = kept.cursor;
                self.store.walks.keep(kept);
                break;
            }
            if !hidden.has(&key) {
                bytes += key.len() + size_of::<Vec<u8>>();
                page.keys.push(key.clone());
            }
            last = Some(key);
        }
        Ok(page)
    }
}

/// A SCAN iterator that is kept between two requests.
struct ResumableWalk {
    whose: (u64, u8),
    /// The cursor with which the client continues the scan.
    cursor: u64,
    began_ms: u64,
    /// A key that was read from the iterator but did not fit into the last page.
    first: Option<Vec<u8>>,
    walk: UnorderedScan,
}

impl ResumableWalk {
    fn next(&mut self) -> Result<Option<Vec<u8>>, CommandError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        Ok(self.walk.next().transpose()?.map(|(key, _)| key))
    }

    fn is_old(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.began_ms) >= KEPT_MS
    }
}

/// SCAN's kept iterators, which later requests resume instead of creating new ones. When a client
/// begins a scan, its older iterators are dropped: two scans of a client may reach the same
/// position and then have the same cursor, so the new scan could otherwise resume an iterator older
/// than itself and miss keys.
#[derive(Default)]
pub(crate) struct WalkCache(Mutex<VecDeque<ResumableWalk>>);

impl WalkCache {
    /// Removes and returns the iterator kept for a client at a cursor. Returns `None` if there is
    /// none or it is too old.
    fn take(&self, whose: (u64, u8), cursor: u64, now_ms: u64) -> Option<ResumableWalk> {
        let mut all = self.0.lock();
        let is_it = |kept: &ResumableWalk| kept.whose == whose && kept.cursor == cursor;
        let at = all.iter().position(is_it)?;
        all.remove(at).filter(|kept| !kept.is_old(now_ms))
    }

    /// Drops all kept iterators of a client over a database.
    fn end(&self, whose: (u64, u8)) {
        self.0.lock().retain(|kept| kept.whose != whose);
    }

    fn keep(&self, kept: ResumableWalk) {
        let mut all = self.0.lock();
        let oldest = (all.len() >= KEPT).then(|| all.pop_front());
        all.push_back(kept);
        drop(all);
        drop(oldest);
    }

    /// Drops kept iterators that have exceeded their lifetime.
    pub(crate) fn close_old(&self, now_ms: u64) {
        self.0.lock().retain(|kept| !kept.is_old(now_ms));
    }
}

//! INFO's Keyspace section: for each database, the number of keys, the number of keys that expire,
//! and their average time to live.
//!
//! A small database's keys are counted. For a larger one, the store estimates the number of keys,
//! and a sample of records yields the proportion of keys that expire. With ordered keys, the sample
//! comes from several random positions between the first and the last key. With hashed keys, the
//! first records of an iteration are an unbiased sample, because hashes are independent of the
//! values.

use super::line;
use crate::redis::commands::scan_commands;
use crate::shared::StoreContext;
use crate::store::model::{RecordBytes, TypedValue, format};
use crate::store::{DATABASES, ServerStore};

/// Maximum number of records to count exactly.
const COUNTED: usize = 1024;

/// Number of positions from which to take a sample, and number of records to read at each.
const PLACES: usize = 8;
const AT_EACH: usize = 64;

/// Totals of the records read. Only `records` includes expired ones.
#[derive(Debug, Default)]
struct KeyspaceSample {
    records: u64,
    keys: u64,
    expires: u64,
    sum_ttl_ms: u128,
}

impl KeyspaceSample {
    fn add(&mut self, record: &[u8], now_ms: u64) {
        self.records += 1;
        let Ok(Some(entry)) = TypedValue::read(RecordBytes::Borrowed(record), now_ms) else {
            return;
        };
        self.keys += 1;
        if entry.expires_ms() != 0 {
            self.expires += 1;
            self.sum_ttl_ms += u128::from(entry.expires_ms() - now_ms);
        }
    }

    /// Extrapolates the totals to a database of `all` records. Returns the number of keys, the
    /// number of keys that expire, and their average time to live in milliseconds.
    fn of_all(&self, all: u64) -> (u64, u64, u64) {
        let share = |part: u64| (u128::from(all) * u128::from(part) / u128::from(self.records.max(1))) as u64;
        (share(self.keys), share(self.expires), self.mean_ttl_ms())
    }

    fn mean_ttl_ms(&self) -> u64 {
        let mean = self.sum_ttl_ms.checked_div(u128::from(self.expires));
        mean.map_or(0, |mean| u64::try_from(mean).unwrap_or(u64::MAX))
    }
}

/// Reads up to `most` records from a position on. Returns whether there were fewer.
fn look(
    store: &ServerStore,
    from: &[u8],
    end: &[u8],
    most: usize,
    seen: &mut KeyspaceSample,
) -> alluvium::Result<bool> {
    let mut count = 0;
    for pair in store.data.range(from..end).take(most) {
        let (_, record) = pair?;
        seen.add(&record, store.now_ms());
        count += 1;
    }
    Ok(count < most)
}

/// Like [`count`], but for a database with hashed keys.
fn count_hashed(store: &ServerStore, database: u8) -> alluvium::Result<(u64, u64, u64)> {
    let Some(space) = store.records.existing(database) else {
        return Ok((0, 0, 0));
    };
    let mut seen = KeyspaceSample::default();
    for pair in space.unordered().take(COUNTED) {
        seen.add(&pair?.1, store.now_ms());
    }
    if seen.records < COUNTED as u64 {
        return Ok((seen.keys, seen.expires, seen.mean_ttl_ms()));
    }
    Ok(seen.of_all(space.approximate_len()?))
}

/// Returns the number of keys in a database, the number of keys that expire, and their average time
/// to live in milliseconds.
fn count(store: &ServerStore, database: u8) -> alluvium::Result<(u64, u64, u64)> {
    if store.records.are_hashed() {
        return count_hashed(store, database);
    }
    let (start, end) = format::records(database);
    let mut seen = KeyspaceSample::default();
    if look(store, &start, &end, COUNTED, &mut seen)? {
        return Ok((seen.keys, seen.expires, seen.mean_ttl_ms()));
    }
    let ends = |pair: Option<alluvium::Result<(Vec<u8>, alluvium::Value)>>| pair.transpose();
    let mut range = store.data.range(&start[..]..&end[..]);
    let (first, last) = (ends(range.next())?, ends(range.next_back())?);
    let mut seen = KeyspaceSample::default();
    if let (Some((first, _)), Some((last, _))) = (first, last) {
        for _ in 0..PLACES {
            let from =
                scan_commands::place_between(database, format::user_key(&first), format::user_key(&last));
            look(store, &from, &end, AT_EACH, &mut seen)?;
        }
    }
    let all = store.data.approximate_len_of(&start[..]..&end[..])?;
    Ok(seen.of_all(all))
}

pub(super) fn keyspace(shared: &StoreContext, text: &mut String) {
    for database in 0..DATABASES {
        if let Ok((keys, expires, ttl_ms)) = count(&shared.store, shared.store.databases.number_of(database))
            && keys > 0
        {
            let value = format_args!("keys={keys},expires={expires},avg_ttl={ttl_ms}");
            line(text, &format!("db{database}"), value);
        }
    }
}

//! Request statistics of one keyspace: hourly counts, and hashes of the latest requests.

use super::{HourlyRequests, KeyspaceRequests};
use std::collections::VecDeque;

const HOUR_MS: u64 = 3_600_000;
/// Maximum number of hours whose counts are kept. Older ones are dropped.
const HOURS: usize = 48;
/// Maximum number of request hashes kept. The skew is estimated from the number of equal pairs
/// among them.
const HASHES: usize = 4096;

/// Statistics of one keyspace. All counts are of sampled requests.
#[derive(Debug, Default)]
pub(super) struct KeyspaceMonitor {
    hours: VecDeque<HourlyRequests>,
    keys: u64,
    key_bytes: u64,
    values: u64,
    value_bytes: u64,
    writes: u64,
    in_order: u64,
    /// First bytes of the key of the last sampled write.
    last: [u8; 16],
    hashes: Vec<u64>,
    /// Index of the hash that the next request replaces.
    next: usize,
}

/// Returns the first bytes of a key, padded with zeros if the key is shorter.
fn head(key: &[u8]) -> [u8; 16] {
    let mut head = [0; 16];
    let len = key.len().min(head.len());
    head[..len].copy_from_slice(&key[..len]);
    head
}

impl KeyspaceMonitor {
    /// Starts counting a new hour if `now_ms` is in a later hour than the current counts. Does
    /// nothing if the clock went back.
    pub(super) fn turn_to(&mut self, now_ms: u64) {
        let began_ms = now_ms - now_ms % HOUR_MS;
        if self.hours.back().is_none_or(|hour| hour.began_ms < began_ms) {
            if self.hours.len() == HOURS {
                self.hours.pop_front();
            }
            self.hours.push_back(HourlyRequests {
                began_ms,
                ..HourlyRequests::default()
            });
        }
    }

    fn hour(&mut self) -> &mut HourlyRequests {
        self.hours.back_mut().expect("an hour was turned to")
    }

    fn requested(&mut self, key: &[u8], hash: u64) {
        self.keys += 1;
        self.key_bytes += key.len() as u64;
        match self.hashes.get_mut(self.next) {
            Some(place) => *place = hash,
            None => self.hashes.push(hash),
        }
        self.next = (self.next + 1) % HASHES;
    }

    pub(super) fn looked_up(&mut self, key: &[u8], hash: u64, found: Option<usize>) {
        self.requested(key, hash);
        match found {
            Some(bytes) => {
                self.hour().hits += 1;
                self.values += 1;
                self.value_bytes += bytes as u64;
            }
            None => self.hour().misses += 1,
        }
    }

    pub(super) fn wrote(&mut self, key: &[u8], hash: u64, value: Option<usize>) {
        self.requested(key, hash);
        let head = head(key);
        self.writes += 1;
        self.in_order += u64::from(head >= self.last);
        self.last = head;
        match value {
            Some(bytes) => {
                self.hour().puts += 1;
                self.values += 1;
                self.value_bytes += bytes as u64;
            }
            None => self.hour().deletes += 1,
        }
    }

    pub(super) fn scanned(&mut self, records: u64) {
        let hour = self.hour();
        hour.scans += 1;
        hour.scanned += records;
    }

    /// Returns the statistics, counting each sampled request as `each` requests.
    pub(super) fn seen(&self, keyspace: String, each: u64) -> KeyspaceRequests {
        let mean = |sum: u64, count: u64| sum as f64 / count.max(1) as f64;
        let whole = |hour: &HourlyRequests| HourlyRequests {
            began_ms: hour.began_ms,
            puts: hour.puts * each,
            deletes: hour.deletes * each,
            hits: hour.hits * each,
            misses: hour.misses * each,
            scans: hour.scans * each,
            scanned: hour.scanned * each,
        };
        KeyspaceRequests {
            keyspace,
            hours: self.hours.iter().map(whole).collect(),
            key_bytes: mean(self.key_bytes, self.keys),
            value_bytes: mean(self.value_bytes, self.values),
            in_order: mean(self.in_order, self.writes),
            requests: self.hashes.len() as u64,
            same_pairs: alluvium_model::observed::pairs(&self.hashes),
            keys: 0,
            new_keys: 0.0,
        }
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    #[test]
    fn hours_are_kept_apart_and_old_ones_forgotten() {
        let mut watch = KeyspaceMonitor::default();
        for hour in 0..50 {
            watch.turn_to(hour * HOUR_MS + 5);
            watch.wrote(&hour.to_be_bytes(), hour, Some(10));
            watch.looked_up(b"four", 7, None);
            watch.scanned(20);
        }
        watch.turn_to(3);
        let seen = watch.seen("k".to_owned(), 64);
        assert_eq!((seen.hours.len(), seen.hours[0].began_ms), (48, 2 * HOUR_MS));
        let total = seen.total();
        assert_eq!(
            (total.puts, total.misses, total.scans, total.scanned),
            (3072, 3072, 3072, 61_440)
        );
        assert_eq!(
            (seen.key_bytes, seen.value_bytes, seen.in_order),
            (6.0, 10.0, 1.0)
        );
        assert_eq!((seen.requests, seen.same_pairs), (100, 51 * 50 / 2));
    }

    #[test]
    fn only_the_newest_requests_tell_skew() {
        let mut watch = KeyspaceMonitor::default();
        watch.turn_to(1);
        for request in 0..3 * HASHES as u64 {
            watch.looked_up(b"k", request / HASHES as u64 * 1_000_000 + request, Some(1));
        }
        let seen = watch.seen("k".to_owned(), 1);
        assert_eq!((seen.requests, seen.same_pairs), (HASHES as u64, 0));
    }
}

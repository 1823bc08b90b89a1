//! SCAN's cursors. A cursor is a number that the client sends to continue a scan; this module maps
//! it to the key at which the scan continues.
//!
//! A key of at most six bytes is encoded in the cursor itself and needs no memory. For a longer
//! key, the table gets an entry, and the cursor is a hash of the key. The hash function is seeded
//! randomly at each start of the server, so equal keys have equal cursors only during one run. A
//! cursor from before a restart is reported as unknown instead of being mistaken for another key.
//! All cursors are below 2^53, so that clients may store them as floating-point numbers.
//!
//! The table's memory is charged to the clients' memory budget and limited to a fixed share of it.
//! A client is a *holder* of an entry if it has received the cursor and has not yet continued from
//! it. When the table exceeds its limit, it first evicts entries from which all holders have
//! continued. After those, it evicts the oldest entry of the client that holds the most, so that a
//! client that opens many cursors interrupts only its own scans.

use crate::net::ConnectionBudget;
use parking_lot::Mutex;
use std::collections::hash_map::{Entry, RandomState};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasher;

/// Maximum length in bytes of a key encoded in its cursor, and the bit position of the encoded
/// length.
const INLINE: usize = 6;
const COUNT_SHIFT: u32 = 48;

/// Cursors from this value up to twice this value (exclusive) refer to table entries.
const REMEMBERED: u64 = 1 << 52;

/// Divisor of the clients' memory budget. The quotient is the table's memory limit.
const SHARE: usize = 16;

/// Approximate overhead of a table entry, and of each holder of an entry, in bytes.
const PER_PLACE: usize = 160;
const PER_HOLDING: usize = 120;

/// Granularity of charges to the memory budget, in bytes.
const STEP: usize = 4 << 10;

/// Pseudo-client that inherits the cursors of closed connections, whose clients may reconnect and
/// continue.
const CLOSED: u64 = 0;

/// Pseudo-client that inherits cursors from which a client has already continued.
const USED: u64 = u64::MAX;

/// The table of cursors. A cursor refers to the same key as long as it is in the table, so a client
/// may retry a request, even over another connection.
#[derive(Debug, Default)]
pub(crate) struct CursorTable {
    state: Mutex<CursorTableState>,
    hashes: RandomState,
}

#[derive(Debug)]
struct ScanCursor {
    database: u8,
    key: Box<[u8]>,
    /// The holders of this entry, each with the stamp at which it became one.
    holders: Vec<(u64, u64)>,
}

impl ScanCursor {
    fn bytes(&self) -> usize {
        PER_PLACE + self.key.len()
    }
}

#[derive(Debug, Default)]
struct CursorTableState {
    places: HashMap<u64, ScanCursor>,
    /// The cursors held by each client, sorted by stamp (oldest first).
    held: BTreeMap<u64, BTreeMap<u64, u64>>,
    /// Each client's number of cursors in ascending order, which yields the client with the most.
    counts: BTreeSet<(usize, u64)>,
    last_stamp: u64,
    bytes: usize,
    charged: usize,
}

/// Table statistics: the number of entries and their memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CursorFigures {
    pub(crate) count: usize,
    pub(crate) bytes: usize,
}

/// Encodes a key in a cursor. Returns `None` if the key is too long.
fn inline(key: &[u8]) -> Option<u64> {
    if key.len() > INLINE {
        return None;
    }
    let mut number = (key.len() as u64 + 1) << COUNT_SHIFT;
    for (index, &byte) in key.iter().enumerate() {
        number |= u64::from(byte) << (8 * (INLINE - 1 - index));
    }
    Some(number)
}

/// Decodes the key in a cursor. Returns `None` if the cursor is invalid.
fn place_in(number: u64) -> Option<Vec<u8>> {
    let count = usize::try_from(number >> COUNT_SHIFT).ok()?.checked_sub(1)?;
    let byte = |index: usize| (number >> (8 * (INLINE - 1 - index))) as u8;
    let key: Vec<u8> = (0..count.min(INLINE)).map(byte).collect();
    // Reject cursors with bits set after the key.
    (key.len() == count && inline(&key) == Some(number)).then_some(key)
}

impl CursorTable {
    /// Returns the cursor for a scan of `database` that continues at `key`. For a long key, adds a
    /// table entry and makes `client` one of its holders.
    pub(crate) fn keep(&self, client: u64, database: u8, key: &[u8], budget: &ConnectionBudget) -> u64 {
        if let Some(number) = inline(key) {
            return number;
        }
        let mut number = REMEMBERED | self.hashes.hash_one((database, key)) >> 12;
        let mut state = self.state.lock();
        loop {
            match state.places.entry(number) {
                Entry::Vacant(vacant) => {
                    let place = vacant.insert(ScanCursor {
                        database,
                        key: key.into(),
                        holders: Vec::new(),
                    });
                    state.bytes += place.bytes();
                    break;
                }
                Entry::Occupied(place) if place.get().database == database && *place.get().key == *key => {
                    break;
                }
                // Another key has the same hash, so try the next number.
                Entry::Occupied(_) => number = REMEMBERED | (number.wrapping_add(1) % REMEMBERED),
            }
        }
        state.release(client, number);
        state.hold(client, number);
        state.shrink(budget.limit() / SHARE, number);
        state.charge(budget);
        number
    }

    /// Returns the key at which a scan with this cursor continues, or `None` if the cursor is
    /// unknown. If the client holds the cursor, marks it as used.
    pub(crate) fn place(&self, client: u64, database: u8, number: u64) -> Option<Vec<u8>> {
        if number < REMEMBERED {
            return place_in(number);
        }
        let mut state = self.state.lock();
        let place = state.places.get(&number)?;
        if place.database != database {
            return None;
        }
        let key = place.key.to_vec();
        if state.release(client, number) {
            state.release(USED, number);
            state.hold(USED, number);
        }
        Some(key)
    }

    /// Hands a closed connection's cursors over to [`CLOSED`].
    pub(crate) fn close(&self, client: u64, budget: &ConnectionBudget) {
        let mut state = self.state.lock();
        let numbers: Vec<u64> = match state.held.get(&client) {
            Some(held) => held.values().copied().collect(),
            None => return,
        };
        for number in numbers {
            state.release(client, number);
            state.release(CLOSED, number);
            state.hold(CLOSED, number);
        }
        state.charge(budget);
    }

    /// Returns the number of table entries and their memory.
    pub(crate) fn figures(&self) -> CursorFigures {
        let state = self.state.lock();
        CursorFigures {
            count: state.places.len(),
            bytes: state.bytes,
        }
    }
}

impl CursorTableState {
    /// Makes a client a holder of a cursor's entry. The cursor must be in the table, and the client
    /// must not hold it yet.
    fn hold(&mut self, client: u64, number: u64) {
        self.last_stamp += 1;
        let stamp = self.last_stamp;
        let place = self.places.get_mut(&number).expect("the place is known");
        place.holders.push((client, stamp));
        let held = self.held.entry(client).or_default();
        self.counts.remove(&(held.len(), client));
        held.insert(stamp, number);
        self.counts.insert((held.len(), client));
        self.bytes += PER_HOLDING;
    }

    /// Removes a client from a cursor's holders; the entry itself stays in the table. Returns
    /// whether the client held the cursor.
    fn release(&mut self, client: u64, number: u64) -> bool {
        let place = self.places.get_mut(&number).expect("the place is known");
        let Some(at) = place.holders.iter().position(|(holder, _)| *holder == client) else {
            return false;
        };
        let (_, stamp) = place.holders.swap_remove(at);
        let held = self.held.get_mut(&client).expect("it holds a place");
        self.counts.remove(&(held.len(), client));
        held.remove(&stamp);
        if held.is_empty() {
            self.held.remove(&client);
        } else {
            self.counts.insert((held.len(), client));
        }
        self.bytes -= PER_HOLDING;
        true
    }

    /// Evicts cursors until the table uses at most `most` bytes. Never evicts the cursor `kept`.
    fn shrink(&mut self, most: usize, kept: u64) {
        while self.bytes > most {
            let of = |client| {
                let held = self.held.get(&client)?;
                let mut numbers = held.values().copied();
                numbers
                    .find(|&number| number != kept)
                    .map(|number| (client, number))
            };
            let by_count = self.counts.iter().rev().map(|(_, client)| *client);
            let Some((client, number)) = of(USED).or_else(|| by_count.clone().find_map(of)) else {
                return;
            };
            self.release(client, number);
            if let Entry::Occupied(place) = self.places.entry(number)
                && place.get().holders.is_empty()
            {
                self.bytes -= place.remove().bytes();
            }
        }
    }

    /// Adjusts the charge to the memory budget after the table has grown or shrunk.
    fn charge(&mut self, budget: &ConnectionBudget) {
        let charge = self.bytes / STEP * STEP;
        if charge > self.charged {
            budget.charge(charge - self.charged);
        } else if charge < self.charged {
            budget.uncharge(self.charged - charge);
        }
        self.charged = charge;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 16 << 20;

    /// The table's memory limit in bytes.
    const MOST: usize = LIMIT / SHARE;

    fn key(index: usize, len: usize) -> Vec<u8> {
        let mut key = format!("{index:08}").into_bytes();
        key.resize(len, b'x');
        key
    }

    #[test]
    fn short_places_stand_in_their_numbers_and_take_no_memory() {
        let (cursors, budget) = (CursorTable::default(), ConnectionBudget::new(LIMIT));
        for key in [
            &b""[..],
            b"\0",
            b"a",
            b"\xff\xff\xff\xff\xff\xff",
            b"a\0\0",
            b"abcdef",
        ] {
            let number = cursors.keep(1, 0, key, &budget);
            assert!(number != 0 && number < REMEMBERED);
            // A short key can still be decoded after a restart of the server.
            assert_eq!(CursorTable::default().place(2, 3, number).as_deref(), Some(key));
        }
        assert_eq!(cursors.figures(), CursorFigures::default());
        // Reject numbers that do not encode a key.
        for number in [1, 12345, 1 << COUNT_SHIFT | 1, 8 << COUNT_SHIFT, REMEMBERED - 1] {
            assert_eq!(cursors.place(1, 0, number), None);
        }
    }

    #[test]
    fn a_place_has_one_number_and_another_start_of_the_server_refuses_it() {
        let (cursors, later, budget) = (
            CursorTable::default(),
            CursorTable::default(),
            ConnectionBudget::new(LIMIT),
        );
        let first = cursors.keep(1, 0, b"a longer key", &budget);
        assert!(first < 1 << 53);
        let figures = cursors.figures();
        for _ in 0..20_000 {
            assert_eq!(cursors.keep(1, 0, b"a longer key", &budget), first);
        }
        assert_eq!(cursors.figures(), figures);
        for index in 0..2000 {
            later.keep(1, 0, &key(index, 12), &budget);
        }
        assert_eq!(later.place(1, 0, first), None);
        assert_ne!(cursors.keep(1, 1, b"a longer key", &budget), first);
        assert_eq!(cursors.place(1, 1, first), None, "it is of another database");
        assert_eq!(cursors.place(2, 0, first).as_deref(), Some(&b"a longer key"[..]));
    }

    #[test]
    fn a_client_that_asks_for_many_cursors_ends_only_its_own_walks() {
        let (cursors, budget) = (CursorTable::default(), ConnectionBudget::new(LIMIT));
        let slow: Vec<u64> = (1..=100)
            .map(|client| cursors.keep(client, 0, &key(client as usize, 300), &budget))
            .collect();
        // This client also holds one of a slow client's cursors, and has continued from some of its
        // own.
        cursors.keep(200, 0, &key(7, 300), &budget);
        let mut last = 0;
        for index in 1000..20_000 {
            let number = cursors.keep(200, 0, &key(index, 300), &budget);
            if index % 3 == 0 {
                cursors.place(200, 0, number);
            }
            last = number;
            assert!(cursors.figures().bytes <= MOST);
        }
        assert_eq!(budget.used(), cursors.figures().bytes / STEP * STEP);
        for (client, &number) in (1..=100).zip(&slow) {
            assert_eq!(cursors.place(client, 0, number), Some(key(client as usize, 300)));
        }
        assert!(cursors.place(200, 0, last).is_some());
        assert!(cursors.figures().bytes > MOST / 2);
    }

    #[test]
    fn places_outlive_their_connections_and_walks_forget_where_they_were() {
        let (cursors, budget) = (CursorTable::default(), ConnectionBudget::new(LIMIT));
        let first = cursors.keep(1, 0, &key(1, 1000), &budget);
        cursors.close(1, &budget);
        assert_eq!(cursors.place(2, 0, first), Some(key(1, 1000)));
        // Client 3 continues from each of its cursors. Client 4 holds two cursors that it has not
        // used yet.
        let held = [2, 3].map(|index| cursors.keep(4, 0, &key(index, 1000), &budget));
        for index in 100..10_000 {
            let number = cursors.keep(3, 0, &key(index, 1000), &budget);
            assert_eq!(cursors.place(3, 0, number), Some(key(index, 1000)));
        }
        assert_eq!(cursors.place(4, 0, held[0]), Some(key(2, 1000)));
        assert_eq!(cursors.place(4, 0, held[1]), Some(key(3, 1000)));
        assert_eq!(cursors.place(5, 0, first), Some(key(1, 1000)));
    }

    #[test]
    fn a_place_that_is_longer_than_the_share_is_known_until_the_next() {
        let (cursors, budget) = (CursorTable::default(), ConnectionBudget::new(LIMIT));
        let first = cursors.keep(1, 0, &key(1, MOST), &budget);
        assert_eq!(cursors.place(1, 0, first), Some(key(1, MOST)));
        let second = cursors.keep(1, 0, &key(2, MOST), &budget);
        assert_eq!(cursors.place(1, 0, first), None);
        assert_eq!(cursors.place(1, 0, second), Some(key(2, MOST)));
    }
}

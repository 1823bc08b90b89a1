//! Compares SILT's three stores, combined in memory, with a map.

use alluvium_filters::trie::{TrieCodes, TrieIndex};
use research_filters::cuckoo::{CuckooFilter, CuckooShape};
use research_hashes::silt::log::{LogIndex, PutOutcome, SiltLogRecord, SiltLogScan, SiltRecordKind, UNIT};
use research_hashes::silt::slots::{SiltSlot, SiltSlotLayout, SiltSlotState};
use research_hashes::silt::{Error, HashStoreEntry, HashedKey, KeyedItem, SortedBuilder, convert, merge};
use std::collections::BTreeMap;

const SEED: u64 = 77;
const SLOT_BYTES: u32 = 48;

/// A log, and the table of it.
struct Log {
    number: u64,
    bytes: Vec<u8>,
    index: LogIndex,
}

struct HashStore {
    layout: SiltSlotLayout,
    slots: Vec<u8>,
    filter: Vec<u8>,
}

struct Sorted {
    layout: SiltSlotLayout,
    slots: Vec<u8>,
    index: Vec<u8>,
}

/// The numbers of slots and records read.
#[derive(Default)]
struct Reads {
    records: u64,
    hash_slots: u64,
    sorted_slots: u64,
}

/// The composed store: the newest log last, the newest hash store last.
struct Store {
    shape: CuckooShape,
    codes: TrieCodes,
    next: u64,
    logs: Vec<Log>,
    hashes: Vec<HashStore>,
    sorted: Option<Sorted>,
    reads: Reads,
}

fn record(log: &Log, unit: u32) -> Result<SiltLogRecord<'_>, Error> {
    let at = u64::from(unit) * UNIT;
    Ok(SiltLogRecord::decode(log.number, &log.bytes[at as usize..], at)?.0)
}

impl Store {
    fn new(shape: CuckooShape) -> Store {
        let mut store = Store {
            shape,
            codes: TrieCodes::new(64),
            next: 0,
            logs: Vec::new(),
            hashes: Vec::new(),
            sorted: None,
            reads: Reads::default(),
        };
        store.open_log();
        store
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn open_log(&mut self) {
        let number = self.number();
        self.logs.push(Log {
            number,
            bytes: Vec::new(),
            index: LogIndex::new(self.shape, number),
        });
    }

    /// Appends a record to the newest log, or to a new one when its table is full.
    fn write(&mut self, kind: SiltRecordKind, key: &[u8], value: &[u8]) {
        let hashed = HashedKey::of(SEED, key);
        loop {
            let log = self.logs.last_mut().unwrap();
            let unit = (log.bytes.len() as u64 / UNIT) as u32;
            SiltLogRecord { kind, key, value }
                .encode(log.number, &mut log.bytes)
                .unwrap();
            let (bytes, number) = (&log.bytes, log.number);
            let is_key = |unit: u32| -> Result<bool, Error> {
                let at = u64::from(unit) * UNIT;
                Ok(SiltLogRecord::decode(number, &bytes[at as usize..], at)?.0.key == key)
            };
            if log.index.put(hashed, unit, is_key).unwrap() != PutOutcome::Full {
                return;
            }
            log.bytes.truncate(unit as usize * UNIT as usize);
            self.open_log();
        }
    }

    fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let hashed = HashedKey::of(SEED, key);
        for log in self.logs.iter().rev() {
            let reads = &mut self.reads.records;
            let is_key = |unit: u32| -> Result<bool, Error> {
                *reads += 1;
                Ok(record(log, unit)?.key == key)
            };
            if let Some(unit) = log.index.find(hashed, is_key).unwrap() {
                let record = record(log, unit).unwrap();
                return (record.kind == SiltRecordKind::Put).then(|| record.value.to_vec());
            }
        }
        for store in self.hashes.iter().rev() {
            for place in CuckooFilter::open(&store.filter)
                .unwrap()
                .candidates(hashed.tag_hash())
            {
                self.reads.hash_slots += 1;
                let slot = read(&store.layout, &store.slots, place.number().into());
                if let Some(slot) = slot.filter(|slot| slot.key == key) {
                    return (slot.state == SiltSlotState::Value).then(|| slot.value.to_vec());
                }
            }
        }
        let sorted = self.sorted.as_ref()?;
        let index = TrieIndex::open(&self.codes, HashedKey::BYTES, &sorted.index).unwrap();
        let item = index.lookup(&hashed.bytes()).unwrap()?;
        self.reads.sorted_slots += 1;
        let slot = read(&sorted.layout, &sorted.slots, item).unwrap();
        (slot.key == key).then(|| slot.value.to_vec())
    }

    /// Converts the oldest frozen log. The filter equals that of the table (S3).
    fn convert(&mut self) {
        if self.logs.len() < 2 {
            return;
        }
        let log = self.logs.remove(0);
        let layout = self.layout();
        let mut slots = Vec::new();
        let write = |bytes: &[u8]| -> Result<(), Error> {
            slots.extend_from_slice(bytes);
            Ok(())
        };
        let filter = convert(&log.index, &layout, |unit| record(&log, unit), write).unwrap();
        assert_eq!(slots.len() as u64, layout.at(self.shape.slots().into()));
        self.hashes.push(HashStore {
            layout,
            slots,
            filter,
        });
    }

    /// Merges all hash stores into the sorted store.
    fn merge(&mut self) {
        let layout = self.layout();
        let mut young = Vec::new();
        for (number, store) in (0..).zip(&self.hashes) {
            for at in 0..self.shape.slots() {
                if let Some(slot) = read(&store.layout, &store.slots, at.into()) {
                    young.push(HashStoreEntry {
                        entry: keyed(slot),
                        state: slot.state,
                        store: number,
                    });
                }
            }
        }
        // In an order that does not help: equal keys of stores in any order.
        young.sort_by_key(|young| (young.entry.key, young.store % 3));
        let old = self.sorted.take();
        let old_slots = old.iter().flat_map(|old| {
            let count = old.slots.len() as u64 / u64::from(SLOT_BYTES);
            (0..count).map(|at| keyed(read(&old.layout, &old.slots, at).unwrap()))
        });
        let codes = self.codes.clone();
        let mut builder = SortedBuilder::new(&codes, layout, 1000).unwrap();
        let mut slots = Vec::new();
        for KeyedItem { key, item } in merge(old_slots, young.into_iter()) {
            builder.push(key, item.key, item.value, &mut slots).unwrap();
        }
        self.sorted = Some(Sorted {
            layout,
            slots,
            index: builder.finish(),
        });
        self.hashes.clear();
    }

    fn layout(&mut self) -> SiltSlotLayout {
        SiltSlotLayout {
            store: self.number(),
            slot_bytes: SLOT_BYTES,
        }
    }
}

fn read<'b>(layout: &SiltSlotLayout, slots: &'b [u8], number: u64) -> Option<SiltSlot<'b>> {
    let at = layout.at(number);
    layout
        .decode(&slots[at as usize..][..layout.slot_bytes as usize], at)
        .unwrap()
}

fn keyed(slot: SiltSlot<'_>) -> KeyedItem<SiltSlot<'_>> {
    KeyedItem {
        key: HashedKey::of(SEED, slot.key),
        item: slot,
    }
}

#[test]
fn the_three_stores_together_answer_as_a_map() {
    for (shape, keys, seed) in [
        (CuckooShape::alternate(5), 600u32, 1),
        (CuckooShape::xor(4, 15), 300, 2),
        (CuckooShape::xor(4, 4), 200, 3),
    ] {
        let (mut store, mut map) = (Store::new(shape.unwrap()), BTreeMap::new());
        let mut random = fastrand::Rng::with_seed(seed);
        let mut merges = 0;
        for step in 0..6000u32 {
            let key = format!("key {}", random.u32(..keys)).into_bytes();
            match random.u32(..10) {
                0..=5 => {
                    let value = step.to_string().into_bytes();
                    store.write(SiltRecordKind::Put, &key, &value);
                    map.insert(key, value);
                }
                6..=7 => {
                    store.write(SiltRecordKind::Delete, &key, b"");
                    map.remove(&key);
                }
                _ => assert_eq!(store.get(&key), map.get(&key).cloned(), "step {step}"),
            }
            if random.u32(..40) == 0 {
                store.convert();
            }
            if store.hashes.len() > 4 {
                store.merge();
                merges += 1;
            }
        }
        assert!(merges > 3, "{merges} merges");
        for key in 0..keys + 50 {
            let key = format!("key {key}").into_bytes();
            assert_eq!(store.get(&key), map.get(&key).cloned(), "S1");
        }
        while store.logs.len() > 1 {
            store.convert();
        }
        store.merge();
        let sorted = store.sorted.as_ref().unwrap();
        let codes = TrieCodes::new(64);
        let index = TrieIndex::open(&codes, HashedKey::BYTES, &sorted.index).unwrap();
        assert!(index.check().is_empty());
        let newest = u64::from(store.logs[0].index.len());
        assert!(
            index.keys() + newest >= map.len() as u64 && index.keys() <= keys.into(),
            "S4"
        );
    }
}

#[test]
fn a_get_of_the_sorted_store_reads_one_slot_and_hash_stores_read_as_few_as_computed() {
    let shape = CuckooShape::xor(8, 10).unwrap();
    let mut store = Store::new(shape);
    for key in 0..9000u32 {
        store.write(SiltRecordKind::Put, &key.to_le_bytes(), b"value");
    }
    while store.logs.len() > 1 {
        store.convert();
    }
    store.merge();
    for key in 9000..17_000u32 {
        store.write(SiltRecordKind::Put, &key.to_le_bytes(), b"value");
    }
    while store.logs.len() > 1 {
        store.convert();
    }
    let filters = store.hashes.len() as f64;
    assert!(filters > 6.0, "{filters}");
    store.reads = Reads::default();
    let gets = 8000u32;
    assert!((0..gets).all(|key| store.get(&key.to_le_bytes()).is_some()));
    assert_eq!(store.reads.sorted_slots, gets.into());
    let wrong = store.reads.hash_slots as f64 / f64::from(gets);
    let theory = shape.false_positive_rate(0.93) * filters;
    assert!(
        (wrong / theory - 1.0).abs() < 0.15,
        "{wrong} reads in vain, not {theory}"
    );
    store.reads = Reads::default();
    assert!((1 << 20..(1 << 20) + 1000u32).all(|key| store.get(&key.to_le_bytes()).is_none()));
    assert!(
        store.reads.sorted_slots == 1000 && store.reads.records < 30,
        "a miss reads one slot as well"
    );
}

#[test]
fn a_log_is_indexed_again_from_its_records() {
    let shape = CuckooShape::alternate(6).unwrap();
    let mut store = Store::new(shape);
    for step in 0..400u32 {
        let kind = if step % 7 == 0 {
            SiltRecordKind::Delete
        } else {
            SiltRecordKind::Put
        };
        let value = if kind == SiltRecordKind::Put {
            step.to_le_bytes().to_vec()
        } else {
            Vec::new()
        };
        store.write(kind, &(step % 90).to_le_bytes(), &value);
    }
    let log = &store.logs[0];
    assert_eq!(log.index.len(), 90, "S2: updates take no entry");
    let mut again = LogIndex::new(shape, log.number);
    for (unit, found) in SiltLogScan::new(log.number, &log.bytes) {
        let is_key = |unit: u32| -> Result<bool, Error> { Ok(record(log, unit)?.key == found.key) };
        again.put(HashedKey::of(SEED, found.key), unit, is_key).unwrap();
    }
    assert!(again.entries().eq(log.index.entries()));
    assert_eq!(again.filter(), log.index.filter());
}

/// What is left of one key, by the rules of the paper's table, for every small case.
#[test]
fn merging_follows_the_table_in_every_small_case() {
    let keyed = |key: u8, item: &'static str| KeyedItem {
        key: HashedKey::of(1, &[key]),
        item,
    };
    // Of each of three keys: in the sorted store or not; in two hash stores a value, a
    // deletion, or nothing.
    for case in 0..18u32.pow(3) {
        let (mut sorted, mut young, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        for key in 0..3u8 {
            let of_key = case / 18u32.pow(key.into()) % 18;
            let (is_sorted, older, newer) = (of_key % 2 == 1, of_key / 2 % 3, of_key / 6);
            let mut left = is_sorted.then_some("sorted");
            sorted.extend(is_sorted.then(|| keyed(key, "sorted")));
            for (store, state, name) in [(8, newer, "newer"), (5, older, "older")] {
                if state > 0 {
                    let state = if state == 1 {
                        SiltSlotState::Value
                    } else {
                        SiltSlotState::Deleted
                    };
                    young.push(HashStoreEntry {
                        entry: keyed(key, name),
                        state,
                        store,
                    });
                }
            }
            for (state, name) in [(older, "older"), (newer, "newer")] {
                left = [left, Some(name), None][state as usize];
            }
            expected.extend(left.map(|item| (HashedKey::of(1, &[key]), item)));
        }
        sorted.sort();
        young.sort_by_key(|young| young.entry.key);
        expected.sort_unstable();
        let merged: Vec<_> = merge(sorted.into_iter(), young.into_iter())
            .map(|entry| (entry.key, entry.item))
            .collect();
        assert_eq!(merged, expected, "case {case}");
    }
}

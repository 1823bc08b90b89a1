//! Compares the table with a naive implementation; tests the load of a full table and its filter.

use super::*;
use crate::Error;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn table_and_keys(shape: CuckooShape, seed: u64) -> (CuckooTable, Vec<u64>) {
    let (mut table, mut keys) = (CuckooTable::new(shape, seed), Vec::new());
    let mut random = fastrand::Rng::with_seed(seed);
    loop {
        let hash = random.u64(..);
        if table.insert(hash, keys.len() as u32).is_err() {
            return (table, keys);
        }
        keys.push(hash);
    }
}

fn slot_of(table: &CuckooTable, hash: u64, offset: u32) -> Option<CuckooSlot> {
    let found = table.candidates(hash).find(|(_, found)| *found == offset);
    found.map(|(slot, _)| slot)
}

#[test]
fn a_table_is_at_least_92_percent_full_when_the_first_insertion_fails() {
    for shape in [
        CuckooShape::alternate(15).unwrap(),
        CuckooShape::xor(15, 15).unwrap(),
    ] {
        let loads: Vec<f64> = (1..=8).map(|seed| table_and_keys(shape, seed).0.load()).collect();
        let mean = loads.iter().sum::<f64>() / loads.len() as f64;
        assert!((0.92..0.955).contains(&mean), "{:?}: {loads:?}", shape.variant());
    }
}

#[test]
fn a_failed_insertion_leaves_every_entry_as_it_was() {
    for shape in [
        CuckooShape::alternate(8).unwrap(),
        CuckooShape::xor(8, 15).unwrap(),
        CuckooShape::xor(1, 3).unwrap(),
    ] {
        let (mut table, mut keys) = table_and_keys(shape, 3);
        let mut random = fastrand::Rng::with_seed(9);
        let mut failures = 0;
        while failures < 40 {
            let (hash, offset) = (random.u64(..), keys.len() as u32);
            let before: Vec<_> = table.entries().collect();
            match table.insert(hash, offset) {
                Err(Error::Full { entries, slots }) => {
                    assert_eq!((entries, slots), (offset, shape.slots()));
                    assert!(table.entries().eq(before), "C2");
                    failures += 1;
                }
                other => {
                    other.unwrap();
                    keys.push(hash);
                }
            }
            assert_eq!(table.len() as usize, keys.len());
        }
        for (offset, &hash) in (0..).zip(&keys) {
            assert!(slot_of(&table, hash, offset).is_some(), "C1");
        }
    }
}

#[test]
fn keys_that_are_not_there_match_a_tag_as_rarely_as_computed() {
    for shape in [
        CuckooShape::alternate(15).unwrap(),
        CuckooShape::xor(15, 15).unwrap(),
    ] {
        let (table, _) = table_and_keys(shape, 5);
        let bytes = encode(&table);
        let filter = CuckooFilter::open(&bytes).unwrap();
        let mut random = fastrand::Rng::with_seed(77);
        let lookups = 4_000_000u32;
        let found = (0..lookups).filter(|_| filter.may_hold(random.u64(..))).count();
        let rate = found as f64 / f64::from(lookups);
        let theory = shape.false_positive_rate(table.load());
        assert!(
            (0.9..1.1).contains(&(rate / theory)),
            "{:?}: {rate:e}, not {theory:e}",
            shape.variant()
        );
        let bits_per_key = bytes.len() as f64 * 8.0 / f64::from(table.len());
        assert!((15.8..16.4).contains(&bits_per_key), "{bits_per_key} bits a key");
        let bytes_per_key = table.bytes() as f64 / f64::from(table.len());
        assert!((6.2..6.6).contains(&bytes_per_key), "{bytes_per_key} bytes a key");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u16),
    Remove(u16),
    Overwrite(u16, u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0u16..600).prop_map(Step::Insert),
        2 => (0u16..600).prop_map(Step::Remove),
        1 => (0u16..600, any::<u32>()).prop_map(|(key, offset)| Step::Overwrite(key, offset)),
    ];
    proptest::collection::vec(step, 0..900)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_history_leaves_what_a_map_has(steps in steps(), bucket_bits in 0u32..8, tag_bits in 1u32..=15, xor: bool) {
        let shape = if xor { CuckooShape::xor(bucket_bits, tag_bits) } else { CuckooShape::alternate(tag_bits.min(7)) };
        let shape = shape.unwrap();
        let (mut table, mut map) = (CuckooTable::new(shape, 5), BTreeMap::new());
        let of = |key: u16| alluvium_filters::hash(1, &key.to_le_bytes());
        for (number, step) in (0u32..).zip(steps) {
            match step {
                Step::Insert(key) if !map.contains_key(&key) => {
                    if table.insert(of(key), number).is_ok() {
                        map.insert(key, number);
                    }
                }
                Step::Remove(key) => {
                    if let Some(offset) = map.remove(&key) {
                        let slot = slot_of(&table, of(key), offset).unwrap();
                        prop_assert_eq!(table.remove(slot), offset);
                    }
                }
                Step::Overwrite(key, offset) => {
                    if let Some(before) = map.get_mut(&key) {
                        let slot = slot_of(&table, of(key), *before).unwrap();
                        prop_assert_eq!(table.set(slot, offset), *before);
                        *before = offset;
                    }
                }
                Step::Insert(_) => {}
            }
        }
        prop_assert_eq!(table.len() as usize, map.len());
        for (key, offset) in &map {
            prop_assert!(slot_of(&table, of(*key), *offset).is_some(), "C1");
        }
        let (mut held, mut expected): (Vec<u32>, Vec<u32>) =
            (table.entries().map(|(_, offset)| offset).collect(), map.into_values().collect());
        held.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(held, expected);
        let bytes = encode(&table);
        let filter = CuckooFilter::open(&bytes).unwrap();
        prop_assert!(filter.check().is_empty(), "{:?}", filter.check());
        for key in 0..1200u16 {
            let slots: Vec<CuckooSlot> = table.candidates(of(key)).map(|(slot, _)| slot).collect();
            prop_assert_eq!(filter.may_hold(of(key)), !slots.is_empty(), "C3");
            prop_assert_eq!(filter.candidates(of(key)).collect::<Vec<_>>(), slots, "C4");
        }
    }
}

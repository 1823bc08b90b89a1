//! Tests with different keys that have equal hashes. An adversary can construct such keys: for a
//! key of 16 bytes, XXH3 combines each half with a constant and multiplies the results. If one half
//! cancels its constant, its factor is zero, and the other half is merely added.

use super::{
    AppendOperator, DictionaryScan, KeyRange, List, LookupKey, LookupState, MemtableList, Story, forms,
    lookup,
};
use alluvium_base::Message;
use alluvium_dictionary::contract::Dictionary;
use alluvium_dictionary::memtable::Memtable;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The constants that are combined with the halves under seed 0: the words of XXH3's secret at
/// offsets 24 and 32, and at offsets 40 and 48.
const LOW: u64 = 0x1f67_b3b7_a4a4_4072 ^ 0x78e5_c0cc_4ee6_79cb;
const HIGH: u64 = 0x2172_ffcc_7dd0_5a82 ^ 0x8e24_43f7_7446_08b8;

/// Returns two different keys with the same hash under a seed, in ascending order.
fn pair(number: u64, seed: u64) -> [Vec<u8>; 2] {
    let key = |low: u64, high: u64| {
        let low = low ^ LOW.wrapping_add(seed);
        let high = high ^ HIGH.wrapping_sub(seed);
        [low.to_le_bytes(), high.to_le_bytes()].concat()
    };
    let mut keys = [key(0, number), key(number.swap_bytes(), 0)];
    keys.sort();
    assert_ne!(keys[0], keys[1]);
    let hash = |key: &[u8]| alluvium_filters::hash(seed, key);
    assert_eq!(hash(&keys[0]), hash(&keys[1]));
    keys
}

fn get(story: &Story, key: &[u8], at: u64) -> Option<Vec<u8>> {
    let mut gather = LookupState::new(at, 0, Some(&AppendOperator));
    use super::PointLookup as _;
    lookup::gather(&story.hashed.reader(), LookupKey::new(key), &mut gather).unwrap();
    gather.finish()
}

/// Scans all keys, starting a new scan after each key.
fn walked(story: &Story, at: u64) -> Vec<Vec<u8>> {
    let list = || Arc::new(List(MemtableList::default()));
    let mut found: Vec<Vec<u8>> = Vec::new();
    loop {
        let mut walk = story.hashed.walk(list(), KeyRange::everything(), at, 0);
        if let Some(last) = found.last() {
            walk.seek(last);
        }
        match walk.next().unwrap() {
            Some((key, _)) => found.push(key.to_vec()),
            None => return found,
        }
    }
}

#[test]
fn keys_with_one_hash_are_told_apart_by_lookups_merges_and_walks() {
    for options in forms() {
        let seed = options.own_seed();
        let mut story = Story::of(options, 29);
        let pairs: Vec<[Vec<u8>; 2]> = (1..60u64)
            .map(|number| pair(number.wrapping_mul(0x9e37_79b9_7f4a_7c15), seed))
            .collect();
        let mut model = BTreeMap::new();
        let mut at = 0;
        // Four rounds are enough for hash stores to be merged into the sorted store.
        for round in 0..4u8 {
            let memtable = Memtable::new(1 << 20);
            for (number, keys) in pairs.iter().enumerate() {
                for (half, key) in keys.iter().enumerate() {
                    at += 1;
                    match (number + half + usize::from(round)) % 5 {
                        0 => {
                            memtable.insert(key, Message::delete(at)).unwrap();
                            model.remove(key);
                        }
                        1 => {
                            memtable.insert(key, Message::merge(at, &[round])).unwrap();
                            model.entry(key.clone()).or_insert_with(Vec::new).push(round);
                        }
                        _ => {
                            let value = vec![round, half as u8, number as u8];
                            memtable.insert(key, Message::put(at, &value)).unwrap();
                            model.insert(key.clone(), value);
                        }
                    }
                }
            }
            story
                .model
                .said
                .resize(at as usize, super::Said::Delete(Vec::new()));
            story.take(Arc::new(memtable));
            if round % 2 == 1 {
                story.home.horizon.raise(at);
                if round == 3 {
                    story.hashed.compact_part(b"").unwrap();
                }
                story.merge(100_000);
                story.check();
            }
            for key in pairs.iter().flatten() {
                assert_eq!(get(&story, key, at), model.get(key).cloned(), "round {round}");
            }
            let mut found = walked(&story, at);
            let count = found.len();
            found.sort();
            found.dedup();
            assert_eq!(count, found.len(), "no key comes twice");
            assert!(
                found.iter().eq(model.keys()),
                "round {round}: {count} of {}",
                model.len()
            );
        }
    }
}

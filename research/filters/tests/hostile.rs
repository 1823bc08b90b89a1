//! No input makes the readers of filters panic, loop for ever or allocate without bound; damage
//! is reported.

use research_filters::{cuckoo, perfect};

/// Passes damaged variants of sound bytes to a reader: flipped bits, overwritten bytes and words,
/// truncated and extended inputs, and random bytes.
fn damaged(sound: &[u8], rounds: u32, seed: u64, mut read: impl FnMut(&[u8])) {
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..rounds {
        let mut bytes = sound.to_vec();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..bytes.len());
            match round % 6 {
                0 => bytes[at] ^= 1 << random.u8(0..8),
                1 => bytes[at] = random.u8(..),
                2 => bytes[at..].iter_mut().take(8).for_each(|byte| *byte = 0xff),
                3 => bytes[at..]
                    .iter_mut()
                    .take(8)
                    .for_each(|byte| *byte = random.u8(..)),
                4 => bytes.truncate(at.max(1)),
                _ => bytes.extend((0..at % 64).map(|_| random.u8(..))),
            }
        }
        read(&bytes);
    }
    for len in 0..sound.len().min(200) {
        let bytes: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
        read(&bytes);
        read(&sound[..len]);
    }
}

#[test]
fn damaged_cuckoo_filters_make_nothing_panic_and_are_reported() {
    use cuckoo::{CuckooFilter, CuckooShape, CuckooTable, encode};
    for shape in [
        CuckooShape::alternate(5).unwrap(),
        CuckooShape::xor(4, 15).unwrap(),
    ] {
        let mut table = CuckooTable::new(shape, 3);
        let mut random = fastrand::Rng::with_seed(3);
        while table.load() < 0.8 {
            table.insert(random.u64(..), 1).unwrap();
        }
        let sound = encode(&table);
        assert!(CuckooFilter::open(&sound).unwrap().check().is_empty());
        damaged(&sound, 3000, 4, |bytes| {
            let Ok(filter) = CuckooFilter::open(bytes) else {
                return;
            };
            for hash in 0..20u64 {
                let hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                assert_eq!(filter.may_hold(hash), filter.candidates(hash).next().is_some());
            }
            assert_eq!(filter.check().is_empty(), bytes == sound);
        });
    }
}

#[test]
fn damaged_perfect_hashes_make_nothing_panic_and_are_reported() {
    use perfect::{PerfectHashBuilder, PerfectHashIndex};
    let mut random = fastrand::Rng::with_seed(8);
    let mut keys: Vec<[u8; 12]> = (0..1200).map(|_| [0; 12].map(|_: u8| random.u8(..))).collect();
    keys.sort_unstable();
    let mut builder = PerfectHashBuilder::new(12, 70, |_, _| {}).unwrap();
    keys.iter().for_each(|key| builder.push(key).unwrap());
    let sound = builder.finish().unwrap();
    assert!(PerfectHashIndex::open(12, &sound).unwrap().check().is_empty());
    let mut opened = 0;
    damaged(&sound, 4000, 9, |bytes| {
        let Ok(index) = PerfectHashIndex::open(12, bytes) else {
            return;
        };
        opened += 1;
        for key in keys.iter().step_by(40) {
            if let Ok(Some(place)) = index.lookup(key) {
                assert!(index.items(index.bucket_of(key)).unwrap().contains(&place));
            }
        }
        assert_eq!(index.check().is_empty(), bytes == sound);
        let mut builder = PerfectHashBuilder::new(12, 70, |_, _| {}).unwrap();
        let _ = builder.copy(&index, 3);
    });
    assert!(opened > 1000, "{opened} were opened");
}

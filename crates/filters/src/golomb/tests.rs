use super::*;
use proptest::prelude::*;

#[test]
fn the_bytes_never_change() {
    let bytes = encode(8, 2, &[(0, 1), (3, 2), (3, 0), (200, 3)]);
    // With k = 6, the differences are 0, 3, 0 and 197 = 3 × 64 + 5.
    assert_eq!(bytes[..16], [1, 8, 2, 6, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
    let mut bits = StreamBitWriter::new();
    for (ones, low, payload) in [(0, 0, 1), (0, 3, 2), (0, 0, 0), (3, 5, 3)] {
        bits.put((1 << ones) - 1, ones + 1);
        bits.put(low, 6);
        bits.put(payload, 2);
    }
    assert_eq!(bytes[16..], bits.finish());
    assert_eq!(bytes[16..18], [0x80, 0x0c], "low bits come first");
}

#[test]
fn densities_choose_the_parameter() {
    for (entries, universe, parameter) in [
        (0, 20, 20),
        (1, 20, 20),
        (2, 20, 19),
        (3, 20, 18),
        (1 << 20, 20, 0),
        (1 << 22, 20, 0),
        (1000, 63, 53),
    ] {
        assert_eq!(
            RiceCode::new(entries, universe).parameter(),
            parameter,
            "{entries} of 2^{universe}"
        );
    }
}

#[test]
fn bits_an_entry_follow_the_density() {
    // Lemma 2: an entry needs O(1 + log 1/D) bits. The Rice code of a difference is within 1.6 bits
    // of the entropy.
    let mut random = fastrand::Rng::with_seed(3);
    for (entries, universe) in [
        (1000, 30),
        (1000, 20),
        (1000, 12),
        (1000, 10),
        (4096, 10),
        (4096, 6),
    ] {
        let mut list: Vec<_> = (0..entries).map(|_| (random.u64(..1 << universe), 0)).collect();
        list.sort_unstable();
        let bits = (encode(universe, 0, &list).len() - 16) as f64 * 8.0 / f64::from(entries);
        let log = (2f64.powi(universe as i32) / f64::from(entries)).log2().max(0.0);
        assert!(
            (log..log + 2.6).contains(&bits) || log == 0.0 && bits < 2.1,
            "{bits}, log 1/D {log}"
        );
        assert!(
            RiceCode::new(entries as u64, universe).worst_bits(entries as u64, 0) as f64
                >= bits * f64::from(entries)
        );
        assert_eq!(decode(&encode(universe, 0, &list)).unwrap(), list);
    }
}

#[test]
fn extreme_lists_come_back() {
    for list in [
        vec![],
        vec![(0, 0)],
        vec![((1 << 63) - 1, u128::MAX)],
        vec![(7, 1); 5000],
        vec![(0, 1), ((1 << 63) - 1, 2)],
    ] {
        assert_eq!(decode(&encode(63, 128, &list)).unwrap(), list);
    }
    let mut skewed = vec![(0, 0); 3000];
    skewed.push((4095, 0));
    let bytes = encode(12, 0, &skewed);
    assert!((bytes.len() - 16) as u64 * 8 <= RiceCode::new(3001, 12).worst_bits(3001, 0) + 8);
    assert_eq!(decode(&bytes).unwrap(), skewed);
}

proptest! {
    #[test]
    fn lists_come_back_whatever_their_density(
        universe in 1u32..64,
        payload in 0u32..=128,
        raw in prop::collection::vec(any::<(u64, u128)>(), 0..200),
        repeats in 1usize..4,
    ) {
        let mask = if payload == 128 { u128::MAX } else { (1 << payload) - 1 };
        let mut list: Vec<(u64, u128)> =
            raw.iter().map(|(entry, load)| (entry & ((1 << universe) - 1), load & mask)).collect();
        list.sort_by_key(|(entry, _)| *entry);
        let list: Vec<_> = list.into_iter().flat_map(|entry| vec![entry; repeats]).collect();
        let bytes = encode(universe, payload, &list);
        let worst = RiceCode::new(list.len() as u64, universe).worst_bits(list.len() as u64, payload);
        prop_assert!((bytes.len() as u64 - 16) * 8 < worst + 8);
        prop_assert_eq!(decode(&bytes).unwrap(), list);
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), head in any::<bool>()) {
        let mut bytes = bytes;
        if head {
            let mut good = encode(9, 3, &[(1, 2), (5, 5)]);
            good.truncate(16);
            good[8] = bytes.len() as u8;
            good[3] = RiceCode::new(bytes.len() as u64, 9).parameter() as u8;
            good.extend(&bytes);
            bytes = good;
        }
        if let Ok(list) = decode(&bytes) {
            prop_assert!(list.is_sorted_by_key(|(entry, _)| *entry));
        }
    }
}

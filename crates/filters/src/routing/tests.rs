use super::*;
use crate::fingerprint::{FingerprintAlphabet, FingerprintFamily, HashIndependence};
use proptest::prelude::*;

fn list_of(geometry: RoutingGeometry, entries: &[RoutingEntry]) -> (u64, Vec<u8>, Vec<u8>) {
    let mut builder = RoutingListBuilder::new(geometry);
    let (mut list, mut table) = (Vec::new(), Vec::new());
    for &entry in entries {
        builder.push(entry);
        if builder.ready() > 10 {
            list.extend(builder.take_list());
            table.extend(builder.take_table());
        }
    }
    let (bits, rest, last) = builder.finish();
    list.extend(rest);
    table.extend(last);
    assert_eq!(table.len() as u64, geometry.table_bytes());
    assert!(bits <= geometry.worst_bits() && list.len() as u64 == bits.div_ceil(8));
    (bits, list, table)
}

fn lookup(
    geometry: &RoutingGeometry,
    bits: u64,
    list: &[u8],
    table: &[u8],
    prefix: u64,
) -> crate::Result<Vec<u32>> {
    let cut = |bytes: &[u8], range: std::ops::Range<u64>| {
        bytes
            .get(range.start as usize..range.end as usize)
            .unwrap_or_default()
            .to_vec()
    };
    let part = geometry.part(&cut(table, geometry.table_place(prefix)), prefix, bits)?;
    geometry.payloads(&part, &cut(list, part.bytes()), prefix)
}

fn scan(geometry: RoutingGeometry, bits: u64, list: &[u8], table: &[u8]) -> crate::Result<Vec<RoutingEntry>> {
    let mut scan = RoutingScan::new(geometry, bits, list, table);
    let mut all = Vec::new();
    while let Some(entry) = scan.next()? {
        all.push(entry);
    }
    Ok(all)
}

fn random_entries(seed: u64, count: usize, prefix_bits: u32, payload_bits: u32) -> Vec<RoutingEntry> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut entries: Vec<RoutingEntry> = (0..count)
        .map(|_| RoutingEntry {
            prefix: random.u64(..) >> (64 - prefix_bits),
            payload: random.u32(..1 << payload_bits),
        })
        .collect();
    entries.sort_by_key(|entry| entry.prefix);
    entries
}

#[test]
fn the_bytes_of_a_list_never_change() {
    let geometry = RoutingGeometry::new(4, 6, 3, 2).unwrap();
    let entries =
        [(1, 5), (1, 2), (40, 7), (63, 0)].map(|(prefix, payload)| RoutingEntry { prefix, payload });
    let (bits, list, table) = list_of(geometry, &entries);
    assert_eq!((bits, geometry.pivot_bits()), (33, 1));
    // With k = 4, the entries of prefixes 1, 1, 40 − 32 and 23 are encoded as 0, 1000, 101; 0,
    // 0000, 010; 0, 0001, 111; and 1 0, 1110, 000.
    assert_eq!(list, [0b1010_0010, 0b0100_0000, 0b1111_0000, 0b0001_1101, 0]);
    assert_eq!(
        table,
        [0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 33, 0, 0, 0, 0, 0][..18]
    );
    assert_eq!(
        geometry.encode(33),
        [
            1, 6, 1, 3, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 33, 0, 0, 0, 0, 0, 0, 0
        ]
    );
    assert_eq!(
        RoutingGeometry::decode(&geometry.encode(33)).unwrap(),
        (geometry, 33)
    );
}

#[test]
fn lists_answer_like_a_search_of_their_entries() {
    for (count, prefix_bits, payload_bits, group) in [
        (0, 8, 4, 4),
        (1, 1, 0, 1),
        (500, 6, 5, 3),
        (3000, 12, 9, 5),
        (3000, 20, 12, 8),
        (2000, 63, 24, 6),
    ] {
        let entries = random_entries(count as u64, count, prefix_bits, payload_bits);
        let geometry = RoutingGeometry::new(count as u64, prefix_bits, payload_bits, group).unwrap();
        let (bits, list, table) = list_of(geometry, &entries);
        assert_eq!(scan(geometry, bits, &list, &table).unwrap(), entries);
        let absent = (0..500).map(|at| at << (prefix_bits.max(9) - 9) & ((1 << prefix_bits) - 1));
        for prefix in entries.iter().map(|entry| entry.prefix).chain(absent) {
            let expected: Vec<u32> = entries
                .iter()
                .filter(|entry| entry.prefix == prefix)
                .map(|entry| entry.payload)
                .collect();
            assert_eq!(
                lookup(&geometry, bits, &list, &table, prefix).unwrap(),
                expected,
                "{prefix}"
            );
        }
    }
}

#[test]
fn every_pivot_is_read_without_the_others() {
    let entries = random_entries(5, 4000, 14, 6);
    let geometry = RoutingGeometry::new(4000, 14, 6, 5).unwrap();
    let (bits, list, table) = list_of(geometry, &entries);
    for pivot in 0..1u64 << geometry.pivot_bits() {
        let first = pivot << (14 - geometry.pivot_bits());
        let place = geometry.table_place(first);
        let part = geometry
            .part(&table[place.start as usize..place.end as usize], first, bits)
            .unwrap();
        let bytes = part.bytes();
        // Overwrite all bytes outside the section, which must not change the results.
        let mut alone = vec![0xa5; list.len()];
        alone[bytes.start as usize..bytes.end as usize]
            .copy_from_slice(&list[bytes.start as usize..bytes.end as usize]);
        for prefix in first..first + (1 << (14 - geometry.pivot_bits())) {
            let expected: Vec<u32> = entries
                .iter()
                .filter(|entry| entry.prefix == prefix)
                .map(|entry| entry.payload)
                .collect();
            assert_eq!(lookup(&geometry, bits, &alone, &table, prefix).unwrap(), expected);
        }
    }
}

#[test]
fn a_list_takes_a_few_bits_and_its_payload_for_each_entry() {
    // An entry takes O(C log λ) bits. With λ prefixes per entry, these are log λ low bits, at most
    // 2 bits of unary code on average, the sketch, and a share of the pivot.
    for (character_bits, group) in [(1, 16), (2, 10), (4, 5), (6, 4)] {
        let (count, prefix_bits) = (1 << 14, 14 + character_bits);
        let entries = random_entries(8, count, prefix_bits, 2 * character_bits);
        let geometry = RoutingGeometry::new(count as u64, prefix_bits, 2 * character_bits, group).unwrap();
        let (bits, _, table) = list_of(geometry, &entries);
        let each = (bits + 8 * table.len() as u64) as f64 / count as f64;
        let most = f64::from(3 * character_bits) + 2.0 + 2.0 * 48.0 / group as f64;
        assert!(
            each < most,
            "λ = {}: {each:.1} bits, at most {most:.1}",
            1 << character_bits
        );
    }
}

/// The prefixes of a run, each with the previous run that contained it.
type Chain = Vec<(u64, Option<u32>)>;

/// Adds `runs` runs, each with `size` keys, to a routing filter.
fn filter_of(
    shape: RoutingArray,
    family: &FingerprintFamily,
    alphabet: &FingerprintAlphabet,
    runs: u32,
    size: u32,
) -> (Vec<u8>, Vec<Chain>) {
    let mut bytes: Option<Vec<u8>> = None;
    let mut chains = Vec::new();
    for run in 0..runs {
        let mut prefixes: Vec<u64> = (run * size..(run + 1) * size)
            .map(|key| alphabet.prefix(family.of(&key.to_le_bytes()), shape.prefix_bits()))
            .collect();
        prefixes.sort_unstable();
        let mut update = RoutingUpdate::new(shape, bytes.as_deref(), run);
        let mut out = Vec::new();
        let mut chain = Vec::new();
        for prefix in prefixes {
            chain.push((prefix, update.group(prefix).unwrap()));
            out.extend(update.take());
        }
        while !update.copy(100).unwrap() {}
        out.extend(update.finish().unwrap());
        assert_eq!(out.len() as u64, shape.bytes());
        bytes = Some(out);
        chains.push(chain);
    }
    (bytes.unwrap(), chains)
}

fn read(shape: RoutingArray, bytes: &[u8], prefix: u64) -> Option<u32> {
    let place = shape.place(prefix);
    shape
        .read(&bytes[place.start as usize..place.end as usize], prefix)
        .unwrap()
}

#[test]
fn chains_visit_every_run_that_holds_a_prefix_and_no_other() {
    for characters in [2u32, 4, 16, 64, 128, 256] {
        let alphabet = FingerprintAlphabet::new(64, characters).unwrap();
        let family = FingerprintFamily::new(4, 64, HashIndependence::Assumed).unwrap();
        let shape = RoutingArray::new(9, alphabet.character_bits()).unwrap();
        let (bytes, chains) = filter_of(shape, &family, &alphabet, characters - 1, 100);
        for prefix in 0..512 {
            let mut expected: Vec<u32> = (0..characters - 1)
                .filter(|&run| chains[run as usize].iter().any(|(held, _)| *held == prefix))
                .collect();
            let mut at = read(shape, &bytes, prefix);
            while let Some(run) = at {
                assert_eq!(expected.pop(), Some(run));
                at = chains[run as usize]
                    .iter()
                    .find(|(held, _)| *held == prefix)
                    .unwrap()
                    .1;
            }
            assert!(expected.is_empty(), "{expected:?} are never visited");
        }
    }
}

#[test]
fn false_positives_are_at_most_lambda_by_beta() {
    // Lemma 5: on average, λ / β runs contain the prefix of a key although they do not contain the
    // key.
    let (characters, size) = (16u32, 256u32);
    let alphabet = FingerprintAlphabet::new(64, characters).unwrap();
    let family = FingerprintFamily::new(6, 64, HashIndependence::Words(16)).unwrap();
    for beta_bits in [1u32, 2, 3, 4, 5, 6] {
        let shape = RoutingArray::new(8 + beta_bits, 4).unwrap();
        let (bytes, chains) = filter_of(shape, &family, &alphabet, characters - 1, size);
        let visits: usize = (1_000_000..1_004_000u32)
            .map(|absent| {
                let prefix = alphabet.prefix(family.of(&absent.to_le_bytes()), 8 + beta_bits);
                let mut at = read(shape, &bytes, prefix);
                let mut visited = 0;
                while let Some(run) = at {
                    visited += 1;
                    let chain = &chains[run as usize];
                    at = chain[chain.partition_point(|(held, _)| *held < prefix)].1;
                }
                visited
            })
            .sum();
        let (mean, bound) = (visits as f64 / 4000.0, 16.0 / f64::from(1u32 << beta_bits));
        assert!(
            mean < bound * 1.1,
            "β = {}: {mean}, at most {bound}",
            1 << beta_bits
        );
        // The expected number of runs with the prefix of an absent key is 15 (1 − e^(−1/β)).
        let exact = 15.0 * (1.0 - (-1.0 / f64::from(1u32 << beta_bits)).exp());
        assert!(
            (mean / exact - 1.0).abs() < 0.15,
            "β = {}: {mean}, {exact} expected",
            1 << beta_bits
        );
    }
}

#[test]
fn impossible_shapes_and_wrong_bytes_are_errors() {
    assert!(
        RoutingArray::new(49, 4).is_err()
            && RoutingArray::new(10, 0).is_err()
            && RoutingArray::new(10, 9).is_err()
    );
    assert!(RoutingGeometry::new(10, 0, 3, 4).is_err() && RoutingGeometry::new(10, 64, 3, 4).is_err());
    assert!(RoutingGeometry::new(1 << 41, 60, 3, 4).is_err() && RoutingGeometry::new(4, 6, 33, 4).is_err());
    assert!(RoutingArray::new(12, 6).unwrap().read(&[], 3).is_err());
    let good = RoutingGeometry::new(100, 12, 3, 4).unwrap().encode(500);
    for at in 0..24 {
        assert!(RoutingGeometry::decode(&good[..at]).is_err());
        for value in [0, 1, 64, 255] {
            let mut bad = good.clone();
            bad[at] = value;
            let _ =
                RoutingGeometry::decode(&bad).map(|(geometry, bits)| assert!(bits <= geometry.worst_bits()));
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_lookup_or_a_scan_panic(
        seed in any::<u64>(),
        spoilt in prop::collection::vec((any::<u16>(), any::<u8>()), 1..8),
        prefix in 0u64..1 << 10,
    ) {
        let entries = random_entries(seed, 200, 10, 5);
        let geometry = RoutingGeometry::new(200, 10, 5, 4).unwrap();
        let (bits, mut list, mut table) = list_of(geometry, &entries);
        for (at, value) in spoilt {
            let at = at as usize % (list.len() + table.len());
            match at.checked_sub(list.len()) {
                Some(at) => table[at] = value,
                None => list[at] = value,
            }
        }
        let _ = lookup(&geometry, bits, &list, &table, prefix);
        if let Ok(all) = scan(geometry, bits, &list, &table) {
            prop_assert_eq!(all.len(), 200);
            prop_assert!(all.is_sorted_by_key(|entry| entry.prefix));
        }
    }
}

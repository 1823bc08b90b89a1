//! What the tests share: the naive multiset, and building filters from it.

use alluvium_filters::{
    EntryChunk, Error, FilterBuilder, FilterEntry, FilterGeometry, FilterImage, Fingerprint,
};
use std::collections::BTreeMap;

/// The naive model of a filter.
pub(crate) type Multiset = BTreeMap<FilterEntry, u32>;

pub(crate) fn build(geometry: FilterGeometry, entries: &Multiset) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut builder = FilterBuilder::new(geometry, |page: &[u8]| -> Result<(), Error> {
        bytes.extend_from_slice(page);
        Ok(())
    });
    for (&entry, &count) in entries {
        builder.push(entry, count).unwrap();
    }
    let built = builder.finish().unwrap();
    assert_eq!(built.distinct, entries.len() as u64);
    assert_eq!(
        built.entries,
        entries.values().map(|&count| u64::from(count)).sum::<u64>()
    );
    assert_eq!(
        u64::from(built.pages) * u64::from(geometry.page_bytes()),
        bytes.len() as u64
    );
    bytes
}

pub(crate) fn read(geometry: &FilterGeometry, bytes: &[u8]) -> Multiset {
    let image = FilterImage::new(geometry, bytes).unwrap();
    let (mut source, mut chunk, mut all) = (image.source(), EntryChunk::new(), Multiset::new());
    while source(&mut chunk).unwrap() {
        all.extend(chunk.iter().map(|counted| (counted.entry, counted.count)));
    }
    all
}

pub(crate) fn values(entries: &Multiset, fingerprint: Fingerprint) -> Vec<u16> {
    let range = FilterEntry::new(fingerprint, u16::MAX)..=FilterEntry::new(fingerprint, 0);
    entries.range(range).map(|(entry, _)| entry.value()).collect()
}

pub(crate) fn assert_sound(geometry: &FilterGeometry, bytes: &[u8]) {
    let violations = FilterImage::new(geometry, bytes).unwrap().check();
    assert!(
        violations.is_empty(),
        "{}",
        violations
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    );
}

/// Returns random entries with `keys` fingerprints, some of which have several values or are
/// repeated.
pub(crate) fn random_entries(geometry: &FilterGeometry, keys: u64, seed: u64) -> Multiset {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut entries = Multiset::new();
    let values = 1u32 << geometry.value_bits();
    while (entries.len() as u64) < keys {
        let fingerprint = geometry.fingerprint(random.u64(..));
        let times = if random.u8(..) < 20 { random.usize(1..5) } else { 1 };
        for _ in 0..times {
            *entries
                .entry(FilterEntry::new(fingerprint, random.u32(0..values) as u16))
                .or_default() += 1;
        }
    }
    entries
}

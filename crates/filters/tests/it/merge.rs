//! Tests that compare merging filters without their keys with merging naive multisets.

use crate::support::{Multiset, assert_sound, build, random_entries};
use alluvium_filters::{
    EntryChunk, Error, FilterBuilder, FilterEntry, FilterGeometry, FilterImage, FilterShape, MergeStats,
    merge,
};
use proptest::prelude::*;

fn merged(
    inputs: &[(FilterGeometry, Vec<u8>)],
    geometry: FilterGeometry,
    rewrite: impl FnMut(usize, FilterEntry) -> Option<u16>,
) -> (Vec<u8>, MergeStats) {
    let mut bytes = Vec::new();
    let mut builder = FilterBuilder::new(geometry, |page: &[u8]| -> Result<(), Error> {
        bytes.extend_from_slice(page);
        Ok(())
    });
    let sources = inputs
        .iter()
        .map(|(geometry, bytes)| FilterImage::new(geometry, bytes).unwrap().source())
        .collect();
    let merged = merge(sources, rewrite, &mut builder).unwrap();
    builder.finish().unwrap();
    (bytes, merged)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn merging_filters_equals_building_from_the_merged_multiset(
        sizes in proptest::collection::vec((0u64..600, 1u32..4, any::<u64>()), 0..9),
        value_bits in 0u32..6,
        drop_every in 2u64..9,
    ) {
        let shape = FilterShape::new(22, value_bits);
        let mut expected = Multiset::new();
        let (mut inputs, mut read, mut dropped) = (Vec::new(), 0, 0);
        // The rewritten values collide, change their order and depend on the source, and some
        // entries are dropped.
        let rewrite = |source: usize, entry: FilterEntry| {
            let mixed = (u32::from(entry.value()) * 5 + source as u32) % (1 << value_bits);
            (!(entry.bits() >> 42).is_multiple_of(drop_every)).then_some(mixed as u16)
        };
        for (source, &(keys, pages, seed)) in sizes.iter().enumerate() {
            let geometry = FilterGeometry::with_pages(pages, shape).unwrap();
            let model = random_entries(&geometry, keys, seed);
            for (&entry, &count) in &model {
                read += 1;
                match rewrite(source, entry) {
                    Some(value) => *expected.entry(entry.with_value(value)).or_default() += count,
                    None => dropped += 1,
                }
            }
            inputs.push((geometry, build(geometry, &model)));
        }
        let geometry = FilterGeometry::for_entries(expected.len() as u64, shape).unwrap();
        let (bytes, merged) = merged(&inputs, geometry, rewrite);
        prop_assert_eq!(bytes, build(geometry, &expected));
        prop_assert_eq!(merged, MergeStats { read, dropped });
    }
}

#[test]
fn merging_in_any_grouping_gives_the_same_bytes() {
    let shape = FilterShape::new(34, 3);
    let inputs: Vec<_> = (0..8)
        .map(|seed| {
            let geometry = FilterGeometry::for_entries(3000, shape).unwrap();
            (geometry, build(geometry, &random_entries(&geometry, 3000, seed)))
        })
        .collect();
    let target = FilterGeometry::for_entries(24_000, shape).unwrap();
    let keep = |_: usize, entry: FilterEntry| Some(entry.value());
    let (all_at_once, _) = merged(&inputs, target, keep);
    assert_sound(&target, &all_at_once);
    let pairs: Vec<_> = inputs
        .chunks(2)
        .map(|pair| {
            let geometry = FilterGeometry::for_entries(6000, shape).unwrap();
            (geometry, merged(pair, geometry, keep).0)
        })
        .collect();
    assert_eq!(
        merged(&pairs, target, keep).0,
        all_at_once,
        "fingerprints never lengthen nor shorten"
    );
}

#[test]
fn entries_at_both_ends_of_the_fingerprints_are_merged() {
    let geometry = FilterGeometry::with_pages(2, FilterShape::new(48, 1)).unwrap();
    let ends = [0, 1, u64::MAX - 1, u64::MAX].map(|hash| geometry.fingerprint(hash));
    let model: Multiset = ends
        .iter()
        .flat_map(|&end| [0, 1].map(|value| (FilterEntry::new(end, value), 1)))
        .collect();
    let inputs = vec![(geometry, build(geometry, &model)); 3];
    let (bytes, _) = merged(&inputs, geometry, |_, entry| Some(entry.value()));
    let tripled = model.iter().map(|(&entry, _)| (entry, 3)).collect();
    assert_eq!(bytes, build(geometry, &tripled));
}

#[test]
fn a_source_that_fails_or_falls_back_stops_the_merge() {
    let geometry = FilterGeometry::with_pages(1, FilterShape::new(30, 0)).unwrap();
    let entry = |hash| FilterEntry::new(geometry.fingerprint(hash), 0);
    let mut builder = FilterBuilder::new(geometry, |_: &[u8]| Ok::<(), Error>(()));
    let mut calls = 0;
    let falls_back = |chunk: &mut EntryChunk| {
        calls += 1;
        chunk.push(entry(u64::MAX >> calls), 1);
        Ok(calls < 3)
    };
    assert!(matches!(
        merge(vec![falls_back], |_, _| Some(0), &mut builder),
        Err(Error::Order { .. })
    ));
    let fails = |_: &mut EntryChunk| Err(Error::Count { entry: 7 });
    assert_eq!(
        merge(vec![fails], |_, _| Some(0), &mut builder),
        Err(Error::Count { entry: 7 })
    );
}

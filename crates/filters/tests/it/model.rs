//! Tests that compare insertion, removal, lookup, resizing and building with a `BTreeMap`.

use crate::support::{Multiset, assert_sound, build, random_entries, read, values};
use alluvium_filters::{
    Error, FilterEntry, FilterGeometry, FilterImage, FilterShape, Fingerprint, FingerprintPresence,
    PageLookup, PageView, QuotientMaplet, lookup_many,
};
use proptest::prelude::*;

/// Generates fingerprints that are clustered or spread out, with few or many values.
fn entries(bits: u32, value_bits: u32) -> impl Strategy<Value = Vec<FilterEntry>> {
    let number = prop_oneof![
        4 => 0..1u64 << bits,
        2 => 0u64..8,
        1 => (1u64 << bits) - 8..1 << bits,
        1 => (1u64 << (bits - 1))..(1 << (bits - 1)) + 300,
    ];
    let value = 0u32..1 << value_bits;
    let entry = (number, value).prop_map(move |(number, value)| {
        FilterEntry::new(Fingerprint::of_number(number, bits), value as u16)
    });
    proptest::collection::vec(entry, 0..400)
}

fn shapes() -> impl Strategy<Value = (FilterShape, u32)> {
    (12u32..=48, 0u32..=16, 12u32..=13, 1u32..4).prop_map(|(fingerprint_bits, value_bits, log, pages)| {
        (
            FilterShape {
                page_bytes: 1 << log,
                ..FilterShape::new(fingerprint_bits, value_bits)
            },
            pages,
        )
    })
}

fn check_lookups(
    geometry: &FilterGeometry,
    bytes: &[u8],
    model: &Multiset,
    fingerprints: impl Iterator<Item = Fingerprint>,
) {
    let image = FilterImage::new(geometry, bytes).unwrap();
    let (portable, fingerprints) = (geometry.portable(), fingerprints.collect::<Vec<_>>());
    let slow = FilterImage::new(&portable, bytes).unwrap();
    let mut batch = vec![None; fingerprints.len()];
    let probes: Vec<_> = fingerprints
        .iter()
        .map(|&fingerprint| (image.view(fingerprint).unwrap(), fingerprint))
        .collect();
    lookup_many(&probes, |index, found| {
        batch[index] = match found {
            PageLookup::InPage(values) => Some(values.collect::<Vec<_>>()),
            PageLookup::Spilled => None,
        };
    });
    for (fingerprint, batched) in fingerprints.into_iter().zip(batch) {
        let expected = values(model, fingerprint);
        assert_eq!(image.lookup(fingerprint).unwrap().collect::<Vec<_>>(), expected);
        assert_eq!(slow.lookup(fingerprint).unwrap().collect::<Vec<_>>(), expected);
        assert_eq!(image.contains(fingerprint).unwrap(), !expected.is_empty());
        let view = image.view(fingerprint).unwrap();
        let presence = view.contains(fingerprint);
        assert_eq!(presence, view.lookup(fingerprint).presence());
        assert_eq!(batched.is_none(), presence == FingerprintPresence::Spilled);
        assert!(batched.is_none_or(|values| values == expected));
        let count: u64 = model
            .range(FilterEntry::new(fingerprint, u16::MAX)..=FilterEntry::new(fingerprint, 0))
            .map(|(_, &count)| u64::from(count))
            .sum();
        assert_eq!(view.count(fingerprint).unwrap_or(count), count);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn any_history_leaves_the_bytes_that_building_gives(
        ((shape, pages), entries, removals) in shapes().prop_flat_map(|(shape, pages)| {
            (Just((shape, pages)), entries(shape.fingerprint_bits, shape.value_bits), any::<u64>())
        })
    ) {
        let Ok(geometry) = FilterGeometry::with_pages(pages, shape) else { return Ok(()) };
        let (mut maplet, mut model) = (QuotientMaplet::new(geometry), Multiset::new());
        for (step, &entry) in entries.iter().enumerate() {
            maplet.insert(entry).unwrap();
            *model.entry(entry).or_default() += 1;
            if removals >> (step % 64) & 1 == 1 {
                let victim = entries[(removals as usize).wrapping_mul(step) % entries.len()];
                let expected = match model.get_mut(&victim) {
                    Some(1) => model.remove(&victim).is_some(),
                    Some(count) => { *count -= 1; true }
                    None => false,
                };
                prop_assert_eq!(maplet.remove(victim), expected);
            }
            prop_assert_eq!(maplet.count(entry), model.get(&entry).copied().unwrap_or(0));
        }
        prop_assert_eq!(maplet.len(), model.values().map(|&count| u64::from(count)).sum::<u64>());
        let bytes = maplet.to_bytes();
        prop_assert_eq!(&bytes, &build(geometry, &model));
        prop_assert_eq!(&read(&geometry, &bytes), &model);
        assert_sound(&geometry, &bytes);
        let strangers = entries.iter().map(|entry| geometry.fingerprint(entry.bits().wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let asked = entries.iter().map(|entry| entry.fingerprint()).chain(strangers);
        check_lookups(&geometry, &bytes, &model, asked);
        let again = QuotientMaplet::from_image(FilterImage::new(&geometry, &bytes).unwrap()).unwrap();
        prop_assert_eq!((again.len(), again.to_bytes()), (maplet.len(), bytes));
    }

    #[test]
    fn resizing_keeps_every_entry(
        ((shape, pages), entries, new_pages) in shapes().prop_flat_map(|(shape, pages)| {
            (Just((shape, pages)), entries(shape.fingerprint_bits, shape.value_bits), 1u32..9)
        })
    ) {
        let (Ok(old), Ok(new)) = (FilterGeometry::with_pages(pages, shape), FilterGeometry::with_pages(new_pages, shape)) else { return Ok(()) };
        let mut maplet = QuotientMaplet::new(old);
        for &entry in &entries {
            maplet.insert(entry).unwrap();
        }
        let resized = maplet.resize(new).unwrap();
        let expected = read(&old, &maplet.to_bytes());
        prop_assert_eq!(resized.to_bytes(), build(new, &expected));
        prop_assert_eq!(resized.resize(old).unwrap().to_bytes(), maplet.to_bytes());
        prop_assert_eq!(maplet.values(Fingerprint::of_number(0, shape.fingerprint_bits)), values(&expected, Fingerprint::of_number(0, shape.fingerprint_bits)));
    }
}

#[test]
fn full_filters_answer_for_every_key_at_every_load() {
    for (fingerprint_bits, value_bits, page_bytes) in [
        (28, 4, 4096),
        (26, 0, 4096),
        (24, 0, 16384),
        (40, 4, 65536),
        (30, 16, 4096),
    ] {
        for load_percent in [50, 90, 95] {
            let shape = FilterShape {
                fingerprint_bits,
                value_bits,
                page_bytes,
                load_percent,
            };
            let geometry = FilterGeometry::for_entries(40_000, shape).unwrap();
            let model = random_entries(&geometry, 40_000, u64::from(load_percent));
            let bytes = build(geometry, &model);
            assert_eq!(read(&geometry, &bytes), model);
            assert_sound(&geometry, &bytes);
            let mut random = fastrand::Rng::with_seed(1);
            let strangers = std::iter::repeat_with(|| geometry.fingerprint(random.u64(..))).take(5000);
            let asked: Vec<_> = model
                .keys()
                .map(|entry| entry.fingerprint())
                .chain(strangers)
                .collect();
            check_lookups(&geometry, &bytes, &model, asked.into_iter());
        }
    }
}

#[test]
fn incremental_and_bulk_filters_are_equal_bit_for_bit_at_95_percent() {
    for (value_bits, page_bytes) in [(4, 4096), (0, 65536)] {
        let shape = FilterShape {
            value_bits,
            page_bytes,
            load_percent: 95,
            ..FilterShape::new(30, value_bits)
        };
        let geometry = FilterGeometry::for_entries(12_000, shape).unwrap();
        let model = random_entries(&geometry, 12_000, 3);
        let mut shuffled: Vec<FilterEntry> = model
            .iter()
            .flat_map(|(&entry, &count)| std::iter::repeat_n(entry, count as usize))
            .collect();
        fastrand::Rng::with_seed(4).shuffle(&mut shuffled);
        let mut maplet = QuotientMaplet::new(geometry);
        for entry in shuffled {
            maplet.insert(entry).unwrap();
        }
        assert_eq!(maplet.to_bytes(), build(geometry, &model));
    }
}

#[test]
fn multiplicities_cost_slots_only_up_to_three() {
    let geometry = FilterGeometry::with_pages(1, FilterShape::new(30, 4)).unwrap();
    let entry = |number| FilterEntry::new(Fingerprint::of_number(number, 30), 1);
    let model = Multiset::from([
        (entry(5), u32::MAX),
        (entry(6), 3),
        (entry(7), 2),
        (entry(1 << 29), 100_000),
    ]);
    let bytes = build(geometry, &model);
    assert_eq!(bytes.len(), 4096, "nothing spilled");
    assert_eq!(read(&geometry, &bytes), model);
    assert_sound(&geometry, &bytes);
    let view = PageView::new(&geometry, &bytes).unwrap();
    assert_eq!(view.count(entry(5).fingerprint()), Some(u64::from(u32::MAX)));
    let mut maplet = QuotientMaplet::from_image(FilterImage::new(&geometry, &bytes).unwrap()).unwrap();
    assert_eq!(
        maplet.insert(entry(5)),
        Err(Error::Count {
            entry: entry(5).bits()
        })
    );
    assert!(maplet.remove(entry(5)));
    assert_eq!(maplet.count(entry(5)), u32::MAX - 1);
}

#[test]
fn what_does_not_fit_its_page_spills_and_comes_back() {
    let shape = FilterShape::new(34, 16);
    let geometry = FilterGeometry::with_pages(4, shape).unwrap();
    let mut random = fastrand::Rng::with_seed(9);
    // Page 2 of four gets 3,000 entries, which is more than its slots can hold, and one fingerprint
    // gets 1,000 values.
    let mut model = Multiset::new();
    for _ in 0..3000 {
        let number = (2 << 32) + random.u64(0..1 << 32);
        model.insert(
            FilterEntry::new(Fingerprint::of_number(number, 34), random.u16(..)),
            random.u32(1..3),
        );
    }
    let crowded = Fingerprint::of_number(77, 34);
    model.extend((0..1000).map(|value| (FilterEntry::new(crowded, value * 60), 1)));
    let bytes = build(geometry, &model);
    let image = FilterImage::new(&geometry, &bytes).unwrap();
    assert!(image.pages() > 4 + 3, "several spill pages: {}", image.pages());
    assert!(image.spilled(2).unwrap().len() > 1500 && image.spilled(0).unwrap().len() == 1000);
    assert_eq!(read(&geometry, &bytes), model);
    assert_sound(&geometry, &bytes);
    check_lookups(
        &geometry,
        &bytes,
        &model,
        model.keys().step_by(7).map(|entry| entry.fingerprint()),
    );
    assert_eq!(
        image.lookup(crowded).unwrap().count(),
        1000,
        "over several spill pages"
    );

    let mut maplet = QuotientMaplet::from_image(image).unwrap();
    assert_eq!(maplet.values(crowded), values(&model, crowded));
    let victims: Vec<_> = model.keys().copied().step_by(2).collect();
    for victim in victims {
        let count = model.remove(&victim).unwrap();
        (0..count).for_each(|_| assert!(maplet.remove(victim)));
        assert!(!maplet.remove(victim));
    }
    assert_eq!(
        maplet.to_bytes(),
        build(geometry, &model),
        "room that came free is used again"
    );
}

#[test]
fn wrong_entries_are_refused() {
    let geometry = FilterGeometry::with_pages(1, FilterShape::new(30, 4)).unwrap();
    let fingerprint = Fingerprint::of_number(9, 30);
    let mut maplet = QuotientMaplet::new(geometry);
    assert_eq!(
        maplet.insert(FilterEntry::new(fingerprint, 16)),
        Err(Error::Value { value: 16, bits: 4 })
    );
    let long = FilterEntry::new(Fingerprint::of_number(3, 32), 1);
    assert_eq!(
        maplet.insert(long),
        Err(Error::FingerprintBits {
            expected: 30,
            found: 32
        })
    );
    assert!(maplet.is_empty());
    assert!(matches!(
        maplet.resize(FilterGeometry::with_pages(1, FilterShape::new(31, 4)).unwrap()),
        Err(Error::FingerprintBits { .. })
    ));

    let mut builder = alluvium_filters::FilterBuilder::new(geometry, |_: &[u8]| Ok::<(), Error>(()));
    builder.push(FilterEntry::new(fingerprint, 1), 1).unwrap();
    builder.push(FilterEntry::new(fingerprint, 1), 0).unwrap();
    let newer = FilterEntry::new(fingerprint, 2);
    let order = Error::Order {
        entry: newer.bits(),
        last: FilterEntry::new(fingerprint, 1).bits(),
    };
    assert_eq!(builder.push(newer, 1), Err(order));
    builder.push(FilterEntry::new(fingerprint, 0), 1).unwrap();
    assert_eq!(builder.finish().unwrap().entries, 2);
}

use crate::quotient::geometry::*;
use crate::{Error, Fingerprint, Result};
use proptest::prelude::*;

fn shapes() -> impl Strategy<Value = (FilterShape, u32)> {
    (8u32..=48, 0u32..=16, 12u32..=16, 1u32..=5000).prop_map(|(fingerprint_bits, value_bits, log, pages)| {
        let shape = FilterShape {
            fingerprint_bits,
            value_bits,
            page_bytes: 1 << log,
            load_percent: 90,
        };
        (shape, pages)
    })
}

proptest! {
    #[test]
    fn every_fingerprint_comes_back_from_its_place((shape, pages) in shapes(), hashes: [u64; 16]) {
        let Ok(geometry) = FilterGeometry::with_pages(pages, shape) else { return Ok(()) };
        for hash in hashes.into_iter().chain([0, 1, u64::MAX, u64::MAX - 1]) {
            let fingerprint = geometry.fingerprint(hash);
            let (page, place) = (geometry.page_of(fingerprint), geometry.place(fingerprint));
            prop_assert!(page < geometry.pages && place.block < geometry.blocks);
            prop_assert!(place.quotient < BLOCK_QUOTIENTS && place.remainder < 1 << geometry.remainder_bits);
            let base = geometry.block_base(page, place.block);
            prop_assert_eq!(geometry.fingerprint_at(base, place.quotient, place.remainder), fingerprint);
        }
    }

    #[test]
    fn places_are_in_the_order_of_fingerprints((shape, pages) in shapes(), a: u64, near in 0u64..1 << 40) {
        let Ok(geometry) = FilterGeometry::with_pages(pages, shape) else { return Ok(()) };
        let key = |hash| {
            let fingerprint = geometry.fingerprint(hash);
            (fingerprint, (geometry.page_of(fingerprint), geometry.place(fingerprint)))
        };
        let (one, two) = (key(a), key(a.wrapping_add(near)));
        prop_assert_eq!(one.0.cmp(&two.0), one.1.cmp(&two.1));
    }

    #[test]
    fn a_geometry_for_any_number_of_entries_holds_them_and_is_read_back((shape, _) in shapes(), entries: u64, shift in 33u32..64) {
        let entries = entries >> shift;
        let Ok(geometry) = FilterGeometry::for_entries(entries, shape) else { return Ok(()) };
        prop_assert!(entries * 100 <= geometry.quotients() * u64::from(shape.load_percent));
        prop_assert!(geometry.quotients() <= MAX_QUOTIENTS);
        let mut bytes = Vec::new();
        geometry.encode(&mut bytes);
        prop_assert_eq!(FilterGeometry::decode(&bytes).unwrap(), geometry);
    }

    #[test]
    fn the_last_slot_can_be_loaded_whole((shape, pages) in shapes()) {
        let Ok(geometry) = FilterGeometry::with_pages(pages, shape) else { return Ok(()) };
        let last = (geometry.slots_bit + (geometry.capacity - 1) * geometry.slot_bits) / 8;
        prop_assert!(last + 8 <= geometry.page_bytes);
        prop_assert!(geometry.capacity >= geometry.blocks * BLOCK_QUOTIENTS);
        prop_assert!(geometry.lanes >= 1 && geometry.lanes < 3 + geometry.count_slots());
    }
}

#[test]
fn a_small_fingerprint_space_is_inverted_exhaustively() {
    for (pages, bits) in [(1, 16), (3, 16), (7, 18), (1, 8)] {
        let geometry = FilterGeometry::with_pages(pages, FilterShape::new(bits, 3)).unwrap();
        for number in 0..1u64 << bits {
            let fingerprint = Fingerprint::of_number(number, bits);
            let place = geometry.place(fingerprint);
            let base = geometry.block_base(geometry.page_of(fingerprint), place.block);
            assert_eq!(
                geometry.fingerprint_at(base, place.quotient, place.remainder),
                fingerprint
            );
        }
    }
}

#[test]
fn remainders_have_twelve_bits_when_quotients_fill_the_rest() {
    let quotients_per_page = 46 * 48;
    let pages = (1u32 << 20).div_ceil(quotients_per_page);
    let geometry = FilterGeometry::with_pages(pages, FilterShape::new(32, 0)).unwrap();
    assert_eq!((geometry.remainder_bits, geometry.blocks), (12, 46));
    assert!(
        geometry.quotients() >= 1 << 20 && geometry.quotients() < (1 << 20) + u64::from(quotients_per_page)
    );
}

#[test]
fn impossible_shapes_are_refused_with_advice() {
    let shape = FilterShape::new(40, 4);
    let refused = |result: Result<FilterGeometry>| matches!(result, Err(Error::Shape { .. }));
    assert!(refused(FilterGeometry::with_pages(
        1,
        FilterShape {
            fingerprint_bits: 7,
            ..shape
        }
    )));
    assert!(refused(FilterGeometry::with_pages(
        1,
        FilterShape {
            fingerprint_bits: 49,
            ..shape
        }
    )));
    assert!(refused(FilterGeometry::with_pages(
        1,
        FilterShape {
            value_bits: 17,
            ..shape
        }
    )));
    assert!(refused(FilterGeometry::with_pages(
        1,
        FilterShape {
            page_bytes: 5000,
            ..shape
        }
    )));
    assert!(refused(FilterGeometry::with_pages(
        1,
        FilterShape {
            page_bytes: 2048,
            ..shape
        }
    )));
    assert!(refused(FilterGeometry::with_pages(u32::MAX, shape)));
    assert!(refused(FilterGeometry::for_entries(
        100,
        FilterShape {
            load_percent: 96,
            ..shape
        }
    )));
    assert!(refused(FilterGeometry::for_entries(u64::MAX, shape)));
    assert!(FilterGeometry::for_entries(0, shape).is_ok());
}

#[test]
fn one_entry_more_than_the_pages_hold_takes_another_page() {
    let shape = FilterShape {
        load_percent: 90,
        page_bytes: 4096,
        ..FilterShape::new(36, 14)
    };
    for pages in 1..20_000 {
        let full = FilterGeometry::with_pages(pages, shape).unwrap().quotients() * 90 / 100;
        for entries in [full, full + 1] {
            let geometry = FilterGeometry::for_entries(entries, shape).unwrap();
            assert!(
                entries * 100 <= geometry.quotients() * 90,
                "{entries} in {pages} pages"
            );
        }
    }
}

#[test]
fn a_geometry_is_as_large_as_its_load_asks() {
    for entries in [100_000u64, 270_000, 1_000_000, 3_333_333] {
        for load_percent in [50, 75, 90, 95] {
            let geometry = FilterGeometry::for_entries(
                entries,
                FilterShape {
                    load_percent,
                    ..FilterShape::new(40, 4)
                },
            )
            .unwrap();
            let load = entries as f64 / geometry.quotients() as f64 * 100.0;
            assert!(
                load <= f64::from(load_percent) && load > f64::from(load_percent) * 0.97,
                "{load} {load_percent}"
            );
        }
    }
}

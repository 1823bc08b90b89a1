//! Tests that compare false-positive rates with theory.

use crate::support::{Multiset, build};
use alluvium_filters::{FilterEntry, FilterGeometry, FilterImage, FilterShape};

/// Returns a geometry whose remainders have (almost) exactly `remainder_bits` bits of freedom,
/// because the number of pages makes the number of quotients a power of two.
fn exact(quotient_bits: u32, remainder_bits: u32, page_bytes: u32) -> FilterGeometry {
    let shape = FilterShape {
        page_bytes,
        ..FilterShape::new(quotient_bits + remainder_bits, 0)
    };
    let pages = (1..)
        .find(|&pages| FilterGeometry::with_pages(pages, shape).unwrap().quotients() >= 1 << quotient_bits);
    FilterGeometry::with_pages(pages.unwrap(), shape).unwrap()
}

#[test]
fn false_positives_are_as_rare_as_theory_says() {
    for (remainder_bits, page_bytes) in [(12, 4096), (8, 4096), (8, 65536)] {
        let geometry = exact(17, remainder_bits, page_bytes);
        assert_eq!(geometry.remainder_bits(), remainder_bits);
        for load in [0.5, 0.9, 0.95] {
            let mut random = fastrand::Rng::with_seed(11);
            let keys = (geometry.quotients() as f64 * load) as u64;
            let model: Multiset = (0..keys)
                .map(|_| (FilterEntry::new(geometry.fingerprint(random.u64(..)), 0), 1))
                .collect();
            let bytes = build(geometry, &model);
            let image = FilterImage::new(&geometry, &bytes).unwrap();
            let strangers = 1_000_000u32;
            let wrong = (0..strangers)
                .filter(|_| image.contains(geometry.fingerprint(random.u64(..))).unwrap())
                .count();
            let found = wrong as f64 / f64::from(strangers);
            let theory = load * f64::from(-(remainder_bits as i32)).exp2();
            assert!(
                found <= theory * 1.2,
                "{remainder_bits} bits at {load}: {found:e}, theory {theory:e}"
            );
            assert!(
                found >= theory * 0.7,
                "{remainder_bits} bits at {load}: {found:e}, theory {theory:e}"
            );
        }
    }
}

#[test]
fn lookups_touch_one_page_in_99_of_100() {
    for (value_bits, page_bytes) in [(4, 4096), (0, 4096), (0, 65536)] {
        let shape = FilterShape {
            value_bits,
            page_bytes,
            load_percent: 95,
            ..FilterShape::new(34, value_bits)
        };
        let geometry = FilterGeometry::for_entries(100_000, shape).unwrap();
        let mut random = fastrand::Rng::with_seed(2);
        let values = 1u32 << value_bits;
        let model: Multiset = (0..100_000)
            .map(|_| {
                (
                    FilterEntry::new(geometry.fingerprint(random.u64(..)), random.u32(..values) as u16),
                    1,
                )
            })
            .collect();
        let bytes = build(geometry, &model);
        let image = FilterImage::new(&geometry, &bytes).unwrap();
        let spilled: usize = (0..geometry.pages())
            .map(|page| image.spilled(page).unwrap().len())
            .sum();
        assert!(
            spilled * 200 < model.len(),
            "{spilled} of {} entries spilled",
            model.len()
        );
    }
}

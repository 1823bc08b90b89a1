//! Tests that arbitrary bytes never cause a panic, and that damage is reported.

use crate::support::{build, random_entries};
use alluvium_filters::{
    EntryChunk, FilterGeometry, FilterImage, FilterShape, PageView, QuotientMaplet, SpillView, lookup_many,
};

/// Calls every function that reads a page.
fn read_everything(geometry: &FilterGeometry, bytes: &[u8], random: &mut fastrand::Rng) {
    let Ok(image) = FilterImage::new(geometry, bytes) else {
        return;
    };
    let portable = geometry.portable();
    let slow = FilterImage::new(&portable, bytes).unwrap();
    for _ in 0..40 {
        let fingerprint = geometry.fingerprint(random.u64(..));
        let view = image.view(fingerprint).unwrap();
        view.prefetch(fingerprint);
        let found = image
            .lookup(fingerprint)
            .map(|values| values.take(100_000).collect::<Vec<_>>());
        let slowly = slow
            .lookup(fingerprint)
            .map(|values| values.take(100_000).collect::<Vec<_>>());
        assert_eq!(found, slowly, "both kernels read bad bytes alike");
        let _ = (
            image.contains(fingerprint),
            view.contains(fingerprint),
            view.count(fingerprint),
        );
        let mut answers = 0;
        lookup_many(&[(view, fingerprint); 3], |_, _| answers += 1);
        assert_eq!(answers, 3);
    }
    for number in 0..image.pages() {
        let page = image.page(number).unwrap();
        let _ = PageView::new(geometry, page).unwrap().check(number);
        let _ = image.read_page(number, &mut EntryChunk::new());
        if let Ok(spill) = SpillView::new(geometry, page, number) {
            let _ = spill.lookup(geometry.fingerprint(0), (0, u32::MAX)).count();
            let _ = spill.records((0, u32::MAX)).count();
        }
    }
    let _ = (
        image.check(),
        QuotientMaplet::from_image(image).map(|maplet| maplet.len()),
    );
}

fn geometries() -> impl Iterator<Item = FilterGeometry> {
    [(12, 0, 1), (30, 4, 2), (48, 16, 3), (20, 16, 1), (40, 0, 2)]
        .into_iter()
        .filter_map(|(bits, value_bits, pages)| {
            FilterGeometry::with_pages(pages, FilterShape::new(bits, value_bits)).ok()
        })
}

#[test]
fn random_pages_make_nothing_panic() {
    let mut random = fastrand::Rng::with_seed(21);
    for geometry in geometries() {
        for round in 0..12 {
            let len = geometry.bytes() as usize + 4096;
            let mut bytes: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
            if round % 2 == 0 {
                // With a valid header, the rest of the page is read, too.
                let sound = build(geometry, &Default::default());
                for page in 0..geometry.pages() as usize {
                    bytes[page * 4096..][..32].copy_from_slice(&sound[page * 4096..][..32]);
                }
            }
            read_everything(&geometry, &bytes, &mut random);
        }
    }
}

#[test]
fn flipped_bits_make_nothing_panic_and_are_reported() {
    let mut random = fastrand::Rng::with_seed(22);
    for geometry in geometries() {
        let model = random_entries(&geometry, geometry.quotients().min(3000) * 11 / 10, 5);
        let sound = build(geometry, &model);
        assert!(FilterImage::new(&geometry, &sound).unwrap().check().is_empty());
        for round in 0..120 {
            let mut bytes = sound.clone();
            let at = random.usize(..bytes.len());
            bytes[at] ^= 1 << random.u8(0..8);
            let violations = FilterImage::new(&geometry, &bytes).unwrap().check();
            // A flipped bit may turn one entry into another valid one. All other damage must be
            // detected.
            if violations.is_empty() {
                assert_ne!(
                    crate::support::read(&geometry, &bytes),
                    model,
                    "byte {at} was changed unnoticed"
                );
            }
            if round % 4 == 0 {
                read_everything(&geometry, &bytes, &mut random);
            }
        }
    }
}

#[test]
fn remainders_that_no_fingerprint_has_are_reported() {
    let geometry = FilterGeometry::with_pages(2, FilterShape::new(30, 4)).unwrap();
    let mut bytes = build(geometry, &random_entries(&geometry, 500, 1));
    // Set all bits in the last slots of the first page, so that remainders are out of order or
    // exceed those of every fingerprint.
    let slots_at = 32 + (geometry.quotients() / 2 / 48) as usize * 16;
    let last = (0..4096).rev().find(|&at| bytes[at] != 0).unwrap();
    assert!(last > slots_at);
    bytes[last - 20..=last].fill(0xff);
    let image = FilterImage::new(&geometry, &bytes).unwrap();
    assert!(!image.check().is_empty());
    let _ = QuotientMaplet::from_image(image).map(|maplet| maplet.to_bytes());
}

#[test]
fn pages_of_the_wrong_length_number_or_geometry_are_refused() {
    let geometry = FilterGeometry::with_pages(2, FilterShape::new(30, 4)).unwrap();
    let bytes = build(geometry, &random_entries(&geometry, 500, 1));
    let text = PageView::new(&geometry, &bytes[..4000]).unwrap_err().to_string();
    assert!(
        text.contains("length should be 4096 bytes, found 4000 bytes"),
        "{text}"
    );
    assert!(
        FilterImage::new(&geometry, &bytes[1..]).is_err()
            && FilterImage::new(&geometry, &bytes[..4096]).is_err()
    );
    let view = PageView::new(&geometry, &bytes[4096..8192]).unwrap();
    view.verify(1).unwrap();
    assert!(
        view.verify(0)
            .unwrap_err()
            .to_string()
            .contains("kind and number")
    );
    assert!(SpillView::new(&geometry, &bytes[4096..8192], 1).is_err());
    let other = FilterGeometry::with_pages(3, FilterShape::new(30, 4)).unwrap();
    let error = PageView::new(&other, &bytes[4096..8192])
        .unwrap()
        .verify(1)
        .unwrap_err();
    assert!(error.to_string().contains("digest of the geometry"), "{error}");
}

#[test]
fn no_bytes_make_decoding_a_geometry_panic() {
    let mut random = fastrand::Rng::with_seed(23);
    let mut sound = Vec::new();
    FilterGeometry::with_pages(9, FilterShape::new(36, 5))
        .unwrap()
        .encode(&mut sound);
    for _ in 0..20_000 {
        let mut bytes = sound.clone();
        for _ in 0..random.usize(1..3) {
            let at = random.usize(..bytes.len());
            bytes[at] = random.u8(..);
        }
        if let Ok(geometry) = FilterGeometry::decode(&bytes) {
            let mut again = Vec::new();
            geometry.encode(&mut again);
            assert_eq!(again, bytes);
        }
    }
    (0..sound.len()).for_each(|len| assert!(FilterGeometry::decode(&sound[..len]).is_err()));
}

//! Pages of quotient filters and maplets: `FilterGeometry::decode`, `FilterImage`, `PageView`,
//! `QuotientMaplet::from_image`.
//!
//! Strategy: the input selects a geometry, entries to insert into a valid filter, and bytes of that
//! filter to overwrite. (The whole input is also decoded as a raw geometry.) Invariants: no panic,
//! no endless loop, no memory beyond what the pages justify; in an undamaged filter every entry is
//! found and the check reports nothing; a filter that passes its check becomes a maplet with
//! exactly the same bytes.
#![no_main]

use alluvium_filters::quotient::{EntryChunk, FilterImage};
use alluvium_filters::{FilterEntry, FilterGeometry, FilterShape, QuotientMaplet, hash, lookup_many};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(geometry) = FilterGeometry::decode(input) {
        let mut again = Vec::new();
        geometry.encode(&mut again);
        assert_eq!(FilterGeometry::decode(&again).ok(), Some(geometry));
    }
    let Some(([bits, value_bits, pages, keys, damages], rest)) = input.split_first_chunk() else {
        return;
    };
    let shape = FilterShape::new(8 + u32::from(bits % 41), u32::from(value_bits % 17));
    let Ok(geometry) = FilterGeometry::with_pages(1 + u32::from(pages % 3), shape) else {
        return;
    };
    let mut maplet = QuotientMaplet::new(geometry);
    let mut entries = Vec::new();
    for (number, key) in rest.chunks_exact(2).take(usize::from(*keys)).enumerate() {
        let value = if geometry.value_bits() == 0 {
            0
        } else {
            number as u16 & 1
        };
        let entry = FilterEntry::new(geometry.fingerprint(hash(0, key)), value);
        if maplet.insert(entry).is_ok() {
            entries.push(entry);
        }
    }
    let mut bytes = maplet.to_bytes();
    let image = FilterImage::new(&geometry, &bytes).expect("just written");
    assert!(image.check().is_empty(), "{:?}", image.check());
    for entry in &entries {
        assert!(image.contains(entry.fingerprint()).expect("sound"));
    }
    for damage in rest.rchunks_exact(3).take(usize::from(*damages)) {
        let at = usize::from(u16::from_le_bytes([damage[0], damage[1]])) % bytes.len();
        bytes[at] = damage[2];
    }
    read(&geometry, &bytes, &entries);
});

/// Reads everything from a filter with arbitrary bytes.
fn read(geometry: &FilterGeometry, bytes: &[u8], entries: &[FilterEntry]) {
    let Ok(image) = FilterImage::new(geometry, bytes) else {
        return;
    };
    let mut probes = Vec::new();
    for entry in entries {
        let fingerprint = entry.fingerprint();
        let _ = image.contains(fingerprint);
        if let Ok(values) = image.lookup(fingerprint) {
            assert!(
                values.count() <= bytes.len() * 8,
                "a page's worth of values at most"
            );
        }
        if let Ok(view) = image.view(fingerprint) {
            let _ = (view.count(fingerprint), view.spilled());
            probes.push((view, fingerprint));
        }
    }
    lookup_many(&probes, |_, found| {
        let _ = found.presence();
    });
    let mut chunk = EntryChunk::new();
    for number in 0..image.pages() {
        let _ = (image.spilled(number), image.read_page(number, &mut chunk));
    }
    let sound = image.check().is_empty();
    let maplet = QuotientMaplet::from_image(image);
    if sound {
        assert!(maplet.expect("a sound filter").to_bytes() == bytes);
    }
}

//! Pages of bloom filters: `BloomView` and its check.
//!
//! Strategy: the input is keys that are put into a page, then bytes of it that are overwritten.
//! Invariants: no panic; in an undamaged page every key is found and the check has nothing to say;
//! a page with a damaged header does not pass its check.
#![no_main]

use alluvium_filters::{BloomGeometry, BloomPage, BloomView, hash};
use libfuzzer_sys::fuzz_target;

const PAGE: usize = 4096;

fuzz_target!(|input: &[u8]| {
    let Some(([keys, damages], rest)) = input.split_first_chunk() else {
        return;
    };
    let geometry = BloomGeometry::with_pages(1, PAGE as u32).expect("one page");
    let mut page = vec![0; PAGE];
    let mut filled = BloomPage::create(&geometry, &mut page, 0).expect("a page of its size");
    let keys = || {
        rest.chunks_exact(2)
            .take(usize::from(*keys))
            .map(|key| hash(0, key))
    };
    keys().for_each(|key| filled.insert(key));
    let view = BloomView::new(&geometry, &page).expect("a page of its size");
    assert!(keys().all(|key| view.contains(key)));
    assert!(view.check(0).is_empty(), "{:?}", view.check(0));
    assert!(!view.check(1).is_empty(), "another page's number");

    let mut damaged = page.clone();
    for damage in rest.rchunks_exact(3).take(usize::from(*damages)) {
        let at = usize::from(u16::from_le_bytes([damage[0], damage[1]])) % PAGE;
        damaged[at] = damage[2];
    }
    let view = BloomView::new(&geometry, &damaged).expect("a page of its size");
    keys().for_each(|key| drop(view.contains(key)));
    assert!(
        damaged[..20] == page[..20] || !view.check(0).is_empty(),
        "a damaged header passed"
    );
    let cut = &damaged[..usize::from(*damages)];
    assert!(BloomView::new(&geometry, cut).is_err());
});

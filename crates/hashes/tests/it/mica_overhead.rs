//! Tests of the memory overhead per item, besides its key and value.

use alluvium_hashes::mica::mode::Erew;
use alluvium_hashes::mica::{
    CacheEviction, ExclusiveTable, HashedKey, LosslessOptions, LosslessTable, LossyOptions, LossyTable, NEVER,
};

const ITEMS: usize = 100_000;

/// Sets keys of 8 bytes to values of 8 bytes. Returns the number of keys that are present.
macro_rules! fill {
    ($table:expr) => {{
        let table = &mut $table;
        for key in 0..ITEMS as u64 {
            let bytes = key.to_le_bytes();
            table.set(HashedKey::new(0, &bytes), &bytes, NEVER, 0).unwrap();
        }
        let keys = (0..ITEMS as u64).map(u64::to_le_bytes);
        keys.filter(|key| table.get(HashedKey::new(0, key), 0).is_some())
            .count()
    }};
}

#[test]
fn an_item_of_a_cache_costs_at_most_16_bytes_more_than_key_and_value() {
    let options = LossyOptions {
        longest_item_bytes: 1024,
        eviction: CacheEviction::Fifo,
        ..LossyOptions::new(ITEMS * 20, 16)
    };
    let mut table = ExclusiveTable::new(LossyTable::<Erew>::new(&options).unwrap());
    let found = fill!(table);
    let overhead = table.table().memory_bytes() as f64 / found as f64 - 16.0;
    assert!(found > ITEMS * 95 / 100, "{found} of {ITEMS}");
    assert!((14.0..=16.0).contains(&overhead), "{overhead} bytes an item");
}

#[test]
fn an_item_of_a_store_costs_at_most_22_bytes_more_and_none_is_lost() {
    let options = LosslessOptions::new(ITEMS, 16);
    let mut table = ExclusiveTable::new(LosslessTable::<Erew>::new(&options).unwrap());
    assert_eq!(fill!(table), ITEMS);
    let overhead = table.table().memory_bytes() as f64 / ITEMS as f64 - 16.0;
    assert!((18.0..=22.0).contains(&overhead), "{overhead} bytes an item");
}

//! Tests runs whose leaves and separate values are on different storage tiers.

use super::*;
use alluvium_storage::TierDirectories;

fn store_on_two_tiers() -> Store {
    let directories =
        TierDirectories::from(Arc::new(MemoryDirectory::new())).and(Arc::new(MemoryDirectory::new()));
    let options = StoreOptions {
        cache_bytes: 4 << 20,
        log: LogOptions::with_limit(1 << 20),
        ..StoreOptions::default()
    };
    Store::create(directories, &options, b"").unwrap()
}

/// Returns `count` records. Every third record has a separate value.
fn mixed(count: u32) -> Model {
    let records = (0..count).map(|number| {
        let key = format!("user{number:012}").into_bytes();
        let len = if number % 3 == 0 { 3000 } else { 40 };
        (
            (key, Reverse(u64::from(number) + 1)),
            put(vec![number as u8; len]),
        )
    });
    records.collect()
}

#[test]
fn leaves_and_values_lie_on_the_tiers_that_the_options_name() {
    for (count, tier, value_tier) in [3, 4000]
        .into_iter()
        .flat_map(|count| [(0, 1), (1, 0), (1, 1)].map(|(tier, values)| (count, tier, values)))
    {
        let store = store_on_two_tiers();
        let model = mixed(count);
        let options = RunOptions {
            tier,
            value_tier,
            ..options()
        };
        let run = run_of(&store, &options, &model);
        let mut on = [0_u64; 2];
        for used in run.extents() {
            on[usize::from(used.extent.tier)] += used.live;
        }
        let values: u64 = model.values().map(|owned| owned.value.len() as u64).sum();
        assert!(on[usize::from(value_tier)] > values / 2, "{on:?}");
        if tier == value_tier {
            assert_eq!(on[1 - usize::from(tier)], 0);
        } else {
            assert!(on[usize::from(tier)] > 0, "{on:?}");
        }
        assert_eq!(run.pointer().tier, tier);
        let said = format!("{count} records on {tier}, values on {value_tier}");
        let opened = IndexedRun::open(&store, run.pointer(), Purpose::Other).unwrap();
        assert_eq!(opened.extents(), run.extents(), "{said}");
        assert_eq!(opened.check(&store), [], "{said}");
        for direction in BOTH {
            for access in WAYS {
                let range = KeyRange::everything();
                let mut cursor = opened.cursor(&store, range.clone(), direction, access);
                cursor.start().unwrap();
                let found = drain(&store, &mut cursor).unwrap();
                assert!(found == expected(&model, &range, direction), "{said}");
            }
        }
    }
}

#[test]
fn a_run_moves_to_another_tier_and_its_values_stay_by_pointer() {
    let store = store_on_two_tiers();
    let model = mixed(2000);
    let first = run_of(&store, &options(), &model);
    let to_second = RunOptions {
        tier: 1,
        value_tier: 1,
        ..options()
    };
    let mut builder = RunBuilder::new(&store, &to_second).unwrap();
    builder.inherit_from(&first, &KeyRange::everything());
    let mut cursor = first.cursor(
        &store,
        KeyRange::everything(),
        MergeDirection::Forward,
        CursorAccess::Streaming,
    );
    cursor.start().unwrap();
    while let Some(key) = cursor.key() {
        builder.push(key, cursor.record()).unwrap();
        cursor.advance().unwrap();
    }
    drop(cursor);
    let built = builder.finish().unwrap().unwrap();
    store.extents().install(&built.extents);
    assert!(built.extents.iter().all(|(extent, _)| extent.tier == 1));
    let inherited = built.run.extents().iter().filter(|used| used.inherited);
    assert!(inherited.clone().count() > 0 && inherited.clone().all(|used| used.extent.tier == 0));
    assert_eq!(built.run.check(&store), []);
    let found = find(&store, &built.run, b"user000000000003", u64::MAX).unwrap();
    assert_eq!(found[0].1.value, vec![3; 3000]);
}

#[test]
fn a_tier_that_the_store_does_not_have_is_refused_before_the_first_record() {
    let store = store_on_two_tiers();
    for (tier, value_tier) in [(2, 0), (0, 2)] {
        let options = RunOptions {
            tier,
            value_tier,
            ..options()
        };
        let said = RunBuilder::new(&store, &options).unwrap_err().to_string();
        assert!(said.contains("tiers 0 to 1"), "{said}");
    }
    assert_eq!(store.usage().0.total().provisional_bytes, 0);
}

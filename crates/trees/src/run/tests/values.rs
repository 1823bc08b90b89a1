//! Tests separate values.

use super::*;

/// Returns records with several long values, some of them several MiB, among records with short
/// values.
fn long_values() -> Model {
    let mut random = fastrand::Rng::with_seed(8);
    let lengths = [
        0,
        1024,
        1025,
        5000,
        65536,
        65537,
        300_000,
        5 << 20,
        (5 << 20) + 1,
        2000,
    ];
    let mut model = Model::new();
    for (number, len) in lengths.into_iter().enumerate() {
        let mut value = vec![0; len];
        random.fill(&mut value);
        model.insert((format!("key{number}").into_bytes(), Reverse(9)), put(value));
    }
    model
}

#[test]
fn values_of_any_length_are_read_back() {
    for codec in [NodeCodec::None, NodeCodec::Lz4] {
        let store = store_with(4096, 32 << 20);
        let model = long_values();
        let run = run_of(&store, &RunOptions { codec, ..options() }, &model);
        assert_eq!(run.summary().separate, 8);
        compare(
            &store,
            &run,
            &model,
            &mut fastrand::Rng::with_seed(1),
            "long values",
        );
    }
}

#[test]
fn a_value_of_many_levels_is_read_back() {
    // With 4 KiB pages, a pointer node has 2048 pointers, so a value of 129 MiB needs two levels of
    // them.
    let store = store_with(4096, 8 << 20);
    let mut value: Vec<u8> = (0..129u32 << 20).map(|at| (at >> 12) as u8).collect();
    value.push(1);
    let model = Model::from([((b"huge".to_vec(), Reverse(1)), put(value))]);
    let run = run_of(&store, &options(), &model);
    let found = find(&store, &run, b"huge", 1).unwrap();
    assert!(found.len() == 1 && found[0].1 == model[&(b"huge".to_vec(), Reverse(1))]);
    assert_eq!(run.check(&store), []);
}

/// Copies every record of a run for which `keep` is true to a new run. Separate values are not
/// copied: the new records point to them.
fn passed_on(store: &Store, run: &IndexedRun, keep: impl Fn(&[u8]) -> bool) -> IndexedRun {
    let mut builder = RunBuilder::new(store, &options()).unwrap();
    builder.inherit_from(run, &KeyRange::everything());
    let mut cursor = run.cursor(
        store,
        KeyRange::everything(),
        MergeDirection::Forward,
        CursorAccess::Streaming,
    );
    cursor.start().unwrap();
    while let Some(key) = cursor.key() {
        if keep(key) {
            builder.push(key, cursor.record()).unwrap();
        }
        cursor.advance().unwrap();
    }
    let built = builder.finish().unwrap().unwrap();
    store.extents().install(&built.extents);
    for used in built.run.extents().iter().filter(|used| used.inherited) {
        store.extents().retain(used.extent);
    }
    built.run
}

#[test]
fn values_are_passed_on_only_from_extents_that_the_range_needs() {
    let store = store_with(4096, 32 << 20);
    let first = run_of(&store, &options(), &long_values());
    let range = KeyRange::new(b"", Some(b"key6"));
    let needed: Vec<Extent> = first.extents_for(&range).map(|(_, used)| used.extent).collect();
    assert!(needed.len() < first.extents().len(), "{:?}", first.extents());
    for (key, is_within) in [(b"key5", true), (b"key8", false)] {
        let mut builder = RunBuilder::new(&store, &options()).unwrap();
        builder.inherit_from(&first, &range);
        let only = KeyRange::new(key, None);
        let mut cursor = first.cursor(&store, only, MergeDirection::Forward, CursorAccess::Streaming);
        cursor.start().unwrap();
        builder.push(key, cursor.record()).unwrap();
        match builder.finish() {
            Ok(built) => {
                assert!(is_within);
                let built = built.unwrap();
                let mut inherited = built.run.extents().iter().filter(|used| used.inherited);
                assert!(inherited.all(|used| needed.contains(&used.extent)));
                built.abandon(&store);
            }
            Err(error) => assert!(!is_within && error.to_string().contains("inherited"), "{error}"),
        }
    }
}

#[test]
fn values_are_passed_on_by_pointer_and_outlive_the_run_that_wrote_them() {
    for codec in [NodeCodec::None, NodeCodec::Lz4] {
        let store = store_with(4096, 32 << 20);
        let mut model = long_values();
        let first = run_of(&store, &RunOptions { codec, ..options() }, &model);
        let second = passed_on(&store, &first, |key| key != b"key7" && key != b"key3");
        model.remove(&(b"key7".to_vec(), Reverse(9)));
        model.remove(&(b"key3".to_vec(), Reverse(9)));
        let epoch = store.epochs().current();
        for used in first.extents() {
            store.extents().release(used.extent, epoch);
        }
        let second = IndexedRun::open(&store, second.pointer(), Purpose::Other).unwrap();
        compare(
            &store,
            &second,
            &model,
            &mut fastrand::Rng::with_seed(1),
            "passed on",
        );
        let third = passed_on(&store, &second, |key| key > &b"key4"[..]);
        model.retain(|(key, _), _| key > &b"key4".to_vec());
        compare(
            &store,
            &third,
            &model,
            &mut fastrand::Rng::with_seed(1),
            "passed on twice",
        );
        let live = |run: &IndexedRun| -> u64 {
            let inherited = run.extents().iter().filter(|used| used.inherited);
            inherited.map(|used| used.live).sum()
        };
        assert!(live(&third) <= live(&second));
        assert!(live(&third) >= if codec == NodeCodec::None { 5 << 20 } else { 1 });
    }
}

#[test]
fn a_pointer_to_nowhere_is_refused() {
    let store = store();
    let model = long_values();
    let run = run_of(&store, &options(), &model);
    let mut builder = RunBuilder::new(&store, &options()).unwrap();
    let mut cursor = run.cursor(
        &store,
        KeyRange::everything(),
        MergeDirection::Forward,
        CursorAccess::Cached,
    );
    cursor.seek(b"key3").unwrap();
    builder.push(b"key3", cursor.record()).unwrap();
    assert!(matches!(builder.finish(), Err(Error::Corrupt { .. })));
    assert_eq!(store.extents().usage().total().provisional_bytes, 0);
}

#[test]
fn small_separate_values_share_nodes() {
    let store = store();
    let mut model = Model::new();
    for number in 0..2000u32 {
        model.insert(
            (format!("{number:06}").into_bytes(), Reverse(1)),
            put(vec![number as u8; 2100]),
        );
    }
    let run = run_of(&store, &options(), &model);
    let summary = run.summary();
    assert_eq!(summary.separate, 2000);
    let per_byte = summary.bytes as f64 / (summary.value_bytes + 6 * 2000) as f64;
    assert!(per_byte < 1.2, "{per_byte} bytes a byte");
}

#[test]
fn few_long_values_among_many_short_ones_share_nodes_too() {
    for every in [10, 100, 1000] {
        let mut random = fastrand::Rng::with_seed(every);
        let store = store_with(4096, 32 << 20);
        let mut model = Model::new();
        for number in 0..30_000u32 {
            let long = u64::from(number) % every == 0;
            let value = vec![number as u8; if long { 2000 } else { 100 }];
            model.insert((random.u128(..).to_be_bytes().to_vec(), Reverse(1)), put(value));
        }
        let built = build(&store, &options(), &model);
        let live: u64 = built.extents.iter().map(|(extent, _)| extent.bytes()).sum();
        let user = model
            .values()
            .map(|record| 16 + record.value.len() as u64)
            .sum::<u64>();
        let per_byte = live as f64 / user as f64;
        assert!(per_byte < 1.15, "one in {every}: {per_byte} bytes a byte");
        assert_eq!(built.run.check(&store), []);
        built.abandon(&store);
    }
}

//! Tests the extents of runs: which keys need them, how they are released, and what happens if the
//! disk is full.

use super::*;
use alluvium_dictionary::record::RecordValue;
use alluvium_storage::extents::UNIT;

/// Returns records with ascending keys and 100-byte values, a few MiB in total.
fn sequential(count: u32) -> Model {
    let mut model = Model::new();
    for number in 0..count {
        let key = format!("user{number:012}").into_bytes();
        model.insert((key, Reverse(u64::from(number) + 1)), put([number as u8; 100]));
    }
    model
}

#[test]
fn a_range_reads_only_extents_that_it_needs() {
    let model = sequential(40_000);
    let store = store_with(4096, 32 << 20);
    let run = run_of(&store, &options(), &model);
    let uses = run.extents();
    assert!(uses.len() > 3, "{uses:?}");
    let mut random = fastrand::Rng::with_seed(3);
    for round in 0..30 {
        let keys = [(); 2].map(|()| format!("user{:012}", random.u32(..41_000)).into_bytes());
        let range = KeyRange::new(&keys[0], Some(&keys[1]));
        let needed = |used: &ExtentUse| range.overlaps(&used.low, &used.high);
        for used in uses.iter().filter(|used| !needed(used)) {
            overwrite(&store, used);
        }
        store.cache().set_budget(2 << 20).unwrap();
        for direction in BOTH {
            for access in WAYS {
                let mut cursor = run.cursor(&store, range.clone(), direction, access);
                cursor.start().unwrap();
                let found = drain(&store, &mut cursor).unwrap();
                assert!(found == expected(&model, &range, direction), "round {round}");
            }
        }
        for _ in 0..20 {
            let key = format!("user{:012}", random.u32(..41_000)).into_bytes();
            if range.contains(&key) {
                let wanted = usize::from(model.keys().any(|(known, _)| *known == key));
                assert_eq!(find(&store, &run, &key, u64::MAX).unwrap().len(), wanted);
            }
        }
        for used in uses.iter().filter(|used| !needed(used)) {
            overwrite(&store, used);
        }
        store.cache().set_budget(32 << 20).unwrap();
    }
}

/// Inverts every bit of an extent on the device. A second call restores it.
fn overwrite(store: &Store, used: &ExtentUse) {
    let file = store.tiers().get(used.extent.tier).unwrap();
    let len = used.extent.bytes() as usize;
    let mut bytes = file.read_at(used.extent.offset(), len, Purpose::Other).unwrap();
    bytes.iter_mut().for_each(|byte| *byte = !*byte);
    file.write_at(used.extent.offset(), bytes, Purpose::Other)
        .unwrap();
}

#[test]
fn behind_the_last_record_nothing_is_read() {
    let model = sequential(100);
    let store = store();
    let mut builder = RunBuilder::new(&store, &options()).unwrap();
    for ((key, Reverse(sequence)), owned) in &model {
        builder.push(key, record(*sequence, owned)).unwrap();
    }
    builder.delete_range(b"x", b"y", 1);
    let built = builder.finish().unwrap().unwrap();
    let reads = || store.directory().counters().snapshot().total().reads;
    let before = reads();
    let range = KeyRange::new(b"v", None);
    for direction in BOTH {
        for access in WAYS {
            let mut cursor = built.run.cursor(&store, range.clone(), direction, access);
            cursor.start().unwrap();
            assert_eq!(cursor.key(), None);
            let mut cursor = built
                .run
                .cursor(&store, KeyRange::new(b"w", Some(b"z")), direction, access);
            cursor.seek(b"x").unwrap();
            assert_eq!(cursor.key(), None);
        }
    }
    assert_eq!(find(&store, &built.run, b"w", 99).unwrap(), []);
    assert_eq!(find(&store, &built.run, b"a", 99).unwrap(), []);
    let guard = store.epochs().pin();
    let weight = built.run.weigh(&range, store.cache(), &guard, Purpose::Other);
    assert_eq!(weight.unwrap(), RangeWeight::default());
    assert_eq!(reads(), before);
}

#[test]
fn the_last_extent_belongs_to_every_key_and_others_to_theirs() {
    let model = sequential(40_000);
    let store = store();
    let run = run_of(&store, &options(), &model);
    let uses = run.extents();
    let (last, others) = uses.split_last().unwrap();
    assert_eq!((&*last.low, &*last.high), (run.low(), run.high()));
    for pair in others.windows(2) {
        assert!(pair[0].high <= pair[1].low, "{pair:?}");
    }
    assert!(others.iter().all(|used| used.extent.bytes() == 8 * UNIT));
}

#[test]
fn a_builder_that_is_dropped_or_abandoned_leaves_nothing_behind() {
    let model = sequential(20_000);
    let store = store();
    let before = store.extents().usage().total().provisional_bytes;
    let mut builder = RunBuilder::new(&store, &options()).unwrap();
    for ((key, Reverse(sequence)), owned) in &model {
        builder.push(key, record(*sequence, owned)).unwrap();
    }
    assert!(builder.bytes() > 2 << 20 && builder.records() == 20_000);
    drop(builder);
    assert_eq!(store.extents().usage().total().provisional_bytes, before);
    for _ in 0..3 {
        // The same device locations are reused repeatedly within one generation.
        let built = build(&store, &options(), &model);
        let mut random = fastrand::Rng::with_seed(1);
        let key = format!("user{:012}", random.u32(..20_000)).into_bytes();
        let guard = store.epochs().pin();
        assert!(
            built
                .run
                .locate(&key, store.cache(), &guard, Purpose::Other)
                .unwrap()
                .is_some()
        );
        drop(guard);
        built.abandon(&store);
        assert_eq!(store.extents().usage().total().provisional_bytes, before);
    }
}

#[test]
fn a_full_store_is_an_error_and_nothing_is_lost() {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let options_of_store = StoreOptions {
        cache_bytes: 4 << 20,
        log: LogOptions::with_limit(1 << 20),
        extents: ExtentOptions {
            max_bytes: Some(4 << 20),
            ..ExtentOptions::default()
        },
        ..StoreOptions::default()
    };
    let store = Store::create(directory, &options_of_store, b"").unwrap();
    let model = sequential(100_000);
    for value in [100usize, 3000] {
        let mut builder = RunBuilder::new(&store, &options()).unwrap();
        let bytes = vec![1; value];
        let mut pushed = model
            .keys()
            .map(|(key, Reverse(sequence))| builder.push(key, Message::put(*sequence, &bytes).into()));
        let error = pushed.find_map(|pushed| pushed.err()).expect("it does not fit");
        assert!(error.is_full(), "{error}");
        drop(pushed);
        drop(builder);
        assert_eq!(store.extents().usage().total().provisional_bytes, 0);
    }
}

#[test]
fn a_footer_that_is_long_has_nodes_of_its_own() {
    let store = store();
    let mut builder = RunBuilder::new(&store, &options()).unwrap();
    for number in 0..5000u64 {
        let key = |number: u64| format!("{number:020}").into_bytes();
        builder.delete_range(&key(2 * number), &key(2 * number + 1), number + 1);
        builder
            .push(&key(number), Message::put(number, b"value").into())
            .unwrap();
    }
    let built = builder.finish().unwrap().unwrap();
    store.extents().install(&built.extents);
    let run = IndexedRun::open(&store, built.run.pointer(), Purpose::Other).unwrap();
    assert_eq!(run.check(&store), []);
    assert_eq!(run.range_deletes().len(), 5000);
    assert_eq!(run.extents(), built.run.extents());
    let named = run.extents().iter().map(|used| (used.extent, 1));
    assert_eq!(store.extents().check(named).len(), 0);
}

#[test]
fn a_cold_lookup_reads_one_node_when_the_index_is_cached() {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let store = store_in(Arc::clone(&directory), 4096, 1 << 20);
    let model = sequential(40_000);
    let run = run_of(&store, &options(), &model);
    let guard = store.epochs().pin();
    let reads = || directory.counters().snapshot().of(Purpose::Lookup).reads;
    let mut random = fastrand::Rng::with_seed(4);
    let lookups = 300;
    // Only index nodes may be cached now. Evict all leaves, including those that were cached when
    // they were written.
    let mut found = 0;
    let before = reads();
    for _ in 0..lookups {
        let key = format!("user{:012}", random.u32(..40_000)).into_bytes();
        let leaf = run.locate(&key, store.cache(), &guard, Purpose::Other).unwrap();
        store.cache().discard(&leaf.unwrap());
        run.find(&key, u64::MAX, store.cache(), &guard, Purpose::Lookup, |_| {
            found += 1;
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    }
    assert_eq!((found, reads() - before), (lookups, lookups));
}

#[test]
fn the_reserve_may_be_used_by_whom_it_is_for() {
    let store = store();
    let options = RunOptions {
        class: AllocationClass::Essential,
        ..options()
    };
    let run = run_of(&store, &options, &sequential(10));
    assert_eq!(run.summary().records, 10);
}

/// A run of long records in leaves of 16 KiB, with counters for the reads of its scans.
struct Walked {
    directory: Arc<dyn Directory>,
    store: Store,
    run: IndexedRun,
    per_leaf: usize,
}

impl Walked {
    const RECORDS: usize = 30_000;

    fn key(number: usize) -> Vec<u8> {
        format!("user{number:012}").into_bytes()
    }

    fn new() -> Walked {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        let store = store_in(Arc::clone(&directory), 4096, 18 << 20);
        let options = RunOptions {
            leaf_pages: Some(4),
            ..options()
        };
        let mut builder = RunBuilder::new(&store, &options).unwrap();
        for number in 0..Self::RECORDS {
            let value = [number as u8; 1000];
            let message = Message::put(1, &value).into();
            builder.push(&Self::key(number), message).unwrap();
        }
        let run = builder.finish().unwrap().unwrap().run;
        let per_leaf = Self::RECORDS / run.summary().leaves as usize;
        Walked {
            directory,
            store,
            run,
            per_leaf,
        }
    }

    /// Reads `records` records with a cursor that expects to read `expected` leaves. Returns the
    /// number of reads, and the number of pages evicted from the cache.
    fn walk(
        &self,
        direction: MergeDirection,
        first: usize,
        records: usize,
        expected: usize,
    ) -> (usize, usize) {
        let reads = || self.directory.counters().snapshot().of(Purpose::Scan).reads as usize;
        let replaced = || self.store.cache().stats().evictions as usize;
        let before = (reads(), replaced());
        let mut cursor = self.run.cursor(
            &self.store,
            KeyRange::everything(),
            direction,
            CursorAccess::Cached,
        );
        cursor.expect(expected);
        cursor.seek(&Self::key(first)).unwrap();
        for step in 0..records {
            let number = match direction {
                MergeDirection::Forward => first + step,
                MergeDirection::Backward => first - step,
            };
            assert_eq!(cursor.key(), Some(&Self::key(number)[..]));
            let RecordValue::Inline(value) = cursor.record().value else {
                panic!("a value outside of its leaf")
            };
            assert_eq!(value, [number as u8; 1000]);
            cursor.advance().unwrap();
        }
        (reads() - before.0, replaced() - before.1)
    }
}

#[test]
fn long_walks_read_past_a_full_cache_but_for_what_it_holds() {
    const RECORDS: usize = Walked::RECORDS;
    let walked = Walked::new();
    let per_leaf = walked.per_leaf;
    // As long as the cache has free space, the leaves that a scan has read stay in it.
    let (first, _) = walked.walk(MergeDirection::Forward, 0, RECORDS / 4, 1);
    let (known, _) = walked.walk(MergeDirection::Forward, 0, RECORDS / 4, 1);
    assert!(known * 8 < first, "{known} reads of what was read by {first}");
    for direction in BOTH {
        walked.walk(direction, RECORDS / 2, RECORDS / 3, 1);
    }
    let leaves = RECORDS / 3 / per_leaf;
    for direction in BOTH {
        let (reads, replaced) = walked.walk(direction, RECORDS / 2, RECORDS / 3, 1);
        assert!(
            reads * 6 < leaves && replaced * 10 < leaves * 6,
            "{direction:?}: {reads} reads for {leaves} leaves, {replaced} through the cache"
        );
        assert!(
            walked.store.cache().stats().working_bytes < 768 << 10,
            "{direction:?}: what was lent is given back"
        );
    }
    // A cursor that expects to read this many leaves bypasses the cache from the first leaf.
    for direction in BOTH {
        let (reads, replaced) = walked.walk(direction, RECORDS / 2, RECORDS / 3, leaves);
        assert!(
            reads * 16 < leaves && replaced * 4 < leaves,
            "{direction:?}: {reads} reads for {leaves} leaves, {replaced} through the cache"
        );
    }
}

#[test]
fn what_compactions_have_walked_through_makes_room_in_the_cache() {
    const PART: usize = Walked::RECORDS / 6;
    let walked = Walked::new();
    let mut left = Vec::new();
    for access in [CursorAccess::Streaming, CursorAccess::Replacing] {
        // The leaves of the first sixth are hot when a check or a compaction reads them.
        // Afterwards, lookups read half of all leaves once, but none of the hot ones.
        let look_up = |keys: std::ops::Range<usize>| {
            for first in keys.step_by(walked.per_leaf) {
                let (key, cache) = (Walked::key(first), walked.store.cache());
                let guard = walked.store.epochs().pin();
                let found = |_: StoredRecord<'_>| Ok(ControlFlow::Continue(()));
                walked
                    .run
                    .find(&key, u64::MAX, cache, &guard, Purpose::Lookup, found)
                    .unwrap();
            }
        };
        (0..3).for_each(|_| look_up(0..PART));
        let range = KeyRange::new(&[], Some(&Walked::key(PART)));
        let mut cursor = walked
            .run
            .cursor(&walked.store, range, MergeDirection::Forward, access);
        cursor.start().unwrap();
        assert_eq!(drain(&walked.store, &mut cursor).unwrap().len(), PART);
        look_up(2 * PART..5 * PART);
        let guard = walked.store.epochs().pin();
        let is_there = |first: &usize| {
            let (key, cache) = (Walked::key(*first), walked.store.cache());
            let leaf = walked.run.locate(&key, cache, &guard, Purpose::Other).unwrap();
            cache.peek_untracked(&leaf.unwrap(), &guard).is_some()
        };
        left.push((0..PART).step_by(walked.per_leaf).filter(is_there).count());
    }
    let all = PART / walked.per_leaf;
    assert!(
        left[0] * 10 > all && left[1] * 50 < all,
        "{left:?} of {all} are left"
    );
}

#[test]
fn long_walks_find_what_was_looked_up() {
    const MIDDLE: usize = Walked::RECORDS / 6 * 5;
    let walked = Walked::new();
    let per_leaf = walked.per_leaf;
    walked.walk(MergeDirection::Forward, 0, Walked::RECORDS, 1);
    for first in (MIDDLE..MIDDLE + 80 * per_leaf).step_by(per_leaf) {
        walked.walk(MergeDirection::Forward, first, 2, 1);
        walked.walk(MergeDirection::Forward, first, 2, 1);
    }
    let (known, _) = walked.walk(MergeDirection::Forward, MIDDLE, 60 * per_leaf, 60);
    assert_eq!(known, 0, "reads of what was looked up");
    // The scans start within the cached leaves, far before them, and just before them. In the last
    // case, some of the first requested leaves are cached.
    for before in [0, 40].into_iter().chain(1..4) {
        let reach = before * per_leaf;
        walked.walk(MergeDirection::Forward, MIDDLE - reach, 200 * per_leaf, 300);
        walked.walk(
            MergeDirection::Backward,
            MIDDLE + 80 * per_leaf + reach,
            200 * per_leaf,
            300,
        );
    }
}

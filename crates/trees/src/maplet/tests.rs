use super::write::MapletWriter;
use super::*;
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::simulated::{CrashSurvival, InjectedFault, SimDirectory};
use alluvium_device::{DeviceOperation, Directory};
use alluvium_filters::{FilterBuilder, FilterEntry};
use alluvium_storage::PageSize;
use alluvium_storage::extents::ExtentOptions;
use alluvium_storage::log::LogOptions;
use alluvium_storage::store::StoreOptions;
use std::collections::{BTreeMap, BTreeSet};

const SPEC: MapletSpec = MapletSpec {
    fingerprint_bits: 36,
    purpose: Purpose::Compact,
    class: AllocationClass::Normal,
    tier: 0,
};

fn options() -> StoreOptions {
    StoreOptions {
        id: 7,
        cache_bytes: 8 << 20,
        log: LogOptions::with_limit(1 << 20),
        ..StoreOptions::default()
    }
}

fn store_in(directory: Arc<dyn Directory>, options: &StoreOptions) -> Store {
    Store::create(directory, options, b"").unwrap()
}

fn store() -> Store {
    store_in(Arc::new(MemoryDirectory::new()), &options())
}

fn hashes(seed: u64, count: usize) -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| random.u64(..)).collect()
}

fn keep(store: &Store, written: WrittenMaplet) -> Maplet {
    store.extents().install(&written.extents);
    assert_eq!(written.maplet.extents().collect::<Vec<_>>(), written.extents);
    written.maplet
}

fn built(store: &Store, hashes: &[u64], value: u16) -> Maplet {
    keep(
        store,
        Maplet::build(store, &SPEC, hashes.to_vec(), value).unwrap(),
    )
}

fn merged(store: &Store, sources: Vec<MapletSource>, fresh: Option<(Vec<u64>, u16)>, step: usize) -> Maplet {
    let mut merger = MapletMerger::new(store, &SPEC, sources, fresh).unwrap();
    loop {
        if let MapletMergeProgress::Done(written) = merger.step(step).unwrap() {
            return keep(store, written);
        }
    }
}

fn source(maplet: &Maplet, rewrite: &[Option<u16>]) -> MapletSource {
    MapletSource {
        maplet: maplet.clone(),
        rewrite: rewrite.into(),
    }
}

fn assert_sound(store: &Store, maplet: &Maplet) {
    let violations: Vec<String> = maplet.check(store).iter().map(ToString::to_string).collect();
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

fn lookup(store: &Store, maplet: &Maplet, hash: u64) -> Vec<u16> {
    let guard = store.epochs().pin();
    maplet.lookup(hash, store.cache(), &guard).unwrap().to_vec()
}

/// The expected contents of a maplet: each fingerprint with its set of values.
type Model = BTreeMap<u64, BTreeSet<u16>>;

fn fingerprint(hash: u64) -> u64 {
    hash >> (64 - SPEC.fingerprint_bits)
}

fn add(model: &mut Model, hashes: &[u64], value: u16) {
    for &hash in hashes {
        model.entry(fingerprint(hash)).or_default().insert(value);
    }
}

fn assert_holds(store: &Store, maplet: &Maplet, model: &Model) {
    assert_sound(store, maplet);
    let pairs: usize = model.values().map(BTreeSet::len).sum();
    assert_eq!(maplet.entries(), pairs as u64);
    for (&fingerprint, values) in model {
        let wanted: Vec<u16> = values.iter().rev().copied().collect();
        let hash = fingerprint << (64 - SPEC.fingerprint_bits) | 0x5a5;
        assert_eq!(lookup(store, maplet, hash), wanted);
    }
}

#[test]
fn every_key_of_a_run_is_found_and_hardly_any_other() {
    for page in [4096, 16384] {
        let page_size = PageSize::new(page).unwrap();
        let store = store_in(
            Arc::new(MemoryDirectory::new()),
            &StoreOptions {
                page_size,
                ..options()
            },
        );
        for (seed, count) in [0, 1, 2, 700, 20_000].into_iter().enumerate() {
            let mut keys = hashes(seed as u64, count);
            // Add some keys twice. A run has each key only once, but the maplet must not rely on
            // that.
            keys.extend_from_within(..count / 10);
            let maplet = built(&store, &keys, 11);
            let mut model = Model::new();
            add(&mut model, &keys, 11);
            assert_holds(&store, &maplet, &model);
            let open = Maplet::open(&store, maplet.pointer(), Purpose::Recovery).unwrap();
            assert_holds(&store, &open, &model);
            assert_eq!(open.memory_bytes(), maplet.memory_bytes());
            let strangers = hashes(99, 20_000);
            let false_hits = strangers
                .iter()
                .filter(|&&hash| !lookup(&store, &open, hash).is_empty());
            assert!(false_hits.count() <= 3, "2·10⁴ of 2³⁶ fingerprints are taken");
        }
    }
}

#[test]
fn what_is_merged_rewritten_and_dropped_is_what_a_set_of_pairs_would_hold() {
    for seed in 0..12 {
        let store = store();
        let mut random = fastrand::Rng::with_seed(seed);
        let common = hashes(1000 + seed, 300);
        let (mut sources, mut model) = (Vec::new(), Model::new());
        let values = random.u16(1..40);
        for number in 0..random.u16(0..7) {
            let mut parts = vec![(colliding(), 0)];
            for part in 0..random.u16(1..4) {
                let value = random.u16(0..values);
                let mut keys = hashes(
                    seed << 8 | u64::from(number) << 4 | u64::from(part),
                    random.usize(0..3000),
                );
                keys.extend(common.iter().filter(|_| random.bool()));
                parts.push((keys, value));
            }
            // Create a maplet with several values by merging maplets with one value each.
            let identity: Vec<_> = (0..values).map(Some).collect();
            let ones = parts
                .iter()
                .map(|(keys, value)| source(&built(&store, keys, *value), &identity))
                .collect();
            let maplet = merged(&store, ones, None, 1000);
            let rewrite: Vec<Option<u16>> = (0..values)
                .map(|_| (random.u8(..4) > 0).then(|| random.u16(..values)))
                .collect();
            for (keys, value) in &parts {
                if let Some(new) = rewrite[usize::from(*value)] {
                    add(&mut model, keys, new);
                }
            }
            sources.push(source(&maplet, &rewrite));
        }
        let fresh = random.bool().then(|| (hashes(seed + 500, 2000), values));
        if let Some((keys, value)) = &fresh {
            add(&mut model, keys, *value);
        }
        let maplet = merged(&store, sources, fresh, random.usize(1..5000));
        assert_holds(&store, &maplet, &model);
        let mut counts = BTreeMap::new();
        for value in model.values().flatten() {
            *counts.entry(*value).or_insert(0) += 1;
        }
        assert_eq!(maplet.values(), counts.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn merging_gives_the_pages_that_building_anew_gives() {
    let store = store();
    let keys = hashes(1, 30_000);
    let whole = built(&store, &keys, 5);
    let pieces: Vec<Maplet> = keys
        .chunks(7000)
        .enumerate()
        .map(|(piece, keys)| built(&store, keys, piece as u16))
        .collect();
    let all_to_five = || -> Vec<MapletSource> {
        pieces[1..]
            .iter()
            .map(|piece| source(piece, &[Some(5); 8]))
            .collect()
    };
    for step in [1, 777, usize::MAX] {
        let merged = merged(&store, all_to_five(), Some((keys[..7000].to_vec(), 5)), step);
        assert_eq!(merged.geometry(), whole.geometry());
        assert_eq!(merged.shared.body, whole.shared.body, "steps of {step}");
    }
    // Merging the same entries in two steps, with some of them in both inputs, must give the same
    // result.
    let half = merged(&store, all_to_five(), None, 10_000);
    let sources = vec![source(&half, &[Some(5); 6]), source(&whole, &[Some(5); 6])];
    let again = merged(&store, sources, None, 10_000);
    assert_eq!(again.entries(), whole.entries());
    assert_sound(&store, &again);
}

#[test]
fn a_maplet_of_nothing_and_one_from_which_all_is_dropped_are_empty() {
    let store = store();
    let full = built(&store, &hashes(3, 1000), 2);
    for maplet in [
        merged(&store, Vec::new(), None, 1),
        merged(&store, vec![source(&full, &[None; 3])], None, 100),
    ] {
        assert_eq!((maplet.entries(), maplet.values()), (0, &[][..]));
        assert!(lookup(&store, &maplet, 17).is_empty());
        assert_sound(&store, &maplet);
    }
}

#[test]
fn a_cold_lookup_reads_one_page_and_hardly_ever_another() {
    let directory = MemoryDirectory::new();
    let store = store_in(Arc::new(directory.clone()), &options());
    let keys = hashes(4, 60_000);
    let maplet = built(&store, &keys, 1);
    let reads = || directory.counters().snapshot().of(Purpose::Lookup).reads;
    let (before, lookups) = (reads(), 4000);
    let mut more_than_one = 0;
    for &hash in keys.iter().take(lookups) {
        maplet.forget_one(store.cache(), hash);
        let at = reads();
        assert_eq!(lookup(&store, &maplet, hash), [1]);
        more_than_one += u32::from(reads() - at > 1);
    }
    assert!(reads() - before >= lookups as u64, "nothing was cached");
    assert!(
        more_than_one <= lookups as u32 / 100,
        "{more_than_one} of {lookups}"
    );
}

impl Maplet {
    /// Removes a key's page, and all pages with spilled records, from the cache.
    fn forget_one(&self, cache: &NodeCache, hash: u64) {
        cache.discard(&self.page(hash));
        for number in self.geometry().pages()..self.shared.root.pages {
            cache.discard(&self.page_pointer(number).unwrap());
        }
    }
}

#[test]
fn a_path_answers_like_its_maplets_and_reads_every_page_at_most_once() {
    let directory = MemoryDirectory::new();
    let store = store_in(Arc::new(directory.clone()), &options());
    let keys = hashes(5, 2000);
    let maplets: Vec<Maplet> = (0..37)
        .map(|number| built(&store, &keys[number * 20..], number as u16))
        .collect();
    let path: Vec<&Maplet> = maplets.iter().collect();
    let reads = || directory.counters().snapshot().of(Purpose::Lookup).reads;
    let mut out = MapletAnswers::new();
    for (round, &hash) in keys.iter().step_by(9).enumerate() {
        // Pin the guard only here. If it were held longer, the frames of removed pages could not be
        // freed.
        let guard = store.epochs().pin();
        for maplet in maplets.iter().skip(round % 5).step_by(1 + round % 3) {
            maplet.forget(store.cache());
        }
        let before = reads();
        lookup_path(&path, hash, store.cache(), &guard, &mut out).unwrap();
        assert!(reads() - before <= 2 * 37, "no page is read twice");
        let one_by_one: Vec<Vec<u16>> = path.iter().map(|maplet| lookup(&store, maplet, hash)).collect();
        let together: Vec<Vec<u16>> = out.iter().map(|hits| hits.to_vec()).collect();
        assert_eq!(together, one_by_one);
        let warm = reads();
        lookup_path(&path[..20], hash, store.cache(), &guard, &mut out).unwrap();
        assert_eq!((out.len(), reads()), (20, warm));
    }
}

#[test]
fn a_key_with_more_values_than_fit_inline_has_them_all() {
    let store = store();
    let key = hashes(6, 1);
    for count in [7u16, 8, 9, 30] {
        let identity: Vec<_> = (0..count).map(Some).collect();
        let sources = (0..count)
            .map(|value| source(&built(&store, &key, value), &identity))
            .collect();
        let maplet = merged(&store, sources, None, 3);
        let wanted: Vec<u16> = (0..count).rev().collect();
        assert_eq!(lookup(&store, &maplet, key[0]), wanted);
        assert_sound(&store, &maplet);
    }
}

/// Returns hashes of keys with adjacent fingerprints. They outnumber the slots in a block, so some
/// are spilled.
fn colliding() -> Vec<u64> {
    (0..100)
        .map(|number| 0x1234_5678_0000_0000 | number << 28)
        .collect()
}

/// Flips one bit of a node on the device.
fn flip(store: &Store, pointer: &NodePointer, at: usize) {
    let file = store.tiers().get(pointer.tier).unwrap();
    let block = pointer.offset + (at as u64 & !511);
    let mut bytes = file.read_at(block, 512, Purpose::Other).unwrap();
    bytes[at % 512] ^= 0x10;
    file.write_at(block, bytes, Purpose::Other).unwrap();
}

#[test]
fn a_flipped_bit_anywhere_is_an_error_and_never_an_answer() {
    let store = store();
    let mut keys = colliding();
    keys.extend(hashes(8, 12_000));
    let maplet = built(&store, &keys, 3);
    assert!(maplet.shared.root.spilled > 0, "a spill page is among the nodes");
    let mut random = fastrand::Rng::with_seed(8);
    let root_len = maplet.pointer().encoded_len as usize;
    for _ in 0..200 {
        let at = random.usize(..root_len);
        flip(&store, maplet.pointer(), at);
        let error = Maplet::open(&store, maplet.pointer(), Purpose::Recovery).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
        assert!(!maplet.check(&store).is_empty());
        flip(&store, maplet.pointer(), at);
    }
    for number in 0..maplet.shared.root.pages {
        let pointer = maplet.page_pointer(number).unwrap();
        let at = random.usize(..4096);
        flip(&store, &pointer, at);
        maplet.forget(store.cache());
        let guard = store.epochs().pin();
        for &hash in keys.iter().take(500) {
            match maplet.lookup(hash, store.cache(), &guard) {
                Ok(hits) => assert_eq!(*hits, [3]),
                Err(error) => assert!(matches!(error, Error::Corrupt { .. }), "{error}"),
            }
        }
        let violations = maplet.check(&store);
        assert!(
            violations.iter().all(|violation| violation.page == Some(number)),
            "{violations:?}"
        );
        assert_eq!(violations.len(), 1, "page {number}");
        let mut merger =
            MapletMerger::new(&store, &SPEC, vec![source(&maplet, &[Some(0); 4])], None).unwrap();
        let error = loop {
            match merger.step(1000) {
                Ok(MapletMergeProgress::More) => {}
                Ok(MapletMergeProgress::Done(_)) => panic!("page {number} is damaged"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
        drop(merger);
        assert_eq!(store.extents().usage().total().provisional_bytes, 0);
        flip(&store, &pointer, at);
    }
    assert_sound(&store, &maplet);
}

#[test]
fn the_check_finds_what_checksums_cannot() {
    let store = store();
    let maplet = built(&store, &hashes(9, 5000), 3);
    let with = |change: fn(&mut MapletRoot, &mut MapletBody)| {
        let (mut root, mut body) = (maplet.shared.root.clone(), maplet.shared.body.clone());
        change(&mut root, &mut body);
        Maplet::of(*maplet.pointer(), root, body)
    };
    let wrong = [
        with(|root, _| root.entries += 1),
        with(|_, body| body.values[0].0 = 2),
        with(|_, body| body.checksums.swap(0, 1)),
        with(|root, _| root.stretches[0].live_bytes -= 4096),
        with(|root, _| {
            let again = root.stretches[0];
            root.stretches.push(again);
        }),
    ];
    for (at, maplet) in wrong.iter().enumerate() {
        assert!(!maplet.check(&store).is_empty(), "case {at}");
    }
    assert_sound(&store, &maplet);
}

fn assert_nothing_is_left(store: &Store, pages: &[NodePointer]) {
    let usage = store.extents().usage().total();
    assert_eq!((usage.provisional_bytes, usage.live_bytes), (0, 0));
    let guard = store.epochs().pin();
    for pointer in pages {
        assert!(
            store.cache().peek(pointer, &guard).is_none(),
            "{pointer:?} is still cached"
        );
    }
}

#[test]
fn what_is_abandoned_dropped_or_fails_leaves_nothing_behind() {
    let machine = SimDirectory::new(3);
    let store = store_in(Arc::new(machine.clone()), &options());
    let keys = hashes(10, 40_000);
    let written = Maplet::build(&store, &SPEC, keys.clone(), 1).unwrap();
    let maplet = written.maplet.clone();
    let pages: Vec<_> = (0..maplet.shared.root.pages)
        .map(|number| maplet.page_pointer(number).unwrap())
        .collect();
    {
        let guard = store.epochs().pin();
        assert!(
            pages
                .iter()
                .all(|page| store.cache().peek(page, &guard).is_some()),
            "pages are cached as they are written"
        );
    }
    written.abandon(&store);
    assert_nothing_is_left(&store, &pages);
    // Write the same pages again, but drop the merge before it completes.
    let mut merger = MapletMerger::new(&store, &SPEC, Vec::new(), Some((keys.clone(), 1))).unwrap();
    assert!(matches!(merger.step(30_000).unwrap(), MapletMergeProgress::More));
    assert!(store.extents().usage().total().provisional_bytes > 0);
    drop(merger);
    assert_nothing_is_left(&store, &pages);
    machine.inject(InjectedFault::failing(DeviceOperation::Write).on("tier-0.data"));
    let error = Maplet::build(&store, &SPEC, keys, 1).unwrap_err();
    assert!(matches!(error, Error::Device(_)), "{error}");
    assert_nothing_is_left(&store, &pages);
}

#[test]
fn a_full_store_is_said_so_and_nothing_is_left() {
    let options = StoreOptions {
        extents: ExtentOptions {
            max_bytes: Some(4 << 20),
            ..ExtentOptions::default()
        },
        ..options()
    };
    let store = store_in(Arc::new(MemoryDirectory::new()), &options);
    let error = Maplet::build(&store, &SPEC, hashes(11, 2_000_000), 1).unwrap_err();
    assert!(error.is_full(), "{error}");
    assert_nothing_is_left(&store, &[]);
    let maplet = built(&store, &hashes(11, 1000), 1);
    assert_sound(&store, &maplet);
}

#[test]
fn fingerprints_of_another_length_are_refused() {
    let store = store();
    let maplet = built(&store, &hashes(12, 100), 0);
    let other = MapletSpec {
        fingerprint_bits: 30,
        ..SPEC
    };
    let refused = MapletMerger::new(&store, &other, vec![source(&maplet, &[Some(0)])], None).unwrap_err();
    assert!(refused.to_string().contains("36"), "{refused}");
    let short = MapletSpec {
        fingerprint_bits: 7,
        ..SPEC
    };
    let refused = Maplet::build(&store, &short, hashes(12, 100), 0).unwrap_err();
    assert!(matches!(refused, Error::BadOption { .. }), "{refused}");
}

#[test]
fn a_directory_of_many_pages_is_cut_into_parts() {
    let store = store();
    let keys = hashes(13, 5000);
    let shape = filters::FilterShape::new(36, 4);
    let geometry = FilterGeometry::with_pages(9000, shape).unwrap();
    let mut sink = MapletWriter::new(&store, &SPEC, &geometry).unwrap();
    let mut entries: Vec<FilterEntry> = keys
        .iter()
        .map(|&hash| FilterEntry::new(geometry.fingerprint(hash), 9))
        .collect();
    filters::sort(&mut entries);
    let page = |page: &[u8]| -> std::result::Result<(), filters::Error> {
        sink.page(page).unwrap();
        Ok(())
    };
    let mut builder = FilterBuilder::new(geometry, page);
    for entry in entries {
        builder.push(entry, 1).unwrap();
    }
    let built = builder.finish().unwrap();
    let maplet = keep(&store, sink.finish(geometry, built, vec![(9, 5000)], 0).unwrap());
    assert_eq!(maplet.shared.root.parts.len(), 2);
    assert!(maplet.extents().count() > 30);
    let maplet = Maplet::open(&store, maplet.pointer(), Purpose::Recovery).unwrap();
    let mut model = Model::new();
    add(&mut model, &keys, 9);
    assert_holds(&store, &maplet, &model);
    for part in &maplet.shared.root.parts {
        flip(&store, part, 100);
        assert!(Maplet::open(&store, maplet.pointer(), Purpose::Recovery).is_err());
        flip(&store, part, 100);
    }
}

#[test]
fn a_maplet_is_there_again_after_a_checkpoint_and_an_open() {
    let machine = SimDirectory::new(5);
    let directory: Arc<dyn Directory> = Arc::new(machine.clone());
    let store = store_in(Arc::clone(&directory), &options());
    let keys = hashes(14, 3000);
    let maplet = built(&store, &keys, 1);
    store.begin_checkpoint().unwrap().finish(b"", 0).unwrap();
    let pointer = *maplet.pointer();
    drop(store);
    drop(directory);
    let directory: Arc<dyn Directory> = Arc::new(machine.image(CrashSurvival::None, 1));
    let store = Store::open(directory, &options())
        .unwrap()
        .replay(&mut |_| Ok(()))
        .unwrap();
    let maplet = Maplet::open(&store, &pointer, Purpose::Recovery).unwrap();
    let mut model = Model::new();
    add(&mut model, &keys, 1);
    assert_holds(&store, &maplet, &model);
    let reachable = maplet.extents().map(|(extent, _)| (extent, 1));
    assert_eq!(store.check(reachable).unwrap(), Vec::<String>::new());
    for (extent, live) in maplet.extents() {
        assert_eq!(store.extents().live(extent), live);
    }
}

#[test]
fn a_maplet_lies_on_the_tier_that_its_spec_names() {
    let first = Arc::new(MemoryDirectory::new());
    let directories = alluvium_storage::TierDirectories::from(first).and(Arc::new(MemoryDirectory::new()));
    let store = Store::create(directories, &options(), b"").unwrap();
    let below = built(&store, &hashes(1, 5000), 0);
    let spec = MapletSpec { tier: 1, ..SPEC };
    let mut merger = MapletMerger::new(
        &store,
        &spec,
        vec![source(&below, &[Some(0)])],
        Some((hashes(2, 5000), 1)),
    )
    .unwrap();
    let maplet = loop {
        if let MapletMergeProgress::Done(written) = merger.step(1000).unwrap() {
            break keep(&store, written);
        }
    };
    assert!(below.extents().all(|(extent, _)| extent.tier == 0));
    assert!(maplet.extents().count() > 0 && maplet.extents().all(|(extent, _)| extent.tier == 1));
    let opened = Maplet::open(&store, maplet.pointer(), Purpose::Other).unwrap();
    assert_eq!(opened.check(&store), []);
    let nowhere = MapletSpec { tier: 2, ..SPEC };
    let refused = Maplet::build(&store, &nowhere, hashes(3, 10), 0).unwrap_err();
    assert!(refused.to_string().contains("tiers 0 to 1"), "{refused}");
}

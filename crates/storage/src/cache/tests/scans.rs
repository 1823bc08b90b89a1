use super::*;

/// Looks up every node, with a new guard for each.
fn look_up(cache: &NodeCache, pointers: &[NodePointer]) {
    for pointer in pointers {
        let guard = cache.epochs().pin();
        assert!(is_content_of(
            pointer,
            &cache.get(pointer, &guard, Purpose::Lookup).unwrap()
        ));
    }
}

fn resident(cache: &NodeCache, pointers: &[NodePointer]) -> usize {
    let guard = cache.epochs().pin();
    let is_there = |pointer: &&NodePointer| {
        let key = NodeKey::of(pointer);
        cache.shared.find_frame(&key, key.hash(), &guard).is_some()
    };
    pointers.iter().filter(is_there).count()
}

#[test]
fn a_scan_of_ten_times_the_cache_leaves_the_hot_set_where_it_is() {
    let mut store = Store::new(1);
    let cache = store.cache(4 * MIB);
    let hot = store.write_many(600, 1);
    let scanned = store.write_many(10_000, 1);
    look_up(&cache, &hot);
    look_up(&cache, &hot);
    let before = resident(&cache, &hot);
    assert!(before >= 598, "{before} of 600 hot nodes fit a cache of 1000");
    for some in scanned.chunks(32) {
        let guard = cache.epochs().pin();
        let nodes = cache
            .get_many(some, &guard, Purpose::Scan, CacheRetention::PassThrough)
            .unwrap();
        for (pointer, node) in some.iter().zip(&nodes) {
            assert!(is_content_of(pointer, node));
        }
    }
    let after = resident(&cache, &hot);
    assert!(
        after * 10 >= before * 9,
        "{after} of {before} hot nodes outlived the scan"
    );
    let stats = cache.stats();
    assert!(stats.private_reads < 500, "{stats:?}");
    assert_sound(&cache);
}

#[test]
fn a_scan_with_read_ahead_leaves_the_hot_set_too_and_hits_what_it_read_ahead() {
    let mut store = Store::new(1);
    let cache = store.cache(4 * MIB);
    let hot = store.write_many(600, 1);
    let scanned = store.write_many(8192, 1);
    look_up(&cache, &hot);
    look_up(&cache, &hot);
    let before = cache.stats();
    let mut ahead = cache
        .request(&scanned[..16], Purpose::Scan, CacheRetention::PassThrough)
        .unwrap();
    for (i, some) in scanned.chunks(16).enumerate() {
        let next = scanned.chunks(16).nth(i + 1).unwrap_or_default();
        let next = cache
            .request(next, Purpose::Scan, CacheRetention::PassThrough)
            .unwrap();
        ahead.wait();
        ahead = next;
        let guard = cache.epochs().pin();
        cache
            .get_many(some, &guard, Purpose::Scan, CacheRetention::PassThrough)
            .unwrap();
    }
    let hits = cache.stats().hits - before.hits;
    assert!(
        hits > 7800,
        "{hits} of 8192 nodes that were read ahead were there in time"
    );
    let after = resident(&cache, &hot);
    assert!(after >= 540, "{after} of 600 hot nodes outlived the scan");
    ahead.wait();
    assert_sound(&cache);
}

#[test]
fn a_read_whose_reader_stays_away_does_not_keep_frames_from_others() {
    let mut store = Store::new(1);
    let cache = store.cache(4 * MIB);
    let (left, others) = (store.write_many(16, 1), store.write_many(8192, 1));
    let pending = cache
        .request(&left, Purpose::Scan, CacheRetention::PassThrough)
        .unwrap();
    let mut skipped = 0;
    for some in others.chunks(16) {
        let mut pending = cache
            .request(some, Purpose::Scan, CacheRetention::PassThrough)
            .unwrap();
        skipped += pending.skipped();
        pending.wait();
    }
    assert_eq!(pending.skipped(), 0);
    assert!(skipped < 400, "{skipped} of 8192 nodes were not read ahead");
    look_up(&cache, &left);
    let stats = cache.stats();
    assert!(stats.private_reads * 20 < stats.misses, "{stats:?}");
    drop(pending);
    assert_sound(&cache);
}

#[test]
fn a_scanned_node_that_is_looked_up_stays() {
    let mut store = Store::new(1);
    let cache = store.cache(4 * MIB);
    let used = store.write_many(50, 1);
    let scanned = store.write_many(5000, 1);
    let guard = cache.epochs().pin();
    cache
        .get_many(&used, &guard, Purpose::Scan, CacheRetention::PassThrough)
        .unwrap();
    drop(guard);
    look_up(&cache, &used);
    for some in scanned.chunks(32) {
        let guard = cache.epochs().pin();
        cache
            .get_many(some, &guard, Purpose::Scan, CacheRetention::PassThrough)
            .unwrap();
    }
    let after = resident(&cache, &used);
    assert!(after >= 45, "{after} of 50 nodes that were used stayed");
    assert_eq!(
        resident(&cache, &scanned[..1000]),
        0,
        "what only passed through did not"
    );
}

#[test]
fn a_cache_of_one_hundredth_of_the_data_degrades_and_does_not_thrash() {
    let mut store = Store::new(1);
    let cache = store.cache(MIB);
    let pointers = store.write_many(25_600, 1);
    let mut random = fastrand::Rng::with_seed(4);
    // 80 % of the lookups are of 100 hot nodes, which stand for index nodes. The others are of
    // random nodes.
    let mut hot_misses = 0;
    for i in 0..20_000 {
        let hot = random.u32(..100) < 80;
        let pointer = &pointers[if hot {
            random.usize(..100)
        } else {
            random.usize(..pointers.len())
        }];
        let guard = cache.epochs().pin();
        let was_there = cache.peek(pointer, &guard).is_some();
        hot_misses += usize::from(hot && !was_there && i > 2000);
        assert!(is_content_of(
            pointer,
            &cache.get(pointer, &guard, Purpose::Lookup).unwrap()
        ));
    }
    assert!(
        hot_misses < 1500,
        "{hot_misses} of 14,400 lookups of hot nodes missed"
    );
    let stats = cache.stats();
    assert!(stats.private_reads * 20 < stats.misses, "{stats:?}");
    assert!(stats.charged_bytes <= stats.budget_bytes, "{stats:?}");
    assert_sound(&cache);
}

#[test]
fn many_misses_under_one_guard_degrade_to_private_memory() {
    let mut store = Store::new(1);
    let cache = store.cache(MIB);
    let pointers = store.write_many(2000, 1);
    let guard = cache.epochs().pin();
    let nodes = cache
        .get_many(&pointers, &guard, Purpose::Scan, CacheRetention::PassThrough)
        .unwrap();
    for (pointer, node) in pointers.iter().zip(&nodes) {
        assert_content(pointer, node);
    }
    assert_eq!(cache.stats().misses, 2000);
    drop(nodes);
    drop(guard);
    assert_sound(&cache);
}

#[test]
fn what_is_read_once_does_not_drive_out_what_is_read_less_often_than_the_hand_goes_round() {
    let mut store = Store::new(1);
    let cache = store.cache(4 * MIB);
    // These nodes would occupy 80 % of the cache. Each is used once for every 800 reads of other
    // nodes.
    let finders = store.write_many(800, 1);
    let leaves = store.write_many(8000, 1);
    for (leaf, finder) in leaves.iter().zip(finders.iter().cycle()) {
        look_up(&cache, &[*finder, *leaf]);
    }
    let there = resident(&cache, &finders);
    assert!(there >= 720, "{there} of 800 (a CLOCK of one bit keeps 454)");
    assert_sound(&cache);
}

#[test]
fn what_is_offered_is_taken_while_there_is_room_and_drives_out_nothing() {
    let mut store = Store::new(1);
    let cache = store.cache(4 * MIB);
    let nodes = store.write_many(3000, 1);
    let (first, others) = nodes.split_at(100);
    look_up(&cache, first);
    for pointer in others {
        cache.offer(pointer, &content(pointer.offset, pointer.birth, pointer.pages));
    }
    assert_eq!(resident(&cache, first), 100);
    let taken = resident(&cache, others);
    assert!((500..1000).contains(&taken), "{taken}");
    assert_eq!(cache.stats().evictions, 0);
    look_up(&cache, &others[..10]);
    assert_eq!(cache.stats().misses, 100, "they need no read");
    assert_sound(&cache);
}

#[test]
fn what_is_offered_is_kept_where_what_is_written_is_to_be() {
    let mut store = Store::new(1);
    let cache = store.cache(4 * MIB);
    let dead = store.write_many(3000, 1);
    look_up(&cache, &dead);
    let alive = store.write_many(300, 1);
    let offer =
        |pointer: &NodePointer| cache.offer(pointer, &content(pointer.offset, pointer.birth, pointer.pages));
    alive.iter().for_each(offer);
    assert_eq!(resident(&cache, &alive), 0, "it is full");
    cache.set_admit_written(true);
    alive.iter().for_each(offer);
    let misses = cache.stats().misses;
    look_up(&cache, &alive);
    assert_eq!(cache.stats().misses, misses, "they need no read");
    assert_sound(&cache);
}

#[test]
fn a_node_marked_to_be_evicted_first_goes_before_all_others_and_is_there_until_then() {
    let mut store = Store::new(1);
    let cache = store.cache(4 * MIB);
    let (marked, others) = (store.write_many(400, 1), store.write_many(450, 1));
    for _ in 0..2 {
        look_up(&cache, &others);
        look_up(&cache, &marked);
    }
    marked.iter().for_each(|pointer| cache.demote(pointer));
    let misses = cache.stats().misses;
    look_up(&cache, &marked);
    assert_eq!(
        cache.stats().misses,
        misses,
        "whoever still reads them finds them"
    );
    look_up(&cache, &store.write_many(350, 1));
    let (stayed, left) = (resident(&cache, &others), resident(&cache, &marked));
    assert_eq!(
        stayed, 450,
        "nothing else makes room, however often those were used"
    );
    assert!(left < 200, "{left} of 400 are left");
    // The frames of the marked nodes now contain other nodes, which are not marked.
    marked.iter().for_each(|pointer| cache.demote(pointer));
    cache.demote(&store.write_many(1, 1)[0]);
    assert_sound(&cache);
}

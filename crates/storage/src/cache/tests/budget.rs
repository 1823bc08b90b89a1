use super::*;

fn look_up(cache: &NodeCache, pointers: &[NodePointer]) {
    for pointer in pointers {
        let guard = cache.epochs().pin();
        assert!(is_content_of(
            pointer,
            &cache.get(pointer, &guard, Purpose::Lookup).unwrap()
        ));
        let stats = cache.stats();
        assert!(stats.charged_bytes <= stats.budget_bytes, "{stats:?}");
    }
}

#[test]
fn impossible_budgets_are_refused_with_what_would_be_possible() {
    let store = Store::new(1);
    let refused = NodeCache::new(Arc::clone(&store.tiers), Epochs::new(), PageSize::MIN, 1000).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "option cache budget: 1000 bytes is below the minimum of 1048576"
    );
    let cache = store.cache(MIB);
    for bad in [0, MIB - 1, 1 << 60] {
        assert!(matches!(cache.set_budget(bad), Err(Error::BadOption { .. })));
    }
    assert_eq!(cache.stats().budget_bytes, MIB);
}

#[test]
fn a_cache_fills_its_budget_and_never_exceeds_it() {
    let mut store = Store::new(1);
    let pointers = store.write_many(6000, 1);
    for budget in [MIB, 3 * MIB, 16 * MIB] {
        let cache = store.cache(budget);
        look_up(&cache, &pointers);
        let stats = cache.stats();
        assert!(
            stats.resident_bytes * 100 >= budget * 70,
            "a well-filled cache: {stats:?}"
        );
        assert_sound(&cache);
    }
}

#[test]
fn a_budget_shrinks_and_grows_while_nodes_stay_readable() {
    let mut store = Store::new(1);
    let pointers = store.write_many(5000, 1);
    let cache = store.cache(16 * MIB);
    let guard = cache.epochs().pin();
    let held: Vec<_> = pointers[..100]
        .iter()
        .map(|pointer| cache.get(pointer, &guard, Purpose::Lookup).unwrap())
        .collect();
    let kept = held[7].retain();
    drop(held);
    drop(guard);
    look_up(&cache, &pointers[..3500]);
    for budget in [2, 9, 1, 16, 40, 3].map(|times| times * MIB) {
        cache.set_budget(budget).unwrap();
        let stats = cache.stats();
        assert_eq!(stats.budget_bytes, budget);
        assert!(
            stats.draining_chunks <= 1,
            "only what is pinned may wait: {stats:?}"
        );
        assert!(stats.charged_bytes <= budget + MIB, "{stats:?}");
        assert_eq!(cache.check(), []);
        let size = pointers.len().min(budget as usize / 5000);
        for pointer in &pointers[..size] {
            let guard = cache.epochs().pin();
            assert!(is_content_of(
                pointer,
                &cache.get(pointer, &guard, Purpose::Lookup).unwrap()
            ));
        }
    }
    assert_content(&pointers[7], &kept);
    drop(kept);
    cache.maintain();
    cache.maintain();
    look_up(&cache, &pointers[..500]);
    assert_eq!(cache.stats().draining_chunks, 0);
    assert_sound(&cache);
}

#[test]
fn growing_keeps_every_node_that_was_there() {
    let mut store = Store::new(1);
    let pointers = store.write_many(900, 1);
    let cache = store.cache(4 * MIB);
    look_up(&cache, &pointers);
    let resident = cache.stats().resident_bytes;
    cache.set_budget(256 * MIB).unwrap();
    assert_eq!(cache.stats().resident_bytes, resident);
    assert!(
        cache.stats().table_bytes > 100 * 1024,
        "the page table has grown with the budget"
    );
    let before = store.reads();
    look_up(&cache, &pointers);
    assert!(store.reads() - before <= (pointers.len() as u64 * PAGE - resident) / PAGE);
    assert_sound(&cache);
}

#[test]
fn a_smaller_budget_walks_the_lists_once_and_not_for_every_chunk() {
    let walked = |mebibytes: u64| {
        let mut store = Store::new(1);
        let pointers = store.write_many((mebibytes * MIB / PAGE) as usize, 1);
        let cache = store.cache(mebibytes * MIB);
        look_up(&cache, &pointers);
        cache.set_budget(mebibytes * MIB / 2).unwrap();
        assert_sound(&cache);
        cache.shared.chunks.walked()
    };
    let (small, large) = (walked(12), walked(48));
    println!("entries walked: {small} at 12 MiB, {large} at 48 MiB");
    assert!(
        small > 0 && large <= 6 * small,
        "{small} entries at 12 MiB, {large} at four times as much"
    );
}

#[test]
fn a_guard_delays_a_smaller_budget_and_its_nodes_stay_valid() {
    let mut store = Store::new(1);
    let pointers = store.write_many(1500, 1);
    let cache = store.cache(8 * MIB);
    let guard = cache.epochs().pin();
    let nodes: Vec<_> = pointers
        .iter()
        .map(|pointer| cache.get(pointer, &guard, Purpose::Lookup).unwrap())
        .collect();
    cache.set_budget(MIB).unwrap();
    assert!(cache.stats().charged_bytes > MIB && cache.stats().draining_chunks > 0);
    for (pointer, node) in pointers.iter().zip(&nodes) {
        assert_content(pointer, node);
    }
    drop(nodes);
    drop(guard);
    for _ in 0..4 {
        cache.maintain();
    }
    let stats = cache.stats();
    assert!(
        stats.charged_bytes <= MIB && stats.draining_chunks == 0,
        "{stats:?}"
    );
    assert_sound(&cache);
}

#[test]
fn chunks_move_to_the_node_size_that_needs_them() {
    let mut store = Store::new(1);
    let small = store.write_many(3000, 1);
    let large = store.write_many(300, 8);
    let cache = store.cache(8 * MIB);
    look_up(&cache, &small);
    let full = cache.stats();
    assert!(full.resident_bytes > 6 * MIB);
    // The cache is full of one-page nodes. Now use nodes of eight pages repeatedly, all of which
    // would fit into the cache.
    for _ in 0..12 {
        look_up(&cache, &large[..100]);
    }
    let before = store.reads();
    look_up(&cache, &large[..100]);
    let missed = store.reads() - before;
    assert!(
        missed < 20,
        "{missed} of 100 nodes of eight pages were read again"
    );
    assert_sound(&cache);
    for _ in 0..12 {
        look_up(&cache, &small[..1500]);
    }
    let before = store.reads();
    look_up(&cache, &small[..1500]);
    let missed = store.reads() - before;
    assert!(missed < 300, "{missed} of 1500 nodes of one page were read again");
    assert_sound(&cache);
}

#[test]
fn every_node_size_gets_frames_in_the_smallest_cache() {
    let mut store = Store::new(1);
    let pointers: Vec<_> = (0..2000)
        .map(|i| store.write(0, 1, (i * 7 % 16) as u8 + 1, NodeCodec::None))
        .collect();
    let cache = store.cache(MIB);
    for pointer in &pointers {
        let guard = cache.epochs().pin();
        assert!(is_content_of(
            pointer,
            &cache.get(pointer, &guard, Purpose::Lookup).unwrap()
        ));
    }
    let stats = cache.stats();
    assert!(stats.private_reads < 2000, "some were cached: {stats:?}");
    assert_sound(&cache);
    assert_eq!(cache.stats().private_bytes, 0);
}

#[test]
fn frames_cut_from_memory_of_larger_nodes_are_free_frames() {
    let mut store = Store::new(1);
    let (large, small) = (store.write_many(300, 16), store.write_many(5000, 1));
    // The cache is large enough that the frame headers of a chunk of small frames reach into the
    // first frame of a chunk of large ones.
    let cache = store.cache(16 * MIB);
    // Memory that was offered for registration is not returned to the system, so a chunk that moves
    // to another class still has its old contents.
    let _region = cache.memory_region();
    look_up(&cache, &large);
    look_up(&cache, &small);
    assert_sound(&cache);
    look_up(&cache, &large);
    assert_sound(&cache);
}

#[test]
fn a_full_cache_lends_a_sixteenth_of_its_budget_and_no_more() {
    let mut store = Store::new(1);
    let pointers = store.write_many(6000, 1);
    let cache = store.cache(16 * MIB);
    assert!(cache.try_reserve(MIB).is_none(), "there is room for what is read");
    look_up(&cache, &pointers);
    assert!(cache.try_reserve(MIB + 1).is_none());
    let half = cache.try_reserve(MIB / 2).unwrap();
    assert!(cache.try_reserve(MIB / 2 + 1).is_none(), "half of it is in use");
    let other = cache.try_reserve(MIB / 2).unwrap();
    assert_eq!(cache.stats().working_bytes, MIB);
    assert!(cache.try_reserve(1).is_none());
    // Reservations are part of the budget: to stay within it, reading other nodes evicts some.
    for pointer in &pointers {
        let guard = cache.epochs().pin();
        drop(cache.get(pointer, &guard, Purpose::Lookup).unwrap());
    }
    let stats = cache.stats();
    assert!(stats.charged_bytes <= stats.budget_bytes, "{stats:?}");
    drop((half, other));
    assert_eq!(cache.stats().working_bytes, 0);
    assert!(cache.try_reserve(MIB).is_none(), "there is room again");
    look_up(&cache, &pointers);
    assert!(cache.try_reserve(MIB).is_some());
    assert_sound(&cache);
}

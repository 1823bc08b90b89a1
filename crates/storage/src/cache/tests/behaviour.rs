use super::*;

const _: () = {
    const fn is_handle<T: Clone + Send + Sync + 'static>() {}
    is_handle::<NodeCache>();
    is_handle::<FrameRef>();
    is_handle::<Epochs>();
    is_handle::<crate::EpochHold>();
};

#[test]
fn a_node_is_read_once_and_found_afterwards() {
    let mut store = Store::new(1);
    let pointers = store.write_many(20, 1);
    let cache = store.cache(MIB);
    for round in 0..3 {
        for pointer in &pointers {
            let guard = cache.epochs().pin();
            assert_eq!(cache.peek(pointer, &guard).is_some(), round > 0);
            assert_content(pointer, &cache.get(pointer, &guard, Purpose::Lookup).unwrap());
        }
    }
    assert_eq!(store.reads(), 20);
    let stats = cache.stats();
    assert_eq!((stats.misses, stats.resident_bytes), (20, 20 * PAGE));
    assert_eq!(stats.hits, 80, "two rounds of a peek and a get each");
    assert_sound(&cache);
}

#[test]
fn nodes_of_every_size_and_codec_come_back_as_they_were_written() {
    let mut store = Store::new(2);
    let mut pointers = Vec::new();
    for pages in 1..=16 {
        for codec in [NodeCodec::None, NodeCodec::Lz4, NodeCodec::Zstd] {
            for tier in 0..2 {
                pointers.push(store.write(tier, 3, pages, codec));
            }
        }
    }
    assert!(pointers.iter().any(|pointer| pointer.codec == NodeCodec::Zstd));
    let cache = store.cache(32 * MIB);
    let guard = cache.epochs().pin();
    for _ in 0..2 {
        for pointer in &pointers {
            let node = cache.get(pointer, &guard, Purpose::Lookup).unwrap();
            assert!(node.is_cached());
            assert_content(pointer, &node);
        }
    }
    assert_eq!(store.reads(), pointers.len() as u64);
    drop(guard);
    assert_sound(&cache);
}

#[test]
fn every_page_size_works() {
    for page_size in [8 << 10, 16 << 10, 64 << 10] {
        let directory = MemoryDirectory::new();
        let tiers = Arc::new(TierFiles::create(&[&directory]).unwrap());
        let page_size = PageSize::new(page_size).unwrap();
        let budget = NodeCache::least_budget(page_size);
        let cache = NodeCache::new(Arc::clone(&tiers), Epochs::new(), page_size, budget).unwrap();
        let mut offset = 0;
        let mut pointers = Vec::new();
        for pages in (1..=16).chain(1..=16) {
            let node = AlignedBuffer::padded(&vec![pages; page_size.node_bytes(pages)]);
            pointers.push(NodePointer {
                offset,
                birth: 1,
                checksum: checksum(&node),
                encoded_len: node.len() as u32,
                tier: 0,
                pages,
                codec: NodeCodec::None,
            });
            let file = tiers.get(0).unwrap();
            file.grow(offset + node.len() as u64).unwrap();
            offset += node.len() as u64;
            file.write_at(offset - node.len() as u64, node, Purpose::Other)
                .unwrap();
        }
        for _ in 0..4 {
            for pointer in &pointers {
                let guard = cache.epochs().pin();
                let node = cache.get(pointer, &guard, Purpose::Lookup).unwrap();
                assert_eq!(node.len(), page_size.node_bytes(pointer.pages));
                assert!(node.iter().all(|&byte| byte == pointer.pages));
            }
        }
        assert_sound(&cache);
    }
}

#[test]
fn another_birth_or_checksum_at_the_same_place_is_another_node() {
    let mut store = Store::new(1);
    let old = store.write(0, 1, 1, NodeCodec::None);
    let cache = store.cache(MIB);
    let guard = cache.epochs().pin();
    assert_content(&old, &cache.get(&old, &guard, Purpose::Lookup).unwrap());
    store.ends[0] = 0;
    let new = store.write(0, 2, 1, NodeCodec::None);
    assert_eq!(old.offset, new.offset);
    assert_content(&new, &cache.get(&new, &guard, Purpose::Lookup).unwrap());
    assert_content(&old, &cache.peek(&old, &guard).unwrap());
    let rewritten = NodePointer { checksum: 5, ..new };
    assert!(cache.peek(&rewritten, &guard).is_none());
    assert!(matches!(
        cache.get(&rewritten, &guard, Purpose::Lookup),
        Err(Error::Corrupt { .. })
    ));
}

#[test]
fn what_was_inserted_is_found_and_what_was_forgotten_is_read_again() {
    let mut store = Store::new(1);
    let pointer = store.write(0, 1, 3, NodeCodec::Lz4);
    let cache = store.cache(MIB);
    cache.insert(&pointer, &content(pointer.offset, 1, 3));
    cache.insert(&pointer, &content(pointer.offset, 1, 3));
    let guard = cache.epochs().pin();
    assert_content(&pointer, &cache.peek(&pointer, &guard).unwrap());
    assert_eq!((store.reads(), cache.stats().resident_bytes), (0, 3 * PAGE));
    cache.discard(&pointer);
    assert!(cache.peek(&pointer, &guard).is_none());
    assert_content(&pointer, &cache.get(&pointer, &guard, Purpose::Lookup).unwrap());
    assert_eq!(store.reads(), 1);
    drop(guard);
    assert_sound(&cache);
}

#[test]
fn a_node_ref_stays_valid_while_its_guard_lives_whatever_is_evicted() {
    let mut store = Store::new(1);
    let pointers = store.write_many(4000, 1);
    let cache = store.cache(MIB);
    let guard = cache.epochs().pin();
    let first = cache.get(&pointers[0], &guard, Purpose::Lookup).unwrap();
    assert!(first.is_cached());
    for pointer in &pointers[1..] {
        assert_content(pointer, &cache.get(pointer, &guard, Purpose::Lookup).unwrap());
    }
    assert_content(&pointers[0], &first);
    assert!(
        cache.stats().private_reads > 0,
        "no frame comes free under one guard"
    );
    drop(guard);
    assert_sound(&cache);
    assert_eq!(cache.stats().private_bytes, 0);
}

#[test]
fn a_frame_ref_outlives_guards_and_keeps_its_frame() {
    let mut store = Store::new(1);
    let pointers = store.write_many(3000, 1);
    let cache = store.cache(MIB);
    let kept: Vec<FrameRef> = pointers[..50]
        .iter()
        .map(|pointer| {
            let guard = cache.epochs().pin();
            cache.get(pointer, &guard, Purpose::Lookup).unwrap().retain()
        })
        .collect();
    assert_eq!(cache.stats().pinned_bytes, 50 * PAGE);
    let clones = kept.clone();
    for pointer in &pointers {
        let guard = cache.epochs().pin();
        assert_content(pointer, &cache.get(pointer, &guard, Purpose::Lookup).unwrap());
    }
    drop(kept);
    assert_eq!(cache.stats().pinned_bytes, 50 * PAGE);
    assert_sound(&cache);
    std::thread::scope(|scope| {
        for (pointer, clone) in pointers.iter().zip(clones) {
            scope.spawn(move || assert_content(pointer, &clone));
        }
    });
    assert_eq!(cache.stats().pinned_bytes, 0);
    assert_sound(&cache);
}

#[test]
fn a_frame_ref_outlives_the_cache() {
    let mut store = Store::new(1);
    let pointer = store.write(0, 1, 1, NodeCodec::None);
    let cache = store.cache(MIB);
    let guard = cache.epochs().pin();
    let kept = cache.get(&pointer, &guard, Purpose::Lookup).unwrap().retain();
    drop(guard);
    drop(cache);
    assert_content(&pointer, &kept);
}

#[test]
fn when_every_frame_is_pinned_reads_are_served_from_private_memory() {
    let mut store = Store::new(1);
    let pointers = store.write_many(600, 1);
    let cache = store.cache(MIB);
    let mut kept = Vec::new();
    for pointer in &pointers {
        let guard = cache.epochs().pin();
        let node = cache.get(pointer, &guard, Purpose::Lookup).unwrap();
        assert_content(pointer, &node);
        kept.push((pointer, node.retain()));
    }
    let stats = cache.stats();
    assert!(stats.private_reads > 300, "{stats:?}");
    assert_eq!(stats.private_bytes, stats.private_reads * PAGE);
    for (pointer, node) in &kept {
        assert_content(pointer, node);
    }
    drop(kept);
    assert_eq!(cache.stats().private_bytes, 0);
    assert_sound(&cache);
    let before = cache.stats().private_reads;
    for pointer in &pointers {
        let guard = cache.epochs().pin();
        assert_content(pointer, &cache.get(pointer, &guard, Purpose::Lookup).unwrap());
    }
    let after = cache.stats().private_reads - before;
    assert!(
        after < 60,
        "{after} of 600 reads found no frame after all were let go"
    );
}

#[test]
#[should_panic(expected = "of other epochs")]
fn a_guard_of_other_epochs_is_refused() {
    let mut store = Store::new(1);
    let pointer = store.write(0, 1, 1, NodeCodec::None);
    let cache = store.cache(MIB);
    let guard = Epochs::new().pin();
    let _ = cache.peek(&pointer, &guard);
}

#[test]
fn the_region_covers_the_frames_and_its_memory_is_never_given_back() {
    let mut store = Store::new(1);
    let pointers = store.write_many(1000, 1);
    let cache = store.cache(4 * MIB);
    let region = cache.memory_region();
    assert!(region.len as u64 > 3 * MIB && region.len as u64 <= 4 * MIB);
    store.directory.register_memory(region.clone());
    for pointer in &pointers {
        let guard = cache.epochs().pin();
        let node = cache.get(pointer, &guard, Purpose::Lookup).unwrap();
        if node.is_cached() {
            let at = node.as_ptr() as usize - region.start.as_ptr() as usize;
            assert!(at < region.len);
        }
    }
    cache.set_budget(MIB).unwrap();
    cache.set_budget(4 * MIB).unwrap();
    for pointer in &pointers {
        let guard = cache.epochs().pin();
        assert_content(pointer, &cache.get(pointer, &guard, Purpose::Lookup).unwrap());
    }
    assert_sound(&cache);
}

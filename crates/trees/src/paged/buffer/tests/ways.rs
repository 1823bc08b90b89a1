//! Tests of pins through hints that are stored for references, and of reads without latches.

use super::*;

fn with(directory: &dyn Directory, frames: usize, pins: PinPolicy, shards: usize) -> PagePool {
    let options = PoolOptions {
        pins,
        shards,
        memory_bytes: frames * (PAGE + pins.bytes_beside(PAGE)),
        ..options(frames)
    };
    PagePool::create(directory, "pages", 0xa11, options, validate()).unwrap()
}

#[test]
fn references_of_a_node_remember_each_for_itself_until_it_leaves_its_frame() {
    let pool = with(&MemoryDirectory::new(), 16, PinPolicy::Swizzled, 1);
    fill(&pool, 64);
    // One node per eight frames can have hints, which allows only two nodes here.
    let [one, two, three] = [1, 2, 3].map(|page| pool.pin_shared(page).unwrap());
    for place in 0..16 {
        pool.way(&one, place).unwrap().set(place);
    }
    assert!((0..16).all(|place| pool.way(&one, place).unwrap().get() == Some(place)));
    assert!(pool.way(&two, 0).is_some() && pool.way(&three, 0).is_none());
    drop((one, two));
    use_twice(&pool, 10..64);
    use_twice(&pool, 10..64);
    assert!(
        pool.way(&three, 0).is_some(),
        "the others are not in memory any more"
    );
    let locked = with(&MemoryDirectory::new(), 16, PinPolicy::Optimistic, 1);
    fill(&locked, 1);
    assert!(locked.way(&locked.pin_shared(0).unwrap(), 0).is_none());
}

/// Reads a page often enough that a snapshot is made.
fn read_often(pool: &PagePool, page: u64, way: &FrameHint) {
    for _ in 0..12 {
        pool.offer(&pool.pin_shared_by(page, Some(way)).unwrap());
    }
}

/// Pins pages often enough that other pages are evicted.
fn use_twice(pool: &PagePool, pages: std::ops::Range<u64>) {
    for page in pages {
        (0..2).for_each(|_| drop(pool.pin_shared(page).unwrap()));
    }
}

#[test]
fn a_reference_remembers_the_frame_and_needs_no_mutex() {
    let pool = with(&MemoryDirectory::new(), 16, PinPolicy::Swizzled, 1);
    fill(&pool, 16);
    let ways: Vec<FrameHint> = (0..16).map(|_| FrameHint::new()).collect();
    let pin = |page: u64| get(&pool.pin_shared_by(page, Some(&ways[page as usize])).unwrap());
    (0..16).for_each(|page| assert_eq!(pin(page), page));
    let before = pool.locked_pins();
    for page in (0..16).chain(0..16) {
        assert_eq!(pin(page), page);
        let mut page = pool.pin_exclusive_by(page, Some(&ways[page as usize])).unwrap();
        page[0] = 1;
    }
    assert_eq!(pool.locked_pins(), before);
    drop(pool.pin_shared(3).unwrap());
    assert_eq!(pool.locked_pins(), before + 1, "nothing remembers this one");
}

#[test]
fn a_reference_whose_page_was_evicted_finds_it_again() {
    let pool = with(&MemoryDirectory::new(), 8, PinPolicy::Swizzled, 1);
    fill(&pool, 64);
    let ways: Vec<FrameHint> = (0..64).map(|_| FrameHint::new()).collect();
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..4000 {
        let page = rng.u64(..64);
        // Each frame has contained many pages, so every hint is out of date.
        let way = &ways[page as usize];
        let found = pool.pin_shared_by(page, Some(way)).unwrap();
        assert_eq!((found.number(), get(&found)), (page, page));
        let other = &ways[rng.usize(..64)];
        let number = other.get().unwrap_or_default();
        way.set(number);
    }
}

#[test]
fn a_page_that_leaves_its_frame_is_not_read_there_any_more() {
    for pins in [PinPolicy::Optimistic, PinPolicy::Swizzled] {
        let pool = with(&MemoryDirectory::new(), 16, pins, 1);
        pool.keep_snapshots();
        fill(&pool, 64);
        let ways: Vec<FrameHint> = (0..64).map(|_| FrameHint::new()).collect();
        read_often(&pool, 5, &ways[5]);
        let peek = pool.peek(5, Some(&ways[5])).unwrap();
        assert!((peek.word(0) >> 8) & 255 == 5 && peek.is_unchanged());
        // Use other pages until the page is evicted.
        while peek.is_unchanged() {
            use_twice(&pool, 20..64);
        }
        assert!(pool.peek(5, Some(&ways[5])).is_none());
        read_often(&pool, 5, &ways[5]);
        assert!(pool.peek(5, Some(&ways[5])).is_some() && !peek.is_unchanged());
        // A hint to another page's frame does not find this page.
        assert!(pool.peek(6, Some(&ways[5])).is_none());
    }
}

#[test]
fn a_page_that_is_read_without_pins_stays_in_memory() {
    let pool = with(&MemoryDirectory::new(), 16, PinPolicy::Swizzled, 1);
    pool.keep_snapshots();
    fill(&pool, 64);
    let way = FrameHint::new();
    read_often(&pool, 5, &way);
    for page in (6..64).chain(6..64) {
        use_twice(&pool, page..page + 1);
        assert!(pool.peek(5, Some(&way)).is_some(), "as long as it is used");
    }
    let before = pool.statistics().reads;
    drop(pool.pin_shared(5).unwrap());
    assert_eq!(pool.statistics().reads, before);
}

#[test]
fn snapshots_take_the_memory_of_frames() {
    for shards in [1, 2] {
        let options = PoolOptions {
            page_bytes: 1024,
            memory_bytes: 64 * shards * 1024,
            shards,
            ..options(64)
        };
        let pool = PagePool::create(&MemoryDirectory::new(), "pages", 1, options, validate()).unwrap();
        pool.keep_snapshots();
        pool.keep_snapshots();
        fill(&pool, 200);
        let large = pool
            .frames
            .made()
            .filter(|frame| frame.latch.read().bytes().len() == 1024);
        assert_eq!(
            large.count(),
            56 * shards,
            "an eighth of the frames has no memory"
        );
        let is_there = |page: &u64| {
            pool.shards
                .iter()
                .any(|shard| shard.lock().frame_of(*page).is_some())
        };
        assert_eq!((0..200).filter(is_there).count(), 56 * shards);
    }
    let few = with(&MemoryDirectory::new(), 8, PinPolicy::Optimistic, 1);
    few.keep_snapshots();
    fill(&few, 20);
}

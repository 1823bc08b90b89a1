//! Tests of concurrent pins, writes and evictions of the same page.

use super::*;
use alluvium_device::DeviceOperation;
use alluvium_device::simulated::SimDirectory;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

type Slot = Arc<OnceLock<Arc<PagePool>>>;

/// Calls `act` with each page that is about to be written, until `act` returns true.
fn during_writes(
    directory: &SimDirectory,
    act: impl Fn(&PagePool, u64) -> bool + Send + 'static,
) -> (Slot, Arc<AtomicBool>) {
    let (slot, done) = (Slot::default(), Arc::new(AtomicBool::new(false)));
    let (pool, acted) = (Arc::clone(&slot), Arc::clone(&done));
    directory.on_operation(move |point| {
        let is_page =
            point.operation == DeviceOperation::Write && point.file == "pages" && point.offset >= 8192;
        if let Some(pool) = pool.get()
            && is_page
            && !acted.load(Ordering::SeqCst)
        {
            let page = (point.offset - 8192) / PAGE as u64;
            acted.store(act(pool, page), Ordering::SeqCst);
        }
    });
    (slot, done)
}

#[test]
fn a_page_that_is_changed_while_it_is_written_keeps_the_change() {
    let directory = SimDirectory::new(3);
    let pool = Arc::new(create(&directory, 8));
    fill(&pool, 8);
    let (slot, done) = during_writes(&directory, |pool, page| {
        set(&mut pool.pin_exclusive(page).unwrap(), 1000 + page);
        true
    });
    slot.set(Arc::clone(&pool)).unwrap();
    fill(&pool, 30);
    assert!(done.load(Ordering::SeqCst), "a page was written");
    let values: Vec<u64> = (0..38).map(|page| get(&pool.pin_shared(page).unwrap())).collect();
    let changed: Vec<u64> = values.iter().copied().filter(|value| *value >= 1000).collect();
    assert_eq!(changed.len(), 1, "{values:?}");
    assert!(
        values
            .iter()
            .enumerate()
            .all(|(page, value)| value % 1000 == page as u64)
    );
}

#[test]
fn a_page_that_is_pinned_while_it_is_written_stays() {
    let directory = SimDirectory::new(3);
    let pool = Arc::new(create(&directory, 8));
    fill(&pool, 8);
    let (slot, done) = during_writes(&directory, |pool, page| {
        let before = pool.statistics().reads;
        assert_eq!(get(&pool.pin_shared(page).unwrap()), page);
        assert_eq!(
            pool.statistics().reads,
            before,
            "the page is in its frame while it is written"
        );
        true
    });
    slot.set(Arc::clone(&pool)).unwrap();
    fill(&pool, 8);
    assert!(done.load(Ordering::SeqCst));
}

#[test]
fn an_eviction_during_another_takes_other_pages() {
    let directory = SimDirectory::new(3);
    let pool = Arc::new(create(&directory, 64));
    fill(&pool, 64);
    let writes: Arc<std::sync::Mutex<Vec<u64>>> = Arc::default();
    let noted = Arc::clone(&writes);
    let (slot, done) = during_writes(&directory, move |pool, page| {
        noted.lock().unwrap().push(page);
        // The first 32 pages are being written, so these three pages need other frames.
        fill(pool, 3);
        true
    });
    slot.set(Arc::clone(&pool)).unwrap();
    fill(&pool, 1);
    assert!(done.load(Ordering::SeqCst) && writes.lock().unwrap().len() == 1);
    for page in 0..68 {
        assert_eq!(get(&pool.pin_shared(page).unwrap()), page);
    }
    assert_eq!(pool.pinned(), 0);
}

#[test]
fn hits_go_on_while_an_eviction_waits_for_the_device() {
    let directory = SimDirectory::new(3);
    let pool = Arc::new(create(&directory, 8));
    fill(&pool, 8);
    let (began, begins) = mpsc::channel();
    let (finish, finished) = mpsc::channel::<()>();
    let (slot, done) = during_writes(&directory, move |_, page| {
        began.send(page).unwrap();
        finished.recv().unwrap();
        true
    });
    slot.set(Arc::clone(&pool)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| fill(&pool, 1));
        let page = begins.recv().unwrap();
        // The page counts as being written until the message below is sent.
        for other in 0..8 {
            assert_eq!(
                get(&pool.pin_shared(other).unwrap()),
                other,
                "while {page} is written"
            );
        }
        finish.send(()).unwrap();
    });
    assert!(done.load(Ordering::SeqCst));
}

#[test]
fn a_page_that_many_want_is_read_once() {
    let directory = MemoryDirectory::new();
    let pool = create(&directory, 8);
    fill(&pool, 64);
    for round in 0..100 {
        let page = round % 64;
        (0..64)
            .filter(|other| *other != page)
            .for_each(|other| drop(pool.pin_shared(other).unwrap()));
        let before = pool.statistics().reads;
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert_eq!(get(&pool.pin_shared(page).unwrap()), page));
            }
        });
        assert_eq!(pool.statistics().reads, before + 1);
    }
}

#[test]
fn who_waits_for_a_read_that_fails_reads_again() {
    for is_exclusive in [false, true] {
        let directory = MemoryDirectory::new();
        let (slot, is_first) = (Slot::default(), AtomicBool::new(true));
        let (began, begins) = mpsc::channel();
        let reading = Arc::clone(&slot);
        let refuse_once = move |_: &[u8]| {
            let Some(pool) = reading.get().filter(|_| is_first.swap(false, Ordering::SeqCst)) else {
                return Ok(());
            };
            began.send(()).unwrap();
            // The other thread has pinned the frame and is waiting for its latch.
            let is_awaited = |frame: &frame::PageFrame| frame.pins.load(Ordering::SeqCst) == 2;
            while !pool.frames.made().any(is_awaited) {
                std::thread::yield_now();
            }
            Err("another page".to_owned())
        };
        let pool = PagePool::create(&directory, "pages", 5, options(8), Arc::new(refuse_once)).unwrap();
        fill(&pool, 64);
        let pool = Arc::new(pool);
        slot.set(Arc::clone(&pool)).unwrap();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| pool.pin_shared(1).map(drop));
            begins.recv().unwrap();
            if is_exclusive {
                let page = pool.pin_exclusive(1).unwrap();
                assert_eq!((page.number(), get(&page)), (1, 1));
            } else {
                let page = pool.pin_shared(1).unwrap();
                assert_eq!((page.number(), get(&page)), (1, 1));
            }
            let error = reader.join().unwrap().unwrap_err().to_string();
            assert!(
                error.contains("damaged") && error.contains("in page 1"),
                "{error}"
            );
        });
    }
}

#[test]
fn a_page_that_is_pinned_or_dirty_is_not_evicted() {
    let directory = MemoryDirectory::new();
    let pool = create(&directory, 8);
    fill(&pool, 4);
    pool.checkpoint(&[]).unwrap();
    let evict = || {
        let mut state = pool.shards[0].lock();
        let frame = state.frame_of(2).unwrap();
        pool.evict(&mut state, frame)
    };
    let pinned = pool.pin_shared(2).unwrap();
    assert!(!evict());
    drop(pinned);
    set(&mut pool.pin_exclusive(2).unwrap(), 70);
    assert!(!evict(), "it is not on the device");
    pool.checkpoint(&[]).unwrap();
    assert_eq!(pool.statistics().reads, 0);
    assert!(evict());
    assert_eq!(
        (get(&pool.pin_shared(2).unwrap()), pool.statistics().reads),
        (70, 1)
    );
}

/// Returns whether the options store hints for references.
fn is_remembered(_options: &PoolOptions) -> bool {
    #[cfg(feature = "couplings")]
    return _options.pins == PinPolicy::Swizzled;
    #[cfg(not(feature = "couplings"))]
    false
}

/// Returns whether the options allow reads without a latch.
fn can_peek(_options: &PoolOptions) -> bool {
    #[cfg(feature = "couplings")]
    return _options.pins != PinPolicy::Locked;
    #[cfg(not(feature = "couplings"))]
    false
}

/// Reads a page often enough that a snapshot is made, and then reads the snapshot. Its value must
/// be at least the value that `added` had before.
#[cfg(feature = "couplings")]
fn peek_at(
    pool: &PagePool,
    latched: PageReadGuard<'_>,
    way: Option<&FrameHint>,
    added: &AtomicU64,
    peeks: &AtomicU64,
) {
    (0..12).for_each(|_| pool.offer(&latched));
    let page = latched.number();
    drop(latched);
    let before = added.load(Ordering::SeqCst);
    if let Some(peek) = pool.peek(page, way) {
        let value = peek.word(0) >> 8 | peek.word(1) << 56;
        assert!(value >= before || !peek.is_unchanged(), "an old state");
        peeks.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(not(feature = "couplings"))]
fn peek_at(_: &PagePool, _: PageReadGuard<'_>, _: Option<&FrameHint>, _: &AtomicU64, _: &AtomicU64) {}

/// Returns the options for each kind of pool.
#[cfg(feature = "couplings")]
fn bases() -> Vec<PoolOptions> {
    let all = [
        (PinPolicy::Locked, 1),
        (PinPolicy::Optimistic, 1),
        (PinPolicy::Swizzled, 1),
        (PinPolicy::Locked, 3),
        (PinPolicy::Swizzled, 2),
    ];
    let base = |(pins, shards)| PoolOptions {
        pins,
        shards,
        ..options(0)
    };
    all.map(base).to_vec()
}

#[cfg(not(feature = "couplings"))]
fn bases() -> Vec<PoolOptions> {
    let base = |shards| PoolOptions { shards, ..options(0) };
    [1, 3].map(base).to_vec()
}

/// Increments numbers in random pages from several threads. No increment may be lost.
fn add_up(pages: u64, frames: usize, threads: u64, policy: QueuePolicy, base: PoolOptions) {
    let directory = MemoryDirectory::new();
    let shards = base.shards;
    let options = PoolOptions {
        policy,
        // Most threads need a frame that another thread is using, which may take long on a busy
        // machine.
        longest_wait: Duration::from_secs(60),
        // All pools of a kind must have the same number of frames.
        memory_bytes: frames * shards * (PAGE + base.bytes_beside()),
        ..base
    };
    let pool = PagePool::create(&directory, "pages", 5, options, validate()).unwrap();
    let ways: Vec<FrameHint> = (0..pages).map(|_| FrameHint::new()).collect();
    let way = |page: u64| is_remembered(&options).then(|| &ways[page as usize]);
    let peeks = AtomicU64::new(0);
    #[cfg(feature = "couplings")]
    pool.keep_snapshots();
    (0..pages).for_each(|_| set(&mut pool.allocate().unwrap(), 0));
    pool.checkpoint(&[]).unwrap();
    let added: Vec<AtomicU64> = (0..pages).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for seed in 0..threads {
            let (pool, added, way, peeks) = (&pool, &added, &way, &peeks);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(seed);
                for _ in 0..3000 {
                    let page = rng.u64(..pages);
                    if rng.bool() {
                        let mut page = pool.pin_exclusive_by(page, way(page)).unwrap();
                        let value = get(&page);
                        set(&mut page, value + 1);
                        added[page.number() as usize].fetch_add(1, Ordering::SeqCst);
                    } else {
                        let before = added[page as usize].load(Ordering::SeqCst);
                        let latched = pool.pin_shared_by(page, way(page)).unwrap();
                        assert!(get(&latched) >= before);
                        peek_at(pool, latched, way(page), &added[page as usize], peeks);
                    }
                }
            });
        }
    });
    for page in 0..pages {
        assert_eq!(
            get(&pool.pin_shared(page).unwrap()),
            added[page as usize].load(Ordering::SeqCst)
        );
    }
    let counted = pool.statistics();
    assert!((counted.images > 0) == (frames * shards < pages as usize) && pool.pinned() == 0);
    let is_peeked = can_peek(&options) && frames > 8;
    assert_eq!(peeks.into_inner() > 0, is_peeked, "{options:?}");
    assert_eq!(
        counted.hits + counted.reads,
        threads * 3000 + pages,
        "each pin is counted once"
    );
}

#[test]
fn no_change_is_lost_with_more_threads_than_processors_and_few_frames() {
    for base in bases() {
        let shards = base.shards;
        add_up(200, 8, 4, QueuePolicy::Fifo, base);
        add_up(200, 16, 8, QueuePolicy::Quarter, base);
        add_up(200, 48, 8, QueuePolicy::Fifo, base);
        // Most pins find their page in memory, and each page that is read evicts a page that other
        // threads need.
        add_up(12 * shards as u64, 8, 4, QueuePolicy::Fifo, base);
        add_up(20 * shards as u64, 16, 6, QueuePolicy::Quarter, base);
        // All pages fit into memory, so every pin but a page's first finds the page in memory.
        add_up(200, 256, 4, QueuePolicy::Quarter, base);
    }
}

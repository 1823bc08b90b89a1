//! Many concurrent reads on one thread, with futures in several executors, and in windows.

use alluvium::simulation::DirectoryOpener as _;
use alluvium::{Db, Error, ErrorKind, Keyspace, OpenMode, Options};
use alluvium_device::memory::MemoryDirectory;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Wake, Waker};

/// Number of keys, whose records exceed the caches of 16 MiB.
const KEYS: u64 = 120_000;

fn options() -> Options {
    Options::new().memory(16 << 20).record_memory(256 << 10)
}

fn key(number: u64) -> Vec<u8> {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec()
}

fn value(number: u64) -> Vec<u8> {
    [&number.to_le_bytes()[..], &[number as u8; 192]].concat()
}

/// Returns a store whose data is on disk and mostly not in memory.
fn filled(place: &tempfile::TempDir) -> (Db, Keyspace) {
    let db = options().open(place.path().join("store")).unwrap();
    let keyspace = db.keyspace("numbers").unwrap();
    for number in 0..KEYS {
        keyspace.put(key(number), value(number)).unwrap();
    }
    db.checkpoint().unwrap();
    (db, keyspace)
}

/// A waker that sends the number of its task to the executor below.
struct Number(u64, Sender<u64>);

impl Wake for Number {
    fn wake(self: Arc<Self>) {
        // The executor may have ended.
        let _ = self.1.send(self.0);
    }
}

/// A single-threaded executor that polls at most `at_once` of `futures` at a time and passes each
/// result to `done`. Returns how many polls were pending.
fn run<F: Future + Unpin>(
    mut futures: impl Iterator<Item = (u64, F)>,
    at_once: usize,
    mut done: impl FnMut(u64, F::Output),
) -> usize {
    let (send, woken) = channel();
    let mut under_way: HashMap<u64, F> = HashMap::new();
    let mut pending = 0;
    loop {
        let number = if under_way.len() < at_once
            && let Some((number, future)) = futures.next()
        {
            under_way.insert(number, future);
            number
        } else if under_way.is_empty() {
            return pending;
        } else {
            woken.recv().expect("this thread has a sender")
        };
        // The task may have been woken more than once.
        let Some(future) = under_way.get_mut(&number) else {
            continue;
        };
        let waker = Waker::from(Arc::new(Number(number, send.clone())));
        match Pin::new(future).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => {
                under_way.remove(&number);
                done(number, output);
            }
            Poll::Pending => pending += 1,
        }
    }
}

/// A waker that counts its calls.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn poll_once<F: Future + Unpin>(future: &mut F, count: &Arc<Count>) -> Poll<F::Output> {
    let waker = Waker::from(Arc::clone(count));
    Pin::new(future).poll(&mut Context::from_waker(&waker))
}

#[test]
fn what_is_in_memory_is_ready_at_the_first_poll() {
    let db = options().open_in(Arc::new(MemoryDirectory::new())).unwrap();
    let keyspace = db.keyspace("numbers").unwrap();
    for number in 0..1000 {
        keyspace.put(key(number), value(number)).unwrap();
    }
    let count = Arc::new(Count::default());
    for checkpointed in [false, true] {
        for number in 0..1000 {
            let found = poll_once(&mut keyspace.get_async(key(number)), &count);
            assert!(matches!(found, Poll::Ready(Ok(Some(found))) if found == value(number)[..]));
        }
        let Poll::Ready(Ok(found)) = poll_once(&mut keyspace.multi_get_async((0..2000).map(key)), &count)
        else {
            panic!("many are ready, too; checkpointed: {checkpointed}");
        };
        assert_eq!(found.iter().flatten().count(), 1000);
        db.checkpoint().unwrap();
    }
    assert_eq!(count.0.load(Ordering::Relaxed), 0, "nobody is woken");
}

#[test]
fn hundreds_of_futures_on_one_thread_read_what_is_there() {
    let place = tempfile::tempdir().unwrap();
    let (db, keyspace) = filled(&place);
    let snapshot = db.snapshot();
    for number in 0..KEYS {
        if number % 3 == 0 {
            keyspace.delete(key(number)).unwrap();
        }
    }
    let numbers = (0..KEYS * 2).step_by(7);
    let now = numbers
        .clone()
        .map(|number| (number, keyspace.get_async(key(number))));
    let mut seen = 0;
    let pending = run(now, 300, |number, found| {
        let there = number < KEYS && number % 3 != 0;
        assert_eq!(
            found.unwrap().map(Vec::from),
            there.then(|| value(number)),
            "{number}"
        );
        seen += 1;
    });
    assert_eq!(seen, numbers.clone().count());
    assert!(pending > 1000, "{pending} had to wait for the device");
    let before = numbers.map(|number| (number, snapshot.get_async(&keyspace, key(number))));
    run(before, 300, |number, found| {
        let there = number < KEYS;
        assert_eq!(
            found.unwrap().map(Vec::from),
            there.then(|| value(number)),
            "{number}"
        );
    });
    let batches = (0..KEYS).step_by(100);
    let many = batches.map(|from| (from, keyspace.multi_get_async((from..from + 100).map(key))));
    run(many, 20, |from, found| {
        for (number, found) in (from..).zip(found.unwrap()) {
            assert_eq!(
                found.map(Vec::from),
                (number % 3 != 0).then(|| value(number)),
                "{number}"
            );
        }
    });
}

#[test]
fn tasks_of_an_executor_with_many_threads_read_what_is_there() {
    let place = tempfile::tempdir().unwrap();
    let (db, keyspace) = filled(&place);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(3)
        .build()
        .unwrap();
    let tasks: Vec<_> = (0..50)
        .map(|task| {
            let keyspace = keyspace.clone();
            runtime.spawn(async move {
                for turn in 0..300 {
                    let number = (task * 7919 + turn * 104_729) % KEYS;
                    let found = keyspace.get_async(key(number)).await.unwrap();
                    assert_eq!(found.unwrap(), value(number)[..]);
                }
                300
            })
        })
        .collect();
    let mut reads = 0;
    for task in tasks {
        reads += runtime.block_on(task).unwrap();
    }
    assert_eq!(reads, 15_000);
    drop(keyspace);
    db.close().unwrap();
}

#[test]
fn futures_read_what_was_committed_before_them_while_the_tree_changes() {
    let place = tempfile::tempdir().unwrap();
    let (db, keyspace) = filled(&place);
    // Key n holds n plus a growing multiple of KEYS.
    let rounds: Arc<Vec<AtomicU64>> = Arc::new((0..KEYS).map(|_| AtomicU64::new(0)).collect());
    let enough = Arc::new(AtomicBool::new(false));
    let writer = {
        let (keyspace, rounds, enough) = (keyspace.clone(), Arc::clone(&rounds), Arc::clone(&enough));
        std::thread::spawn(move || {
            let mut random = fastrand::Rng::with_seed(1);
            let mut written = 0;
            while !enough.load(Ordering::Relaxed) || written < 100_000 {
                let number = random.u64(..KEYS);
                let round = rounds[number as usize].load(Ordering::SeqCst) + 1;
                keyspace.put(key(number), value(number + round * KEYS)).unwrap();
                rounds[number as usize].store(round, Ordering::SeqCst);
                written += 1;
            }
        })
    };
    let mut random = fastrand::Rng::with_seed(2);
    let mut least = HashMap::new();
    let check = |tag: u64, found: Option<alluvium::Value>, least: &HashMap<u64, (u64, u64)>| {
        let (number, least) = least[&tag];
        let held = u64::from_le_bytes(found.unwrap()[..8].try_into().unwrap());
        let most = rounds[number as usize].load(Ordering::SeqCst) + 1;
        assert_eq!(held % KEYS, number);
        assert!(
            (least..=most).contains(&(held / KEYS)),
            "{number}: {held} is not of {least}..={most}"
        );
    };
    let mut reads = db.reads();
    for tag in 0..15_000 {
        let number = random.u64(..KEYS);
        least.insert(tag, (number, rounds[number as usize].load(Ordering::SeqCst)));
        reads.get(&keyspace, key(number), tag).unwrap();
        if reads.len() == 64 {
            let (tag, found) = reads.wait().unwrap();
            check(tag, found.unwrap(), &least);
        }
    }
    while let Some((tag, found)) = reads.wait() {
        check(tag, found.unwrap(), &least);
    }
    let picks: Vec<(u64, u64)> = (0..10_000).map(|tag| (tag, random.u64(..KEYS))).collect();
    let least = std::cell::RefCell::new(HashMap::new());
    let futures = picks.into_iter().map(|(tag, number)| {
        let round = rounds[number as usize].load(Ordering::SeqCst);
        least.borrow_mut().insert(tag, (number, round));
        (tag, keyspace.get_async(key(number)))
    });
    run(futures, 64, |tag, found| {
        check(tag, found.unwrap(), &least.borrow());
    });
    enough.store(true, Ordering::Relaxed);
    writer.join().unwrap();
}

#[test]
fn a_window_answers_every_read_once_from_now_and_from_a_snapshot() {
    let place = tempfile::tempdir().unwrap();
    let (db, keyspace) = filled(&place);
    let snapshot = db.snapshot();
    keyspace.delete_range(&[][..], None).unwrap();
    let mut reads = db.reads();
    let mut answers = vec![0; KEYS as usize];
    let mut take = |(number, is_kept): (u64, bool), found: alluvium::Result<Option<alluvium::Value>>| {
        assert_eq!(
            found.unwrap().map(Vec::from),
            is_kept.then(|| value(number)),
            "{number}"
        );
        answers[number as usize] += 1;
    };
    for number in (0..KEYS).step_by(11) {
        reads
            .get_in(&snapshot, &keyspace, key(number), (number, true))
            .unwrap();
        reads.get(&keyspace, key(number), (number, false)).unwrap();
        if let Some((tag, found)) = reads.poll() {
            take(tag, found);
        }
        while reads.len() >= 100 {
            let (tag, found) = reads.wait().unwrap();
            take(tag, found);
        }
    }
    while let Some((tag, found)) = reads.wait() {
        take(tag, found);
    }
    assert!(reads.is_empty() && reads.poll().is_none());
    assert!(answers.iter().step_by(11).all(|&answers| answers == 2));
}

#[test]
fn reads_that_nobody_wants_any_more_keep_nobody_waiting() {
    let place = tempfile::tempdir().unwrap();
    let (db, keyspace) = filled(&place);
    let count = Arc::new(Count::default());
    let mut kept = Vec::new();
    let mut reads = db.reads();
    for number in (0..KEYS).step_by(50) {
        let mut future = keyspace.get_async(key(number));
        if poll_once(&mut future, &count).is_pending() && number % 100 == 0 {
            kept.push((number, future));
        }
        reads.get(&keyspace, key(number + 1), ()).unwrap();
        let _ = reads.poll();
    }
    assert!(kept.len() > 100, "{} wait for the device", kept.len());
    // The futures are not polled. The store must keep working, and close.
    for number in 0..50_000 {
        keyspace.put(key(number), value(number + 1)).unwrap();
    }
    db.checkpoint().unwrap();
    db.compact().unwrap();
    let (polled, closed) = kept.split_at_mut(50);
    for (number, future) in polled {
        let number = *number;
        run([(number, future)].into_iter(), 1, |number, found| {
            let wanted = if number < 50_000 { number + 1 } else { number };
            assert_eq!(found.unwrap().unwrap(), value(wanted)[..]);
        });
    }
    db.close().unwrap();
    for (_, future) in closed {
        let mut is_closed = false;
        run([(0, future)].into_iter(), 1, |_, found| {
            is_closed = matches!(found, Err(Error::Closed));
        });
        assert!(is_closed);
    }
    assert!(count.0.load(Ordering::Relaxed) > 0, "whoever waited was woken");
}

#[test]
fn a_keyspace_that_is_gone_fails_at_once() {
    let db = options().open_in(Arc::new(MemoryDirectory::new())).unwrap();
    let other = options().open_in(Arc::new(MemoryDirectory::new())).unwrap();
    let keyspace = db.keyspace("numbers").unwrap();
    let elsewhere = other.keyspace("numbers").unwrap();
    assert!(matches!(
        db.reads().get(&elsewhere, "key", ()),
        Err(Error::OtherStore)
    ));
    let found = pollster::block_on(other.snapshot().get_async(&keyspace, "key"));
    assert!(matches!(found, Err(Error::OtherStore)));
    db.drop_keyspace("numbers").unwrap();
    assert!(matches!(
        db.reads().get(&keyspace, "key", ()),
        Err(Error::KeyspaceDropped { .. })
    ));
    for found in [
        pollster::block_on(keyspace.get_async("key")).map(|_| ()),
        pollster::block_on(keyspace.multi_get_async(["key"])).map(|_| ()),
    ] {
        assert!(matches!(found, Err(Error::KeyspaceDropped { .. })));
    }
}

#[test]
fn the_last_handle_may_be_a_future() {
    let place = tempfile::tempdir().unwrap();
    let (db, keyspace) = filled(&place);
    let count = Arc::new(Count::default());
    let mut future = (0..KEYS)
        .map(|number| keyspace.get_async(key(number)))
        .find_map(|mut future| poll_once(&mut future, &count).is_pending().then_some(future))
        .expect("some must wait");
    drop((db, keyspace));
    let found = loop {
        if let Poll::Ready(found) = poll_once(&mut future, &count) {
            break found;
        }
        std::thread::yield_now();
    };
    assert!(found.unwrap().is_some());
    drop(future);
    let path = place.path().join("store");
    // Another thread closes the store.
    let db = loop {
        match options().mode(OpenMode::Existing).open(&path) {
            Ok(db) => break db,
            Err(error) if error.kind() == ErrorKind::Locked => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(
        db.keyspace("numbers").unwrap().get(key(1)).unwrap().unwrap(),
        value(1)[..]
    );
}

#[test]
fn long_values_are_read_where_they_are_and_copied_when_somebody_keeps_many() {
    let place = tempfile::tempdir().unwrap();
    let db = options().open(place.path().join("store")).unwrap();
    let keyspace = db.keyspace("pictures").unwrap();
    let picture = |number: u64| vec![number as u8; 6_000 + number as usize % 100];
    for number in 0..1_500 {
        keyspace.put(key(number), picture(number)).unwrap();
        keyspace.put(key(number + 10_000), b"short").unwrap();
    }
    db.checkpoint().unwrap();
    let found = keyspace.get(key(1)).unwrap().unwrap();
    let again = keyspace.get(key(1)).unwrap().unwrap();
    assert!(again.is_in_page() && again == picture(1)[..]);
    assert!(!keyspace.get(key(10_001)).unwrap().unwrap().is_in_page());
    let owned = found.clone().into_owned();
    assert!(!owned.is_in_page() && owned == found && found.into_vec() == picture(1));
    // Even if a caller keeps all values, memory must be left for others.
    let mut kept = Vec::new();
    for number in 0..1_500 {
        kept.push(keyspace.get(key(number)).unwrap().unwrap());
    }
    let stats = db.stats();
    assert!(kept.iter().any(alluvium::Value::is_in_page) && !kept.iter().all(alluvium::Value::is_in_page));
    assert!(
        stats.cache.pinned_bytes > 0 && stats.cache.pinned_bytes < stats.cache.budget_bytes / 4,
        "{stats}"
    );
    for number in 0..1_500 {
        keyspace.delete(key(number)).unwrap();
    }
    db.compact().unwrap();
    db.close().unwrap();
    for (number, value) in (0..).zip(&kept) {
        assert_eq!(*value, picture(number)[..]);
    }
    assert_eq!(again, picture(1)[..]);
}

#[test]
fn a_walk_from_both_ends_with_seeks_is_as_it_is_over_a_map() {
    let db = Options::new()
        .memory(16 << 20)
        .open_in(Arc::new(MemoryDirectory::new()))
        .unwrap();
    let keyspace = db.keyspace("k").unwrap();
    let mut random = fastrand::Rng::with_seed(4);
    let keys: std::collections::BTreeSet<u8> = (0..20).map(|_| random.u8(0..40)).collect();
    for key in &keys {
        keyspace.put([*key], [*key]).unwrap();
    }
    for run in 0..400 {
        let (low, high) = (random.u8(0..15), random.u8(20..41));
        let mut walk = keyspace.range([low]..[high]);
        // The next keys at both ends.
        let (mut front, mut back) = (low, high);
        for step in 0..30 {
            let ahead = || keys.iter().copied().filter(|key| (front..back).contains(key));
            let (found, wanted) = match random.u32(0..5) {
                0 => {
                    let key = random.u8(0..42);
                    walk.seek([key]);
                    front = key.max(low);
                    continue;
                }
                1 | 2 => {
                    let wanted = ahead().next();
                    front = wanted.map_or(front, |key| key + 1);
                    (walk.next(), wanted)
                }
                _ => {
                    let wanted = ahead().next_back();
                    back = wanted.unwrap_or(back);
                    (walk.next_back(), wanted)
                }
            };
            let found = found.map(|pair| pair.unwrap().0[0]);
            assert_eq!(
                found, wanted,
                "run {run}, step {step}, {low}..{high}, now {front}..{back}"
            );
        }
    }
}

use super::*;
use std::thread;

#[test]
fn an_epoch_passes_only_when_everyone_pinned_has_seen_it() {
    let epochs = Epochs::new();
    let start = epochs.current();
    assert_eq!(epochs.try_advance(), start + 1);
    let guard = epochs.pin();
    assert_eq!(guard.epoch(), start + 1);
    assert_eq!(
        epochs.try_advance(),
        start + 2,
        "the guard has seen the epoch before"
    );
    for _ in 0..5 {
        assert_eq!(epochs.try_advance(), start + 2, "the guard is one epoch behind");
    }
    drop(guard);
    assert_eq!(epochs.try_advance(), start + 3);
    assert_eq!(epochs.safe(), start + 2);
}

#[test]
fn guards_of_one_thread_nest_and_drop_in_any_order() {
    let epochs = Epochs::new();
    let first = epochs.pin();
    epochs.try_advance();
    let second = epochs.pin();
    assert_eq!(
        first.epoch(),
        second.epoch(),
        "an inner guard protects what the outer one does"
    );
    drop(first);
    let stuck = epochs.current();
    assert_eq!(epochs.try_advance(), stuck);
    drop(second);
    assert_eq!(epochs.try_advance(), stuck + 1);
}

#[test]
fn a_hold_inherits_the_epoch_of_the_guard_and_outlives_its_thread() {
    let epochs = Epochs::new();
    let guard = epochs.pin();
    let unlinked_at = epochs.current();
    epochs.try_advance();
    let hold = epochs.hold();
    assert_eq!(hold.epoch(), guard.epoch());
    drop(guard);
    let other = thread::spawn(move || hold.clone()).join().unwrap();
    for _ in 0..5 {
        epochs.try_advance();
    }
    assert!(unlinked_at >= epochs.safe(), "the clone still holds it");
    drop(other);
    epochs.try_advance();
    assert!(unlinked_at < epochs.safe());
}

#[test]
fn slots_are_given_back_when_threads_end() {
    let epochs = Epochs::new();
    for _ in 0..200 {
        let epochs = epochs.clone();
        thread::spawn(move || drop(epochs.pin())).join().unwrap();
    }
    assert_eq!(epochs.shared.ledger.census(), (1, 0));
}

#[test]
fn threads_beyond_the_slots_are_counted_and_protected_alike() {
    let epochs = Epochs::new();
    let taken: Vec<usize> = std::iter::from_fn(|| epochs.shared.ledger.claim()).collect();
    assert_eq!(taken.len(), ledger::MAX_SLOTS);
    let guard = epochs.pin();
    assert_eq!(guard.slot(), None);
    let again = epochs.pin();
    let hold = epochs.hold();
    assert_eq!(epochs.shared.ledger.census().1, 3);
    let stuck = epochs.try_advance();
    assert_eq!(epochs.try_advance(), stuck);
    drop(guard);
    drop(hold);
    assert_eq!(epochs.try_advance(), stuck);
    drop(again);
    assert_eq!(epochs.try_advance(), stuck + 1);
    epochs.shared.ledger.give_back(taken[7]);
    assert_eq!(
        epochs.pin().slot(),
        Some(7),
        "a thread gets a slot as soon as there is one"
    );
}

#[test]
fn a_guard_may_outlive_every_handle_and_epochs_without_handles_are_forgotten() {
    let epochs = Epochs::new();
    let weak = Arc::downgrade(&epochs.shared);
    let guard = epochs.pin();
    drop(epochs);
    drop(Epochs::new().pin());
    assert!(weak.upgrade().is_some(), "the guard is alive");
    drop(guard);
    drop(Epochs::new().pin());
    assert!(weak.upgrade().is_none(), "the next claim forgets it");
}

#[test]
fn a_guard_in_a_thread_local_outlives_the_threads_claims() {
    thread_local! {
        static LATE: std::cell::RefCell<Option<EpochGuard>> = const { std::cell::RefCell::new(None) };
    }
    let epochs = Epochs::new();
    let theirs = epochs.clone();
    thread::spawn(move || {
        LATE.with(|late| *late.borrow_mut() = None);
        let guard = theirs.pin();
        LATE.with(|late| *late.borrow_mut() = Some(guard));
    })
    .join()
    .unwrap();
    let before = epochs.current();
    epochs.try_advance();
    assert!(
        epochs.try_advance() > before + 1,
        "the guard was dropped with its thread"
    );
}

#[test]
fn nothing_is_freed_under_a_reader() {
    const LINKS: usize = 4;
    const READERS: u64 = 2;
    const LOOKS: u64 = 20_000;
    // An object is a number, which its writer overwrites with zero once the epochs report that no
    // reader can reach it. Readers and writers continue until the other side has made enough
    // progress, so that the test does not depend on thread scheduling.
    let epochs = Epochs::new();
    let things: Vec<AtomicU64> = (0..LINKS * 64).map(|_| AtomicU64::new(1)).collect();
    let links: Vec<AtomicUsize> = (0..LINKS).map(AtomicUsize::new).collect();
    let (replaced, ended) = (AtomicU64::new(0), AtomicU64::new(0));
    let read = &|seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut looks = 0;
        while looks < LOOKS || replaced.load(Ordering::Relaxed) < LOOKS {
            let guard = epochs.pin();
            let thing = links[random.usize(..LINKS)].load(Ordering::Acquire);
            for _ in 0..random.u32(1..20) {
                assert_ne!(things[thing].load(Ordering::Relaxed), 0, "freed under a guard");
            }
            drop(guard);
            looks += 1;
        }
        ended.fetch_add(1, Ordering::Relaxed);
    };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS).map(|seed| scope.spawn(move || read(seed))).collect();
        let mut free: Vec<usize> = (LINKS..things.len()).collect();
        let mut limbo = std::collections::VecDeque::new();
        let mut random = fastrand::Rng::with_seed(9);
        while !readers.iter().all(thread::ScopedJoinHandle::is_finished) {
            epochs.try_advance();
            while let Some(&(epoch, thing)) = limbo.front()
                && epoch < epochs.safe()
            {
                limbo.pop_front();
                let thing: usize = thing;
                things[thing].store(0, Ordering::Relaxed);
                free.push(thing);
            }
            let Some(thing) = free.pop() else {
                thread::yield_now();
                continue;
            };
            things[thing].store(1, Ordering::Relaxed);
            let old = links[random.usize(..LINKS)].swap(thing, Ordering::AcqRel);
            limbo.push_back((epochs.current(), old));
            replaced.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert_eq!(
        ended.load(Ordering::Relaxed),
        READERS,
        "no reader saw a freed thing"
    );
}

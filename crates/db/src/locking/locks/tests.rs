use super::*;

fn lock<'t>(table: &'t LockTable, keys: &[(&[u8], LockMode)]) -> HeldLocks<'t> {
    let mut set = LockSet::default();
    for (key, mode) in keys {
        set.key(0, key, *mode);
    }
    table.lock(set)
}

#[test]
fn one_stripe_is_locked_once_in_its_strongest_mode() {
    let table = LockTable::new(1 << 16);
    let all = |modes: [LockMode; 3]| {
        let held = lock(&table, &modes.map(|mode| (&b"a"[..], mode)));
        assert_eq!(held.stripes.len(), 1);
        held.stripes[0].1
    };
    let (shared, blind, exclusive) = (LockMode::Shared, LockMode::Blind, LockMode::Exclusive);
    assert_eq!(all([shared, exclusive, shared]), exclusive);
    assert_eq!(all([shared, blind, shared]), exclusive);
    assert_eq!(all([blind; 3]), blind);
}

#[test]
fn everything_is_every_stripe_in_a_mode_as_strong_as_its_keys() {
    let table = LockTable::new(7);
    let mut set = LockSet::default();
    set.everything(LockMode::Blind);
    set.key(3, b"a", LockMode::Shared);
    let held = table.lock(set);
    assert_eq!(held.stripes.len(), 7);
    let exclusive = held
        .stripes
        .iter()
        .filter(|(_, mode)| *mode == LockMode::Exclusive);
    assert_eq!(exclusive.count(), 1);
    drop(held);
    assert!(
        table
            .stripes
            .iter()
            .all(|word| word.load(Ordering::Relaxed) == FREE)
    );
    assert!(LockSet::default().is_empty());
    assert_eq!(table.lock(LockSet::default()).stripes.len(), 0);
}

#[test]
fn equal_keys_of_different_spaces_are_different_keys() {
    let table = LockTable::new(1 << 16);
    let mut one = LockSet::default();
    one.key(0, b"a", LockMode::Exclusive);
    let _held = table.lock(one);
    let mut other = LockSet::default();
    other.key(1, b"a", LockMode::Exclusive);
    let _other = table.lock(other);
}

#[test]
fn readers_share_a_key_and_blind_writers_do_but_not_with_each_other() {
    let word = AtomicU32::new(FREE);
    for (mine, other) in [
        (LockMode::Shared, LockMode::Blind),
        (LockMode::Blind, LockMode::Shared),
    ] {
        assert!(try_acquire(&word, mine) && try_acquire(&word, mine));
        assert!(!try_acquire(&word, other) && !try_acquire(&word, LockMode::Exclusive));
        release(&word);
        assert!(!try_acquire(&word, other));
        release(&word);
    }
    assert!(try_acquire(&word, LockMode::Exclusive));
    for mode in [LockMode::Shared, LockMode::Blind, LockMode::Exclusive] {
        assert!(!try_acquire(&word, mode));
    }
    release(&word);
    assert_eq!(word.load(Ordering::Relaxed), FREE);
}

#[test]
fn a_thread_that_wants_a_key_alone_is_not_kept_waiting_by_those_that_share_it() {
    let word = AtomicU32::new(FREE);
    assert!(try_acquire(&word, LockMode::Shared));
    word.fetch_or(IS_WANTED, Ordering::Relaxed);
    assert!(!try_acquire(&word, LockMode::Shared));
}

#[test]
fn what_is_counted_under_the_locks_is_counted_right() {
    let table = LockTable::new(1 << 16);
    let keys: Vec<[u8; 1]> = (0..6).map(|key| [key]).collect();
    let counts: Vec<AtomicUsize> = keys.iter().map(|_| AtomicUsize::new(0)).collect();
    const TURNS: usize = 500;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (table, keys, counts) = (&table, &keys, &counts);
            scope.spawn(move || {
                for turn in 0..TURNS {
                    let (a, b) = ((turn + thread) % 6, (turn * 5 + 3 * thread) % 6);
                    let mode = [LockMode::Shared, LockMode::Blind][turn % 2];
                    let held = lock(table, &[(&keys[a], LockMode::Exclusive), (&keys[b], mode)]);
                    // If two threads executed the separate load and store concurrently, a count
                    // would be lost.
                    let count = counts[a].load(Ordering::Relaxed);
                    std::thread::yield_now();
                    counts[a].store(count + 1, Ordering::Relaxed);
                    drop(held);
                }
            });
        }
    });
    let sum: usize = counts.iter().map(|count| count.load(Ordering::Relaxed)).sum();
    assert_eq!(sum, 4 * TURNS);
    assert!(
        table
            .stripes
            .iter()
            .all(|word| word.load(Ordering::Relaxed) == FREE)
    );
}

#[test]
fn a_thread_that_the_holders_exclude_keeps_more_of_them_out() {
    for (crowd, other) in [
        (LockMode::Shared, LockMode::Blind),
        (LockMode::Blind, LockMode::Shared),
        (LockMode::Shared, LockMode::Exclusive),
    ] {
        let word = AtomicU32::new(FREE);
        assert!(try_acquire(&word, crowd) && !try_acquire(&word, other));
        want(&word, crowd);
        assert!(try_acquire(&word, crowd), "{crowd:?} keeps itself out");
        want(&word, other);
        assert!(!try_acquire(&word, crowd), "{crowd:?} passes {other:?}");
        release(&word);
        assert!(!try_acquire(&word, crowd), "{crowd:?} passes {other:?}");
        release(&word);
        assert!(try_acquire(&word, other), "{other:?} waits for nothing");
    }
}

//! Tests of the lock manager. Locks that are granted or rejected immediately are compared with a
//! simple list. Other tests use waiting threads.

use super::queue::{LockAnswer, LockOutcome, LockState};
use super::{LockManager, LockOwner, LockRefusal, RangeLockMode};
use std::collections::BTreeMap;
use std::time::Duration;

const S: RangeLockMode = RangeLockMode::Shared;
const M: RangeLockMode = RangeLockMode::Merge;
const X: RangeLockMode = RangeLockMode::Exclusive;

fn ask(
    state: &mut LockState,
    owner: u64,
    low: &[u8],
    high: Option<&[u8]>,
    mode: RangeLockMode,
) -> Option<u64> {
    let asked = state.ask(LockOwner::Transaction(owner), low, high, mode);
    state.check();
    match asked {
        LockAnswer::Granted => None,
        LockAnswer::Waits(ticket) => Some(ticket),
    }
}

#[test]
fn a_range_excludes_every_key_in_it_whether_it_is_there_or_not() {
    let mut state = LockState::default();
    assert_eq!(ask(&mut state, 1, b"b", Some(b"d"), S), None);
    for (key, is_free) in [(b"a", true), (b"b", false), (b"c", false), (b"d", true)] {
        let waits = ask(&mut state, 2, key, Some(&[key[0], 0]), X);
        assert_eq!(waits.is_none(), is_free, "{key:?}");
    }
    let waits = ask(&mut state, 3, b"d", None, S);
    assert!(waits.is_some(), "the second has a key of it");
    assert!(state.release(1), "the second gets the others");
    state.check();
    assert!(state.release(2), "and then the third");
    assert_eq!(state.held(3), 1);
    state.release(3);
    assert_eq!(state.segments(), 0);
}

#[test]
fn readers_do_not_overtake_a_writer_that_waits_and_a_holder_does() {
    let mut state = LockState::default();
    assert_eq!(ask(&mut state, 1, b"a", Some(b"c"), S), None);
    let writer = ask(&mut state, 2, b"b", Some(b"d"), X).unwrap();
    let reader = ask(&mut state, 3, b"b", Some(b"c"), S).unwrap();
    // The writer waits for a lock of owner 1, so owner 1's request does not wait for the writer.
    assert_eq!(ask(&mut state, 1, b"c", Some(b"d"), S), None);
    assert_eq!(
        ask(&mut state, 4, b"d", Some(b"e"), S),
        None,
        "nothing of it is wanted"
    );
    assert_eq!(state.waits_for(3), [2]);
    assert!(state.release(1));
    state.check();
    assert_eq!(state.outcome(writer), Some(LockOutcome::Granted));
    assert_eq!(state.outcome(reader), None);
    assert!(state.release(2));
    assert_eq!(state.outcome(reader), Some(LockOutcome::Granted));
}

#[test]
fn owners_without_locks_are_held_back_while_others_wait() {
    let mut state = LockState::default();
    assert_eq!(ask(&mut state, 1, b"a", Some(b"b"), X), None);
    assert_eq!(ask(&mut state, 2, b"c", Some(b"d"), X), None);
    assert!(!state.is_crowded_for(3), "none waits");
    let ticket = ask(&mut state, 2, b"a", Some(b"b"), X).unwrap();
    assert!(state.is_crowded_for(3));
    assert!(!state.is_crowded_for(1), "others wait for it");
    assert!(!state.is_crowded_for(2), "others may come to wait for it");
    state.give_up(ticket).unwrap_err();
    assert!(!state.is_crowded_for(3));
    assert!(state.is_calm());
}

#[test]
fn an_owner_that_stands_still_does_not_keep_others_out() {
    let locks = LockManager::default();
    let lock = |owner, key: u8| {
        let owner = LockOwner::Transaction(owner);
        locks.lock(owner, &[key], Some(&[key + 1]), X, Duration::from_secs(600))
    };
    lock(1, b'a').unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| lock(2, b'a'));
        while locks.waits_for(2).is_empty() {
            std::thread::yield_now();
        }
        // Owner 1 still holds its lock. If this request waited for the lock to be released, the
        // test would hang.
        lock(3, b'x').unwrap();
        locks.release(1);
        waiter.join().unwrap().unwrap();
    });
}

#[test]
fn one_that_upgrades_waits_for_other_readers_and_two_are_a_deadlock() {
    let mut state = LockState::default();
    for owner in [1, 2] {
        assert_eq!(ask(&mut state, owner, b"a", Some(b"b"), S), None);
    }
    let first = ask(&mut state, 1, b"a", Some(b"b"), X).unwrap();
    assert_eq!(state.outcome(first), None);
    let second = ask(&mut state, 2, b"a", Some(b"b"), X).unwrap();
    let Some(LockOutcome::Refused(mut circle)) = state.outcome(second) else {
        panic!("the youngest is refused")
    };
    circle.sort();
    assert_eq!(circle, [(1, b"a".to_vec()), (2, b"a".to_vec())]);
    assert!(state.release(2));
    assert_eq!(state.outcome(first), Some(LockOutcome::Granted));
    assert_eq!(
        ask(&mut state, 1, b"a", Some(b"b"), S),
        None,
        "what it has is enough"
    );
}

#[test]
fn merges_are_together_and_exclude_readers_and_writers() {
    let mut state = LockState::default();
    for owner in [1, 2] {
        assert_eq!(ask(&mut state, owner, b"a", Some(b"b"), M), None);
    }
    assert_eq!(ask(&mut state, 1, b"a", Some(b"b"), M), None, "it has it");
    for mode in [S, X] {
        let ticket = ask(&mut state, 3, b"a", Some(b"b"), mode).expect("it waits");
        assert_eq!(state.waits_for(3), [1, 2]);
        state.give_up(ticket).unwrap_err();
    }
    // A holder that also reads the key must be the only one.
    let reads = ask(&mut state, 1, b"a", Some(b"b"), S).unwrap();
    assert!(state.release(2));
    assert_eq!(state.outcome(reads), Some(LockOutcome::Granted));
    assert!(state.merge_locks(1, b"a", None).is_empty(), "it is exclusive now");
    assert!(ask(&mut state, 4, b"a", Some(b"b"), M).is_some());
}

#[test]
fn joined_locks_replace_those_inside_them() {
    let mut state = LockState::default();
    let keys = [b"a/1", b"a/2", b"a/3", b"b/1"];
    for key in keys {
        assert_eq!(ask(&mut state, 1, key, Some(&[&key[..], &[0]].concat()), X), None);
    }
    assert_eq!(ask(&mut state, 1, b"a/1", Some(b"a/3\0"), X), None);
    let joined = state
        .locks_of(1)
        .into_iter()
        .max_by_key(|lock| lock.high.clone().filter(|_| *lock.low == *b"a/1"));
    state.join(1, &joined.into_iter().collect::<Vec<_>>());
    state.check();
    assert_eq!(state.held(1), 2);
    assert_eq!(state.segments(), 2, "adjacent segments of one owner are one");
    assert!(ask(&mut state, 2, b"a/2x", Some(b"a/2y"), S).is_some());
    state.release(1);
    state.release(2);
    assert_eq!(state.segments(), 0);
}

#[test]
fn of_a_circle_a_commit_gives_way_before_a_younger_transaction() {
    let mut state = LockState::default();
    assert_eq!(ask(&mut state, 9, b"a", Some(b"b"), X), None);
    let commit = LockOwner::Commit(3);
    assert_eq!(state.ask(commit, b"b", Some(b"c"), X), LockAnswer::Granted);
    let LockAnswer::Waits(waits) = state.ask(commit, b"a", Some(b"b"), X) else {
        panic!("it is held")
    };
    let young = ask(&mut state, 9, b"b", Some(b"c"), X).unwrap();
    assert!(matches!(state.outcome(waits), Some(LockOutcome::Refused(_))));
    assert_eq!(
        state.outcome(young),
        None,
        "until the commit has released what it has"
    );
    assert!(state.release(3));
    assert_eq!(state.outcome(young), Some(LockOutcome::Granted));
}

#[test]
fn one_that_gives_up_lets_those_behind_it_on() {
    let mut state = LockState::default();
    assert_eq!(ask(&mut state, 1, b"a", None, S), None);
    let writer = ask(&mut state, 2, b"a", None, X).unwrap();
    let reader = ask(&mut state, 3, b"a", None, S).unwrap();
    assert_eq!(state.give_up(writer), Err(vec![1]));
    state.check();
    assert_eq!(state.outcome(reader), Some(LockOutcome::Granted));
}

/// The strongest mode in which each owner holds the lock on each key.
#[derive(Default)]
struct Model(BTreeMap<(u64, u8), RangeLockMode>);

impl Model {
    fn excludes(&self, owner: u64, low: u8, high: u8, mode: RangeLockMode) -> bool {
        let mut held = self.0.iter();
        held.any(|(&(other, key), &held)| {
            other != owner && (low..high).contains(&key) && held.with(mode) == X
        })
    }
}

#[test]
fn what_is_granted_is_what_a_list_of_keys_would_grant() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut state, mut model) = (LockState::default(), Model::default());
        for _ in 0..60 {
            let owner = random.u64(1..5);
            if random.u32(0..6) == 0 {
                state.release(owner);
                model.0.retain(|&(other, _), _| other != owner);
                state.check();
                continue;
            }
            let low = random.u8(0..12);
            let high = random.u8(low + 1..=12);
            let mode = [S, M, X][random.usize(..3)];
            match ask(&mut state, owner, &[low], Some(&[high]), mode) {
                None => {
                    assert!(!model.excludes(owner, low, high, mode), "seed {seed}");
                    for key in low..high {
                        let held = model.0.entry((owner, key)).or_insert(mode);
                        *held = held.with(mode);
                    }
                }
                Some(ticket) => {
                    // No other request is waiting, so only a holder can block this one.
                    assert!(model.excludes(owner, low, high, mode), "seed {seed}");
                    let _ = state.give_up(ticket);
                }
            }
            state.check();
        }
        for owner in 1..5 {
            state.release(owner);
        }
        assert_eq!(state.segments(), 0, "seed {seed}");
    }
}

#[test]
fn threads_in_random_orders_all_come_through() {
    let locks = LockManager::default();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let locks = &locks;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                let mut done = 0;
                while done < 200 {
                    let number = locks.next_number();
                    let owner = match random.bool() {
                        true => LockOwner::Transaction(number),
                        false => LockOwner::Commit(number),
                    };
                    let got = (0..3).try_for_each(|_| {
                        let low = random.u8(0..8);
                        let high = random.u8(low + 1..=8);
                        let mode = [S, M, X][random.usize(..3)];
                        locks.lock(owner, &[low], Some(&[high]), mode, Duration::MAX)
                    });
                    locks.release(number);
                    done += usize::from(got.is_ok());
                    assert!(!matches!(got, Err(LockRefusal::TimedOut(_))));
                }
            });
        }
    });
}

//! Tests that the checkers detect anomalies in handmade histories.

use super::history::{Committed, History, Op, State};
use super::{cycles, replay};
use crate::options::Isolation;

fn get(key: &str, seen: &[u32]) -> Op {
    let seen: Vec<u8> = seen.iter().flat_map(|element| element.to_be_bytes()).collect();
    Op::Get {
        key: key.into(),
        seen: Some(seen).filter(|seen| !seen.is_empty()),
        for_update: false,
    }
}

fn append(key: &str, element: u32) -> Op {
    Op::Append {
        key: key.into(),
        element: element.to_be_bytes().into(),
    }
}

fn walk(seen: &[(&str, u32)], has_ended: bool) -> Op {
    let pair = |&(key, value): &(&str, u32)| (key.as_bytes().to_vec(), value.to_be_bytes().to_vec());
    Op::Walk {
        low: b"la".into(),
        high: b"lz".into(),
        is_backward: false,
        seen: seen.iter().map(pair).collect(),
        has_ended,
    }
}

/// Builds a history from transactions in commit order, each with the number of commits before it
/// began.
fn history(committed: &[(usize, &[Op])]) -> History {
    let mut history = History::default();
    let mut last = State::new();
    for (index, (began, ops)) in committed.iter().enumerate() {
        ops.iter().for_each(|op| op.apply(&mut last));
        history.committed.push(Committed {
            name: index + 1,
            began: *began,
            ended: index + 1,
            ops: ops.to_vec(),
        });
    }
    history.last = last;
    history
}

/// Returns which checkers report a violation: the replay checker first and then the cycle checker,
/// each for serializability and for snapshot isolation.
fn found(history: &History) -> [bool; 4] {
    let levels = [Isolation::Serializable, Isolation::Snapshot];
    let [one, other] = levels.map(|level| !replay::check(history, level).is_empty());
    let [third, fourth] = levels.map(|level| !cycles::check(history, level).is_empty());
    [one, other, third, fourth]
}

#[test]
fn histories_one_after_the_other_are_right() {
    let right = history(&[
        (0, &[append("la", 1), append("lb", 2)]),
        (1, &[get("la", &[1]), append("la", 3), get("la", &[1, 3])]),
        (2, &[walk(&[("la", 1)], false)]),
        (2, &[append("lc", 4)]),
    ]);
    // The third transaction has read a list that cannot exist, so both checkers must report it.
    assert_eq!(found(&right), [true, true, true, true]);
    let right = history(&[
        (0, &[append("la", 1), append("lb", 2)]),
        (1, &[get("la", &[1]), append("la", 3), get("la", &[1, 3])]),
        (2, &[get("la", &[1, 3]), get("lb", &[2])]),
    ]);
    assert_eq!(found(&right), [false; 4]);
}

#[test]
fn lost_updates_are_found_at_both_levels() {
    let put = |value: &[u32]| Op::Put {
        key: b"la".into(),
        value: value.iter().flat_map(|element| element.to_be_bytes()).collect(),
    };
    let lost = history(&[
        (0, &[append("la", 1)]),
        (1, &[get("la", &[1]), put(&[1, 2])]),
        (1, &[get("la", &[1]), put(&[1, 3])]),
    ]);
    let [serial, snapshot, ..] = found(&lost);
    assert!(serial && snapshot);
    let appended = history(&[
        (0, &[append("la", 1)]),
        (1, &[get("la", &[1]), append("la", 2)]),
        (1, &[get("la", &[1]), append("la", 3)]),
    ]);
    assert_eq!(found(&appended), [true; 4]);
}

#[test]
fn write_skew_is_found_at_the_serializable_level_only() {
    let skew = history(&[
        (0, &[append("la", 1), append("lb", 2)]),
        (1, &[get("la", &[1]), get("lb", &[2]), append("la", 3)]),
        (1, &[get("la", &[1]), get("lb", &[2]), append("lb", 4)]),
    ]);
    assert_eq!(found(&skew), [true, false, true, false]);
    // The same anomaly, but with keys that are absent from scanned ranges.
    let phantoms = history(&[
        (0, &[walk(&[], true), append("la", 3)]),
        (0, &[walk(&[], true), append("lb", 4)]),
    ]);
    assert_eq!(found(&phantoms), [true, false, true, false]);
}

#[test]
fn read_skew_and_stale_reads_are_found_at_both_levels() {
    let skew = history(&[
        (0, &[append("la", 1), append("lb", 2)]),
        (0, &[get("la", &[1]), get("lb", &[])]),
    ]);
    assert_eq!(found(&skew), [true; 4]);
    let stale = history(&[(0, &[append("la", 1)]), (1, &[get("la", &[])])]);
    assert_eq!(found(&stale), [true; 4]);
}

#[test]
fn intermediate_and_aborted_reads_are_found() {
    let intermediate = history(&[(0, &[append("la", 1), append("la", 2)]), (0, &[get("la", &[1])])]);
    assert_eq!(found(&intermediate), [true; 4]);
    let aborted = history(&[(0, &[append("la", 1)]), (1, &[get("la", &[1, 9])])]);
    assert_eq!(found(&aborted), [true; 4]);
}

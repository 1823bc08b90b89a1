//! The checker that re-executes a history. It runs the transactions one after the other, in commit
//! order, on a plain map, and compares the results.
//!
//! A serializable transaction that writes must see the state immediately before its commit. A
//! read-only transaction, and any transaction under snapshot isolation, must see the state in which
//! it began. Under snapshot isolation, no transaction that committed in the meantime may have
//! written to the same keys.

use super::history::{COUNTERS, Committed, History, LISTS, Op, REGISTERS, State};
use crate::options::Isolation;

/// Describes each violation of the isolation level.
pub(super) fn check(history: &History, isolation: Isolation) -> Vec<String> {
    let mut found = Vec::new();
    // The state after each number of commits.
    let mut states = vec![State::new()];
    for (index, one) in history.committed.iter().enumerate() {
        assert_eq!(one.ended, index + 1, "commits are in order");
        let at = match isolation {
            Isolation::Serializable if one.writes() => vec![index],
            // A read-only locking transaction may see commits made after it began.
            Isolation::Serializable => (one.began..=index).collect(),
            Isolation::Snapshot => vec![one.began],
        };
        let differs: Vec<_> = at.iter().filter_map(|&at| differs(one, &states[at])).collect();
        if differs.len() == at.len() {
            found.push(format!("{}: {}", one.name, differs[0]));
        }
        if isolation == Isolation::Snapshot && one.writes() {
            found.extend(overlap(one, &history.committed[one.began..index]));
        }
        if one.writes() {
            found.extend(changed_range(one, &states));
        }
        let newest = match history.reads_newest {
            true => index,
            false => one.began,
        };
        found.extend(strange_peek(one, &states[one.began..=newest]));
        let mut state = states[index].clone();
        one.ops.iter().for_each(|op| op.apply(&mut state));
        states.push(state);
    }
    if states.last() != Some(&history.last) {
        found.push(format!(
            "at the end there is {:?}, not {:?}",
            history.last,
            states.last()
        ));
    }
    found
}

/// Describes a declared range whose contents at the commit are neither those when the transaction
/// began nor those at the declaration.
fn changed_range(one: &Committed, states: &[State]) -> Option<String> {
    let now = states.last()?;
    one.ops.iter().find_map(|op| {
        let Op::Depend { low, high, since } = op else {
            return None;
        };
        let range = (low.clone(), high.clone());
        let within = |state: &State| -> Vec<(Vec<u8>, Vec<u8>)> {
            let pairs = state.range(range.0.clone()..range.1.clone());
            pairs.map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        let now = within(now);
        let mut before = [one.began, *since].into_iter();
        let is_same = before.any(|at| within(&states[at]) == now);
        (!is_same).then(|| format!("{}: {op:?} now has {now:?}", one.name))
    })
}

/// Describes an untracked read that none of the states explains.
fn strange_peek(one: &Committed, states: &[State]) -> Option<String> {
    one.ops.iter().enumerate().find_map(|(at, op)| {
        let Op::Peek { key, seen } = op else {
            return None;
        };
        let is_explained = states.iter().any(|state| {
            let mut state = state.clone();
            one.ops[..at].iter().for_each(|op| op.apply(&mut state));
            state.get(key) == seen.as_ref()
        });
        (!is_explained).then(|| format!("{}: {op:?}", one.name))
    })
}

/// Describes the first difference between a transaction's results and those on a given state, if
/// there is one.
fn differs(one: &Committed, state: &State) -> Option<String> {
    let mut state = state.clone();
    for op in &one.ops {
        let is_same = match op {
            Op::Get { key, seen, .. } => state.get(key) == seen.as_ref(),
            Op::Walk {
                low,
                high,
                is_backward,
                seen,
                has_ended,
            } => {
                let within = state.range(low.clone()..high.clone());
                let pair = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
                let mut expected: Vec<_> = match is_backward {
                    false => within.map(pair).collect(),
                    true => within.rev().map(pair).collect(),
                };
                if !has_ended {
                    expected.truncate(seen.len());
                }
                expected == *seen
            }
            Op::Swap {
                key, expected, done, ..
            } => (state.get(key) == expected.as_ref()) == *done,
            _ => true,
        };
        if !is_same {
            return Some(format!("{op:?} in {state:?}"));
        }
        op.apply(&mut state);
    }
    None
}

/// Returns a key that both the transaction and one of `between` have written to, unless both have
/// only added to a counter that the transaction has not read. `between` contains the transactions
/// that committed between the beginning and the commit of the transaction.
fn overlap(one: &Committed, between: &[Committed]) -> Option<String> {
    let keys = |ops: &[Op]| {
        let mut keys = Vec::new();
        for letter in [LISTS, REGISTERS, COUNTERS] {
            for name in b'a'..=b'z' {
                if ops.iter().any(|op| op.touches(&[letter, name])) {
                    keys.push([letter, name]);
                }
            }
        }
        keys
    };
    let own = keys(&one.ops);
    between.iter().find_map(|other| {
        let writes = other.ops.iter().filter(|op| op.is_write());
        let writes: Vec<Op> = writes.cloned().collect();
        let only_adds = |ops: &[Op], key: &[u8]| {
            let mut touching = ops.iter().filter(|op| op.touches(key));
            touching.all(|op| matches!(op, Op::Add { .. }))
        };
        let commute = |key: &[u8]| {
            only_adds(&one.ops, key) && only_adds(&writes, key) && !one.ops.iter().any(|op| op.reads(key))
        };
        let mut both = keys(&writes).into_iter();
        let both = both.find(|key| own.contains(key) && !commute(key))?;
        Some(format!("{} and {} both write to {both:?}", one.name, other.name))
    })
}

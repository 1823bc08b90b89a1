//! The checker that re-executes a history. It runs the transactions one after the other in commit
//! order on a plain map, and compares the results.
//!
//! A serializable transaction that writes must see the state immediately before its commit. A
//! read-only transaction, and a transaction under snapshot isolation, must see the state at its
//! beginning. Under snapshot isolation, no transaction that committed in the meantime may have
//! written to the same keys.

use super::history::{Committed, History, Op, State};
use crate::options::Isolation;

/// Returns a description of each violation of the isolation level.
pub(super) fn check(history: &History, isolation: Isolation) -> Vec<String> {
    let mut found = Vec::new();
    // The state after each number of commits.
    let mut states = vec![State::new()];
    for (index, one) in history.committed.iter().enumerate() {
        assert_eq!(one.ended, index + 1, "commits are in order");
        let at = match isolation {
            Isolation::Serializable if one.writes() => vec![index],
            // A read-only locking transaction may see commits that happened after its beginning.
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

/// Returns a description of the first difference between a transaction's results and those on a
/// given state. Returns `None` if there is no difference.
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

/// Returns a key to which both the transaction and one of `between` have written. `between` are the
/// transactions that committed between the beginning and the commit of the transaction.
fn overlap(one: &Committed, between: &[Committed]) -> Option<String> {
    let keys = |ops: &[Op]| {
        let mut keys = Vec::new();
        for letter in [super::history::LISTS, super::history::REGISTERS] {
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
        let both = keys(&writes).into_iter().find(|key| own.contains(key))?;
        Some(format!("{} and {} both write to {both:?}", one.name, other.name))
    })
}

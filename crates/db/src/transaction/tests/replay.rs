//! The checker that runs a history again, one transaction after the other in the order of their
//! commits, on a plain map. Each must see what it saw.
//!
//! A serializable transaction must see the state right before its commit. One that has written
//! nothing, and one under snapshot isolation, must see the state of its begin. Under snapshot
//! isolation no transaction between may have written to what this one has.

use super::history::{Committed, History, Op, State};
use crate::transaction_options::Isolation;

/// Returns what is wrong.
pub(super) fn check(history: &History, isolation: Isolation) -> Vec<String> {
    let mut found = Vec::new();
    // After each number of commits.
    let mut states = vec![State::new()];
    for (index, one) in history.committed.iter().enumerate() {
        assert_eq!(one.ended, index + 1, "commits are in order");
        let at = match isolation {
            Isolation::Serializable if one.writes() => vec![index],
            // Under locks a reader may see what is newer than its begin.
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

/// Returns how a transaction would see a state otherwise than it has.
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

/// Returns the keys to which others have written between the begin and the commit of one that
/// writes to them, too.
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

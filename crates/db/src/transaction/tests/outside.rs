//! Checks histories with the third-party crate `adya`. Like Jepsen's Elle, it searches for the
//! anomalies by which Adya defined isolation levels.
//!
//! The checker receives only the operations on lists: appends and reads.

use super::driver::{self, Plan, Trouble};
use super::history::{Committed, ELEMENT, History, LISTS, Op, State};
use crate::options::{Concurrency, Isolation};
use adya::{Opts, Valid, Workload, check};
use std::fmt::Write as _;

/// Converts a transaction's operations on lists to the checker's format.
fn operations(ops: &[Op]) -> Vec<String> {
    let mut told = Vec::new();
    let name = |key: &[u8]| char::from(key[1]);
    for op in ops {
        match op {
            Op::Get { key, seen, .. } if key[0] == LISTS => {
                told.push(read(name(key), seen.as_deref().unwrap_or_default()));
            }
            Op::Walk { seen, .. } => {
                let lists = seen.iter().filter(|(key, _)| key[0] == LISTS);
                told.extend(lists.map(|(key, list)| read(name(key), list)));
            }
            Op::Append { key, element } => told.push(append(name(key), element)),
            // An append may be written as a put of the previous list with one more element.
            Op::Put { key, value } if key[0] == LISTS => {
                told.push(append(name(key), &value[value.len() - ELEMENT..]));
            }
            _ => {}
        }
    }
    told
}

fn number(element: &[u8]) -> u32 {
    u32::from_be_bytes(element.try_into().expect("four bytes"))
}

fn append(key: char, element: &[u8]) -> String {
    format!(r#"["append","{key}",{}]"#, number(element))
}

fn read(key: char, list: &[u8]) -> String {
    let elements: Vec<String> = list
        .chunks(ELEMENT)
        .map(|element| number(element).to_string())
        .collect();
    format!(r#"["r","{key}",[{}]]"#, elements.join(","))
}

/// Converts a history to the checker's format, with the beginning and end of each transaction.
fn told(history: &History) -> String {
    let mut last: Vec<Committed> = history.committed.clone();
    let all = everything(&history.last);
    let ended = last.len() + 1;
    last.push(Committed {
        name: usize::MAX,
        began: ended - 1,
        ended,
        ops: all,
    });
    // The events in chronological order. Among simultaneous events, ends precede beginnings.
    let mut events: Vec<(usize, u8, String)> = Vec::new();
    for (process, one) in last.iter().enumerate() {
        let operations = operations(&one.ops);
        if operations.is_empty() {
            continue;
        }
        let value = operations.join(",");
        for (at, order, kind) in [(one.began, 1, "invoke"), (one.ended, 0, "ok")] {
            let event = format!(r#"{{"type":"{kind}","process":{process},"value":[{value}]}}"#);
            events.push((at, order, event));
        }
    }
    events.sort_by_key(|(at, order, _)| (*at, *order));
    let mut text = String::new();
    for (_, _, event) in events {
        writeln!(text, "{event}").expect("a text takes lines");
    }
    text
}

fn everything(state: &State) -> Vec<Op> {
    let lists = state.iter().filter(|(key, _)| key[0] == LISTS);
    let get = lists.map(|(key, value)| Op::Get {
        key: key.clone(),
        seen: Some(value.clone()),
        for_update: false,
    });
    get.collect()
}

/// Returns the anomalies in a history that the isolation level forbids.
pub(super) fn findings(history: &History, isolation: Isolation) -> Vec<String> {
    let model = match isolation {
        Isolation::Serializable => "strict-serializable",
        Isolation::Snapshot => "strong-snapshot-isolation",
    };
    let text = told(history);
    let history = adya::History::from_json(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let options = Opts {
        models: vec![model.to_owned()],
        ..Opts::default()
    };
    let report = check(&history, Workload::ListAppend, &options);
    assert_ne!(report.valid, Valid::Unknown, "{report:?}\n{text}");
    match report.valid {
        Valid::False => report.anomaly_types,
        _ => Vec::new(),
    }
}

#[test]
fn another_checker_finds_nothing_either() {
    let levels = [
        (Isolation::Serializable, Concurrency::Optimistic),
        (Isolation::Serializable, Concurrency::Locking),
        (Isolation::Snapshot, Concurrency::Optimistic),
        (Isolation::Snapshot, Concurrency::Locking),
    ];
    for (isolation, concurrency) in levels {
        for trouble in Trouble::ALL {
            let mut checked = 0;
            for seed in 1_000_000.. {
                let history = driver::run(&Plan {
                    seed,
                    isolation,
                    concurrency,
                    trouble,
                    transactions: super::PER_HISTORY,
                });
                let found = findings(&history, isolation);
                assert!(found.is_empty(), "{seed} {trouble:?}: {found:?}\n{history}");
                checked += history.committed.len();
                if checked >= super::wanted() / 4 {
                    break;
                }
            }
        }
    }
}

#[test]
fn another_checker_finds_write_skew_of_snapshots() {
    let is_found = |seed| {
        let history = driver::run(&Plan {
            seed,
            isolation: Isolation::Snapshot,
            concurrency: Concurrency::Optimistic,
            trouble: Trouble::None,
            transactions: super::PER_HISTORY,
        });
        !findings(&history, Isolation::Serializable).is_empty()
    };
    assert!((1..200).any(is_found));
}

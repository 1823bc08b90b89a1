//! The textual form of phases, for example `commit:64`, `group-commit:512`, `txn-size:1+pair=256`
//! or `rmw:16+sorted+later`.

use super::engine::{AckDurability, KEYSPACES};
use crate::workload::keys::KEY_BYTES;
use crate::workload::phase::{topic, words_of};
use crate::workload::values;
use serde::{Deserialize, Serialize};

const MOST_CLIENTS: usize = 4096;

/// Maximum size in bytes of a key and its value.
const MOST_PAIR_BYTES: usize = 1 << 20;

/// Maximum number of counters that a transaction increments.
const MOST_KEYS: usize = 100;

/// The order in which a transaction accesses its counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CounterOrder {
    /// The counters are accessed in random order, so two locking transactions may deadlock.
    Drawn,
    /// The counters are accessed in key order, which rules out deadlocks.
    Sorted,
}

/// What each transaction of a phase does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransactionTask {
    /// Writes new keys, one to each of the first `pairs` keyspaces.
    Put {
        /// Number of key-value pairs, at most the number of keyspaces.
        pairs: usize,
        /// Size in bytes of a key and its value.
        pair_bytes: usize,
    },
    /// Increments several counters, chosen by a Zipf distribution.
    Add {
        /// Number of distinct counters that each transaction increments.
        keys: usize,
        order: CounterOrder,
    },
}

/// A phase: what its transactions do, and how many clients run them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionPhase {
    /// The textual form of the phase, which identifies it in reports.
    pub name: String,
    pub task: TransactionTask,
    /// Number of clients. Each is a thread that runs one transaction at a time.
    pub clients: usize,
    /// The kind of failure that a commit survives once it is acknowledged.
    pub durability: AckDurability,
}

pub const DEFAULT: &str = "commit:1,commit:16,commit:64,commit:512,txn-size:1+pair=32,txn-size:1+pair=256,\
     txn-size:1+pair=4096,group-commit:512,rmw:1,rmw:4,rmw:16,rmw:64,rmw:1+later,rmw:4+later,\
     rmw:16+later,rmw:64+later";

impl TransactionPhase {
    /// Parses a phase.
    ///
    /// # Errors
    /// A message that describes the mistake and the allowed syntax.
    pub fn parse(text: &str) -> Result<TransactionPhase, String> {
        let (kind, words) = words_of(text, |word| match is_number(word) {
            true => "clients",
            false => topic(word),
        })?;
        let (task, clients) = match kind {
            "commit" => (put(1, 124), 1),
            "txn-size" => (put(KEYSPACES, 256), 1),
            "group-commit" => (put(KEYSPACES, 1024), 512),
            "rmw" => (
                TransactionTask::Add {
                    keys: 2,
                    order: CounterOrder::Drawn,
                },
                1,
            ),
            _ => {
                return Err(format!(
                    "{text:?} is not a phase: write commit, txn-size, group-commit or rmw, as in rmw:16"
                ));
            }
        };
        let mut phase = TransactionPhase {
            name: text.to_owned(),
            task,
            clients,
            durability: AckDurability::Disk,
        };
        for word in words {
            phase.set_option(word).map_err(|why| format!("{text:?}: {why}"))?;
        }
        Ok(phase)
    }

    /// Returns a phase's name without the number of clients. Phases that differ only in the number
    /// of clients form a series.
    #[must_use]
    pub fn series(name: &str) -> String {
        let (kind, rest) = name.split_once(':').unwrap_or((name, ""));
        let words = rest.split('+').filter(|word| !is_number(word));
        std::iter::once(kind).chain(words).collect::<Vec<_>>().join("+")
    }

    fn set_option(&mut self, word: &str) -> Result<(), String> {
        let number = |text: &str, least: usize, most: usize| match text.parse::<usize>() {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => Err(format!("{word:?}: write a number from {least} to {most}")),
        };
        match (word, word.split_once('='), &mut self.task) {
            ("later", ..) => self.durability = AckDurability::Later,
            ("sorted", _, TransactionTask::Add { order, .. }) => *order = CounterOrder::Sorted,
            (_, Some(("keys", text)), TransactionTask::Add { keys, .. }) => {
                *keys = number(text, 1, MOST_KEYS)?;
            }
            (_, Some(("pair", text)), TransactionTask::Put { pair_bytes, .. }) => {
                // The size must suffice for a key and for the part of the value that verifies it.
                // The smallest pair in the thesis has 32 bytes.
                *pair_bytes = number(text, KEY_BYTES + SMALLEST_VALUE, MOST_PAIR_BYTES)?;
            }
            _ if word.starts_with(|first: char| first.is_ascii_digit()) => {
                self.clients = number(word, 1, MOST_CLIENTS)?;
            }
            (_, _, TransactionTask::Put { .. }) => {
                return Err(format!(
                    "{word:?} is not an option of this phase: write a number of clients, pair=BYTES or later"
                ));
            }
            (_, _, TransactionTask::Add { .. }) => {
                return Err(format!(
                    "{word:?} is not an option of this phase: write a number of clients, keys=N, sorted or later"
                ));
            }
        }
        Ok(())
    }
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Minimum size of a value in bytes: a checksum of its key and nothing else.
const SMALLEST_VALUE: usize = values::LEAST / 2;

fn put(pairs: usize, pair_bytes: usize) -> TransactionTask {
    TransactionTask::Put { pairs, pair_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_read_with_their_words() {
        let phase = TransactionPhase::parse("rmw:16+keys=3+sorted+later").unwrap();
        let task = TransactionTask::Add {
            keys: 3,
            order: CounterOrder::Sorted,
        };
        assert_eq!(
            (phase.task, phase.clients, phase.durability),
            (task, 16, AckDurability::Later)
        );
        let phase = TransactionPhase::parse("txn-size:pair=4096").unwrap();
        assert_eq!((phase.task, phase.clients), (put(4, 4096), 1));
        let phase = TransactionPhase::parse("group-commit").unwrap();
        assert_eq!((phase.task, phase.clients), (put(4, 1024), 512));
        assert_eq!(phase.durability, AckDurability::Disk);
        assert!(
            DEFAULT
                .split(',')
                .all(|text| TransactionPhase::parse(text).is_ok())
        );
    }

    #[test]
    fn what_is_no_phase_is_refused_with_what_may_be_written() {
        for (text, words) in [
            ("read", "write commit, txn-size, group-commit or rmw"),
            ("commit:0", "a number from 1 to 4096"),
            ("commit:sorted", "a number of clients, pair=BYTES or later"),
            ("rmw:4+pair=32", "a number of clients, keys=N, sorted or later"),
            ("txn-size:pair=31", "a number from 32 to 1048576"),
            ("rmw:16x", "a number from 1 to 4096"),
        ] {
            let why = TransactionPhase::parse(text).unwrap_err();
            assert!(why.contains(words) && why.contains(text), "{why}");
        }
    }

    #[test]
    fn a_series_has_every_word_but_the_clients() {
        for (name, series) in [
            ("rmw:16", "rmw"),
            ("rmw:64+later", "rmw+later"),
            ("txn-size:pair=32+4", "txn-size+pair=32"),
            ("group-commit", "group-commit"),
        ] {
            assert_eq!(TransactionPhase::series(name), series);
        }
    }
}

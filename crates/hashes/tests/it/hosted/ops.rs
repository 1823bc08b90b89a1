//! What a commit is made of, its bytes in the log, and how it is drawn.
//!
//! ```text
//! record of the log, all integers little-endian:
//! OFFSET  SIZE  MEANING
//!      0     4  how many writes
//!      4     …  each: kind (1), length of the key (2), length of the operand (4), key, operand
//! ```
//!
//! A range delete's operand is its end.

use alluvium_base::bytes::{Reader, Truncated, Writer};
use alluvium_sim::generate::{Action as Plain, Mix};
use alluvium_sim::ops::Op;
use alluvium_sim::{Durability, Step};
use alluvium_storage::{Error, Place, Result, Structure};

/// A step of the story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Commit { ops: Vec<Op>, durability: Durability },
    Sync,
    Checkpoint,
    Background(u32),
    Get(Vec<u8>),
}

pub(crate) fn encode(ops: &[Op]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Writer::new(&mut bytes).u32(ops.len() as u32);
    for op in ops {
        let (kind, key, operand): (u8, &[u8], &[u8]) = match op {
            Op::Put { key, value } => (0, key, value),
            Op::Delete { key } => (1, key, &[]),
            Op::Merge { key, operand } => (2, key, operand),
            Op::DeleteRange { start, end } => (3, start, end),
        };
        Writer::new(&mut bytes)
            .u8(kind)
            .u16(key.len() as u16)
            .u32(operand.len() as u32)
            .bytes(key)
            .bytes(operand);
    }
    bytes
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<Op>> {
    let mut reader = Reader::new(bytes);
    let mut read = || -> std::result::Result<Vec<Op>, Truncated> {
        let mut ops = Vec::new();
        for _ in 0..reader.u32()? {
            let (kind, key, operand) = (reader.u8()?, reader.u16()?, reader.u32()?);
            let key = reader.take(key.into())?.to_vec();
            let operand = reader.take(operand as usize)?.to_vec();
            ops.push(match kind {
                0 => Op::Put { key, value: operand },
                1 => Op::Delete { key },
                2 => Op::Merge { key, operand },
                _ => Op::DeleteRange {
                    start: key,
                    end: operand,
                },
            });
        }
        Ok(ops)
    };
    let place = Place::new(Structure::LogRecord, "log", 0);
    read().map_err(|error| Error::corrupt(place, "a batch", error.to_string()))
}

/// Many writes and much background work: what is rare is what happens to deep levels.
fn mix() -> Mix {
    Mix {
        put: 16,
        delete: 8,
        batch: 34,
        sync: 3,
        checkpoint: 5,
        background: 60,
        get: 6,
        circles: [6, 60, 1500],
        circle_weights: [2, 3, 7],
        batch_len: 4..=24,
        value_len: 0..=400,
        large_every: 80,
        ..Mix::default()
    }
}

/// The steps of a run: some puts of the mix become merges, some deletes range deletes.
pub(crate) fn steps(seed: u64, count: usize) -> Vec<Step<Action>> {
    let mut random = fastrand::Rng::with_seed(!seed);
    let plain = mix().steps(seed, count);
    let steps = plain.into_iter().map(|step| match step {
        Step::Do(Plain::Commit { writes, durability }) => {
            let ops = writes
                .into_iter()
                .map(|write| match (write.value, random.u32(0..16)) {
                    (Some(mut value), 0..3) => {
                        value.truncate(9);
                        Op::Merge {
                            key: write.key,
                            operand: value,
                        }
                    }
                    (Some(value), _) => Op::Put {
                        key: write.key,
                        value,
                    },
                    (None, 0..4) => {
                        let mut end = write.key[..random.usize(1..=write.key.len().min(8))].to_vec();
                        end.push(0xff);
                        Op::DeleteRange {
                            start: write.key,
                            end,
                        }
                    }
                    (None, _) => Op::Delete { key: write.key },
                });
            Step::Do(Action::Commit {
                ops: ops.collect(),
                durability,
            })
        }
        Step::Do(Plain::Sync) => Step::Do(Action::Sync),
        Step::Do(Plain::Checkpoint) => Step::Do(Action::Checkpoint),
        Step::Do(Plain::Background(choice)) => Step::Do(Action::Background(choice)),
        Step::Do(Plain::Get(key)) => Step::Do(Action::Get(key)),
        Step::Reopen => Step::Reopen,
        Step::Crash(survival) => Step::Crash(survival),
    });
    steps.collect()
}

//! Operations of users and of background work, drawn from a seed.

use alluvium_sim::generate::{ActionMix, WorkloadAction as Plain};
use alluvium_sim::ops::WriteOp;
use alluvium_sim::{PromisedDurability, RunStep};

/// A step of the story. The first byte of each key names its keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A batch across keyspaces.
    Commit {
        ops: Vec<WriteOp>,
        durability: PromisedDurability,
    },
    /// A conditional write that expects either the current value or another.
    Swap {
        key: Vec<u8>,
        new: Option<Vec<u8>>,
        right: bool,
    },
    Sync,
    Checkpoint,
    /// Slices of background work.
    Work(u32),
    Get(Vec<u8>),
    /// Takes a snapshot, or reads the existing one and releases it.
    Snapshot,
    /// Creates or removes a named snapshot.
    NamedSnapshot,
    /// Drops the keyspace with this letter and creates it again.
    Drop(u8),
    /// Compacts everything.
    Compact,
    /// Loads sorted records into a keyspace.
    Ingest {
        records: Vec<(Vec<u8>, Vec<u8>)>,
        finishes: bool,
    },
}

/// The keyspaces, each named by the first byte of its keys.
pub(crate) const KEYSPACES: [u8; 4] = *b"abcd";

/// The keyspace whose keys have no order. Its only range delete covers all keys.
pub(crate) const HASHED: u8 = b'd';

/// The keyspaces that are dropped occasionally.
const DROPPED: [u8; 2] = [b'c', HASHED];

fn mix() -> ActionMix {
    ActionMix {
        put: 20,
        delete: 8,
        batch: 30,
        sync: 4,
        checkpoint: 4,
        background: 50,
        get: 8,
        circles: [6, 60, 1200],
        circle_weights: [2, 3, 6],
        batch_len: 3..=20,
        value_len: 0..=400,
        large_every: 80,
        ..ActionMix::default()
    }
}

/// Derives the keyspace from the key, so that a key always belongs to the same keyspace.
fn placed(key: &[u8]) -> Vec<u8> {
    let sum: usize = key.iter().map(|&byte| usize::from(byte)).sum();
    let mut placed = vec![KEYSPACES[sum % KEYSPACES.len()]];
    placed.extend_from_slice(key);
    placed
}

/// Draws a load of a few to a few hundred records. Other steps also write their keys.
fn ingest(choice: u32) -> Action {
    let mut random = fastrand::Rng::with_seed(u64::from(choice));
    let wanted = KEYSPACES[random.usize(0..KEYSPACES.len())];
    let count = 1 << random.usize(0..9);
    let mut records = std::collections::BTreeMap::new();
    for write in mix().steps(u64::from(choice), count) {
        let RunStep::Do(Plain::Commit { writes, .. }) = write else {
            continue;
        };
        for write in writes {
            let key = placed(&write.key);
            if let Some(value) = write.value.filter(|_| key[0] == wanted) {
                records.insert(key, value);
            }
        }
    }
    Action::Ingest {
        records: records.into_iter().collect(),
        finishes: random.bool(),
    }
}

/// Draws the steps of a run. In the mix, some puts become merges, some deletes become range
/// deletes, and some reads become rarer operations.
pub(crate) fn steps(seed: u64, count: usize) -> Vec<RunStep<Action>> {
    let mut random = fastrand::Rng::with_seed(!seed);
    let plain = mix().steps(seed, count);
    let steps = plain.into_iter().map(|step| match step {
        RunStep::Do(Plain::Commit { writes, durability }) => {
            let single = writes.len() == 1;
            let ops: Vec<WriteOp> = writes
                .into_iter()
                .map(|write| {
                    let key = placed(&write.key);
                    // Keyspace `b` has a merge operator.
                    let merges = key[0] == b'b' && random.u32(0..3) == 0;
                    match (write.value, random.u32(0..16)) {
                        (Some(mut value), _) if merges => {
                            value.truncate(9);
                            WriteOp::Merge { key, operand: value }
                        }
                        (Some(value), _) => WriteOp::Put { key, value },
                        (None, 0) if key[0] == HASHED => WriteOp::DeleteRange {
                            start: vec![HASHED],
                            end: vec![HASHED + 1],
                        },
                        (None, 0..3) if key[0] != HASHED => {
                            let mut end = key[..random.usize(1..=key.len().min(8))].to_vec();
                            end.push(0xff);
                            WriteOp::DeleteRange { start: key, end }
                        }
                        (None, _) => WriteOp::Delete { key },
                    }
                })
                .collect();
            match &ops[..] {
                [WriteOp::Put { key, value }] if single && random.u32(0..5) == 0 => {
                    RunStep::Do(Action::Swap {
                        key: key.clone(),
                        new: Some(value.clone()),
                        right: random.bool(),
                    })
                }
                [WriteOp::Delete { key }] if single && random.bool() => RunStep::Do(Action::Swap {
                    key: key.clone(),
                    new: None,
                    right: true,
                }),
                _ => RunStep::Do(Action::Commit { ops, durability }),
            }
        }
        RunStep::Do(Plain::Sync) => RunStep::Do(Action::Sync),
        RunStep::Do(Plain::Checkpoint) => RunStep::Do(Action::Checkpoint),
        RunStep::Do(Plain::Background(choice)) => RunStep::Do(match choice % 64 {
            0 | 1 => Action::Snapshot,
            2 | 3 | 8..11 => Action::NamedSnapshot,
            4 if choice % 5 == 0 => Action::Drop(DROPPED[(choice >> 6) as usize % DROPPED.len()]),
            5 if choice % 7 == 0 => Action::Compact,
            6 | 7 if choice % 3 == 0 => ingest(choice),
            _ => Action::Work(choice >> 6),
        }),
        RunStep::Do(Plain::Get(key)) => RunStep::Do(Action::Get(placed(&key))),
        RunStep::Reopen => RunStep::Reopen,
        RunStep::Crash(survival) => RunStep::Crash(survival),
    });
    steps.collect()
}

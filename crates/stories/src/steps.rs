//! The steps of a simulation run, generated from a seed: operations of users and of background
//! workers.

use alluvium_sim::generate::{ActionMix, WorkloadAction as Plain, value};
use alluvium_sim::ops::WriteOp;
use alluvium_sim::{ModelWrite, PromisedDurability, RunStep};
use fastrand::Rng;

/// An action of a user or a background worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoryAction {
    /// Commits several writes atomically.
    Commit {
        ops: Vec<WriteOp>,
        /// The durability that the commit must have when it is acknowledged.
        durability: PromisedDurability,
    },
    /// Makes all commits so far durable with a sync.
    Sync,
    /// Makes a generation durable that contains every commit so far.
    Checkpoint,
    /// Executes a slice of background work. The number selects the kind of work.
    Background(u32),
    Get(Vec<u8>),
}

/// Returns an action mix with many writes and much background work, so that the structure grows
/// deep enough for rare situations.
fn mix() -> ActionMix {
    ActionMix {
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
        ..ActionMix::default()
    }
}

/// Converts generated steps to steps of this story. `commit` creates the commit for the step at a
/// given index.
fn convert(
    plain: Vec<RunStep<Plain>>,
    mut commit: impl FnMut(usize, Vec<ModelWrite>) -> Vec<WriteOp>,
    mut get: impl FnMut(Vec<u8>) -> Vec<u8>,
) -> Vec<RunStep<StoryAction>> {
    let mut steps = Vec::with_capacity(plain.len());
    for (number, step) in plain.into_iter().enumerate() {
        let action = match step {
            RunStep::Do(Plain::Commit { writes, durability }) => StoryAction::Commit {
                ops: commit(number, writes),
                durability,
            },
            RunStep::Do(Plain::Sync) => StoryAction::Sync,
            RunStep::Do(Plain::Checkpoint) => StoryAction::Checkpoint,
            RunStep::Do(Plain::Background(choice)) => StoryAction::Background(choice),
            RunStep::Do(Plain::Get(key)) => StoryAction::Get(get(key)),
            RunStep::Reopen => {
                steps.push(RunStep::Reopen);
                continue;
            }
            RunStep::Crash(survival) => {
                steps.push(RunStep::Crash(survival));
                continue;
            }
        };
        steps.push(RunStep::Do(action));
    }
    steps
}

/// Generates a run whose commits write keys from all over the key space. Some of the generated puts
/// are replaced by merges, and some of the deletes by range deletes.
///
/// ```
/// use alluvium_stories::steps::scattered;
/// assert_eq!(scattered(7, 100), scattered(7, 100), "the seed is all there is");
/// ```
#[must_use]
pub fn scattered(seed: u64, count: usize) -> Vec<RunStep<StoryAction>> {
    let mut random = Rng::with_seed(!seed);
    let op = |random: &mut Rng, write: ModelWrite| match (write.value, random.u32(0..16)) {
        (Some(mut value), 0..3) => {
            value.truncate(9);
            WriteOp::Merge {
                key: write.key,
                operand: value,
            }
        }
        (Some(value), _) => WriteOp::Put {
            key: write.key,
            value,
        },
        (None, 0..4) => {
            let mut end = write.key[..random.usize(1..=write.key.len().min(8))].to_vec();
            end.push(0xff);
            WriteOp::DeleteRange {
                start: write.key,
                end,
            }
        }
        (None, _) => WriteOp::Delete { key: write.key },
    };
    let commit =
        |_, writes: Vec<ModelWrite>| writes.into_iter().map(|write| op(&mut random, write)).collect();
    convert(mix().steps(seed, count), commit, |key| key)
}

/// Number of key ranges that a run's commits write to in turn.
const STRETCHES: u64 = 8;
/// Number of keys in each key range.
const KEYS: u32 = 400;
/// Number of consecutive commits to one key range.
const TURN: usize = 6;

/// Returns key `number` of the key range `stretch`.
fn key_of(stretch: u64, number: u32) -> Vec<u8> {
    format!("{stretch:02}/{number:06}").into_bytes()
}

/// Generates a run whose commits write neighbouring keys, so that merges can reuse leaves unread.
/// Range deletes and merges are rare.
#[must_use]
pub fn neighbours(seed: u64, count: usize) -> Vec<RunStep<StoryAction>> {
    let mix = ActionMix {
        put: 8,
        delete: 2,
        batch: 44,
        batch_len: 6..=24,
        value_len: 40..=260,
        large_every: 0,
        circles: ActionMix::default().circles,
        circle_weights: ActionMix::default().circle_weights,
        ..mix()
    };
    let random = std::cell::RefCell::new(Rng::with_seed(!seed));
    // One in four runs contains many merges. A leaf that contains merge operands is never reused.
    let merges = if seed.is_multiple_of(4) { 12 } else { 400 };
    let (mut commits, mut cursor) = (0, 0);
    let commit = |index: usize, writes: Vec<ModelWrite>| {
        let mut random = random.borrow_mut();
        let turn = (commits / TURN) as u64;
        let stretch = turn.wrapping_mul(seed | 1) % STRETCHES;
        if commits % TURN == 0 {
            cursor = random.u32(..KEYS / 2);
        }
        commits += 1;
        let mut ops = Vec::new();
        for write in writes {
            cursor = (cursor + random.u32(1..3)) % KEYS;
            let key = key_of(stretch, cursor);
            let draw = random.u32(..400);
            ops.push(match write.value {
                Some(_) if draw < 400 / merges => WriteOp::Merge {
                    operand: value(seed, &key, 5),
                    key,
                },
                Some(old) => WriteOp::Put {
                    value: value(seed ^ (index as u64) << 20, &key, old.len().max(9)),
                    key,
                },
                // Some writes delete previously written keys, or ranges that contain them.
                None if draw < 8 => {
                    let from = random.u32(..KEYS);
                    WriteOp::DeleteRange {
                        start: key_of(stretch, from),
                        end: key_of(stretch, from + random.u32(1..60)),
                    }
                }
                None => WriteOp::Delete {
                    key: key_of(random.u64(..STRETCHES), random.u32(..KEYS)),
                },
            });
        }
        ops
    };
    let get = |_| {
        let mut random = random.borrow_mut();
        key_of(random.u64(..STRETCHES), random.u32(..KEYS))
    };
    convert(mix.steps(seed, count), commit, get)
}

//! The steps of a run, drawn from a seed: operations of users and of the background.

use alluvium_sim::generate::{ActionMix, WorkloadAction as Plain, value};
use alluvium_sim::ops::WriteOp;
use alluvium_sim::{ModelWrite, PromisedDurability, RunStep};
use fastrand::Rng;

/// An operation of a user or of the background.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoryAction {
    /// Commits several writes atomically.
    Commit {
        ops: Vec<WriteOp>,
        /// The durability at which the commit is acknowledged.
        durability: PromisedDurability,
    },
    /// Makes all commits so far durable.
    Sync,
    /// Makes a durable generation that contains every commit.
    Checkpoint,
    /// Runs a slice of background work; the number selects the kind.
    Background(u32),
    Get(Vec<u8>),
}

/// A mix with many writes and much background work: rare situations occur in deep levels.
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

/// Converts the steps of a mix to those of the story. `commit` receives the index of the step.
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

/// Draws a run with scattered keys. Some puts of the mix become merges, and some deletes become
/// range deletes.
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

/// Number of stretches of the key space, which are written in turn.
const STRETCHES: u64 = 8;
/// Number of keys of a stretch.
const KEYS: u32 = 400;
/// Number of commits to a stretch before the next one's turn.
const TURN: usize = 6;

/// Returns a key of a stretch.
fn key_of(stretch: u64, number: u32) -> Vec<u8> {
    format!("{stretch:02}/{number:06}").into_bytes()
}

/// Draws a run whose commits write neighbouring keys, so that merges can reuse leaves without
/// reading them. It occasionally contains a range delete or a merge.
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
    // One run in four contains many merges; leaves with operands are never reused.
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
                // Deletes of keys that were written before, and of ranges with such keys.
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

//! The steps of a run: commits to neighbouring keys, as those leave leaves that merges can take
//! over unread, with a range delete or a merge among them now and then.

use crate::story::ops::Action;
use alluvium_sim::Step;
use alluvium_sim::generate::{Action as Plain, Mix, value};
use alluvium_sim::ops::Op;

/// Stretches of the key space that are written in turn.
const STRETCHES: u64 = 8;
/// Keys of a stretch.
const KEYS: u32 = 400;
/// Commits to a stretch before the next one's turn.
const TURN: usize = 6;

fn mix() -> Mix {
    Mix {
        put: 8,
        delete: 2,
        batch: 44,
        sync: 3,
        checkpoint: 5,
        background: 60,
        get: 6,
        batch_len: 6..=24,
        value_len: 40..=260,
        large_every: 0,
        ..Mix::default()
    }
}

fn key_of(stretch: u64, number: u32) -> Vec<u8> {
    format!("{stretch:02}/{number:06}").into_bytes()
}

/// Draws the steps of a run.
pub(super) fn steps(seed: u64, count: usize) -> Vec<Step<Action>> {
    let mut random = fastrand::Rng::with_seed(!seed);
    // One run in four folds; leaves with operands are never taken over.
    let merges = if seed.is_multiple_of(4) { 12 } else { 400 };
    let (mut commits, mut cursor) = (0, 0);
    let plain = mix().steps(seed, count).into_iter().enumerate();
    let steps = plain.map(|(index, step)| match step {
        Step::Do(Plain::Commit { writes, durability }) => {
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
                    Some(_) if draw < 400 / merges => Op::Merge {
                        operand: value(seed, &key, 5),
                        key,
                    },
                    Some(old) => Op::Put {
                        value: value(seed ^ (index as u64) << 20, &key, old.len().max(9)),
                        key,
                    },
                    // Deletes of keys that were written before, and of ranges among them.
                    None if draw < 8 => {
                        let from = random.u32(..KEYS);
                        Op::DeleteRange {
                            start: key_of(stretch, from),
                            end: key_of(stretch, from + random.u32(1..60)),
                        }
                    }
                    None => Op::Delete {
                        key: key_of(random.u64(..STRETCHES), random.u32(..KEYS)),
                    },
                });
            }
            Step::Do(Action::Commit { ops, durability })
        }
        Step::Do(Plain::Sync) => Step::Do(Action::Sync),
        Step::Do(Plain::Checkpoint) => Step::Do(Action::Checkpoint),
        Step::Do(Plain::Background(choice)) => Step::Do(Action::Background(choice)),
        Step::Do(Plain::Get(_)) => Step::Do(Action::Get(key_of(random.u64(..STRETCHES), random.u32(..KEYS)))),
        Step::Reopen => Step::Reopen,
        Step::Crash(survival) => Step::Crash(survival),
    });
    steps.collect()
}

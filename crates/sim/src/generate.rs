//! Generates the steps of a run from a seed. The steps commit writes to small and large sets of
//! keys, and execute the other operations of a store.
//!
//! Keys are chosen from three sets: a few keys that are overwritten constantly, a few dozen keys,
//! and a large set that makes the store grow. Most values are small, and some are several pages
//! long. No two commits write the same value, so a value found after a crash identifies its commit.

use crate::reference::{ModelWrite, PromisedDurability};
use crate::story::RunStep;
use alluvium_base::checksum::seeded;
use alluvium_device::simulated::CrashSurvival;
use fastrand::Rng;
use std::ops::RangeInclusive;

/// An operation that a user or a background worker performs on a key-value store. A story with
/// other operations wraps this type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkloadAction {
    /// Commits a single write or a batch of writes.
    Commit {
        writes: Vec<ModelWrite>,
        /// The durability that the commit must have when it is acknowledged.
        durability: PromisedDurability,
    },
    /// Makes all commits so far durable with a sync.
    Sync,
    Checkpoint,
    /// Runs a slice of background work, of the kind that the number selects.
    Background(u32),
    Get(Vec<u8>),
}

/// The relative frequencies of operations, and the sizes of keys and values.
#[derive(Clone, Debug)]
pub struct ActionMix {
    pub put: u32,
    pub delete: u32,
    /// Relative frequency of batches of puts and deletes.
    pub batch: u32,
    pub sync: u32,
    pub checkpoint: u32,
    pub background: u32,
    pub get: u32,
    /// Relative frequency of closing and reopening the store.
    pub reopen: u32,
    /// Relative frequency of crashes after which the run goes on.
    pub crash: u32,
    /// Relative frequencies of the durability levels `Memory`, `Process` and `Disk`.
    pub durabilities: [u32; 3],
    /// Number of keys in the hot, middle and wide sets.
    pub circles: [u32; 3],
    /// Relative frequency with which a key comes from each of the three sets.
    pub circle_weights: [u32; 3],
    /// Range of the number of writes in a batch.
    pub batch_len: RangeInclusive<usize>,
    /// Range of the length in bytes of an ordinary value.
    pub value_len: RangeInclusive<usize>,
    /// Range of the length in bytes of a large value. One in [`ActionMix::large_every`] values is
    /// large.
    pub large_len: RangeInclusive<usize>,
    /// One in this many values is large, or none if this is zero.
    pub large_every: u32,
}

impl Default for ActionMix {
    fn default() -> Self {
        ActionMix {
            put: 40,
            delete: 12,
            batch: 12,
            sync: 4,
            checkpoint: 8,
            background: 12,
            get: 6,
            reopen: 1,
            crash: 1,
            durabilities: [2, 5, 3],
            circles: [6, 60, 4000],
            circle_weights: [4, 4, 2],
            batch_len: 2..=8,
            value_len: 0..=300,
            large_len: 1000..=6000,
            large_every: 24,
        }
    }
}

/// Chooses a random index, with a probability proportional to its weight.
fn weighted(random: &mut Rng, weights: &[u32]) -> usize {
    let mut at = random.u32(0..weights.iter().sum::<u32>().max(1));
    for (index, weight) in weights.iter().enumerate() {
        if at < *weight {
            return index;
        }
        at -= weight;
    }
    0
}

/// Returns a value that identifies its origin: different pairs (`origin`, `key`) yield different
/// values if these have at least eight bytes. Part of each value consists of repeated bytes, to
/// exercise compression.
#[must_use]
pub fn value(origin: u64, key: &[u8], len: usize) -> Vec<u8> {
    let mut random = Rng::with_seed(seeded(origin, key));
    let mut value = Vec::with_capacity(len + 8);
    while value.len() < len {
        let word = random.u64(..);
        value.extend_from_slice(&word.to_le_bytes());
        if value.len() > 64 && word & 1 == 0 {
            let repeated = value[value.len() - 32..].to_vec();
            value.extend_from_slice(&repeated);
        }
    }
    value.truncate(len);
    value
}

impl ActionMix {
    /// Returns `count` random steps of a run. Equal seeds yield equal steps.
    ///
    /// ```
    /// use alluvium_sim::generate::ActionMix;
    /// let steps = ActionMix::default().steps(7, 100);
    /// assert_eq!(steps.len(), 100);
    /// assert_eq!(steps, ActionMix::default().steps(7, 100), "the seed is all there is");
    /// ```
    #[must_use]
    pub fn steps(&self, seed: u64, count: usize) -> Vec<RunStep<WorkloadAction>> {
        let mut random = Rng::with_seed(seed);
        (0..count)
            .map(|index| self.step(&mut random, seed, index as u64))
            .collect()
    }

    fn step(&self, random: &mut Rng, seed: u64, index: u64) -> RunStep<WorkloadAction> {
        let origin = seeded(seed, &index.to_le_bytes());
        let weights = [
            self.put,
            self.delete,
            self.batch,
            self.sync,
            self.checkpoint,
            self.background,
            self.get,
            self.reopen,
            self.crash,
        ];
        match weighted(random, &weights) {
            0 => self.commit(random, vec![true], origin),
            1 => self.commit(random, vec![false], origin),
            2 => {
                let len = random.usize(self.batch_len.clone());
                let deletes = (0..len).map(|_| random.u8(0..4) > 0).collect();
                self.commit(random, deletes, origin)
            }
            3 => RunStep::Do(WorkloadAction::Sync),
            4 => RunStep::Do(WorkloadAction::Checkpoint),
            5 => RunStep::Do(WorkloadAction::Background(random.u32(..))),
            6 => RunStep::Do(WorkloadAction::Get(self.key(random))),
            7 => RunStep::Reopen,
            _ => RunStep::Crash(any_survival(random)),
        }
    }

    /// Returns a commit with one write for each element of `puts`: a put for true, a delete for
    /// false.
    fn commit(&self, random: &mut Rng, puts: Vec<bool>, origin: u64) -> RunStep<WorkloadAction> {
        let durability = match weighted(random, &self.durabilities) {
            0 => PromisedDurability::Memory,
            1 => PromisedDurability::Process,
            _ => PromisedDurability::Disk,
        };
        let writes = puts.into_iter().enumerate().map(|(at, put)| {
            let key = self.key(random);
            let large = self.large_every > 0 && random.u32(0..self.large_every) == 0;
            let range = if large { &self.large_len } else { &self.value_len };
            let len = random.usize(range.clone());
            let value = put.then(|| value(origin.wrapping_add(at as u64), &key, len));
            ModelWrite { key, value }
        });
        RunStep::Do(WorkloadAction::Commit {
            writes: writes.collect(),
            durability,
        })
    }

    /// Chooses a random key. Keys of the hot set are short. Those of the larger sets are longer,
    /// and each is chosen less often.
    fn key(&self, random: &mut Rng) -> Vec<u8> {
        let circle = weighted(random, &self.circle_weights);
        let number = random.u32(0..self.circles[circle].max(1));
        match circle {
            0 => format!("h{number}").into_bytes(),
            1 => format!("middle/{number:04}").into_bytes(),
            _ => format!("wide/{:08x}/{number}", number.wrapping_mul(0x9e37_79b1)).into_bytes(),
        }
    }
}

/// Chooses a random survival mode, with equal probabilities.
#[must_use]
pub fn any_survival(random: &mut Rng) -> CrashSurvival {
    let all = CrashSurvival::ALL;
    all[random.usize(0..all.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_differ_by_origin_and_key_and_have_their_length() {
        assert_eq!(value(1, b"a", 100).len(), 100);
        assert_ne!(value(1, b"a", 8), value(2, b"a", 8));
        assert_ne!(value(1, b"a", 8), value(1, b"b", 8));
        assert!(value(1, b"a", 0).is_empty());
    }

    #[test]
    fn every_kind_of_step_comes_up_about_as_often_as_its_weight_says() {
        let mix = ActionMix::default();
        let steps = mix.steps(3, 9600);
        let count = |is: fn(&RunStep<WorkloadAction>) -> bool| steps.iter().filter(|step| is(step)).count();
        let sum = 96;
        let near = |found: usize, weight: u32| {
            let expected = (weight * 9600 / sum) as usize;
            (expected / 2..=expected * 2).contains(&found)
        };
        assert!(near(
            count(|step| matches!(step, RunStep::Do(WorkloadAction::Commit { .. }))),
            64
        ));
        assert!(near(
            count(|step| matches!(step, RunStep::Do(WorkloadAction::Checkpoint))),
            8
        ));
        assert!(near(
            count(|step| matches!(step, RunStep::Do(WorkloadAction::Background(_)))),
            12
        ));
        assert!(near(count(|step| matches!(step, RunStep::Reopen)), 1));
        assert!(near(count(|step| matches!(step, RunStep::Crash(_))), 1));
    }
}

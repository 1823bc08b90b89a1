//! The options of a bundle of trees.

use super::schedule::beta_for;
use crate::blocks::{Error, MachineModel, Result};
use alluvium_filters::fingerprint::{FingerprintAlphabet, FingerprintFamily, HashIndependence};

/// How characters are delivered to the levels that need them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueSchedule {
    /// The ruler schedule: each level writes the characters that the next levels need, and merges
    /// combine an increasing number of runs (Conway §2.5).
    Ruler,
    /// Only every β-th level writes; the other levels merge its output when they are full (§2.7).
    Every { beta: u32 },
}

/// The options of a bundle of trees.
///
/// ```
/// use research_hashes::bot::BotOptions;
/// let options = BotOptions::new(4096, 1 << 20).planned_for(1 << 24, 64);
/// assert!(options.checked().is_ok());
/// assert!(options.for_asymmetry(0.5, 1 << 24).unwrap_err().to_string().contains("at least 1"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BotOptions {
    /// λ: the degree of trees; a power of two from 2 to 256.
    pub growth: u32,
    /// B and M in bytes, or neither for the cache-oblivious BOT.
    pub machine: MachineModel,
    /// The initial number of bits in a fingerprint, 8 to 128.
    pub fingerprint_bits: u32,
    /// The independence of the fingerprint function.
    pub independence: HashIndependence,
    /// The seed of the fingerprint function.
    pub seed: u128,
    /// s: the number of levels for which sketches are kept. A table that outgrows them is rebuilt
    /// with twice as many.
    pub levels: u32,
    /// How characters are delivered to the levels that need them.
    pub schedule: QueueSchedule,
}

impl BotOptions {
    /// Returns the default options: λ = 4, fingerprints of 64 bits, six levels, the ruler
    /// schedule.
    #[must_use]
    pub fn new(block_bytes: u32, memory_bytes: u64) -> BotOptions {
        BotOptions {
            growth: 4,
            machine: MachineModel::Blocks {
                block_bytes,
                memory_bytes,
            },
            fingerprint_bits: 64,
            independence: HashIndependence::Words(32),
            seed: 0,
            levels: 6,
            schedule: QueueSchedule::Ruler,
        }
    }

    /// Returns the default options of the cache-oblivious BOT.
    #[must_use]
    pub fn oblivious() -> BotOptions {
        BotOptions {
            machine: MachineModel::Oblivious,
            levels: 10,
            ..BotOptions::new(4096, 1 << 20)
        }
    }

    /// Returns the options with the number of levels for `records` records, with `leaf` records
    /// per leaf.
    #[must_use]
    pub fn planned_for(self, records: u64, leaf: u64) -> BotOptions {
        let leaves = (records / leaf.max(1)).max(2);
        let levels = (leaves as f64).log2() / f64::from(self.growth.max(2)).log2();
        BotOptions {
            levels: levels.ceil() as u32 + 1,
            ..self
        }
    }

    /// Returns the options with β chosen for a device on which a write costs `omega` reads, and
    /// for `records` records: β = ω (λ + log_λ N / β), limited by memory and levels.
    ///
    /// # Errors
    /// [`Error::Shape`] when `omega` is less than 1 or not a number, or the machine has no
    /// blocks.
    pub fn for_asymmetry(self, omega: f64, records: u64) -> Result<BotOptions> {
        if !omega.is_finite() || omega < 1.0 {
            let instead = "at least 1; where writes are cheaper than reads, the ruler's schedule is right";
            return Err(Error::shape(
                format!("a write that costs {omega} reads (ω)"),
                instead,
            ));
        }
        let MachineModel::Blocks {
            block_bytes,
            memory_bytes,
        } = self.machine
        else {
            return Err(Error::shape("β without blocks", "blocks of a known length"));
        };
        let lambda = f64::from(self.growth.max(2));
        let levels = (records.max(2) as f64).log2() / lambda.log2();
        // β ≤ ⌊log_λ (M / (B log_λ N))⌋: the runs of β levels are merged at once.
        let streams = memory_bytes as f64 / f64::from(block_bytes) / levels.max(1.0);
        let most = (streams.max(1.0).log2() / lambda.log2()).floor() as u32;
        let beta = beta_for(omega, self.growth, levels, most.min(self.levels).min(64));
        Ok(BotOptions {
            schedule: QueueSchedule::Every { beta },
            ..self
        })
    }

    /// Returns the options if they are valid.
    ///
    /// # Errors
    /// [`Error::Shape`] with the invalid option and its valid range.
    pub fn checked(self) -> Result<BotOptions> {
        self.machine.checked()?;
        FingerprintAlphabet::new(self.fingerprint_bits, self.growth)?;
        self.family()?;
        if !(1..=60).contains(&self.levels) {
            return Err(Error::shape(format!("{} levels", self.levels), "1 to 60 levels"));
        }
        if let QueueSchedule::Every { beta } = self.schedule
            && !(1..=64).contains(&beta)
        {
            return Err(Error::shape(
                format!("a queue on every {beta}-th level (β)"),
                "1 to 64",
            ));
        }
        Ok(self)
    }

    pub(super) fn family(&self) -> Result<FingerprintFamily> {
        Ok(FingerprintFamily::new(
            self.seed,
            self.fingerprint_bits,
            self.independence,
        )?)
    }

    /// Returns the size of a full leaf in bytes; zero for a leaf of one record.
    pub(super) fn leaf_bytes(&self) -> u64 {
        match self.machine {
            MachineModel::Blocks { block_bytes, .. } => u64::from(block_bytes),
            MachineModel::Oblivious => 0,
        }
    }
}

//! The options of a table of levels.

use crate::blocks::{Error, MachineModel, Result};
use alluvium_filters::fingerprint::{FingerprintAlphabet, FingerprintFamily, HashIndependence};

/// The structure of a table of levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoaStructure {
    /// One run per level, searched by bisection (LT-LSM): the baseline with the fewest runs.
    Leveled,
    /// Up to λ − 1 runs per level, searched by bisection (ST-LSM).
    Tiered,
    /// Like tiered, with runs in which a record's position is computed from its fingerprint
    /// (Lemma 3).
    Interpolated,
    /// The BOA: interpolated runs, and a routing filter for each level.
    Routed,
    /// The refined BOA: its filters also contain check characters.
    Refined,
}

/// How merges handle several records of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicateHandling {
    /// Merges keep all records, as in the paper: a key that was changed D times costs D times as
    /// much.
    Keep,
    /// Merges keep the newest record that they encounter.
    Fold,
}

/// The options of a table of levels.
///
/// ```
/// use research_hashes::boa::{BoaStructure, BoaOptions};
/// let options = BoaOptions { growth: 16, ..BoaOptions::new(BoaStructure::Routed, 4096, 1 << 20) };
/// assert!(options.checked().is_ok());
/// let odd = BoaOptions { growth: 6, ..options }.checked().unwrap_err();
/// assert!(odd.to_string().contains("power of two"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoaOptions {
    /// The structure of the table.
    pub kind: BoaStructure,
    /// λ: the size ratio of adjacent levels, a power of two from 2 to 256.
    pub growth: u32,
    /// B and M, in bytes.
    pub machine: MachineModel,
    /// The initial number of bits in a fingerprint, 8 to 128; a table that outgrows them doubles
    /// the number.
    pub fingerprint_bits: u32,
    /// The independence of the fingerprint function.
    pub independence: HashIndependence,
    /// The seed of the fingerprint function.
    pub seed: u128,
    /// How merges handle several records of one key.
    pub duplicates: DuplicateHandling,
    /// log2 of β, the number of prefixes per entry of a run in a routing filter; `None` for β =
    /// λ.
    pub beta_bits: Option<u32>,
}

impl BoaOptions {
    /// Returns the default options of a structure: λ = 4, fingerprints of 64 bits, β = λ.
    #[must_use]
    pub fn new(kind: BoaStructure, block_bytes: u32, memory_bytes: u64) -> BoaOptions {
        BoaOptions {
            kind,
            growth: 4,
            machine: MachineModel::Blocks {
                block_bytes,
                memory_bytes,
            },
            fingerprint_bits: 64,
            independence: HashIndependence::Words(32),
            seed: 0,
            duplicates: DuplicateHandling::Keep,
            beta_bits: None,
        }
    }

    /// Returns the options if they are valid.
    ///
    /// # Errors
    /// [`Error::Shape`] with the invalid option and its valid range.
    pub fn checked(self) -> Result<BoaOptions> {
        self.machine.checked()?;
        if self.machine == MachineModel::Oblivious {
            let instead = "blocks, or a table of routing trees, which can be oblivious";
            return Err(Error::shape("levels without blocks", instead));
        }
        FingerprintAlphabet::new(self.fingerprint_bits, self.growth)?;
        self.family(self.fingerprint_bits)?;
        if let Some(beta) = self.beta_bits.filter(|beta| *beta > 16) {
            return Err(Error::shape(
                format!("β = 2^{beta}"),
                "at most 2^16 prefixes to an entry",
            ));
        }
        Ok(self)
    }

    pub(super) fn family(&self, bits: u32) -> Result<FingerprintFamily> {
        Ok(FingerprintFamily::new(self.seed, bits, self.independence)?)
    }

    pub(super) fn block_bytes(&self) -> usize {
        self.machine.chunk()
    }

    pub(super) fn fan_in(&self) -> usize {
        self.machine.fan_in().unwrap_or(2)
    }
}

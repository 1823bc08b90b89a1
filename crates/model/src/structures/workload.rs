//! The input of the models: the workload and the machine for which costs are predicted.

use super::runs::TieredSettings;
use crate::Popularity;
use crate::parameter::{BadParameter, at_least, positive, require};
use crate::tiered::{RecordProfile, ValueLengths};
use alluvium_base::DeviceProfile;

/// Overhead in bytes of a record in the log, besides its key and value.
const LOG_BYTES: f64 = 24.0;

/// Frequencies of operations. Only their ratios matter, so the unit is arbitrary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OperationRates {
    pub inserts: f64,
    pub updates: f64,
    pub deletes: f64,
    /// Lookups of keys that exist. `misses` are lookups of keys that do not.
    pub hits: f64,
    pub misses: f64,
    pub scans: f64,
}

impl OperationRates {
    /// Returns the sum of all frequencies.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.writes() + self.lookups() + self.scans
    }

    /// Returns the combined frequency of inserts, updates and deletes.
    #[must_use]
    pub fn writes(&self) -> f64 {
        self.inserts + self.updates + self.deletes
    }

    /// Returns the fraction of misses that are lookups of deleted keys. These are assumed to be as
    /// popular as other keys, so the ratio of their lookups to hits equals the ratio of deletes to
    /// other writes.
    #[must_use]
    pub fn deleted(&self) -> f64 {
        let gone = self.deletes / self.writes().max(f64::MIN_POSITIVE);
        let of_deleted = self.hits * gone / (1.0 - gone).max(f64::MIN_POSITIVE);
        (of_deleted / self.misses.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
    }

    /// Returns the frequency of lookups of single keys.
    #[must_use]
    pub fn lookups(&self) -> f64 {
        self.hits + self.misses
    }
}

/// A store's contents, and the operations that it receives.
///
/// ```
/// use alluvium_model::structures::WorkloadProfile;
/// let workload = WorkloadProfile { keys: 1e6, skew: 0.99, ..WorkloadProfile::default() };
/// assert!(workload.checked().is_ok());
/// let wrong = WorkloadProfile { skew: -1.0, ..workload };
/// assert_eq!(wrong.checked().unwrap_err().name, "the skew");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkloadProfile {
    pub keys: f64,
    /// Average key length in bytes.
    pub key_bytes: f64,
    /// Average value length in bytes.
    pub value_bytes: f64,
    /// Skew of the requests: the exponent of a Zipf distribution, or 0 if requests are uniform.
    pub skew: f64,
    pub operations: OperationRates,
    /// Average number of records that a scan returns.
    pub scan_records: f64,
    /// Number of updates and deletes so far, per existing key. They increase the amount of obsolete
    /// data until merges keep pace with them.
    pub rewrites: f64,
}

impl Default for WorkloadProfile {
    /// Returns a workload on a hundred million records of 116 bytes, without skew. Half of the
    /// operations are updates, and the other half are lookups.
    fn default() -> WorkloadProfile {
        WorkloadProfile {
            keys: 1e8,
            key_bytes: 16.0,
            value_bytes: 100.0,
            skew: 0.0,
            operations: OperationRates {
                inserts: 0.0,
                updates: 50.0,
                deletes: 0.0,
                hits: 50.0,
                misses: 0.0,
                scans: 0.0,
            },
            scan_records: 100.0,
            rewrites: 1.0,
        }
    }
}

/// Maximum number of keys, which follows from the limit on addresses because each key has at least
/// one byte.
const MOST_KEYS: f64 = 9.2e18;

impl WorkloadProfile {
    /// Returns the workload, or an error if it is invalid.
    ///
    /// # Errors
    /// [`BadParameter`] for the first number that is invalid or out of range.
    pub fn checked(&self) -> Result<WorkloadProfile, BadParameter> {
        let keys = at_least("the number of keys", self.keys, 2.0, "at least 2, and finite")?;
        let must = "at most 2^63, the number of addresses";
        require("the number of keys", keys, keys <= MOST_KEYS, must)?;
        positive("the key's bytes", self.key_bytes)?;
        let not_negative = "finite, and not negative";
        at_least("the value's bytes", self.value_bytes, 0.0, not_negative)?;
        let bytes = keys * (self.key_bytes + self.value_bytes);
        require("the data's bytes", bytes, bytes <= MOST_KEYS, must)?;
        at_least("the skew", self.skew, 0.0, not_negative)?;
        require("the skew", self.skew, self.skew <= 5.0, "at most 5")?;
        at_least("the length of scans", self.scan_records, 0.0, not_negative)?;
        at_least("the updates per key", self.rewrites, 0.0, not_negative)?;
        let all = &self.operations;
        for (name, value) in [
            ("the inserts", all.inserts),
            ("the updates", all.updates),
            ("the deletes", all.deletes),
            ("the hits", all.hits),
            ("the misses", all.misses),
            ("the scans", all.scans),
        ] {
            at_least(name, value, 0.0, not_negative)?;
        }
        positive("the number of operations", all.total())?;
        Ok(*self)
    }

    /// Returns the total size of all keys and values in bytes.
    #[must_use]
    pub fn data_bytes(&self) -> f64 {
        self.keys * self.record_bytes()
    }

    /// Returns the size of a key and its value in bytes.
    #[must_use]
    pub fn record_bytes(&self) -> f64 {
        self.key_bytes + self.value_bytes
    }

    pub(super) fn records(&self) -> RecordProfile {
        RecordProfile {
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            values: ValueLengths::Varied,
        }
    }

    pub(super) fn popularity(&self) -> Result<Popularity, BadParameter> {
        Popularity::zipf(self.keys as u64, self.skew)
    }
}

/// The resources of the machine on which a store runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MachineProfile {
    /// Total memory of the store in bytes.
    pub memory_bytes: f64,
    /// Memory of the page cache and the record cache in bytes, if known. A store without writes
    /// gives the memory of its memtables to the caches.
    pub cache_bytes: Option<f64>,
    /// Cost profile of the device.
    pub device: DeviceProfile,
    /// The record cache's share of the memory of both caches, unless the structure specifies it.
    pub records_share: f64,
    /// Bytes written to the device per byte of log: one if the whole log is synced, and less if the
    /// operating system keeps parts of it in memory until they are obsolete.
    pub log_share: f64,
    /// Number of bytes that wear out the device, if it is flash: its capacity times the number of
    /// program/erase cycles.
    pub endurance_bytes: Option<f64>,
}

impl Default for MachineProfile {
    /// Returns a machine with 1 GiB of memory and an SSD of unknown endurance.
    fn default() -> MachineProfile {
        MachineProfile {
            memory_bytes: 1024.0 * 1024.0 * 1024.0,
            cache_bytes: None,
            device: DeviceProfile::SSD,
            records_share: TieredSettings::USUAL.records_share,
            log_share: 1.0,
            endurance_bytes: None,
        }
    }
}

impl MachineProfile {
    /// Returns the machine, or an error if it is invalid.
    ///
    /// # Errors
    /// [`BadParameter`] if the machine has no memory, or if the device has no costs.
    pub fn checked(&self) -> Result<MachineProfile, BadParameter> {
        positive("the memory", self.memory_bytes)?;
        require(
            "the memory",
            self.memory_bytes,
            self.memory_bytes <= MOST_KEYS,
            "at most 2^63",
        )?;
        let device = &self.device;
        let takes = device.setup_ns > 0 || device.byte_ps > 0;
        require("the device's time", 0.0, takes, "more than 0")?;
        if let Some(bytes) = self.cache_bytes {
            at_least("the caches", bytes, 0.0, "finite, and not negative")?;
        }
        let of_log = "finite, and not negative";
        at_least("the writes of the log", self.log_share, 0.0, of_log)?;
        let share = at_least("the share of records", self.records_share, 0.0, "from 0 to 1")?;
        require("the share of records", share, share <= 1.0, "from 0 to 1")?;
        if let Some(bytes) = self.endurance_bytes {
            positive("the endurance", bytes)?;
        }
        Ok(*self)
    }

    /// Returns the log bytes written to the device per byte written by users, for records of
    /// `record` bytes.
    pub(super) fn log_amplification(&self, record: f64) -> f64 {
        self.log_share * (record + LOG_BYTES) / record
    }

    /// Returns the device time in nanoseconds of `requests` requests of `bytes` bytes each.
    /// Concurrent requests overlap their setup times.
    pub(super) fn device_ns(&self, requests: f64, bytes: f64) -> f64 {
        let device = &self.device;
        let setup = device.setup_ns as f64 / f64::from(device.parallelism.max(1));
        requests * (setup + bytes * device.byte_ps as f64 / 1000.0)
    }
}

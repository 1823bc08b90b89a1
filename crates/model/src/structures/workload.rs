//! What a store is asked to do, and with what: the question to the models.

use super::ours::Setting;
use crate::Popularity;
use crate::parameter::{BadParameter, at_least, positive, require};
use crate::tiered::{Lengths, Records};
use alluvium_base::DeviceProfile;

/// What a record takes in the log beside its key and value.
const LOG_BYTES: f64 = 24.0;

/// How often each operation is: any unit, only proportions count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operations {
    /// Writes of new keys.
    pub inserts: f64,
    /// Writes of keys that are there.
    pub updates: f64,
    /// Deletes.
    pub deletes: f64,
    /// Lookups of keys that are there.
    pub hits: f64,
    /// Lookups of keys that are not.
    pub misses: f64,
    /// Scans.
    pub scans: f64,
}

impl Operations {
    /// Returns all of them.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.writes() + self.lookups() + self.scans
    }

    /// Returns those that write.
    #[must_use]
    pub fn writes(&self) -> f64 {
        self.inserts + self.updates + self.deletes
    }

    /// Returns which share of the lookups that find nothing are of keys that were deleted: as many
    /// as writes of keys that are there are deletes, if those are looked up as often as others.
    #[must_use]
    pub fn deleted(&self) -> f64 {
        let gone = self.deletes / self.writes().max(f64::MIN_POSITIVE);
        let of_deleted = self.hits * gone / (1.0 - gone).max(f64::MIN_POSITIVE);
        (of_deleted / self.misses.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
    }

    /// Returns lookups of single keys.
    #[must_use]
    pub fn lookups(&self) -> f64 {
        self.hits + self.misses
    }
}

/// What a store holds, and what it is asked.
///
/// ```
/// use alluvium_model::structures::Workload;
/// let workload = Workload { keys: 1e6, skew: 0.99, ..Workload::default() };
/// assert!(workload.checked().is_ok());
/// let wrong = Workload { skew: -1.0, ..workload };
/// assert_eq!(wrong.checked().unwrap_err().name, "the skew");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// How many keys there are.
    pub keys: f64,
    /// Bytes of a key, on average.
    pub key_bytes: f64,
    /// Bytes of a value, on average.
    pub value_bytes: f64,
    /// How skewed requests are: the exponent of Zipf's law, 0 for uniform.
    pub skew: f64,
    /// How often each operation is.
    pub operations: Operations,
    /// Records that a scan returns, on average.
    pub scan_records: f64,
    /// How many updates and deletes there were so far for each key that there is: with them what is
    /// out of date grows until merges keep pace.
    pub rewrites: f64,
}

impl Default for Workload {
    /// Returns a hundred million records of 116 bytes, half of the operations updates and half
    /// lookups, without skew.
    fn default() -> Workload {
        Workload {
            keys: 1e8,
            key_bytes: 16.0,
            value_bytes: 100.0,
            skew: 0.0,
            operations: Operations {
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

/// More keys than addresses: each has a byte at least.
const MOST_KEYS: f64 = 9.2e18;

impl Workload {
    /// Returns the workload if it is one.
    ///
    /// # Errors
    /// [`BadParameter`] with the first number that is none, or out of its range.
    pub fn checked(&self) -> Result<Workload, BadParameter> {
        let keys = at_least("the number of keys", self.keys, 2.0, "at least 2, and finite")?;
        let must = "at most 2^63, which is as many as there are addresses";
        require("the number of keys", keys, keys <= MOST_KEYS, must)?;
        positive("the key's bytes", self.key_bytes)?;
        let not_negative = "finite, and not negative";
        at_least("the value's bytes", self.value_bytes, 0.0, not_negative)?;
        let bytes = keys * (self.key_bytes + self.value_bytes);
        require("the data's bytes", bytes, bytes <= MOST_KEYS, must)?;
        at_least("the skew", self.skew, 0.0, not_negative)?;
        require("the skew", self.skew, self.skew <= 5.0, "at most 5")?;
        at_least("the length of scans", self.scan_records, 0.0, not_negative)?;
        at_least("the updates for each key", self.rewrites, 0.0, not_negative)?;
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

    /// Returns the bytes of keys and values.
    #[must_use]
    pub fn data_bytes(&self) -> f64 {
        self.keys * self.record_bytes()
    }

    /// Returns the bytes of a record's key and value.
    #[must_use]
    pub fn record_bytes(&self) -> f64 {
        self.key_bytes + self.value_bytes
    }

    pub(super) fn records(&self) -> Records {
        Records {
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            values: Lengths::Varied,
        }
    }

    pub(super) fn popularity(&self) -> Result<Popularity, BadParameter> {
        Popularity::zipf(self.keys as u64, self.skew)
    }
}

/// What a store works with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Bytes of memory for the store in all.
    pub memory_bytes: f64,
    /// Bytes of it that pages and records have, if they are known: without writes they have what
    /// memtables would.
    pub cache_bytes: Option<f64>,
    /// What its device costs.
    pub device: DeviceProfile,
    /// The share of both caches that records have, where the structure does not say it.
    pub records_share: f64,
    /// How often the device is written each byte of the log: once where all of it is synced, and
    /// less where the system keeps it in memory until it is not needed any more.
    pub log_share: f64,
    /// Bytes that the device may be written before its flash is worn, if it is flash: bytes of
    /// capacity times program and erase cycles.
    pub endurance_bytes: Option<f64>,
}

impl Default for Machine {
    /// Returns a GiB of memory on an SSD whose endurance is not known.
    fn default() -> Machine {
        Machine {
            memory_bytes: 1024.0 * 1024.0 * 1024.0,
            cache_bytes: None,
            device: DeviceProfile::SSD,
            records_share: Setting::USUAL.records_share,
            log_share: 1.0,
            endurance_bytes: None,
        }
    }
}

impl Machine {
    /// Returns the machine if it is one.
    ///
    /// # Errors
    /// [`BadParameter`] if it has no memory, or a device that takes no time.
    pub fn checked(&self) -> Result<Machine, BadParameter> {
        positive("the memory", self.memory_bytes)?;
        require(
            "the memory",
            self.memory_bytes,
            self.memory_bytes <= MOST_KEYS,
            "at most 2^63",
        )?;
        let device = &self.device;
        let takes = device.setup_ns > 0 || device.byte_ps > 0;
        require("the device's time", 0.0, takes, "more than nothing")?;
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

    /// Returns what the log writes for each byte of users' writes, for records of this length.
    pub(super) fn log_amplification(&self, record: f64) -> f64 {
        self.log_share * (record + LOG_BYTES) / record
    }

    /// Returns the device's time for this many requests of as many bytes each, in nanoseconds: of
    /// requests that it serves at the same time, each has its part of the setup.
    pub(super) fn device_ns(&self, requests: f64, bytes: f64) -> f64 {
        let device = &self.device;
        let setup = device.setup_ns as f64 / f64::from(device.parallelism.max(1));
        requests * (setup + bytes * device.byte_ps as f64 / 1000.0)
    }
}

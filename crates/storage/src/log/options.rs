//! Options for creating or opening a log.

use crate::{Error, Result};
use alluvium_base::{KIB, MIB};

/// The durability that a writer requests, which determines when its append is acknowledged.
///
/// | word | acknowledged once | survives |
/// |---|---|---|
/// | `Memory` | as `Process` | as `Process` |
/// | `Process` | the record is in the page cache | `kill -9` of the process, once all lower sequences are complete |
/// | `Disk` | it and every lower sequence are synced | the loss of power |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LogDurability {
    /// The caller requests no durability. It is treated like `Process`.
    Memory,
    /// The record is in the page cache. It survives a process crash once all lower sequence numbers
    /// are complete ([`WriteAheadLog::completed`](super::WriteAheadLog::completed)). The append
    /// does not wait for that.
    Process,
    /// The record and all records with lower sequence numbers are complete and synced.
    Disk,
}

/// How a lane writes to a segment file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum SegmentAccess {
    /// Through a memory mapping, or with write calls if the file system does not support mappings.
    #[default]
    Mapped,
    /// With write calls, even if the file system supports mappings.
    Written,
}

/// Whether an append may use the reserve of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AppendPriority {
    /// Ordinary writes. They must not use the reserve.
    Normal,
    /// Deletes, voids and all writes needed for a checkpoint. They may use the reserve.
    Essential,
}

/// Maximum number of lanes of a log.
pub const MAX_LANES: usize = 64;

/// Minimum size of a segment in bytes.
pub const MIN_SEGMENT: u64 = 4 * KIB;
const _: () = assert!((64 * KIB).is_multiple_of(MIN_SEGMENT), "segments are whole pages");

/// Maximum size of a record's payload in bytes.
pub const MAX_PAYLOAD: u64 = 256 * MIB;

/// Options of a log. All sizes may change each time the log is opened.
///
/// ```
/// use alluvium_storage::log::LogOptions;
/// let options = LogOptions::with_limit(64 << 20);
/// assert_eq!(options.segment_bytes, 2 << 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Maximum total size in bytes of all unreleased segments, including the reserve.
    pub limit_bytes: u64,
    /// Size of a segment in bytes, which must be a multiple of 4 KiB. A longer record gets a
    /// segment of its own size.
    pub segment_bytes: u64,
    /// Part of `limit_bytes`, in bytes, that only [`AppendPriority::Essential`] appends may use. It
    /// must be at least one segment.
    pub reserve_bytes: u64,
    /// Number of lanes, and so of threads that can append without contention.
    pub lanes: usize,
    /// How a lane writes bytes to a segment file.
    pub access: SegmentAccess,
    /// Whether the log uses little space while its store is small. If so, the size of new segments
    /// is a quarter of the log's peak size or a 32nd of `stored_bytes`, whichever is larger,
    /// rounded up to a power of two, but at most `segment_bytes`.
    pub starts_small: bool,
    /// Size in bytes of the store when it is opened. Used only if `starts_small` is set.
    pub stored_bytes: u64,
    /// Identity of the store, which reveals segments that belong to other stores. It must be the
    /// same each time the log is opened.
    pub identity: u64,
}

impl LogOptions {
    /// Returns options for a log with this size limit. They specify four lanes and 32 segments of
    /// 64 KiB to 16 MiB, one of which is the reserve. A limit of less than eight segments is raised
    /// to eight.
    #[must_use]
    pub fn with_limit(limit_bytes: u64) -> LogOptions {
        let segment_bytes = (limit_bytes / 32 / MIN_SEGMENT * MIN_SEGMENT).clamp(64 * KIB, 16 * MIB);
        LogOptions {
            limit_bytes: limit_bytes.max(segment_bytes * 8),
            segment_bytes,
            reserve_bytes: segment_bytes,
            lanes: 4,
            access: SegmentAccess::Mapped,
            starts_small: false,
            stored_bytes: 0,
            identity: 0,
        }
    }

    /// Checks that each option is valid and that the options are consistent.
    ///
    /// # Errors
    /// [`Error::BadOption`] with the name of the first invalid option.
    pub fn validate(&self) -> Result<()> {
        let bad = |option, why| Err(Error::BadOption { option, why });
        if !(1..=MAX_LANES).contains(&self.lanes) {
            return bad(
                "log lanes",
                format!("{} is not from 1 to {MAX_LANES}", self.lanes),
            );
        }
        if self.segment_bytes < MIN_SEGMENT || !self.segment_bytes.is_multiple_of(MIN_SEGMENT) {
            let why = format!(
                "{} bytes is not a positive multiple of {MIN_SEGMENT}",
                self.segment_bytes
            );
            return bad("log segment", why);
        }
        if self.reserve_bytes < self.segment_bytes {
            let why = format!(
                "{} bytes is less than one segment of {}",
                self.reserve_bytes, self.segment_bytes
            );
            return bad("log reserve", why);
        }
        let least = (self.lanes as u64 + 2)
            .saturating_mul(self.segment_bytes)
            .saturating_add(self.reserve_bytes);
        if self.limit_bytes < least {
            let why = format!(
                "{} bytes is less than {least}: a segment for each of {} lanes, two more, and the reserve",
                self.limit_bytes, self.lanes
            );
            return bad("log limit", why);
        }
        Ok(())
    }
}

impl Default for LogOptions {
    /// Returns options for a log with a size limit of 256 MiB.
    fn default() -> Self {
        LogOptions::with_limit(256 * MIB)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_with_limit_gives_is_valid() {
        for limit in [0, 1, 1 << 20, 16 << 20, 256 << 20, 1 << 40] {
            LogOptions::with_limit(limit).validate().unwrap();
        }
    }

    #[test]
    fn an_option_that_does_not_fit_is_named() {
        let good = LogOptions::with_limit(16 << 20);
        for (bad, name) in [
            (LogOptions { lanes: 0, ..good }, "log lanes"),
            (LogOptions { lanes: 65, ..good }, "log lanes"),
            (
                LogOptions {
                    segment_bytes: 5000,
                    ..good
                },
                "log segment",
            ),
            (
                LogOptions {
                    reserve_bytes: 0,
                    ..good
                },
                "log reserve",
            ),
            (
                LogOptions {
                    limit_bytes: good.segment_bytes * 6,
                    ..good
                },
                "log limit",
            ),
        ] {
            match bad.validate() {
                Err(Error::BadOption { option, .. }) => assert_eq!(option, name),
                other => panic!("{bad:?}: {other:?}"),
            }
        }
    }
}

//! Options for opening a log.

use crate::{Error, Result};
use alluvium_base::{KIB, MIB};

/// When an append is acknowledged.
///
/// | word | acknowledged once | survives |
/// |---|---|---|
/// | `Memory` | as `Process` | as `Process` |
/// | `Process` | the record is in the page cache | `kill -9` of the process, once all lower sequences are complete |
/// | `Disk` | it and every lower sequence are synced | the loss of power |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LogDurability {
    /// The caller requests no durability. Treated as `Process`.
    Memory,
    /// The record is in the page cache. It survives the process once all lower sequences are
    /// complete ([`WriteAheadLog::completed`](super::WriteAheadLog::completed)); the append is not
    /// reported to the caller before.
    Process,
    /// The record and all lower sequences are complete and synced.
    Disk,
}

/// How bytes are written to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum SegmentAccess {
    /// Stores into a mapping, or write calls if files cannot be mapped.
    #[default]
    Mapped,
    /// Write calls, even if files can be mapped.
    Written,
}

/// Whether an append may use the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AppendPriority {
    /// Ordinary writes, which may not.
    Normal,
    /// Deletes, voids and all writes that lead to a checkpoint, which may.
    Essential,
}

/// Maximum number of lanes of a log.
pub const MAX_LANES: usize = 64;

/// Size of the smallest segment in bytes.
pub const MIN_SEGMENT: u64 = 4 * KIB;
const _: () = assert!((64 * KIB).is_multiple_of(MIN_SEGMENT), "segments are whole pages");

/// Maximum payload of one record in bytes.
pub const MAX_PAYLOAD: u64 = 256 * MIB;

/// Options of a log. The sizes may differ from one opening to the next.
///
/// ```
/// use alluvium_storage::log::LogOptions;
/// let options = LogOptions::with_limit(64 << 20);
/// assert_eq!(options.segment_bytes, 2 << 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Maximum bytes of unreleased segments, including the reserve.
    pub limit_bytes: u64,
    /// Size of a segment in bytes, a multiple of 4 KiB. A longer record gets a segment of its own
    /// size.
    pub segment_bytes: u64,
    /// Bytes of `limit_bytes` reserved for [`AppendPriority::Essential`] appends; at least one
    /// segment.
    pub reserve_bytes: u64,
    /// Number of writers that do not contend.
    pub lanes: usize,
    /// How bytes are written to a segment.
    pub access: SegmentAccess,
    /// Whether the log uses little space while its store is small. Segments then have a quarter of
    /// the log's peak size or a 32nd of `stored_bytes`, whichever is larger, but at most
    /// `segment_bytes`.
    pub starts_small: bool,
    /// Size of the store at opening in bytes, for a log that starts small.
    pub stored_bytes: u64,
    /// Identity of the store, by which segments of another store are recognised. Must be the same
    /// at every opening.
    pub identity: u64,
}

impl LogOptions {
    /// Returns options for a limit: 32 segments of 64 KiB to 16 MiB, one of them the reserve, and
    /// four lanes.
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

    /// Checks that the options are consistent.
    ///
    /// # Errors
    /// [`Error::BadOption`] naming the invalid one.
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
    /// Returns options with a limit of 256 MiB.
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

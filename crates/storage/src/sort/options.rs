//! Sort options.

use super::error::{Error, Result};
use alluvium_base::MIB;

/// Minimum memory of a sort in bytes.
const LEAST_MEMORY: usize = 64 << 10;

/// Minimum and maximum size in bytes of a frame, the unit of I/O.
const FRAMES: std::ops::RangeInclusive<usize> = 4096..=(1 << 20);

/// Unless the options specify a frame size, it is the sort's memory divided by this number, rounded
/// down to a power of two. Each of `SHARES / 2 - 2` runs then has two frames, and the output has
/// the rest.
const SHARES: usize = 128;

/// Default memory of a sort in bytes, which is 256 MiB.
const DEFAULT_MEMORY: usize = 256 * MIB as usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortRecordLayout {
    /// Records of a fixed length, whose key is at a fixed offset.
    Fixed {
        /// Size of a record in bytes.
        record_bytes: u32,
        key_offset: u32,
        /// Size of the key in bytes.
        key_bytes: u32,
    },
    /// Records that consist of a key and a value, both of variable length.
    Variable,
}

/// Which of several records with equal keys to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EqualKeyPolicy {
    /// Keep all records, in push order.
    KeepAll,
    /// Keep only the record that was pushed first.
    KeepFirst,
    /// Keep only the record that was pushed last.
    KeepLast,
}

/// Options of a sort.
///
/// ```
/// use alluvium_storage::sort::{EqualKeyPolicy, SortRecordLayout, SortOptions};
/// let lines = SortOptions::new(SortRecordLayout::Variable);
/// let newest = SortOptions { equal: EqualKeyPolicy::KeepLast, memory_bytes: 64 << 20, ..lines };
/// assert_eq!(newest.fan_in(), 62);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortOptions {
    pub layout: SortRecordLayout,
    /// Which of several records with equal keys to keep.
    pub equal: EqualKeyPolicy,
    /// Memory in bytes that the sort uses for records, in a chunk or in all frames of a merge.
    pub memory_bytes: usize,
    /// Size in bytes of a frame, the unit of I/O, which must be a multiple of 4096. If `None`, it
    /// is derived from the memory.
    pub frame_bytes: Option<usize>,
}

impl SortOptions {
    /// Returns the default options, which use 256 MiB of memory and keep all records.
    #[must_use]
    pub fn new(layout: SortRecordLayout) -> SortOptions {
        SortOptions {
            layout,
            equal: EqualKeyPolicy::KeepAll,
            memory_bytes: DEFAULT_MEMORY,
            frame_bytes: None,
        }
    }

    /// Returns the size of a frame in bytes.
    #[must_use]
    pub fn frame(&self) -> usize {
        self.frame_bytes.unwrap_or_else(|| {
            let share = self.memory_bytes / SHARES;
            let power = 1 << share.max(1).ilog2();
            power.clamp(*FRAMES.start(), *FRAMES.end())
        })
    }

    /// Returns how many runs are merged at once. Each run needs two frames, one in use and one
    /// being read. Four more frames are for the output.
    #[must_use]
    pub fn fan_in(&self) -> usize {
        (self.memory_bytes / (2 * self.frame())).saturating_sub(2).max(2)
    }

    /// Returns the maximum size of a record in bytes.
    #[must_use]
    pub fn longest_record(&self) -> usize {
        (self.memory_bytes / 8).min(1 << 30)
    }

    /// Checks that the options are valid.
    pub(super) fn verify(&self) -> Result<()> {
        let bad = |option, why: String| Err(Error::BadOption { option, why });
        if self.memory_bytes < LEAST_MEMORY {
            let why = format!(
                "{} bytes are too few: choose {LEAST_MEMORY} or more",
                self.memory_bytes
            );
            return bad("memory_bytes", why);
        }
        let frame = self.frame();
        if !FRAMES.contains(&frame) || !frame.is_multiple_of(*FRAMES.start()) || frame > self.memory_bytes / 8
        {
            let why =
                format!("{frame} is not a multiple of 4096 of at most 1 MiB and an eighth of the memory");
            return bad("frame_bytes", why);
        }
        if let SortRecordLayout::Fixed {
            record_bytes,
            key_offset,
            key_bytes,
        } = self.layout
        {
            let end = u64::from(key_offset) + u64::from(key_bytes);
            if record_bytes == 0 || end > record_bytes.into() {
                let why = format!(
                    "a key of {key_bytes} bytes at offset {key_offset} does not fit into a record of {record_bytes} bytes"
                );
                return bad("layout", why);
            }
            if record_bytes as usize > self.longest_record() {
                return Err(Error::TooLong {
                    bytes: record_bytes as usize,
                    most: self.longest_record(),
                });
            }
        }
        Ok(())
    }
}

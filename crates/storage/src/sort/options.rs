//! What is chosen of a sort before it begins.

use super::error::{Error, Result};
use alluvium_base::MIB;

/// The least memory of a sort, in bytes.
const LEAST_MEMORY: usize = 64 << 10;

/// The least and the most bytes of a frame: what is read and written at once.
const FRAMES: std::ops::RangeInclusive<usize> = 4096..=(1 << 20);

/// Frames that share the memory, if not chosen: two for each of as many runs less two.
const SHARES: usize = 128;

/// The memory of a sort, if not chosen.
const DEFAULT_MEMORY: usize = 256 * MIB as usize;

/// What records look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Records of one length, with the key at one place in each.
    Fixed {
        /// Bytes of a record.
        record_bytes: u32,
        /// Where the key begins in it.
        key_offset: u32,
        /// Bytes of the key.
        key_bytes: u32,
    },
    /// A key and a value, each of any length.
    Variable,
}

/// What becomes of records with equal keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Equal {
    /// All of them come, in the order in which they were pushed.
    KeepAll,
    /// The one that was pushed first comes alone.
    KeepFirst,
    /// The one that was pushed last comes alone.
    KeepLast,
}

/// What is chosen of a sort.
///
/// ```
/// use alluvium_storage::sort::{Equal, Layout, Options};
/// let lines = Options::new(Layout::Variable);
/// let newest = Options { equal: Equal::KeepLast, memory_bytes: 64 << 20, ..lines };
/// assert_eq!(newest.fan_in(), 62);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What records look like.
    pub layout: Layout,
    /// What becomes of records with equal keys.
    pub equal: Equal,
    /// Memory for records, of one chunk or of all frames of a merge, in bytes.
    pub memory_bytes: usize,
    /// What is read and written at once, in bytes: a multiple of 4096. Chosen from the memory if
    /// absent.
    pub frame_bytes: Option<usize>,
}

impl Options {
    /// Returns the default options: 256 MiB, and every record comes.
    #[must_use]
    pub fn new(layout: Layout) -> Options {
        Options {
            layout,
            equal: Equal::KeepAll,
            memory_bytes: DEFAULT_MEMORY,
            frame_bytes: None,
        }
    }

    /// Returns what is read and written at once, in bytes.
    #[must_use]
    pub fn frame(&self) -> usize {
        self.frame_bytes.unwrap_or_else(|| {
            let share = self.memory_bytes / SHARES;
            let power = 1 << share.max(1).ilog2();
            power.clamp(*FRAMES.start(), *FRAMES.end())
        })
    }

    /// Returns how many runs are merged at once: each has a frame that is read and one that is
    /// coming, and two are written.
    #[must_use]
    pub fn fan_in(&self) -> usize {
        (self.memory_bytes / (2 * self.frame())).saturating_sub(2).max(2)
    }

    /// Returns the most bytes of a record.
    #[must_use]
    pub fn longest_record(&self) -> usize {
        (self.memory_bytes / 8).min(1 << 30)
    }

    /// Checks that the numbers are possible.
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
                format!("{frame} is none of the multiples of 4096 up to 1 MiB and an eighth of the memory");
            return bad("frame_bytes", why);
        }
        if let Layout::Fixed {
            record_bytes,
            key_offset,
            key_bytes,
        } = self.layout
        {
            let end = u64::from(key_offset) + u64::from(key_bytes);
            if record_bytes == 0 || end > record_bytes.into() {
                let why =
                    format!("a key of {key_bytes} bytes at {key_offset} lies outside {record_bytes} bytes");
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

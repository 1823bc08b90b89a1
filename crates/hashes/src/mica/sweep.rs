//! The schedule of sweeps, which clear stale index entries before the offsets wrap around.
//!
//! Offsets wrap around after 2⁴⁸ bytes. An entry whose item was dropped long ago would then refer
//! to a different item. Each append therefore does part of a sweep, so that every bucket is swept
//! before an entry can become that old (Lim 2015, §5.3.3).

use super::error::{Error, Result};
use super::lossy::LossyOptions;
use super::sync::{AtomicU64, Ordering};

/// State of the current sweep, which only writers access.
#[derive(Debug)]
pub(super) struct SweepSchedule {
    /// Number of appended bytes per swept bucket.
    bytes_per_bucket: u64,
    next: AtomicU64,
    credit: AtomicU64,
}

impl SweepSchedule {
    /// Schedules sweeps for a table that retains entries up to the age `worth`, in bytes, and has
    /// items of at most `most_bytes` bytes.
    ///
    /// # Errors
    /// [`Error::BadOption`] if offsets have too few bits to sweep all buckets in time.
    pub(super) fn new(options: &LossyOptions, worth: u64, most_bytes: usize) -> Result<SweepSchedule> {
        let turn = 1_u64 << options.offset_bits;
        // Skipped positions can double the number of bytes by which offsets advance. The sweep is
        // scheduled to finish in half of the available time.
        let left = turn.saturating_sub(worth + 2 * most_bytes as u64);
        let bytes_per_bucket = left / 4 / options.buckets as u64;
        if bytes_per_bucket == 0 {
            let why = format!(
                "{} bits do not suffice to sweep {} buckets before offsets wrap: use more bits or fewer buckets",
                options.offset_bits, options.buckets
            );
            let option = "offset_bits";
            return Err(Error::BadOption { option, why });
        }
        Ok(SweepSchedule {
            bytes_per_bucket,
            next: AtomicU64::new(0),
            credit: AtomicU64::new(0),
        })
    }

    /// Accounts for `bytes` appended bytes, and calls `sweep` with the index of each bucket that is
    /// now due.
    #[inline]
    pub(super) fn after(&self, bytes: usize, buckets: usize, mut sweep: impl FnMut(usize)) {
        let mut credit = self.credit.load(Ordering::Relaxed) + bytes as u64;
        while credit >= self.bytes_per_bucket {
            credit -= self.bytes_per_bucket;
            let next = self.next.load(Ordering::Relaxed);
            sweep(next as usize);
            self.next.store((next + 1) % buckets as u64, Ordering::Relaxed);
        }
        self.credit.store(credit, Ordering::Relaxed);
    }
}

//! I/O counters by purpose. They are always on, because they cost only one or two relaxed additions
//! per request.

use alluvium_base::Purpose;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The values of one purpose's I/O counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Number of read requests admitted to the device.
    pub reads: u64,
    /// Total length of these read requests in bytes.
    pub read_bytes: u64,
    /// Number of write requests admitted to the device.
    pub writes: u64,
    /// Total length of these write requests in bytes.
    pub written_bytes: u64,
    /// Number of syncs of files, mapped ranges and directories.
    pub syncs: u64,
    /// Number of bytes returned to the file system by punching holes.
    pub punched_bytes: u64,
}

impl DeviceCounts {
    fn each(self, other: DeviceCounts, f: impl Fn(u64, u64) -> u64) -> DeviceCounts {
        DeviceCounts {
            reads: f(self.reads, other.reads),
            read_bytes: f(self.read_bytes, other.read_bytes),
            writes: f(self.writes, other.writes),
            written_bytes: f(self.written_bytes, other.written_bytes),
            syncs: f(self.syncs, other.syncs),
            punched_bytes: f(self.punched_bytes, other.punched_bytes),
        }
    }
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct CounterRow {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    syncs: AtomicU64,
    punched_bytes: AtomicU64,
}

/// The current I/O counters of each purpose. Clones share them.
///
/// ```
/// use alluvium_base::Purpose;
/// use alluvium_device::DeviceCounters;
/// let counters = DeviceCounters::new();
/// counters.read(Purpose::Lookup, 4096);
/// assert_eq!(counters.snapshot().of(Purpose::Lookup).read_bytes, 4096);
/// assert_eq!(counters.snapshot().total().reads, 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct DeviceCounters {
    rows: Arc<[CounterRow; Purpose::COUNT]>,
}

impl DeviceCounters {
    /// Creates counters that are all zero.
    #[must_use]
    pub fn new() -> DeviceCounters {
        DeviceCounters::default()
    }

    fn row(&self, purpose: Purpose) -> &CounterRow {
        &self.rows[purpose as usize]
    }

    /// Counts a read request of `bytes` bytes for `purpose`.
    pub fn read(&self, purpose: Purpose, bytes: u64) {
        self.row(purpose).reads.fetch_add(1, Ordering::Relaxed);
        self.row(purpose).read_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a write request of `bytes` bytes for `purpose`.
    pub fn write(&self, purpose: Purpose, bytes: u64) {
        self.row(purpose).writes.fetch_add(1, Ordering::Relaxed);
        self.row(purpose)
            .written_bytes
            .fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn sync(&self, purpose: Purpose) {
        self.row(purpose).syncs.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a punched hole of `bytes` bytes for `purpose`.
    pub fn punch(&self, purpose: Purpose, bytes: u64) {
        self.row(purpose)
            .punched_bytes
            .fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the current values of all counters. Counters of different purposes are not read at
    /// the same instant.
    #[must_use]
    pub fn snapshot(&self) -> DeviceStats {
        let mut counts = [DeviceCounts::default(); Purpose::COUNT];
        for (count, row) in counts.iter_mut().zip(self.rows.iter()) {
            *count = DeviceCounts {
                reads: row.reads.load(Ordering::Relaxed),
                read_bytes: row.read_bytes.load(Ordering::Relaxed),
                writes: row.writes.load(Ordering::Relaxed),
                written_bytes: row.written_bytes.load(Ordering::Relaxed),
                syncs: row.syncs.load(Ordering::Relaxed),
                punched_bytes: row.punched_bytes.load(Ordering::Relaxed),
            };
        }
        DeviceStats { counts }
    }
}

/// A snapshot of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DeviceStats {
    counts: [DeviceCounts; Purpose::COUNT],
}

impl DeviceStats {
    /// Returns the counters of one purpose.
    #[must_use]
    pub fn of(&self, purpose: Purpose) -> DeviceCounts {
        self.counts[purpose as usize]
    }

    /// Returns the sums over all purposes.
    #[must_use]
    pub fn total(&self) -> DeviceCounts {
        self.counts.iter().fold(DeviceCounts::default(), |sum, &count| {
            sum.each(count, |a, b| a + b)
        })
    }

    /// Returns the sum of both snapshots.
    #[must_use]
    pub fn plus(&self, other: &DeviceStats) -> DeviceStats {
        let mut counts = self.counts;
        for (count, more) in counts.iter_mut().zip(other.counts) {
            *count = count.each(more, |one, two| one + two);
        }
        DeviceStats { counts }
    }

    /// Returns the increase of each value since an earlier snapshot.
    #[must_use]
    pub fn since(&self, earlier: &DeviceStats) -> DeviceStats {
        let mut counts = self.counts;
        for (count, before) in counts.iter_mut().zip(earlier.counts) {
            *count = count.each(before, u64::saturating_sub);
        }
        DeviceStats { counts }
    }
}

//! What was measured of a device: the samples, before anything is concluded from them.
//!
//! The crate `device` measures them, the crate `model` fits its models to them.

use crate::cost::AccessKind;

/// The name of the file beside a store that holds what was measured of its device. A store may be
/// created where it is.
pub const FILE: &str = "probe.txt";

/// Where the requests of a measurement lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// At random places of the whole file, none twice before all were there.
    Random,
    /// One behind the other.
    Sequential,
    /// At random places of a small part of the file, again and again: what a cache would keep.
    Near,
}

/// How the requests of a measurement are handed to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Issue {
    /// Each that completes is followed by another, so that as many are always under way.
    Steady,
    /// As many at a time, by one call; the next ones when all of them are complete.
    Batch,
}

/// One kind of requests, of which some are measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Point {
    /// Whether they read or write.
    pub kind: AccessKind,
    /// Where they lie.
    pub order: Order,
    /// How they are handed over.
    pub issue: Issue,
    /// How many bytes each has.
    pub bytes: u64,
    /// How many are under way together.
    pub depth: u32,
}

impl Point {
    /// Returns reads at random places, one at a time.
    ///
    /// ```
    /// use alluvium_base::measured::Point;
    /// assert_eq!(Point::reads(4096).at_depth(8).depth, 8);
    /// ```
    #[must_use]
    pub fn reads(bytes: u64) -> Point {
        Point {
            kind: AccessKind::Read,
            order: Order::Random,
            issue: Issue::Steady,
            bytes,
            depth: 1,
        }
    }

    /// Returns writes at random places, one at a time.
    #[must_use]
    pub fn writes(bytes: u64) -> Point {
        Point {
            kind: AccessKind::Write,
            ..Point::reads(bytes)
        }
    }

    /// Returns the same with more requests under way.
    #[must_use]
    pub fn at_depth(self, depth: u32) -> Point {
        Point { depth, ..self }
    }

    /// Returns the same at other places.
    #[must_use]
    pub fn in_order(self, order: Order) -> Point {
        Point { order, ..self }
    }

    /// Returns the same in batches of `depth` requests.
    #[must_use]
    pub fn in_batches(self, depth: u32) -> Point {
        Point {
            issue: Issue::Batch,
            depth,
            ..self
        }
    }
}

/// What requests of one kind took, in one part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Which requests.
    pub point: Point,
    /// Each point is measured once a round; rounds are counted from 0.
    pub round: u32,
    /// How many requests were counted.
    pub requests: u64,
    /// How long all of them took, in nanoseconds.
    pub elapsed_ns: u64,
    /// How much time of processors they took, in nanoseconds.
    pub cpu_ns: u64,
    /// How long one took, or a batch of them, in nanoseconds: the mean without the quickest and the
    /// slowest tenth.
    pub typical_ns: u64,
}

impl Window {
    /// Returns how many bytes a second are moved while nothing disturbs the requests, by Little's
    /// law: as many as are under way, in the time of a single one. 0 if nothing was measured.
    #[must_use]
    pub fn undisturbed_bytes_per_s(&self) -> f64 {
        if self.typical_ns == 0 {
            return 0.0;
        }
        f64::from(self.point.depth) * self.point.bytes as f64 * 1e9 / self.typical_ns as f64
    }

    /// Returns how many bytes a second were moved, pauses included; 0 if nothing was measured.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        if self.elapsed_ns == 0 {
            return 0.0;
        }
        self.requests as f64 * self.point.bytes as f64 * 1e9 / self.elapsed_ns as f64
    }
}

/// A part of something that takes long, to see how its rate changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// How many bytes were moved.
    pub bytes: u64,
    /// How long that took, in nanoseconds.
    pub elapsed_ns: u64,
}

impl Slice {
    /// Returns how many bytes a second were moved; 0 if nothing was measured.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        if self.elapsed_ns == 0 {
            return 0.0;
        }
        self.bytes as f64 * 1e9 / self.elapsed_ns as f64
    }
}

/// What answers requests, as far as the file system says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Medium {
    /// A device, past the page cache.
    Device,
    /// The page cache: the file system refuses direct I/O.
    PageCache,
    /// Memory: the file system has no device (tmpfs, ramfs).
    Memory,
    /// A server elsewhere, over the network.
    Network,
}

/// Everything that was measured of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// When it began, in seconds since 1970.
    pub began_s: u64,
    /// What answered.
    pub medium: Medium,
    /// The kind of the file system.
    pub file_system: String,
    /// How long the file was that requests went to, in bytes.
    pub span_bytes: u64,
    /// How long it took in all, in nanoseconds.
    pub elapsed_ns: u64,
    /// All windows, in the order of time.
    pub windows: Vec<Window>,
    /// How long each sync behind a write of 4 KiB took, in nanoseconds, in the order of time.
    pub syncs_ns: Vec<u64>,
    /// How the file was written from its begin to its end.
    pub filled: Vec<Slice>,
    /// How it was read at the end, as fast as could be, for a while.
    pub sustained: Vec<Slice>,
    /// What is to be known about how the directory works here, a sentence each.
    pub notes: Vec<String>,
}

impl Measured {
    /// Returns the windows of a point, one for each round in which it was measured.
    pub fn at(&self, point: Point) -> impl Iterator<Item = &Window> {
        self.windows.iter().filter(move |window| window.point == point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_all_requests_and_nothing_measured_is_no_rate() {
        let window = Window {
            point: Point::writes(4096),
            round: 0,
            requests: 10,
            elapsed_ns: 1_000_000,
            cpu_ns: 0,
            typical_ns: 100_000,
        };
        assert_eq!(window.bytes_per_s(), 40_960_000.0);
        assert_eq!(window.undisturbed_bytes_per_s(), 40_960_000.0);
        let paused = Window {
            elapsed_ns: 2_000_000,
            ..window
        };
        assert_eq!(paused.bytes_per_s(), 20_480_000.0);
        assert_eq!(paused.undisturbed_bytes_per_s(), 40_960_000.0);
        let nothing = Window {
            elapsed_ns: 0,
            ..window
        };
        assert_eq!(nothing.bytes_per_s(), 0.0);
        let slice = Slice {
            bytes: 1 << 20,
            elapsed_ns: 1 << 20,
        };
        assert_eq!(slice.bytes_per_s(), 1e9);
    }

    #[test]
    fn points_that_differ_in_one_thing_are_others() {
        let point = Point::reads(4096);
        let others = [
            Point::writes(4096),
            Point::reads(8192),
            point.at_depth(2),
            point.in_order(Order::Near),
            point.in_batches(1),
        ];
        assert!(others.iter().all(|other| *other != point));
        assert_eq!(point.at_depth(2).at_depth(1), point);
    }
}

//! The probe, which measures the cost of reads, writes and syncs on a directory's device.
//!
//! *Scope*: which requests to measure, in which order and for how long, within a given time and
//! space.
//!
//! *Must not depend on*: conclusions from the samples. Fits, advice and warnings are up to the
//! crate `model`.
//!
//! Invariants:
//!
//! - **PR1** The file has no name while it is measured, so the file system frees its space no
//!   matter how the process ends.
//! - **PR2** Requests access only this file, within its length, which is at most the plan's space.
//! - **PR3** Every byte is written before it is read, so no file system answers a read from
//!   metadata alone.
//! - **PR4** Requests in flight at the same time have different offsets.
//!
//! Source: Bender et al., "External-memory Dictionaries in the Affine and PDAM Models", 2021, §3.1
//! and §3.2. In the paper, each point transfers 10 GiB after hours of preconditioning. Here, the
//! file is written once, and a point is measured several times for a fraction of a second.

mod arena;
mod clock;
mod drive;
mod file_system;
mod offsets;
mod schedule;
mod scratch;
#[cfg(test)]
mod tests;

pub use clock::{ProbeClock, ProcessClock};
pub use file_system::{FileSystemInfo, place_of};
pub use schedule::{BATCH, DEPTHS, SIZES, SMALL, STEP};

use crate::{Device, Directory, Error};
use alluvium_base::measurements::{DeviceMeasurements, OffsetOrder, ProbePoint, ProbeSample, TransferSlice};
use alluvium_base::{MIB, Purpose};
use drive::WindowDriver;
use scratch::FileFiller;
use std::fmt;

/// Minimum length of the measured file in bytes. It provides four offsets for the largest requests,
/// and distinct offsets for all requests at every depth.
pub const LEAST_SPACE: u64 = 16 * MIB;

/// Length of the largest requests in bytes, of which the file's length is a multiple.
const LARGEST: u64 = 4 * MIB;
const _: () = assert!(SIZES[SIZES.len() - 1] == LARGEST);

/// Maximum number of measured syncs.
const SYNCS: usize = 200;

/// Length and depth of the requests that measure sustained throughput.
const LASTING_BYTES: u64 = MIB;
const LASTING_DEPTH: u32 = 8;

const _: () = assert!(LASTING_BYTES * LASTING_DEPTH as u64 <= arena::ARENA as u64);
const _: () = assert!(LARGEST <= arena::ARENA as u64);
const _: () = assert!(STEP * DEPTHS[DEPTHS.len() - 1] as u64 <= arena::ARENA as u64);

/// Percentage of the time for each part: filling the file, reading without counting, measuring all
/// points, syncs, and sustained reading.
const FILL: u64 = 20;
const SETTLE: u64 = 2;
const POINTS: u64 = 64;
const SYNC: u64 = 6;
const LASTING: u64 = 8;
const _: () = assert!(FILL + SETTLE + POINTS + SYNC + LASTING == 100);

/// The limits of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbePlan {
    /// Time limit in nanoseconds. Requests in flight at the end are awaited.
    pub budget_ns: u64,
    /// Maximum length of the file in bytes, at least [`LEAST_SPACE`]. The file is shorter on a
    /// device that cannot write this much in the time for filling.
    pub space_bytes: u64,
    /// Number of times each point is measured.
    pub rounds: u32,
    /// Seed for the offsets and contents of requests.
    pub seed: u64,
}

impl ProbePlan {
    /// Number of rounds in most plans, enough to show whether a measurement is repeatable.
    pub const ROUNDS: u32 = 4;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeProgress {
    /// Current part of the measurement.
    pub part: ProbePart,
    /// Time elapsed so far, in nanoseconds.
    pub elapsed_ns: u64,
}

/// A part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbePart {
    /// Writing the file to be measured.
    Fill,
    /// Measuring requests of one point.
    Point(ProbePoint),
    Syncs,
    /// Reading for a long time at full throughput, as the last part.
    Lasting,
}

/// The caller's answer to a progress report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeControl {
    Continue,
    /// Stop as soon as the requests in flight are complete.
    Stop,
}

/// Why a probe returned no samples.
#[derive(Debug)]
pub enum ProbeFailure {
    /// The caller answered [`ProbeControl::Stop`].
    Stopped,
    /// The device or the file system failed.
    Device(Error),
    /// The file system has too little free space even for the smallest file.
    NoSpace {
        /// Free space in bytes, which is less than twice [`LEAST_SPACE`].
        free: u64,
    },
}

impl fmt::Display for ProbeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeFailure::Stopped => f.write_str("the probe was stopped"),
            ProbeFailure::Device(error) => error.fmt(f),
            ProbeFailure::NoSpace { free } => write!(
                f,
                "the file system has {free} bytes free, but a probe needs {LEAST_SPACE} and leaves as many free: free some space"
            ),
        }
    }
}

impl std::error::Error for ProbeFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ProbeFailure::Device(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Error> for ProbeFailure {
    fn from(error: Error) -> ProbeFailure {
        ProbeFailure::Device(error)
    }
}

/// Measures a directory's device. Calls `follow` with the progress several times a second.
///
/// ```
/// use alluvium_device::probe::{self, ProbeControl, FileSystemInfo, ProbePlan, ProcessClock};
/// use alluvium_device::memory::MemoryDirectory;
/// let plan = ProbePlan { budget_ns: 50_000_000, space_bytes: probe::LEAST_SPACE, rounds: 1, seed: 1 };
/// let directory = MemoryDirectory::new();
/// let (place, watch) = (FileSystemInfo::memory(), ProcessClock::new());
/// let measured = probe::measure(&directory, &place, &plan, &watch, &mut |_| ProbeControl::Continue)?;
/// assert!(!measured.samples.is_empty());
/// # Ok::<(), probe::ProbeFailure>(())
/// ```
///
/// # Errors
/// [`ProbeFailure`]. No file is left behind in any case (PR1).
///
/// # Panics
/// If the plan has less space than [`LEAST_SPACE`], or no rounds.
pub fn measure(
    directory: &dyn Directory,
    place: &FileSystemInfo,
    plan: &ProbePlan,
    watch: &dyn ProbeClock,
    follow: &mut dyn FnMut(ProbeProgress) -> ProbeControl,
) -> Result<DeviceMeasurements, ProbeFailure> {
    assert!(plan.space_bytes >= LEAST_SPACE, "a plan of {plan:?}");
    assert!(plan.rounds > 0, "a plan measures something");
    let began_s = watch.date_s();
    let mut probe = ProbeRun {
        watch,
        follow,
        began_ns: watch.now_ns(),
        plan: *plan,
    };
    probe.plan.space_bytes -= plan.space_bytes % LARGEST;
    let file = scratch::create(directory, probe.plan.space_bytes)?;
    let file = &*file;
    let (filled, span_bytes) = probe.fill(file)?;
    let mut driver = WindowDriver::new(file, watch, span_bytes, plan.seed);
    probe.settle(&mut driver)?;
    let windows = probe.points(&mut driver)?;
    let syncs_ns = probe.syncs(file, &mut driver)?;
    let sustained = probe.lasting(&mut driver)?;
    Ok(DeviceMeasurements {
        began_s,
        medium: place.medium_with(&directory.notes()),
        file_system: place.file_system.clone(),
        span_bytes,
        elapsed_ns: probe.elapsed_ns(),
        samples: windows,
        syncs_ns,
        filled,
        sustained,
        notes: directory.notes(),
    })
}

struct ProbeRun<'a> {
    watch: &'a dyn ProbeClock,
    follow: &'a mut dyn FnMut(ProbeProgress) -> ProbeControl,
    began_ns: u64,
    plan: ProbePlan,
}

impl ProbeRun<'_> {
    fn elapsed_ns(&self) -> u64 {
        self.watch.now_ns().saturating_sub(self.began_ns)
    }

    /// Returns a percentage of the time limit, in nanoseconds.
    fn share_ns(&self, hundredths: u64) -> u64 {
        self.plan.budget_ns / 100 * hundredths
    }

    fn report_progress(&mut self, part: ProbePart) -> Result<(), ProbeFailure> {
        let elapsed_ns = self.elapsed_ns();
        match (self.follow)(ProbeProgress { part, elapsed_ns }) {
            ProbeControl::Continue => Ok(()),
            ProbeControl::Stop => Err(ProbeFailure::Stopped),
        }
    }

    /// Writes the file (PR3). Returns the rates over time, and the length written in the time for
    /// filling.
    fn fill(&mut self, file: &dyn Device) -> Result<(Vec<TransferSlice>, u64), ProbeFailure> {
        let until_ns = self.began_ns + self.share_ns(FILL);
        let mut slices = Vec::new();
        let mut filler = FileFiller::new(file, self.plan.seed);
        while filler.at() < self.plan.space_bytes {
            if filler.at() >= LEAST_SPACE && self.watch.now_ns() >= until_ns {
                break;
            }
            self.report_progress(ProbePart::Fill)?;
            slices.push(filler.next(self.watch)?);
        }
        file.sync(Purpose::Probe)?;
        Ok((slices, filler.at()))
    }

    /// Reads for a while without counting, so that background work after the writes can finish and
    /// the processors leave their idle states.
    fn settle(&mut self, driver: &mut WindowDriver<'_>) -> Result<(), ProbeFailure> {
        for _ in 0..SETTLE {
            self.report_progress(ProbePart::Fill)?;
            driver.window(ProbePoint::reads(SMALL), 0, self.share_ns(1))?;
        }
        Ok(())
    }

    /// Measures all points, round by round, until the time for points is over. When time is short,
    /// points that an earlier round has measured are skipped, but never the essential points of the
    /// first round.
    fn points(&mut self, driver: &mut WindowDriver<'_>) -> Result<Vec<ProbeSample>, ProbeFailure> {
        let points = schedule::points();
        let begin_ns = self.watch.now_ns();
        let until_ns = self.began_ns + self.share_ns(FILL + SETTLE + POINTS);
        let all = points.len() as u64 * u64::from(self.plan.rounds);
        let window_ns = until_ns.saturating_sub(begin_ns) / all;
        let mut windows: Vec<ProbeSample> = Vec::new();
        for round in 0..self.plan.rounds {
            for &point in &points {
                let is_late = self.watch.now_ns() >= until_ns;
                if is_late && !(round == 0 && schedule::is_essential(point)) {
                    continue;
                }
                if schedule::is_too_deep(point, &windows, window_ns) {
                    continue;
                }
                self.report_progress(ProbePart::Point(point))?;
                windows.push(driver.window(point, round, window_ns)?);
            }
        }
        Ok(windows)
    }

    /// Measures syncs, each after a 4 KiB write.
    fn syncs(&mut self, file: &dyn Device, driver: &mut WindowDriver<'_>) -> Result<Vec<u64>, ProbeFailure> {
        let until_ns = self.watch.now_ns() + self.share_ns(SYNC);
        let mut buffer = driver.buffers(SMALL, 1).remove(0);
        let mut took_ns = Vec::new();
        while took_ns.len() < SYNCS && (took_ns.len() < 3 || self.watch.now_ns() < until_ns) {
            self.report_progress(ProbePart::Syncs)?;
            buffer = file.write_at(driver.place(SMALL), buffer, Purpose::Probe)?;
            let before_ns = self.watch.now_ns();
            file.sync(Purpose::Probe)?;
            took_ns.push(self.watch.now_ns().saturating_sub(before_ns));
        }
        Ok(took_ns)
    }

    /// Reads sequentially at full speed for the remaining time, and records the rate in slices.
    fn lasting(&mut self, driver: &mut WindowDriver<'_>) -> Result<Vec<TransferSlice>, ProbeFailure> {
        const SLICES: u64 = 16;
        let whole_ns = self.share_ns(LASTING);
        let point = ProbePoint::reads(LASTING_BYTES)
            .at_depth(LASTING_DEPTH)
            .in_order(OffsetOrder::Sequential);
        let mut slices = Vec::new();
        let begin_ns = self.watch.now_ns();
        for _ in 0..SLICES {
            if self.watch.now_ns().saturating_sub(begin_ns) >= 2 * whole_ns {
                break;
            }
            self.report_progress(ProbePart::Lasting)?;
            let window = driver.window(point, 0, whole_ns / SLICES)?;
            slices.push(TransferSlice {
                bytes: window.requests * LASTING_BYTES,
                elapsed_ns: window.elapsed_ns,
            });
        }
        Ok(slices)
    }
}

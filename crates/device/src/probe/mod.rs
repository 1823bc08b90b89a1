//! The probe: measures what reads, writes and syncs cost on the device under a directory.
//!
//! *Knows*: which requests are worth measuring, in which order and for how long, so that the whole
//! fits into a given time and space.
//!
//! *Does not know*: what follows from the samples: fits, advice and warnings are arithmetic, and
//! the crate `model` does it.
//!
//! *Read in this order*: this file, `place` (what the file system says), `watch` (time),
//! `schedule` (points and rounds), `scratch` (the file), `arena` (memory), `offsets`, `drive` (a
//! window).
//!
//! Invariants:
//!
//! - **PR1** The file has no name while it is measured: whatever ends the process, the file system
//!   takes its space back.
//! - **PR2** Requests go to this file alone, inside its length, which is at most the plan's space.
//! - **PR3** Every byte was written before it is read: no file system answers from its own map.
//! - **PR4** The requests under way together lie at different places.
//!
//! Source: Bender et al., "External-memory Dictionaries in the Affine and PDAM Models", 2021, §3.1
//! and §3.2. There each point moves 10 GiB behind a preconditioning of hours. Here the file is
//! written once, and a point gets fractions of a second, several times.

mod arena;
mod drive;
mod offsets;
mod place;
mod schedule;
mod scratch;
#[cfg(test)]
mod tests;
mod watch;

pub use place::{Place, place_of};
pub use schedule::{BATCH, DEPTHS, SIZES, SMALL, STEP};
pub use watch::{ProcessWatch, Watch};

use crate::{Device, Directory, Error};
use alluvium_base::measured::{Measured, Order, Point, Slice, Window};
use alluvium_base::{MIB, Purpose};
use drive::Driver;
use scratch::Filler;
use std::fmt;

/// The least file that is measured, in bytes: the largest requests have four places in it, and
/// every depth has places for all of its requests.
pub const LEAST_SPACE: u64 = 16 * MIB;

/// The largest requests, in bytes. The file's length is a multiple of it.
const LARGEST: u64 = 4 * MIB;
const _: () = assert!(SIZES[SIZES.len() - 1] == LARGEST);

/// The most syncs that are measured.
const SYNCS: usize = 200;

/// How large the requests are that show how a rate lasts, and how many are under way.
const LASTING_BYTES: u64 = MIB;
const LASTING_DEPTH: u32 = 8;

const _: () = assert!(LASTING_BYTES * LASTING_DEPTH as u64 <= arena::ARENA as u64);
const _: () = assert!(LARGEST <= arena::ARENA as u64);
const _: () = assert!(STEP * DEPTHS[DEPTHS.len() - 1] as u64 <= arena::ARENA as u64);

/// How many parts of the time go to what, of a hundred: the file is written, it is read without
/// counting, all points are measured, syncs, and reading as fast as can be.
const FILL: u64 = 20;
const SETTLE: u64 = 2;
const POINTS: u64 = 64;
const SYNC: u64 = 6;
const LASTING: u64 = 8;
const _: () = assert!(FILL + SETTLE + POINTS + SYNC + LASTING == 100);

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How long it may take, in nanoseconds. A request that is under way is waited for.
    pub budget_ns: u64,
    /// How long the file may become, in bytes: at least [`LEAST_SPACE`]. On a device that does not
    /// write as much in its part of the time it is shorter.
    pub space_bytes: u64,
    /// How often each point is measured.
    pub rounds: u32,
    /// Decides about the places and bytes of requests.
    pub seed: u64,
}

impl Plan {
    /// The rounds of most plans: as many as show whether a measurement can be repeated.
    pub const ROUNDS: u32 = 4;
}

/// How far a probe has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What it does.
    pub part: Part,
    /// How long it has worked, in nanoseconds.
    pub elapsed_ns: u64,
}

/// What a probe does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It writes its file.
    Fill,
    /// It measures requests of a kind.
    Point(Point),
    /// It measures syncs.
    Syncs,
    /// It reads as fast as can be.
    Lasting,
}

/// Whether a probe goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It goes on.
    GoOn,
    /// It ends as soon as what is under way is complete.
    Stop,
}

/// Why there are no samples.
#[derive(Debug)]
pub enum Failure {
    /// The caller has stopped it.
    Stopped,
    /// The device, or the file system.
    Device(Error),
    /// The file system has less free space than the least file needs.
    NoSpace {
        /// What is free, in bytes.
        free: u64,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Stopped => f.write_str("the probe was stopped"),
            Failure::Device(error) => error.fmt(f),
            Failure::NoSpace { free } => write!(
                f,
                "the file system has {free} bytes free, and a probe needs {LEAST_SPACE}, and as many to spare: free some space"
            ),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Failure::Device(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Device(error)
    }
}

/// Measures the device under a directory. `follow` hears how far it is, several times a second.
///
/// ```
/// use alluvium_device::probe::{self, Flow, Place, Plan, ProcessWatch};
/// use alluvium_device::memory::MemoryDirectory;
/// let plan = Plan { budget_ns: 50_000_000, space_bytes: probe::LEAST_SPACE, rounds: 1, seed: 1 };
/// let directory = MemoryDirectory::new();
/// let (place, watch) = (Place::memory(), ProcessWatch::new());
/// let measured = probe::measure(&directory, &place, &plan, &watch, &mut |_| Flow::GoOn)?;
/// assert!(!measured.windows.is_empty());
/// # Ok::<(), probe::Failure>(())
/// ```
///
/// # Errors
/// [`Failure`]. Nothing is left behind in any case (PR1).
///
/// # Panics
/// When the plan has less than [`LEAST_SPACE`], or no rounds.
pub fn measure(
    directory: &dyn Directory,
    place: &Place,
    plan: &Plan,
    watch: &dyn Watch,
    follow: &mut dyn FnMut(Progress) -> Flow,
) -> Result<Measured, Failure> {
    assert!(plan.space_bytes >= LEAST_SPACE, "a plan of {plan:?}");
    assert!(plan.rounds > 0, "a plan measures something");
    let began_s = watch.date_s();
    let mut probe = Probe {
        watch,
        follow,
        began_ns: watch.now_ns(),
        plan: *plan,
    };
    probe.plan.space_bytes -= plan.space_bytes % LARGEST;
    let file = scratch::create(directory, probe.plan.space_bytes)?;
    let file = &*file;
    let (filled, span_bytes) = probe.fill(file)?;
    let mut driver = Driver::new(file, watch, span_bytes, plan.seed);
    probe.settle(&mut driver)?;
    let windows = probe.points(&mut driver)?;
    let syncs_ns = probe.syncs(file, &mut driver)?;
    let sustained = probe.lasting(&mut driver)?;
    Ok(Measured {
        began_s,
        medium: place.medium_with(&directory.notes()),
        file_system: place.file_system.clone(),
        span_bytes,
        elapsed_ns: probe.elapsed_ns(),
        windows,
        syncs_ns,
        filled,
        sustained,
        notes: directory.notes(),
    })
}

struct Probe<'a> {
    watch: &'a dyn Watch,
    follow: &'a mut dyn FnMut(Progress) -> Flow,
    began_ns: u64,
    plan: Plan,
}

impl Probe<'_> {
    fn elapsed_ns(&self) -> u64 {
        self.watch.now_ns().saturating_sub(self.began_ns)
    }

    /// Returns a part of the time, in nanoseconds.
    fn share_ns(&self, hundredths: u64) -> u64 {
        self.plan.budget_ns / 100 * hundredths
    }

    fn go_on(&mut self, part: Part) -> Result<(), Failure> {
        let elapsed_ns = self.elapsed_ns();
        match (self.follow)(Progress { part, elapsed_ns }) {
            Flow::GoOn => Ok(()),
            Flow::Stop => Err(Failure::Stopped),
        }
    }

    /// Writes the file (PR3). Returns how that went, and how much of the file there is then: what
    /// was written in its part of the time.
    fn fill(&mut self, file: &dyn Device) -> Result<(Vec<Slice>, u64), Failure> {
        let until_ns = self.began_ns + self.share_ns(FILL);
        let mut slices = Vec::new();
        let mut filler = Filler::new(file, self.plan.seed);
        while filler.at() < self.plan.space_bytes {
            if filler.at() >= LEAST_SPACE && self.watch.now_ns() >= until_ns {
                break;
            }
            self.go_on(Part::Fill)?;
            slices.push(filler.next(self.watch)?);
        }
        file.sync(Purpose::Probe)?;
        Ok((slices, filler.at()))
    }

    /// Reads for a while without counting: what the writing has left behind is done, and the
    /// processors are awake.
    fn settle(&mut self, driver: &mut Driver<'_>) -> Result<(), Failure> {
        for _ in 0..SETTLE {
            self.go_on(Part::Fill)?;
            driver.window(Point::reads(SMALL), 0, self.share_ns(1))?;
        }
        Ok(())
    }

    /// Measures all points, round by round, until their part of the time is over. A point that an
    /// earlier round has measured is left out when time is short, never the first round's small
    /// ones.
    fn points(&mut self, driver: &mut Driver<'_>) -> Result<Vec<Window>, Failure> {
        let points = schedule::points();
        let begin_ns = self.watch.now_ns();
        let until_ns = self.began_ns + self.share_ns(FILL + SETTLE + POINTS);
        let all = points.len() as u64 * u64::from(self.plan.rounds);
        let window_ns = until_ns.saturating_sub(begin_ns) / all;
        let mut windows: Vec<Window> = Vec::new();
        for round in 0..self.plan.rounds {
            for &point in &points {
                let is_late = self.watch.now_ns() >= until_ns;
                if is_late && !(round == 0 && schedule::is_essential(point)) {
                    continue;
                }
                if schedule::is_too_deep(point, &windows, window_ns) {
                    continue;
                }
                self.go_on(Part::Point(point))?;
                windows.push(driver.window(point, round, window_ns)?);
            }
        }
        Ok(windows)
    }

    /// Measures syncs, each behind a write of 4 KiB.
    fn syncs(&mut self, file: &dyn Device, driver: &mut Driver<'_>) -> Result<Vec<u64>, Failure> {
        let until_ns = self.watch.now_ns() + self.share_ns(SYNC);
        let mut buffer = driver.buffers(SMALL, 1).remove(0);
        let mut took_ns = Vec::new();
        while took_ns.len() < SYNCS && (took_ns.len() < 3 || self.watch.now_ns() < until_ns) {
            self.go_on(Part::Syncs)?;
            buffer = file.write_at(driver.place(SMALL), buffer, Purpose::Probe)?;
            let before_ns = self.watch.now_ns();
            file.sync(Purpose::Probe)?;
            took_ns.push(self.watch.now_ns().saturating_sub(before_ns));
        }
        Ok(took_ns)
    }

    /// Reads as fast as can be, in order, for what is left of the time; in slices.
    fn lasting(&mut self, driver: &mut Driver<'_>) -> Result<Vec<Slice>, Failure> {
        const SLICES: u64 = 16;
        let whole_ns = self.share_ns(LASTING);
        let point = Point::reads(LASTING_BYTES)
            .at_depth(LASTING_DEPTH)
            .in_order(Order::Sequential);
        let mut slices = Vec::new();
        let begin_ns = self.watch.now_ns();
        for _ in 0..SLICES {
            if self.watch.now_ns().saturating_sub(begin_ns) >= 2 * whole_ns {
                break;
            }
            self.go_on(Part::Lasting)?;
            let window = driver.window(point, 0, whole_ns / SLICES)?;
            slices.push(Slice {
                bytes: window.requests * LASTING_BYTES,
                elapsed_ns: window.elapsed_ns,
            });
        }
        Ok(slices)
    }
}

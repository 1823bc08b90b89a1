//! The crash driver: runs a story on a simulated machine, crashes it at chosen device operations,
//! and judges the recovery of every resulting image.
//!
//! *Knows*: lives, images, crashes during recovery, and the reference model.
//!
//! *Does not know*: the data that the story stores.
//!
//! *Read in this order*: this file (settings and counts), `probe.rs` (taking images), `life.rs`
//! (one run), `revive.rs` (one image), `campaign.rs` (many runs), `failing.rs` (one run on a
//! failing device), `faults.rs` (many of these).
//!
//! Invariants:
//!
//! - **V1** All choices are drawn from the seed of the run: equal seeds and settings give equal
//!   images and traces.
//! - **V2** An image is judged by the promises made before it was taken, independently of later
//!   events.

mod campaign;
mod failing;
mod faults;
mod life;
mod panics;
mod probe;
mod revive;

pub(crate) use campaign::kept;
pub use campaign::{Campaign, Report};
pub use faults::{FaultCampaign, FaultReport};

use crate::replay::{FaultAt, Target, Turn};
use crate::saboteur::{Sabotage, Saboteur};
use crate::story::Story;
use crate::{Coverage, shrink};
use alluvium_device::Directory;
use alluvium_device::simulated::SimDirectory;
use probe::Choice;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// The length and density of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Steps per run.
    pub steps: usize,
    /// Mean number of device operations between two crash points of the run.
    pub point_every: u32,
    /// Number of survival modes tried at each crash point, at most five.
    pub survivals: usize,
    /// Maximum depth of crashes during recovery; 0 for none.
    pub depth: usize,
    /// Mean number of device operations between two crash points of a recovery.
    pub nested_every: u32,
    /// One in this many images is used for [`Settings::second_life_steps`] more steps after its
    /// recovery, on average.
    pub second_life_every: u32,
    /// Number of steps of a second life.
    pub second_life_steps: usize,
    /// Number of steps between two comparisons of all contents with the reference.
    pub verify_every: usize,
    /// A bug planted between the story and its device.
    pub sabotage: Option<Sabotage>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            steps: 60,
            point_every: 4,
            survivals: 5,
            depth: 3,
            nested_every: 4,
            second_life_every: 16,
            second_life_steps: 6,
            verify_every: 8,
            sabotage: None,
        }
    }
}

impl Settings {
    pub(crate) fn directory(&self, machine: &SimDirectory) -> Arc<dyn Directory> {
        let honest: Arc<dyn Directory> = Arc::new(machine.reopen());
        match self.sabotage {
            Some(bug) => Saboteur::wrap(honest, bug),
            None => honest,
        }
    }
}

/// Counts over runs.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Number of runs.
    pub runs: u64,
    /// Images opened and judged.
    pub points: u64,
    /// Images not opened, because an equal one was judged under equal promises.
    pub repeats: u64,
    /// Judged images by the number of crashes that led to them: one, two, three…
    pub by_depth: Vec<u64>,
    /// Device operations of the runs.
    pub operations: u64,
    /// A hash of everything that was done: equal for equal seeds.
    pub trace: u64,
    pub(crate) distinct: HashSet<u64>,
}

impl Tally {
    /// Returns the number of distinct images among the judged ones.
    #[must_use]
    pub fn distinct(&self) -> u64 {
        self.distinct.len() as u64
    }

    pub(crate) fn merge(&mut self, other: Tally) {
        self.runs += other.runs;
        self.points += other.points;
        self.repeats += other.repeats;
        self.operations += other.operations;
        self.trace = self.trace.rotate_left(7) ^ other.trace;
        for (index, count) in other.by_depth.into_iter().enumerate() {
            self.add_depth(index, count);
        }
        self.distinct.extend(other.distinct);
    }

    fn add_depth(&mut self, index: usize, count: u64) {
        if self.by_depth.len() <= index {
            self.by_depth.resize(index + 1, 0);
        }
        self.by_depth[index] += count;
    }
}

/// A failure, and how to reproduce it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How to reproduce it.
    pub target: Target,
    /// Description of the failure.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}\n  {}=\"{}\"",
            self.text,
            crate::replay::VARIABLE,
            self.target
        )
    }
}

/// A failure of a life, without its target.
#[derive(Debug)]
pub(crate) struct Bad {
    /// The step of the run during which it occurred.
    pub(crate) step: usize,
    /// The crashes before it.
    pub(crate) path: Vec<Turn>,
    pub(crate) text: String,
}

impl Bad {
    fn new(step: usize, path: &[Turn], text: impl fmt::Display) -> Bad {
        Bad {
            step,
            path: path.to_vec(),
            text: text.to_string(),
        }
    }
}

/// The crash points of a run.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    /// Samples crash points according to the settings.
    Sample,
    /// Follows one path of crashes.
    Follow(Vec<Turn>),
    /// Tries every operation of the last step as a crash point, with the survival modes of a path
    /// and several seeds.
    LastStep(Vec<Turn>),
}

/// A run of a story with all its crashes.
pub(crate) struct Explorer<'a, S: Story> {
    pub(crate) story: &'a S,
    pub(crate) settings: &'a Settings,
    pub(crate) plan: Plan,
    pub(crate) seed: u64,
    pub(crate) coverage: Coverage,
    pub(crate) tally: Tally,
    /// Maximum number of images to judge.
    pub(crate) limit: u64,
    /// The largest disk usage of a run with a fault.
    space: u64,
    /// Hashes of the judged images and their promises.
    judged: HashSet<u64>,
}

impl<'a, S: Story> Explorer<'a, S> {
    pub(crate) fn new(story: &'a S, settings: &'a Settings, plan: Plan, seed: u64) -> Self {
        Explorer {
            story,
            settings,
            plan,
            seed,
            coverage: Coverage::new(),
            tally: Tally::default(),
            limit: u64::MAX,
            space: 0,
            judged: HashSet::new(),
        }
    }

    /// Returns the crash points of a life at `depth`.
    fn choice(&self, depth: usize, seed: u64) -> Choice {
        match &self.plan {
            Plan::Sample if depth == 0 => Choice::of_run(self.settings, seed),
            Plan::Sample if depth > self.settings.depth => Choice::Nothing,
            Plan::Sample => Choice::Sampled {
                seed,
                every: self.settings.nested_every,
                survivals: 1,
            },
            Plan::Follow(path) => path
                .get(depth)
                .map_or(Choice::Nothing, |turn| Choice::Only(*turn)),
            Plan::LastStep(path) => path.get(depth).map_or(Choice::Nothing, |turn| Choice::Within {
                calls: if depth == 0 {
                    u64::MAX..u64::MAX
                } else {
                    0..u64::MAX
                },
                survival: turn.survival,
                seeds: shrink::seeds_at(path, depth),
            }),
        }
    }

    pub(crate) fn finding(&self, bad: Bad, steps: &[usize], fault: Option<FaultAt>) -> Finding {
        let target = Target {
            story: self.story.name().to_owned(),
            seed: self.seed,
            steps: steps.iter().copied().take(bad.step + 1).collect(),
            path: bad.path,
            fault,
        };
        Finding {
            target,
            text: bad.text,
        }
    }
}

//! The crash driver: runs a story on a simulated machine, crashes it at chosen device operations,
//! and judges the recovery of every resulting image.
//!
//! *Scope*: lives, images, crashes during recovery, and the reference model.
//!
//! *Must not depend on*: the data that the story stores.
//!
//! Invariants:
//!
//! - **V1** All choices are drawn from the seed of the run: equal seeds and settings give equal
//!   images and traces.
//! - **V2** An image is judged by the promises made before it was taken, independently of later
//!   events.

mod campaign;
mod fault_run;
mod faults;
mod life;
mod panics;
mod probe;
mod revive;

pub(crate) use campaign::kept;
pub use campaign::{CampaignReport, CrashCampaign};
pub use faults::{FaultCampaign, FaultReport};

use crate::replay::{FaultAt, PlannedCrash, ReplayTarget};
use crate::saboteur::{PlantedBug, SabotagedDirectory};
use crate::story::Story;
use crate::{Coverage, shrink};
use alluvium_device::Directory;
use alluvium_device::simulated::SimDirectory;
use probe::CrashSampling;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// The length and density of a run.
#[derive(Clone, Debug)]
pub struct RunSettings {
    pub steps: usize,
    /// Mean number of device operations between two crash points of the run.
    pub point_every: u32,
    /// Number of survival modes tried at each crash point, at most five.
    pub survivals: usize,
    /// Maximum depth of crashes during recovery; 0 for none.
    pub depth: usize,
    /// Mean number of device operations between two crash points of a recovery.
    pub nested_every: u32,
    /// One in this many images is used for [`RunSettings::second_life_steps`] more steps after its
    /// recovery, on average.
    pub second_life_every: u32,
    /// Number of steps of a second life.
    pub second_life_steps: usize,
    /// Number of steps between two comparisons of all contents with the reference.
    pub verify_every: usize,
    /// A bug planted between the story and its device.
    pub sabotage: Option<PlantedBug>,
}

impl Default for RunSettings {
    fn default() -> Self {
        RunSettings {
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

impl RunSettings {
    pub(crate) fn directory(&self, machine: &SimDirectory) -> Arc<dyn Directory> {
        let honest: Arc<dyn Directory> = Arc::new(machine.reopen());
        match self.sabotage {
            Some(bug) => SabotagedDirectory::wrap(honest, bug),
            None => honest,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct RunCounts {
    pub runs: u64,
    /// Crash images that were opened and judged.
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

impl RunCounts {
    /// Returns the number of distinct images among the judged ones.
    #[must_use]
    pub fn distinct(&self) -> u64 {
        self.distinct.len() as u64
    }

    pub(crate) fn merge(&mut self, other: RunCounts) {
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
pub struct SimulationFinding {
    pub target: ReplayTarget,
    pub text: String,
}

impl fmt::Display for SimulationFinding {
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
pub(crate) struct LifeFailure {
    /// The step of the run during which it occurred.
    pub(crate) step: usize,
    /// The crashes that preceded the failure, in order.
    pub(crate) path: Vec<PlannedCrash>,
    pub(crate) text: String,
}

impl LifeFailure {
    fn new(step: usize, path: &[PlannedCrash], text: impl fmt::Display) -> LifeFailure {
        LifeFailure {
            step,
            path: path.to_vec(),
            text: text.to_string(),
        }
    }
}

/// The crash points of a run.
#[derive(Clone, Debug)]
pub(crate) enum CrashPlan {
    /// Samples crash points according to the settings.
    Sample,
    /// Follows one path of crashes.
    Follow(Vec<PlannedCrash>),
    /// Tries every operation of the last step as a crash point, with the survival modes of a path
    /// and several seeds.
    LastStep(Vec<PlannedCrash>),
}

/// A run of a story with all its crashes.
pub(crate) struct CrashExplorer<'a, S: Story> {
    pub(crate) story: &'a S,
    pub(crate) settings: &'a RunSettings,
    pub(crate) plan: CrashPlan,
    pub(crate) seed: u64,
    pub(crate) coverage: Coverage,
    pub(crate) tally: RunCounts,
    /// Maximum number of images to judge.
    pub(crate) limit: u64,
    /// The largest disk usage of a run with a fault.
    space: u64,
    /// Hashes of the judged images and their promises.
    judged: HashSet<u64>,
}

impl<'a, S: Story> CrashExplorer<'a, S> {
    pub(crate) fn new(story: &'a S, settings: &'a RunSettings, plan: CrashPlan, seed: u64) -> Self {
        CrashExplorer {
            story,
            settings,
            plan,
            seed,
            coverage: Coverage::new(),
            tally: RunCounts::default(),
            limit: u64::MAX,
            space: 0,
            judged: HashSet::new(),
        }
    }

    /// Returns the crash points of a life at `depth`.
    fn choice(&self, depth: usize, seed: u64) -> CrashSampling {
        match &self.plan {
            CrashPlan::Sample if depth == 0 => CrashSampling::of_run(self.settings, seed),
            CrashPlan::Sample if depth > self.settings.depth => CrashSampling::Nothing,
            CrashPlan::Sample => CrashSampling::Sampled {
                seed,
                every: self.settings.nested_every,
                survivals: 1,
            },
            CrashPlan::Follow(path) => path
                .get(depth)
                .map_or(CrashSampling::Nothing, |turn| CrashSampling::Only(*turn)),
            CrashPlan::LastStep(path) => {
                path.get(depth)
                    .map_or(CrashSampling::Nothing, |turn| CrashSampling::Within {
                        calls: if depth == 0 {
                            u64::MAX..u64::MAX
                        } else {
                            0..u64::MAX
                        },
                        survival: turn.survival,
                        seeds: shrink::seeds_at(path, depth),
                    })
            }
        }
    }

    pub(crate) fn finding(
        &self,
        bad: LifeFailure,
        steps: &[usize],
        fault: Option<FaultAt>,
    ) -> SimulationFinding {
        let target = ReplayTarget {
            story: self.story.name().to_owned(),
            seed: self.seed,
            steps: steps.iter().copied().take(bad.step + 1).collect(),
            path: bad.path,
            fault,
        };
        SimulationFinding {
            target,
            text: bad.text,
        }
    }
}

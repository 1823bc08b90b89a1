//! The crash driver. It runs a story on a simulated machine, crashes the machine at selected device
//! operations, and judges the store recovered from each crash image.
//!
//! *Scope*: lives of a simulated store, crash images, crashes during recovery, and the reference
//! model.
//!
//! *Must not depend on*: the data that the story stores.
//!
//! Invariants:
//!
//! - **V1** All random choices are derived from the run's seed. Runs with equal seeds and settings
//!   produce equal images and traces.
//! - **V2** A crash image is judged by the promises that the store had made before the image was
//!   taken. Later events do not matter.

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

/// The length of a run and the density of its crash points.
#[derive(Clone, Debug)]
pub struct RunSettings {
    pub steps: usize,
    /// Average number of device operations between crash points of the run.
    pub point_every: u32,
    /// Number of survival modes, up to five, for which each crash point takes an image.
    pub survivals: usize,
    /// Maximum number of successive crashes during recovery, or 0 if recovery never crashes.
    pub depth: usize,
    /// Average number of device operations between crash points during a recovery.
    pub nested_every: u32,
    /// On average, one in this many recovered stores executes another
    /// [`RunSettings::second_life_steps`] steps.
    pub second_life_every: u32,
    /// Number of steps that such a recovered store executes.
    pub second_life_steps: usize,
    /// Number of steps between comparisons of the whole contents with the reference model.
    pub verify_every: usize,
    /// A bug to plant between the store and its device, if any.
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
    /// Number of crash images opened and judged.
    pub points: u64,
    /// Number of crash images that were not opened, because an equal image had already been judged
    /// by equal promises.
    pub repeats: u64,
    /// Number of judged images by how many crashes produced them. The first element counts images
    /// of a single crash.
    pub by_depth: Vec<u64>,
    /// Number of device operations in all runs.
    pub operations: u64,
    /// A hash of everything that the runs did, which is the same for the same seeds.
    pub trace: u64,
    pub(crate) distinct: HashSet<u64>,
}

impl RunCounts {
    /// Returns the number of distinct images among those judged.
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

/// A failure, and what is needed to reproduce it.
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

/// A failure of one life, without what is needed to replay it.
#[derive(Debug)]
pub(crate) struct LifeFailure {
    /// The index of the step in which the failure occurred.
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

/// How the crash points of a run are chosen.
#[derive(Clone, Debug)]
pub(crate) enum CrashPlan {
    /// Chooses crash points at random, with the density given by the settings.
    Sample,
    /// Crashes exactly as a list of crashes says.
    Follow(Vec<PlannedCrash>),
    /// Tries every device operation of the last step as a crash point, with the survival modes of
    /// the given list of crashes and several seeds.
    LastStep(Vec<PlannedCrash>),
}

/// Executes a run of a story and all of its crashes.
pub(crate) struct CrashExplorer<'a, S: Story> {
    pub(crate) story: &'a S,
    pub(crate) settings: &'a RunSettings,
    pub(crate) plan: CrashPlan,
    pub(crate) seed: u64,
    pub(crate) coverage: Coverage,
    pub(crate) tally: RunCounts,
    /// Maximum number of crash images to judge.
    pub(crate) limit: u64,
    /// The peak disk usage in bytes of a run with an injected fault.
    space: u64,
    /// Hashes of the images judged so far, each combined with the promises by which the image was
    /// judged.
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

    /// Returns how to choose the crash points of a life that begins after `depth` crashes.
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

//! The crash driver: runs a story on a simulated machine, ends its life at chosen device
//! operations, and judges what every image of that moment comes back as.
//!
//! *Knows*: lives, images, recoveries within recoveries, and the reference they are judged by.
//!
//! *Does not know*: what the story stores.
//!
//! *Read in this order*: this file (what can be set, what is counted), `probe.rs` (taking images),
//! `life.rs` (one run), `revive.rs` (one image), `campaign.rs` (many runs), `failing.rs` (one run
//! on a device that fails), `faults.rs` (all of them).
//!
//! Invariants:
//!
//! - **V1** Everything is drawn from the seed of the run: the same seed and settings give the same
//!   images and the same trace.
//! - **V2** An image is judged by what had been promised when it was taken, not by what happened
//!   later.

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

/// How far a run goes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Steps of a run.
    pub steps: usize,
    /// Device operations of the run from one crash point to the next, on average.
    pub point_every: u32,
    /// With how many survivals each crash point is tried, at most five.
    pub survivals: usize,
    /// How deep recoveries are crashed: 0 for not at all.
    pub depth: usize,
    /// Device operations of a recovery from one crash point to the next, on average.
    pub nested_every: u32,
    /// Images from one that is used on after its recovery, for [`Settings::second_life_steps`] more
    /// steps, to the next, on average.
    pub second_life_every: u32,
    /// How many steps a second life has.
    pub second_life_steps: usize,
    /// Steps from one comparison of everything with the reference to the next.
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

/// What is counted over runs.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Runs begun.
    pub runs: u64,
    /// Images opened and judged.
    pub points: u64,
    /// Images not opened because an equal one had been judged under equal promises.
    pub repeats: u64,
    /// Images judged by how many crashes led to them: one, two, three…
    pub by_depth: Vec<u64>,
    /// Device operations of the runs.
    pub operations: u64,
    /// A sum of everything that was done: equal for equal seeds.
    pub trace: u64,
    pub(crate) distinct: HashSet<u64>,
}

impl Tally {
    /// Different images among those judged.
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

/// Something that must not happen, and how to get there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How to get there.
    pub target: Target,
    /// What happened.
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

/// What a life reports, without its place yet.
#[derive(Debug)]
pub(crate) struct Bad {
    /// The step of the run during which it happened.
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

/// What an explorer tries.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    /// Samples points as the settings say.
    Sample,
    /// Follows one path.
    Follow(Vec<Turn>),
    /// Tries every operation of the last step with the survivals of a path, and several seeds.
    LastStep(Vec<Turn>),
}

/// One run of a story and everything that comes of it.
pub(crate) struct Explorer<'a, S: Story> {
    pub(crate) story: &'a S,
    pub(crate) settings: &'a Settings,
    pub(crate) plan: Plan,
    pub(crate) seed: u64,
    pub(crate) coverage: Coverage,
    pub(crate) tally: Tally,
    /// How many images are judged at most.
    pub(crate) limit: u64,
    /// The most space that a faulty run took.
    space: u64,
    /// Images already judged, with what was promised.
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

    /// Returns which operations of a life at `depth` are crash points.
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

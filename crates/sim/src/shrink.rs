//! Minimises a failure. The shrinker looks for fewer steps, fewer crashes and a simpler survival
//! mode that still fail.
//!
//! The failure occurs in the last step. A candidate with fewer steps is therefore tried with every
//! device operation of its last step as the crash point, and with several seeds for each. The
//! earlier steps are minimised by delta debugging (Zeller and Hildebrandt 2002). A candidate is
//! accepted if it fails in any way, even differently from the original.

use crate::driver::{CrashExplorer, CrashPlan, LifeFailure, RunSettings, SimulationFinding, kept};
use crate::replay::PlannedCrash;
use crate::story::{RunStep, Story};
use alluvium_device::simulated::CrashSurvival;

/// Maximum number of candidates to try.
const CANDIDATES: u32 = 300;

/// Maximum number of crash images to judge for each candidate.
const POINTS: u64 = 3000;

/// Returns the seeds to try for the crash at index `depth` of a path: the original seed, and a few
/// more for the last crash.
pub(crate) fn seeds_at(path: &[PlannedCrash], depth: usize) -> Vec<u64> {
    let more = if depth + 1 == path.len() { 10 } else { 0 };
    path.get(depth)
        .into_iter()
        .map(|turn| turn.seed)
        .chain(0..more)
        .collect()
}

/// Minimises the run with seed `seed` and failure `bad`, and returns the smallest failing run
/// found. Judges at most `effort` crash images.
pub(crate) fn shrink<S: Story>(
    story: &S,
    settings: &RunSettings,
    seed: u64,
    effort: u64,
    bad: LifeFailure,
) -> SimulationFinding {
    let all = story.steps(seed, settings.steps);
    let places: Vec<usize> = (0..all.len().min(bad.step + 1)).collect();
    let mut shrinker = RunShrinker {
        story,
        settings,
        seed,
        all,
        best: (places, bad),
        left: CANDIDATES,
        points: effort,
    };
    shrinker.fewer_crashes();
    shrinker.fewer_steps();
    shrinker.fewer_crashes();
    shrinker.simpler_survival();
    let (places, bad) = shrinker.best;
    let explorer = CrashExplorer::new(story, settings, CrashPlan::Sample, seed);
    explorer.finding(bad, &places, None)
}

struct RunShrinker<'a, S: Story> {
    story: &'a S,
    settings: &'a RunSettings,
    seed: u64,
    all: Vec<RunStep<S::Action>>,
    /// The steps of the smallest failing candidate so far, and its failure.
    best: (Vec<usize>, LifeFailure),
    left: u32,
    points: u64,
}

impl<S: Story> RunShrinker<'_, S> {
    /// Runs a subset of the steps with the crashes in `path`. If this fails, the candidate becomes
    /// the best one. Returns whether it fails.
    fn try_steps(&mut self, places: Vec<usize>, path: &[PlannedCrash]) -> bool {
        if self.left == 0 || self.points == 0 {
            return false;
        }
        self.left -= 1;
        let steps = kept(&self.all, &places);
        let plan = CrashPlan::LastStep(path.to_vec());
        let mut explorer = CrashExplorer::new(self.story, self.settings, plan, self.seed);
        explorer.limit = POINTS.min(self.points);
        let result = explorer.run(&steps);
        self.points = self.points.saturating_sub(explorer.tally.points);
        match result {
            Ok(()) => false,
            Err(bad) => {
                let places = places.into_iter().take(bad.step + 1).collect();
                self.best = (places, bad);
                true
            }
        }
    }

    fn fewer_steps(&mut self) {
        let mut chunk = self.best.0.len() / 2;
        while chunk > 0 {
            let mut at = 0;
            // Never remove the last step, because it is the one that fails.
            while at + 1 < self.best.0.len() {
                let mut places = self.best.0.clone();
                let end = (at + chunk).min(places.len() - 1);
                places.drain(at..end);
                let path = self.best.1.path.clone();
                if !self.try_steps(places, &path) {
                    at += chunk;
                }
            }
            chunk /= 2;
        }
    }

    fn fewer_crashes(&mut self) {
        while self.best.1.path.len() > 1 {
            let path = self.best.1.path.clone();
            let shorter = [&path[..1], &path[1..2]];
            let places = self.best.0.clone();
            if !shorter
                .iter()
                .any(|shorter| self.try_steps(places.clone(), shorter))
            {
                return;
            }
        }
    }

    fn simpler_survival(&mut self) {
        let [turn] = self.best.1.path[..] else { return };
        for survival in [
            CrashSurvival::All,
            CrashSurvival::Process,
            CrashSurvival::None,
            CrashSurvival::Random,
        ] {
            if survival == turn.survival
                || self.try_steps(self.best.0.clone(), &[PlannedCrash { survival, ..turn }])
            {
                return;
            }
        }
    }
}

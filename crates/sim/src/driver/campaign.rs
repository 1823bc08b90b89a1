//! Crash campaigns, which combine the results of many simulation runs on several threads.

use super::{CrashExplorer, CrashPlan, LifeFailure, RunCounts, RunSettings, SimulationFinding};
use crate::replay::{ReplayTarget, requested};
use crate::story::{RunStep, Story};
use crate::{Coverage, shrink};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Runs a story with one seed after another, until enough crash images have been judged or a
/// failure is found.
pub struct CrashCampaign<S: Story> {
    story: S,
    settings: RunSettings,
    first_seed: u64,
    points: u64,
    runs: u64,
    workers: usize,
    effort: u64,
    test: String,
}

/// The result of a crash campaign.
#[derive(Debug, Default)]
pub struct CampaignReport {
    /// The numbers of runs and crash images.
    pub tally: RunCounts,
    /// Coverage counters of the story and of the driver.
    pub coverage: BTreeMap<&'static str, u64>,
    /// The first failure, minimised, with the command that replays it, or `None` if nothing failed.
    pub finding: Option<SimulationFinding>,
    test: String,
}

impl<S: Story> CrashCampaign<S> {
    /// Creates a campaign that judges 20,000 crash images on one thread. The first run has seed 1.
    #[must_use]
    pub fn new(story: S) -> Self {
        CrashCampaign {
            story,
            settings: RunSettings::default(),
            first_seed: 1,
            points: 20_000,
            runs: u64::MAX,
            workers: 1,
            effort: 100_000,
            test: String::new(),
        }
    }

    /// Sets the length of each run and the density of its crash points.
    #[must_use]
    pub fn settings(self, settings: RunSettings) -> Self {
        CrashCampaign { settings, ..self }
    }

    /// Sets the seed of the first run. Later runs use the seeds that follow.
    #[must_use]
    pub fn first_seed(self, first_seed: u64) -> Self {
        CrashCampaign { first_seed, ..self }
    }

    /// Sets the number of crash images to judge before the campaign ends.
    #[must_use]
    pub fn points(self, points: u64) -> Self {
        CrashCampaign { points, ..self }
    }

    /// Sets the maximum number of runs.
    #[must_use]
    pub fn runs(self, runs: u64) -> Self {
        CrashCampaign { runs, ..self }
    }

    /// Sets the number of threads. It does not influence the result, except for how many crash
    /// images are judged beyond the requested number.
    #[must_use]
    pub fn workers(self, workers: usize) -> Self {
        CrashCampaign {
            workers: workers.max(1),
            ..self
        }
    }

    /// Sets how many crash images may be judged to minimise a failure. The default of 100,000 takes
    /// a few seconds.
    #[must_use]
    pub fn effort(self, effort: u64) -> Self {
        CrashCampaign { effort, ..self }
    }

    /// Sets the command that runs this campaign, such as `cargo test -p alluvium-sim -- toy`. It is
    /// printed with a failure, so that the failure can be replayed.
    #[must_use]
    pub fn command(self, command: &str) -> Self {
        CrashCampaign {
            test: command.to_owned(),
            ..self
        }
    }

    /// Runs the campaign. If an environment variable names a failure of this story, only that
    /// failure is replayed; if it names one of another story, nothing is run.
    pub fn run(&self) -> CampaignReport {
        match requested() {
            Some(target) if target.story == self.story.name() && target.fault.is_none() => {
                return self.replay(&target);
            }
            Some(_) => return CampaignReport::default(),
            None => {}
        }
        let (mut tally, coverage) = (RunCounts::default(), Coverage::new());
        let mut finding = None;
        let mut seed = self.first_seed;
        let mut left = self.runs;
        while finding.is_none() && tally.points < self.points && left > 0 {
            let wave = self.next_wave(&tally).min(left);
            for run in self.wave(seed, wave) {
                tally.merge(run.tally);
                for (name, count) in run.coverage.counts() {
                    coverage.add(name, count);
                }
                if let (None, Some((seed, bad))) = (&finding, run.bad) {
                    finding = Some(shrink::shrink(
                        &self.story,
                        &self.settings,
                        seed,
                        self.effort,
                        bad,
                    ));
                }
            }
            seed += wave;
            left -= wave;
        }
        CampaignReport {
            tally,
            coverage: coverage.counts(),
            finding,
            test: self.test.clone(),
        }
    }

    /// Replays the steps and crashes of a recorded failure.
    pub fn replay(&self, target: &ReplayTarget) -> CampaignReport {
        let count = target.steps.last().map_or(0, |last| last + 1);
        let all = self.story.steps(target.seed, count);
        let steps = kept(&all, &target.steps);
        let plan = CrashPlan::Follow(target.path.clone());
        let mut explorer = CrashExplorer::new(&self.story, &self.settings, plan, target.seed);
        let result = explorer.run(&steps);
        let finding = result.err().map(|bad| explorer.finding(bad, &target.steps, None));
        CampaignReport {
            coverage: explorer.coverage.counts(),
            tally: explorer.tally,
            finding,
            test: self.test.clone(),
        }
    }

    /// Returns how many runs to start next: probably as many as will complete the campaign, but at
    /// least one and at most four per thread.
    fn next_wave(&self, so_far: &RunCounts) -> u64 {
        let workers = self.workers as u64;
        let missing = self.points - so_far.points;
        let likely = missing.saturating_mul(so_far.runs) / so_far.points.max(1);
        likely.clamp(workers, workers * 4)
    }

    /// Runs the story with `count` consecutive seeds on all threads. Returns the outcomes in seed
    /// order.
    fn wave(&self, first: u64, count: u64) -> Vec<SeedOutcome> {
        let next = AtomicUsize::new(0);
        let done = Mutex::new(Vec::new());
        let work = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed) as u64;
                if at >= count {
                    return;
                }
                let run = self.one(first + at);
                done.lock().push((at, run));
            }
        };
        if self.workers == 1 {
            work();
        } else {
            std::thread::scope(|scope| {
                for _ in 0..self.workers {
                    scope.spawn(work);
                }
            });
        }
        let mut done = done.into_inner();
        done.sort_by_key(|(at, _)| *at);
        done.into_iter().map(|(_, run)| run).collect()
    }

    fn one(&self, seed: u64) -> SeedOutcome {
        let steps = self.story.steps(seed, self.settings.steps);
        let steps: Vec<_> = steps.into_iter().enumerate().collect();
        let mut explorer = CrashExplorer::new(&self.story, &self.settings, CrashPlan::Sample, seed);
        let bad = explorer.run(&steps).err().map(|bad| (seed, bad));
        SeedOutcome {
            tally: explorer.tally,
            coverage: explorer.coverage,
            bad,
        }
    }
}

struct SeedOutcome {
    tally: RunCounts,
    coverage: Coverage,
    bad: Option<(u64, LifeFailure)>,
}

/// Returns the selected steps of a story, each with its index in the story.
pub(crate) fn kept<A: Clone>(all: &[RunStep<A>], places: &[usize]) -> Vec<(usize, RunStep<A>)> {
    let kept = places
        .iter()
        .filter_map(|&place| Some((place, all.get(place)?.clone())));
    kept.collect()
}

impl CampaignReport {
    /// Asserts that the campaign found no failure.
    ///
    /// # Panics
    /// If there was a failure. The message contains the command that replays it.
    pub fn expect_clean(&self) {
        if let Some(line) = self.replay_line() {
            let text = self.finding.as_ref().map_or("", |finding| &finding.text);
            panic!("{text}\nreplay it with:\n{line}");
        }
    }

    /// Returns the command that replays the failure, or `None` if nothing failed.
    #[must_use]
    pub fn replay_line(&self) -> Option<String> {
        let target = &self.finding.as_ref()?.target;
        Some(format!("{}=\"{target}\" {}", crate::replay::VARIABLE, self.test))
    }

    /// Formats all counters as a table. `elapsed` is the time that all threads have used in total.
    #[must_use]
    pub fn table(&self, elapsed: Duration) -> String {
        let tally = &self.tally;
        let mut out = String::new();
        let mut row = |name: &str, value: String| {
            let _ = writeln!(out, "{name:<34} {value:>14}");
        };
        row("runs", tally.runs.to_string());
        row("device operations of the runs", tally.operations.to_string());
        row("crash points judged", tally.points.to_string());
        row("distinct images", tally.distinct().to_string());
        row("images equal to one judged before", tally.repeats.to_string());
        for (index, count) in tally.by_depth.iter().enumerate() {
            row(&format!("crashes in a row: {}", index + 1), count.to_string());
        }
        let seconds = elapsed.as_secs_f64().max(1e-9);
        row("seconds of one core", format!("{seconds:.1}"));
        row(
            "points a second and core",
            format!("{:.0}", tally.points as f64 / seconds),
        );
        row("trace", format!("{:016x}", tally.trace));
        for (name, count) in &self.coverage {
            row(name, count.to_string());
        }
        out
    }
}

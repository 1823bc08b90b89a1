//! The tests that every structure runs on its stories: crash tests, determinism tests, tests that
//! planted bugs are found, and fault tests.
//!
//! A structure provides its [`Story`] and the length of its runs. This module provides everything
//! else, and handles these environment variables:
//!
//! | variable | meaning |
//! |---|---|
//! | `ALLUVIUM_SIM_POINTS` | images judged over all stories of a test; `x10`: ten times its own |
//! | `ALLUVIUM_TESTS` | `all`: every planted mistake, every part of each test |
//! | `ALLUVIUM_SIM_WORKERS` | threads that judge them |
//! | `ALLUVIUM_SIM_SEED` | the first seed, 1 otherwise |
//! | `ALLUVIUM_SIM_RUNS` | runs of which the traces are compared |
//! | `ALLUVIUM_SIM_FAULT_SEEDS` | seeds of fault campaigns, and then every call fails |
//!
//! The module [`replay`] reads two more variables to replay a single failure.

use crate::environment::{effort, number, points, wanted};
use crate::saboteur::PlantedBug;
use crate::story::Story;
use crate::{CrashCampaign, FaultCampaign, RunSettings, SimulationFinding, replay};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Instant;

/// A test that judges at least this many crash images is a large exploration, and must have reached
/// every required situation.
pub const LARGE: u64 = 200_000;

/// A planted bug must be found within this many crash images.
const FOUND_WITHIN: u64 = 20_000;

/// The crash tests of a structure.
#[derive(Clone, Debug)]
pub struct CrashTests {
    /// The length of each run and the density of its crash points.
    pub settings: RunSettings,
    /// The command of the test that calls [`CrashTests::survive`]. It is printed with a failure, so
    /// that the failure can be replayed.
    pub command: &'static str,
    /// Number of crash images to judge, over all stories, unless an environment variable sets it.
    /// It is chosen so that each test takes at most about ten seconds.
    pub points: u64,
    /// Maximum number of crash images to judge in order to minimise a planted bug's failure.
    pub effort: u64,
    /// Situations that a large exploration must have reached.
    pub must_meet: &'static [&'static str],
    /// Minimum number of times that a large exploration must reach each of these situations.
    pub least_met: u64,
}

/// The combined result of exploring all stories.
#[derive(Clone, Debug, Default)]
pub struct ExplorationResult {
    /// Number of distinct crash images judged, summed over the stories.
    pub distinct: u64,
    /// How often each situation was reached.
    pub met: BTreeMap<&'static str, u64>,
    /// Whether the exploration is so large that it must have reached rare situations.
    pub is_large: bool,
}

impl CrashTests {
    fn campaign<S: Story>(&self, story: S, settings: RunSettings) -> CrashCampaign<S> {
        CrashCampaign::new(story).settings(settings).command(self.command)
    }

    /// Crashes each story and judges the recovered stores. An environment variable can set the
    /// number of crash images.
    ///
    /// # Panics
    /// If a story fails, with a message that contains the command that replays the failure. Also if
    /// a large exploration has not reached a required situation.
    pub fn survive<S: Story + Debug>(&self, stories: impl IntoIterator<Item = S>) -> ExplorationResult {
        let stories: Vec<S> = stories.into_iter().collect();
        assert!(!stories.is_empty(), "a test has a story");
        let points = points(self.points);
        let workers = number("ALLUVIUM_SIM_WORKERS", 1);
        let mut survey = ExplorationResult {
            is_large: points >= LARGE && replay::requested().is_none(),
            ..ExplorationResult::default()
        };
        let share = points.div_ceil(stories.len() as u64);
        for story in stories {
            let start = Instant::now();
            println!("{story:?}");
            let campaign = self
                .campaign(story, self.settings.clone())
                .first_seed(number("ALLUVIUM_SIM_SEED", 1))
                .workers(workers as usize);
            let report = campaign.points(share).run();
            println!("{}", report.table(start.elapsed() * workers as u32));
            report.expect_clean();
            survey.distinct += report.tally.distinct();
            for (name, count) in report.coverage {
                *survey.met.entry(name).or_default() += count;
            }
        }
        println!("distinct images of all stories: {}", survey.distinct);
        if survey.is_large {
            for name in self.must_meet {
                let count = survey.met.get(name).copied().unwrap_or(0);
                assert!(count >= self.least_met, "{name}: {count} of {:?}", survey.met);
            }
        }
        survey
    }

    /// Runs each story twice with the same seeds, the second time on another thread, and compares
    /// the traces. The gate runs only the first story.
    ///
    /// # Panics
    /// If the traces of the two runs differ (X1).
    pub fn repeat<S: Story + Clone + Debug>(&self, stories: impl IntoIterator<Item = S>, runs: u64) {
        let runs = number("ALLUVIUM_SIM_RUNS", runs);
        for story in stories.into_iter().take(effort(1, usize::MAX)) {
            let trace = || {
                let campaign = self.campaign(story.clone(), self.settings.clone());
                campaign.points(u64::MAX).runs(runs).run().tally.trace
            };
            // Execute one of the two runs on another thread, because the trace must not depend on
            // the thread.
            let other = std::thread::scope(|scope| scope.spawn(trace).join().expect("no panic"));
            assert_eq!(trace(), other, "{story:?}");
        }
    }

    /// Finds the planted bug in each of these stories and replays it. The gate runs only the first
    /// two stories.
    ///
    /// # Panics
    /// If no failure of a story is found, or if the replay yields a different one.
    pub fn find_mistakes<S: Story + Clone + Debug>(
        &self,
        stories: impl IntoIterator<Item = S>,
    ) -> Vec<SimulationFinding> {
        let stories = stories.into_iter().take(effort(2, usize::MAX));
        stories
            .map(|story| self.find(&story, &self.settings, &format!("{story:?}")))
            .collect()
    }

    /// Plants each of the bugs beneath a correct story, finds it and replays it. The gate plants
    /// only the first two.
    ///
    /// # Panics
    /// If a bug is not found, or if the replay yields a different failure.
    pub fn find_bugs<S: Story + Clone + Debug>(&self, story: &S, bugs: &[PlantedBug]) {
        for bug in bugs.iter().take(effort(2, usize::MAX)) {
            let settings = RunSettings {
                sabotage: Some(*bug),
                ..self.settings.clone()
            };
            self.find(story, &settings, &format!("{bug:?}"));
        }
    }

    fn find<S: Story + Clone>(&self, story: &S, settings: &RunSettings, what: &str) -> SimulationFinding {
        let campaign = || {
            let campaign = self.campaign(story.clone(), settings.clone());
            campaign.points(FOUND_WITHIN).effort(self.effort)
        };
        let report = campaign().run();
        let finding = report.finding.unwrap_or_else(|| panic!("{what} was not found"));
        println!("{what} after {} points: {finding}", report.tally.points);
        let replayed = campaign().replay(&finding.target).finding;
        assert_eq!(
            replayed.as_ref(),
            Some(&finding),
            "{what}: the line must replay (X2)"
        );
        finding
    }
}

/// The tests of a structure on devices with injected faults.
#[derive(Clone, Debug)]
pub struct FaultTests {
    /// The length of each run and the density of its crash points.
    pub settings: RunSettings,
    /// The command of the test that calls [`FaultTests::survive`]. It is printed with a failure, so
    /// that the failure can be replayed.
    pub command: &'static str,
    /// The stride between the device calls that are made to fail, one call per run. Unless
    /// `ALLUVIUM_TESTS` is set to `all`, the stride is four times as long. If
    /// `ALLUVIUM_SIM_FAULT_SEEDS` is set, every call is made to fail.
    pub every: u64,
}

impl FaultTests {
    fn campaign<S: Story>(&self, story: S) -> FaultCampaign<S> {
        FaultCampaign::new(story)
            .settings(self.settings.clone())
            .command(self.command)
    }

    /// Runs each story repeatedly, with a different failing device call in each run.
    ///
    /// # Panics
    /// If a story fails. The message contains the command that replays the failure.
    pub fn survive<S: Story + Debug>(&self, stories: impl IntoIterator<Item = S>) {
        let seeds = wanted("ALLUVIUM_SIM_FAULT_SEEDS");
        let every = match seeds {
            Some(_) => 1,
            None => self.every * effort(4, 1),
        };
        for story in stories {
            println!("{story:?}");
            let report = self
                .campaign(story)
                .seeds(1, seeds.unwrap_or(1))
                .every(every)
                .run();
            println!("{}", report.table());
            report.expect_clean();
        }
    }

    /// For each of these files, reports failed syncs as successful and checks that the fault tests
    /// notice.
    ///
    /// # Panics
    /// If the story survives, so that the bug is not found.
    pub fn find_acknowledged_failures<S: Story + Clone>(&self, story: &S, files: &[&'static str]) {
        for file in files {
            let settings = RunSettings {
                sabotage: Some(PlantedBug::AcknowledgeFailedSync(file)),
                steps: 40,
                ..RunSettings::default()
            };
            let report = FaultCampaign::new(story.clone())
                .settings(settings)
                .seeds(1, 4)
                .run();
            assert!(report.finding.is_some(), "{file}");
        }
    }
}

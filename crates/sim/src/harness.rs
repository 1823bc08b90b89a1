//! The tests that every structure runs on its stories: crashes, repetition, mistakes that must be
//! found, faults.
//!
//! A structure writes its [`Story`] and says how far runs go; everything else is here, also what
//! the environment asks:
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
//! [`replay`] has two more, for one failure.

use crate::environment::{effort, number, points, wanted};
use crate::saboteur::Sabotage;
use crate::story::Story;
use crate::{Campaign, FaultCampaign, Finding, Settings, replay};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Instant;

/// From this many images on, a test is a large exploration and must have met every situation that
/// matters.
pub const LARGE: u64 = 200_000;

/// Images within which a planted mistake must be found.
const FOUND_WITHIN: u64 = 20_000;

/// Crash tests of a structure.
#[derive(Clone, Debug)]
pub struct Crashes {
    /// How far each run goes.
    pub settings: Settings,
    /// The command that runs the test which calls [`Crashes::survive`], for the line that replays a
    /// finding.
    pub command: &'static str,
    /// Images judged over all stories, unless the environment says otherwise. Each test has a
    /// number of its own, with which it takes about ten seconds at most.
    pub points: u64,
    /// Images that may be judged to make the finding of a planted mistake small.
    pub effort: u64,
    /// Situations that a large exploration must have met.
    pub must_meet: &'static [&'static str],
    /// How often it must have met each of them.
    pub least_met: u64,
}

/// What a survey of all stories came to.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Different images judged, summed over the stories.
    pub distinct: u64,
    /// How often each situation was met.
    pub met: BTreeMap<&'static str, u64>,
    /// Whether the exploration is large, so that rare situations must be in it.
    pub is_large: bool,
}

impl Crashes {
    fn campaign<S: Story>(&self, story: S, settings: Settings) -> Campaign<S> {
        Campaign::new(story).settings(settings).command(self.command)
    }

    /// Crashes each story and judges what is left, as many images as the environment asks for.
    ///
    /// # Panics
    /// When a story does not survive, with the command that replays it; when a large exploration
    /// has not met what it must.
    pub fn survive<S: Story + Debug>(&self, stories: impl IntoIterator<Item = S>) -> Survey {
        let stories: Vec<S> = stories.into_iter().collect();
        assert!(!stories.is_empty(), "a test has a story");
        let points = points(self.points);
        let workers = number("ALLUVIUM_SIM_WORKERS", 1);
        let mut survey = Survey {
            is_large: points >= LARGE && replay::requested().is_none(),
            ..Survey::default()
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

    /// Runs each story twice from the same seeds, the second time on another thread; in the gate,
    /// the first story.
    ///
    /// # Panics
    /// When the two did not do the same (X1).
    pub fn repeat<S: Story + Clone + Debug>(&self, stories: impl IntoIterator<Item = S>, runs: u64) {
        let runs = number("ALLUVIUM_SIM_RUNS", runs);
        for story in stories.into_iter().take(effort(1, usize::MAX)) {
            let trace = || {
                let campaign = self.campaign(story.clone(), self.settings.clone());
                campaign.points(u64::MAX).runs(runs).run().tally.trace
            };
            // On a thread of its own: nothing may depend on which thread it is.
            let other = std::thread::scope(|scope| scope.spawn(trace).join().expect("no panic"));
            assert_eq!(trace(), other, "{story:?}");
        }
    }

    /// Finds the mistake in each of these stories, and replays it; in the gate, in the first two.
    ///
    /// # Panics
    /// When a story survives, or its replay line finds something else.
    pub fn find_mistakes<S: Story + Clone + Debug>(
        &self,
        stories: impl IntoIterator<Item = S>,
    ) -> Vec<Finding> {
        let stories = stories.into_iter().take(effort(2, usize::MAX));
        stories
            .map(|story| self.find(&story, &self.settings, &format!("{story:?}")))
            .collect()
    }

    /// Plants each of these bugs under a story that is right, finds it, and replays it; in the
    /// gate, the first two.
    ///
    /// # Panics
    /// When the story survives a bug, or the replay line finds something else.
    pub fn find_bugs<S: Story + Clone + Debug>(&self, story: &S, bugs: &[Sabotage]) {
        for bug in bugs.iter().take(effort(2, usize::MAX)) {
            let settings = Settings {
                sabotage: Some(*bug),
                ..self.settings.clone()
            };
            self.find(story, &settings, &format!("{bug:?}"));
        }
    }

    fn find<S: Story + Clone>(&self, story: &S, settings: &Settings, what: &str) -> Finding {
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

/// Tests of a structure on devices that fail.
#[derive(Clone, Debug)]
pub struct Faults {
    /// How far each run goes.
    pub settings: Settings,
    /// The command that runs the test which calls [`Faults::survive`], for the line that replays a
    /// finding.
    pub command: &'static str,
    /// One call in this many fails, and in the gate one in four times as many, unless the
    /// environment asks for more seeds: then each does.
    pub every: u64,
}

impl Faults {
    fn campaign<S: Story>(&self, story: S) -> FaultCampaign<S> {
        FaultCampaign::new(story)
            .settings(self.settings.clone())
            .command(self.command)
    }

    /// Lets the calls of each story fail, one in each run.
    ///
    /// # Panics
    /// When a story does not survive, with the command that replays it.
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

    /// Reports the failed syncs of each of these files as successes, and finds that.
    ///
    /// # Panics
    /// When the story survives it.
    pub fn find_acknowledged_failures<S: Story + Clone>(&self, story: &S, files: &[&'static str]) {
        for file in files {
            let settings = Settings {
                sabotage: Some(Sabotage::AcknowledgeFailedSync(file)),
                steps: 40,
                ..Settings::default()
            };
            let report = FaultCampaign::new(story.clone())
                .settings(settings)
                .seeds(1, 4)
                .run();
            assert!(report.finding.is_some(), "{file}");
        }
    }
}

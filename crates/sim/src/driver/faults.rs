//! Fault campaigns, in which each device call fails in turn, once or permanently, and disks of many
//! sizes fill up.
//!
//! The required behaviour (R8, R9) is as follows. The store returns an error and does not panic.
//! Reads still work and return correct results. After a failed write or sync, the store
//! acknowledges no more commits. A full disk is not such a failure: once there is free space again,
//! writes must succeed without reopening the store. Commits acknowledged before the fault survive
//! every later crash.

use super::{CrashExplorer, CrashPlan, RunSettings, SimulationFinding};
use crate::replay::{FALLIBLE, FaultAt, FaultKind, FaultLasting, requested};
use crate::story::Story;
use alluvium_device::DeviceOperation;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Each run is repeated with this many different disk sizes.
const CAPACITIES: u64 = 48;

/// Runs a story repeatedly, with a different failing device call in each run.
pub struct FaultCampaign<S: Story> {
    story: S,
    settings: RunSettings,
    first_seed: u64,
    runs: u64,
    every: u64,
    test: String,
}

/// The result of a fault campaign.
#[derive(Debug, Default)]
pub struct FaultReport {
    /// Number of runs with an injected fault, by kind of fault.
    pub cases: BTreeMap<String, u64>,
    /// Number of crash images judged after faults.
    pub points: u64,
    /// Coverage counters of the story.
    pub coverage: BTreeMap<&'static str, u64>,
    /// The first failure, or `None` if all runs passed.
    pub finding: Option<SimulationFinding>,
    test: String,
}

impl<S: Story> FaultCampaign<S> {
    /// Creates a campaign with a single seed, in which each device call fails in turn.
    #[must_use]
    pub fn new(story: S) -> Self {
        FaultCampaign {
            story,
            settings: RunSettings {
                steps: 40,
                ..RunSettings::default()
            },
            first_seed: 1,
            runs: 1,
            every: 1,
            test: String::new(),
        }
    }

    /// Sets the length of each run and the density of its crash points.
    #[must_use]
    pub fn settings(self, settings: RunSettings) -> Self {
        FaultCampaign { settings, ..self }
    }

    /// Sets the campaign's seeds: `runs` consecutive ones, starting with `first_seed`.
    #[must_use]
    pub fn seeds(self, first_seed: u64, runs: u64) -> Self {
        FaultCampaign {
            first_seed,
            runs,
            ..self
        }
    }

    /// Reduces the number of runs by making only every `every`-th device call fail in turn.
    #[must_use]
    pub fn every(self, every: u64) -> Self {
        FaultCampaign {
            every: every.max(1),
            ..self
        }
    }

    /// Sets the command that runs this campaign. It is printed with a failure, so that the failure
    /// can be replayed.
    #[must_use]
    pub fn command(self, command: &str) -> Self {
        FaultCampaign {
            test: command.to_owned(),
            ..self
        }
    }

    /// Runs the campaign. If an environment variable names a failure of this story with an injected
    /// fault, only that failure is replayed.
    pub fn run(&self) -> FaultReport {
        let mut report = FaultReport {
            test: self.test.clone(),
            ..FaultReport::default()
        };
        if let Some(target) = requested() {
            if let (Some(fault), true) = (target.fault, target.story == self.story.name()) {
                let _ = self.case(&mut report, target.seed, &target.steps, fault);
            }
            return report;
        }
        for seed in self.first_seed..self.first_seed + self.runs {
            if report.finding.is_none() {
                self.all_calls(&mut report, seed);
            }
        }
        report
    }

    fn all_calls(&self, report: &mut FaultReport, seed: u64) {
        let steps: Vec<usize> = (0..self.settings.steps).collect();
        for (operation, kind, lasting) in failures() {
            let mut call = 1 + seed % self.every;
            let fault = |call| FaultAt {
                operation,
                kind,
                call,
                lasting,
            };
            while self.case(report, seed, &steps, fault(call)) {
                call += self.every;
            }
            if report.finding.is_some() {
                return;
            }
        }
        let Some(used) = self.space_of(seed, &steps) else {
            return;
        };
        for part in 1..=CAPACITIES {
            let call = used * part / CAPACITIES;
            let lasting = FaultLasting::Sticky;
            let fault = FaultAt {
                operation: DeviceOperation::Grow,
                kind: FaultKind::Capacity,
                call,
                lasting,
            };
            self.case(report, seed, &steps, fault);
        }
    }

    /// Runs the given steps of the story with a single injected fault. Returns whether the fault
    /// occurred, or false if this run or an earlier one has failed.
    fn case(&self, report: &mut FaultReport, seed: u64, places: &[usize], fault: FaultAt) -> bool {
        if report.finding.is_some() {
            return false;
        }
        let all = self.story.steps(seed, places.last().map_or(0, |last| last + 1));
        let steps = super::kept(&all, places);
        let mut explorer =
            CrashExplorer::new(&self.story, &self.settings, CrashPlan::Follow(Vec::new()), seed);
        let result = explorer.run_failing(&steps, fault);
        report.points += explorer.tally.points;
        for (name, count) in explorer.coverage.counts() {
            *report.coverage.entry(name).or_default() += count;
        }
        match result {
            Ok(met) => {
                let name = match fault.kind {
                    FaultKind::Capacity => "small disk".to_owned(),
                    kind => format!("{} {kind:?} {:?}", fault.operation, fault.lasting).to_lowercase(),
                };
                *report.cases.entry(name).or_default() += u64::from(met);
                met
            }
            Err(bad) => {
                report.finding = Some(explorer.finding(bad, places, Some(fault)));
                false
            }
        }
    }

    /// Runs the given steps of the story without a fault, and returns the maximum disk space in
    /// bytes that they use, or `None` if the run fails.
    fn space_of(&self, seed: u64, places: &[usize]) -> Option<u64> {
        let all = self.story.steps(seed, places.len());
        let steps = super::kept(&all, places);
        let mut explorer =
            CrashExplorer::new(&self.story, &self.settings, CrashPlan::Follow(Vec::new()), seed);
        let lasting = FaultLasting::Sticky;
        let none = FaultAt {
            operation: DeviceOperation::Grow,
            kind: FaultKind::Capacity,
            call: super::fault_run::AMPLE,
            lasting,
        };
        explorer.run_failing(&steps, none).ok()?;
        Some(explorer.space)
    }
}

/// Returns all combinations of device operation, fault kind and duration that can be injected.
fn failures() -> impl Iterator<Item = (DeviceOperation, FaultKind, FaultLasting)> {
    let full = [
        DeviceOperation::Grow,
        DeviceOperation::Create,
        DeviceOperation::Write,
    ];
    let io = FALLIBLE.iter().map(|(operation, _)| (*operation, FaultKind::Io));
    let all = io.chain(full.map(|operation| (operation, FaultKind::Full)));
    all.flat_map(|(operation, kind)| {
        [FaultLasting::Once, FaultLasting::Sticky].map(|lasting| (operation, kind, lasting))
    })
}

impl FaultReport {
    /// Returns the total number of runs with an injected fault.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.cases.values().sum()
    }

    /// Asserts that the campaign found no failure.
    ///
    /// # Panics
    /// If there was a failure. The message contains the command that replays it.
    pub fn expect_clean(&self) {
        if let Some(finding) = &self.finding {
            let variable = crate::replay::VARIABLE;
            panic!(
                "{}\nreplay it with:\n{variable}=\"{}\" {}",
                finding.text, finding.target, self.test
            );
        }
    }

    /// Formats all counters as a table.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "{:<34} {:>14}", "faulty runs", self.total());
        let _ = writeln!(out, "{:<34} {:>14}", "images judged after faults", self.points);
        for (name, count) in &self.cases {
            let _ = writeln!(out, "{name:<34} {count:>14}");
        }
        for (name, count) in &self.coverage {
            let _ = writeln!(out, "{name:<34} {count:>14}");
        }
        out
    }
}

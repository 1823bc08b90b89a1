//! The crash driver on the toy store: correct stores survive everything, and planted mistakes are
//! found.

use crate::toy::{Flaw, ToyStory};
use alluvium_sim::harness::CrashTests;
use alluvium_sim::saboteur::PlantedBug;
use alluvium_sim::{CrashCampaign, RunSettings};
use std::time::Instant;

const COMMAND: &str = "cargo test -p alluvium-sim --test it -- the_toy_survives_every_crash --nocapture";

fn campaign(flaw: Flaw) -> CrashCampaign<ToyStory> {
    CrashCampaign::new(ToyStory { flaw }).command(COMMAND)
}

#[test]
fn the_toy_survives_every_crash() {
    let start = Instant::now();
    let report = campaign(Flaw::None).points(22_000).run();
    println!("{}", report.table(start.elapsed()));
    report.expect_clean();
    if std::env::var(alluvium_sim::replay::VARIABLE).is_ok() {
        return;
    }
    assert!(report.tally.points >= 20_000);
    assert!(report.tally.distinct() >= 10_000, "{}", report.tally.distinct());
    assert!(
        report.tally.by_depth.len() == 4,
        "three recoveries deep: {:?}",
        report.tally.by_depth
    );
    for counter in [
        "checkpoint",
        "the journal was full",
        "nested recovery",
        "second life",
        "reopen",
    ] {
        assert!(
            report.coverage[counter] >= 100,
            "{counter}: {:?}",
            report.coverage
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
    let trace = |seed, workers| {
        let campaign = campaign(Flaw::None).first_seed(seed).runs(6).workers(workers);
        campaign.run().tally.trace
    };
    assert_eq!(trace(1, 1), trace(1, 1));
    assert_eq!(trace(1, 1), trace(1, 2));
    assert_ne!(trace(1, 1), trace(2, 1));
}

#[test]
fn every_mistake_of_the_store_is_found_made_small_and_replayed() {
    for flaw in [
        Flaw::TrustsThePageCache,
        Flaw::GoesOnBehindTheEnd,
        Flaw::JournalFirst,
        Flaw::ForgetsGenerations,
        Flaw::SplitsBatches,
        Flaw::ForgetsDeletes,
        Flaw::AcknowledgesEarly,
        Flaw::Panics,
    ] {
        let report = campaign(flaw).points(40_000).run();
        let finding = report
            .finding
            .as_ref()
            .unwrap_or_else(|| panic!("{flaw:?} was not found"));
        println!("{flaw:?}: {finding}");
        let replayed = campaign(flaw).replay(&finding.target).finding;
        assert_eq!(replayed.as_ref(), Some(finding), "{flaw:?}: the line must replay");
        let line = report.replay_line().unwrap();
        let parsed = line.split('"').nth(1).unwrap().parse().unwrap();
        assert_eq!(
            campaign(flaw).replay(&parsed).finding.as_ref(),
            Some(finding),
            "{line}"
        );
        assert!(
            finding.target.steps.len() <= 16,
            "{flaw:?} is not small: {finding}"
        );
        let honest = campaign(Flaw::None).replay(&finding.target);
        assert_eq!(
            honest.finding, None,
            "{flaw:?}: without the mistake the same line passes"
        );
    }
}

#[test]
fn every_bug_planted_under_the_store_is_found() {
    let bugs = [
        PlantedBug::SkipSync("journal"),
        PlantedBug::SkipSync("slots"),
        PlantedBug::SkipDirectorySync,
        PlantedBug::DelaySync("journal"),
        PlantedBug::SyncAfterWrite {
            file: "slots",
            before: "journal",
        },
        PlantedBug::OnlyFirstWrites("slots", 2),
        PlantedBug::DropSecondCopy("slots"),
        PlantedBug::LoseRewrites("slots"),
        PlantedBug::WrongSlot {
            file: "slots",
            mask: 96 << 10,
        },
        PlantedBug::TearWrites("slots"),
    ];
    let crashes = CrashTests {
        settings: RunSettings::default(),
        command: COMMAND,
        points: 0,
        effort: 100_000,
        must_meet: &[],
        least_met: 0,
    };
    crashes.find_bugs(&ToyStory { flaw: Flaw::None }, &bugs);
}

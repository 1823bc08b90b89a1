//! The tiered tree under the crash driver.
//!
//! In `cargo test` it is small. The large run, of which the counters are asserted, is
//!
//! ```text
//! ALLUVIUM_SIM_POINTS=260000 ALLUVIUM_SIM_WORKERS=2 \
//!     cargo test --release -p alluvium-trees --test it -- the_tree_survives_every_crash --nocapture
//! ```
//!
//! `ALLUVIUM_SIM_SEED` is the first seed, 1 otherwise.

use crate::story::{Flaw, Tiered};
use alluvium_sim::environment::number;
use alluvium_sim::saboteur::Sabotage;
use alluvium_sim::{Campaign, Settings, replay};
use alluvium_storage::extents::UNIT;
use alluvium_storage::log::Access;
use std::collections::BTreeMap;
use std::time::Instant;

/// How many images are judged by default.
const POINTS: u64 = 2000;

/// From this many on, every situation that matters must have been met a thousand times.
const LARGE: u64 = 200_000;

const COMMAND: &str = "cargo test -p alluvium-trees --test it -- the_tree_survives_every_crash --nocapture";

fn story(access: Access) -> Tiered {
    Tiered {
        access,
        flaw: Flaw::Right,
    }
}

/// Long runs with few crash points: it takes some hundred steps until there is a trunk to speak of.
fn settings() -> Settings {
    Settings {
        steps: 320,
        point_every: 60,
        nested_every: 16,
        verify_every: 20,
        ..Settings::default()
    }
}

#[test]
fn the_tree_survives_every_crash() {
    let points = number("ALLUVIUM_SIM_POINTS", POINTS);
    let workers = number("ALLUVIUM_SIM_WORKERS", 1);
    let mut met: BTreeMap<&str, u64> = BTreeMap::new();
    for access in [Access::Mapped, Access::Written] {
        let start = Instant::now();
        let campaign = Campaign::new(story(access)).settings(settings()).command(COMMAND);
        let campaign = campaign
            .first_seed(number("ALLUVIUM_SIM_SEED", 1))
            .workers(workers as usize);
        let report = campaign.points(points / 2).run();
        let elapsed = start.elapsed() * workers as u32;
        println!("{access:?} log\n{}", report.table(elapsed));
        report.expect_clean();
        for (name, count) in report.coverage {
            *met.entry(name).or_default() += count;
        }
    }
    if points < LARGE || replay::requested().is_some() {
        return;
    }
    for name in [
        "checkpoint",
        "crash in a checkpoint",
        "crash in a compaction",
        "crash in an incorporation",
        "crash behind an ingest",
        "ingest",
        "nested recovery",
        "flush",
        "leaf split",
        "index split",
        "merge of nodes",
        "extent reuse",
    ] {
        let count = met.get(name).copied().unwrap_or(0);
        assert!(count >= 1000, "{name}: {count} of {met:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let runs = number("ALLUVIUM_SIM_RUNS", 2);
    for access in [Access::Mapped, Access::Written] {
        let campaign = || {
            Campaign::new(story(access))
                .settings(settings())
                .points(u64::MAX)
                .runs(runs)
        };
        let trace = || campaign().run().tally.trace;
        // On a thread of its own: nothing may hang on which thread it is.
        let other = std::thread::scope(|scope| scope.spawn(trace).join().expect("no panic"));
        assert_eq!(trace(), other, "{access:?}");
    }
}

/// Wrong uses of the tree: what its caller must not do.
#[test]
fn every_wrong_use_of_the_tree_is_found() {
    for flaw in [
        Flaw::ReusesEarly,
        Flaw::ReleasesTheLogFirst,
        Flaw::CutsTooHigh,
        Flaw::CutsTooLow,
        Flaw::DropsTheMemtable,
        Flaw::ForgetsDeletes,
        Flaw::ForgetsRangeDeletes,
        Flaw::ReplaysOneLess,
        Flaw::LeavesIngestsToTheLog,
        Flaw::AcknowledgesEarly,
    ] {
        let story = Tiered {
            access: Access::Written,
            flaw,
        };
        let campaign = || {
            Campaign::new(story)
                .settings(settings())
                .points(20_000)
                .effort(200)
        };
        let report = campaign().run();
        let finding = report.finding.unwrap_or_else(|| panic!("{flaw:?} was not found"));
        println!("{flaw:?} after {} points: {finding}", report.tally.points);
        let replayed = campaign().replay(&finding.target).finding;
        assert_eq!(replayed, Some(finding), "{flaw:?}: the line must replay");
    }
}

/// Bugs below the tree, as they look from the device.
#[test]
fn every_bug_planted_under_the_tree_is_found() {
    for bug in [
        Sabotage::SkipSync("tier"),
        Sabotage::SkipSync("superblock"),
        Sabotage::SkipSync("log"),
        Sabotage::SyncAfterWrite {
            file: "tier",
            before: "superblock",
        },
        Sabotage::LoseRewrites("superblock"),
        Sabotage::WrongSlot {
            file: "superblock",
            mask: 8 << 10,
        },
        Sabotage::TearWrites("tier"),
        Sabotage::PunchWide("tier", UNIT),
    ] {
        let settings = Settings {
            sabotage: Some(bug),
            ..settings()
        };
        let campaign = || {
            Campaign::new(story(Access::Written))
                .settings(settings.clone())
                .points(20_000)
                .effort(200)
        };
        let report = campaign().run();
        let finding = report.finding.unwrap_or_else(|| panic!("{bug:?} was not found"));
        println!("{bug:?} after {} points: {finding}", report.tally.points);
        let replayed = campaign().replay(&finding.target).finding;
        assert_eq!(replayed, Some(finding), "{bug:?}: the line must replay");
    }
}

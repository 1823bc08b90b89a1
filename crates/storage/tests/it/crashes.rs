//! The page-and-log story under the crash driver.
//!
//! In `cargo test` it is small. The large run, of which the counters are asserted, is
//!
//! ```text
//! ALLUVIUM_SIM_POINTS=260000 ALLUVIUM_SIM_WORKERS=2 \
//!     cargo test --release -p alluvium-storage --test it -- \
//!     the_page_and_log_story_survives_every_crash --nocapture
//! ```
//!
//! and with ten times the points the long one. `ALLUVIUM_SIM_SEED` is the first seed, 1 otherwise.

use crate::page_log::{Flaw, PageLog};
use alluvium_sim::environment::number;
use alluvium_sim::saboteur::Sabotage;
use alluvium_sim::{Campaign, Settings, replay};
use alluvium_storage::extents::UNIT;
use alluvium_storage::log::Access;
use std::collections::BTreeMap;
use std::time::Instant;

/// How many images are judged by default.
const POINTS: u64 = 4000;

/// From this many on, every situation that matters must have been met a thousand times.
const LARGE: u64 = 200_000;

const COMMAND: &str =
    "cargo test -p alluvium-storage --test it -- the_page_and_log_story_survives_every_crash --nocapture";

fn story(access: Access) -> PageLog {
    PageLog {
        access,
        flaw: Flaw::Right,
    }
}

/// Long runs with few crash points: what is rare in a run is what wants many of them.
fn settings() -> Settings {
    Settings {
        steps: 160,
        point_every: 40,
        nested_every: 16,
        ..Settings::default()
    }
}

#[test]
fn the_page_and_log_story_survives_every_crash() {
    let points = number("ALLUVIUM_SIM_POINTS", POINTS);
    let workers = number("ALLUVIUM_SIM_WORKERS", 1);
    let mut distinct = 0;
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
        distinct += report.tally.distinct();
        for (name, count) in report.coverage {
            *met.entry(name).or_default() += count;
        }
    }
    println!("distinct images of both: {distinct}");
    if points < LARGE || replay::requested().is_some() {
        return;
    }
    assert!(distinct >= LARGE, "{distinct} distinct images");
    for name in [
        "log wrap",
        "extent reuse",
        "growth",
        "checkpoint",
        "nested recovery",
        "map written anew",
        "punched",
    ] {
        assert!(met[name] >= 1000, "{name}: {met:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let runs = number("ALLUVIUM_SIM_RUNS", 3);
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

/// Wrong uses of the store: what its caller must not do.
#[test]
fn every_wrong_use_of_the_store_is_found() {
    for flaw in [
        Flaw::ReusesEarly,
        Flaw::ReleasesTheLogFirst,
        Flaw::ForgetsToInstall,
        Flaw::ForgetsToRelease,
        Flaw::ReleasesAtAnOldEpoch,
        Flaw::CutsTooHigh,
        Flaw::ReplaysOneLess,
        Flaw::SplitsBatches,
        Flaw::ForgetsDeletes,
        Flaw::AcknowledgesEarly,
    ] {
        let story = PageLog {
            access: Access::Written,
            flaw,
        };
        let report = Campaign::new(story)
            .settings(settings())
            .points(20_000)
            .effort(2000)
            .run();
        let finding = report.finding.unwrap_or_else(|| panic!("{flaw:?} was not found"));
        println!("{flaw:?} after {} points: {finding}", report.tally.points);
        let replayed = Campaign::new(story)
            .settings(settings())
            .replay(&finding.target)
            .finding;
        assert_eq!(replayed, Some(finding), "{flaw:?}: the line must replay");
    }
}

#[test]
fn replaying_a_commit_that_the_checkpoint_holds_is_harmless() {
    let story = PageLog {
        access: Access::Written,
        flaw: Flaw::CutsTooLow,
    };
    Campaign::new(story)
        .settings(settings())
        .points(1000)
        .run()
        .expect_clean();
}

/// Bugs of the store, as they look from the device.
#[test]
fn every_bug_planted_under_the_store_is_found() {
    for bug in [
        Sabotage::SkipSync("tier"),
        Sabotage::SkipSync("extents"),
        Sabotage::SkipSync("superblock"),
        Sabotage::SkipSync("log"),
        Sabotage::SkipDirectorySync,
        Sabotage::DelaySync("tier"),
        Sabotage::SyncAfterWrite {
            file: "tier",
            before: "superblock",
        },
        Sabotage::DropSecondCopy("superblock"),
        Sabotage::OnlyFirstWrites("superblock", 4),
        Sabotage::LoseRewrites("superblock"),
        Sabotage::WrongSlot {
            file: "superblock",
            mask: 8 << 10,
        },
        Sabotage::FreeBeforeWrite("superblock"),
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
                .effort(2000)
        };
        let report = campaign().run();
        let finding = report.finding.unwrap_or_else(|| panic!("{bug:?} was not found"));
        println!("{bug:?} after {} points: {finding}", report.tally.points);
        let replayed = campaign().replay(&finding.target).finding;
        assert_eq!(replayed, Some(finding), "{bug:?}: the line must replay");
    }
}

//! The whole store under the crash driver, and on devices that fail.
//!
//! In `cargo test` it is small. The large run, of which the counters are asserted, is
//!
//! ```text
//! ALLUVIUM_SIM_POINTS=210000 ALLUVIUM_SIM_WORKERS=2 \
//!     cargo test --release -p alluvium --test it -- the_store_survives_every_crash --nocapture
//! ```
//!
//! `ALLUVIUM_SIM_SEED` is the first seed, 1 otherwise.

use crate::story::Whole;
use alluvium_sim::environment::number;
use alluvium_sim::{Campaign, FaultCampaign, Settings, replay};
use alluvium_storage::log::Access;
use std::collections::BTreeMap;
use std::time::Instant;

/// How many images are judged by default.
const POINTS: u64 = 1500;

/// From this many on, every situation that matters must have been met a thousand times.
const LARGE: u64 = 200_000;

const COMMAND: &str = "cargo test -p alluvium --test it -- the_store_survives_every_crash --nocapture";

const STORIES: [Whole; 3] = [
    Whole {
        access: Access::Mapped,
        lanes: 1,
    },
    Whole {
        access: Access::Mapped,
        lanes: 3,
    },
    Whole {
        access: Access::Written,
        lanes: 2,
    },
];

fn settings() -> Settings {
    Settings {
        steps: 240,
        point_every: 40,
        nested_every: 16,
        verify_every: 20,
        ..Settings::default()
    }
}

#[test]
fn the_store_survives_every_crash() {
    let points = number("ALLUVIUM_SIM_POINTS", POINTS);
    let workers = number("ALLUVIUM_SIM_WORKERS", 1);
    let mut met: BTreeMap<&str, u64> = BTreeMap::new();
    for story in STORIES {
        let start = Instant::now();
        let campaign = Campaign::new(story).settings(settings()).command(COMMAND);
        let campaign = campaign
            .first_seed(number("ALLUVIUM_SIM_SEED", 1))
            .workers(workers as usize);
        let report = campaign.points(points.div_ceil(STORIES.len() as u64)).run();
        let elapsed = start.elapsed() * workers as u32;
        println!("{story:?}\n{}", report.table(elapsed));
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
        "crash in the background",
        "crash in a compaction of everything",
        "crash in an ingest",
        "incorporation",
        "ingest",
        "ingest given up",
        "keyspace dropped",
        "named snapshot of an earlier opening",
        "named snapshot removed",
        "nested recovery",
        "snapshot read to its end",
    ] {
        assert!(
            met.get(name).is_some_and(|&count| count >= 100),
            "{name}: {met:?}"
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for story in STORIES {
        let campaign = || Campaign::new(story).settings(settings()).points(u64::MAX).runs(2);
        let trace = || campaign().run().tally.trace;
        // On a thread of its own: nothing may hang on which thread it is.
        let other = std::thread::scope(|scope| scope.spawn(trace).join().expect("no panic"));
        assert_eq!(trace(), other, "{story:?}");
    }
}

/// How many seeds: `ALLUVIUM_SIM_FAULT_SEEDS` asks for more than one, and then every call fails, not every 61st.
fn fault_seeds() -> Option<u64> {
    let seeds = std::env::var("ALLUVIUM_SIM_FAULT_SEEDS").ok()?;
    Some(seeds.parse().expect("a number of seeds"))
}

#[test]
fn the_store_survives_every_fault() {
    for story in STORIES {
        let settings = Settings {
            steps: 100,
            verify_every: 40,
            ..Settings::default()
        };
        let campaign = FaultCampaign::new(story)
            .settings(settings)
            .command("cargo test -p alluvium --test it -- the_store_survives_every_fault");
        let report = campaign
            .seeds(1, fault_seeds().unwrap_or(1))
            .every(if fault_seeds().is_some() { 1 } else { 61 })
            .run();
        println!("{}", report.table());
        report.expect_clean();
    }
}

//! Levels that stitch, under the crash driver.
//!
//! In `cargo test` it is small. The large run, of which the counters are asserted, is
//!
//! ```text
//! ALLUVIUM_SIM_POINTS=260000 ALLUVIUM_SIM_WORKERS=2 \
//!     cargo test --release -p alluvium-trees --test it -- levels_survive_every_crash --nocapture
//! ```

use super::story::Levelled;
use crate::story::Flaw;
use alluvium_sim::Settings;
use alluvium_sim::harness::Crashes;
use alluvium_sim::saboteur::Sabotage;
use alluvium_trees::levels::{SameScan, Stitching};

/// Keys of one unit: the first four bytes, so a hundred neighbours.
fn first_four(one: &[u8], other: &[u8]) -> bool {
    one.get(..4) == other.get(..4)
}

fn stitching(threshold: u32) -> Stitching {
    Stitching {
        threshold,
        ..Stitching::default()
    }
}

fn flawed(flaw: Flaw) -> Levelled {
    Levelled {
        policy: "samt,k=2",
        stitching: stitching(0),
        value_threshold: None,
        name: "levels-samt",
        flaw,
    }
}

/// Values longer than this, about half of them, are kept apart from their leaves.
const APART: usize = 150;

fn stories() -> [Levelled; 5] {
    let cola = Levelled {
        policy: "cola,r=3",
        name: "levels-cola",
        ..flawed(Flaw::Right)
    };
    let leveled = Levelled {
        policy: "leveled,r=4",
        stitching: Stitching {
            same_scan: Some(SameScan::By(first_four)),
            always: 2,
            ..stitching(0)
        },
        name: "levels-same-scan",
        ..flawed(Flaw::Right)
    };
    let apart = Levelled {
        value_threshold: Some(APART),
        name: "levels-values-apart",
        ..flawed(Flaw::Right)
    };
    let moved = Levelled {
        stitching: Stitching {
            moves_values: true,
            defragment_percent: 100,
            ..stitching(1)
        },
        name: "levels-values-moved",
        ..apart
    };
    [flawed(Flaw::Right), cola, leveled, apart, moved]
}

fn crashes() -> Crashes {
    Crashes {
        settings: Settings {
            steps: 260,
            point_every: 60,
            nested_every: 16,
            verify_every: 20,
            ..Settings::default()
        },
        command: "cargo test -p alluvium-trees --test it -- levels_survive_every_crash --nocapture",
        points: 4000,
        effort: 200,
        must_meet: &[
            "checkpoint",
            "crash in a checkpoint",
            "crash in a merge",
            "crash between slices of a merge",
            "crash in an incorporation",
            "extents freed",
            "leaf taken over",
            "merge",
            "nested recovery",
            "snapshot read to its end",
        ],
        least_met: 1000,
    }
}

#[test]
fn levels_survive_every_crash() {
    let survey = crashes().survive(stories());
    let met = |name| survey.met.get(name).copied().unwrap_or(0);
    assert!(met("leaf taken over") > 20, "{:?}", survey.met);
    assert!(met("crash in a merge") > 2, "{:?}", survey.met);
}

#[test]
fn the_same_seed_gives_the_same_trace_of_levels() {
    crashes().repeat(stories(), 2);
}

/// Wrong uses of levels: what their caller must not do.
#[test]
fn every_wrong_use_of_levels_is_found() {
    let flaws = [
        Flaw::ReusesEarly,
        Flaw::ReleasesTheLogFirst,
        Flaw::CutsTooHigh,
        Flaw::CutsTooLow,
        Flaw::DropsTheMemtable,
        Flaw::ForgetsDeletes,
        Flaw::ReplaysOneLess,
        Flaw::AcknowledgesEarly,
    ];
    crashes().find_mistakes(flaws.map(flawed));
}

#[test]
fn what_a_device_forgets_of_levels_is_found() {
    let bugs = [
        Sabotage::SkipSync("tier"),
        Sabotage::SkipSync("log"),
        Sabotage::TearWrites("tier"),
    ];
    crashes().find_bugs(&flawed(Flaw::Right), &bugs);
}

//! Structures that a store hosts, under the crash driver: SILT's stores, bundles of arrays and
//! bundles of trees.
//!
//! In `cargo test` it is small. The large run, of which the counters are asserted, is
//!
//! ```text
//! ALLUVIUM_SIM_POINTS=50000 ALLUVIUM_SIM_WORKERS=2 \
//!     cargo test --release -p alluvium-hashes --test it -- hashed_structures_survive_every_crash --nocapture
//! ```

mod db;
mod ops;
mod story;

use alluvium_hashes::hashed::HashedForm;
use alluvium_sim::Settings;
use alluvium_sim::harness::{Crashes, Faults};
use alluvium_sim::saboteur::Sabotage;
use story::{Flaw, Hosted};

fn flawed(flaw: Flaw) -> Hosted {
    Hosted {
        form: HashedForm::Boa {
            lambda: 2,
            refined: false,
        },
        name: "boa-latest",
        flaw,
        tiers: 1,
    }
}

fn stories() -> [Hosted; 4] {
    let right = flawed(Flaw::Right);
    let refined = Hosted {
        form: HashedForm::Boa {
            lambda: 2,
            refined: true,
        },
        name: "boa-sketches",
        ..right
    };
    let wide = Hosted {
        form: HashedForm::Boa {
            lambda: 4,
            refined: true,
        },
        name: "boa-wide",
        ..right
    };
    let silt = Hosted {
        form: HashedForm::Silt,
        name: "silt",
        ..right
    };
    [right, refined, wide, silt]
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
        command: "cargo test -p alluvium-hashes --test it -- hashed_structures_survive_every_crash --nocapture",
        points: 3000,
        effort: 160,
        must_meet: &[
            "checkpoint",
            "crash in a checkpoint",
            "crash in a merge",
            "crash between slices of a merge",
            "crash in an incorporation",
            "extents freed",
            "filter",
            "merge",
            "nested recovery",
            "second level",
            "snapshot read to its end",
        ],
        least_met: 1000,
    }
}

#[test]
fn hashed_structures_survive_every_crash() {
    let survey = crashes().survive(stories());
    let met = |name| survey.met.get(name).copied().unwrap_or(0);
    assert!(met("filter") > 10, "{:?}", survey.met);
    assert!(met("crash in a merge") > 2, "{:?}", survey.met);
}

/// Bundles of trees: with two children a node, trees are soon so high that hashes are written
/// again.
fn groves() -> [Hosted; 2] {
    let right = Hosted {
        form: HashedForm::Bot { lambda: 2 },
        name: "bot",
        ..flawed(Flaw::Right)
    };
    let wide = Hosted {
        form: HashedForm::Bot { lambda: 4 },
        name: "bot-wide",
        ..right
    };
    [right, wide]
}

#[test]
fn bundles_of_trees_survive_every_crash() {
    let crashes = Crashes {
        command: "cargo test -p alluvium-hashes --test it -- bundles_of_trees_survive_every_crash --nocapture",
        ..crashes()
    };
    let survey = crashes.survive(groves());
    let met = |name| survey.met.get(name).copied().unwrap_or(0);
    assert!(met("filter") > 10, "{:?}", survey.met);
    assert!(met("crash in a merge") > 2, "{:?}", survey.met);
    crashes.repeat(groves(), 1);
}

#[test]
fn wrong_uses_of_a_bundle_of_trees_and_what_its_device_forgets_are_found() {
    let [right, _] = groves();
    let flaws = [Flaw::ReusesEarly, Flaw::ReleasesTheLogFirst, Flaw::CutsTooLow];
    crashes().find_mistakes(flaws.map(|flaw| Hosted { flaw, ..right }));
    crashes().find_bugs(
        &right,
        &[Sabotage::SkipSync("tier"), Sabotage::TearWrites("tier")],
    );
}

/// A story on two tiers.
fn on(story: Hosted, name: &'static str) -> Hosted {
    Hosted {
        name,
        tiers: 2,
        ..story
    }
}

/// The same on two tiers: SILT's stores, and a bundle of arrays with each kind of filter.
fn on_two_tiers() -> [Hosted; 3] {
    let [latest, sketches, _, silt] = stories();
    [
        on(latest, "boa-latest-on-two-tiers"),
        on(sketches, "boa-sketches-on-two-tiers"),
        on(silt, "silt-on-two-tiers"),
    ]
}

#[test]
fn hashed_structures_on_two_tiers_survive_every_crash() {
    let crashes = Crashes {
        command: "cargo test -p alluvium-hashes --test it -- hashed_structures_on_two_tiers_survive --nocapture",
        points: 2000,
        ..crashes()
    };
    crashes.survive(on_two_tiers());
}

/// Bundles of trees on two tiers: leaves and what is settled go to the second, lists and digests
/// stay on the first.
fn groves_on_two_tiers() -> [Hosted; 2] {
    let [right, wide] = groves();
    [on(right, "bot-on-two-tiers"), on(wide, "bot-wide-on-two-tiers")]
}

#[test]
fn bundles_of_trees_on_two_tiers_survive_every_crash() {
    let crashes = Crashes {
        command: "cargo test -p alluvium-hashes --test it -- bundles_of_trees_on_two_tiers_survive_every_crash --nocapture",
        points: 2000,
        ..crashes()
    };
    let survey = crashes.survive(groves_on_two_tiers());
    let met = |name| survey.met.get(name).copied().unwrap_or(0);
    assert!(met("written to the second tier") > 10, "{:?}", survey.met);
    assert!(met("crash in a merge") > 10, "{:?}", survey.met);
}

#[test]
fn bundles_of_trees_on_two_tiers_survive_every_fault() {
    let faults = Faults {
        settings: Settings {
            steps: 160,
            verify_every: 40,
            ..Settings::default()
        },
        command: "cargo test -p alluvium-hashes --test it -- bundles_of_trees_on_two_tiers_survive_every_fault --nocapture",
        every: 23,
    };
    faults.survive(groves_on_two_tiers());
}

#[test]
fn a_second_tier_of_a_hashed_structure_that_is_not_synced_is_found() {
    let bugs = [Sabotage::SkipSync("tier-1"), Sabotage::TearWrites("tier-1")];
    let [trees, _] = groves_on_two_tiers();
    for story in on_two_tiers().into_iter().chain([trees]) {
        crashes().find_bugs(&story, &bugs);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace_of_hashed_structures() {
    crashes().repeat(stories(), 2);
}

/// Wrong uses of a structure: what their caller must not do.
#[test]
fn every_wrong_use_of_a_hashed_structure_is_found() {
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
fn what_a_device_forgets_of_a_hashed_structure_is_found() {
    let bugs = [
        Sabotage::SkipSync("tier"),
        Sabotage::SkipSync("log"),
        Sabotage::TearWrites("tier"),
    ];
    crashes().find_bugs(&flawed(Flaw::Right), &bugs);
}

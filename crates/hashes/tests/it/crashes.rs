//! Hashed structures hosted by a store, under the crash driver: SILT's stores, bundles of arrays
//! and bundles of trees.
//!
//! The test is small in `cargo test`. The large run, which also asserts the counters, is
//!
//! ```text
//! ALLUVIUM_SIM_POINTS=260000 ALLUVIUM_SIM_WORKERS=2 \
//!     cargo test --release -p alluvium-hashes --test it -- hashed_structures_survive_every_crash --nocapture
//! ```

use alluvium_base::Sequence;
use alluvium_dictionary::contract::{Dictionary as _, Ingest, Scan};
use alluvium_dictionary::home::Home;
use alluvium_dictionary::key::{Key, SEED};
use alluvium_dictionary::memtables::Memtables;
use alluvium_dictionary::merge::{Append, Direction};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::{KeyspaceRules, OneKeyspace, Schema};
use alluvium_hashes::hashed::{Hashed, HashedForm, HashedOptions};
use alluvium_sim::harness::Crashes;
use alluvium_sim::saboteur::Sabotage;
use alluvium_storage::Result;
use alluvium_storage::extents::Class;
use alluvium_stories::{Flaw, Layout, StructureStory, Subject, crashes, faults};
use std::sync::Arc;

/// A hashed structure in one of its forms.
#[derive(Clone, Copy, Debug)]
struct HashedSubject(HashedForm);

impl HashedSubject {
    fn options(self) -> HashedOptions {
        HashedOptions {
            form: self.0,
            seed: SEED + 0x5eed,
            parts_log: 1,
            least_young: 2,
            most_young: 3,
            ..HashedOptions::default()
        }
    }
}

impl Subject for HashedSubject {
    type Dictionary = Hashed;

    fn create(&self, home: Home) -> Result<Hashed> {
        Hashed::create(home, self.options(), 0)
    }

    fn open(&self, home: Home, root: &[u8], cut: Sequence) -> Result<Hashed> {
        Hashed::open(home, &self.options(), root, cut)
    }

    fn walk(
        &self,
        hashed: &Hashed,
        memtables: Arc<dyn Memtables>,
        range: KeyRange,
        _: Direction,
        at: Sequence,
    ) -> Box<dyn Scan> {
        Box::new(hashed.walk(memtables, range, at, 0))
    }

    fn ingest(&self, hashed: &Hashed) -> Result<Box<dyn Ingest>> {
        hashed.ingest(Class::Normal)
    }

    /// With two tiers, merge output goes to the second.
    fn layout(&self) -> Layout {
        Layout {
            planned_bytes: Some(0),
            ..Layout::default()
        }
    }

    fn schema(&self) -> Arc<dyn Schema> {
        Arc::new(OneKeyspace::new(KeyspaceRules {
            operator: Some(Arc::new(Append)),
            value_threshold: Some(200),
            ..KeyspaceRules::default()
        }))
    }

    fn directions(&self) -> &'static [Direction] {
        &[Direction::Forward]
    }

    fn rank(&self, hashed: &Hashed, key: &[u8]) -> u64 {
        hashed.hash_of(Key::new(key))
    }

    fn situations(&self, hashed: &Hashed) -> Vec<&'static str> {
        let stats = hashed.stats();
        let filter = (stats.filter_bytes > 0).then_some("filter");
        filter
            .into_iter()
            .chain((stats.levels > 1).then_some("second level"))
            .collect()
    }
}

fn story(name: &'static str, form: HashedForm) -> StructureStory<HashedSubject> {
    StructureStory::new(name, HashedSubject(form))
}

fn bundle(name: &'static str, lambda: u16, refined: bool) -> StructureStory<HashedSubject> {
    story(name, HashedForm::Boa { lambda, refined })
}

fn stories() -> [StructureStory<HashedSubject>; 4] {
    [
        bundle("boa-latest", 2, false),
        bundle("boa-sketches", 2, true),
        bundle("boa-wide", 4, true),
        story("silt", HashedForm::Silt),
    ]
}

/// Bundles of trees. With two children per node, trees are soon so high that hashes are rewritten.
fn groves() -> [StructureStory<HashedSubject>; 2] {
    [
        story("bot", HashedForm::Bot { lambda: 2 }),
        story("bot-wide", HashedForm::Bot { lambda: 4 }),
    ]
}

/// SILT's stores, and a bundle of arrays with each kind of filter.
fn on_two_tiers() -> [StructureStory<HashedSubject>; 3] {
    let [latest, sketches, _, silt] = stories();
    [
        latest.on_two_tiers("boa-latest-on-two-tiers"),
        sketches.on_two_tiers("boa-sketches-on-two-tiers"),
        silt.on_two_tiers("silt-on-two-tiers"),
    ]
}

/// Bundles of trees on two tiers: leaves and settled data go to the second, lists and digests stay
/// on the first.
fn groves_on_two_tiers() -> [StructureStory<HashedSubject>; 2] {
    let [right, wide] = groves();
    [
        right.on_two_tiers("bot-on-two-tiers"),
        wide.on_two_tiers("bot-wide-on-two-tiers"),
    ]
}

fn campaign() -> Crashes {
    crashes(
        "cargo test -p alluvium-hashes --test it -- hashed_structures_survive_every_crash --nocapture",
        3000,
        &[
            "checkpoint",
            "crash in a checkpoint",
            "crash in an incorporation",
            "crash in maintenance",
            "crash between slices of maintenance",
            "crash behind an ingest",
            "extents freed",
            "filter",
            "ingest",
            "maintenance",
            "nested recovery",
            "second level",
            "snapshot read to its end",
        ],
    )
}

#[test]
fn hashed_structures_survive_every_crash() {
    let survey = campaign().survive(stories());
    let met = |name| survey.met.get(name).copied().unwrap_or(0);
    assert!(met("filter") > 10, "{:?}", survey.met);
    assert!(met("crash in maintenance") > 2, "{:?}", survey.met);
}

#[test]
fn bundles_of_trees_survive_every_crash() {
    let crashes = Crashes {
        command: "cargo test -p alluvium-hashes --test it -- bundles_of_trees_survive_every_crash --nocapture",
        points: 2000,
        ..campaign()
    };
    let survey = crashes.survive(groves());
    let met = |name| survey.met.get(name).copied().unwrap_or(0);
    assert!(met("filter") > 10, "{:?}", survey.met);
    assert!(met("crash in maintenance") > 2, "{:?}", survey.met);
    crashes.repeat(groves(), 1);
}

#[test]
fn wrong_uses_of_a_bundle_of_trees_and_what_its_device_forgets_are_found() {
    let [right, _] = groves();
    let flaws = [Flaw::ReusesEarly, Flaw::ReleasesTheLogFirst, Flaw::CutsTooLow];
    campaign().find_mistakes(flaws.map(|flaw| right.with_flaw(flaw)));
    campaign().find_bugs(
        &right,
        &[Sabotage::SkipSync("tier"), Sabotage::TearWrites("tier")],
    );
}

#[test]
fn hashed_structures_on_two_tiers_survive_every_crash() {
    let crashes = Crashes {
        command: "cargo test -p alluvium-hashes --test it -- hashed_structures_on_two_tiers_survive --nocapture",
        points: 2000,
        ..campaign()
    };
    crashes.survive(on_two_tiers());
}

#[test]
fn bundles_of_trees_on_two_tiers_survive_every_crash() {
    let crashes = Crashes {
        command: "cargo test -p alluvium-hashes --test it -- bundles_of_trees_on_two_tiers_survive_every_crash --nocapture",
        points: 2000,
        ..campaign()
    };
    let survey = crashes.survive(groves_on_two_tiers());
    let met = |name| survey.met.get(name).copied().unwrap_or(0);
    assert!(met("written to the second tier") > 10, "{:?}", survey.met);
    assert!(met("crash in maintenance") > 10, "{:?}", survey.met);
}

#[test]
fn bundles_of_trees_on_two_tiers_survive_every_fault() {
    let command =
        "cargo test -p alluvium-hashes --test it -- bundles_of_trees_on_two_tiers_survive_every_fault";
    faults(command, 23).survive(groves_on_two_tiers());
}

#[test]
fn hashed_structures_survive_every_fault() {
    let [latest, _, _, silt] = stories();
    let command = "cargo test -p alluvium-hashes --test it -- hashed_structures_survive_every_fault";
    faults(command, 223).survive([latest, silt]);
}

#[test]
fn a_second_tier_of_a_hashed_structure_that_is_not_synced_is_found() {
    let bugs = [Sabotage::SkipSync("tier-1"), Sabotage::TearWrites("tier-1")];
    let [trees, _] = groves_on_two_tiers();
    for story in on_two_tiers().into_iter().chain([trees]) {
        campaign().find_bugs(&story, &bugs);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace_of_hashed_structures() {
    campaign().repeat(stories(), 2);
}

/// Incorrect uses of a structure by its caller.
#[test]
fn every_wrong_use_of_a_hashed_structure_is_found() {
    let flaws = [
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
    ];
    let [latest, ..] = stories();
    campaign().find_mistakes(flaws.map(|flaw| latest.with_flaw(flaw)));
}

#[test]
fn what_a_device_forgets_of_a_hashed_structure_is_found() {
    let bugs = [
        Sabotage::SkipSync("tier"),
        Sabotage::SkipSync("log"),
        Sabotage::TearWrites("tier"),
    ];
    let [latest, ..] = stories();
    campaign().find_bugs(&latest, &bugs);
}

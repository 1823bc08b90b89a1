//! Runs hashed structures in a store under the crash driver: SILT's stores, bundles of arrays and
//! bundles of trees.
//!
//! The test is small in `cargo test`. The large run, which also asserts the counters, is
//!
//! ```text
//! ALLUVIUM_SIM_POINTS=260000 ALLUVIUM_SIM_WORKERS=2 \
//!     cargo test --release -p alluvium-hashes --test it -- hashed_structures_survive_every_crash --nocapture
//! ```

use alluvium_base::SequenceNumber;
use alluvium_device::memory::MemoryDirectory;
use alluvium_dictionary::contract::{BulkIngest, Dictionary as _, DictionaryScan};
use alluvium_dictionary::key::{LookupKey, SEED};
use alluvium_dictionary::memtables::MemtableOwner;
use alluvium_dictionary::merge::{AppendOperator, MergeDirection};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::{KeyspaceRules, KeyspaceSchema, OneKeyspace};
use alluvium_dictionary::structure_context::StructureContext;
use alluvium_hashes::hashed::{HashedForm, HashedOptions, HashedStructure};
use alluvium_sim::environment::effort;
use alluvium_sim::harness::CrashTests;
use alluvium_sim::saboteur::PlantedBug;
use alluvium_storage::Result;
use alluvium_storage::extents::AllocationClass;
use alluvium_storage::store::{Store, StoreOptions};
use alluvium_stories::{
    CallerFlaw, StoreLayout, StructureStory, StructureSubject, crashes, faults, layer_history,
};
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

impl StructureSubject for HashedSubject {
    type Dictionary = HashedStructure;

    fn create(&self, home: StructureContext) -> Result<HashedStructure> {
        HashedStructure::create(home, self.options(), 0)
    }

    fn open(&self, home: StructureContext, root: &[u8], cut: SequenceNumber) -> Result<HashedStructure> {
        HashedStructure::open(home, &self.options(), root, cut)
    }

    fn walk(
        &self,
        hashed: &HashedStructure,
        memtables: Arc<dyn MemtableOwner>,
        range: KeyRange,
        _: MergeDirection,
        at: SequenceNumber,
    ) -> Box<dyn DictionaryScan> {
        Box::new(hashed.walk(memtables, range, at, 0))
    }

    fn ingest(&self, hashed: &HashedStructure) -> Result<Box<dyn BulkIngest>> {
        hashed.ingest(AllocationClass::Normal)
    }

    /// With two tiers, the output of merges goes to the second.
    fn layout(&self) -> StoreLayout {
        StoreLayout {
            planned_bytes: Some(0),
            ..StoreLayout::default()
        }
    }

    fn schema(&self) -> Arc<dyn KeyspaceSchema> {
        Arc::new(OneKeyspace::new(KeyspaceRules {
            operator: Some(Arc::new(AppendOperator)),
            value_threshold: Some(200),
            ..KeyspaceRules::default()
        }))
    }

    fn directions(&self) -> &'static [MergeDirection] {
        &[MergeDirection::Forward]
    }

    fn rank(&self, hashed: &HashedStructure, key: &[u8]) -> u64 {
        hashed.hash_of(LookupKey::new(key))
    }

    fn situations(&self, hashed: &HashedStructure) -> Vec<&'static str> {
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

/// Bundles of trees. With two children per node, trees soon become high enough for hashes to be
/// rewritten.
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

/// Bundles of trees on two tiers. Leaves and settled data go to the second tier, and lists and
/// digests stay on the first.
fn groves_on_two_tiers() -> [StructureStory<HashedSubject>; 2] {
    let [right, wide] = groves();
    [
        right.on_two_tiers("bot-on-two-tiers"),
        wide.on_two_tiers("bot-wide-on-two-tiers"),
    ]
}

fn campaign() -> CrashTests {
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
    let crashes = CrashTests {
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
    let flaws = [
        CallerFlaw::ReusesEarly,
        CallerFlaw::ReleasesTheLogFirst,
        CallerFlaw::CutsTooLow,
    ];
    campaign().find_mistakes(flaws.map(|flaw| right.with_flaw(flaw)));
    campaign().find_bugs(
        &right,
        &[PlantedBug::SkipSync("tier"), PlantedBug::TearWrites("tier")],
    );
}

#[test]
fn hashed_structures_on_two_tiers_survive_every_crash() {
    let crashes = CrashTests {
        command: "cargo test -p alluvium-hashes --test it -- hashed_structures_on_two_tiers_survive --nocapture",
        points: 2000,
        ..campaign()
    };
    crashes.survive(on_two_tiers());
}

#[test]
fn bundles_of_trees_on_two_tiers_survive_every_crash() {
    let crashes = CrashTests {
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
    let bugs = [PlantedBug::SkipSync("tier-1"), PlantedBug::TearWrites("tier-1")];
    let [trees, _] = groves_on_two_tiers();
    for story in on_two_tiers().into_iter().chain([trees]) {
        campaign().find_bugs(&story, &bugs);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace_of_hashed_structures() {
    campaign().repeat(stories(), 2);
}

/// Ways in which a caller can misuse a structure.
#[test]
fn every_wrong_use_of_a_hashed_structure_is_found() {
    let flaws = [
        CallerFlaw::ReusesEarly,
        CallerFlaw::ReleasesTheLogFirst,
        CallerFlaw::CutsTooHigh,
        CallerFlaw::CutsTooLow,
        CallerFlaw::DropsTheMemtable,
        CallerFlaw::ForgetsDeletes,
        CallerFlaw::ForgetsRangeDeletes,
        CallerFlaw::ReplaysOneLess,
        CallerFlaw::LeavesIngestsToTheLog,
        CallerFlaw::AcknowledgesEarly,
    ];
    let [latest, ..] = stories();
    campaign().find_mistakes(flaws.map(|flaw| latest.with_flaw(flaw)));
}

#[test]
fn what_a_device_forgets_of_a_hashed_structure_is_found() {
    let bugs = [
        PlantedBug::SkipSync("tier"),
        PlantedBug::SkipSync("log"),
        PlantedBug::TearWrites("tier"),
    ];
    let [latest, ..] = stories();
    campaign().find_bugs(&latest, &bugs);
}

/// A store in memory, for the history of an ingest.
fn store() -> Store {
    Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"").unwrap()
}

#[test]
fn layers_of_an_ingest_are_merged_like_the_model() {
    let seeds = effort(4, 40) as u64;
    let merges =
        (40..40 + seeds).map(|seed| layer_history(&HashedSubject(HashedForm::Silt), store(), seed, 100));
    assert!(merges.sum::<u64>() > 3 * seeds);
}

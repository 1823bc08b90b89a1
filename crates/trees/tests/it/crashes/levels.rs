//! Levels that adopt leaves (stitching).

use crate::schema::schema_with;
use alluvium_base::SequenceNumber;
use alluvium_device::memory::MemoryDirectory;
use alluvium_dictionary::contract::{BulkIngest, DictionaryScan};
use alluvium_dictionary::memtables::MemtableOwner;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::KeyspaceSchema;
use alluvium_dictionary::structure_context::StructureContext;
use alluvium_sim::RunStep;
use alluvium_sim::environment::effort;
use alluvium_sim::harness::CrashTests;
use alluvium_sim::saboteur::PlantedBug;
use alluvium_storage::store::{Store, StoreOptions};
use alluvium_storage::{NodeCodec, Result};
use alluvium_stories::{
    CallerFlaw, StoryAction, StructureStory, StructureSubject, crashes, faults, in_order, layer_history,
    steps,
};
use alluvium_trees::levels::{LevelsDictionary, LevelsOptions, SameScan, StitchPolicy};
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
struct Levelled {
    policy: &'static str,
    stitching: StitchPolicy,
    /// Longer values are stored outside of their leaves.
    value_threshold: Option<usize>,
}

impl Levelled {
    fn options(&self) -> LevelsOptions {
        LevelsOptions {
            policy: self.policy.parse().expect("a policy"),
            unit_bytes: 8 << 10,
            fingerprint_bits: 24,
            stitching: self.stitching,
            ..LevelsOptions::default()
        }
    }
}

impl StructureSubject for Levelled {
    type Dictionary = LevelsDictionary;

    fn create(&self, home: StructureContext) -> Result<LevelsDictionary> {
        LevelsDictionary::create(home, self.options(), 0)
    }

    fn open(&self, home: StructureContext, root: &[u8], cut: SequenceNumber) -> Result<LevelsDictionary> {
        LevelsDictionary::open(home, &self.options(), root, cut)
    }

    fn walk(
        &self,
        levels: &LevelsDictionary,
        memtables: Arc<dyn MemtableOwner>,
        range: KeyRange,
        direction: MergeDirection,
        at: SequenceNumber,
    ) -> Box<dyn DictionaryScan> {
        in_order::walk(levels, memtables, range, direction, at)
    }

    fn ingest(&self, levels: &LevelsDictionary) -> Result<Box<dyn BulkIngest>> {
        in_order::ingest(levels)
    }

    fn schema(&self) -> Arc<dyn KeyspaceSchema> {
        schema_with(0, NodeCodec::None, self.value_threshold)
    }

    fn steps(&self, seed: u64, count: usize) -> Vec<RunStep<StoryAction>> {
        steps::neighbours(seed, count)
    }

    fn figures(&self, levels: &LevelsDictionary) -> Vec<(&'static str, u64)> {
        vec![("leaf taken over", levels.stitched())]
    }
}

/// Keys of one unit share their first four bytes, so each key has a hundred neighbours in its unit.
fn first_four(one: &[u8], other: &[u8]) -> bool {
    one.get(..4) == other.get(..4)
}

fn stitching(threshold: u32) -> StitchPolicy {
    StitchPolicy {
        threshold,
        ..StitchPolicy::default()
    }
}

const SAMT: &str = "samt,k=2";

fn story() -> StructureStory<Levelled> {
    let subject = Levelled {
        policy: SAMT,
        stitching: stitching(0),
        value_threshold: None,
    };
    StructureStory::new("levels-samt", subject)
}

/// Longer values, which are about half of all, are stored outside of their leaves.
const APART: Option<usize> = Some(150);

fn stories() -> [StructureStory<Levelled>; 5] {
    let same_scan = StitchPolicy {
        same_scan: Some(SameScan::By(first_four)),
        always: 2,
        ..stitching(0)
    };
    let moving = StitchPolicy {
        moves_values: true,
        defragment_percent: 100,
        ..stitching(1)
    };
    [
        ("levels-samt", SAMT, stitching(0), None),
        ("levels-cola", "cola,r=3", stitching(0), None),
        ("levels-same-scan", "leveled,r=4", same_scan, None),
        ("levels-values-apart", SAMT, stitching(0), APART),
        ("levels-values-moved", SAMT, moving, APART),
    ]
    .map(|(name, policy, stitching, value_threshold)| {
        let subject = Levelled {
            policy,
            stitching,
            value_threshold,
        };
        StructureStory::new(name, subject)
    })
}

fn campaign() -> CrashTests {
    crashes(
        "cargo test -p alluvium-trees --test it -- levels_survive_every_crash --nocapture",
        4000,
        &[
            "checkpoint",
            "crash in a checkpoint",
            "crash in an incorporation",
            "crash in maintenance",
            "crash between slices of maintenance",
            "crash behind an ingest",
            "extents freed",
            "ingest",
            "leaf taken over",
            "maintenance",
            "nested recovery",
            "snapshot read to its end",
        ],
    )
}

#[test]
fn levels_survive_every_crash() {
    let survey = campaign().survive(stories());
    let met = |name| survey.met.get(name).copied().unwrap_or(0);
    assert!(met("leaf taken over") > 20, "{:?}", survey.met);
    assert!(met("crash in maintenance") > 2, "{:?}", survey.met);
}

#[test]
fn the_same_seed_gives_the_same_trace_of_levels() {
    campaign().repeat(stories(), 2);
}

/// Every way in which a caller can misuse levels must be noticed.
#[test]
fn every_wrong_use_of_levels_is_found() {
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
    campaign().find_mistakes(flaws.map(|flaw| story().with_flaw(flaw)));
}

#[test]
fn what_a_device_forgets_of_levels_is_found() {
    let bugs = [
        PlantedBug::SkipSync("tier"),
        PlantedBug::SkipSync("log"),
        PlantedBug::TearWrites("tier"),
    ];
    campaign().find_bugs(&story(), &bugs);
}

#[test]
fn levels_survive_every_fault() {
    let [samt, .., moved] = stories();
    let command = "cargo test -p alluvium-trees --test it -- levels_survive_every_fault";
    faults(command, 151).survive([samt, moved]);
}

/// A store in memory, for the history of an ingest.
fn store() -> Store {
    Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"").unwrap()
}

#[test]
fn layers_of_an_ingest_are_merged_like_the_model() {
    let seeds = effort(5, 60) as u64;
    let merges = (20..20 + seeds).map(|seed| {
        let subject = Levelled {
            policy: SAMT,
            stitching: stitching(0),
            value_threshold: APART.filter(|_| seed % 2 == 0),
        };
        layer_history(&subject, store(), seed, 100)
    });
    assert!(merges.sum::<u64>() > 3 * seeds);
}

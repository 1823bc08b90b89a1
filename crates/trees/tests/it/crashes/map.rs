//! The ordered map in memory.

use alluvium_base::SequenceNumber;
use alluvium_dictionary::contract::{BulkIngest, DictionaryScan};
use alluvium_dictionary::memtables::MemtableOwner;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::structure_context::StructureContext;
use alluvium_sim::harness::CrashTests;
use alluvium_sim::saboteur::PlantedBug;
use alluvium_storage::Result;
use alluvium_stories::{CallerFlaw, StructureStory, StructureSubject, crashes, faults, in_order};
use alluvium_trees::map::OrderedMap;
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
struct Mapped;

impl StructureSubject for Mapped {
    type Dictionary = OrderedMap;

    fn create(&self, home: StructureContext) -> Result<OrderedMap> {
        Ok(OrderedMap::create(home, 0))
    }

    fn open(&self, home: StructureContext, root: &[u8], cut: SequenceNumber) -> Result<OrderedMap> {
        OrderedMap::open(home, root, cut)
    }

    fn walk(
        &self,
        map: &OrderedMap,
        memtables: Arc<dyn MemtableOwner>,
        range: KeyRange,
        direction: MergeDirection,
        at: SequenceNumber,
    ) -> Box<dyn DictionaryScan> {
        in_order::walk(map, memtables, range, direction, at)
    }

    fn ingest(&self, map: &OrderedMap) -> Result<Box<dyn BulkIngest>> {
        in_order::ingest(map)
    }
}

fn story() -> StructureStory<Mapped> {
    StructureStory::new("map", Mapped)
}

fn campaign() -> CrashTests {
    crashes(
        "cargo test -p alluvium-trees --test it -- the_map_survives_every_crash --nocapture",
        2000,
        &[
            "checkpoint",
            "crash in a checkpoint",
            "crash in an incorporation",
            "crash behind an ingest",
            "extents freed",
            "ingest",
            "nested recovery",
            "snapshot read to its end",
        ],
    )
}

#[test]
fn the_map_survives_every_crash() {
    campaign().survive([story()]);
}

#[test]
fn the_same_seed_gives_the_same_trace_of_the_map() {
    campaign().repeat([story()], 2);
}

#[test]
fn every_wrong_use_of_the_map_is_found() {
    let flaws = [
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
fn what_a_device_forgets_of_the_map_is_found() {
    let bugs = [
        PlantedBug::SkipSync("tier"),
        PlantedBug::SkipSync("log"),
        PlantedBug::TearWrites("tier"),
    ];
    campaign().find_bugs(&story(), &bugs);
}

#[test]
fn the_map_survives_every_fault() {
    let command = "cargo test -p alluvium-trees --test it -- the_map_survives_every_fault";
    faults(command, 41).survive([story()]);
}

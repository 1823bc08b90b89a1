//! The ordered map in memory.

use alluvium_base::Sequence;
use alluvium_dictionary::contract::{Ingest, Scan};
use alluvium_dictionary::home::Home;
use alluvium_dictionary::memtables::Memtables;
use alluvium_dictionary::merge::Direction;
use alluvium_dictionary::range::KeyRange;
use alluvium_sim::harness::Crashes;
use alluvium_sim::saboteur::Sabotage;
use alluvium_storage::Result;
use alluvium_stories::{Flaw, StructureStory, Subject, crashes, faults, in_order};
use alluvium_trees::map::Map;
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
struct Mapped;

impl Subject for Mapped {
    type Dictionary = Map;

    fn create(&self, home: Home) -> Result<Map> {
        Ok(Map::create(home, 0))
    }

    fn open(&self, home: Home, root: &[u8], cut: Sequence) -> Result<Map> {
        Map::open(home, root, cut)
    }

    fn walk(
        &self,
        map: &Map,
        memtables: Arc<dyn Memtables>,
        range: KeyRange,
        direction: Direction,
        at: Sequence,
    ) -> Box<dyn Scan> {
        in_order::walk(map, memtables, range, direction, at)
    }

    fn ingest(&self, map: &Map) -> Result<Box<dyn Ingest>> {
        in_order::ingest(map)
    }
}

fn story() -> StructureStory<Mapped> {
    StructureStory::new("map", Mapped)
}

fn campaign() -> Crashes {
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
    campaign().find_mistakes(flaws.map(|flaw| story().with_flaw(flaw)));
}

#[test]
fn what_a_device_forgets_of_the_map_is_found() {
    let bugs = [
        Sabotage::SkipSync("tier"),
        Sabotage::SkipSync("log"),
        Sabotage::TearWrites("tier"),
    ];
    campaign().find_bugs(&story(), &bugs);
}

#[test]
fn the_map_survives_every_fault() {
    let command = "cargo test -p alluvium-trees --test it -- the_map_survives_every_fault";
    faults(command, 41).survive([story()]);
}

//! Levels that reuse leaves (stitching).

use crate::schema::schema_with;
use alluvium_base::Sequence;
use alluvium_dictionary::contract::{Ingest, Scan};
use alluvium_dictionary::home::Home;
use alluvium_dictionary::memtables::Memtables;
use alluvium_dictionary::merge::Direction;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::Schema;
use alluvium_sim::Step;
use alluvium_sim::harness::Crashes;
use alluvium_sim::saboteur::Sabotage;
use alluvium_storage::{Codec, Result};
use alluvium_stories::{Action, Flaw, StructureStory, Subject, crashes, faults, in_order, steps};
use alluvium_trees::levels::{Levels, LevelsOptions, SameScan, Stitching};
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
struct Levelled {
    policy: &'static str,
    stitching: Stitching,
    /// Values longer than this are separated from their leaves.
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

impl Subject for Levelled {
    type Dictionary = Levels;

    fn create(&self, home: Home) -> Result<Levels> {
        Levels::create(home, self.options(), 0)
    }

    fn open(&self, home: Home, root: &[u8], cut: Sequence) -> Result<Levels> {
        Levels::open(home, &self.options(), root, cut)
    }

    fn walk(
        &self,
        levels: &Levels,
        memtables: Arc<dyn Memtables>,
        range: KeyRange,
        direction: Direction,
        at: Sequence,
    ) -> Box<dyn Scan> {
        in_order::walk(levels, memtables, range, direction, at)
    }

    fn ingest(&self, levels: &Levels) -> Result<Box<dyn Ingest>> {
        in_order::ingest(levels)
    }

    fn schema(&self) -> Arc<dyn Schema> {
        schema_with(0, Codec::None, self.value_threshold)
    }

    fn steps(&self, seed: u64, count: usize) -> Vec<Step<Action>> {
        steps::neighbours(seed, count)
    }

    fn figures(&self, levels: &Levels) -> Vec<(&'static str, u64)> {
        vec![("leaf taken over", levels.stitched())]
    }
}

/// Keys of one unit share their first four bytes, so a unit has a hundred neighbours.
fn first_four(one: &[u8], other: &[u8]) -> bool {
    one.get(..4) == other.get(..4)
}

fn stitching(threshold: u32) -> Stitching {
    Stitching {
        threshold,
        ..Stitching::default()
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

/// Values longer than this, about half of them, are separated from their leaves.
const APART: Option<usize> = Some(150);

fn stories() -> [StructureStory<Levelled>; 5] {
    let same_scan = Stitching {
        same_scan: Some(SameScan::By(first_four)),
        always: 2,
        ..stitching(0)
    };
    let moving = Stitching {
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

fn campaign() -> Crashes {
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

/// Incorrect uses of levels by their caller.
#[test]
fn every_wrong_use_of_levels_is_found() {
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
    campaign().find_mistakes(flaws.map(|flaw| story().with_flaw(flaw)));
}

#[test]
fn what_a_device_forgets_of_levels_is_found() {
    let bugs = [
        Sabotage::SkipSync("tier"),
        Sabotage::SkipSync("log"),
        Sabotage::TearWrites("tier"),
    ];
    campaign().find_bugs(&story(), &bugs);
}

#[test]
fn levels_survive_every_fault() {
    let [samt, .., moved] = stories();
    let command = "cargo test -p alluvium-trees --test it -- levels_survive_every_fault";
    faults(command, 151).survive([samt, moved]);
}

//! Trees whose pages are updated in place.

use alluvium_base::SequenceNumber;
use alluvium_dictionary::contract::{BulkIngest, DictionaryScan};
use alluvium_dictionary::memtables::MemtableOwner;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::structure_context::StructureContext;
use alluvium_sim::RunSettings;
use alluvium_sim::harness::CrashTests;
use alluvium_sim::saboteur::PlantedBug;
use alluvium_storage::Result;
use alluvium_stories::{CallerFlaw, StructureStory, StructureSubject, crashes, faults, in_order};
use alluvium_trees::paged::node::EpsilonMode;
use alluvium_trees::paged::{PagedDictionary, PagedOptions, TreeKind, UnderfullPolicy};
use std::sync::Arc;

/// The kind of tree, how it merges underfull nodes, and how its nodes are divided.
#[derive(Clone, Copy, Debug)]
struct InPages(TreeKind, UnderfullPolicy, EpsilonMode);

impl InPages {
    /// Nodes are small, so there are many of them, and only a few fit into memory.
    fn options(self) -> PagedOptions {
        let InPages(kind, merging, epsilon) = self;
        PagedOptions {
            kind,
            merging,
            epsilon,
            node_bytes: 1024,
            epsilon_percent: 50,
            key_bytes: 24,
            value_bytes: 40,
            buffer_bytes: 24 << 10,
        }
    }
}

impl StructureSubject for InPages {
    type Dictionary = PagedDictionary;

    fn create(&self, home: StructureContext) -> Result<PagedDictionary> {
        PagedDictionary::create(home, self.options(), 0)
    }

    fn open(&self, home: StructureContext, root: &[u8], cut: SequenceNumber) -> Result<PagedDictionary> {
        PagedDictionary::open(home, &self.options(), root, cut)
    }

    fn walk(
        &self,
        paged: &PagedDictionary,
        memtables: Arc<dyn MemtableOwner>,
        range: KeyRange,
        direction: MergeDirection,
        at: SequenceNumber,
    ) -> Box<dyn DictionaryScan> {
        in_order::walk(paged, memtables, range, direction, at)
    }

    fn ingest(&self, paged: &PagedDictionary) -> Result<Box<dyn BulkIngest>> {
        in_order::ingest(paged)
    }

    fn figures(&self, paged: &PagedDictionary) -> Vec<(&'static str, u64)> {
        let figures = paged.figures();
        vec![("page written", figures.writes), ("old image", figures.images)]
    }
}

fn stories() -> [StructureStory<InPages>; 3] {
    [
        (
            "paged-beps",
            TreeKind::Beps,
            UnderfullPolicy::Never,
            EpsilonMode::Fixed,
        ),
        (
            "paged-bplus",
            TreeKind::Bplus,
            UnderfullPolicy::UnderFull,
            EpsilonMode::Fixed,
        ),
        (
            "paged-adaptive",
            TreeKind::Beps,
            UnderfullPolicy::UnderFull,
            EpsilonMode::Adaptive,
        ),
    ]
    .map(|(name, kind, merging, epsilon)| StructureStory::new(name, InPages(kind, merging, epsilon)))
}

/// Each page is a device operation of its own, and a recovery writes many of them back, so crash
/// points are further apart here.
fn campaign() -> CrashTests {
    let crashes = crashes(
        "cargo test -p alluvium-trees --test it -- pages_survive_every_crash --nocapture",
        1800,
        &[
            "checkpoint",
            "crash in a checkpoint",
            "crash in an incorporation",
            "crash behind an ingest",
            "ingest",
            "nested recovery",
            "old image",
            "snapshot read to its end",
        ],
    );
    CrashTests {
        settings: RunSettings {
            point_every: 240,
            nested_every: 128,
            ..crashes.settings
        },
        ..crashes
    }
}

#[test]
fn pages_survive_every_crash() {
    campaign().survive(stories());
}

#[test]
fn the_same_seed_gives_the_same_trace_of_pages() {
    campaign().repeat(stories(), 2);
}

#[test]
fn every_wrong_use_of_pages_is_found() {
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
    let [beps, ..] = stories();
    campaign().find_mistakes(flaws.map(|flaw| beps.with_flaw(flaw)));
}

#[test]
fn what_a_device_forgets_of_pages_is_found() {
    let bugs = [
        PlantedBug::SkipSync("paged.pages"),
        PlantedBug::SkipSync("log"),
        PlantedBug::TearWrites("paged.pages"),
    ];
    let [beps, ..] = stories();
    campaign().find_bugs(&beps, &bugs);
}

#[test]
fn pages_survive_every_fault() {
    let command = "cargo test -p alluvium-trees --test it -- pages_survive_every_fault";
    faults(command, 301).survive(stories());
}

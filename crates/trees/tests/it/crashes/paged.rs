//! Trees in pages that are updated in place.

use alluvium_base::Sequence;
use alluvium_dictionary::contract::{Ingest, Scan};
use alluvium_dictionary::home::Home;
use alluvium_dictionary::memtables::Memtables;
use alluvium_dictionary::merge::Direction;
use alluvium_dictionary::range::KeyRange;
use alluvium_sim::Settings;
use alluvium_sim::harness::Crashes;
use alluvium_sim::saboteur::Sabotage;
use alluvium_storage::Result;
use alluvium_stories::{Flaw, StructureStory, Subject, crashes, faults, in_order};
use alluvium_trees::paged::node::Epsilon;
use alluvium_trees::paged::{Merging, Paged, PagedOptions, TreeKind};
use std::sync::Arc;

/// The kind of the tree, its merging of underfull nodes, and the division of its nodes.
#[derive(Clone, Copy, Debug)]
struct InPages(TreeKind, Merging, Epsilon);

impl InPages {
    /// Nodes are small, so that there are many of them, and memory holds only a few.
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

impl Subject for InPages {
    type Dictionary = Paged;

    fn create(&self, home: Home) -> Result<Paged> {
        Paged::create(home, self.options(), 0)
    }

    fn open(&self, home: Home, root: &[u8], cut: Sequence) -> Result<Paged> {
        Paged::open(home, &self.options(), root, cut)
    }

    fn walk(
        &self,
        paged: &Paged,
        memtables: Arc<dyn Memtables>,
        range: KeyRange,
        direction: Direction,
        at: Sequence,
    ) -> Box<dyn Scan> {
        in_order::walk(paged, memtables, range, direction, at)
    }

    fn ingest(&self, paged: &Paged) -> Result<Box<dyn Ingest>> {
        in_order::ingest(paged)
    }

    fn figures(&self, paged: &Paged) -> Vec<(&'static str, u64)> {
        let figures = paged.figures();
        vec![("page written", figures.writes), ("old image", figures.images)]
    }
}

fn stories() -> [StructureStory<InPages>; 3] {
    [
        ("paged-beps", TreeKind::Beps, Merging::Never, Epsilon::Fixed),
        ("paged-bplus", TreeKind::Bplus, Merging::UnderFull, Epsilon::Fixed),
        (
            "paged-adaptive",
            TreeKind::Beps,
            Merging::UnderFull,
            Epsilon::Adaptive,
        ),
    ]
    .map(|(name, kind, merging, epsilon)| StructureStory::new(name, InPages(kind, merging, epsilon)))
}

/// Each page is an operation of the device, and a recovery writes many of them back, so crash
/// points are sparser.
fn campaign() -> Crashes {
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
    Crashes {
        settings: Settings {
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
    let [beps, ..] = stories();
    campaign().find_mistakes(flaws.map(|flaw| beps.with_flaw(flaw)));
}

#[test]
fn what_a_device_forgets_of_pages_is_found() {
    let bugs = [
        Sabotage::SkipSync("paged.pages"),
        Sabotage::SkipSync("log"),
        Sabotage::TearWrites("paged.pages"),
    ];
    let [beps, ..] = stories();
    campaign().find_bugs(&beps, &bugs);
}

#[test]
fn pages_survive_every_fault() {
    let command = "cargo test -p alluvium-trees --test it -- pages_survive_every_fault";
    faults(command, 301).survive(stories());
}

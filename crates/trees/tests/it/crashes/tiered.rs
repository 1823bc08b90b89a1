//! The tiered tree.

use crate::schema::schema;
use alluvium_base::Sequence;
use alluvium_base::message::LAST;
use alluvium_dictionary::contract::{Ingest, Scan};
use alluvium_dictionary::home::Home;
use alluvium_dictionary::memtables::Memtables;
use alluvium_dictionary::merge::Direction;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::Schema;
use alluvium_sim::Settings;
use alluvium_sim::harness::Crashes;
use alluvium_sim::saboteur::Sabotage;
use alluvium_storage::extents::UNIT;
use alluvium_storage::log::Access;
use alluvium_storage::{Codec, Result};
use alluvium_stories::{Flaw, Layout, Stack, StructureStory, Subject, crashes, faults, in_order, read};
use alluvium_trees::tiered::{Adoption, Edge, Maintenance, Shape, Stats, Tree, TreeOptions, Victim};
use std::sync::Arc;

/// A tree whose options depend on the access mode of the log.
#[derive(Clone, Copy, Debug)]
struct Tiered(Access);

impl Tiered {
    /// Small, so that a run of a few hundred steps has a trunk of several levels; even smaller with
    /// compression.
    fn memtable_bytes(self) -> u64 {
        match self.0 {
            Access::Mapped => 6 << 10,
            Access::Written => 3 << 10,
        }
    }

    /// With two tiers, compaction output goes to the second.
    fn options(self, home: &Home) -> TreeOptions {
        TreeOptions {
            shape: Shape {
                fanout: 4,
                memtable: self.memtable_bytes(),
            },
            victim: match self.0 {
                Access::Mapped => Victim::Fullest,
                Access::Written => Victim::RandomMessage,
            },
            fingerprint_bits: 24,
            schema: Arc::clone(&home.schema),
            horizon: Some(Arc::clone(&home.horizon)),
            compacted_tier: Some(home.store.extents().usage().tiers.len() as u8 - 1),
            adoption: Adoption::Above(0),
        }
    }
}

impl Subject for Tiered {
    type Dictionary = Tree;

    fn create(&self, home: Home) -> Result<Tree> {
        Ok(Tree::create(Arc::clone(&home.store), self.options(&home)))
    }

    fn open(&self, home: Home, root: &[u8], cut: Sequence) -> Result<Tree> {
        Tree::open(Arc::clone(&home.store), self.options(&home), root, cut)
    }

    fn walk(
        &self,
        tree: &Tree,
        memtables: Arc<dyn Memtables>,
        range: KeyRange,
        direction: Direction,
        at: Sequence,
    ) -> Box<dyn Scan> {
        in_order::walk(tree, memtables, range, direction, at)
    }

    fn ingest(&self, tree: &Tree) -> Result<Box<dyn Ingest>> {
        in_order::ingest(tree)
    }

    fn layout(&self) -> Layout {
        Layout {
            access: self.0,
            memtable_bytes: self.memtable_bytes(),
            ..Layout::default()
        }
    }

    fn schema(&self) -> Arc<dyn Schema> {
        match self.0 {
            Access::Mapped => schema(0, Codec::None),
            Access::Written => schema(1, Codec::None),
        }
    }

    fn prepare(&self, tree: &Tree, next: Sequence) {
        // The results of scans do not depend on how much they may hold between calls.
        tree.limit_scans([u64::MAX, 0, 20_000][(next % 3) as usize]);
    }

    fn get(&self, tree: &Tree, stack: &Arc<Stack>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if key.len().is_multiple_of(2) {
            let stack: Arc<dyn Memtables> = Arc::<Stack>::clone(stack);
            return tree.lookup_with(stack, key, LAST, 0).wait();
        }
        read(tree, stack, key)
    }

    fn request_maintenance(&self, tree: &Tree) -> Result<bool> {
        let mut maintenance = Maintenance {
            budget_bytes: 1 << 20,
            fits_cache: false,
        };
        tree.maintain(&mut maintenance)
    }

    fn figures(&self, tree: &Tree) -> Vec<(&'static str, u64)> {
        let stats = tree.stats();
        let edge = |edge| Stats::clone(&stats).edges.get(&edge).copied().unwrap_or(0);
        vec![
            ("flush", stats.shape.flushes),
            ("leaf split", stats.shape.leaf_splits),
            ("index split", stats.shape.index_splits),
            ("merge of nodes", stats.shape.merges),
            ("bundle adopted unread", stats.shape.adoptions),
            ("leaf taken over", stats.adopted.0),
            ("new root", stats.shape.growths),
            ("root gone", stats.shape.collapses),
            ("compaction installed", edge(Edge::Installed)),
            (
                "running compaction overtaken by a flush",
                edge(Edge::RunningFlushed),
            ),
            (
                "running compaction overtaken by a reshaping",
                edge(Edge::RunningReshaped),
            ),
        ]
    }
}

fn story(access: Access) -> StructureStory<Tiered> {
    let name = match access {
        Access::Mapped => "tiered-mapped",
        Access::Written => "tiered-written",
    };
    StructureStory::new(name, Tiered(access))
}

fn on_two_tiers() -> StructureStory<Tiered> {
    story(Access::Written).on_two_tiers("tiered-on-two-tiers")
}

/// More steps than elsewhere are needed to build a trunk of some size.
fn campaign() -> Crashes {
    let crashes = crashes(
        "cargo test -p alluvium-trees --test it -- the_tree_survives_every_crash --nocapture",
        2000,
        &[
            "checkpoint",
            "crash in a checkpoint",
            "crash in an incorporation",
            "crash in maintenance",
            "crash behind an ingest",
            "ingest",
            "nested recovery",
            "flush",
            "leaf split",
            "index split",
            "merge of nodes",
            "extent reuse",
        ],
    );
    Crashes {
        settings: Settings {
            steps: 320,
            ..crashes.settings
        },
        ..crashes
    }
}

#[test]
fn the_tree_survives_every_crash() {
    campaign().survive([Access::Mapped, Access::Written].map(story));
}

#[test]
fn a_tree_that_compacts_to_a_second_tier_survives_every_crash() {
    let crashes = Crashes {
        command: "cargo test -p alluvium-trees --test it -- a_tree_that_compacts_to_a_second_tier_survives --nocapture",
        points: 1000,
        ..campaign()
    };
    crashes.survive([on_two_tiers()]);
}

#[test]
fn a_second_tier_that_is_not_synced_is_found() {
    let bugs = [Sabotage::SkipSync("tier-1"), Sabotage::TearWrites("tier-1")];
    campaign().find_bugs(&on_two_tiers(), &bugs);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    campaign().repeat([Access::Mapped, Access::Written].map(story), 2);
}

/// Incorrect uses of the tree by its caller.
#[test]
fn every_wrong_use_of_the_tree_is_found() {
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
    campaign().find_mistakes(flaws.map(|flaw| story(Access::Written).with_flaw(flaw)));
}

/// Bugs below the tree, simulated at the device.
#[test]
fn every_bug_planted_under_the_tree_is_found() {
    let bugs = [
        Sabotage::SkipSync("tier"),
        Sabotage::SkipSync("superblock"),
        Sabotage::SkipSync("log"),
        Sabotage::SyncAfterWrite {
            file: "tier",
            before: "superblock",
        },
        Sabotage::LoseRewrites("superblock"),
        Sabotage::WrongSlot {
            file: "superblock",
            mask: 8 << 10,
        },
        Sabotage::TearWrites("tier"),
        Sabotage::PunchWide("tier", UNIT),
    ];
    campaign().find_bugs(&story(Access::Written), &bugs);
}

const FAULTS: &str = "cargo test -p alluvium-trees --test it -- the_tree_survives_every_fault";

#[test]
fn the_tree_survives_every_fault_with_a_mapped_log() {
    faults(FAULTS, 23).survive([story(Access::Mapped)]);
}

#[test]
fn the_tree_survives_every_fault_with_a_written_log() {
    faults(FAULTS, 23).survive([story(Access::Written)]);
}

#[test]
fn a_tree_that_compacts_to_a_second_tier_survives_every_fault() {
    faults(FAULTS, 23).survive([on_two_tiers()]);
}

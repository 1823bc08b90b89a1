//! The tiered tree.

use crate::schema::schema;
use alluvium_base::SequenceNumber;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_device::memory::MemoryDirectory;
use alluvium_dictionary::contract::{BulkIngest, DictionaryScan};
use alluvium_dictionary::memtables::MemtableOwner;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::KeyspaceSchema;
use alluvium_dictionary::structure_context::StructureContext;
use alluvium_sim::RunSettings;
use alluvium_sim::environment::effort;
use alluvium_sim::harness::CrashTests;
use alluvium_sim::saboteur::PlantedBug;
use alluvium_storage::extents::UNIT;
use alluvium_storage::log::SegmentAccess;
use alluvium_storage::store::{Store, StoreOptions};
use alluvium_storage::{NodeCodec, Result};
use alluvium_stories::{
    CallerFlaw, MemtableStack, StoreLayout, StructureStory, StructureSubject, crashes, faults, in_order,
    layer_history, read,
};
use alluvium_trees::tiered::{
    AdoptionPolicy, JobTransition, MaintenanceLimits, TieredTree, TreeOptions, TreeStats, TrunkShape,
    VictimPolicy,
};
use std::sync::Arc;

/// A tree whose options depend on how the log is accessed.
#[derive(Clone, Copy, Debug)]
struct Tiered(SegmentAccess);

impl Tiered {
    /// Small enough for a few hundred steps to build a trunk of several levels, and smaller still
    /// with a written log.
    fn memtable_bytes(self) -> u64 {
        match self.0 {
            SegmentAccess::Mapped => 6 << 10,
            SegmentAccess::Written => 3 << 10,
        }
    }

    /// On two tiers, compactions write to the second.
    fn options(self, home: &StructureContext) -> TreeOptions {
        TreeOptions {
            shape: TrunkShape {
                fanout: 4,
                memtable: self.memtable_bytes(),
            },
            victim: match self.0 {
                SegmentAccess::Mapped => VictimPolicy::Fullest,
                SegmentAccess::Written => VictimPolicy::RandomMessage,
            },
            fingerprint_bits: 24,
            schema: Arc::clone(&home.schema),
            horizon: Some(Arc::clone(&home.horizon)),
            compacted_tier: Some(home.store.extents().usage().tiers.len() as u8 - 1),
            adoption: AdoptionPolicy::Above(0),
        }
    }
}

impl StructureSubject for Tiered {
    type Dictionary = TieredTree;

    fn create(&self, home: StructureContext) -> Result<TieredTree> {
        Ok(TieredTree::create(Arc::clone(&home.store), self.options(&home)))
    }

    fn open(&self, home: StructureContext, root: &[u8], cut: SequenceNumber) -> Result<TieredTree> {
        TieredTree::open(Arc::clone(&home.store), self.options(&home), root, cut)
    }

    fn walk(
        &self,
        tree: &TieredTree,
        memtables: Arc<dyn MemtableOwner>,
        range: KeyRange,
        direction: MergeDirection,
        at: SequenceNumber,
    ) -> Box<dyn DictionaryScan> {
        in_order::walk(tree, memtables, range, direction, at)
    }

    fn ingest(&self, tree: &TieredTree) -> Result<Box<dyn BulkIngest>> {
        in_order::ingest(tree)
    }

    fn layout(&self) -> StoreLayout {
        StoreLayout {
            access: self.0,
            memtable_bytes: self.memtable_bytes(),
            ..StoreLayout::default()
        }
    }

    fn schema(&self) -> Arc<dyn KeyspaceSchema> {
        match self.0 {
            SegmentAccess::Mapped => schema(0, NodeCodec::None),
            SegmentAccess::Written => schema(1, NodeCodec::None),
        }
    }

    fn prepare(&self, tree: &TieredTree, next: SequenceNumber) {
        // Scan results must not depend on how much memory scans may hold between calls.
        tree.limit_scans([u64::MAX, 0, 20_000][(next % 3) as usize]);
    }

    fn get(&self, tree: &TieredTree, stack: &Arc<MemtableStack>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if key.len().is_multiple_of(2) {
            let stack: Arc<dyn MemtableOwner> = Arc::<MemtableStack>::clone(stack);
            return tree.lookup_with(stack, key, MAX_SEQUENCE, 0).wait();
        }
        read(tree, stack, key)
    }

    fn request_maintenance(&self, tree: &TieredTree) -> Result<bool> {
        let mut maintenance = MaintenanceLimits {
            budget_bytes: 1 << 20,
            fits_cache: false,
            is_idle: true,
        };
        tree.maintain(&mut maintenance)
    }

    fn figures(&self, tree: &TieredTree) -> Vec<(&'static str, u64)> {
        let stats = tree.stats();
        let edge = |edge| TreeStats::clone(&stats).edges.get(&edge).copied().unwrap_or(0);
        vec![
            ("flush", stats.shape.flushes),
            ("leaf split", stats.shape.leaf_splits),
            ("index split", stats.shape.index_splits),
            ("merge of nodes", stats.shape.merges),
            ("bundle adopted unread", stats.shape.adoptions),
            ("leaf taken over", stats.adopted.0),
            ("value gathered", stats.gathered_bytes),
            ("new root", stats.shape.growths),
            ("root gone", stats.shape.collapses),
            ("compaction installed", edge(JobTransition::Installed)),
            (
                "running compaction overtaken by a flush",
                edge(JobTransition::RunningFlushed),
            ),
            (
                "running compaction overtaken by a reshaping",
                edge(JobTransition::RunningReshaped),
            ),
        ]
    }
}

fn story(access: SegmentAccess) -> StructureStory<Tiered> {
    let name = match access {
        SegmentAccess::Mapped => "tiered-mapped",
        SegmentAccess::Written => "tiered-written",
    };
    StructureStory::new(name, Tiered(access))
}

fn on_two_tiers() -> StructureStory<Tiered> {
    story(SegmentAccess::Written).on_two_tiers("tiered-on-two-tiers")
}

/// It takes more steps than elsewhere to build a trunk of some size.
fn campaign() -> CrashTests {
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
            "value gathered",
        ],
    );
    CrashTests {
        settings: RunSettings {
            steps: 320,
            ..crashes.settings
        },
        ..crashes
    }
}

#[test]
fn the_tree_survives_every_crash() {
    campaign().survive([SegmentAccess::Mapped, SegmentAccess::Written].map(story));
}

#[test]
fn a_tree_that_compacts_to_a_second_tier_survives_every_crash() {
    let crashes = CrashTests {
        command: "cargo test -p alluvium-trees --test it -- a_tree_that_compacts_to_a_second_tier_survives --nocapture",
        points: 1000,
        ..campaign()
    };
    crashes.survive([on_two_tiers()]);
}

#[test]
fn a_second_tier_that_is_not_synced_is_found() {
    let bugs = [PlantedBug::SkipSync("tier-1"), PlantedBug::TearWrites("tier-1")];
    campaign().find_bugs(&on_two_tiers(), &bugs);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    campaign().repeat([SegmentAccess::Mapped, SegmentAccess::Written].map(story), 2);
}

/// Every way in which a caller can misuse the tree must be noticed.
#[test]
fn every_wrong_use_of_the_tree_is_found() {
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
    campaign().find_mistakes(flaws.map(|flaw| story(SegmentAccess::Written).with_flaw(flaw)));
}

/// Bugs below the tree, simulated at the device.
#[test]
fn every_bug_planted_under_the_tree_is_found() {
    let bugs = [
        PlantedBug::SkipSync("tier"),
        PlantedBug::SkipSync("superblock"),
        PlantedBug::SkipSync("log"),
        PlantedBug::SyncAfterWrite {
            file: "tier",
            before: "superblock",
        },
        PlantedBug::LoseRewrites("superblock"),
        PlantedBug::WrongSlot {
            file: "superblock",
            mask: 8 << 10,
        },
        PlantedBug::TearWrites("tier"),
        PlantedBug::PunchWide("tier", UNIT),
    ];
    campaign().find_bugs(&story(SegmentAccess::Written), &bugs);
}

const FAULTS: &str = "cargo test -p alluvium-trees --test it -- the_tree_survives_every_fault";

#[test]
fn the_tree_survives_every_fault_with_a_mapped_log() {
    faults(FAULTS, 23).survive([story(SegmentAccess::Mapped)]);
}

#[test]
fn the_tree_survives_every_fault_with_a_written_log() {
    faults(FAULTS, 23).survive([story(SegmentAccess::Written)]);
}

#[test]
fn a_tree_that_compacts_to_a_second_tier_survives_every_fault() {
    faults(FAULTS, 23).survive([on_two_tiers()]);
}

/// A store in memory, for the history of an ingest.
fn store() -> Store {
    Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"").unwrap()
}

#[test]
fn layers_of_an_ingest_are_merged_like_the_model() {
    let seeds = effort(5, 60) as u64;
    let merges = (0..seeds).map(|seed| {
        let access = [SegmentAccess::Mapped, SegmentAccess::Written][seed as usize % 2];
        layer_history(&Tiered(access), store(), seed, 100)
    });
    assert!(merges.sum::<u64>() > 3 * seeds);
}

//! The nodes that a repair rewrites, and where it writes them.

use crate::alone::Alone as _;
use crate::schema::schema_with;
use alluvium_base::{Message, Purpose};
use alluvium_device::Directory as _;
use alluvium_device::simulated::{Corruption, CrashSurvival, SimDirectory};
use alluvium_dictionary::contract::{Dictionary, StepProgress};
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup;
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtable_slice::MemtableSlice;
use alluvium_dictionary::read::DataFiles;
use alluvium_storage::extents::AllocationClass;
use alluvium_storage::store::{Store, StoreOptions};
use alluvium_storage::{LogOptions, NodeCodec, TierDirectories};
use alluvium_trees::tiered::{AdoptionPolicy, CheckLevel, TieredTree, TreeOptions, TreeSalvage, TrunkShape};
use std::sync::Arc;

const KEYS: u64 = 3000;

fn store_options() -> StoreOptions {
    StoreOptions {
        cache_bytes: 4 << 20,
        log: LogOptions::with_limit(1 << 20),
        ..StoreOptions::default()
    }
}

fn tree_options() -> TreeOptions {
    TreeOptions {
        shape: TrunkShape {
            fanout: 4,
            memtable: 64 << 10,
        },
        schema: schema_with(0, NodeCodec::None, None),
        compacted_tier: Some(1),
        adoption: AdoptionPolicy::Above(0),
        ..TreeOptions::default()
    }
}

fn both(machines: &[SimDirectory; 2]) -> TierDirectories {
    let [first, second] = machines.clone();
    TierDirectories::from(Arc::new(first)).and(Arc::new(second))
}

fn images(machines: &[SimDirectory; 2]) -> [SimDirectory; 2] {
    [0, 1].map(|tier| machines[tier].image(CrashSurvival::All, 1))
}

fn key(number: u64) -> Vec<u8> {
    format!("user{number:012}").into_bytes()
}

/// A store whose tree has been compacted to its second tier.
fn compacted() -> [SimDirectory; 2] {
    let machines = [SimDirectory::new(1), SimDirectory::new(2)];
    let store = Store::create(both(&machines), &store_options(), b"").unwrap();
    let tree = TieredTree::create(Arc::new(store), tree_options());
    for half in 0..2 {
        let memtable = Memtable::new(1 << 20);
        for number in (0..KEYS).filter(|number| number % 2 == half) {
            let sequence = half * KEYS + number / 2 + 1;
            memtable
                .insert(&key(number), Message::put(sequence, b"value"))
                .unwrap();
        }
        let share = MemtableSlice::whole(Arc::new(memtable), half * KEYS + KEYS / 2);
        let mut taking = Dictionary::incorporate(&tree, share, AllocationClass::Normal).unwrap();
        while taking.poll(usize::MAX).unwrap() != StepProgress::Done {}
        taking.publish().unwrap();
    }
    tree.compact_part(b"").unwrap();
    while let Some(mut step) = Dictionary::next_step(&tree).unwrap() {
        while step.poll(usize::MAX).unwrap() != StepProgress::Done {}
    }
    tree.checkpoint().unwrap();
    machines
}

/// Opens the store without its extent map, and surveys the damage to the tree.
fn survey(machines: &[SimDirectory; 2]) -> (alluvium_storage::store::StoreOpening, TreeSalvage) {
    let opening = Store::open_without_map(both(machines), &store_options()).unwrap();
    let files = DataFiles {
        tiers: opening.tiers(),
        page_size: opening.superblock().page_size,
    };
    let root = opening.superblock().payload.clone();
    let salvage = TreeSalvage::survey(files, &root).unwrap();
    (opening, salvage)
}

#[test]
fn a_rebuilt_maplet_is_written_to_the_tier_that_it_was_on() {
    let sound = compacted();
    let len = sound[1]
        .open("tier-1.data", alluvium_device::FileOptions::DIRECT.read_only())
        .unwrap()
        .len();
    let mut rebuilt = 0;
    for offset in (0..len).step_by(4096) {
        let machines = images(&sound);
        let flip = Corruption::FlipBit {
            offset: offset + 70,
            bit: 2,
        };
        machines[1].corrupt("tier-1.data", &flip).unwrap();
        let (mut opening, salvage) = survey(&machines);
        if salvage.mended().is_empty() || !salvage.lost().is_empty() {
            continue;
        }
        rebuilt += 1;
        let reached = salvage.reached().to_vec();
        opening.rebuild_map(&reached).unwrap();
        let (store, _) = opening.repair(&mut |_| Ok(())).unwrap();
        let (store, superblock) = (Arc::new(store), opening_superblock(&machines));
        let (tree, lost, mended) = TieredTree::open_salvaged(
            &store,
            tree_options(),
            salvage,
            &superblock.payload,
            superblock.cut,
        )
        .unwrap();
        assert_eq!((lost.len(), mended.len()), (0, 1));
        tree.checkpoint().unwrap();
        let written = [0, 1].map(|tier| {
            let directory = store.directories().get(tier).unwrap();
            directory
                .counters()
                .snapshot()
                .of(Purpose::Recovery)
                .written_bytes
        });
        assert_eq!(written[0], 0, "{written:?}");
        assert!(written[1] > 0, "{written:?}");
        assert_eq!(tree.check_with(CheckLevel::Everything, &[]).unwrap(), [""; 0]);
        for number in (0..KEYS).step_by(97) {
            let mut gather = LookupState::new(u64::MAX >> 8, 0, None);
            let name = key(number);
            lookup::gather(&tree.reader(), LookupKey::new(&name), &mut gather).unwrap();
            assert_eq!(gather.finish().unwrap(), b"value");
        }
    }
    assert!(rebuilt > 0, "no maplet is on the second tier");
}

fn opening_superblock(machines: &[SimDirectory; 2]) -> alluvium_storage::superblock::Superblock {
    use alluvium_storage::superblock::SuperblockFile;
    let file = SuperblockFile::open(&machines[0], alluvium_device::FileAccessMode::ReadOnly).unwrap();
    file.durable().clone()
}

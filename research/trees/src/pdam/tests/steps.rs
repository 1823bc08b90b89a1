//! The number of device steps per search (Bender §6, Lemma 13), counted by the device and in
//! trees that are too large to write.

use super::*;
use crate::pdam::layout::{LevelLayout, PdamLayout};
use alluvium_device::AlignedBuffer;
use alluvium_device::simulated::SimDirectory;
use alluvium_model::PdamClock;
use research_models::pdam::{NodePlacement, PdamTreeModel as Expected};

const SLOTS: u32 = 8;

/// A virtual tree: key k is the number k, and blocks are generated when they are read.
struct Imagined {
    tree: PdamTree,
    /// The rank of each place, for a leaf and for an inner node.
    ranks: [Vec<u64>; 2],
}

impl Imagined {
    fn new(keys: u64, node_blocks: u32) -> Imagined {
        let shape = PdamShape::new(512, node_blocks, 8, 0).unwrap();
        let header = format::PdamHeader { shape, id: 1, keys };
        let layout = PdamLayout::new(&header, "imagined").unwrap();
        let ranks = [0, 1].map(|level| {
            let order = layout.order(level);
            let mut ranks = vec![0; order.count() as usize];
            for rank in 0..order.count() {
                ranks[order.place(order.position(rank)) as usize] = rank;
            }
            ranks
        });
        let device = file();
        Imagined {
            tree: PdamTree { device, layout },
            ranks,
        }
    }

    fn block(&self, number: u64, block: u64) -> Vec<u8> {
        let layout = &self.tree.layout;
        let holds = |level: &&LevelLayout| level.first <= number && number < level.first + level.nodes;
        let level = layout.levels.iter().position(|level| holds(&level)).unwrap();
        let node = number - layout.levels[level].first;
        let each = layout.shape.block_entries(level);
        // The keys below a node of the level below.
        let below: u64 = (1..level).fold(layout.shape.node_entries(0), |keys, _| {
            keys * layout.shape.fanout()
        });
        let mut bytes = vec![0; format::BLOCK_HEAD];
        for place in block * each..(block + 1) * each {
            let rank = self.ranks[level.min(1)].get(place as usize);
            let Some(&rank) = rank.filter(|&&rank| rank < layout.entries(level, node)) else {
                bytes.extend([0; 8]);
                continue;
            };
            let key = match level {
                0 => node * layout.shape.node_entries(0) + rank,
                _ => (node * layout.shape.fanout() + rank + 1) * below,
            };
            bytes.extend(key.to_be_bytes());
        }
        bytes.resize(512, 0);
        format::seal(&mut bytes, layout.id, layout.block_number(number, block));
        bytes
    }

    /// Returns the steps per query for a number of concurrent clients.
    fn steps(&self, ahead: ReadAhead, clients: usize, queries: usize) -> f64 {
        let mut readers = ReaderScheduler::new(&self.tree, ahead, SLOTS, RemainderPolicy::InTurn).unwrap();
        let mut random = SplitMix64::from_seed(clients as u64);
        let mut answered = 0;
        let seek = |readers: &mut ReaderScheduler<'_>, reader, random: &mut SplitMix64| {
            let key = random.below(self.tree.keys() as usize) as u64;
            readers.seek(reader, &key.to_be_bytes()).unwrap();
        };
        for reader in 0..clients {
            seek(&mut readers, reader, &mut random);
        }
        while answered < queries {
            let runs = readers.plan().unwrap();
            let read: Vec<_> = runs
                .into_iter()
                .map(|run| {
                    let blocks = run.blocks.clone().flat_map(|block| self.block(run.node, block));
                    let bytes: Vec<u8> = blocks.collect();
                    (run, AlignedBuffer::padded(&bytes))
                })
                .collect();
            for (reader, value) in readers.supply(read).unwrap() {
                assert_eq!(value.as_deref(), Some(&[][..]), "every number is a key");
                answered += 1;
                seek(&mut readers, reader, &mut random);
            }
        }
        readers.steps() as f64 * clients as f64 / answered as f64
    }
}

/// Clients, and the steps of a query that the document's formula gives for 2^30 keys, 64 to a
/// block, P = 8: nodes of one block, whole nodes, nodes in the order of van Emde Boas.
const TABLE: [(usize, [f64; 3]); 4] = [
    (1, [5.0, 3.33, 3.33]),
    (2, [5.0, 6.67, 3.75]),
    (4, [5.0, 13.3, 4.29]),
    (8, [5.0, 26.7, 5.0]),
];

#[test]
fn searches_take_the_steps_of_the_table_within_a_factor_of_two() {
    let (small, large) = (Imagined::new(1 << 30, 1), Imagined::new(1 << 30, SLOTS));
    for (clients, wanted) in TABLE {
        let found = [
            small.steps(ReadAhead::None, clients, 600),
            large.steps(ReadAhead::Node, clients, 300),
            large.steps(ReadAhead::Shared, clients, 600),
        ];
        for (found, wanted) in found.into_iter().zip(wanted) {
            let ratio = found / wanted;
            assert!(
                (0.9..2.0).contains(&ratio),
                "{clients} clients: {found}, not {wanted}"
            );
        }
    }
}

#[test]
fn the_order_of_van_emde_boas_is_near_the_best_for_every_number_of_clients() {
    let (small, large) = (Imagined::new(1 << 30, 1), Imagined::new(1 << 30, SLOTS));
    let expected = Expected {
        keys: 1 << 30,
        block: 64,
        parallel: u64::from(SLOTS),
    };
    for clients in 1..=12 {
        let shared = large.steps(ReadAhead::Shared, clients, 300);
        let best = small
            .steps(ReadAhead::None, clients, 300)
            .min(large.steps(ReadAhead::Node, clients, 150));
        assert!(shared <= 1.5 * best, "{clients}: {shared} {best}");
        // Blocks of 63 keys: nearly the simulation's steps.
        let played = expected
            .play(NodePlacement::VanEmdeBoas, clients, 600, 1)
            .unwrap();
        let ratio = shared / played;
        assert!((0.75..1.34).contains(&ratio), "{clients}: {shared} {played}");
    }
}

#[test]
fn the_device_counts_the_steps_that_were_planned() {
    let shape = PdamShape::new(512, SLOTS, 8, 8).unwrap();
    let records = draw(&shape, 30_000, &mut SplitMix64::from_seed(3));
    let keys: Vec<&Vec<u8>> = records.keys().collect();
    let directory = SimDirectory::new(1);
    let file = directory.create("tree", FileOptions::DIRECT).unwrap();
    let tree = PdamTree::build(file, shape, 1, &records).unwrap();
    directory.set_clock(Box::new(PdamClock::new(u64::from(SLOTS), 512, 1000)));
    for ahead in [ReadAhead::None, ReadAhead::Node, ReadAhead::Shared] {
        for clients in [1, 3, 8, 13] {
            let mut random = SplitMix64::from_seed(4);
            let mut readers = ReaderScheduler::new(&tree, ahead, SLOTS, RemainderPolicy::InTurn).unwrap();
            let before = directory.now_ns();
            for reader in 0..clients {
                readers.seek(reader, keys[random.below(keys.len())]).unwrap();
            }
            while readers.waiting() > 0 {
                readers.step().unwrap();
            }
            let steps = (directory.now_ns() - before) / 1000;
            assert_eq!(steps, readers.steps(), "PD2: {ahead:?}, {clients} clients");
        }
    }
}

#[test]
fn a_scan_moves_p_blocks_in_a_step() {
    for node_blocks in [1, SLOTS] {
        let shape = PdamShape::new(512, node_blocks, 8, 8).unwrap();
        let records = draw(&shape, 20_000, &mut SplitMix64::from_seed(5));
        let directory = SimDirectory::new(1);
        let file = directory.create("tree", FileOptions::DIRECT).unwrap();
        let tree = PdamTree::build(file, shape, 1, &records).unwrap();
        directory.set_clock(Box::new(PdamClock::new(u64::from(SLOTS), 512, 1000)));
        let count = tree.scan(&[0; 8], SLOTS).unwrap().map(Result::unwrap).count();
        assert_eq!(count, 20_000);
        let steps = directory.now_ns() / 1000;
        // 31 records in a block, and the way from the root.
        let wanted = (20_000_u64.div_ceil(31)).div_ceil(u64::from(SLOTS)) + tree.height() as u64;
        assert!(steps <= wanted + 1, "{node_blocks}: {steps}, not {wanted}");
    }
}

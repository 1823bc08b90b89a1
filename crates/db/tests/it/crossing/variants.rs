//! Sets of options under which the same history must have the same results.
//!
//! A history is drawn for four keyspaces. The first is limited to operations that every structure
//! offers, so its ranges cover all keys. The second has short ordered keys, the third long ones.
//! The fourth is emptied before the store is closed, so it may be volatile.

use super::knobs::NeutralOptions;
use super::ops::Operation;
use super::plan::{HASHED, KeyspacePlan, LEVELS, MAP, NODES, Operator, PAGED, StorePlan, VOLATILE};
use alluvium::simulation::FilterSource;
use alluvium::{Compression, DeviceProfile, Durability, devices};
use alluvium_storage::log::SegmentAccess;
use fastrand::Rng;

/// The keyspace whose ranges cover all keys, because some structures have no key order.
pub(super) const UNORDERED: usize = 0;

/// Maximum key and value lengths in bytes of each keyspace.
const LIMITS: [(usize, usize); 4] = [(64, 1 << 20), (24, 1 << 20), (3000, 1 << 20), (64, 200)];

/// Draws the store that a history is drawn for, with every keyspace in the tiered tree.
pub(super) fn plain(seed: u64) -> StorePlan {
    let mut random = Rng::with_seed(seed ^ 0x91a1);
    let keyspaces = LIMITS.into_iter().enumerate().map(|(number, limits)| {
        let operators = [Operator::Append, Operator::Append, Operator::Add, Operator::None];
        KeyspacePlan {
            structure: "tiered",
            operator: operators[random.usize(..operators.len())],
            compression: Compression::None,
            threshold: None,
            limits: Some(limits),
            is_emptied: number == 3,
        }
    });
    let keyspaces = keyspaces.collect();
    StorePlan {
        memtable: 16 << 10,
        tiers: 1,
        keys: [12, 60, 120, 300][random.usize(..4)],
        keyspaces,
        knobs: NeutralOptions {
            loses_nothing: true,
            ..NeutralOptions::default()
        },
    }
}

fn pick<T: Clone>(random: &mut Rng, all: &[T]) -> T {
    all[random.usize(..all.len())].clone()
}

/// Returns the same keyspaces under other options.
pub(super) fn varied(plain: &StorePlan, seed: u64) -> StorePlan {
    let random = &mut Rng::with_seed(seed ^ 0x0971_0115);
    let memtable = pick(random, &[6 << 10, 16 << 10, 64 << 10, 256 << 10]);
    // A store has one dictionary of pages, so its paged keyspaces must agree on the options.
    let fitting = PAGED.iter().filter(|(node, _)| NODES * node <= memtable);
    let fitting: Vec<&str> = fitting.map(|(_, structure)| *structure).collect();
    let paged = pick(random, &fitting);
    let paged_if = |longest: usize| (!paged.contains("key=24") || longest <= 24).then_some(paged);
    let keyspaces = plain.keyspaces.iter().enumerate().map(|(number, keyspace)| {
        let (levels, hashed) = (pick(random, &LEVELS), pick(random, &HASHED));
        let mut structures = vec!["tiered", levels, MAP];
        match number {
            UNORDERED => structures.extend([hashed, hashed]),
            3 => structures.extend([VOLATILE, VOLATILE]),
            _ => {}
        }
        if number != 2 {
            let longest = keyspace.most_key_bytes();
            structures.extend(paged_if(longest));
        }
        let structure = pick(random, &structures);
        KeyspacePlan {
            structure,
            // Paged keyspaces configure their codec separately.
            compression: match structure.starts_with("paged") {
                true => Compression::None,
                false => pick(random, &[Compression::None, Compression::Lz4, Compression::Zstd]),
            },
            threshold: pick(random, &[None, Some(16), Some(100), Some(300), Some(4096)]),
            ..keyspace.clone()
        }
    });
    let keyspaces = keyspaces.collect();
    let tiers = pick(random, &[1, 1, 2]);
    StorePlan {
        memtable,
        tiers,
        keys: plain.keys,
        keyspaces,
        knobs: knobs(random, tiers),
    }
}

fn knobs(random: &mut Rng, tiers: usize) -> NeutralOptions {
    let upkeep = [
        None,
        None,
        Some(Operation::Checkpoint),
        Some(Operation::Compact),
        Some(Operation::Work(1)),
        Some(Operation::Work(40)),
    ];
    let page_size = pick(random, &[4 << 10, 4 << 10, 8 << 10, 16 << 10]);
    NeutralOptions {
        cache: pick(random, &[256, 512, 2048]) * u64::from(page_size),
        record_memory: pick(random, &[0, 4 << 10, 64 << 10, 1 << 20]),
        fanout: pick(random, &[2, 3, 4, 8, 16]),
        filters: pick(random, &[FilterSource::Merged, FilterSource::Rehashed]),
        // A log segment is a twelfth of the log and must consist of whole blocks.
        log: pick(random, &[384 << 10, 768 << 10, 3 << 20]),
        lanes: pick(random, &[1, 2, 3]),
        access: pick(random, &[SegmentAccess::Written, SegmentAccess::Mapped]),
        page_size,
        device: pick(random, &[DeviceProfile::SSD, devices::HARD_DISK]),
        planned: pick(random, &[0, 64 << 10, 1 << 20]),
        // With several disks, images are consistent only if no background thread runs.
        workers: if tiers == 1 {
            pick(random, &[0, 0, 0, 1, 2])
        } else {
            0
        },
        durability: pick(
            random,
            &[
                None,
                Some(Durability::Memory),
                Some(Durability::Process),
                Some(Durability::Disk),
            ],
        ),
        upkeep: pick(random, &upkeep).map(|operation| (random.usize(1..12), operation)),
        loses_nothing: true,
    }
}

/// Returns one plan for each option in which `plan` and `other` differ: `plan` with that option
/// copied from `other`.
pub(super) fn plainer(plan: &StorePlan, other: &StorePlan) -> Vec<StorePlan> {
    let mut plainer = Vec::new();
    let mut add = |change: &dyn Fn(&mut StorePlan)| {
        let mut changed = plan.clone();
        change(&mut changed);
        if changed != *plan {
            plainer.push(changed);
        }
    };
    for number in 0..plan.keyspaces.len() {
        let plain = &other.keyspaces[number];
        add(&|plan| plan.keyspaces[number] = plain.clone());
        add(&|plan| plan.keyspaces[number].compression = plain.compression);
        add(&|plan| plan.keyspaces[number].threshold = plain.threshold);
    }
    add(&|plan| plan.tiers = other.tiers);
    // The memtable must still hold the paged nodes.
    add(&|plan| plan.memtable = plan.memtable.max(other.memtable));
    let to = &other.knobs;
    add(&|plan| plan.knobs.cache = to.cache.max(256 * u64::from(plan.knobs.page_size)));
    add(&|plan| plan.knobs.record_memory = to.record_memory);
    add(&|plan| plan.knobs.fanout = to.fanout);
    add(&|plan| plan.knobs.filters = to.filters);
    add(&|plan| plan.knobs.log = to.log);
    add(&|plan| plan.knobs.lanes = to.lanes);
    add(&|plan| plan.knobs.access = to.access);
    add(&|plan| plan.knobs.page_size = plan.knobs.page_size.min(to.page_size));
    add(&|plan| plan.knobs.device = to.device);
    add(&|plan| plan.knobs.planned = to.planned);
    add(&|plan| plan.knobs.workers = to.workers);
    add(&|plan| plan.knobs.durability = to.durability);
    add(&|plan| plan.knobs.upkeep = to.upkeep.clone());
    plainer
}

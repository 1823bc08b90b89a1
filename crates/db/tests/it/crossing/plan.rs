//! Draws the stores that histories run on: one or two keyspaces in every structure, in an order
//! drawn from a seed, so that every structure becomes a neighbour of every other. The two keyspaces
//! in levels have the same options or different ones, and so have the two hashed ones. All sizes
//! are small.

use super::knobs::NeutralOptions;
use alluvium::simulation::{SimulationOperations as _, StoreScale};
use alluvium::{Compression, Db, Keyspace, KeyspaceOptions, ValueOrder};

/// The merge operator of a keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    None,
    Append,
    Add,
}

/// A keyspace of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyspacePlan {
    pub(crate) structure: &'static str,
    pub(crate) operator: Operator,
    pub(crate) compression: Compression,
    /// Length in bytes above which a value is stored separately.
    pub(crate) threshold: Option<u32>,
    /// Maximum lengths of keys and values, if lower than those of the structure.
    pub(crate) limits: Option<(usize, usize)>,
    /// Whether the keyspace is emptied before the store is closed, as a volatile keyspace would be.
    pub(crate) is_emptied: bool,
}

/// A store and the sizes of its parts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StorePlan {
    /// Bytes of a memtable.
    pub(crate) memtable: u64,
    /// Number of tiers. With two, most merge output is on the second.
    pub(crate) tiers: usize,
    /// Number of keys in a keyspace.
    pub(crate) keys: u16,
    /// The keyspaces in order of creation.
    pub(crate) keyspaces: Vec<KeyspacePlan>,
    /// Options that must not affect any result.
    pub(crate) knobs: NeutralOptions,
}

pub(super) const LEVELS: [&str; 9] = [
    "levels,k=4",
    "levels,k=2,f=0",
    "levels,k=3,f=3,scan=4,values=moved",
    "levels,cola,r=3,f=1,defragment=50",
    "levels,leveled,r=4",
    "levels,leveled,r=2,f=0,always=16,scan=2",
    "levels,cola,r=2",
    "levels,k=2,f=2,values=moved,defragment=100",
    "levels,never",
];

pub(super) const HASHED: [&str; 8] = [
    "hashed",
    "hashed,index=trie",
    "hashed,form=boa,lambda=2,refined=no",
    "hashed,form=boa,lambda=2,refined=yes",
    "hashed,form=boa,lambda=16,refined=yes",
    "hashed,form=boa,lambda=4,refined=no",
    "hashed,form=bot,lambda=2",
    "hashed,form=bot,lambda=4",
];

/// Paged structures, each with its node size in bytes.
pub(super) const PAGED: [(u64, &str); 9] = [
    (512, "paged,beps,node=512,key=24,value=40"),
    (512, "paged,bplus,node=512,key=24,value=24,merge"),
    (1024, "paged,bplus,node=1024,key=64,value=64"),
    (2048, "paged,bplus,node=2048,merge"),
    (2048, "paged,beps,node=2048,epsilon=0.5,key=64,value=32,merge"),
    (
        4096,
        "paged,beps,node=4096,epsilon=adaptive,key=64,value=128,merge",
    ),
    (8192, "paged,beps,node=8192,epsilon=0.2"),
    (16384, "paged"),
    (32768, "paged,beps,node=32768,epsilon=0.2"),
];

/// Number of paged nodes that a memtable must hold.
pub(super) const NODES: u64 = 8;

/// Structure of volatile keyspaces, including their maximum size.
pub(super) const VOLATILE: &str = "volatile,bytes=2M";

/// The map, which users cannot choose.
pub(super) const MAP: &str = "map";

impl KeyspacePlan {
    fn options(&self) -> KeyspaceOptions {
        let options = KeyspaceOptions::new().compression(self.compression);
        let options = match self.structure {
            MAP => options,
            structure => options.structure(structure.parse().expect("the structure is one")),
        };
        let options = match self.threshold {
            Some(bytes) => options.value_threshold(bytes),
            None => options,
        };
        let options = options.value_order(self.value_order());
        match self.operator {
            Operator::None => options,
            Operator::Append => options.merge_operator("append"),
            Operator::Add => options.merge_operator("add"),
        }
    }

    /// Returns where compactions leave separate values. It follows from the threshold, so that the
    /// histories of older seeds stay the same.
    pub(super) fn value_order(&self) -> ValueOrder {
        match (self.structure, self.threshold) {
            ("tiered", Some(_)) => ValueOrder::Gathered,
            _ => ValueOrder::Written,
        }
    }

    /// Opens or creates the keyspace with this name.
    pub(crate) fn open(&self, db: &Db, name: &str) -> alluvium::Result<Keyspace> {
        match self.structure {
            MAP => db.keyspace_in_map(name, &self.options()),
            _ => db.keyspace_with(name, &self.options()),
        }
    }

    /// Returns whether the keys are ordered.
    pub(crate) fn is_ordered(&self) -> bool {
        !self.structure.starts_with("hashed")
    }

    /// Returns whether the keyspace outlives its process.
    pub(crate) fn lasts(&self) -> bool {
        !self.structure.starts_with("volatile")
    }

    /// Returns the maximum length of a key in bytes.
    pub(crate) fn most_key_bytes(&self) -> usize {
        match self.structure {
            _ if self.limits.is_some() => self.limits.map_or(0, |(key, _)| key),
            paged if paged.contains("key=24") => 24,
            paged if paged.starts_with("paged") => 64,
            _ => 3000,
        }
    }

    /// Returns the maximum length of a value in bytes.
    pub(crate) fn most_value_bytes(&self) -> usize {
        match self.limits {
            Some((_, value)) => value,
            None if self.lasts() => 1 << 20,
            None => 200,
        }
    }
}

/// Returns the structure that is `step` places behind this one.
fn next(all: &[&'static str], this: &str, step: usize) -> &'static str {
    let place = all.iter().position(|structure| *structure == this);
    all[(place.expect("it is one of them") + step) % all.len()]
}

impl StorePlan {
    /// Draws a store.
    pub(crate) fn drawn(seed: u64) -> StorePlan {
        let mut random = fastrand::Rng::with_seed(seed ^ 0x5707);
        let memtable = [6 << 10, 16 << 10, 64 << 10, 256 << 10][random.usize(..4)];
        let fitting = PAGED.iter().filter(|(node, _)| NODES * node <= memtable);
        let fitting: Vec<&str> = fitting.map(|(_, structure)| *structure).collect();
        let mut pick = |of: &[&'static str]| of[random.usize(..of.len())];
        let (levels, hashed, paged) = (pick(&LEVELS), pick(&HASHED), pick(&fitting));
        // Every other pair of seeds gives the second keyspaces other options, and so a dictionary
        // of their own.
        let step = (seed / 2 + 1) as usize % 2 * (1 + seed as usize % 7);
        let (others, forms) = (next(&LEVELS, levels, step), next(&HASHED, hashed, step));
        let mut structures = [
            "tiered", "tiered", levels, others, hashed, forms, paged, paged, VOLATILE,
        ];
        random.shuffle(&mut structures);
        let keyspaces = structures.into_iter().map(|structure| {
            let operators = [Operator::Append, Operator::Append, Operator::Add, Operator::None];
            let compressions = [Compression::None, Compression::Lz4, Compression::Zstd];
            KeyspacePlan {
                structure,
                operator: operators[random.usize(..operators.len())],
                // Paged keyspaces configure their codec separately.
                compression: match structure.starts_with("paged") {
                    true => Compression::None,
                    false => compressions[random.usize(..compressions.len())],
                },
                threshold: [None, Some(100), Some(300)][random.usize(..3)],
                limits: None,
                is_emptied: false,
            }
        });
        let keyspaces = keyspaces.collect();
        StorePlan {
            memtable,
            tiers: [1, 1, 2][random.usize(..3)],
            keys: [12, 60, 120, 300][random.usize(..4)],
            keyspaces,
            knobs: NeutralOptions::default(),
        }
    }

    pub(crate) fn scale(&self) -> StoreScale {
        let knobs = &self.knobs;
        let mut scale = StoreScale::small(0xc405, self.memtable, knobs.log);
        scale.extents.planned_bytes = (self.tiers > 1).then_some(knobs.planned);
        scale.cache = knobs.cache;
        scale.shape.fanout = knobs.fanout;
        scale.filters = knobs.filters;
        scale.log.lanes = knobs.lanes;
        scale.log.access = knobs.access;
        scale
    }
}

//! The stores of histories: a keyspace or two in every structure, in an order that a seed draws, so
//! that each comes to lie beside each other one. All sizes are small.

use alluvium::simulation::Scale;
use alluvium::{Compression, KeyspaceOptions};

/// How values of a keyspace are merged.
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
    /// Bytes beyond which a value is kept apart.
    pub(crate) threshold: Option<u32>,
}

/// A store, and how large its parts are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StorePlan {
    /// Bytes of a memtable.
    pub(crate) memtable: u64,
    /// How many tiers there are: of two, most of what merges write is on the second.
    pub(crate) tiers: usize,
    /// How many keys there are in a keyspace.
    pub(crate) keys: u16,
    /// In the order in which they are made.
    pub(crate) keyspaces: Vec<KeyspacePlan>,
}

const LEVELS: [&str; 9] = [
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

const HASHED: [&str; 8] = [
    "hashed",
    "hashed,index=trie",
    "hashed,form=boa,lambda=2,refined=no",
    "hashed,form=boa,lambda=2,refined=yes",
    "hashed,form=boa,lambda=16,refined=yes",
    "hashed,form=boa,lambda=4,refined=no",
    "hashed,form=bot,lambda=2",
    "hashed,form=bot,lambda=4",
];

/// With the bytes of a node.
const PAGED: [(u64, &str); 9] = [
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

/// How many nodes must fit into a memtable.
const NODES: u64 = 8;

/// The most bytes of volatile keyspaces.
const VOLATILE: &str = "volatile,bytes=2M";

impl KeyspacePlan {
    pub(crate) fn options(&self) -> KeyspaceOptions {
        let structure = self.structure.parse().expect("the structure is one");
        let options = KeyspaceOptions::new()
            .structure(structure)
            .compression(self.compression);
        let options = match self.threshold {
            Some(bytes) => options.value_threshold(bytes),
            None => options,
        };
        match self.operator {
            Operator::None => options,
            Operator::Append => options.merge_operator("append"),
            Operator::Add => options.merge_operator("add"),
        }
    }

    /// Returns whether its keys have an order.
    pub(crate) fn is_ordered(&self) -> bool {
        !self.structure.starts_with("hashed")
    }

    /// Returns whether it outlives its process.
    pub(crate) fn lasts(&self) -> bool {
        !self.structure.starts_with("volatile")
    }

    /// Returns how long its keys may be.
    pub(crate) fn most_key_bytes(&self) -> usize {
        match self.structure {
            paged if paged.contains("key=24") => 24,
            paged if paged.starts_with("paged") => 64,
            _ => 3000,
        }
    }

    /// Returns how long its values may be.
    pub(crate) fn most_value_bytes(&self) -> usize {
        if self.lasts() { 1 << 20 } else { 200 }
    }
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
        let mut structures = [
            "tiered", "tiered", levels, levels, hashed, hashed, paged, paged, VOLATILE,
        ];
        random.shuffle(&mut structures);
        let keyspaces = structures.into_iter().map(|structure| {
            let operators = [Operator::Append, Operator::Append, Operator::Add, Operator::None];
            let compressions = [Compression::None, Compression::Lz4, Compression::Zstd];
            KeyspacePlan {
                structure,
                operator: operators[random.usize(..operators.len())],
                // Pages in place have a codec of their own.
                compression: match structure.starts_with("paged") {
                    true => Compression::None,
                    false => compressions[random.usize(..compressions.len())],
                },
                threshold: [None, Some(100), Some(300)][random.usize(..3)],
            }
        });
        let keyspaces = keyspaces.collect();
        StorePlan {
            memtable,
            tiers: [1, 1, 2][random.usize(..3)],
            keys: [12, 60, 120, 300][random.usize(..4)],
            keyspaces,
        }
    }

    pub(crate) fn scale(&self) -> Scale {
        let mut scale = Scale::small(0xc405, self.memtable, 384 << 10);
        scale.extents.planned_bytes = (self.tiers > 1).then_some(64 << 10);
        scale
    }
}

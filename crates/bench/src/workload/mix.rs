//! Operation mixes: those of YCSB's core workloads, and the random choice of the next operation.

use super::choose::RecordDistribution;
use serde::{Deserialize, Serialize};

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationKind {
    Read,
    /// Replaces the value of a record.
    Update,
    Insert,
    Scan,
    /// Reads a record and then replaces its value.
    ReadModifyWrite,
    /// Reads several records in one call.
    MultiGet,
}

/// Percentages of the kinds of operations, which add up to one hundred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct YcsbMix {
    pub read: u8,
    pub update: u8,
    pub insert: u8,
    pub scan: u8,
    /// Percentage of reads that are followed by an update of the same record.
    pub read_modify_write: u8,
    /// Percentage of reads of several records in one call.
    pub multi_get: u8,
}

const fn mix(read: u8, update: u8, insert: u8, scan: u8, read_modify_write: u8, multi_get: u8) -> YcsbMix {
    assert!(read + update + insert + scan + read_modify_write + multi_get == 100);
    YcsbMix {
        read,
        update,
        insert,
        scan,
        read_modify_write,
        multi_get,
    }
}

/// A workload of YCSB's core package, as defined in Cooper et al., "Benchmarking cloud serving
/// systems with YCSB", SoCC 2010, table 2.
#[derive(Clone, Copy, Debug)]
pub struct YcsbWorkload {
    /// The letter that names the workload, in lower case.
    pub name: &'static str,
    pub mix: YcsbMix,
    pub distribution: RecordDistribution,
}

/// The workloads A to F of YCSB, and `m`, which reads batches of 64 keys.
pub const WORKLOADS: [YcsbWorkload; 7] = [
    YcsbWorkload {
        name: "a",
        mix: mix(50, 50, 0, 0, 0, 0),
        distribution: RecordDistribution::Zipf,
    },
    YcsbWorkload {
        name: "b",
        mix: mix(95, 5, 0, 0, 0, 0),
        distribution: RecordDistribution::Zipf,
    },
    YcsbWorkload {
        name: "c",
        mix: mix(100, 0, 0, 0, 0, 0),
        distribution: RecordDistribution::Zipf,
    },
    YcsbWorkload {
        name: "d",
        mix: mix(95, 0, 5, 0, 0, 0),
        distribution: RecordDistribution::Latest,
    },
    YcsbWorkload {
        name: "e",
        mix: mix(0, 0, 5, 95, 0, 0),
        distribution: RecordDistribution::Zipf,
    },
    YcsbWorkload {
        name: "f",
        mix: mix(50, 0, 0, 0, 50, 0),
        distribution: RecordDistribution::Zipf,
    },
    YcsbWorkload {
        name: "m",
        mix: mix(0, 0, 0, 0, 0, 100),
        distribution: RecordDistribution::Uniform,
    },
];

impl YcsbMix {
    /// Randomly chooses the kind of the next operation.
    pub fn draw(&self, random: &mut fastrand::Rng) -> OperationKind {
        let mut left = random.u8(..100);
        for (share, kind) in [
            (self.read, OperationKind::Read),
            (self.update, OperationKind::Update),
            (self.insert, OperationKind::Insert),
            (self.scan, OperationKind::Scan),
            (self.read_modify_write, OperationKind::ReadModifyWrite),
        ] {
            if left < share {
                return kind;
            }
            left -= share;
        }
        OperationKind::MultiGet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_come_as_often_as_published() {
        for workload in WORKLOADS {
            let mut random = fastrand::Rng::with_seed(9);
            let drawn: Vec<OperationKind> = (0..100_000).map(|_| workload.mix.draw(&mut random)).collect();
            for (share, kind) in [
                (workload.mix.read, OperationKind::Read),
                (workload.mix.update, OperationKind::Update),
                (workload.mix.insert, OperationKind::Insert),
                (workload.mix.scan, OperationKind::Scan),
                (workload.mix.read_modify_write, OperationKind::ReadModifyWrite),
                (workload.mix.multi_get, OperationKind::MultiGet),
            ] {
                let found = drawn.iter().filter(|&&one| one == kind).count();
                assert!(
                    found.abs_diff(1000 * usize::from(share)) < 700,
                    "{}: {found} of {kind:?}",
                    workload.name
                );
            }
        }
    }
}

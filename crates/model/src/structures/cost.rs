//! The predicted cost of a structure: 80 % intervals of its quantities, and the dominating part of
//! its time.

use super::workload::{MachineProfile, WorkloadProfile};

/// A predicted number with its 80 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CostBand {
    pub p10: f64,
    /// The prediction for the given workload, which is not necessarily the middle of the interval.
    pub middle: f64,
    pub p90: f64,
}

impl CostBand {
    fn of(values: impl Iterator<Item = f64> + Clone, error: f64) -> CostBand {
        let middle = values.clone().next().unwrap_or(0.0);
        let least = values.clone().fold(middle, f64::min);
        let most = values.fold(middle, f64::max);
        CostBand {
            p10: least * (1.0 - error),
            middle,
            p90: most * (1.0 + error),
        }
    }

    /// Returns whether a value lies within the interval.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        self.p10 <= value && value <= self.p90
    }
}

/// A part of the time that operations spend on the device or the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostTerm {
    Writes,
    Lookups,
    Scans,
    Merges,
    Processor,
}

impl CostTerm {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CostTerm::Writes => "device: writes",
            CostTerm::Lookups => "device: lookups",
            CostTerm::Scans => "device: scans",
            CostTerm::Merges => "device: reads of merges",
            CostTerm::Processor => "processor",
        }
    }
}

/// A structure's predicted costs.
#[derive(Clone, Debug, PartialEq)]
pub struct StructureCost {
    /// Name of the structure and its settings: see
    /// [`StructureModel::name`](super::StructureModel::name).
    pub name: String,
    /// Bytes written to the device, including the log, per byte written by users.
    pub write_amplification: CostBand,
    /// Textbook bound of the write amplification, with a constant factor of 1 and without the log.
    pub textbook: f64,
    /// Device reads per lookup of a key that exists.
    pub hit_reads: CostBand,
    /// Device reads per lookup of a key that does not exist.
    pub miss_reads: CostBand,
    /// Bytes of memory per key with which a lookup of an existing key makes only one device read.
    pub memory_per_key: f64,
    /// 80 % interval of `memory_per_key`.
    pub memory_per_key_band: CostBand,
    /// Bytes on the device per byte of existing keys and values.
    pub space_amplification: CostBand,
    /// CPU time per operation of the mix, in nanoseconds.
    pub processor_ns: CostBand,
    /// Device time per operation of the mix, in nanoseconds.
    pub device_ns: CostBand,
    /// Device time and CPU time per operation of the mix, in nanoseconds. Ranks structures.
    pub total_ns: CostBand,
    /// The largest part of the time, and its share.
    pub dominating: (CostTerm, f64),
    /// Terabytes that users can write until the device is worn out, if its endurance is known.
    pub life_tb: Option<f64>,
}

/// The costs that a model predicts for one workload, without intervals.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CostPrediction {
    pub(super) write_amplification: f64,
    /// Minimum and maximum write amplification over short periods, if they are known.
    pub(super) write_moments: Option<(f64, f64)>,
    pub(super) textbook: f64,
    pub(super) hit_reads: f64,
    pub(super) miss_reads: f64,
    pub(super) memory_per_key: f64,
    pub(super) space_amplification: f64,
    /// Bytes that merges read per byte written by users.
    pub(super) merge_reads: f64,
    /// Average length of a device write in bytes.
    pub(super) write_bytes: f64,
    /// Length in bytes of a device read for a lookup.
    pub(super) read_bytes: f64,
    /// Number of leaves that a scan reads, and number of runs that it merges.
    pub(super) scan_reads: f64,
    pub(super) scan_runs: f64,
    /// Number of records merged per record written, and number of tables queried per lookup.
    pub(super) merged: f64,
    pub(super) asked: f64,
    /// Number of records merged in hash order per record written.
    pub(super) hashed: f64,
}

/// CPU times in nanoseconds, rounded, as measured on the machine of docs/performance.md. In this
/// order: a write to memtable and log; a merged record; the extra cost of a record merged in hash
/// order, for hashing its key and comparing it across many sources; a lookup in memory; a table
/// queried by a lookup; the start of a scan in the memtables and in each run; a record of a scan; a
/// byte written to the device.
const WRITE_NS: f64 = 1_200.0;
const MERGE_NS: f64 = 150.0;
const HASHED_NS: f64 = 700.0;
const LOOKUP_NS: f64 = 1_300.0;
const ASK_NS: f64 = 25.0;
const BEGIN_NS: f64 = 4_000.0;
const SCAN_NS: f64 = 100.0;
const BYTE_NS: f64 = 2.5;
/// Lower bound of the bytes that merges write, as a fraction of the predicted bytes, for structures
/// that merge all input into a single run. If merges fall behind, they merge several accumulated
/// inputs at once and so write fewer bytes. The model does not know how fast writers are. (With
/// writers that do nothing else, the measured fraction was 0.23 to 0.69.)
pub(super) const BEHIND: f64 = 0.5;
/// Length in bytes of a long request, such as those of writes and merges.
pub(super) const LONG: f64 = 1_048_576.0;

/// Returns the fraction of accesses that must read a leaf because they are the first since the leaf
/// was written: leaves are not cached when they are written. `asks` accesses and `written` leaf
/// writes occur in the same period, both uniformly distributed. Repeated accesses to a leaf read it
/// only once before it is rewritten.
pub(super) fn first_asked(written: f64, asks: f64) -> f64 {
    match written > 0.0 && asks > 0.0 {
        true => written / asks * (1.0 - (-asks / written).exp()),
        false => 0.0,
    }
}

impl CostPrediction {
    /// Returns the time of each cost term per operation of the mix, in nanoseconds.
    fn terms(&self, workload: &WorkloadProfile, machine: &MachineProfile) -> [(CostTerm, f64); 5] {
        let all = &workload.operations;
        let of = |count: f64| count / all.total();
        let puts = of(all.inserts + all.updates) * workload.record_bytes();
        let user = puts + of(all.deletes) * workload.key_bytes;
        let (written, merged) = (user * self.write_amplification, user * self.merge_reads);
        let reads = of(all.hits) * self.hit_reads + of(all.misses) * self.miss_reads;
        let scanned = of(all.scans) * workload.scan_records;
        let scan = of(all.scans) * self.scan_reads;
        let cpu = of(all.writes()) * (WRITE_NS + self.merged * MERGE_NS + self.hashed * HASHED_NS)
            + of(all.lookups()) * (LOOKUP_NS + self.asked * ASK_NS)
            + of(all.scans) * BEGIN_NS * (1.0 + self.scan_runs)
            + scanned * SCAN_NS
            + written * BYTE_NS;
        let io = (reads + scan) * machine.device.io_cpu_ns as f64;
        let write = self.write_bytes.max(1.0);
        [
            (CostTerm::Writes, machine.device_ns(written / write, write)),
            (CostTerm::Lookups, machine.device_ns(reads, self.read_bytes)),
            (
                CostTerm::Scans,
                machine.device_ns(scan, self.read_bytes)
                    + scanned * machine.device_ns(0.0, 1.0)
                    + scanned * workload.record_bytes() * machine.device.byte_ps as f64 / 1000.0,
            ),
            (CostTerm::Merges, machine.device_ns(merged / LONG, LONG)),
            (CostTerm::Processor, cpu + io),
        ]
    }
}

/// Combines the predictions for several workloads into intervals. The first prediction is that for
/// the given workload, and the others are for its neighbours.
pub(super) fn of(
    name: String,
    points: &[CostPrediction],
    error: f64,
    workload: &WorkloadProfile,
    machine: &MachineProfile,
) -> StructureCost {
    let band = |value: &dyn Fn(&CostPrediction) -> f64| {
        let values: Vec<f64> = points.iter().map(value).collect();
        CostBand::of(values.into_iter(), error)
    };
    let first = &points[0];
    let terms = first.terms(workload, machine);
    let sum = |point: &CostPrediction, is_wanted: &dyn Fn(CostTerm) -> bool| -> f64 {
        let terms = point.terms(workload, machine);
        terms
            .iter()
            .filter(|term| is_wanted(term.0))
            .map(|term| term.1)
            .sum()
    };
    let total: f64 = terms.iter().map(|term| term.1).sum();
    let most = terms.iter().max_by(|one, other| one.1.total_cmp(&other.1));
    let &(term, ns) = most.expect("there are five terms");
    let all = points.iter().map(|point| point.write_amplification);
    let moments = points.iter().filter_map(|point| point.write_moments);
    let writes: Vec<f64> = all
        .chain(moments.flat_map(|(least, most)| [least, most]))
        .collect();
    let write_amplification = CostBand::of(writes.into_iter(), error);
    let life = machine.endurance_bytes;
    StructureCost {
        name,
        write_amplification,
        textbook: first.textbook,
        hit_reads: band(&|point| point.hit_reads),
        miss_reads: band(&|point| point.miss_reads),
        memory_per_key: first.memory_per_key,
        memory_per_key_band: band(&|point| point.memory_per_key),
        space_amplification: band(&|point| point.space_amplification),
        processor_ns: band(&|point| sum(point, &|term| term == CostTerm::Processor)),
        device_ns: band(&|point| sum(point, &|term| term != CostTerm::Processor)),
        total_ns: band(&|point| sum(point, &|_| true)),
        dominating: (term, if total > 0.0 { ns / total } else { 0.0 }),
        life_tb: life.map(|bytes| bytes / write_amplification.middle.max(f64::MIN_POSITIVE) / 1e12),
    }
}

//! What a structure costs: bands, and the term that dominates.

use super::workload::{Machine, Workload};

/// An interval that a number lies in eight times of ten, and its middle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Band {
    /// One in ten is less.
    pub p10: f64,
    /// What the model says.
    pub middle: f64,
    /// One in ten is more.
    pub p90: f64,
}

impl Band {
    fn of(values: impl Iterator<Item = f64> + Clone, error: f64) -> Band {
        let middle = values.clone().next().unwrap_or(0.0);
        let least = values.clone().fold(middle, f64::min);
        let most = values.fold(middle, f64::max);
        Band {
            p10: least * (1.0 - error),
            middle,
            p90: most * (1.0 + error),
        }
    }

    /// Returns whether a number lies within.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        self.p10 <= value && value <= self.p90
    }
}

/// What the time of a device or a processor goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// Writes of the device.
    Writes,
    /// Reads of lookups.
    Lookups,
    /// Reads of scans.
    Scans,
    /// Reads of merges.
    Merges,
    /// The processor.
    Processor,
}

impl Term {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Term::Writes => "device: writes",
            Term::Lookups => "device: lookups",
            Term::Scans => "device: scans",
            Term::Merges => "device: reads of merges",
            Term::Processor => "processor",
        }
    }
}

/// What a structure costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// Its name and settings.
    pub name: String,
    /// Bytes written for each byte of users' writes, the log included.
    pub write_amplification: Band,
    /// The bound of textbooks for that, with a constant of 1, without the log.
    pub textbook: f64,
    /// Reads for a lookup of a key that is there.
    pub hit_reads: Band,
    /// Reads for a lookup of a key that is not.
    pub miss_reads: Band,
    /// Bytes of memory for each key, that hits need for one read.
    pub memory_per_key: f64,
    /// The same as a band.
    pub memory_per_key_band: Band,
    /// Bytes on the device for each byte of live keys and values.
    pub space_amplification: Band,
    /// Nanoseconds of a processor for an operation of the mix.
    pub processor_ns: Band,
    /// Nanoseconds of the device for an operation of the mix.
    pub device_ns: Band,
    /// What ranks structures: the device's and the processor's time for an operation.
    pub total_ns: Band,
    /// What most of the time goes to, and its share.
    pub dominating: (Term, f64),
    /// How many terabytes of users' writes wear the device out; if its endurance is known.
    pub life_tb: Option<f64>,
}

/// What a model says of one workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Point {
    pub(super) write_amplification: f64,
    /// The least and the most of it in some time, where that is known.
    pub(super) write_moments: Option<(f64, f64)>,
    pub(super) textbook: f64,
    pub(super) hit_reads: f64,
    pub(super) miss_reads: f64,
    pub(super) memory_per_key: f64,
    pub(super) space_amplification: f64,
    /// Bytes that merges read for each byte of users' writes.
    pub(super) merge_reads: f64,
    /// How long the writes of the device are, on average.
    pub(super) write_bytes: f64,
    /// Bytes of a read of a lookup.
    pub(super) read_bytes: f64,
    /// Leaves that a scan reads, and runs that it merges.
    pub(super) scan_reads: f64,
    pub(super) scan_runs: f64,
    /// Records merged for each record written, and tables asked by a lookup.
    pub(super) merged: f64,
    pub(super) asked: f64,
    /// Of the records merged, those that are in the order of hashes.
    pub(super) hashed: f64,
}

/// Nanoseconds of a processor: a write of memtable and log, a record that is merged, what it takes
/// more in the order of hashes (its key is hashed, and compared with that of many sources), a
/// lookup of what is in memory, a table that it asks, the beginning of a scan in the memtables and
/// in each run, a record of a scan, a byte that is written to the device. Measured on the machine
/// of docs/performance.md, rounded.
const WRITE_NS: f64 = 1_200.0;
const MERGE_NS: f64 = 150.0;
const HASHED_NS: f64 = 700.0;
const LOOKUP_NS: f64 = 1_300.0;
const ASK_NS: f64 = 25.0;
const BEGIN_NS: f64 = 4_000.0;
const SCAN_NS: f64 = 100.0;
const BYTE_NS: f64 = 2.5;
/// The share of the predicted bytes that merges into a single run write where they run behind:
/// several inputs that have piled up are merged at once. The model does not know how fast writers
/// are. (Measured of writers that do nothing else: 0.23 to 0.69.)
pub(super) const BEHIND: f64 = 0.5;
/// Bytes of a long request, and of those that writes and merges have.
pub(super) const LONG: f64 = 1_048_576.0;

/// Returns the share of accesses to leaves that read one because it is the first access since the
/// leaf was written: what is written is not in the cache. Between them, `asks` accesses meet
/// `written` leaves that are written. A leaf with many accesses before it is written again is read
/// once.
pub(super) fn first_asked(written: f64, asks: f64) -> f64 {
    match written > 0.0 && asks > 0.0 {
        true => written / asks * (1.0 - (-asks / written).exp()),
        false => 0.0,
    }
}

impl Point {
    /// Returns the nanoseconds of each term, for an operation of the mix.
    fn terms(&self, workload: &Workload, machine: &Machine) -> [(Term, f64); 5] {
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
            (Term::Writes, machine.device_ns(written / write, write)),
            (Term::Lookups, machine.device_ns(reads, self.read_bytes)),
            (
                Term::Scans,
                machine.device_ns(scan, self.read_bytes)
                    + scanned * machine.device_ns(0.0, 1.0)
                    + scanned * workload.record_bytes() * machine.device.byte_ps as f64 / 1000.0,
            ),
            (Term::Merges, machine.device_ns(merged / LONG, LONG)),
            (Term::Processor, cpu + io),
        ]
    }
}

/// Returns what points come to: the first is the workload's own.
pub(super) fn of(name: String, points: &[Point], error: f64, workload: &Workload, machine: &Machine) -> Cost {
    let band = |value: &dyn Fn(&Point) -> f64| {
        let values: Vec<f64> = points.iter().map(value).collect();
        Band::of(values.into_iter(), error)
    };
    let first = &points[0];
    let terms = first.terms(workload, machine);
    let sum = |point: &Point, is_wanted: &dyn Fn(Term) -> bool| -> f64 {
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
    let write_amplification = Band::of(writes.into_iter(), error);
    let life = machine.endurance_bytes;
    Cost {
        name,
        write_amplification,
        textbook: first.textbook,
        hit_reads: band(&|point| point.hit_reads),
        miss_reads: band(&|point| point.miss_reads),
        memory_per_key: first.memory_per_key,
        memory_per_key_band: band(&|point| point.memory_per_key),
        space_amplification: band(&|point| point.space_amplification),
        processor_ns: band(&|point| sum(point, &|term| term == Term::Processor)),
        device_ns: band(&|point| sum(point, &|term| term != Term::Processor)),
        total_ns: band(&|point| sum(point, &|_| true)),
        dominating: (term, if total > 0.0 { ns / total } else { 0.0 }),
        life_tb: life.map(|bytes| bytes / write_amplification.middle.max(f64::MIN_POSITIVE) / 1e12),
    }
}

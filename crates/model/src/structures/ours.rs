//! The tiered tree: what a [`Flow`] through its life comes to.

use super::cost::{LONG, Point};
use super::cut::MemoryCut;
use super::workload::{Machine, Workload};
use crate::lsm::bounds;
use crate::parameter::{BadParameter, at_least, require};
use crate::tiered::{Flow, Lookups, Shape, Written};

/// How a tiered tree is set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// How many children a node has.
    pub fanout: u32,
    /// The share of both caches that records have.
    pub records_share: f64,
}

impl Setting {
    /// What a store begins with.
    pub const USUAL: Setting = Setting {
        fanout: 8,
        records_share: 0.125,
    };
}

/// What a record takes in the log beside its key and value.
pub(super) const LOG_BYTES: f64 = 24.0;
/// Memtables that a flow goes through for each phase; more data is reached by extrapolation.
const MEMTABLES: f64 = 1_500.0;
/// Memory below which a store does not open.
const LEAST_MEMORY: f64 = 16.0 * 1024.0 * 1024.0;

/// How the memory of a store is cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    pub(super) memtable: f64,
    /// Both caches.
    pub(super) caches: f64,
}

/// Returns how a store's memory is cut.
pub(super) fn memory(machine: &Machine) -> Result<Memory, BadParameter> {
    let bytes = machine.memory_bytes;
    at_least("the memory", bytes, LEAST_MEMORY, "at least 16 MiB")?;
    let cut = MemoryCut::of(bytes as u64, None);
    Ok(Memory {
        memtable: cut.memtable_bytes as f64,
        caches: cut.cache_bytes as f64,
    })
}

/// What a flow came to.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    inserts: Written,
    updates: Written,
    hit: f64,
    miss: f64,
    questions: f64,
    path: f64,
    guide_bytes: f64,
    space_bytes: f64,
    keys: f64,
}

pub(super) fn point(setting: Setting, workload: &Workload, machine: &Machine) -> Result<Point, BadParameter> {
    let share = at_least("the share of records", setting.records_share, 0.0, "from 0 to 1")?;
    require("the share of records", share, share <= 1.0, "from 0 to 1")?;
    let memory = memory(machine)?;
    let shape = Shape {
        memtable_bytes: memory.memtable,
        fanout: setting.fanout,
        half_bandwidth: machine.device.half_bandwidth(),
        ..Shape::default()
    };
    let caches = Caches {
        pages: memory.caches * (1.0 - share),
        records: memory.caches * share,
    };
    let most = MEMTABLES * memory.memtable / (workload.record_bytes() + shape.overhead_bytes);
    if workload.keys <= most {
        let outcome = flow(shape, workload, caches, 1.0)?;
        return Ok(outcome.point(workload, &shape, memory));
    }
    // A level more for each factor of the fan-out: what two sizes differ by, the next ones do.
    let large = flow(shape, workload, caches, most / workload.keys)?;
    let small = flow(
        shape,
        workload,
        caches,
        most / workload.keys / f64::from(setting.fanout),
    )?;
    let levels = (workload.keys / most).ln() / f64::from(setting.fanout).ln();
    let (point, below) = (
        large.point(workload, &shape, memory),
        small.point(workload, &shape, memory),
    );
    let grow = |large: f64, small: f64| (large + (large - small) * levels).max(large.min(small));
    Ok(Point {
        write_amplification: grow(point.write_amplification, below.write_amplification),
        merge_reads: grow(point.merge_reads, below.merge_reads),
        merged: grow(point.merged, below.merged),
        asked: grow(point.asked, below.asked),
        scan_runs: grow(point.scan_runs, below.scan_runs),
        ..point
    })
}

#[derive(Clone, Copy, Debug)]
struct Caches {
    pages: f64,
    records: f64,
}

/// Runs a store's life at a scale: its data and its caches are a part of what there is, so that
/// the share of the data in memory is the same.
fn flow(shape: Shape, workload: &Workload, caches: Caches, scale: f64) -> Result<Outcome, BadParameter> {
    let keys = (workload.keys * scale).max(2.0);
    let workload = Workload { keys, ..*workload };
    let mut flow = Flow::new(shape, workload.records(), workload.popularity()?)?;
    flow.load(keys / 2.0)?;
    flow.forget();
    flow.load(keys / 2.0)?;
    flow.seal();
    let inserts = flow.written();
    let all = &workload.operations;
    let changes = all.updates + all.deletes;
    let deletes = if changes > 0.0 { all.deletes / changes } else { 0.0 };
    flow.forget();
    if changes > 0.0 {
        // Deletes beyond a half would leave nothing.
        let deletes = deletes.min(0.5);
        flow.update(keys / 2.0, deletes)?;
        flow.forget();
        flow.update(keys / 2.0, deletes)?;
        flow.seal();
    }
    let lookups = Lookups {
        page_cache_bytes: caches.pages * scale,
        record_cache_bytes: caches.records * scale,
        misses: all.misses / all.lookups().max(f64::MIN_POSITIVE),
    };
    let reads = flow.reads(&lookups)?;
    Ok(Outcome {
        inserts,
        updates: flow.written(),
        hit: reads.hit,
        miss: reads.miss,
        questions: reads.questions,
        path: flow.longest_path() as f64,
        guide_bytes: reads.guide_bytes,
        space_bytes: flow.space_bytes(),
        keys,
    })
}

impl Outcome {
    fn point(&self, workload: &Workload, shape: &Shape, memory: Memory) -> Point {
        let all = &workload.operations;
        let changes = all.updates + all.deletes;
        let writes = all.writes();
        let share = if writes > 0.0 { changes / writes } else { 0.0 };
        let mix = |of: &dyn Fn(&Written) -> f64| {
            let updates = if changes > 0.0 { of(&self.updates) } else { 0.0 };
            share * updates + (1.0 - share) * of(&self.inserts)
        };
        let by_user = |bytes: f64, written: &Written| bytes / written.user_bytes.max(1.0);
        let record = workload.record_bytes();
        let in_memory = memory.memtable / (record + shape.overhead_bytes);
        let fanout = f64::from(shape.fanout);
        Point {
            write_amplification: mix(&|written| by_user(written.tree_bytes(), written))
                + (record + LOG_BYTES) / record,
            textbook: bounds::tiered(workload.keys, in_memory.max(1.0), fanout).unwrap_or(0.0) + 1.0,
            hit_reads: self.hit,
            miss_reads: self.miss,
            memory_per_key: self.guide_bytes / self.keys,
            space_amplification: self.space_bytes / (self.keys * record),
            merge_reads: mix(&|written| by_user(written.read_bytes, written)),
            write_bytes: LONG,
            read_bytes: shape.leaf_bytes(record),
            scan_runs: self.path * (self.hit / (self.hit + 1.0)) * 2.0,
            merged: mix(&|written| written.compacted_records / (written.user_bytes / record).max(1.0)),
            asked: self.questions,
        }
    }
}

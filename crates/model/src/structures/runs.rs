//! Predictions for the tiered tree and for levels of the same runs, from a [`WriteSimulation`].

use super::cost::{BEHIND, CostPrediction, LONG, first_asked};
use super::memory_division::MemoryDivision;
use super::workload::{MachineProfile, WorkloadProfile};
use crate::lsm::bounds;
use crate::parameter::{BadParameter, at_least, require};
use crate::tiered::{LookupSettings, MergeRule, TreeShape, WriteSimulation, WriteVolume};

/// The settings of a tiered tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TieredSettings {
    /// Maximum number of children of a node.
    pub fanout: u32,
    /// The record cache's share of the memory of both caches.
    pub records_share: f64,
}

impl TieredSettings {
    /// The settings that a store starts with.
    pub const USUAL: TieredSettings = TieredSettings {
        fanout: 8,
        records_share: 0.125,
    };
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RunLayout {
    /// Runs are arranged as in the tiered tree.
    Tree {
        /// Maximum number of children of a node.
        fanout: u32,
    },
    Levels(MergeRule),
}

impl RunLayout {
    /// Returns the ratio of the sizes of adjacent levels.
    fn growth(self) -> f64 {
        match self {
            RunLayout::Tree { fanout } => f64::from(fanout),
            RunLayout::Levels(rule) => f64::from(rule.growth()),
        }
    }

    /// Returns the textbook bound of the write amplification, with a constant factor of 1 and
    /// without the log.
    fn textbook(self, keys: f64, in_memory: f64) -> f64 {
        let growth = self.growth();
        let bound = match self {
            RunLayout::Tree { .. } => bounds::tiered(keys, in_memory, growth).map(|bound| bound + 1.0),
            RunLayout::Levels(MergeRule::Samt { .. }) => bounds::tiered(keys, in_memory, growth),
            RunLayout::Levels(MergeRule::Cola { .. }) => bounds::cola(keys, in_memory, growth),
            RunLayout::Levels(MergeRule::Levelled { .. }) => bounds::levelled(keys, in_memory, growth),
        };
        bound.unwrap_or(1.0)
    }
}

/// Bits per fingerprint in the maplets of levels.
const LEVELS_BITS: u32 = 40;

/// Number of memtables simulated in each phase. The costs of larger data are extrapolated.
const MEMTABLES: f64 = 1_500.0;
/// Number of updates per key that bring a store to the steady state.
const MOST_REWRITES: f64 = 3.0;
/// Minimum memory in bytes of a store.
const LEAST_MEMORY: f64 = 16.0 * 1024.0 * 1024.0;

/// The parts of a store's memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreMemory {
    pub(super) memtable: f64,
    /// Memory of the page cache and the record cache.
    pub(super) caches: f64,
}

/// Divides a store's memory among its parts. Returns an error if it is too little for a store.
pub(super) fn memory(machine: &MachineProfile) -> Result<StoreMemory, BadParameter> {
    let bytes = machine.memory_bytes;
    at_least("the memory", bytes, LEAST_MEMORY, "at least 16 MiB")?;
    let cut = MemoryDivision::of(bytes as u64, None);
    Ok(StoreMemory {
        memtable: cut.memtable_bytes as f64,
        caches: machine.cache_bytes.unwrap_or(cut.cache_bytes as f64),
    })
}

/// Minimum and maximum write amplification over periods that each update half of the keys. Merges
/// are intermittent, so some periods include more of them than others.
#[derive(Clone, Copy, Debug, Default)]
struct AmplificationRange {
    range: Option<(f64, f64)>,
}

impl AmplificationRange {
    fn update(
        &mut self,
        flow: &mut WriteSimulation,
        updates: f64,
        deletes: f64,
        keys: f64,
    ) -> Result<(), BadParameter> {
        let times = (updates / (keys / 2.0)).round().max(1.0);
        for _ in 0..times as u64 {
            let before = flow.written();
            flow.update(updates / times, deletes)?;
            let after = flow.written();
            let user = after.user_bytes - before.user_bytes;
            // Ignore periods that are too short.
            if user > 0.0 && updates / times >= keys / 4.0 {
                let of = (after.tree_bytes() - before.tree_bytes()) / user;
                let (least, most) = self.range.unwrap_or((of, of));
                self.range = Some((least.min(of), most.max(of)));
            }
        }
        Ok(())
    }
}

/// The result of a simulation.
#[derive(Clone, Copy, Debug)]
struct FlowOutcome {
    inserts: WriteVolume,
    updates: WriteVolume,
    moments: AmplificationRange,
    hit: f64,
    miss: f64,
    /// Fraction of the lookups of existing keys that the record cache answers.
    record_hits: f64,
    questions: f64,
    /// Number of runs that a scan merges.
    path: f64,
    guide_bytes: f64,
    space_bytes: f64,
    keys: f64,
}

pub(super) fn point(
    setting: TieredSettings,
    workload: &WorkloadProfile,
    machine: &MachineProfile,
) -> Result<CostPrediction, BadParameter> {
    let fanout = setting.fanout;
    arranged(
        RunLayout::Tree { fanout },
        setting.records_share,
        workload,
        machine,
    )
}

/// Predicts the costs of runs in a given layout.
pub(super) fn arranged(
    layout: RunLayout,
    records_share: f64,
    workload: &WorkloadProfile,
    machine: &MachineProfile,
) -> Result<CostPrediction, BadParameter> {
    let share = at_least("the share of records", records_share, 0.0, "from 0 to 1")?;
    require("the share of records", share, share <= 1.0, "from 0 to 1")?;
    let memory = memory(machine)?;
    let usual = TreeShape::default();
    let (fanout, fingerprint_bits) = match layout {
        RunLayout::Tree { fanout } => (fanout, usual.fingerprint_bits),
        RunLayout::Levels(_) => (usual.fanout, LEVELS_BITS),
    };
    let shape = TreeShape {
        memtable_bytes: memory.memtable,
        fanout,
        fingerprint_bits,
        half_bandwidth: machine.device.half_bandwidth(),
        ..usual
    };
    let life = StoreLifetime {
        layout,
        shape,
        workload,
        machine,
        caches: CacheSizes {
            pages: memory.caches * (1.0 - share),
            records: memory.caches * share,
        },
        memory,
    };
    let most = MEMTABLES * memory.memtable / (workload.record_bytes() + shape.overhead_bytes);
    if workload.keys <= most {
        return life.point(1.0);
    }
    // Each further factor of growth adds a level. Extrapolate the costs from the difference between
    // two sizes that are one level apart.
    let growth = layout.growth();
    let large = life.point(most / workload.keys)?;
    let below = life.point(most / workload.keys / growth)?;
    let levels = (workload.keys / most).ln() / growth.ln();
    let grow = |large: f64, small: f64| (large + (large - small) * levels).max(large.min(small));
    Ok(CostPrediction {
        write_amplification: grow(large.write_amplification, below.write_amplification),
        write_moments: None,
        merge_reads: grow(large.merge_reads, below.merge_reads),
        merged: grow(large.merged, below.merged),
        asked: grow(large.asked, below.asked),
        scan_reads: grow(large.scan_reads, below.scan_reads),
        scan_runs: grow(large.scan_runs, below.scan_runs),
        ..large
    })
}

#[derive(Clone, Copy, Debug)]
struct CacheSizes {
    pages: f64,
    records: f64,
}

/// The history of a store that is loaded and then updated.
struct StoreLifetime<'w> {
    layout: RunLayout,
    shape: TreeShape,
    workload: &'w WorkloadProfile,
    machine: &'w MachineProfile,
    caches: CacheSizes,
    memory: StoreMemory,
}

impl StoreLifetime<'_> {
    fn point(&self, scale: f64) -> Result<CostPrediction, BadParameter> {
        let outcome = self.outcome(scale)?;
        Ok(outcome.point(self))
    }

    /// Simulates the history at a smaller scale: multiplies the sizes of data and caches by
    /// `scale`, so that the same fraction of the data is in memory.
    fn outcome(&self, scale: f64) -> Result<FlowOutcome, BadParameter> {
        let keys = (self.workload.keys * scale).max(2.0);
        let workload = WorkloadProfile {
            keys,
            ..*self.workload
        };
        let (records, popularity) = (workload.records(), workload.popularity()?);
        let mut flow = match self.layout {
            RunLayout::Tree { .. } => WriteSimulation::new(self.shape, records, popularity)?,
            RunLayout::Levels(rule) => WriteSimulation::levelled(self.shape, records, popularity, rule)?,
        };
        flow.load(keys / 2.0)?;
        flow.forget();
        flow.load(keys / 2.0)?;
        flow.seal();
        let inserts = flow.written();
        let all = &workload.operations;
        let changes = all.updates + all.deletes;
        let deletes = if changes > 0.0 { all.deletes / changes } else { 0.0 };
        flow.forget();
        // If more than half of the updates were deletes, hardly any data would remain.
        let deletes = deletes.min(0.5);
        let rewrites = workload.rewrites.min(MOST_REWRITES) * keys;
        flow.update(rewrites / 2.0, deletes)?;
        flow.forget();
        let mut written = AmplificationRange::default();
        written.update(&mut flow, rewrites / 2.0, deletes, keys)?;
        flow.seal();
        let lookups = LookupSettings {
            page_cache_bytes: self.caches.pages * scale,
            record_cache_bytes: self.caches.records * scale,
            misses: all.misses / all.lookups().max(f64::MIN_POSITIVE),
            deleted: all.deleted(),
        };
        let reads = flow.reads(&lookups)?;
        let (path, space_bytes) = (flow.mean_path(), flow.space_bytes());
        // What a small number of updates costs depends on when they occur, so simulate more updates
        // after them.
        let more = keys / 2.0 - rewrites / 2.0;
        if changes > 0.0 && more > 0.0 {
            written.update(&mut flow, more, deletes, keys)?;
        }
        Ok(FlowOutcome {
            inserts,
            updates: flow.written(),
            moments: written,
            hit: reads.hit,
            miss: reads.miss,
            record_hits: reads.record_hits,
            questions: reads.questions,
            path,
            guide_bytes: reads.guide_bytes,
            space_bytes,
            keys,
        })
    }
}

/// Number of short scans that trigger a compaction of a trunk leaf with more than two runs.
const SCANS: f64 = 8.0;
/// Number of runs that arrive at a leaf between two such compactions. A compaction leaves one run.
/// The next one is due once the leaf has three runs, and another run arrives while it executes.
const RUNS: f64 = 3.0;

/// The effect of scans on the tiered tree, which compacts the leaves that scans read.
#[derive(Clone, Copy, Debug)]
struct ScanEffect {
    /// Number of runs that a scan merges, with these compactions.
    path: f64,
    /// Bytes that these compactions write per byte written by users.
    again: f64,
}

impl ScanEffect {
    /// Returns the effect of scans that would otherwise merge `path` runs. Returns `None` if scans
    /// are too rare, or runs too few, to cause such compactions.
    fn of(path: f64, workload: &WorkloadProfile, shape: &TreeShape) -> Option<ScanEffect> {
        let all = &workload.operations;
        if all.scans == 0.0 {
            return None;
        }
        let of = |count: f64| count / all.total();
        let record = workload.record_bytes();
        let user = of(all.writes()) * (record + shape.overhead_bytes);
        let data = workload.keys * record;
        let leaves = (data / shape.node_bytes()).max(1.0);
        if user == 0.0 {
            return Some(ScanEffect {
                path: path.min(1.0),
                again: 0.0,
            });
        }
        // The number of operations between the arrivals of two runs at a leaf. The root passes each
        // memtable to all its children at once.
        let share = leaves.min(f64::from(shape.fanout));
        let run = shape.memtable_bytes * (leaves / share) / user;
        let between = (RUNS * run).max(SCANS * leaves / of(all.scans));
        let kept = 1.0 + between / run / 2.0;
        let again = data / (between * of(all.writes()) * record);
        (kept < path).then_some(ScanEffect { path: kept, again })
    }
}

impl FlowOutcome {
    fn point(&self, life: &StoreLifetime<'_>) -> CostPrediction {
        let (workload, shape) = (life.workload, &life.shape);
        let all = &workload.operations;
        let changes = all.updates + all.deletes;
        let writes = all.writes();
        let share = if writes > 0.0 { changes / writes } else { 0.0 };
        let mix = |of: &dyn Fn(&WriteVolume) -> f64| {
            let updates = if changes > 0.0 { of(&self.updates) } else { 0.0 };
            share * updates + (1.0 - share) * of(&self.inserts)
        };
        let by_user = |bytes: f64, written: &WriteVolume| bytes / written.user_bytes.max(1.0);
        let record = workload.record_bytes();
        let in_memory = life.memory.memtable / (record + shape.overhead_bytes);
        let leaf_bytes = shape.leaf_bytes(record);
        let scanned = match life.layout {
            RunLayout::Tree { .. } => ScanEffect::of(self.path, workload, shape),
            RunLayout::Levels(_) => None,
        };
        let (path, again) = scanned.map_or((self.path, 0.0), |scanned| (scanned.path, scanned.again));
        let in_tree = mix(&|written| by_user(written.tree_bytes(), written)) + again;
        // After a scan's first leaf, its leaves are no more popular than others.
        let uncached = 1.0 - life.caches.pages * (self.keys / workload.keys) / self.space_bytes.max(1.0);
        let behind = workload.scan_records * record / leaf_bytes;
        let asks = all.hits * (1.0 - self.record_hits) + all.scans * (path + behind);
        let first = first_asked(all.writes() * in_tree * record / leaf_bytes, asks);
        // A cache for at most half of the leaves does not retain newly written leaves, and a cache
        // for all leaves retains all of them (measured).
        let first = first * (2.0 * uncached).clamp(0.0, 1.0);
        let read = |uncached: f64| uncached + (1.0 - uncached).max(0.0) * first;
        let from_tree = 1.0 - self.record_hits;
        let hit_reads = self.hit + (from_tree - self.hit).max(0.0) * first;
        let each = (self.hit / from_tree.max(f64::MIN_POSITIVE)).min(1.0);
        let scan_reads = path * read(each) + behind * read(uncached.max(0.0));
        let write_amplification = in_tree + life.machine.log_amplification(record);
        // Weight the deviation of a period's write amplification by the fraction of writes that are
        // updates.
        let middle = by_user(self.updates.tree_bytes(), &self.updates);
        let differs = |of: f64| write_amplification + share * (of - middle);
        let moments = self.moments.range.filter(|_| changes > 0.0);
        let moments = match life.layout {
            // All input is merged into a single run, which writes fewer bytes when merges fall
            // behind.
            RunLayout::Levels(MergeRule::Cola { .. } | MergeRule::Levelled { .. }) => {
                let (least, most) = moments.unwrap_or((middle, middle));
                Some((least.min(BEHIND * middle), most))
            }
            RunLayout::Levels(MergeRule::Samt { .. }) | RunLayout::Tree { .. } => moments,
        };
        CostPrediction {
            write_amplification,
            write_moments: moments.map(|(least, most)| (differs(least), differs(most))),
            textbook: life.layout.textbook(workload.keys, in_memory.max(1.0)),
            hit_reads,
            miss_reads: self.miss,
            memory_per_key: self.guide_bytes / self.keys,
            space_amplification: self.space_bytes / (self.keys * record),
            merge_reads: mix(&|written| by_user(written.read_bytes, written)) + again,
            write_bytes: LONG,
            read_bytes: leaf_bytes,
            scan_reads,
            scan_runs: path,
            merged: mix(&|written| written.compacted_records / (written.user_bytes / record).max(1.0))
                + again,
            hashed: 0.0,
            asked: self.questions,
        }
    }
}

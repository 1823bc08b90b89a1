//! The tiered tree, and levels of the same runs: what a [`Flow`] through their life comes to.

use super::cost::{BEHIND, LONG, Point, first_asked};
use super::cut::MemoryCut;
use super::workload::{Machine, Workload};
use crate::lsm::bounds;
use crate::parameter::{BadParameter, at_least, require};
use crate::tiered::{Flow, Lookups, Rule, Shape, Written};

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

/// How runs are arranged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Layout {
    /// As the tiered tree does.
    Tree {
        /// How many children a node has.
        fanout: u32,
    },
    /// On levels.
    Levels(Rule),
}

impl Layout {
    /// Returns by how much a level is larger than the one above it.
    fn growth(self) -> f64 {
        match self {
            Layout::Tree { fanout } => f64::from(fanout),
            Layout::Levels(rule) => f64::from(rule.growth()),
        }
    }

    /// Returns the bound of textbooks for what is written, with a constant of 1, without the log.
    fn textbook(self, keys: f64, in_memory: f64) -> f64 {
        let growth = self.growth();
        let bound = match self {
            Layout::Tree { .. } => bounds::tiered(keys, in_memory, growth).map(|bound| bound + 1.0),
            Layout::Levels(Rule::Samt { .. }) => bounds::tiered(keys, in_memory, growth),
            Layout::Levels(Rule::Cola { .. }) => bounds::cola(keys, in_memory, growth),
            Layout::Levels(Rule::Levelled { .. }) => bounds::levelled(keys, in_memory, growth),
        };
        bound.unwrap_or(1.0)
    }
}

/// Bits of a fingerprint in the maplets of levels.
const LEVELS_BITS: u32 = 40;

/// Memtables that a flow goes through for each phase; more data is reached by extrapolation.
const MEMTABLES: f64 = 1_500.0;
/// Updates for each key after which a store is as it stays.
const MOST_REWRITES: f64 = 3.0;
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
        caches: machine.cache_bytes.unwrap_or(cut.cache_bytes as f64),
    })
}

/// What is written for each byte of updates in a time of as many updates as half of the keys: the
/// least and the most. Merges come in steps, and a time has some of them more or less.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    range: Option<(f64, f64)>,
}

impl Moments {
    fn update(&mut self, flow: &mut Flow, updates: f64, deletes: f64, keys: f64) -> Result<(), BadParameter> {
        let times = (updates / (keys / 2.0)).round().max(1.0);
        for _ in 0..times as u64 {
            let before = flow.written();
            flow.update(updates / times, deletes)?;
            let after = flow.written();
            let user = after.user_bytes - before.user_bytes;
            // Fewer than that are no such time.
            if user > 0.0 && updates / times >= keys / 4.0 {
                let of = (after.tree_bytes() - before.tree_bytes()) / user;
                let (least, most) = self.range.unwrap_or((of, of));
                self.range = Some((least.min(of), most.max(of)));
            }
        }
        Ok(())
    }
}

/// What a flow came to.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    inserts: Written,
    updates: Written,
    moments: Moments,
    hit: f64,
    miss: f64,
    /// The share of lookups of keys that the cache of records answers.
    record_hits: f64,
    questions: f64,
    /// Runs that a scan merges.
    path: f64,
    guide_bytes: f64,
    space_bytes: f64,
    keys: f64,
}

pub(super) fn point(setting: Setting, workload: &Workload, machine: &Machine) -> Result<Point, BadParameter> {
    let fanout = setting.fanout;
    arranged(Layout::Tree { fanout }, setting.records_share, workload, machine)
}

/// Returns what runs cost in some layout.
pub(super) fn arranged(
    layout: Layout,
    records_share: f64,
    workload: &Workload,
    machine: &Machine,
) -> Result<Point, BadParameter> {
    let share = at_least("the share of records", records_share, 0.0, "from 0 to 1")?;
    require("the share of records", share, share <= 1.0, "from 0 to 1")?;
    let memory = memory(machine)?;
    let usual = Shape::default();
    let (fanout, fingerprint_bits) = match layout {
        Layout::Tree { fanout } => (fanout, usual.fingerprint_bits),
        Layout::Levels(_) => (usual.fanout, LEVELS_BITS),
    };
    let shape = Shape {
        memtable_bytes: memory.memtable,
        fanout,
        fingerprint_bits,
        half_bandwidth: machine.device.half_bandwidth(),
        ..usual
    };
    let life = Life {
        layout,
        shape,
        workload,
        machine,
        caches: Caches {
            pages: memory.caches * (1.0 - share),
            records: memory.caches * share,
        },
        memory,
    };
    let most = MEMTABLES * memory.memtable / (workload.record_bytes() + shape.overhead_bytes);
    if workload.keys <= most {
        return life.point(1.0);
    }
    // A level more for each factor of growth: what two sizes differ by, the next ones do.
    let growth = layout.growth();
    let large = life.point(most / workload.keys)?;
    let below = life.point(most / workload.keys / growth)?;
    let levels = (workload.keys / most).ln() / growth.ln();
    let grow = |large: f64, small: f64| (large + (large - small) * levels).max(large.min(small));
    Ok(Point {
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
struct Caches {
    pages: f64,
    records: f64,
}

/// A store's life: it is loaded, then updated.
struct Life<'w> {
    layout: Layout,
    shape: Shape,
    workload: &'w Workload,
    machine: &'w Machine,
    caches: Caches,
    memory: Memory,
}

impl Life<'_> {
    fn point(&self, scale: f64) -> Result<Point, BadParameter> {
        let outcome = self.outcome(scale)?;
        Ok(outcome.point(self))
    }

    /// Runs the life at a scale: its data and its caches are a part of what there is, so that the
    /// share of the data in memory is the same.
    fn outcome(&self, scale: f64) -> Result<Outcome, BadParameter> {
        let keys = (self.workload.keys * scale).max(2.0);
        let workload = Workload {
            keys,
            ..*self.workload
        };
        let (records, popularity) = (workload.records(), workload.popularity()?);
        let mut flow = match self.layout {
            Layout::Tree { .. } => Flow::new(self.shape, records, popularity)?,
            Layout::Levels(rule) => Flow::levelled(self.shape, records, popularity, rule)?,
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
        // Deletes beyond a half would leave nothing.
        let deletes = deletes.min(0.5);
        let rewrites = workload.rewrites.min(MOST_REWRITES) * keys;
        flow.update(rewrites / 2.0, deletes)?;
        flow.forget();
        let mut written = Moments::default();
        written.update(&mut flow, rewrites / 2.0, deletes, keys)?;
        flow.seal();
        let lookups = Lookups {
            page_cache_bytes: self.caches.pages * scale,
            record_cache_bytes: self.caches.records * scale,
            misses: all.misses / all.lookups().max(f64::MIN_POSITIVE),
            deleted: all.deleted(),
        };
        let reads = flow.reads(&lookups)?;
        let (path, space_bytes) = (flow.mean_path(), flow.space_bytes());
        // What few updates write depends on the moment: they are followed by some that will be.
        let more = keys / 2.0 - rewrites / 2.0;
        if changes > 0.0 && more > 0.0 {
            written.update(&mut flow, more, deletes, keys)?;
        }
        Ok(Outcome {
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

/// Short scans of a leaf of the trunk after which it is compacted, once it has more than two runs.
const SCANS: f64 = 8.0;
/// Runs that come to the leaf between two such compactions. A compaction leaves one run and is due
/// with the third; one more has come by the time that it is done.
const RUNS: f64 = 3.0;

/// What scans have the tiered tree do: leaves that they come to are compacted.
#[derive(Clone, Copy, Debug)]
struct Scanned {
    /// Runs that a scan merges then.
    path: f64,
    /// Bytes that these compactions write for each byte of users' writes.
    again: f64,
}

impl Scanned {
    /// Returns what scans that would merge `path` runs have done; none where they come too seldom
    /// for it, or where few runs are.
    fn of(path: f64, workload: &Workload, shape: &Shape) -> Option<Scanned> {
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
            return Some(Scanned {
                path: path.min(1.0),
                again: 0.0,
            });
        }
        // Operations between two runs that come to a leaf. The root hands each memtable to all of
        // its children at once.
        let share = leaves.min(f64::from(shape.fanout));
        let run = shape.memtable_bytes * (leaves / share) / user;
        let between = (RUNS * run).max(SCANS * leaves / of(all.scans));
        let kept = 1.0 + between / run / 2.0;
        let again = data / (between * of(all.writes()) * record);
        (kept < path).then_some(Scanned { path: kept, again })
    }
}

impl Outcome {
    fn point(&self, life: &Life<'_>) -> Point {
        let (workload, shape) = (life.workload, &life.shape);
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
        let in_memory = life.memory.memtable / (record + shape.overhead_bytes);
        let leaf_bytes = shape.leaf_bytes(record);
        let scanned = match life.layout {
            Layout::Tree { .. } => Scanned::of(self.path, workload, shape),
            Layout::Levels(_) => None,
        };
        let (path, again) = scanned.map_or((self.path, 0.0), |scanned| (scanned.path, scanned.again));
        let in_tree = mix(&|written| by_user(written.tree_bytes(), written)) + again;
        // What a scan goes on to is no more popular than any other leaf.
        let uncached = 1.0 - life.caches.pages * (self.keys / workload.keys) / self.space_bytes.max(1.0);
        let behind = workload.scan_records * record / leaf_bytes;
        let asks = all.hits * (1.0 - self.record_hits) + all.scans * (path + behind);
        let first = first_asked(all.writes() * in_tree * record / leaf_bytes, asks);
        // A cache that has half of the leaves or less takes none when it is written, one that has
        // all of them takes each (measured).
        let first = first * (2.0 * uncached).clamp(0.0, 1.0);
        let read = |uncached: f64| uncached + (1.0 - uncached).max(0.0) * first;
        let from_tree = 1.0 - self.record_hits;
        let hit_reads = self.hit + (from_tree - self.hit).max(0.0) * first;
        let each = (self.hit / from_tree.max(f64::MIN_POSITIVE)).min(1.0);
        let scan_reads = path * read(each) + behind * read(uncached.max(0.0));
        let write_amplification = in_tree + life.machine.log_amplification(record);
        // By how much a moment differs counts as far as updates are written.
        let middle = by_user(self.updates.tree_bytes(), &self.updates);
        let differs = |of: f64| write_amplification + share * (of - middle);
        let moments = self.moments.range.filter(|_| changes > 0.0);
        let moments = match life.layout {
            // One run takes all that comes to it.
            Layout::Levels(Rule::Cola { .. } | Rule::Levelled { .. }) => {
                let (least, most) = moments.unwrap_or((middle, middle));
                Some((least.min(BEHIND * middle), most))
            }
            Layout::Levels(Rule::Samt { .. }) | Layout::Tree { .. } => moments,
        };
        Point {
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

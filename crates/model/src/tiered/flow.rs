//! Simulates the growth of a tree as memtables are flushed to it.

use super::amounts::{DistinctKeyTable, RunGroup, SimulatedRun};
use super::bytes::RunFormats;
use super::levels::{MergeRule, MergeSimulator, SimulatedLevels};
use super::node::{SimulatedNode, SizeModel};
use super::parameters::{RecordProfile, TreeShape};
use super::reshape::{NodePosition, ShapeSimulator};
use super::work::{CompactionSimulator, CompactionVolume};
use crate::Popularity;
use crate::parameter::{BadParameter, at_least, require};
use std::collections::HashMap;

/// Size of the smallest extent, in bytes.
const EXTENT: f64 = 131_072.0;

/// Maximum number of memtables of a simulation, which limits it to a few seconds.
const MOST_MEMTABLES: f64 = 2e6;

/// A simulated tree, whose runs are mere numbers of records. Scattered keys are written to it in
/// the order of a workload.
///
/// ```
/// use alluvium_model::Popularity;
/// use alluvium_model::tiered::{WriteSimulation, ValueLengths, RecordProfile, TreeShape};
/// let records = RecordProfile { key_bytes: 24.0, value_bytes: 100.0, values: ValueLengths::Equal };
/// let keys = Popularity::uniform(20_000_000)?;
/// let mut flow = WriteSimulation::new(TreeShape::default(), records, keys)?;
/// flow.load(20e6)?;
/// let written = flow.written();
/// // A record is written with its memtable, and once more on each level below the root.
/// assert!((2.0..2.6).contains(&written.amplification()), "{written:?}");
/// # Ok::<(), alluvium_model::BadParameter>(())
/// ```
#[derive(Clone, Debug)]
pub struct WriteSimulation {
    pub(super) shape: TreeShape,
    pub(super) records: RecordProfile,
    pub(super) scale: SizeModel,
    pub(super) root: SimulatedNode,
    written: WriteVolume,
    /// The memtable that accepts writes, as the run that its flush will write.
    filling: SimulatedRun,
    filled_bytes: f64,
    /// Identifies the newest run.
    newest: u64,
    /// The levels, if the simulation is of levels of runs instead of a tree. Their runs are stored
    /// in `root`, which is then a leaf.
    levels: Option<SimulatedLevels>,
}

/// Amounts of data written and read, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WriteVolume {
    /// Bytes of keys and values that users have written.
    pub user_bytes: f64,
    /// Bytes of runs that flushes of memtables have written.
    pub incorporated_bytes: f64,
    /// Bytes of runs that compactions have written.
    pub compacted_bytes: f64,
    /// Bytes of maplets that flushes and compactions have written.
    pub maplet_bytes: f64,
    /// Bytes of runs that compactions have read.
    pub read_bytes: f64,
    /// Number of records that compactions have read.
    pub compacted_records: f64,
    /// Number of records that flushes of memtables have written.
    pub incorporated_records: f64,
    /// Number of flushes. Each of them writes one memtable.
    pub memtables: f64,
}

impl WriteVolume {
    /// Returns the write amplification, without the log and the trunk.
    #[must_use]
    pub fn amplification(&self) -> f64 {
        self.tree_bytes() / self.user_bytes.max(f64::MIN_POSITIVE)
    }

    /// Returns the bytes written for runs and maplets.
    #[must_use]
    pub fn tree_bytes(&self) -> f64 {
        self.incorporated_bytes + self.compacted_bytes + self.maplet_bytes
    }
}

impl WriteSimulation {
    /// Creates a simulation of an empty tree. `popularity` is the popularity distribution of
    /// updates and deletes, over all keys that will exist.
    ///
    /// # Errors
    /// [`BadParameter`] if the shape is invalid, or if records have no bytes.
    pub fn new(
        shape: TreeShape,
        records: RecordProfile,
        popularity: Popularity,
    ) -> Result<WriteSimulation, BadParameter> {
        shape.checked()?;
        records.checked()?;
        let scale = SizeModel {
            formats: RunFormats::new(shape, records),
            uniques: DistinctKeyTable::new(popularity),
        };
        Ok(WriteSimulation {
            shape,
            records,
            scale,
            root: SimulatedNode::leaf(1.0),
            written: WriteVolume::default(),
            filling: SimulatedRun::default(),
            filled_bytes: 0.0,
            newest: 0,
            levels: None,
        })
    }

    /// Creates a simulation of empty levels of runs instead of a tree. `shape.fanout` is ignored.
    ///
    /// # Errors
    /// The errors of [`WriteSimulation::new`]; [`BadParameter`] if the growth factor of the levels
    /// is invalid.
    pub fn levelled(
        shape: TreeShape,
        records: RecordProfile,
        popularity: Popularity,
        rule: MergeRule,
    ) -> Result<WriteSimulation, BadParameter> {
        let levels = Some(SimulatedLevels::new(rule.checked()?));
        Ok(WriteSimulation {
            levels,
            ..WriteSimulation::new(shape, records, popularity)?
        })
    }

    /// Simulates the loading of `keys` new keys, each of which is written once.
    ///
    /// # Errors
    /// [`BadParameter`] if `keys` is negative, or if it needs too many memtables.
    pub fn load(&mut self, keys: f64) -> Result<(), BadParameter> {
        self.write(WriteKind::New, keys, 0.0)
    }

    /// Simulates `requests` updates. `deletes` is the fraction of them that are deletes.
    ///
    /// # Errors
    /// [`BadParameter`] if `requests` is negative or needs too many memtables, or if `deletes` is
    /// not between 0 and 1.
    pub fn update(&mut self, requests: f64, deletes: f64) -> Result<(), BadParameter> {
        at_least("the share of deletes", deletes, 0.0, "from 0 to 1")?;
        require("the share of deletes", deletes, deletes <= 1.0, "from 0 to 1")?;
        self.write(WriteKind::Requested, requests, deletes)
    }

    /// Flushes the current memtable, as a checkpoint would.
    pub fn seal(&mut self) {
        let run = std::mem::take(&mut self.filling);
        self.filled_bytes = 0.0;
        if run.base + run.requests > 0.0 {
            self.newest += 1;
            let id = self.newest;
            self.incorporate(SimulatedRun {
                width: 1.0,
                id,
                ..run
            });
        }
    }

    /// Returns the amounts written and read since the simulation was created, or since the last
    /// call of [`WriteSimulation::forget`].
    #[must_use]
    pub fn written(&self) -> WriteVolume {
        self.written
    }

    /// Resets the amounts written and read to zero.
    pub fn forget(&mut self) {
        self.written = WriteVolume::default();
    }

    /// Returns the height of the tree, which is 1 for a single leaf.
    #[must_use]
    pub fn height(&self) -> u32 {
        self.root.height + 1
    }

    /// Returns the maximum number of runs that a lookup must search.
    #[must_use]
    pub fn longest_path(&self) -> usize {
        self.root.longest()
    }

    /// Returns the average number of runs that a lookup must search.
    #[must_use]
    pub fn mean_path(&self) -> f64 {
        let mut runs = 0.0;
        self.root.visit(&mut |node| {
            runs += node
                .pivots
                .iter()
                .map(|pivot| pivot.runs() as f64 * pivot.width)
                .sum::<f64>();
        });
        let width: f64 = self.root.pivots.iter().map(|pivot| pivot.width).sum();
        if width > 0.0 { runs / width } else { 0.0 }
    }

    /// Returns the bytes of extents in use, by maplets and by the parts of runs that pivots need.
    /// An extent is free if nothing in it is needed.
    #[must_use]
    pub fn space_bytes(&self) -> f64 {
        // For each run, how many of its bytes are needed, and how many it has. A maplet is always
        // needed as a whole.
        let mut runs: HashMap<u64, (f64, f64)> = HashMap::new();
        let mut maplets: HashMap<u64, f64> = HashMap::new();
        let (formats, uniques) = (&self.scale.formats, &self.scale.uniques);
        self.root.visit(&mut |node| {
            for pivot in &node.pivots {
                for group in pivot.stack() {
                    for run in &group.runs {
                        let whole = formats.run(&run.amount(uniques, run.width));
                        let share = (pivot.width / run.width).min(1.0);
                        // Where a needed range ends within a run, only a part of the extent is
                        // needed.
                        let cut = if share < 1.0 { EXTENT / 2.0 } else { 0.0 };
                        let sum = runs.entry(run.id).or_insert((0.0, whole));
                        sum.0 += whole * share + cut;
                    }
                    let bytes = || formats.maplet(group.entries(uniques), group.runs.len() as f64);
                    let newest = group.runs.last().map_or(0, |run| run.id);
                    maplets.entry(newest).or_insert_with(bytes);
                }
            }
        });
        let extents = |bytes: f64| (bytes / EXTENT).ceil() * EXTENT;
        let runs = runs.values().map(|(needed, whole)| extents(needed.min(*whole)));
        runs.sum::<f64>() + maplets.values().map(|bytes| extents(*bytes)).sum::<f64>()
    }

    /// Returns the number of records, including old versions and deletes.
    #[must_use]
    pub fn records(&self) -> f64 {
        let mut sum = 0.0;
        self.root.visit(&mut |node| {
            for pivot in &node.pivots {
                let runs = pivot.stack().flat_map(|group| &group.runs);
                sum += runs
                    .map(|run| run.records(&self.scale.uniques, pivot.width))
                    .sum::<f64>();
            }
        });
        sum
    }

    fn write(&mut self, kind: WriteKind, count: f64, deletes: f64) -> Result<(), BadParameter> {
        let name = kind.name();
        at_least(name, count, 0.0, "finite, and not negative")?;
        let user = self.records.key_bytes + self.records.value_bytes * (1.0 - deletes);
        let bytes = user + self.shape.overhead_bytes;
        let memtables = count * bytes / self.shape.memtable_bytes;
        let must = "few enough for two million memtables";
        require(name, count, memtables <= MOST_MEMTABLES, must)?;
        let mut left = count;
        while left > 0.0 {
            let space = (self.shape.memtable_bytes - self.filled_bytes).max(0.0);
            let taken = left.min((space / bytes).ceil().max(1.0));
            self.fill(kind, taken, deletes);
            self.filled_bytes += taken * bytes;
            self.written.user_bytes += taken * user;
            left -= taken;
            if self.filled_bytes >= self.shape.memtable_bytes {
                self.seal();
            }
        }
        Ok(())
    }

    fn fill(&mut self, kind: WriteKind, count: f64, deletes: f64) {
        let run = &mut self.filling;
        run.span += count;
        match kind {
            WriteKind::New => run.base += count,
            WriteKind::Requested => {
                let deleted = run.requests * run.deletes + count * deletes;
                run.requests += count;
                run.deletes = deleted / run.requests;
            }
        }
    }

    /// Makes a flushed memtable the newest run, and simulates the work that follows.
    fn incorporate(&mut self, run: SimulatedRun) {
        let amount = run.amount(&self.scale.uniques, 1.0);
        self.written.memtables += 1.0;
        self.written.incorporated_records += amount.records();
        self.written.incorporated_bytes += self.scale.formats.run(&amount);
        self.written.maplet_bytes += self.scale.formats.maplet(amount.records(), 1.0);
        let done = match self.levels.take() {
            Some(levels) => self.receive(run, levels),
            None => self.settle(run),
        };
        self.written.compacted_bytes += done.run_bytes;
        self.written.maplet_bytes += done.maplet_bytes;
        self.written.read_bytes += done.read_bytes;
        self.written.compacted_records += done.records;
    }

    /// Adds a run to the levels, and simulates the merges that become due.
    fn receive(&mut self, run: SimulatedRun, mut levels: SimulatedLevels) -> CompactionVolume {
        let mut merger = MergeSimulator {
            shape: &self.shape,
            scale: &self.scale,
            done: CompactionVolume::default(),
            newest: self.newest,
        };
        levels.receive(run, &mut self.root.pivots[0].own, &mut merger);
        let (done, newest) = (merger.done, merger.newest);
        (self.levels, self.newest) = (Some(levels), newest);
        done
    }

    /// Adds a run to the root, and simulates the work that becomes due in the tree.
    fn settle(&mut self, run: SimulatedRun) -> CompactionVolume {
        let shaper = ShapeSimulator {
            shape: &self.shape,
            scale: &self.scale,
        };
        let mut root = std::mem::replace(&mut self.root, SimulatedNode::leaf(1.0));
        root.receive(&[RunGroup::one(run)]);
        let pieces = shaper.settle(root, NodePosition::Root);
        self.root = shaper.add_roots(pieces);
        let mut worker = CompactionSimulator {
            shape: &self.shape,
            scale: &self.scale,
            done: CompactionVolume::default(),
            newest: self.newest,
        };
        worker.work(&mut self.root);
        let (done, newest) = (worker.done, worker.newest);
        self.newest = newest;
        done
    }
}

#[derive(Clone, Copy, Debug)]
enum WriteKind {
    New,
    Requested,
}

impl WriteKind {
    fn name(self) -> &'static str {
        match self {
            WriteKind::New => "the number of new keys",
            WriteKind::Requested => "the number of updates",
        }
    }
}

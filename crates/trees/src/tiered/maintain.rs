//! The steps of a tree, in the order of their priority, and the maintenance that does not follow
//! from writes.

use super::compact::Job;
use super::node::{Node, Part};
use super::outline::Underway;
use super::policy::{self, Wish};
use super::shape::{self, Rank};
use super::tree::{Tree, Version, replace};
use crate::run::Run;
use alluvium_base::{DeviceProfile, Sequence};
use alluvium_dictionary::contract::Progress;
use alluvium_dictionary::merge::Older;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::Result;
use std::collections::HashMap;

/// Keys that wait for maintenance after a seek has waded there, at most.
const MOST_WADED: usize = 64;
/// Leaves of which the uses are counted, at most.
const MOST_USED: usize = 1 << 16;
/// Every how many lookups one is counted, for all of them.
const SAMPLE: u64 = 64;

/// Something to do, a slice at a time.
#[derive(Debug)]
pub enum Step {
    /// A compaction.
    Compact(Box<Job>),
    /// It was done at once: a change of shape.
    Reshaped,
}

impl Step {
    /// Does a slice of the work: about `records` records.
    ///
    /// # Errors
    /// As [`Job::poll`].
    pub fn poll(&mut self, records: usize) -> Result<Progress> {
        match self {
            Step::Compact(job) => job.poll(records),
            Step::Reshaped => Ok(Progress::Done),
        }
    }
}

/// How much maintenance may be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Maintenance {
    /// Bytes that full compactions may still write.
    pub budget_bytes: u64,
    /// Whether all that there is fits into the cache, which keeps what is written: what is
    /// rewritten need not be read again.
    pub fits_cache: bool,
}

/// What is known of leaves by their use.
#[derive(Debug, Default)]
pub(super) struct Habits {
    /// How a leaf was used, by its low key, since it was last rewritten.
    leaves: HashMap<Box<[u8]>, Uses>,
    /// Keys where a seek waded through what is deleted.
    waded: Vec<Box<[u8]>>,
}

/// How a leaf was used.
#[derive(Clone, Copy, Debug, Default)]
struct Uses {
    /// Scans that began in it.
    scans: u64,
    /// Lookups of its keys.
    gets: u64,
}

impl Habits {
    fn used(&mut self, leaf: &Node, count: impl FnOnce(&mut Uses)) {
        if let Some(uses) = self.leaves.get_mut(&leaf.range.low) {
            count(uses);
        } else if self.leaves.len() < MOST_USED {
            count(self.leaves.entry(leaf.range.low.clone()).or_default());
        }
    }

    /// Bytes of memory that it takes, about.
    pub(super) fn memory_bytes(&self) -> u64 {
        ((self.leaves.len() + self.waded.len()) * (size_of::<(Box<[u8]>, Uses)>() + 32)) as u64
    }
}

impl Tree {
    /// The next step that is due, if any: compactions, then neighbours that should be one.
    ///
    /// # Errors
    /// As the device says, or [`Error::Full`](alluvium_storage::Error::Full).
    pub fn next_step(&self) -> Result<Option<Step>> {
        if let Some(job) = self.next_job()? {
            return Ok(Some(Step::Compact(Box::new(job))));
        }
        if self.merge_neighbours()? {
            return Ok(Some(Step::Reshaped));
        }
        Ok(None)
    }

    /// The most runs that a lookup may have to ask, on the longest path from the root to a leaf.
    #[must_use]
    pub fn longest_path(&self) -> usize {
        longest_path(&self.version().root).0
    }

    /// Whether a step is due.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.lock().inflight.len() > 0
    }

    /// Asks for the full compaction of the leaf for which it is worth most, if it is for any and
    /// the budget allows it. The work itself comes as a step.
    ///
    /// # Errors
    /// As the device says.
    pub fn maintain(&self, maintenance: &mut Maintenance) -> Result<bool> {
        let Some((low, bytes)) = self.worst(maintenance) else {
            return Ok(false);
        };
        debug_assert!(bytes <= maintenance.budget_bytes, "what fits is chosen");
        maintenance.budget_bytes -= bytes.min(maintenance.budget_bytes);
        self.compact_fully(&low)?;
        Ok(true)
    }

    /// The keys of the leaf that holds a key, as the tree is now.
    #[must_use]
    pub fn leaf_range(&self, key: &[u8]) -> KeyRange {
        leaf_for(&self.version().root, key).range.clone()
    }

    /// Asks for the full compaction of the leaf that holds a key: what lies above it sinks to it,
    /// and then all of it becomes one run. The work itself comes as a step.
    ///
    /// # Errors
    /// As the device says.
    pub fn compact_fully(&self, key: &[u8]) -> Result<()> {
        self.forget_habits(key);
        self.change(None, |trunk, shaper, root| {
            let nodes = shaper.flush_path(root.draft(), key, Rank::Root)?;
            let root = shaper.crown(nodes);
            trunk.full.insert(leaf_for(&root, key).range.low.clone());
            // The leaf is copied, so that it is planned for even if nothing has sunk.
            let leaf = leaf_for(&root, key).draft();
            Ok(Some(replace(&root, 0, key, leaf)))
        })?;
        Ok(())
    }

    /// Makes two neighbours one, where both are nearly empty; whether there were such.
    fn merge_neighbours(&self) -> Result<bool> {
        self.change(None, |_, shaper, root| {
            if !root.is_leaf() && root.pivots.len() == 1 {
                return Ok(Some(shaper.collapse(root.draft())?));
            }
            let Some(key) = emptiest(&shaper.shape, root) else {
                return Ok(None);
            };
            let (height, low) = key;
            let mut node = node_at(root, height, &low).draft();
            let left = shape::neighbours(&shaper.shape, &node).expect("it was just found");
            shaper.merge(&mut node, left)?;
            node.drop_dead_bundles();
            let root = replace(root, height, &low, node);
            Ok(Some(shaper.collapse(root)?))
        })
    }

    /// A scan begins in a leaf. A count may be lost when many do at once.
    pub(super) fn note_scan(&self, leaf: &Node, begins: bool) {
        if begins && let Some(mut habits) = self.shared.habits.try_lock() {
            habits.used(leaf, |uses| uses.scans += 1);
        }
    }

    /// A key was looked up. A few are counted, by their hashes, and a count may be lost when many
    /// do at once.
    #[inline]
    pub(super) fn note_get(&self, version: &Version, key: &[u8], hash: u64) {
        if !hash.is_multiple_of(SAMPLE) {
            return;
        }
        if version.digest.is_none() {
            self.note_questions(SAMPLE * version.root.bundles.len() as u64);
        }
        if let Some(mut habits) = self.shared.habits.try_lock() {
            habits.used(leaf_for(&version.root, key), |uses| uses.gets += SAMPLE);
        }
    }

    /// A seek waded through what is deleted around this key.
    pub(super) fn note_wading(&self, key: &[u8]) {
        let mut habits = self.shared.habits.lock();
        debug_assert!(habits.waded.len() <= MOST_WADED, "a named maximum");
        if habits.waded.len() < MOST_WADED {
            habits.waded.push(key.into());
        }
    }

    fn forget_habits(&self, key: &[u8]) {
        let version = self.version();
        let range = &leaf_for(&version.root, key).range;
        let mut habits = self.shared.habits.lock();
        habits.leaves.remove(&range.low);
        habits.waded.retain(|key| !range.contains(key));
    }

    /// The leaf whose full compaction is worth most among those that the budget allows, and what it
    /// would write at most.
    fn worst(&self, maintenance: &Maintenance) -> Option<(Box<[u8]>, u64)> {
        let version = self.version();
        let habits = self.shared.habits.lock();
        let trunk = self.lock();
        let horizon = self.shared.horizon.rule(Older::None).horizon;
        let is_scarce = self.is_scarce();
        let mut best: Option<(u64, Box<[u8]>, u64)> = None;
        walk(&version.root, &Above::default(), &mut |leaf, above| {
            match trunk.inflight.underway(0, &leaf.range.low) {
                None => {}
                // What is due may find no room, where all of the leaf with what lies above it would
                // free some.
                Some(Underway::Queued)
                    if is_scarce && (above.runs > 0 || !trunk.full.contains(&leaf.range.low)) => {}
                Some(_) => return,
            }
            let wish = Wish {
                is_scarce,
                fits_cache: maintenance.fits_cache,
                device: *self.shared.store.device(),
                ..wish(leaf, above, &habits, horizon)
            };
            let worth = policy::full_compaction(&wish);
            if worth > 0
                && wish.bytes <= maintenance.budget_bytes
                && best.as_ref().is_none_or(|(most, ..)| worth > *most)
            {
                best = Some((worth, leaf.range.low.clone(), wish.bytes));
            }
        });
        best.map(|(_, low, bytes)| (low, bytes))
    }
}

/// What lies above a leaf, its share of it where others share it.
#[derive(Clone, Copy, Debug, Default)]
struct Above {
    bytes: u64,
    runs: usize,
    depth: usize,
    records: u64,
    tombstones: u64,
    range_deletes: u64,
    /// The newest message.
    newest: Sequence,
}

/// The path from this node to a leaf on which a lookup may have to ask most runs: how many these
/// are, and the leaf's lowest key.
pub(super) fn longest_path(node: &Node) -> (usize, &[u8]) {
    let paths = node.pivots.iter().enumerate().map(|(index, pivot)| {
        let (below, low) = match pivot.child.as_deref() {
            Some(child) => longest_path(child),
            None => (0, &*pivot.low),
        };
        (node.depth(index) + below, low)
    });
    paths.max_by_key(|path| path.0).unwrap_or((0, &node.range.low))
}

fn walk(node: &Node, above: &Above, visit: &mut dyn FnMut(&Node, &Above)) {
    if node.is_leaf() {
        return visit(node, above);
    }
    for (index, pivot) in node.pivots.iter().enumerate() {
        let child = pivot.child.as_deref().expect("an index node has children");
        debug_assert_eq!(child.height + 1, node.height, "heights fall by one");
        let share = child.leaves();
        let weight = node.weight(index);
        let further = Above {
            bytes: above.bytes + weight.bytes / share,
            runs: above.runs + node.runs(index),
            depth: above.depth + node.depth(index),
            records: above.records + weight.records.div_ceil(share),
            tombstones: above.tombstones + weight.tombstones.div_ceil(share),
            range_deletes: above.range_deletes + range_deletes(node, index),
            newest: above.newest.max(newest(node, index)),
        };
        walk(child, &further, visit);
    }
}

/// Range deletes in a pivot's stack that touch its range.
fn range_deletes(node: &Node, index: usize) -> u64 {
    let range = node.pivot_range(index);
    let of = |part: &Part| -> u64 {
        let within = part.within(&range);
        let count = |(_, run): (usize, &Run)| run.range_deletes().touching(&within) as u64;
        part.group.runs().map(count).sum()
    };
    node.stack(index).map(|layer| of(layer.part)).sum()
}

/// The newest message in a pivot's stack, or one that is not older.
fn newest(node: &Node, index: usize) -> Sequence {
    let runs = node.stack(index).flat_map(|layer| layer.part.group.runs());
    runs.map(|(_, run)| run.newest()).max().unwrap_or(0)
}

fn wish(leaf: &Node, above: &Above, habits: &Habits, horizon: Sequence) -> Wish {
    debug_assert!(leaf.is_leaf() && leaf.pivots.len() == 1, "a leaf has a pivot");
    let weight = leaf.weight(0);
    let uses = habits.leaves.get(&leaf.range.low).copied().unwrap_or_default();
    Wish {
        bytes: above.bytes + weight.bytes,
        runs: above.runs + leaf.runs(0),
        depth: above.depth + leaf.depth(0),
        records: above.records + weight.records,
        tombstones: above.tombstones + weight.tombstones,
        range_deletes: above.range_deletes + range_deletes(leaf, 0),
        is_settled: above.newest.max(newest(leaf, 0)) <= horizon,
        stale_percent: shape::stale_percent(&leaf.pivots[0].own),
        scans: uses.scans,
        gets: uses.gets,
        waded: habits.waded.iter().any(|key| leaf.range.contains(key)),
        is_scarce: false,
        fits_cache: false,
        device: DeviceProfile::default(),
    }
}

fn leaf_for<'v>(root: &'v Node, key: &[u8]) -> &'v Node {
    node_at(root, 0, key)
}

fn node_at<'v>(root: &'v Node, height: u8, key: &[u8]) -> &'v Node {
    let mut node = root;
    debug_assert!(root.height >= height, "no node of height {height} is below");
    while node.height > height {
        let pivot = &node.pivots[node.pivot_for(key)];
        node = pivot.child.as_deref().expect("an index node has children");
    }
    node
}

/// The lowest node that has two children which should be one, by its height and low key.
fn emptiest(shape: &policy::Shape, root: &Node) -> Option<(u8, Box<[u8]>)> {
    if root.is_leaf() {
        return None;
    }
    let below = root.children().find_map(|child| emptiest(shape, child));
    below.or_else(|| shape::neighbours(shape, root).map(|_| (root.height, root.range.low.clone())))
}

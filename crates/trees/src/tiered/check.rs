//! Walks the tree and reports everything that is not as the invariants say, a sentence each.

use super::compact::Job;
use super::node::Node;
use super::tree::{SEED, Tree, Trunk, all_nodes};
use super::uses::Uses;
use crate::merge::Direction;
use crate::range::KeyRange;
use crate::run::{Access, Run};
use alluvium_filters as filters;
use alluvium_storage::extents::Extent;
use alluvium_storage::{Error, Result};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// How far a check has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Bytes of runs and maplets that were read.
    pub done_bytes: u64,
    /// Bytes that will be.
    pub total_bytes: u64,
}

/// How thoroughly a tree is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The trunk, and who uses which extent: nothing is read.
    Trunk,
    /// Every run and maplet as well, and that each key is found through its maplet.
    Everything,
}

impl Tree {
    /// Everything that is wrong. No step may go on meanwhile; jobs that were begun and not ended are handed in, for they use extents
    /// too.
    ///
    /// # Errors
    /// As the device says. What cannot be read because it is damaged is reported, not returned.
    pub fn check(&self, depth: Depth, jobs: &[&Job]) -> Result<Vec<String>> {
        self.check_with(depth, jobs, &mut |_| ())
    }

    /// As [`Tree::check`], and tells how far it has come whenever a run or a maplet was read.
    ///
    /// # Errors
    /// As [`Tree::check`].
    pub fn check_with(
        &self,
        depth: Depth,
        jobs: &[&Job],
        tell: &mut dyn FnMut(Checked),
    ) -> Result<Vec<String>> {
        let version = self.version();
        let nodes = all_nodes(&version.root);
        let mut found = Vec::new();
        for node in &nodes {
            check_node(node, &mut found);
            let most = self.options().shape.most_runs();
            for pivot in 0..node.pivots.len() {
                // Nothing can flush a leaf further: what it has too much waits for a compaction, however long that takes.
                if node.is_leaf() && self.lock().inflight.job_of(0, &node.range.low).is_some() {
                    continue;
                }
                let runs = match node.is_leaf() {
                    true => node.depth(pivot),
                    false => node.runs(pivot),
                };
                if runs > most {
                    found.push(format!(
                        "{runs} runs, more than {most}, in {:?} at height {} (T3)",
                        node.pivot_range(pivot),
                        node.height
                    ));
                }
            }
        }
        let mut reachable: HashMap<Extent, u32>;
        {
            let trunk = self.lock();
            let pins = jobs.iter().filter_map(|job| trunk.pins.get(&job.id()));
            let wanted = Uses::of(
                nodes.iter().map(|node| &**node),
                pins.flat_map(|pins| pins.iter()),
            );
            found.extend(
                trunk
                    .uses
                    .differences(&wanted)
                    .into_iter()
                    .map(|what| format!("{what} (T5)")),
            );
            let memory: u64 = nodes.iter().map(|node| node.memory_bytes()).sum();
            if memory != trunk.memory {
                found.push(format!(
                    "the trunk's memory is counted {}, found {memory}",
                    trunk.memory
                ));
            }
            check_wishes(&trunk, &nodes, &mut found);
            reachable = trunk.uses.reachable();
            // A checkpoint may come at any time, and the crash after it ends every compaction.
            let shown = Uses::of(nodes.iter().map(|node| &**node), []).reachable();
            let hidden = reachable.keys().filter(|extent| !shown.contains_key(extent));
            found.extend(hidden.map(|extent| format!("{extent} is used by compactions alone (T5)")));
            for extent in trunk.shelves.extents() {
                *reachable.entry(extent).or_default() += 1;
            }
            if let Some(what) = self.wrong_shelves(&trunk, &nodes) {
                found.push(what);
            }
        }
        found.extend(self.store().check(reachable.into_iter())?);
        if depth == Depth::Everything {
            self.check_contents(&nodes, &mut found, tell)?;
        }
        Ok(found)
    }

    /// For each pivot with anything in its stack, how many records it is estimated to hold, and how many it does, counted one by one.
    ///
    /// # Errors
    /// As the device says, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt).
    pub fn count_records(&self) -> Result<Vec<(u64, u64)>> {
        let version = self.version();
        let mut counts = Vec::new();
        for node in all_nodes(&version.root) {
            for pivot in 0..node.pivots.len() {
                let range = node.pivot_range(pivot);
                let mut counted = 0;
                for layer in node.stack(pivot) {
                    let within = layer.part.within(&range);
                    for (_, run) in layer.part.group.runs() {
                        if within.overlaps(run.low(), run.high()) {
                            let mut cursor = run.cursor(
                                self.store(),
                                within.clone(),
                                Direction::Forward,
                                Access::Streaming,
                            );
                            cursor.start()?;
                            while cursor.key().is_some() {
                                counted += 1;
                                cursor.advance()?;
                            }
                        }
                    }
                }
                let estimated = node.weight(pivot).records;
                if estimated + counted > 0 {
                    counts.push((estimated, counted));
                }
            }
        }
        Ok(counts)
    }

    fn check_contents(
        &self,
        nodes: &[Arc<Node>],
        found: &mut Vec<String>,
        tell: &mut dyn FnMut(Checked),
    ) -> Result<()> {
        let store = self.store();
        let mut progress = Checked {
            done_bytes: 0,
            total_bytes: bytes_to_read(nodes),
        };
        tell(progress);
        let (mut groups, mut runs) = (HashSet::new(), HashSet::new());
        for node in nodes {
            for (part, _) in node.uses() {
                let group = &part.group;
                if groups.insert(group.id) {
                    let said = group.maplet.check(store);
                    found.extend(
                        said.into_iter()
                            .map(|violation| format!("group {}: {violation}", group.id)),
                    );
                    progress.done_bytes += group.maplet.bytes();
                    tell(progress);
                }
            }
            for (part, range) in node.uses() {
                for (index, run) in part.group.runs() {
                    if range.overlaps(run.low(), run.high()) {
                        match self.check_keys(&part.group.maplet, run, index as u16, &range, found) {
                            Err(damage @ Error::Corrupt { .. }) => found.push(damage.to_string()),
                            other => other?,
                        }
                    }
                    // A run of which a part has died cannot be walked as a whole.
                    let whole = range == KeyRange::everything();
                    if whole && runs.insert(run.pointer().offset) {
                        found.extend(
                            run.check(store)
                                .into_iter()
                                .map(|violation| violation.to_string()),
                        );
                    }
                    progress.done_bytes += run.summary().bytes;
                    tell(progress);
                }
            }
        }
        Ok(())
    }

    /// Every key of a run within a range is found in the maplet under the run's place (T6), and keys rise.
    fn check_keys(
        &self,
        maplet: &crate::maplet::Maplet,
        run: &Run,
        index: u16,
        range: &KeyRange,
        found: &mut Vec<String>,
    ) -> Result<()> {
        let store = self.store();
        let mut cursor = run.cursor(store, range.clone(), Direction::Forward, Access::Streaming);
        cursor.start()?;
        let mut last: Option<Vec<u8>> = None;
        while let Some(key) = cursor.key() {
            if !range.contains(key) {
                found.push(format!("{run:?} shows {} beyond {range:?}", key.escape_ascii()));
            }
            if last.as_deref().is_none_or(|last| last < key) {
                let guard = store.epochs().pin();
                let hits = maplet.lookup(filters::hash(SEED, key), store.cache(), &guard)?;
                if !hits.contains(&index) {
                    found.push(format!(
                        "{} of {run:?} is not in its maplet under {index} (T6)",
                        key.escape_ascii()
                    ));
                }
                last = Some(key.to_vec());
            } else if last.as_deref() != Some(key) {
                found.push(format!("{} of {run:?} is out of order", key.escape_ascii()));
            }
            cursor.advance()?;
        }
        Ok(())
    }
}

/// What [`Tree::check_contents`] reads, a run that several nodes share as often as they do.
fn bytes_to_read(nodes: &[Arc<Node>]) -> u64 {
    let mut groups = HashSet::new();
    let mut bytes = 0;
    for (part, range) in nodes.iter().flat_map(|node| node.uses()) {
        if groups.insert(part.group.id) {
            bytes += part.group.maplet.bytes();
        }
        let runs = part.group.runs().map(|(_, run)| run);
        let met = runs.filter(|run| range.overlaps(run.low(), run.high()));
        bytes += met.map(|run| run.summary().bytes).sum::<u64>();
    }
    bytes
}

/// What is to be compacted fully are leaves that there are.
fn check_wishes(trunk: &Trunk, nodes: &[Arc<Node>], found: &mut Vec<String>) {
    let leaves = nodes.iter().filter(|node| node.is_leaf());
    let lows: HashSet<&[u8]> = leaves.map(|leaf| &*leaf.range.low).collect();
    let lost = trunk.full.iter().filter(|low| !lows.contains(&***low));
    found.extend(lost.map(|low| {
        let low = low.escape_ascii();
        format!("no leaf begins at \"{low}\", which is to be compacted fully")
    }));
}

fn check_node(node: &Node, found: &mut Vec<String>) {
    let mut wrong = |what: String| {
        found.push(format!(
            "trunk node at height {} of {:?}: {what}",
            node.height, node.range
        ));
    };
    if node
        .pivots
        .first()
        .is_none_or(|first| first.low != node.range.low)
    {
        wrong("its first pivot does not begin where it does".to_owned());
    }
    if !node.pivots.windows(2).all(|pair| pair[0].low < pair[1].low) {
        wrong("its pivots are out of order".to_owned());
    }
    let last = node.pivots.last();
    if last.is_some_and(|last| node.range.ends_before(&last.low)) {
        wrong("its last pivot begins behind its end".to_owned());
    }
    let first = node.next - node.bundles.len() as u64;
    let numbered = node
        .bundles
        .iter()
        .zip(first..)
        .all(|(bundle, number)| bundle.number == number);
    if !numbered {
        wrong("its bundles are not numbered in a row".to_owned());
    }
    let most = node
        .pivots
        .iter()
        .map(|pivot| pivot.live.len())
        .max()
        .unwrap_or(0);
    if node.bundles.len() != most {
        wrong(format!(
            "{} bundles, of which {most} are live for some pivot",
            node.bundles.len()
        ));
    }
    for index in 0..node.pivots.len() {
        check_pivot(node, index, &mut wrong);
    }
}

fn check_pivot(node: &Node, index: usize, wrong: &mut dyn FnMut(String)) {
    let pivot = &node.pivots[index];
    let range = node.pivot_range(index);
    if pivot.first + pivot.live.len() as u64 != node.next {
        wrong(format!("the live bundles of {range:?} are not the newest"));
    }
    let bundles = node.live_bundles(index);
    if !bundles
        .iter()
        .zip(&pivot.live)
        .all(|(bundle, weights)| bundle.parts.len() == weights.len())
    {
        wrong(format!("a bundle of {range:?} has other parts than weights"));
    }
    match (&pivot.child, node.height) {
        (None, 0) => {}
        (Some(child), height) if height > 0 => {
            if child.height + 1 != height || child.range != range {
                wrong(format!(
                    "the child of {range:?} is at height {} with {:?}",
                    child.height, child.range
                ));
            }
        }
        _ => wrong(format!(
            "{range:?} has a child where a leaf has none, or none where it needs one"
        )),
    }
}

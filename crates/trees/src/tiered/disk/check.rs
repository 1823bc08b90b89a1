//! Checks the tree, and describes each violation of an invariant in one sentence.

use super::contents::check_contents;
use crate::run::CursorAccess;
use crate::tiered::trunk::{JobId, Trunk, TrunkExtents, TrunkNode, UseCounts, WriterState, all_nodes};
use alluvium_dictionary::check_report::{CheckFindings, CheckLevel, CheckProgress, StructureCheckReport};
use alluvium_dictionary::merge::MergeDirection;
use alluvium_storage::Result;
use alluvium_storage::extents::Extent;
use alluvium_storage::store::Store;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Checks the tree, and returns all errors found and the extents that the tree uses. No step may
/// run during the call. `jobs` lists the jobs that have started but not finished, because they use
/// extents too. `durable` is the root of the durable generation, if there is one. `tell` is called
/// with the progress after each run or maplet, and may abort the check by returning an error.
///
/// # Errors
/// I/O errors and errors of `tell`. Damage is part of the result, not an error.
pub(crate) fn examine(
    trunk: &Trunk,
    depth: CheckLevel,
    jobs: &[JobId],
    durable: Option<&[u8]>,
    tell: &mut dyn FnMut(CheckProgress) -> Result<()>,
) -> Result<StructureCheckReport> {
    let version = trunk.version();
    let nodes = all_nodes(&version.root);
    let mut found = Vec::new();
    for node in &nodes {
        check_node(node, &mut found);
        check_depths(trunk, node, &mut found);
    }
    let mut reachable: HashMap<Extent, u32>;
    {
        let state = trunk.lock();
        let pins = jobs.iter().filter_map(|job| state.pins.get(job));
        let wanted = UseCounts::of(
            nodes.iter().map(|node| &**node),
            pins.flat_map(|pins| pins.iter()),
        );
        found.extend(
            state
                .uses
                .differences(&wanted)
                .into_iter()
                .map(|what| format!("{what} (T5)")),
        );
        let memory: u64 = nodes.iter().map(|node| node.memory_bytes()).sum();
        if memory != state.memory {
            found.push(format!(
                "the trunk's memory is counted as {}, but {memory} was found",
                state.memory
            ));
        }
        check_wishes(&state, &nodes, &mut found);
        reachable = state.uses.reachable();
        // An extent that only compactions use would leak if a checkpoint were written now and a
        // crash then ended the compactions.
        let shown = UseCounts::of(nodes.iter().map(|node| &**node), []).reachable();
        let hidden = reachable.keys().filter(|extent| !shown.contains_key(extent));
        found.extend(hidden.map(|extent| format!("{extent} is used only by compactions (T5)")));
        for extent in state.extents.iter() {
            *reachable.entry(extent).or_default() += 1;
        }
        if let Some(what) = wrong_extents(&state, &nodes, &trunk.store) {
            found.push(what);
        }
    }
    let mut findings = match depth {
        CheckLevel::Trunk => CheckFindings::default(),
        CheckLevel::Everything => check_contents(&trunk.store, &nodes, durable, tell)?,
    };
    findings.found.splice(..0, found);
    findings.bound();
    Ok(StructureCheckReport { findings, reachable })
}

/// Checks that no pivot of a node has more runs than allowed (T3).
fn check_depths(trunk: &Trunk, node: &TrunkNode, found: &mut Vec<String>) {
    let most = trunk.options.shape.most_runs();
    for pivot in 0..node.pivots.len() {
        // A leaf cannot flush its runs. It may have too many for as long as its compaction takes.
        if node.is_leaf() && trunk.lock().inflight.job_of(0, &node.range.low).is_some() {
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

/// Returns the estimated and the actual number of records for each pivot whose stack is not empty.
/// The actual number is found by reading every record.
///
/// # Errors
/// I/O errors, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt).
pub(crate) fn count_records(trunk: &Trunk) -> Result<Vec<(u64, u64)>> {
    let version = trunk.version();
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
                            &trunk.store,
                            within.clone(),
                            MergeDirection::Forward,
                            CursorAccess::Streaming,
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

/// Returns a description if the recorded number of trunk nodes in an extent differs from the number
/// found, and `None` otherwise.
fn wrong_extents(state: &WriterState, nodes: &[Arc<TrunkNode>], store: &Store) -> Option<String> {
    match TrunkExtents::of(nodes.iter().map(|node| &node.stored), store) {
        Ok(found) if found == state.extents => None,
        Ok(found) => Some(format!(
            "trunk extents are counted as {:?}, but {found:?} were found",
            state.extents
        )),
        Err(error) => Some(error.to_string()),
    }
}

/// Checks that every requested full compaction refers to an existing leaf.
fn check_wishes(state: &WriterState, nodes: &[Arc<TrunkNode>], found: &mut Vec<String>) {
    let leaves = nodes.iter().filter(|node| node.is_leaf());
    let lows: HashSet<&[u8]> = leaves.map(|leaf| &*leaf.range.low).collect();
    let lost = state.full.iter().filter(|low| !lows.contains(&***low));
    found.extend(lost.map(|low| {
        let low = low.escape_ascii();
        format!("no leaf begins at \"{low}\", which is to be compacted fully")
    }));
}

fn check_node(node: &TrunkNode, found: &mut Vec<String>) {
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
        wrong("its last pivot begins after its end".to_owned());
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

fn check_pivot(node: &TrunkNode, index: usize, wrong: &mut dyn FnMut(String)) {
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
        wrong(format!(
            "a bundle of {range:?} has different numbers of parts and weights"
        ));
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
            "{range:?} has a child although it is in a leaf, or lacks one"
        )),
    }
}

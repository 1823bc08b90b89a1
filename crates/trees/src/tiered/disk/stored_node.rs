//! Converts trunk nodes between their in-memory and on-disk forms. Each group and clip of a node is
//! stored once and opened once.

use super::format::{StoredGroup, StoredNode, StoredPart, StoredPivot, StoredRun};
use crate::tiered::trunk::{
    CheckpointLocation, MapletGroup, OwnedPart, TrunkBundle, TrunkNode, TrunkPart, TrunkPivot,
};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::value_log::ValuePointer;
use alluvium_storage::Result;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

/// Opens the groups and children that a trunk node refers to.
pub(crate) trait NodeResolver {
    fn group(&mut self, name: &StoredGroup) -> Result<Arc<MapletGroup>>;
    /// Reads the child at `pointer`, which must have the given height and key range.
    fn child(&mut self, pointer: ValuePointer, height: u8, range: &KeyRange) -> Result<Arc<TrunkNode>>;
}

/// The groups and clips of a node, without duplicates.
#[derive(Default)]
struct NodeReferenceTable<'n> {
    groups: Vec<&'n MapletGroup>,
    clips: Vec<&'n KeyRange>,
    group_places: HashMap<u64, usize>,
    clip_places: HashMap<*const KeyRange, usize>,
}

impl<'n> NodeReferenceTable<'n> {
    fn name(&mut self, part: &'n TrunkPart) -> StoredPart {
        let groups = &mut self.groups;
        let group = *self.group_places.entry(part.group.id).or_insert_with(|| {
            groups.push(&part.group);
            groups.len() - 1
        });
        let clips = &mut self.clips;
        let clip = part.clip.as_ref().map(|clip| {
            *self.clip_places.entry(Arc::as_ptr(clip)).or_insert_with(|| {
                clips.push(clip);
                clips.len() - 1
            })
        });
        StoredPart { group, clip }
    }
}

/// Converts a node to its on-disk form. `child` returns a child's location on disk. If it returns
/// `None`, because the child has no location yet, so does this function.
pub(super) fn form_of(
    node: &TrunkNode,
    child: &dyn Fn(&Arc<TrunkNode>) -> Option<ValuePointer>,
) -> Option<StoredNode> {
    debug_assert!(
        node.is_numbered(),
        "numbers of bundles follow from the next one's"
    );
    debug_assert!(
        node.pivots
            .iter()
            .all(|pivot| pivot.first + pivot.live.len() as u64 == node.next),
        "the first live bundle follows from how many there are"
    );
    let mut names = NodeReferenceTable::default();
    let bundles = node
        .bundles
        .iter()
        .map(|bundle| bundle.parts.iter().map(|part| names.name(part)).collect())
        .collect();
    let mut pivots = Vec::with_capacity(node.pivots.len());
    for pivot in &node.pivots {
        let own = pivot.own.iter();
        pivots.push(StoredPivot {
            low: pivot.low.clone(),
            child: match &pivot.child {
                Some(below) => Some(child(below)?),
                None => None,
            },
            own: own.map(|owned| (names.name(&owned.part), owned.weight)).collect(),
            live: pivot.live.clone(),
        });
    }
    let needed = needed(node);
    let group = |group: &&MapletGroup| StoredGroup {
        id: group.id,
        maplet: *group.maplet.pointer(),
        runs: group
            .runs
            .iter()
            .enumerate()
            .map(|(place, run)| {
                let run = run.get().filter(|_| needed.contains(&(group.id, place)))?;
                Some(StoredRun {
                    pointer: *run.pointer(),
                    base: run.base(),
                })
            })
            .collect(),
    };
    Some(StoredNode {
        height: node.height,
        next: node.next,
        range: node.range.clone(),
        groups: names.groups.iter().map(group).collect(),
        clips: names.clips.iter().map(|clip| (*clip).clone()).collect(),
        bundles,
        pivots,
    })
}

/// Returns the group number and index in the group of each run that any of the node's pivots needs.
/// All other runs may be deleted while the node still exists.
fn needed(node: &TrunkNode) -> HashSet<(u64, usize)> {
    let mut needed = HashSet::new();
    for (part, range) in node.uses() {
        let touching = part
            .group
            .runs()
            .filter(|(_, run)| range.overlaps(run.low(), run.high()));
        needed.extend(touching.map(|(place, _)| (part.group.id, place)));
    }
    needed
}

/// Creates a node from its on-disk form. `open` opens the groups and children that the node refers
/// to.
pub(super) fn node_of(form: StoredNode, open: &mut dyn NodeResolver) -> Result<TrunkNode> {
    let groups = form
        .groups
        .iter()
        .map(|name| open.group(name))
        .collect::<Result<Vec<_>>>()?;
    let clips: Vec<Arc<KeyRange>> = form.clips.into_iter().map(Arc::new).collect();
    let part = |name: &StoredPart| TrunkPart {
        group: Arc::clone(&groups[name.group]),
        clip: name.clip.map(|clip| Arc::clone(&clips[clip])),
    };
    let first = form.next - form.bundles.len() as u64;
    let bundles = form.bundles.iter().zip(first..).map(|(parts, number)| {
        Arc::new(TrunkBundle {
            number,
            parts: parts.iter().map(part).collect(),
        })
    });
    let pivots = form.pivots.iter().map(|pivot| TrunkPivot {
        low: pivot.low.clone(),
        child: None,
        own: pivot
            .own
            .iter()
            .map(|(name, weight)| OwnedPart {
                part: part(name),
                weight: *weight,
                renews: 0,
            })
            .collect(),
        first: form.next - pivot.live.len() as u64,
        live: pivot.live.clone(),
    });
    let mut node = TrunkNode {
        height: form.height,
        range: form.range,
        pivots: pivots.collect(),
        bundles: bundles.collect(),
        next: form.next,
        stored: CheckpointLocation::default(),
        depths: OnceLock::new(),
    };
    for (index, pivot) in form.pivots.iter().enumerate() {
        if let Some(child) = pivot.child {
            let range = node.pivot_range(index);
            node.pivots[index].child = Some(open.child(child, node.height - 1, &range)?);
        }
    }
    Ok(node)
}

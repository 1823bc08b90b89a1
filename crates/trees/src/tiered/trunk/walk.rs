//! Trunk traversals: all nodes, the nodes of one path, and the difference between two versions.

use super::job_table::JobClaim;
use super::node::TrunkNode;
use std::collections::HashSet;
use std::sync::Arc;

/// Returns the claim that identifies the pivot at `index` in its present state. A job for this
/// pivot stores the claim.
pub(crate) fn claim(node: &TrunkNode, index: usize) -> JobClaim {
    assert!(index < node.pivots.len(), "pivot {index}");
    debug_assert_eq!(
        node.pivots[index].child.is_none(),
        node.is_leaf(),
        "only pivots of leaves have no child"
    );
    let pivot = &node.pivots[index];
    JobClaim {
        height: node.height,
        range: node.pivot_range(index),
        first: pivot.first,
        own: pivot.own.iter().map(|owned| owned.part.group.id).collect(),
    }
}

/// Returns the node and the index of the pivot that a claim identifies, or `None` if that pivot no
/// longer exists.
pub(crate) fn find_claimed_pivot<'a>(
    root: &'a TrunkNode,
    claim: &JobClaim,
) -> Option<(&'a TrunkNode, usize)> {
    let mut node = root;
    debug_assert!(!root.pivots.is_empty(), "a node has a pivot");
    while node.height > claim.height {
        let pivot = &node.pivots[node.pivot_for(&claim.range.low)];
        node = pivot.child.as_deref()?;
    }
    let index = node.pivot_for(&claim.range.low);
    (node.height == claim.height && node.pivot_range(index) == claim.range).then_some((node, index))
}

/// Returns whether the pivot that a claim identifies still exists and is unchanged (T4).
pub(crate) fn is_claim_valid(root: &TrunkNode, wanted: &JobClaim) -> bool {
    find_claimed_pivot(root, wanted).is_some_and(|(node, index)| claim(node, index) == *wanted)
}

/// Returns all nodes of a trunk, including the root.
pub(crate) fn all_nodes(root: &Arc<TrunkNode>) -> Vec<Arc<TrunkNode>> {
    let mut nodes = vec![Arc::clone(root)];
    let mut next = 0;
    while next < nodes.len() {
        let children: Vec<_> = nodes[next].children().cloned().collect();
        nodes.extend(children);
        next += 1;
    }
    nodes
}

/// Returns the nodes that are only in the old trunk, and those that are only in the new one. Skips
/// subtrees that both share.
pub(crate) fn difference(
    old: &Arc<TrunkNode>,
    new: &Arc<TrunkNode>,
) -> (Vec<Arc<TrunkNode>>, Vec<Arc<TrunkNode>>) {
    let (mut gone, mut made) = (Vec::new(), Vec::new());
    let (mut olds, mut news) = (vec![Arc::clone(old)], vec![Arc::clone(new)]);
    let top = old.height.max(new.height);
    for height in (0..=top).rev() {
        let here = |nodes: &[Arc<TrunkNode>]| -> Vec<Arc<TrunkNode>> {
            nodes
                .iter()
                .filter(|node| node.height == height)
                .cloned()
                .collect()
        };
        let (old_here, new_here) = (here(&olds), here(&news));
        let addresses = |nodes: &[Arc<TrunkNode>]| -> HashSet<*const TrunkNode> {
            nodes.iter().map(Arc::as_ptr).collect()
        };
        let (in_old, in_new) = (addresses(&old_here), addresses(&new_here));
        for node in old_here
            .into_iter()
            .filter(|node| !in_new.contains(&Arc::as_ptr(node)))
        {
            olds.extend(node.children().cloned());
            gone.push(node);
        }
        for node in new_here
            .into_iter()
            .filter(|node| !in_old.contains(&Arc::as_ptr(node)))
        {
            news.extend(node.children().cloned());
            made.push(node);
        }
    }
    (gone, made)
}

/// Returns the root of a trunk copy in which `node` replaces the node at `height` that contains
/// `key`.
pub(crate) fn replace(root: &TrunkNode, height: u8, key: &[u8], node: TrunkNode) -> TrunkNode {
    if root.height == height {
        debug_assert!(
            node.height == height && node.range == root.range,
            "a node gives way to one for the same keys"
        );
        return node;
    }
    assert!(root.height > height, "nodes of height {height} are below");
    let mut draft = root.draft();
    let index = draft.pivot_for(key);
    let child = draft.pivots[index]
        .child
        .as_ref()
        .expect("an index node has children");
    let child = replace(child, height, key, node);
    draft.pivots[index].child = Some(Arc::new(child));
    draft
}

/// Returns the number of runs that a lookup may have to search on the worst path from this node to
/// a leaf, and the low key of that path's leaf.
pub(crate) fn longest_path(node: &TrunkNode) -> (usize, &[u8]) {
    let paths = node.pivots.iter().enumerate().map(|(index, pivot)| {
        let (below, low) = match pivot.child.as_deref() {
            Some(child) => longest_path(child),
            None => (0, &*pivot.low),
        };
        (node.depth(index) + below, low)
    });
    paths.max_by_key(|path| path.0).unwrap_or((0, &node.range.low))
}

/// Returns the leaf that contains `key`.
pub(crate) fn leaf_for<'v>(root: &'v TrunkNode, key: &[u8]) -> &'v TrunkNode {
    node_at(root, 0, key)
}

/// Returns the node at `height` whose range contains `key`.
pub(crate) fn node_at<'v>(root: &'v TrunkNode, height: u8, key: &[u8]) -> &'v TrunkNode {
    let mut node = root;
    debug_assert!(root.height >= height, "no node of height {height} is below");
    while node.height > height {
        let pivot = &node.pivots[node.pivot_for(key)];
        node = pivot.child.as_deref().expect("an index node has children");
    }
    debug_assert!(node.range.contains(key), "a node has the keys that lead to it");
    node
}

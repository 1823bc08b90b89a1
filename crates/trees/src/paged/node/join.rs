//! Joins two neighbours into one node, or balances them so that each has about half.

use super::format::{
    NodeArray, PageContentKind, child_at, kind, level, set_first_child, set_head, value_of_child,
};
use super::layout::NodeShape;

/// Returns the most entries of a joined node. A node that is nearly full would soon be split again
/// by inserts.
fn most_joined(table: &NodeArray) -> usize {
    table.capacity() * 3 / 4
}

/// Returns the array whose length decides whether a node is under-full: pairs or pivots.
fn measured(shape: &NodeShape, node: &[u8]) -> NodeArray {
    match kind(node) {
        Some(PageContentKind::Leaf) => shape.pairs,
        _ => shape.pivots_of(node),
    }
}

/// Returns the least number of pairs or pivots of a node other than the root, if nodes are merged
/// (PM1).
///
/// A split leaves half of a leaf, so a leaf is under-full below a quarter. A split before a flush
/// leaves a quarter of the pivots (PE3), so an inner node is under-full below an eighth; with three
/// pivots a split may leave none.
fn least(shape: &NodeShape, node: &[u8]) -> usize {
    let capacity = match (kind(node), shape.own) {
        // The bound rather than the node's own number, so that a new division makes no node
        // under-full.
        (Some(PageContentKind::Buffered), Some(bounds)) => bounds.least,
        _ => measured(shape, node).capacity(),
    };
    match kind(node) {
        Some(PageContentKind::Leaf) => (capacity / 4).max(1),
        Some(PageContentKind::Buffered) if capacity < 5 => 0,
        _ => (capacity / 8).max(1),
    }
}

/// Returns whether a node other than the root is under-full.
pub(in crate::paged) fn is_under_full(shape: &NodeShape, node: &[u8]) -> bool {
    measured(shape, node).len(node) < least(shape, node)
}

/// Appends the first entries of a node to its left neighbour.
fn to_left(table: &NodeArray, left: &mut [u8], right: &mut [u8], count: usize) {
    assert!(count <= table.len(right), "the entries are there");
    for at in 0..count {
        let (key, value, tag) = (table.key(right, at), table.value(right, at), table.tag(right, at));
        let len = table.len(left);
        table.insert(left, len, key, value, tag);
    }
    (0..count).for_each(|_| table.remove(right, 0));
}

/// Moves the entries of a node from index `from` on to the beginning of its right neighbour.
fn to_right(table: &NodeArray, left: &mut [u8], from: usize, right: &mut [u8]) {
    for at in (from..table.len(left)).rev() {
        let (key, value, tag) = (table.key(left, at), table.value(left, at), table.tag(left, at));
        table.insert(right, 0, key, value, tag);
    }
    table.truncate(left, from);
    assert!(table.len(left) <= from, "what was moved is there no more");
}

/// Moves the content of a node to its left neighbour, unless that would then be nearly full; in
/// this case each gets about half. Returns the new pivot between the two, or `None` if the right
/// node is now empty. `pivot` is the pivot between them before. Their messages must fit into one
/// buffer.
pub(in crate::paged) fn join(
    shape: &NodeShape,
    left: &mut [u8],
    pivot: &[u8],
    right: &mut [u8],
) -> Option<Vec<u8>> {
    assert!(
        kind(left) == kind(right) && level(left) == level(right),
        "neighbours are of one kind"
    );
    if kind(left) == Some(PageContentKind::Leaf) {
        join_leaves(&shape.pairs, left, right)
    } else {
        join_inner(shape, left, pivot, right)
    }
}

fn join_leaves(pairs: &NodeArray, left: &mut [u8], right: &mut [u8]) -> Option<Vec<u8>> {
    let (own, total) = (pairs.len(left), pairs.len(left) + pairs.len(right));
    if total <= most_joined(pairs) {
        pairs.move_to(right, 0, left);
        return None;
    }
    let wanted = total / 2;
    if own < wanted {
        to_left(pairs, left, right, wanted - own);
    } else {
        to_right(pairs, left, wanted, right);
    }
    assert!(pairs.len(left) == wanted, "each has half");
    Some(pairs.key(right, 0).to_vec())
}

fn join_inner(shape: &NodeShape, left: &mut [u8], pivot: &[u8], right: &mut [u8]) -> Option<Vec<u8>> {
    let (pivots, buffer) = (shape.pivots_of(left), shape.buffer_of(left));
    let is_buffered = kind(left) == Some(PageContentKind::Buffered);
    assert!(
        pivots == shape.pivots_of(right),
        "neighbours are divided alike (PM2)"
    );
    assert!(
        !is_buffered || buffer.len(left) + buffer.len(right) <= buffer.capacity(),
        "the messages of both fit into one buffer (PM2)"
    );
    let total = pivots.len(left) + 1 + pivots.len(right);
    let mut between = pivot.to_vec();
    let wanted = match total <= most_joined(&pivots) {
        true => total,
        false => (total - 1) / 2,
    };
    while pivots.len(left) < wanted {
        let at = pivots.len(left);
        let first = value_of_child(child_at(&pivots, right, 0));
        pivots.insert(left, at, &between, &first, None);
        if pivots.is_empty(right) {
            // The last child of the right node was moved.
            assert!(at + 1 == total, "the left one has all");
            break;
        }
        between = pivots.key(right, 0).to_vec();
        let second = child_at(&pivots, right, 1);
        set_first_child(right, second);
        pivots.remove(right, 0);
    }
    while pivots.len(left) > wanted {
        let last = pivots.len(left) - 1;
        let first = value_of_child(child_at(&pivots, right, 0));
        pivots.insert(right, 0, &between, &first, None);
        set_first_child(right, child_at(&pivots, left, last + 1));
        between = pivots.key(left, last).to_vec();
        pivots.remove(left, last);
    }
    let is_one = wanted == total;
    if is_buffered {
        let to_go = match is_one {
            true => buffer.len(right),
            false => buffer.below(right, &between),
        };
        to_left(&buffer, left, right, to_go);
        if !is_one {
            let from = buffer.below(left, &between);
            to_right(&buffer, left, from, right);
        }
    }
    (!is_one).then_some(between)
}

/// Turns an empty page into a node without a buffer, with the pivots and children of a node whose
/// buffer is empty.
pub(in crate::paged) fn without_buffer(shape: &NodeShape, from: &[u8], to: &mut [u8]) {
    assert!(
        kind(from) == Some(PageContentKind::Buffered) && shape.buffer_of(from).is_empty(from),
        "no message is lost"
    );
    let pivots = shape.pivots_of(from);
    set_head(to, PageContentKind::Wide, level(from));
    set_first_child(to, child_at(&pivots, from, 0));
    for at in 0..pivots.len(from) {
        shape
            .wide
            .insert(to, at, pivots.key(from, at), pivots.value(from, at), None);
    }
}

#[cfg(test)]
mod tests;

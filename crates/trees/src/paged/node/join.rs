//! Merges two neighbouring nodes into one, or balances them so that each gets about half of their
//! content.

use super::format::{
    NodeArray, PageContentKind, child_at, kind, level, set_first_child, set_head, value_of_child,
};
use super::layout::NodeShape;

/// Returns the maximum number of entries of a merged node. If it were nearly full, inserts would
/// soon split it again.
fn most_joined(table: &NodeArray) -> usize {
    table.capacity() * 3 / 4
}

/// Returns the array whose length decides whether a node is under-full: a leaf's pairs or an inner
/// node's pivots.
fn measured(shape: &NodeShape, node: &[u8]) -> NodeArray {
    match kind(node) {
        Some(PageContentKind::Leaf) => shape.pairs,
        _ => shape.pivots_of(node),
    }
}

/// Returns the minimum number of pairs or pivots that a node other than the root must have, in
/// trees that merge under-full nodes (PM1).
///
/// A split leaves a leaf half full, so a leaf is under-full if it is less than a quarter full. A
/// split before a flush may leave an inner node with a quarter of the maximum number of pivots
/// (PE3), so an inner node is under-full if it has less than an eighth. If the maximum is only
/// three pivots, a split may even leave none.
fn least(shape: &NodeShape, node: &[u8]) -> usize {
    let capacity = match (kind(node), shape.own) {
        // Use the tree's lower bound instead of the node's own number of pivots, so that redividing
        // a node never makes it under-full.
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

/// Moves a node's first `count` entries to the end of the same array in its left neighbour.
fn to_left(table: &NodeArray, left: &mut [u8], right: &mut [u8], count: usize) {
    assert!(count <= table.len(right), "the entries are there");
    for at in 0..count {
        let (key, value, tag) = (table.key(right, at), table.value(right, at), table.tag(right, at));
        let len = table.len(left);
        table.insert(left, len, key, value, tag);
    }
    (0..count).for_each(|_| table.remove(right, 0));
}

/// Moves a node's entries from index `from` on to the beginning of the same array in its right
/// neighbour.
fn to_right(table: &NodeArray, left: &mut [u8], from: usize, right: &mut [u8]) {
    for at in (from..table.len(left)).rev() {
        let (key, value, tag) = (table.key(left, at), table.value(left, at), table.tag(left, at));
        table.insert(right, 0, key, value, tag);
    }
    table.truncate(left, from);
    assert!(table.len(left) <= from, "what was moved is there no more");
}

/// Moves the content of the right node to the left node. If that would leave the left node nearly
/// full, balances the two nodes instead, so that each has about half. `pivot` is the key of the
/// pivot between the two nodes. Returns the key of the new pivot between them, or `None` if the
/// right node is now empty. The messages of both nodes must fit into one buffer.
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
            // The right node has no pivot left, and its last child has been moved.
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

/// Turns an empty page into a node without a buffer that has the pivots and children of the node
/// `from`. The buffer of `from` must be empty.
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

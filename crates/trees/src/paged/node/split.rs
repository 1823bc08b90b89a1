//! Splits nodes.

use super::format::{
    NodeArray, PageContentKind, child_at, child_of_value, clear, kind, level, own_pivots, set_first_child,
    set_head, set_own_pivots,
};
use super::layout::NodeShape;
use super::message::MessageList;

/// Returns the median of a leaf's keys and the keys of messages (thesis, section 5.7). If there are
/// no more messages than pairs fit into a leaf, the keys below the median fit into one leaf, and
/// the other keys into another.
pub(in crate::paged) fn union_median(pairs: &NodeArray, leaf: &[u8], messages: &MessageList) -> Vec<u8> {
    let (own, new) = (pairs.len(leaf), messages.len());
    assert!(
        own + new > 1 && new <= pairs.capacity(),
        "a leaf that overflows, and at most s messages"
    );
    let (mut at, mut of_new) = (0, 0);
    let is_own = |at: usize, of_new: usize| {
        of_new == new || (at < own && pairs.key(leaf, at) <= messages.get(of_new).key)
    };
    for _ in 0..(own + new) / 2 {
        if is_own(at, of_new) {
            at += 1;
        } else {
            of_new += 1;
        }
    }
    if is_own(at, of_new) {
        return pairs.key(leaf, at).to_vec();
    }
    messages.get(of_new).key.to_vec()
}

/// Moves those pairs of a leaf whose keys are at or above `key` to an empty page.
pub(in crate::paged) fn split_leaf(shape: &NodeShape, left: &mut [u8], right: &mut [u8], key: &[u8]) {
    set_head(right, PageContentKind::Leaf, 0);
    let from = shape.pairs.below(left, key);
    shape.pairs.move_to(left, from, right);
    assert!(shape.pairs.len(left) == from, "pairs below the median stay");
}

/// Splits an inner node at its middle pivot. The pivots after it move to an empty page, with their
/// children and messages. The middle pivot, which separates the two halves, is removed. Returns its
/// key.
pub(in crate::paged) fn split_inner(shape: &NodeShape, left: &mut [u8], right: &mut [u8]) -> Vec<u8> {
    let of = kind(left).unwrap_or(PageContentKind::Leaf);
    assert!(
        matches!(of, PageContentKind::Buffered | PageContentKind::Wide),
        "leaves are split at a key"
    );
    set_head(right, of, level(left));
    set_own_pivots(right, own_pivots(left));
    let table = shape.pivots_of(left);
    let middle = table.len(left) / 2;
    let pivot = table.key(left, middle).to_vec();
    set_first_child(right, child_of_value(table.value(left, middle)));
    table.move_to(left, middle + 1, right);
    table.truncate(left, middle);
    if of == PageContentKind::Buffered {
        let buffer = shape.buffer_of(left);
        let from = buffer.below(left, &pivot);
        buffer.move_to(left, from, right);
    }
    pivot
}

/// Moves the whole content of a node to an empty page.
pub(in crate::paged) fn move_node(shape: &NodeShape, from: &mut [u8], to: &mut [u8]) {
    let of = kind(from).unwrap_or(PageContentKind::Free);
    assert!(of != PageContentKind::Free, "a node is moved");
    set_head(to, of, level(from));
    set_own_pivots(to, own_pivots(from));
    if of == PageContentKind::Leaf {
        shape.pairs.move_to(from, 0, to);
    } else {
        let table = shape.pivots_of(from);
        set_first_child(to, child_at(&table, from, 0));
        table.move_to(from, 0, to);
        if of == PageContentKind::Buffered {
            shape.buffer_of(from).move_to(from, 0, to);
        }
    }
    clear(from);
}

#[cfg(test)]
mod tests {
    use super::super::format::add_pivot;
    use super::super::layout::TreeSizes;
    use super::super::message::{MessageAction, NodeMessage};
    use super::*;

    fn shape() -> NodeShape {
        let sizes = TreeSizes {
            key_limit: 4,
            value_limit: 4,
            epsilon_percent: 60,
        };
        NodeShape::new(472, sizes).unwrap()
    }

    fn messages(keys: &[u8]) -> MessageList {
        let mut messages = MessageList::new();
        for key in keys {
            messages.push(NodeMessage {
                key: &[*key],
                action: MessageAction::Insert,
                operand: b"",
            });
        }
        messages
    }

    #[test]
    fn after_a_split_at_the_median_of_the_union_every_message_fits() {
        let shape = shape();
        let s = shape.pairs.capacity();
        let mut rng = fastrand::Rng::with_seed(2);
        for _ in 0..2000 {
            let mut left = vec![0; shape.content_bytes];
            set_head(&mut left, PageContentKind::Leaf, 0);
            let mut keys: Vec<u8> = (0..=255).collect();
            rng.shuffle(&mut keys);
            let mut own = keys[..s].to_vec();
            own.sort_unstable();
            for (at, key) in own.iter().enumerate() {
                shape.pairs.insert(&mut left, at, &[*key], b"", None);
            }
            // There are at most s messages, either all at one end of the leaf or spread over it.
            let mut new: Vec<u8> = match rng.u8(..4) {
                0 => (0..s as u8).collect(),
                1 => (255 - s as u8..=254).collect(),
                2 => own.clone(),
                _ => keys[s / 2..s / 2 + s].to_vec(),
            };
            new.sort_unstable();
            let new = messages(&new);
            let median = union_median(&shape.pairs, &left, &new);
            let mut right = vec![0; shape.content_bytes];
            split_leaf(&shape, &mut left, &mut right, &median);
            let fresh = |leaf: &[u8], part: &MessageList| {
                let fresh = part
                    .iter()
                    .filter(|message| shape.pairs.find(leaf, message.key).is_err());
                shape.pairs.len(leaf) + fresh.count()
            };
            let [below, above] = new.split(&median);
            assert!(fresh(&left, &below) <= s && fresh(&right, &above) <= s);
            assert!(fresh(&left, &below) > 0 && fresh(&right, &above) > 0);
        }
    }

    #[test]
    fn halves_of_a_full_node_have_free_pivots_for_a_flush() {
        let shape = shape();
        let n = shape.pivots.capacity();
        let mut left = vec![0; shape.content_bytes];
        set_head(&mut left, PageContentKind::Buffered, 3);
        set_first_child(&mut left, 100);
        (0..n as u8).for_each(|at| add_pivot(&shape, &mut left, &[at * 10 + 10], 101 + u64::from(at)));
        for at in 0..shape.buffer.capacity() {
            let key = [at as u8 * 7];
            let place = shape.buffer.below(&left, &key);
            shape
                .buffer
                .insert(&mut left, place, &key, b"v", Some(MessageAction::Delete));
        }
        let mut right = vec![0; shape.content_bytes];
        let pivot = split_inner(&shape, &mut left, &mut right);
        assert_eq!((shape.validate(&left), shape.validate(&right)), (Ok(()), Ok(())));
        for half in [&left, &right] {
            assert!(shape.pivots.free(half) >= shape.most_addressed());
        }
        let of_left = (0..shape.buffer.len(&left)).all(|at| *shape.buffer.key(&left, at) < pivot[..]);
        let of_right = (0..shape.buffer.len(&right)).all(|at| *shape.buffer.key(&right, at) >= pivot[..]);
        assert!(of_left && of_right && level(&right) == 3);
        let (of, mut moved) = (left.clone(), vec![0; shape.content_bytes]);
        move_node(&shape, &mut left, &mut moved);
        assert!(kind(&left).is_none() && shape.validate(&moved).is_ok());
        assert_eq!(shape.pivots.len(&moved), shape.pivots.len(&of));
        assert_eq!(child_at(&shape.pivots, &moved, 0), 100);
    }
}

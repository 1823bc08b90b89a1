//! Lookups in inner nodes.

use super::{NodeArray, PageContentKind, kind, level};
use crate::paged::node::layout::NodeShape;
use crate::paged::node::message::MessageAction;

/// A reference from an inner node to one of its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::paged) struct ChildReference {
    /// The page number of the child.
    pub(in crate::paged) page: u64,
    /// 0 for the first child; otherwise 1 plus the slot number of its pivot. This number does not
    /// change when other pivots are inserted.
    #[cfg(feature = "couplings")]
    pub(in crate::paged) place: usize,
}

/// What a lookup of a key in an inner node found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::paged) struct ChildLookup {
    pub(in crate::paged) kind: Option<PageContentKind>,
    pub(in crate::paged) level: u8,
    /// The action of the buffered message for the key, if there is one.
    pub(in crate::paged) action: Option<MessageAction>,
    /// The reference to the child whose range contains the key.
    pub(in crate::paged) to: ChildReference,
}

/// Looks up a key in an inner node. If the node's buffer has a message for the key, copies its
/// operand into `operand`.
pub(in crate::paged) fn look(
    shape: &NodeShape,
    node: &[u8],
    key: &[u8],
    operand: &mut Vec<u8>,
) -> ChildLookup {
    let to = reference(shape, node, key);
    operand.clear();
    let mut action = None;
    if kind(node) == Some(PageContentKind::Buffered) {
        let buffer = shape.buffer_of(node);
        if let Ok(at) = buffer.find(node, key) {
            action = Some(buffer.action(node, at));
            operand.extend_from_slice(buffer.value(node, at));
        }
    }
    ChildLookup {
        kind: kind(node),
        level: level(node),
        action,
        to,
    }
}

/// Returns the reference to the child whose range contains a key.
fn reference(shape: &NodeShape, node: &[u8], key: &[u8]) -> ChildReference {
    let table = shape.pivots_of(node);
    reference_at(&table, node, super::child_index(&table, node, key))
}

/// Returns the reference to the child at an index.
pub(in crate::paged) fn reference_at(table: &NodeArray, node: &[u8], at: usize) -> ChildReference {
    ChildReference {
        page: super::child_at(table, node, at),
        #[cfg(feature = "couplings")]
        place: place_at(table, node, at),
    }
}

/// Returns the number that identifies a reference. Inserting other pivots does not change it.
#[cfg(feature = "couplings")]
fn place_at(table: &NodeArray, node: &[u8], at: usize) -> usize {
    let slot = at
        .checked_sub(1)
        .map(|pivot| super::u16_at(node, table.entry(pivot) + 8));
    assert!(
        slot.is_none_or(|slot| slot < table.capacity),
        "a pivot has a slot (PN1)"
    );
    slot.map_or(0, |slot| slot + 1)
}

#[cfg(all(test, feature = "couplings"))]
mod tests {
    use super::*;
    use crate::paged::node::{TreeSizes, add_pivot, set_first_child, set_head};

    fn shape(content_bytes: usize) -> NodeShape {
        let sizes = TreeSizes {
            key_limit: 11,
            value_limit: 13,
            epsilon_percent: 60,
        };
        NodeShape::new(content_bytes, sizes).unwrap()
    }

    #[test]
    fn a_reference_stays_in_its_place_when_others_come_in_between() {
        let shape = shape(472);
        let mut node = vec![0; shape.content_bytes];
        set_head(&mut node, PageContentKind::Wide, 1);
        set_first_child(&mut node, 10);
        add_pivot(&shape, &mut node, b"m", 11);
        let before = reference(&shape, &node, b"n");
        add_pivot(&shape, &mut node, b"c", 12);
        add_pivot(&shape, &mut node, b"p", 13);
        assert_eq!((reference(&shape, &node, b"n"), before.page), (before, 11));
        assert_eq!(
            reference(&shape, &node, b"a"),
            ChildReference { page: 10, place: 0 }
        );
    }
}

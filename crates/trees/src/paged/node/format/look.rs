//! What a reader looks for in a node with children.

use super::{Kind, Table, kind, level};
use crate::paged::node::layout::Shape;
use crate::paged::node::message::Action;

/// Where a node refers to a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::paged) struct Reference {
    /// The child.
    pub(in crate::paged) page: u64,
    /// 0 for the first child, else one more than the slot of its pivot: it stays where other
    /// pivots come in between.
    #[cfg(feature = "couplings")]
    pub(in crate::paged) place: usize,
}

/// What a node says about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::paged) struct Look {
    pub(in crate::paged) kind: Option<Kind>,
    pub(in crate::paged) level: u8,
    /// What the message of the key in the node's buffer does, if there is one.
    pub(in crate::paged) action: Option<Action>,
    /// The child of the key.
    pub(in crate::paged) to: Reference,
}

/// Looks for a key in a node with children. The operand of its message goes into `operand`.
pub(in crate::paged) fn look(shape: &Shape, node: &[u8], key: &[u8], operand: &mut Vec<u8>) -> Look {
    let to = reference(shape, node, key);
    operand.clear();
    let mut action = None;
    if kind(node) == Some(Kind::Buffered) {
        let buffer = shape.buffer_of(node);
        if let Ok(at) = buffer.find(node, key) {
            action = Some(buffer.action(node, at));
            operand.extend_from_slice(buffer.value(node, at));
        }
    }
    Look {
        kind: kind(node),
        level: level(node),
        action,
        to,
    }
}

/// Returns where a node refers to the child that a key belongs to.
fn reference(shape: &Shape, node: &[u8], key: &[u8]) -> Reference {
    let table = shape.pivots_of(node);
    reference_at(&table, node, super::child_index(&table, node, key))
}

/// Returns where a node refers to the child at a place.
pub(in crate::paged) fn reference_at(table: &Table, node: &[u8], at: usize) -> Reference {
    Reference {
        page: super::child_at(table, node, at),
        #[cfg(feature = "couplings")]
        place: place_at(table, node, at),
    }
}

/// Returns the place of a reference: where it is whatever comes in between.
#[cfg(feature = "couplings")]
fn place_at(table: &Table, node: &[u8], at: usize) -> usize {
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

    fn shape(content_bytes: usize) -> Shape {
        let sizes = TreeSizes {
            key_limit: 11,
            value_limit: 13,
            epsilon_percent: 60,
        };
        Shape::new(content_bytes, sizes).unwrap()
    }

    #[test]
    fn a_reference_stays_in_its_place_when_others_come_in_between() {
        let shape = shape(472);
        let mut node = vec![0; shape.content_bytes];
        set_head(&mut node, Kind::Wide, 1);
        set_first_child(&mut node, 10);
        add_pivot(&shape, &mut node, b"m", 11);
        let before = reference(&shape, &node, b"n");
        add_pivot(&shape, &mut node, b"c", 12);
        add_pivot(&shape, &mut node, b"p", 13);
        assert_eq!((reference(&shape, &node, b"n"), before.page), (before, 11));
        assert_eq!(reference(&shape, &node, b"a"), Reference { page: 10, place: 0 });
    }
}

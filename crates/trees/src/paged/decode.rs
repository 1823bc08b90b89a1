//! Decodes arbitrary bytes in each format of the page file and its journal, for fuzzing.

use super::buffer::{PAGE_HEADER, reread};
use super::node::{MessageAction, NodeShape, PageContentKind, TreeSizes, child_at, kind};
use super::structure::reread_value;
use super::{store, structure};

/// The limits that determine the node layout.
const SIZES: TreeSizes = TreeSizes {
    key_limit: 12,
    value_limit: 30,
    epsilon_percent: 50,
};

/// Decodes bytes in each of the page formats, and returns how many formats accept them. Whatever is
/// decoded is encoded again and compared with the input. The first 8 bytes may be an incorrect
/// checksum.
///
/// ```
/// use alluvium_trees::paged::{decode, examples};
/// assert!(examples().iter().all(|example| decode(example) > 0));
/// assert_eq!(decode(b""), 0);
/// ```
///
/// # Panics
/// If the decoded content is not encoded to the same bytes again.
#[must_use]
pub fn decode(bytes: &[u8]) -> usize {
    let node = |content: &[u8]| {
        let all = [
            NodeShape::new(content.len(), SIZES),
            NodeShape::adaptive(content.len(), SIZES),
        ];
        let is_node = all.into_iter().flatten().any(|shape| walk(&shape, content));
        is_node || structure::is_apart(content)
    };
    let found = [
        reread(bytes, &node),
        usize::from(node(bytes)),
        store::reread(bytes),
        reread_value(bytes),
    ];
    found.iter().sum()
}

/// Reads all parts of a node. Returns `false` if the bytes are not a valid node.
fn walk(shape: &NodeShape, node: &[u8]) -> bool {
    if shape.validate(node).is_err() {
        return false;
    }
    if kind(node) == Some(PageContentKind::Leaf) {
        for at in 0..shape.pairs.len(node) {
            let key = shape.pairs.key(node, at);
            let _ = reread_value(shape.pairs.value(node, at));
            assert_eq!(
                shape.pairs.find(node, key),
                Ok(at),
                "keys are found where they are"
            );
        }
    } else if matches!(
        kind(node),
        Some(PageContentKind::Wide | PageContentKind::Buffered)
    ) {
        let pivots = shape.pivots_of(node);
        (0..=pivots.len(node)).for_each(|at| {
            let _ = child_at(&pivots, node, at);
        });
    }
    if kind(node) == Some(PageContentKind::Buffered) {
        let buffer = shape.buffer_of(node);
        let messages = (0..buffer.len(node)).map(|at| buffer.message(node, at));
        let inserts = messages
            .filter(|message| message.action == MessageAction::Insert)
            .count();
        assert!(
            inserts <= buffer.capacity(),
            "a buffer has no more inserts than places"
        );
    }
    true
}

/// Returns examples of valid bytes for the formats.
#[must_use]
pub fn examples() -> Vec<Vec<u8>> {
    let mut all = super::buffer::examples();
    all.push(store::example());
    all.extend(structure::examples());
    let content = 512 - PAGE_HEADER;
    if let Ok(shape) = NodeShape::new(content, SIZES) {
        let mut leaf = vec![0; content];
        super::node::set_head(&mut leaf, PageContentKind::Leaf, 0);
        for (at, key) in [&b"Elbe"[..], b"Oder"].into_iter().enumerate() {
            shape
                .pairs
                .insert(&mut leaf, at, key, b"\x00\x07\x00\x00\x041094", None);
        }
        let mut inner = vec![0; content];
        super::node::set_head(&mut inner, PageContentKind::Buffered, 1);
        super::node::set_first_child(&mut inner, 3);
        super::node::add_pivot(&shape, &mut inner, b"Oder", 4);
        shape.buffer.insert(
            &mut inner,
            0,
            b"Elbe",
            b"\x00\x07\x00\x00\x041094",
            Some(MessageAction::Insert),
        );
        assert!(walk(&shape, &leaf) && walk(&shape, &inner), "they are nodes");
        all.extend([leaf, inner]);
    }
    if let Ok(shape) = NodeShape::adaptive(content, SIZES) {
        let mut inner = vec![0; content];
        super::node::set_head(&mut inner, PageContentKind::Buffered, 1);
        super::node::set_first_child(&mut inner, 3);
        super::node::add_pivot(&shape, &mut inner, b"Oder", 4);
        let widest = shape.nearest(&inner, usize::from(u16::MAX));
        shape.divide_node(&mut inner, widest);
        assert!(walk(&shape, &inner), "it is a node");
        all.push(inner);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_read_as_one_of_the_formats() {
        let read: Vec<usize> = examples().iter().map(|example| decode(example)).collect();
        assert!(read.iter().all(|formats| *formats > 0), "{read:?}");
    }
}

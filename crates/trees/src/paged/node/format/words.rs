//! Latch-free lookups in inner nodes that other threads may be modifying.
//!
//! The words may change at any time, so no length, slot number or count read from them is trusted.
//! The result is meaningless until the node's version has been validated.

use super::{
    ChildLookup, ChildReference, HEADER, NodeArray, OWN_AT, PageContentKind, SLOT_HEADER, head_of, kind,
};
use crate::paged::node::layout::{CHILD, NodeShape};
use crate::paged::node::message::MessageAction;
use std::cmp::Ordering;

/// The content of a node, as little-endian words of eight bytes.
pub(in crate::paged) trait NodeWords {
    /// Returns the word at index `at`, or 0 if `at` is past the end.
    fn word(&self, at: usize) -> u64;
}

fn u64_in(words: &(impl NodeWords + ?Sized), at: usize) -> u64 {
    let (word, shift) = (at / 8, 8 * (at % 8));
    if shift == 0 {
        return words.word(word);
    }
    words.word(word) >> shift | words.word(word + 1) << (64 - shift)
}

fn u16_in(words: &(impl NodeWords + ?Sized), at: usize) -> usize {
    (u64_in(words, at) & 0xffff) as usize
}

fn compare_in(words: &(impl NodeWords + ?Sized), at: usize, len: usize, key: &[u8]) -> Ordering {
    let byte = |at: usize| (words.word(at / 8) >> (8 * (at % 8))) as u8;
    (at..at + len).map(byte).cmp(key.iter().copied())
}

fn copy_in(words: &(impl NodeWords + ?Sized), at: usize, len: usize, into: &mut Vec<u8>) {
    for from in (0..len).step_by(8) {
        let word = u64_in(words, at + from);
        let bytes: [u8; 8] = std::array::from_fn(|byte| (word >> (8 * byte)) as u8);
        into.extend_from_slice(bytes.get(..len - from).unwrap_or(&bytes));
    }
}

impl NodeArray {
    fn slot_in(&self, words: &(impl NodeWords + ?Sized), at: usize) -> usize {
        u16_in(words, self.entry(at) + 8).min(self.capacity.saturating_sub(1))
    }

    /// Like [`NodeArray::find`], but in words that may change during the search.
    fn find_in(&self, words: &(impl NodeWords + ?Sized), key: &[u8]) -> Result<usize, usize> {
        let head = head_of(key);
        let (mut low, mut high) = (0, u16_in(words, self.count_at).min(self.capacity));
        let mut found = Err(0);
        while low < high {
            let middle = low.midpoint(high);
            let order = u64_in(words, self.entry(middle)).cmp(&head).then_with(|| {
                let slot = self.slot_at(self.slot_in(words, middle));
                let len = u16_in(words, slot).min(self.key_limit);
                compare_in(words, slot + SLOT_HEADER, len, key)
            });
            match order {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => {
                    found = Ok(middle);
                    break;
                }
                Ordering::Greater => high = middle,
            }
        }
        found.or(Err(low))
    }

    fn value_in(&self, words: &(impl NodeWords + ?Sized), at: usize, into: &mut Vec<u8>) {
        let slot = self.slot_at(self.slot_in(words, at));
        let len = u16_in(words, slot + 2).min(self.value_limit);
        copy_in(words, slot + SLOT_HEADER + self.key_limit, len, into);
    }
}

/// Like [`look`], but in words that may change during the lookup.
pub(in crate::paged) fn look_at(
    shape: &NodeShape,
    words: &(impl NodeWords + ?Sized),
    key: &[u8],
    operand: &mut Vec<u8>,
) -> ChildLookup {
    let [number, level] = [0, 8].map(|shift| (words.word(0) >> shift) as u8);
    let kind = kind(&[number]);
    let own = shape.divided(u16_in(words, OWN_AT));
    let (pivots, buffer) = own.unwrap_or((shape.pivots, shape.buffer));
    let table = match kind {
        Some(PageContentKind::Buffered) => pivots,
        _ => shape.wide,
    };
    let child = table.find_in(words, key).map_or_else(|at| at, |at| at + 1);
    let to = match child.checked_sub(1) {
        None => ChildReference {
            page: u64_in(words, HEADER - CHILD),
            place: 0,
        },
        Some(pivot) => {
            let slot = table.slot_in(words, pivot);
            ChildReference {
                page: u64_in(words, table.slot_at(slot) + SLOT_HEADER + table.key_limit),
                place: slot + 1,
            }
        }
    };
    operand.clear();
    let mut action = None;
    if kind == Some(PageContentKind::Buffered)
        && let Ok(at) = buffer.find_in(words, key)
    {
        let slot = buffer.slot_at(buffer.slot_in(words, at));
        action =
            Some(MessageAction::of((u64_in(words, slot + 4) & 0xff) as u8).unwrap_or(MessageAction::Insert));
        buffer.value_in(words, at, operand);
    }
    ChildLookup {
        kind,
        level,
        action,
        to,
    }
}

#[cfg(test)]
mod tests {
    use super::super::look;
    use super::*;
    use crate::paged::node::{TreeSizes, add_pivot, set_first_child, set_head};

    /// The words of a node that does not change.
    struct ConstantWords(Vec<u8>);

    impl NodeWords for ConstantWords {
        fn word(&self, at: usize) -> u64 {
            let bytes = self.0.iter().skip(8 * at).take(8).enumerate();
            bytes.fold(0, |word, (at, byte)| word | u64::from(*byte) << (8 * at))
        }
    }

    fn shape(content_bytes: usize) -> NodeShape {
        let sizes = TreeSizes {
            key_limit: 11,
            value_limit: 13,
            epsilon_percent: 60,
        };
        NodeShape::new(content_bytes, sizes).unwrap()
    }

    /// Returns a random key of one of several lengths. Many of these keys share their first eight
    /// bytes.
    fn draw(rng: &mut fastrand::Rng) -> Vec<u8> {
        let mut key = b"abcdefgh".to_vec();
        key.truncate(rng.usize(6..=8));
        key.extend((0..rng.usize(..=3)).map(|_| rng.u8(..4)));
        key
    }

    #[test]
    fn words_say_what_bytes_say() {
        let mut rng = fastrand::Rng::with_seed(11);
        // With this layout, the content ends in the middle of a word.
        let adaptive = shape(987).divided_by_nodes().unwrap();
        for shape in [shape(472), shape(987), adaptive] {
            for round in 0..400 {
                let kind = [PageContentKind::Wide, PageContentKind::Buffered][round % 2];
                let mut node = vec![0; shape.content_bytes];
                set_head(&mut node, kind, 3);
                set_first_child(&mut node, rng.u64(..));
                if let Some(bounds) = shape.own.filter(|_| kind == PageContentKind::Buffered) {
                    super::super::set_own_pivots(&mut node, rng.usize(bounds.least..=bounds.most) | 1);
                }
                let (pivots, buffer) = (shape.pivots_of(&node), shape.buffer_of(&node));
                for _ in 0..rng.usize(..=pivots.capacity()) {
                    let key = draw(&mut rng);
                    if pivots.find(&node, &key).is_err() {
                        add_pivot(&shape, &mut node, &key, rng.u64(..));
                    }
                }
                if pivots.len(&node) > 2 && rng.bool() {
                    pivots.remove(&mut node, 1);
                }
                for _ in 0..buffer.capacity() * (round % 2) {
                    let key = draw(&mut rng);
                    let operand: Vec<u8> = (0..rng.usize(..=13)).map(|_| rng.u8(..)).collect();
                    if let Err(at) = buffer.find(&node, &key) {
                        let action = MessageAction::of(rng.u8(1..=3));
                        buffer.insert(&mut node, at, &key, &operand, action);
                    }
                }
                let still = ConstantWords(node.clone());
                for _ in 0..50 {
                    let key = draw(&mut rng);
                    let (mut one, mut two) = (Vec::new(), Vec::new());
                    let expected = look(&shape, &node, &key, &mut one);
                    assert_eq!(look_at(&shape, &still, &key, &mut two), expected, "{key:?}");
                    assert_eq!(one, two);
                    assert_eq!(expected.to.page, crate::paged::node::child(&shape, &node, &key));
                }
            }
        }
    }

    #[test]
    fn words_of_anything_are_read_without_harm() {
        let mut rng = fastrand::Rng::with_seed(12);
        let shape = shape(472);
        for _ in 0..5000 {
            let mut bytes: Vec<u8> = (0..472).map(|_| rng.u8(..)).collect();
            bytes[0] = rng.u8(..6);
            look_at(&shape, &ConstantWords(bytes), &draw(&mut rng), &mut Vec::new());
        }
    }
}

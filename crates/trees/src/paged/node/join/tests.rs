use super::super::format::{add_pivot, value_of_child};
use super::super::layout::TreeSizes;
use super::super::message::MessageAction;
use super::*;

fn shape(epsilon_percent: u32) -> NodeShape {
    let sizes = TreeSizes {
        key_limit: 4,
        value_limit: 8,
        epsilon_percent,
    };
    NodeShape::new(984, sizes).unwrap()
}

fn key(number: usize) -> [u8; 2] {
    (number as u16).to_be_bytes()
}

/// Returns two neighbouring leaves with the given numbers of pairs.
fn leaves(shape: &NodeShape, of_left: usize, of_right: usize) -> [Vec<u8>; 2] {
    let mut nodes = [vec![0; shape.content_bytes], vec![0; shape.content_bytes]];
    let mut number = 0;
    for (node, len) in nodes.iter_mut().zip([of_left, of_right]) {
        set_head(node, PageContentKind::Leaf, 0);
        for at in 0..len {
            let value = vec![7; number % 9];
            shape.pairs.insert(node, at, &key(number), &value, None);
            number += 1;
        }
    }
    nodes
}

fn pairs(shape: &NodeShape, nodes: &[Vec<u8>]) -> Vec<(Vec<u8>, usize)> {
    let of = |node: &Vec<u8>| {
        let all = (0..shape.pairs.len(node)).map(|at| {
            (
                shape.pairs.key(node, at).to_vec(),
                shape.pairs.value(node, at).len(),
            )
        });
        all.collect::<Vec<_>>()
    };
    nodes.iter().flat_map(of).collect()
}

#[test]
fn two_leaves_become_one_or_have_half_each() {
    let shape = shape(60);
    let s = shape.pairs.capacity();
    for of_left in 0..=s {
        for of_right in 0..=s {
            let [mut left, mut right] = leaves(&shape, of_left, of_right);
            let is_small = of_left.min(of_right) < s / 4;
            let before = pairs(&shape, &[left.clone(), right.clone()]);
            let between = join(&shape, &mut left, &key(of_left), &mut right);
            assert_eq!(pairs(&shape, &[left.clone(), right.clone()]), before);
            assert_eq!((shape.validate(&left), shape.validate(&right)), (Ok(()), Ok(())));
            let Some(between) = between else {
                assert!(shape.pairs.is_empty(&right) && of_left + of_right <= s * 3 / 4);
                continue;
            };
            assert_eq!(shape.pairs.key(&right, 0), between);
            let is_sound = !is_under_full(&shape, &left) && !is_under_full(&shape, &right);
            assert!(is_sound, "{of_left} {of_right} of {s}");
            // If either node was under-full before, neither is nearly full now.
            let most = shape.pairs.len(&left).max(shape.pairs.len(&right));
            assert!(!is_small || most <= s * 3 / 4);
        }
    }
}

/// Returns two neighbouring inner nodes with the given numbers of pivots and messages, and the
/// pivot between them. Pivot p has child p + 1.
fn nodes(
    shape: &NodeShape,
    of: PageContentKind,
    pivots: [usize; 2],
    messages: [usize; 2],
) -> ([Vec<u8>; 2], Vec<u8>) {
    let mut nodes = [vec![0; shape.content_bytes], vec![0; shape.content_bytes]];
    let between = pivots[0] * 10 + 10;
    let mut next = 0;
    for (at, node) in nodes.iter_mut().enumerate() {
        set_head(node, of, 3);
        set_first_child(node, next as u64);
        next += 1;
        for _ in 0..pivots[at] {
            add_pivot(shape, node, &key(next * 10), next as u64);
            next += 1;
        }
        for message in 0..messages[at] {
            // The left node's messages are below the pivot, and are spread over its children.
            let (from, to) = match at {
                0 => (0, between),
                _ => (between, next * 10),
            };
            let number = from + message * (to - from) / messages[at].max(1);
            let place = shape.buffer.below(node, &key(number));
            if shape.buffer.find(node, &key(number)).is_err() {
                let action = MessageAction::of(message as u8 % 3 + 1);
                shape.buffer.insert(node, place, &key(number), b"v", action);
            }
        }
    }
    (nodes, key(between).to_vec())
}

/// The children of both nodes, the pivots between them, and the messages of both nodes.
type Whole = (Vec<u64>, Vec<Vec<u8>>, Vec<(Vec<u8>, MessageAction)>);

fn whole(shape: &NodeShape, nodes: &[&Vec<u8>], between: Option<&[u8]>) -> Whole {
    let mut whole = Whole::default();
    for (at, node) in nodes.iter().enumerate() {
        let pivots = shape.pivots_of(node);
        whole.1.extend(between.filter(|_| at > 0).map(<[u8]>::to_vec));
        for at in 0..=pivots.len(node) {
            whole.0.push(child_at(&pivots, node, at));
        }
        (0..pivots.len(node)).for_each(|at| whole.1.push(pivots.key(node, at).to_vec()));
        if kind(node) == Some(PageContentKind::Buffered) {
            let of = |at| (shape.buffer.key(node, at).to_vec(), shape.buffer.action(node, at));
            whole.2.extend((0..shape.buffer.len(node)).map(of));
        }
    }
    whole
}

#[test]
fn two_nodes_keep_their_children_and_messages() {
    for (epsilon, of) in [
        (0, PageContentKind::Buffered),
        (70, PageContentKind::Buffered),
        (85, PageContentKind::Buffered),
        (50, PageContentKind::Wide),
    ] {
        let shape = shape(epsilon);
        let table = match of {
            PageContentKind::Wide => shape.wide,
            _ => shape.pivots,
        };
        let (n, b) = (table.capacity(), shape.buffer.capacity());
        let mut rng = fastrand::Rng::with_seed(4);
        let (mut merged, mut shared) = (0, 0);
        for _ in 0..2000 {
            let few = rng.usize(0..=(n / 8).max(1));
            let counts = match rng.bool() {
                true => [few, rng.usize(..=n)],
                false => [rng.usize(..=n), few],
            };
            let messages = match of {
                PageContentKind::Wide => [0, 0],
                _ => {
                    let all = rng.usize(..=b);
                    let first = rng.usize(..=all);
                    [first, all - first]
                }
            };
            let ([mut left, mut right], between) = nodes(&shape, of, counts, messages);
            let before = whole(&shape, &[&left, &right], Some(&between));
            let joined = join(&shape, &mut left, &between, &mut right);
            let after = match &joined {
                None => whole(&shape, &[&left], None),
                Some(between) => whole(&shape, &[&left, &right], Some(between)),
            };
            assert_eq!(after, before, "{counts:?} {messages:?}");
            assert_eq!(shape.validate(&left), Ok(()));
            merged += u32::from(joined.is_none());
            let Some(between) = joined else {
                assert!(counts[0] + counts[1] < n, "{counts:?} of {n}");
                continue;
            };
            shared += 1;
            assert_eq!(shape.validate(&right), Ok(()));
            assert!(!is_under_full(&shape, &left) && !is_under_full(&shape, &right));
            assert!(table.len(&left).max(table.len(&right)) <= n * 9 / 16 + 2);
            if of == PageContentKind::Buffered {
                let (own, others) = (shape.buffer.len(&left), shape.buffer.len(&right));
                assert!((0..own).all(|at| *shape.buffer.key(&left, at) < between[..]));
                assert!((0..others).all(|at| *shape.buffer.key(&right, at) >= between[..]));
            }
        }
        assert!(merged > 100 && shared > 100, "{merged} {shared}");
    }
}

#[test]
fn a_node_without_messages_becomes_one_without_a_buffer() {
    let shape = shape(70);
    let ([left, _], _) = nodes(&shape, PageContentKind::Buffered, [5, 0], [0, 0]);
    let mut wide = vec![9; shape.content_bytes];
    without_buffer(&shape, &left, &mut wide);
    assert_eq!((kind(&wide), level(&wide)), (Some(PageContentKind::Wide), 3));
    assert_eq!(whole(&shape, &[&wide], None), whole(&shape, &[&left], None));
    assert_eq!(shape.validate(&wide), Ok(()));
    assert_eq!(value_of_child(5), shape.wide.value(&wide, 4));
}

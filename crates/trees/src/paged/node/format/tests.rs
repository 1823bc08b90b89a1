use super::super::layout::TreeSizes;
use super::*;
use alluvium_base::checksum;
use std::collections::BTreeMap;

fn shape() -> NodeShape {
    let sizes = TreeSizes {
        key_limit: 12,
        value_limit: 8,
        epsilon_percent: 50,
    };
    NodeShape::new(2008, sizes).unwrap()
}

/// Returns a node that has pivots and messages.
fn node(shape: &NodeShape) -> Vec<u8> {
    let mut node = vec![0; shape.content_bytes];
    set_head(&mut node, PageContentKind::Buffered, 2);
    set_first_child(&mut node, 7);
    add_pivot(shape, &mut node, b"middle", 8);
    add_pivot(shape, &mut node, b"early", 9);
    shape
        .buffer
        .insert(&mut node, 0, b"key", b"value", Some(MessageAction::Update));
    node
}

#[test]
fn the_bytes_of_version_1_do_not_change() {
    assert_eq!(checksum(&node(&shape())), 0xd38632ae775581bb);
}

#[test]
fn a_node_says_how_it_is_divided() {
    let sizes = TreeSizes {
        key_limit: 12,
        value_limit: 8,
        epsilon_percent: 50,
    };
    let shape = NodeShape::adaptive(2008, sizes).unwrap();
    let mut node = node(&shape);
    assert_eq!(node[6..8], [0, 0]);
    shape.divide_node(&mut node, 23);
    assert_eq!(node[6..8], [23, 0]);
    assert_eq!(checksum(&node), 0x35422ac00f136174);
}

#[test]
fn keys_lead_to_their_children() {
    let shape = shape();
    let node = node(&shape);
    for (key, expected) in [
        ("", 7),
        ("earlx", 7),
        ("early", 9),
        ("lot", 9),
        ("middle", 8),
        ("z", 8),
    ] {
        assert_eq!(child(&shape, &node, key.as_bytes()), expected, "{key}");
    }
    assert_eq!((kind(&node), level(&node)), (Some(PageContentKind::Buffered), 2));
    assert_eq!(shape.validate(&node), Ok(()));
}

#[test]
fn heads_sort_as_keys_do() {
    let keys: [&[u8]; 9] = [
        b"",
        b"\0",
        b"\0\0",
        b"a",
        b"a\0",
        b"a\0\x01",
        b"abcdefgh",
        b"abcdefgh\0",
        b"abcdefghi",
    ];
    for pair in keys.windows(2) {
        assert!(
            pair[0] < pair[1] && head_of(pair[0]) <= head_of(pair[1]),
            "{pair:?}"
        );
    }
    assert_eq!(head_of(b"abcdefgh"), head_of(b"abcdefghi"));
}

#[test]
fn an_array_agrees_with_a_map() {
    let shape = shape();
    let mut rng = fastrand::Rng::with_seed(8);
    let (table, mut node) = (shape.pairs, vec![0; shape.content_bytes]);
    set_head(&mut node, PageContentKind::Leaf, 0);
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for _ in 0..30_000 {
        let key: Vec<u8> = (0..rng.usize(..=12)).map(|_| rng.u8(..3)).collect();
        let value: Vec<u8> = (0..rng.usize(..=8)).map(|_| rng.u8(..)).collect();
        match table.find(&node, &key) {
            Ok(at) if rng.bool() => {
                table.remove(&mut node, at);
                assert!(model.remove(&key).is_some());
            }
            Ok(at) => {
                table.replace(&mut node, at, &value, None);
                assert!(model.insert(key, value).is_some());
            }
            Err(at) if table.free(&node) > 0 => {
                table.insert(&mut node, at, &key, &value, None);
                assert!(model.insert(key, value).is_none());
            }
            Err(_) => {
                let at = rng.usize(..table.len(&node));
                model.remove(table.key(&node, at));
                table.remove(&mut node, at);
            }
        }
        assert_eq!(table.len(&node), model.len());
    }
    assert_eq!(shape.validate(&node), Ok(()));
    for (at, (key, value)) in model.iter().enumerate() {
        assert_eq!(
            (table.key(&node, at), table.value(&node, at)),
            (&key[..], &value[..])
        );
    }
    let (half, mut other) = (table.len(&node) / 2, vec![0; shape.content_bytes]);
    set_head(&mut other, PageContentKind::Leaf, 0);
    table.move_to(&mut node, half, &mut other);
    assert_eq!((shape.validate(&node), shape.validate(&other)), (Ok(()), Ok(())));
    let keys = (0..half).map(|at| table.key(&node, at));
    let keys = keys.chain((0..table.len(&other)).map(|at| table.key(&other, at)));
    assert!(keys.eq(model.keys().map(Vec::as_slice)));
}

#[test]
fn runs_are_what_lies_between_pivots() {
    let shape = shape();
    let mut rng = fastrand::Rng::with_seed(3);
    for _ in 0..500 {
        let mut node = vec![0; shape.content_bytes];
        set_head(&mut node, PageContentKind::Buffered, 1);
        for table in [&shape.pivots, &shape.buffer] {
            for _ in 0..rng.usize(..=table.capacity()) {
                // Use keys that often have the same first eight bytes.
                let key = [b"abcdefgh", &vec![rng.u8(..9); rng.usize(..4)][..]].concat();
                if let Err(at) = table.find(&node, &key) {
                    table.insert(&mut node, at, &key, &[0; 8], Some(MessageAction::Insert));
                }
            }
        }
        let pivots = shape.pivots.len(&node);
        let mut ends: Vec<usize> = (0..pivots)
            .map(|at| shape.buffer.below(&node, shape.pivots.key(&node, at)))
            .collect();
        ends.push(shape.buffer.len(&node));
        let expected: Vec<usize> = (0..=pivots)
            .map(|at| ends[at] - at.checked_sub(1).map_or(0, |at| ends[at]))
            .collect();
        assert_eq!(shape.buffer.runs(&shape.pivots, &node), expected);
    }
}

#[test]
fn wrong_nodes_are_refused_and_no_bytes_make_reading_panic() {
    let shape = shape();
    let good = node(&shape);
    let mut rng = fastrand::Rng::with_seed(4);
    let mut refused = 0;
    for _ in 0..4000 {
        let mut wrong = good.clone();
        for _ in 0..rng.usize(1..4) {
            let at = if rng.bool() {
                rng.usize(..60)
            } else {
                rng.usize(..wrong.len())
            };
            wrong[at] = rng.u8(..);
        }
        refused += usize::from(shape.validate(&wrong).is_err());
        if shape.validate(&wrong).is_ok() {
            let table = shape.pivots_of(&wrong);
            let _ = (
                child(&shape, &wrong, b"lot"),
                table.len(&wrong),
                shape.buffer.below(&wrong, b"k"),
            );
        }
    }
    assert!(refused > 1000, "{refused}");
    let mut twice = good.clone();
    put(&mut twice, HEADER + ENTRY + 8, &1u16.to_le_bytes());
    assert!(shape.validate(&twice).unwrap_err().contains("slot 1 twice"));
    let mut level = good;
    level[1] = 0;
    assert!(shape.validate(&level).is_err());
}

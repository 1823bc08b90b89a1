//! Seeds for the targets of on-device structures.

use super::*;

/// The contents of an ordered map, and a root that holds them.
pub(crate) fn maps() -> Vec<Vec<u8>> {
    use alluvium_base as message;
    use alluvium_dictionary::blob::Root;
    use alluvium_trees::map::Entry;
    use alluvium_trees::map::format::encode;
    let entry = |sequence, kind, operand: &[u8]| Entry {
        sequence,
        kind,
        expires_ms: sequence,
        operand: operand.into(),
    };
    let keys = [
        (
            b"a".as_slice().into(),
            [
                entry(9, message::Kind::Merge, b"12"),
                entry(3, message::Kind::Put, b""),
            ]
            .into(),
        ),
        (
            b"ab".as_slice().into(),
            [entry(0, message::Kind::Put, b"value")].into(),
        ),
    ];
    let contents = encode(&keys.into_iter().collect());
    vec![Root::Here(&contents).encode(), contents]
}

/// The contents of levels with one run on each of two levels, and a root that holds them.
pub(crate) fn levels() -> Vec<Vec<u8>> {
    use alluvium_dictionary::blob::Root;
    use alluvium_trees::levels::format::{Contents, RunName};
    use alluvium_trees::levels::{Policy, Stitching};
    let at = |offset| NodePointer {
        offset,
        birth: 3,
        checksum: 7,
        encoded_len: 4096,
        tier: 0,
        pages: 1,
        codec: Codec::None,
    };
    let name = |ages, base, offset| RunName {
        ages,
        base,
        run: at(offset),
        maplet: at(offset + (1 << 17)),
    };
    let contents = Contents {
        fingerprint_bits: 40,
        policy: Policy::default(),
        next_age: 6,
        stitching: Stitching::split("samt,f=3,scan=8,always=2048")
            .expect("it is right")
            .1,
        levels: vec![vec![name((4, 5), 300, 0)], vec![name((0, 3), 0, 1 << 18)]],
    };
    let contents = contents.encode();
    vec![Root::Here(&contents).encode(), contents]
}

/// A page of a routing filter.
fn sketches() -> Vec<u8> {
    use alluvium_hashes::hashed::lists::{Coding, Draft, Sketch};
    let mut page = Draft::new(Coding {
        prefix_bits: 12,
        payload_bits: 4,
        parameter: 3,
    });
    for prefix in 0..100 {
        let payload = prefix % 16;
        page.push(
            Sketch {
                prefix: prefix * 31,
                payload,
            },
            4096,
        );
    }
    page.finish(alluvium_storage::PageSize::MIN)
}

/// A tree of one leaf, as a checkpoint lists it.
fn tree(run: alluvium_dictionary::values::ValuePointer) -> alluvium_hashes::hashed::trees::names::TreeName {
    use alluvium_hashes::hashed::trees::names::{ChildName, NodeName, TreeName};
    TreeName {
        is_settled: false,
        base_bits: 9,
        height: 1,
        root: NodeName {
            node: Some(run),
            digest: None,
            children: vec![ChildName::Leaf(Some(run))],
        },
    }
}

/// A leaf of a hashed structure, a page of a routing filter, and the list in a checkpoint.
pub(crate) fn hashed_structures() -> Vec<Vec<u8>> {
    use alluvium_dictionary::values::ValuePointer;
    use alluvium_hashes::hashed::format::{Contents, LevelName, PartName, RunName, YoungName};
    use alluvium_hashes::hashed::{HashedForm, IndexKind};
    let node = NodePointer {
        offset: 8192,
        birth: 3,
        checksum: 7,
        encoded_len: 4096,
        tier: 0,
        pages: 1,
        codec: Codec::None,
    };
    let run = ValuePointer {
        node,
        at: 0,
        len: 4000,
    };
    let level = |filter| LevelName {
        runs: vec![RunName { upto: 6, run }],
        filter,
        tree: None,
    };
    let contents = Contents {
        form: HashedForm::Silt,
        seed: 0,
        index: IndexKind::PaCHash,
        parts_log: 1,
        next_age: 7,
        young: vec![YoungName {
            age: 6,
            base: 300,
            run,
        }],
        parts: vec![
            PartName {
                upto: 6,
                levels: vec![level(None)],
            },
            PartName {
                upto: 4,
                levels: Vec::new(),
            },
        ],
    };
    let mut bundle = Contents {
        form: HashedForm::Boa {
            lambda: 4,
            refined: true,
        },
        seed: 9,
        ..contents.clone()
    };
    bundle.parts[0].levels = vec![level(Some(run))];
    let mut trees = bundle.clone();
    trees.form = HashedForm::Bot { lambda: 4 };
    trees.parts[0].levels = vec![LevelName {
        tree: Some(tree(run)),
        ..level(None)
    }];
    vec![
        contents.encode(),
        bundle.encode(),
        trees.encode(),
        hashed_leaf(),
        sketches(),
    ]
}

/// A leaf of a hashed structure.
fn hashed_leaf() -> Vec<u8> {
    use alluvium_hashes::hashed::leaf::Draft;
    use alluvium_hashes::hashed::leaf::format::{KeyPart, ValuePart};
    let mut draft = Draft::default();
    let put = (5, alluvium_base::Kind::Put, 0);
    draft.push(
        KeyPart::Here(b"Elbe"),
        Some(2),
        put,
        ValuePart::Here(b"1094"),
        4096,
    );
    draft.finish(alluvium_storage::PageSize::MIN)
}

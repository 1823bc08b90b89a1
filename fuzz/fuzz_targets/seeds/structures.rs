//! Seeds for the targets of on-device structures.

use super::*;

/// The contents of an ordered map, and a root that holds them.
pub(crate) fn maps() -> Vec<Vec<u8>> {
    use alluvium_base as message;
    use alluvium_dictionary::blob::BlobRoot;
    use alluvium_trees::map::MapRecord;
    use alluvium_trees::map::format::encode;
    let entry = |sequence, kind, operand: &[u8]| MapRecord {
        sequence,
        kind,
        expires_ms: sequence,
        operand: operand.into(),
    };
    let keys = [
        (
            b"a".as_slice().into(),
            [
                entry(9, message::MessageKind::Merge, b"12"),
                entry(3, message::MessageKind::Put, b""),
            ]
            .into(),
        ),
        (
            b"ab".as_slice().into(),
            [entry(0, message::MessageKind::Put, b"value")].into(),
        ),
    ];
    let contents = encode(&keys.into_iter().collect());
    vec![BlobRoot::Here(&contents).encode(), contents]
}

/// The contents of levels with one run on each of two levels, and a root that holds them.
pub(crate) fn levels() -> Vec<Vec<u8>> {
    use alluvium_dictionary::blob::BlobRoot;
    use alluvium_trees::levels::format::{LevelsContents, StoredLevelRun};
    use alluvium_trees::levels::{MergePolicy, StitchPolicy};
    let at = |offset| NodePointer {
        offset,
        birth: 3,
        checksum: 7,
        encoded_len: 4096,
        tier: 0,
        pages: 1,
        codec: NodeCodec::None,
    };
    let name = |ages, base, offset| StoredLevelRun {
        ages,
        base,
        run: at(offset),
        maplet: at(offset + (1 << 17)),
        range: alluvium_dictionary::range::KeyRange::new(b"", None),
    };
    let contents = LevelsContents {
        fingerprint_bits: 40,
        policy: MergePolicy::default(),
        next_age: 6,
        stitching: StitchPolicy::split("samt,f=3,scan=8,always=2048")
            .expect("it is right")
            .1,
        levels: vec![vec![name((4, 5), 300, 0)], vec![name((0, 3), 0, 1 << 18)]],
    };
    let contents = contents.encode();
    vec![BlobRoot::Here(&contents).encode(), contents]
}

/// A page of a routing filter.
fn sketches() -> Vec<u8> {
    use alluvium_hashes::hashed::lists::{PrefixSketch, SketchEncoding, SketchPageBuilder};
    let mut page = SketchPageBuilder::new(SketchEncoding {
        prefix_bits: 12,
        payload_bits: 4,
        parameter: 3,
    });
    for prefix in 0..100 {
        let payload = prefix % 16;
        page.push(
            PrefixSketch {
                prefix: prefix * 31,
                payload,
            },
            4096,
        );
    }
    page.finish(alluvium_storage::PageSize::MIN)
}

/// A tree of one leaf, as a checkpoint lists it.
fn tree(
    run: alluvium_dictionary::value_log::ValuePointer,
) -> alluvium_hashes::hashed::trees::names::TreeName {
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
    use alluvium_dictionary::value_log::ValuePointer;
    use alluvium_hashes::hashed::format::{HashStoreName, HashedContents, LevelName, LevelRunName, PartName};
    use alluvium_hashes::hashed::{HashedForm, IndexKind};
    let node = NodePointer {
        offset: 8192,
        birth: 3,
        checksum: 7,
        encoded_len: 4096,
        tier: 0,
        pages: 1,
        codec: NodeCodec::None,
    };
    let run = ValuePointer {
        node,
        at: 0,
        len: 4000,
    };
    let level = |filter| LevelName {
        runs: vec![LevelRunName { upto: 6, run }],
        filter,
        tree: None,
    };
    let contents = HashedContents {
        form: HashedForm::Silt,
        seed: 0,
        index: IndexKind::PaCHash,
        parts_log: 1,
        next_age: 7,
        young: vec![HashStoreName {
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
    let mut bundle = HashedContents {
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
    use alluvium_hashes::hashed::leaf::HashLeafBuilder;
    use alluvium_hashes::hashed::leaf::format::{KeyPart, ValuePart};
    let mut draft = HashLeafBuilder::default();
    let put = (5, alluvium_base::MessageKind::Put, 0);
    draft.push(
        KeyPart::Here(b"Elbe"),
        Some(2),
        put,
        ValuePart::Here(b"1094"),
        4096,
    );
    draft.finish(alluvium_storage::PageSize::MIN)
}

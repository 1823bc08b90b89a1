//! Tests the structure of runs: the sizes of their leaves, and the levels of their index.

use super::*;
use crate::run::load::load_from;
use crate::run::path::{IndexPath, PathTarget};
use alluvium_dictionary::nodes::DirectNodeReader;
use alluvium_dictionary::record::RecordValue;

/// Returns the largest number of records in any leaf of the run.
pub(super) fn most_records_in_a_leaf(store: &Store, run: &IndexedRun) -> u64 {
    let guard = store.epochs().pin();
    let (cache, purpose) = (store.cache(), Purpose::Other);
    let mut path = IndexPath::seek(run, PathTarget::Start, cache, &guard, purpose)
        .unwrap()
        .unwrap();
    let mut most = path.child().unwrap().sums.records;
    while path.next(cache, &guard, purpose).unwrap() {
        most = most.max(path.child().unwrap().sums.records);
    }
    most
}

#[test]
fn small_records_cost_little_on_disk() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut model = Model::new();
    for sequence in 1..=50_000 {
        let mut key = vec![0; 24];
        random.fill(&mut key);
        model.insert((key, Reverse(sequence)), put([7; 100]));
    }
    let store = store_with(4096, 16 << 20);
    let built = build(&store, &options(), &model);
    let bytes: u64 = built.extents.iter().map(|(_, live)| live).sum();
    let per_byte = bytes as f64 / (124.0 * 50_000.0);
    assert!(per_byte <= 1.05, "{per_byte} bytes a byte");
}

#[test]
fn the_nodes_of_a_run_are_the_same_whenever_it_is_built() {
    let mut random = fastrand::Rng::with_seed(2);
    let mut model = Model::new();
    for _ in 0..5000 {
        model.insert(
            (random.u32(..).to_be_bytes().to_vec(), Reverse(random.u64(..9))),
            put([1; 50]),
        );
    }
    let footer = |_| {
        let store = store();
        let run = run_of(&store, &options(), &model);
        let nodes = DirectNodeReader {
            tiers: store.tiers(),
            page_size: store.page_size(),
            purpose: Purpose::Other,
        };
        load_from(&nodes, run.pointer()).unwrap()
    };
    let [first, second] = [0, 1].map(footer);
    assert!(first == second);
}

#[test]
fn no_leaf_and_no_node_of_values_holds_records_of_two_keyspaces() {
    let store = store();
    let mut builder = RunBuilder::new(&store, &options()).unwrap();
    let codecs = [
        NodeCodec::None,
        NodeCodec::Lz4,
        NodeCodec::Zstd,
        NodeCodec::None,
        NodeCodec::Lz4,
    ];
    let mut keys = Vec::new();
    for (keyspace, codec) in (b'a'..).zip(codecs) {
        builder.begin_keyspace(codec, Some(30)).unwrap();
        // One keyspace has no records, one has a single record, and the others have many.
        for number in 0..[0, 1, 900, 30, 900][usize::from(keyspace - b'a')] {
            let key = [&[keyspace], format!("{number:05}").as_bytes()].concat();
            let value = put(vec![7; if number % 3 == 0 { 200 } else { 20 }]);
            builder.push(&key, record(1, &value)).unwrap();
            keys.push((key, codec));
        }
    }
    let built = builder.finish().unwrap().unwrap();
    store.extents().install(&built.extents);
    let guard = store.epochs().pin();
    let mut owners: BTreeMap<u64, u8> = BTreeMap::new();
    let mut owned = |node: &NodePointer, key: &[u8], codec: NodeCodec| {
        assert_eq!(*owners.entry(node.offset).or_insert(key[0]), key[0], "{node:?}");
        // Compressing a node of one page saves no space, so it is stored uncompressed.
        assert!(
            node.codec == codec || (node.pages == 1 && codec != NodeCodec::None),
            "{node:?}"
        );
    };
    for (key, codec) in &keys {
        let leaf = built
            .run
            .locate(key, store.cache(), &guard, Purpose::Other)
            .unwrap()
            .unwrap();
        owned(&leaf, key, *codec);
        built
            .run
            .find(key, 1, store.cache(), &guard, Purpose::Other, |record| {
                if let RecordValue::Separate(pointer) = record.value {
                    owned(&pointer.node, key, *codec);
                }
                Ok(ControlFlow::Break(()))
            })
            .unwrap();
    }
    assert_eq!(built.run.check(&store), []);
    assert_eq!(built.run.summary().separate, 1 + 300 + 10 + 300);
}

#[test]
fn a_tall_run_is_walked_both_ways() {
    // The long separators give the index many levels, although there are few records.
    let mut random = fastrand::Rng::with_seed(3);
    let mut model = Model::new();
    for number in 0..3000u32 {
        let mut key = vec![b'k'; 900];
        key.extend_from_slice(format!("{number:06}").as_bytes());
        key.extend(std::iter::repeat_n(b'k', random.usize(..200)));
        model.insert((key, Reverse(random.u64(1..9))), put([3; 40]));
    }
    let store = store_with(4096, 16 << 20);
    let options = RunOptions {
        leaf_pages: Some(1),
        ..options()
    };
    let run = run_of(&store, &options, &model);
    compare(&store, &run, &model, &mut random, "tall");
    // The separators have long, distinct suffixes, so each index node has two or three children.
    let mut model = Model::new();
    for number in 0..400u32 {
        let key = [
            random.u64(..).to_be_bytes().repeat(312),
            number.to_be_bytes().to_vec(),
        ]
        .concat();
        let mut twin = key.clone();
        twin.push(1);
        model.insert((key, Reverse(1)), put([3; 1000]));
        model.insert((twin, Reverse(1)), put([3; 1000]));
    }
    let run = run_of(&store, &options, &model);
    assert!(run.height() >= 3, "height {}", run.height());
    compare(&store, &run, &model, &mut random, "taller");
}

#[test]
#[should_panic(expected = "keys ascend")]
fn a_key_out_of_order_is_a_bug_of_the_caller() {
    let store = store();
    let mut builder = RunBuilder::new(&store, &options()).unwrap();
    builder.push(b"b", Message::put(1, b"").into()).unwrap();
    builder.push(b"a", Message::put(2, b"").into()).unwrap();
}

#[test]
#[should_panic(expected = "newest first")]
fn a_version_out_of_order_is_a_bug_of_the_caller() {
    let store = store();
    let mut builder = RunBuilder::new(&store, &options()).unwrap();
    builder.push(b"b", Message::put(1, b"").into()).unwrap();
    builder.push(b"b", Message::put(1, b"").into()).unwrap();
}

#[test]
fn options_that_cannot_be_followed_are_refused() {
    let store = store();
    for options in [
        RunOptions {
            value_threshold: Some(16385),
            ..options()
        },
        RunOptions {
            leaf_pages: Some(0),
            ..options()
        },
        RunOptions {
            leaf_pages: Some(17),
            ..options()
        },
    ] {
        assert!(matches!(
            RunBuilder::new(&store, &options),
            Err(Error::BadOption { .. })
        ));
    }
}

#[test]
fn runs_and_cursors_go_where_they_are_wanted() {
    fn free<T: Send + 'static>(what: T) -> T {
        what
    }
    let store = store();
    let model = Model::from([((b"key".to_vec(), Reverse(1)), put("value"))]);
    let run = free(run_of(&store, &options(), &model));
    for access in WAYS {
        let mut cursor = free(run.cursor(&store, KeyRange::everything(), MergeDirection::Forward, access));
        cursor.start().unwrap();
        let found = std::thread::spawn(move || cursor.key().map(<[u8]>::to_vec)).join();
        assert_eq!(found.unwrap().as_deref(), Some(&b"key"[..]));
    }
    assert!(run.memory_bytes() > 300);
}

#[test]
fn sweeps_hand_out_what_is_plain_and_stop_before_everything_else() {
    let store = store();
    let mut swept = 0;
    for seed in 0..12 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut model = Model::new();
        for number in 0..1500u32 {
            // Some keys have more versions than fit into one leaf.
            let versions = match random.u32(..60) {
                0 => random.u64(2..80),
                1 => 2,
                _ => 1,
            };
            let newest = random.u64(80..200);
            for age in 0..versions {
                let value = vec![random.u8(..); random.usize(40..200)];
                let key = format!("a beginning {number:06}").into_bytes();
                model.insert((key, Reverse(newest - age)), put(value));
            }
        }
        let run = run_of(&store, &options(), &model);
        for direction in BOTH {
            for access in WAYS {
                let hint = format!("seed {seed}: {direction:?} {access:?}");
                let high = format!("a beginning {:06}", random.u32(700..1600)).into_bytes();
                let low = format!("a beginning {:06}", random.u32(..600)).into_bytes();
                let range = KeyRange::new(&low, Some(&high));
                let wanted = expected(&model, &range, direction);
                let mut cursor = run.cursor(&store, range, direction, access);
                cursor.expect(random.usize(1..64));
                cursor.start().unwrap();
                swept += sweep(&store, &mut cursor, direction, &wanted, &mut random, &hint);
            }
        }
    }
    assert!(swept > 10_000, "{swept} records");
}

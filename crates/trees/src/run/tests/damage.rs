//! Tests with damaged nodes. Damage must be reported as an error, and must never cause a wrong
//! result or a panic.

use super::*;
use alluvium_dictionary::read::DataFiles;

/// Every kind of reader must detect damage in any node of a run.
#[test]
fn a_flipped_byte_in_any_node_is_an_error_and_never_a_wrong_answer() {
    let store = store_with(4096, 1 << 20);
    let mut model = Model::new();
    for number in 0..3000u32 {
        let value = vec![number as u8; if number % 50 == 0 { 3000 } else { 60 }];
        model.insert(
            (
                format!("{number:06}").into_bytes(),
                Reverse(u64::from(number % 30) + 1),
            ),
            put(value),
        );
    }
    model.insert((vec![b'9'; 60_000], Reverse(1)), put("long key"));
    model.insert(
        ([&[b'9'; 60_000][..], b"x"].concat(), Reverse(1)),
        put("long key"),
    );
    let run = run_of(&store, &options(), &model);
    let everything = expected(&model, &KeyRange::everything(), MergeDirection::Forward);
    let mut random = fastrand::Rng::with_seed(11);
    let (mut noticed, mut rounds) = (0, 0);
    for used in run.extents() {
        for _ in 0..20 {
            rounds += 1;
            let at = used.extent.offset() + random.u64(..used.extent.bytes());
            flip(&store, at);
            let found = !run.check(&store).is_empty();
            noticed += u32::from(found);
            for access in WAYS {
                for direction in BOTH {
                    let mut cursor = run.cursor(&store, KeyRange::everything(), direction, access);
                    let all = cursor.start().and_then(|()| drain(&store, &mut cursor));
                    if let Ok(mut all) = all {
                        all.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
                        assert!(
                            all == everything,
                            "{access:?} {direction:?} with byte {at} flipped"
                        );
                    }
                }
            }
            let key = format!("{:06}", random.u32(..3000)).into_bytes();
            if let Ok(versions) = find(&store, &run, &key, 99) {
                assert_eq!(versions.len(), 1, "byte {at}");
            }
            assert!(IndexedRun::open(&store, run.pointer(), Purpose::Other).is_ok() || found);
            flip(&store, at);
        }
    }
    assert!(noticed > rounds / 2, "{noticed} of {rounds}");
    assert_eq!(run.check(&store), []);
}

#[test]
fn damaged_nodes_that_are_left_out_are_passed_by_either_way() {
    let store = store_with(4096, 8 << 20);
    let mut model = Model::new();
    for number in 0..20_000u32 {
        let key = format!("{number:06}").into_bytes();
        model.insert((key, Reverse(1)), put(vec![number as u8; 100]));
    }
    let run = run_of(&store, &options(), &model);
    let (layout, root) = run.inner.root.as_ref().unwrap();
    assert!(layout.level == 2 && layout.children > 2, "{layout:?}");
    let index = layout.child(root, 1, store.page_size()).unwrap().pointer;
    let guard = store.epochs().pin();
    let leaf = |key: &[u8]| {
        let found = run.locate(key, store.cache(), &guard, Purpose::Other);
        found.unwrap().unwrap()
    };
    for damaged in [leaf(b"000000"), index, leaf(b"019999")] {
        flip(&store, damaged.offset + 50);
    }
    let damaged = run.damaged_within(DataFiles::of(&store), &[KeyRange::everything()]);
    assert_eq!(
        damaged.iter().map(|node| node.holds).collect::<Vec<_>>(),
        [NodeContents::Records, NodeContents::Nodes, NodeContents::Records]
    );
    let gone = |key: &[u8]| damaged.iter().any(|node| node.range.contains(key));
    let mut sound = model.clone();
    sound.retain(|(key, _), _| !gone(key));
    let records: u64 = damaged.iter().map(|node| node.records).sum();
    assert_eq!(records, (model.len() - sound.len()) as u64);
    run.leave_out(damaged.iter().map(|node| node.pointer).collect());
    for access in WAYS {
        for direction in BOTH {
            let mut cursor = run.cursor(&store, KeyRange::everything(), direction, access);
            cursor.start().unwrap();
            let all = drain(&store, &mut cursor).unwrap();
            assert!(
                all == expected(&sound, &KeyRange::everything(), direction),
                "{access:?} {direction:?}"
            );
        }
    }
}

/// Flips one bit on the device. A second call with the same offset flips it back.
fn flip(store: &Store, at: u64) {
    let file = store.tiers().get(0).unwrap();
    let block = at / 512 * 512;
    let mut bytes = file.read_at(block, 512, Purpose::Other).unwrap();
    bytes[(at - block) as usize] ^= 8;
    file.write_at(block, bytes, Purpose::Other).unwrap();
}

/// Whatever bytes a leaf or an index node contains, decoding it must not panic.
#[test]
fn nodes_of_any_bytes_do_not_panic() {
    let store = store();
    let mut model = Model::new();
    for number in 0..60u32 {
        let key = format!("key{:04}", number / 2).into_bytes();
        let mut record = put(vec![1; number as usize]);
        record.expires_ms = u64::from(number % 3);
        model.insert((key, Reverse(u64::from(number) + 1)), record);
    }
    let options = RunOptions {
        leaf_keys: true,
        ..options()
    };
    let run = run_of(&store, &options, &model);
    let guard = store.epochs().pin();
    let pointer = run
        .locate(b"key0003", store.cache(), &guard, Purpose::Other)
        .unwrap()
        .unwrap();
    let leaf = store
        .cache()
        .get(&pointer, &guard, Purpose::Other)
        .unwrap()
        .to_vec();
    let (_, root) = run.inner.root.clone().unwrap();
    let mut random = fastrand::Rng::with_seed(12);
    for _ in 0..30_000 {
        let mut bytes = if random.bool() { leaf.clone() } else { root.clone() };
        for _ in 0..random.usize(1..4) {
            // Change a byte in the header, or among the leaf keys at the end of an index node.
            let at = random.usize(..bytes.len().min(160));
            let at = if random.u8(..4) == 0 {
                bytes.len() - 1 - at
            } else {
                at
            };
            bytes[at] = random.u8(..);
        }
        bytes.truncate(random.usize(..=bytes.len()));
        let _ = examine(&bytes, PageSize::MIN);
    }
}

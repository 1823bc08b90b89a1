//! Compares runs of all kinds with a model, which is an ordered map in memory.

use super::*;
use alluvium_dictionary::record::MAX_KEY;

/// Returns random records. Keys vary in length and have several versions. Some records are deletes,
/// merges or puts that expire, and some have long values.
fn random_model(random: &mut fastrand::Rng, records: usize, shape: u8) -> Model {
    let mut model = Model::new();
    let mut key = Vec::new();
    let mut sequence = 30;
    while model.len() < records {
        if model.is_empty() || sequence <= 1 || random.u8(..3) > 0 {
            key = match shape % 3 {
                0 => random.u64(..).to_be_bytes().to_vec(),
                1 => format!("user{:08}", random.u32(..100_000_000)).into_bytes(),
                _ => (0..random.usize(..20)).map(|_| random.u8(b'a'..=b'c')).collect(),
            };
            sequence = random.u64(10..40);
        }
        sequence -= random.u64(1..=sequence.min(5));
        let len = match shape / 3 % 3 {
            0 => 20,
            1 => random.usize(..300),
            _ if random.u8(..40) == 0 => random.usize(..20_000),
            _ => random.usize(..30),
        };
        let value: Vec<u8> = (0..len).map(|_| random.u8(b'a'..=b'f')).collect();
        let record = match (shape / 9 % 2, random.u8(..8)) {
            (1, 0) => Owned {
                kind: MessageKind::Delete,
                ..put("")
            },
            (1, 1) => Owned {
                kind: MessageKind::Merge,
                ..put(value)
            },
            (1, 2) => Owned {
                expires_ms: 1 + (random.u64(..) >> 1 >> shape),
                ..put(value)
            },
            _ => put(value),
        };
        model.insert((key.clone(), Reverse(sequence)), record);
    }
    model
}

#[test]
fn runs_of_every_kind_say_what_the_map_says() {
    for seed in 0..36u64 {
        let mut random = fastrand::Rng::with_seed(seed);
        let records = [1, 5, 300, 4000][seed as usize % 4];
        let model = random_model(&mut random, records, seed as u8);
        let options = RunOptions {
            codec: [NodeCodec::None, NodeCodec::Lz4, NodeCodec::Zstd][random.usize(..3)],
            value_threshold: [None, Some(0), Some(64), Some(16384)][random.usize(..4)],
            leaf_pages: [None, None, Some(1), Some(16)][random.usize(..4)],
            leaf_keys: random.bool(),
            ..options()
        };
        let store = store_with([4096, 16384, 65536][random.usize(..3)], 32 << 20);
        let run = run_of(&store, &options, &model);
        let again = IndexedRun::open(&store, run.pointer(), Purpose::Other).unwrap();
        assert_eq!(again.summary(), run.summary());
        assert_eq!(again.extents(), run.extents());
        assert_eq!((again.low(), again.high()), (run.low(), run.high()));
        compare(
            &store,
            &again,
            &model,
            &mut random,
            &format!("seed {seed}, {options:?}"),
        );
    }
}

#[test]
fn a_summary_counts_what_was_pushed() {
    let mut random = fastrand::Rng::with_seed(99);
    let model = random_model(&mut random, 3000, 15);
    let store = store();
    let built = build(&store, &options(), &model);
    let summary = *built.run.summary();
    let count = |kind| model.values().filter(|record| record.kind == kind).count() as u64;
    assert_eq!(summary.records, model.len() as u64);
    assert_eq!(
        (summary.tombstones, summary.merges),
        (count(MessageKind::Delete), count(MessageKind::Merge))
    );
    let sequences = model.keys().map(|(_, Reverse(sequence))| *sequence);
    assert_eq!(Some(summary.lowest_sequence), sequences.clone().min());
    assert_eq!(Some(summary.highest_sequence), sequences.max());
    let expiries = model
        .values()
        .map(|record| record.expires_ms)
        .filter(|&expiry| expiry > 0);
    assert_eq!(Some(summary.earliest_expiry_ms), expiries.min());
    let mut keys: Vec<&[u8]> = model.keys().map(|(key, _)| key.as_slice()).collect();
    keys.dedup();
    let hashes: Vec<u64> = keys.iter().map(|key| alluvium_filters::hash(0, key)).collect();
    assert_eq!(summary.keys, keys.len() as u64);
    assert_eq!(built.hashes, hashes);
    assert_eq!(
        (built.run.low(), built.run.high()),
        (keys[0], keys[keys.len() - 1])
    );
    built.abandon(&store);
    assert_eq!(store.extents().usage().total().provisional_bytes, 0);
}

#[test]
fn versions_of_one_key_may_fill_many_leaves() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut model = Model::new();
    for sequence in 1..3000u64 {
        model.insert((b"m".to_vec(), Reverse(sequence)), put(vec![sequence as u8; 40]));
    }
    for sequence in 1..400u64 {
        model.insert((b"n".to_vec(), Reverse(sequence)), put(vec![sequence as u8; 40]));
        model.insert((vec![b'k', sequence as u8], Reverse(sequence)), put("x"));
        model.insert((vec![b'p', sequence as u8], Reverse(sequence)), put("x"));
    }
    let store = store();
    let run = run_of(&store, &options(), &model);
    assert!(run.height() > 0 && run.summary().leaves > 30);
    compare(&store, &run, &model, &mut random, "versions");
    for at in [1, 2, 1500, 2999] {
        let found = find(&store, &run, b"m", at).unwrap();
        assert_eq!(found.len() as u64, at);
        assert_eq!(found[0].0, at);
    }
    let newest = {
        let guard = store.epochs().pin();
        let mut seen = 0;
        run.find(b"m", u64::MAX, store.cache(), &guard, Purpose::Other, |_| {
            seen += 1;
            Ok(ControlFlow::Break(()))
        })
        .unwrap();
        seen
    };
    assert_eq!(newest, 1, "a search that is broken off visits no more");
}

#[test]
fn long_keys_and_empty_ones_are_keys_like_any_other() {
    let mut random = fastrand::Rng::with_seed(6);
    let store = store_with(4096, 16 << 20);
    for (seed, common) in [(1, 0), (2, 60_000), (3, 65_000)] {
        let mut model = Model::new();
        model.insert((Vec::new(), Reverse(3)), put("empty"));
        model.insert((Vec::new(), Reverse(2)), put(vec![7; 5000]));
        for number in 0..200u32 {
            let mut key = vec![b'x'; common];
            key.extend_from_slice(format!("{number:04}").as_bytes());
            key.resize(key.len() + random.usize(..=MAX_KEY - key.len()), b'y');
            model.insert(
                (key, Reverse(u64::from(number % 30) + 1)),
                put(vec![number as u8; 2000]),
            );
        }
        model.insert((vec![b'z'; MAX_KEY], Reverse(1)), put("longest"));
        for page in [None, Some(1), Some(16)] {
            let options = RunOptions {
                leaf_pages: page,
                value_threshold: Some(3000),
                leaf_keys: page == Some(1),
                ..options()
            };
            let run = run_of(&store, &options, &model);
            let run = IndexedRun::open(&store, run.pointer(), Purpose::Other).unwrap();
            compare(&store, &run, &model, &mut random, &format!("long keys {seed}"));
            let epoch = store.epochs().current();
            for used in run.extents() {
                store.extents().release(used.extent, epoch);
            }
        }
    }
}

#[test]
fn nothing_pushed_is_no_run_and_range_deletes_alone_are_one() {
    let store = store();
    assert!(
        RunBuilder::new(&store, &options())
            .unwrap()
            .finish()
            .unwrap()
            .is_none()
    );
    let mut builder = RunBuilder::new(&store, &options()).unwrap();
    builder.delete_range(b"m", b"p", 9);
    builder.delete_range(b"c", b"n", 4);
    builder.delete_range(b"q", b"q", 1);
    let built = builder.finish().unwrap().unwrap();
    store.extents().install(&built.extents);
    let run = IndexedRun::open(&store, built.run.pointer(), Purpose::Other).unwrap();
    assert_eq!(run.check(&store), []);
    assert_eq!((run.low(), run.high(), run.height()), (&b"c"[..], &b"p"[..], 0));
    assert_eq!((run.summary().range_deletes, run.summary().records), (2, 0));
    assert_eq!(
        (run.summary().lowest_sequence, run.summary().highest_sequence),
        (4, 9)
    );
    assert_eq!(run.range_deletes().covering(b"mm", 100), Some(9));
    assert_eq!(run.range_deletes().covering(b"mm", 8), Some(4));
    assert_eq!(find(&store, &run, b"mm", 100).unwrap(), []);
    for direction in BOTH {
        let mut cursor = run.cursor(&store, KeyRange::everything(), direction, CursorAccess::Cached);
        cursor.start().unwrap();
        assert_eq!(cursor.key(), None);
    }
    let guard = store.epochs().pin();
    let weight = run.weigh(&KeyRange::everything(), store.cache(), &guard, Purpose::Other);
    assert_eq!(weight.unwrap(), RangeWeight::default());
}

#[test]
fn range_deletes_come_back_with_the_records() {
    let store = store();
    let mut builder = RunBuilder::new(&store, &options()).unwrap();
    builder.delete_range(b"a", b"c", 7);
    for number in 0..500u32 {
        let key = format!("b{number:05}");
        builder
            .push(key.as_bytes(), Message::put(u64::from(number), b"v").into())
            .unwrap();
    }
    builder.delete_range(b"b", b"d", 600);
    let run = builder.finish().unwrap().unwrap().run;
    let run = IndexedRun::open(&store, run.pointer(), Purpose::Other).unwrap();
    assert_eq!(run.check(&store), []);
    assert_eq!((run.low(), run.high()), (&b"a"[..], &b"d"[..]));
    let mut deletes = Vec::new();
    let tell = |start: &[u8], end: &[u8], at| deletes.push((start.to_vec(), end.to_vec(), at));
    run.range_deletes().each(tell);
    let wanted = [(&b"a"[..], &b"c"[..], 7), (b"b", b"d", 600)];
    assert_eq!(
        deletes,
        wanted.map(|(start, end, at)| (start.to_vec(), end.to_vec(), at))
    );
    assert_eq!(run.range_deletes().touching(&KeyRange::new(b"c", Some(b"cc"))), 1);
}

#[test]
fn many_cursors_open_together() {
    let store = store();
    let mut runs = Vec::new();
    let mut model = Model::new();
    for number in 0..5u64 {
        let mut part = Model::new();
        for index in 0..400u64 {
            let key = format!("{:06}", index * 5 + number).into_bytes();
            part.insert((key, Reverse(number + 1)), put(format!("{index}")));
        }
        runs.push(run_of(&store, &options(), &part));
        model.extend(part);
    }
    for direction in BOTH {
        for access in WAYS {
            for key in [None, Some(&b"001000"[..])] {
                let mut cursors: Vec<RunRecordCursor> = runs
                    .iter()
                    .map(|run| run.cursor(&store, KeyRange::everything(), direction, access))
                    .collect();
                open_many(&mut cursors, key).unwrap();
                let mut merged = alluvium_dictionary::merge::MergingIter::new(cursors, direction);
                let mut found = Vec::new();
                while let Some(winner) = merged.winner() {
                    let (sequence, owned) = owned(&store, &merged.source(winner).record()).unwrap();
                    found.push((merged.key().unwrap().to_vec(), sequence, owned));
                    merged.advance().unwrap();
                }
                let behind = |(found, _, _): &(Vec<u8>, SequenceNumber, Owned)| match (key, direction) {
                    (None, _) => true,
                    (Some(key), MergeDirection::Forward) => **found >= *key,
                    (Some(key), MergeDirection::Backward) => **found <= *key,
                };
                let mut wanted = expected(&model, &KeyRange::everything(), direction);
                wanted.retain(behind);
                assert!(found == wanted, "{direction:?} {access:?} {key:?}");
            }
        }
    }
}

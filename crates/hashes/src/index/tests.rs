use super::*;
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::simulated::{CrashSurvival, InjectedFault, SimDirectory};
use alluvium_device::{BLOCK, DeviceOperation, Directory, FileOptions};
use std::collections::BTreeMap;
use std::sync::Arc;

const KINDS: [StaticIndexKind; 3] = [
    StaticIndexKind::Dense,
    StaticIndexKind::Sparse,
    StaticIndexKind::Blocks,
];

type Map = BTreeMap<[u8; 8], [u8; 4]>;

fn options(kind: StaticIndexKind) -> StaticIndexOptions {
    let mut options = StaticIndexOptions::new(8, 4);
    options.kind = kind;
    options.shape.block_bytes = 512;
    options.memory_bytes = 64 << 10;
    options
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn map(keys: impl Iterator<Item = u64>) -> Map {
    keys.map(|number| (key(number), (number as u32).to_le_bytes()))
        .collect()
}

fn build(
    directory: &(impl Directory + Clone + 'static),
    options: StaticIndexOptions,
    map: &Map,
) -> Result<u64> {
    let mut builder = StaticIndexBuilder::new(Arc::new(directory.clone()), "x", options)?;
    for (key, value) in map {
        builder.push(key, value)?;
    }
    builder.finish()
}

/// Returns the contents of all files except the lock file.
fn files(directory: &dyn Directory) -> BTreeMap<String, Vec<u8>> {
    let names = directory.list().unwrap();
    let names = names.into_iter().filter(|name| !name.ends_with(".lock"));
    let read = |name: String| {
        let device = directory.open(&name, FileOptions::DIRECT).unwrap();
        let len = device.len() / BLOCK * BLOCK;
        let bytes = match len {
            0 => Vec::new(),
            len => device
                .read_at(0, len as usize, alluvium_base::Purpose::Other)
                .unwrap()
                .to_vec(),
        };
        (name, bytes)
    };
    names.map(read).collect()
}

fn assert_holds(directory: &dyn Directory, map: &Map, absent: impl Iterator<Item = u64>) {
    let index = StaticIndex::open(directory, "x").unwrap();
    assert_eq!(index.stat().records, map.len() as u64);
    assert_eq!(index.check().unwrap().records, map.len() as u64);
    for (key, value) in map {
        let found = index.get(key).unwrap();
        assert_eq!(found.as_deref(), Some(&value[..]), "{key:?}");
        if key[7].is_multiple_of(16) {
            assert_eq!(index.search(key).unwrap().as_deref(), Some(&value[..]));
        }
    }
    for number in absent {
        assert_eq!(index.get(&key(number)).unwrap(), None);
        assert_eq!(index.search(&key(number)).unwrap(), None);
    }
}

#[test]
fn every_key_is_found_and_no_other() {
    for kind in KINDS {
        for count in [0, 1, 2, 41, 42, 43, 5000] {
            let directory = MemoryDirectory::new();
            let map = map(0..count);
            assert_eq!(build(&directory, options(kind), &map).unwrap(), count);
            assert_holds(&directory, &map, count..count + 100);
        }
    }
}

#[test]
fn a_lookup_reads_one_block_whether_the_key_is_there_or_not() {
    for kind in KINDS {
        let directory = MemoryDirectory::new();
        build(&directory, options(kind), &map(0..20_000)).unwrap();
        let index = StaticIndex::open(&directory, "x").unwrap();
        let before = directory.counters().snapshot();
        for number in 0..4000 {
            index.get(&key(number * 10)).unwrap();
        }
        let reads = directory.counters().snapshot().since(&before).total().reads;
        let most = if kind == StaticIndexKind::Blocks {
            4800
        } else {
            4000
        };
        assert!((3990..=most).contains(&reads), "{kind:?}: {reads} reads");
    }
}

#[test]
fn the_index_takes_as_many_bits_as_the_thesis_says() {
    // With 256 keys per bucket, the exact expectation for the tries and the bucket positions is
    // 2.512 bits. The source measured 2.51 bits.
    let directory = MemoryDirectory::new();
    build(&directory, options(StaticIndexKind::Dense), &map(0..100_000)).unwrap();
    let dense = StaticIndex::open(&directory, "x").unwrap().stat().bits_per_key;
    assert!((dense / 2.512 - 1.0).abs() < 0.01, "{dense} bits a key");
    // 16 records of 31 bytes take up 504 bytes. The tries need at most 0.8 bits per key, besides
    // the bucket positions.
    let mut sparse = StaticIndexOptions::new(8, 23);
    sparse.kind = StaticIndexKind::Sparse;
    sparse.shape.block_bytes = 512;
    assert_eq!(sparse.shape.block_records(), 16);
    let directory = MemoryDirectory::new();
    let mut builder = StaticIndexBuilder::new(Arc::new(directory.clone()), "x", sparse).unwrap();
    for number in 0..100_000 {
        builder.push(&key(number), &[7; 23]).unwrap();
    }
    builder.finish().unwrap();
    let sparse = StaticIndex::open(&directory, "x").unwrap().stat().bits_per_key;
    assert!(sparse - 0.133 < 0.8 + 0.02, "{sparse} bits a key");
}

#[test]
fn updates_and_other_kinds_give_the_bytes_of_a_build() {
    let mut random = fastrand::Rng::with_seed(4);
    for kind in KINDS {
        let directory = MemoryDirectory::new();
        let mut expected = map((0..3000).map(|number| number * 3));
        build(&directory, options(kind), &expected).unwrap();
        for batch in [0, 1, 10, 6000] {
            let mut updater = IndexUpdater::new(Arc::new(directory.clone()), "x", 64 << 10).unwrap();
            for _ in 0..batch {
                let key = key(random.u64(0..12_000));
                if random.u32(0..3) == 0 {
                    updater.delete(&key).unwrap();
                    expected.remove(&key);
                } else {
                    let value = random.u32(..).to_le_bytes();
                    updater.put(&key, &value).unwrap();
                    expected.insert(key, value);
                }
            }
            assert_eq!(updater.finish().unwrap(), expected.len() as u64);
            let other = MemoryDirectory::new();
            build(&other, options(kind), &expected).unwrap();
            assert!(
                files(&directory) == files(&other),
                "I1: {kind:?}, a batch of {batch}"
            );
            assert_eq!(files(&directory).len(), 2, "the old records are gone");
        }
        assert_holds(&directory, &expected, 12_000..12_050);
        for kind in KINDS {
            reindex(Arc::new(directory.clone()), "x", kind).unwrap();
            let other = MemoryDirectory::new();
            build(&other, options(kind), &expected).unwrap();
            assert!(files(&directory) == files(&other), "I1: as {kind:?}");
        }
    }
}

#[test]
fn of_equal_keys_the_last_one_counts() {
    let directory = MemoryDirectory::new();
    let mut builder =
        StaticIndexBuilder::new(Arc::new(directory.clone()), "x", options(StaticIndexKind::Sparse)).unwrap();
    for number in 0..60_000u32 {
        builder
            .push(&key(u64::from(number % 500)), &number.to_le_bytes())
            .unwrap();
    }
    assert_eq!(builder.finish().unwrap(), 500);
    let index = StaticIndex::open(&directory, "x").unwrap();
    assert_eq!(
        index.get(&key(7)).unwrap(),
        Some(59_507u32.to_le_bytes().to_vec())
    );
    index.check().unwrap();
}

#[test]
fn every_flipped_byte_is_found_or_means_nothing() {
    for kind in KINDS {
        let directory = MemoryDirectory::new();
        let map = map(0..400);
        build(&directory, options(kind), &map).unwrap();
        for (name, bytes) in files(&directory) {
            let device = directory.open(&name, FileOptions::DIRECT).unwrap();
            for at in (0..bytes.len()).step_by(13) {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << (at % 8);
                let write = |bytes: &[u8]| {
                    let buffer = alluvium_device::AlignedBuffer::padded(bytes);
                    device.write_at(0, buffer, alluvium_base::Purpose::Other).unwrap();
                };
                write(&flipped);
                let is_zero_behind = name == "x" && bytes[at..].iter().all(|&byte| byte == 0);
                match StaticIndex::open(&directory, "x").and_then(|index| index.check()) {
                    Ok(_) => assert!(is_zero_behind, "{name}, byte {at}"),
                    Err(error) => assert!(error.to_string().contains("x") && error.is_damage(), "{error}"),
                }
                write(&bytes);
            }
        }
    }
}

#[test]
fn a_failure_of_any_operation_leaves_the_old_index() {
    let (old, new) = (map(0..3000), map(0..4000));
    let update = |directory: &SimDirectory| -> Result<u64> {
        let mut updater = IndexUpdater::new(Arc::new(directory.clone()), "x", 64 << 10)?;
        for (key, value) in new.iter().skip(old.len()) {
            updater.put(key, value)?;
        }
        updater.finish()
    };
    let operations = [
        DeviceOperation::Create,
        DeviceOperation::Open,
        DeviceOperation::Rename,
        DeviceOperation::Remove,
        DeviceOperation::Grow,
        DeviceOperation::Truncate,
        DeviceOperation::Write,
        DeviceOperation::Read,
        DeviceOperation::Sync,
        DeviceOperation::SyncDirectory,
        DeviceOperation::List,
    ];
    let (mut failed, mut hit) = (0, 0);
    for operation in operations {
        for call in 1.. {
            let directory = SimDirectory::new(call);
            build(&directory, options(StaticIndexKind::Dense), &old).unwrap();
            let before = directory.faults_hit();
            directory.inject(InjectedFault::failing(operation).at(call));
            let outcome = update(&directory);
            if directory.faults_hit() == before {
                outcome.unwrap();
                break;
            }
            hit += 1;
            let directory = directory.reopen();
            let records = StaticIndex::open(&directory, "x")
                .unwrap()
                .check()
                .unwrap()
                .records;
            assert!(
                records == 3000 || records == 4000,
                "{operation} {call}: {records}"
            );
            failed += u32::from(outcome.is_err());
            // The next update must succeed and remove the leftover files.
            update(&directory).unwrap();
            assert_eq!(
                StaticIndex::open(&directory, "x")
                    .unwrap()
                    .check()
                    .unwrap()
                    .records,
                4000
            );
            assert_eq!(files(&directory).len(), 2, "{operation} {call}");
        }
    }
    assert!(hit > 20 && failed > 20, "{failed} of {hit} failures were told");
}

#[test]
fn a_crash_at_any_moment_leaves_the_old_index_or_the_new() {
    let (old, new) = (map(0..300), map(0..700));
    let (mut olds, mut news) = (0, 0);
    for survival in CrashSurvival::ALL {
        for operations in 1.. {
            let directory = SimDirectory::new(operations);
            build(&directory, options(StaticIndexKind::Sparse), &old).unwrap();
            let before = directory.operations();
            // An operation that fails permanently simulates a crash at this point.
            for operation in [
                DeviceOperation::Create,
                DeviceOperation::Rename,
                DeviceOperation::Remove,
                DeviceOperation::Grow,
                DeviceOperation::Truncate,
                DeviceOperation::Write,
                DeviceOperation::Sync,
                DeviceOperation::SyncDirectory,
            ] {
                directory.inject(InjectedFault::failing(operation).at(operations).sticky());
            }
            let update = || -> Result<u64> {
                let mut updater = IndexUpdater::new(Arc::new(directory.clone()), "x", 64 << 10)?;
                for (key, value) in new.iter().skip(old.len()) {
                    updater.put(key, value)?;
                }
                updater.finish()
            };
            let is_done = update().is_ok();
            assert!(directory.operations() >= before);
            let image = directory.image(survival, operations);
            let records = StaticIndex::open(&image, "x").unwrap().check().unwrap().records;
            match records {
                300 => olds += 1,
                700 => news += 1,
                other => panic!("{survival:?} after {operations}: {other} records"),
            }
            assert!(!is_done || records == 700, "what was told to be done is durable");
            if is_done {
                break;
            }
        }
    }
    assert!(olds > 0 && news > 0, "{olds} old, {news} new");
}

#[test]
fn wrong_lengths_and_options_are_refused() {
    let directory = Arc::new(MemoryDirectory::new());
    let with = |change: fn(&mut StaticIndexOptions)| {
        let mut options = options(StaticIndexKind::Dense);
        change(&mut options);
        StaticIndexBuilder::new(directory.clone(), "x", options).map(|_| ())
    };
    for change in [
        (|options| options.shape.key_bytes = 0) as fn(&mut StaticIndexOptions),
        |options| options.shape.value_bytes = 1 << 30,
        |options| options.shape.block_bytes = 100,
        |options| options.hmax = 0,
        |options| options.keys_per_bucket = 0,
    ] {
        assert!(matches!(with(change), Err(Error::BadOption { .. })));
    }
    let mut builder =
        StaticIndexBuilder::new(directory.clone(), "x", options(StaticIndexKind::Dense)).unwrap();
    assert!(matches!(
        builder.push(b"short", b"1234"),
        Err(Error::Length { what: "key", .. })
    ));
    assert!(matches!(
        builder.push(&key(1), b"1"),
        Err(Error::Length { what: "value", .. })
    ));
    builder.finish().unwrap();
    let index = StaticIndex::open(&*directory, "x").unwrap();
    assert!(matches!(index.get(b"1"), Err(Error::Length { .. })));
    assert!(StaticIndex::open(&*directory, "y").is_err());
}

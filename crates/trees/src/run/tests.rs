use super::*;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_base::{Message, Purpose};
use alluvium_device::Directory;
use alluvium_device::memory::MemoryDirectory;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::record::RecordValue;
use alluvium_dictionary::record::StoredRecord;
use alluvium_dictionary::value_log::read_value;
use alluvium_storage::extents::{AllocationClass, ExtentOptions};
use alluvium_storage::store::{Store, StoreOptions};
use alluvium_storage::{LogOptions, NodeCodec, Result};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

mod adopted;
mod damage;
mod faults;
mod model;
mod shapes;
mod space;
mod tiers;
mod values;

/// A message that owns its value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owned {
    kind: MessageKind,
    expires_ms: u64,
    value: Vec<u8>,
}

fn put(value: impl Into<Vec<u8>>) -> Owned {
    Owned {
        kind: MessageKind::Put,
        expires_ms: 0,
        value: value.into(),
    }
}

/// The expected records, in the order of a run: keys ascend, and the records of a key are ordered
/// from newest to oldest.
type Model = BTreeMap<(Vec<u8>, Reverse<SequenceNumber>), Owned>;

fn store_with(page: u32, cache_bytes: u64) -> Store {
    store_in(Arc::new(MemoryDirectory::new()), page, cache_bytes)
}

fn store_in(directory: Arc<dyn Directory>, page: u32, cache_bytes: u64) -> Store {
    let options = StoreOptions {
        page_size: PageSize::new(page).unwrap(),
        cache_bytes,
        log: LogOptions::with_limit(1 << 20),
        extents: ExtentOptions {
            min_reserve: 0,
            max_reserve: 0,
            ..ExtentOptions::default()
        },
        ..StoreOptions::default()
    };
    Store::create(directory, &options, b"").unwrap()
}

fn store() -> Store {
    store_with(4096, 4 << 20)
}

fn options() -> RunOptions {
    RunOptions::new(Purpose::Other)
}

fn build(store: &Store, options: &RunOptions, model: &Model) -> BuiltRun {
    let mut builder = RunBuilder::new(store, options).unwrap();
    for ((key, Reverse(sequence)), owned) in model {
        builder.push(key, record(*sequence, owned)).unwrap();
    }
    builder.finish().unwrap().expect("there are records")
}

/// Builds a run from the records of a model, and installs its extents.
fn run_of(store: &Store, options: &RunOptions, model: &Model) -> IndexedRun {
    let built = build(store, options, model);
    store.extents().install(&built.extents);
    built.run
}

fn record(sequence: SequenceNumber, owned: &Owned) -> StoredRecord<'_> {
    StoredRecord {
        sequence,
        kind: owned.kind,
        expires_ms: owned.expires_ms,
        value: RecordValue::Inline(&owned.value),
    }
}

/// Returns the sequence number and the contents of a record, loading the value if it is separate.
fn owned(store: &Store, record: &StoredRecord<'_>) -> Result<(SequenceNumber, Owned)> {
    let mut value = Vec::new();
    match record.value {
        RecordValue::Inline(bytes) => value.extend_from_slice(bytes),
        RecordValue::Separate(pointer) => {
            let guard = store.epochs().pin();
            read_value(store.cache(), &guard, &pointer, Purpose::Other, &mut value)?;
        }
    }
    let owned = Owned {
        kind: record.kind,
        expires_ms: record.expires_ms,
        value,
    };
    Ok((record.sequence, owned))
}

/// Returns all records of a key with sequence numbers up to `at`, as a lookup finds them.
fn find(
    store: &Store,
    run: &IndexedRun,
    key: &[u8],
    at: SequenceNumber,
) -> Result<Vec<(SequenceNumber, Owned)>> {
    let guard = store.epochs().pin();
    let mut found = Vec::new();
    run.find(key, at, store.cache(), &guard, Purpose::Other, |record| {
        found.push(owned(store, &record)?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

type Flat = Vec<(Vec<u8>, SequenceNumber, Owned)>;

fn drain(store: &Store, cursor: &mut RunRecordCursor) -> Result<Flat> {
    let mut all = Vec::new();
    while let Some(key) = cursor.key() {
        let (sequence, owned) = owned(store, &cursor.record())?;
        all.push((key.to_vec(), sequence, owned));
        cursor.advance()?;
    }
    Ok(all)
}

/// Moves a cursor to the end of its range by a random sequence of single steps and sweeps, and
/// compares the records with the expected ones. Returns the number of records visited by sweeps.
fn sweep(
    store: &Store,
    cursor: &mut RunRecordCursor,
    direction: MergeDirection,
    wanted: &Flat,
    random: &mut fastrand::Rng,
    hint: &str,
) -> usize {
    let (mut at, mut swept) = (0, 0);
    while cursor.key().is_some() {
        let horizon = [MAX_SEQUENCE, random.u64(..250)][random.usize(..2)];
        let bound = random
            .bool()
            .then(|| wanted[random.usize(at..wanted.len())].0.clone());
        let most = random.usize(1..60);
        let mut pairs = Vec::new();
        let count = cursor
            .sweep(horizon, bound.as_deref(), |[first, second], value| {
                pairs.push(([first, second].concat(), value.to_vec()));
                pairs.len() < most
            })
            .unwrap();
        assert!(count == pairs.len() && count <= most, "{hint}");
        for (offset, (key, value)) in pairs.into_iter().enumerate() {
            let (expected, sequence, owned) = &wanted[at + offset];
            assert_eq!((&key, &value), (expected, &owned.value), "{hint}");
            assert!(
                *sequence <= horizon && owned.kind == MessageKind::Put && owned.expires_ms == 0,
                "{hint}"
            );
            let is_alone = |at: Option<usize>| {
                at.and_then(|at| wanted.get(at))
                    .is_none_or(|other| other.0 != key)
            };
            assert!(
                is_alone((at + offset).checked_sub(1)) && is_alone(Some(at + offset + 1)),
                "{hint}: {key:?}"
            );
            let is_before = |bound: &Vec<u8>| match direction {
                MergeDirection::Forward => key < *bound,
                MergeDirection::Backward => key > *bound,
            };
            assert!(bound.as_ref().is_none_or(is_before), "{hint}");
        }
        at += count;
        swept += count;
        if let Some(key) = cursor.key() {
            let (sequence, owned) = owned(store, &cursor.record()).unwrap();
            assert_eq!((key.to_vec(), sequence, owned), wanted[at], "{hint}");
            cursor.advance().unwrap();
            at += 1;
        }
    }
    assert_eq!(at, wanted.len(), "{hint}");
    swept
}

/// Returns the records that a cursor over the given range should return.
fn expected(model: &Model, range: &KeyRange, direction: MergeDirection) -> Flat {
    let mut all: Flat = model
        .iter()
        .filter(|((key, _), _)| range.contains(key))
        .map(|((key, Reverse(sequence)), owned)| (key.clone(), *sequence, owned.clone()))
        .collect();
    if direction == MergeDirection::Backward {
        all.sort_by(|a, b| b.0.cmp(&a.0).then(b.1.cmp(&a.1)));
    }
    all
}

const BOTH: [MergeDirection; 2] = [MergeDirection::Forward, MergeDirection::Backward];
const WAYS: [CursorAccess; 3] = [
    CursorAccess::Cached,
    CursorAccess::Streaming,
    CursorAccess::Replacing,
];

/// Compares the results of all public functions of a run with the model.
fn compare(store: &Store, run: &IndexedRun, model: &Model, random: &mut fastrand::Rng, hint: &str) {
    let violations = run.check(store);
    assert!(violations.is_empty(), "{hint}: {violations:#?}");
    let keys: Vec<&Vec<u8>> = model.keys().map(|(key, _)| key).collect();
    let probe = |random: &mut fastrand::Rng| -> Vec<u8> {
        let mut key = keys[random.usize(..keys.len())].clone();
        match random.u8(..4) {
            0 => key.push(random.u8(..)),
            1 => drop(key.pop()),
            _ => {}
        }
        key
    };
    for _ in 0..200 {
        let (key, at) = (probe(random), random.u64(..40));
        let from = (key.clone(), Reverse(at));
        let to = (key.clone(), Reverse(0));
        let wanted: Vec<_> = model
            .range((Bound::Included(from), Bound::Included(to)))
            .map(|((_, Reverse(sequence)), owned)| (*sequence, owned.clone()))
            .collect();
        assert_eq!(
            find(store, run, &key, at).unwrap(),
            wanted,
            "{hint}: {key:?} at {at}"
        );
    }
    for direction in BOTH {
        for access in WAYS {
            let mut ranges = vec![KeyRange::everything()];
            for _ in 0..3 {
                ranges.push(KeyRange::new(&probe(random), Some(&probe(random))));
            }
            for range in ranges {
                let hint = format!("{hint}: {direction:?} {access:?} {range:?}");
                let wanted = expected(model, &range, direction);
                let mut cursor = run.cursor(store, range, direction, access);
                cursor.start().unwrap();
                assert!(drain(store, &mut cursor).unwrap() == wanted, "{hint}");
                cursor.start().unwrap();
                sweep(store, &mut cursor, direction, &wanted, random, &hint);
                for _ in 0..3 {
                    let key = probe(random);
                    let behind = |(found, _, _): &&(Vec<u8>, SequenceNumber, Owned)| match direction {
                        MergeDirection::Forward => **found >= *key,
                        MergeDirection::Backward => **found <= *key,
                    };
                    let wanted: Flat = wanted.iter().filter(behind).cloned().collect();
                    cursor.seek(&key).unwrap();
                    assert!(
                        drain(store, &mut cursor).unwrap() == wanted,
                        "{hint} from {key:?}"
                    );
                }
            }
        }
    }
    weights(store, run, model, random, hint, &probe);
}

/// Compares the results of `weigh` and `separators` with the leaves that a cursor reads.
fn weights(
    store: &Store,
    run: &IndexedRun,
    model: &Model,
    random: &mut fastrand::Rng,
    hint: &str,
    probe: &dyn Fn(&mut fastrand::Rng) -> Vec<u8>,
) {
    let guard = store.epochs().pin();
    let weigh = |range: &KeyRange| run.weigh(range, store.cache(), &guard, Purpose::Other).unwrap();
    let all = weigh(&KeyRange::everything());
    assert_eq!(all.records, model.len() as u64, "{hint}");
    assert_eq!(all.tombstones, run.summary().tombstones, "{hint}");
    let leaf = shapes::most_records_in_a_leaf(store, run);
    for _ in 0..20 {
        let range = KeyRange::new(&probe(random), Some(&probe(random)));
        let records = model.keys().filter(|(key, _)| range.contains(key)).count() as u64;
        let found = weigh(&range).records;
        assert!(
            records <= found && found <= records + 2 * leaf,
            "{hint}: {range:?} has {records} records, weighed {found}, {leaf} in a leaf"
        );
    }
    for wanted in [1, 2, 7] {
        let range = KeyRange::new(&probe(random), None);
        let pieces = run
            .separators(&range, wanted, store.cache(), &guard, Purpose::Other)
            .unwrap();
        assert!(pieces.windows(2).all(|pair| pair[0].low < pair[1].low), "{hint}");
        assert!(
            pieces.len() <= wanted + 1,
            "{hint}: {} pieces, {wanted} wanted",
            pieces.len()
        );
        let sum: u64 = pieces.iter().map(|piece| piece.bytes).sum();
        assert_eq!(sum, weigh(&range).bytes, "{hint}: {range:?}");
    }
}

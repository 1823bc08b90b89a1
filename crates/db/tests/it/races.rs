//! Concurrent operations: dropping keyspaces during writes, and conditional writes checked for
//! linearizability.

use alluvium::simulation::DirectoryOpener as _;
use alluvium::{Db, Error, Keyspace, KeyspaceOptions, Options, WriteBatch};
use alluvium_device::memory::MemoryDirectory;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};

fn small() -> Db {
    let options = Options::new().memory(16 << 20).workers(1);
    options.open_in(Arc::new(MemoryDirectory::new())).unwrap()
}

/// Compacts and returns the number of records in the tree. Repeats until the count is stable,
/// because background work compacts concurrently.
fn records(db: &Db) -> u64 {
    let mut before = u64::MAX;
    loop {
        db.compact().unwrap();
        let records = counted(db);
        if records == before {
            return records;
        }
        before = records;
    }
}

fn counted(db: &Db) -> u64 {
    let outline = db.outline();
    let mut nodes = vec![&outline.root];
    let mut records = 0;
    while let Some(node) = nodes.pop() {
        for pivot in &node.pivots {
            let layers = pivot.own.iter().chain(&pivot.pending);
            records += layers.map(|layer| layer.records).sum::<u64>();
            nodes.extend(pivot.child.as_deref());
        }
    }
    records
}

/// Returns the number of catalog records: one per keyspace, and the next keyspace number.
fn of_catalog(db: &Db) -> u64 {
    db.keyspaces().len() as u64 + 1
}

#[test]
fn a_batch_that_was_filled_before_its_keyspace_was_dropped_is_refused_as_a_whole() {
    let db = small();
    let stays = db.keyspace("stays").unwrap();
    let options = KeyspaceOptions::new().merge_operator("add");
    type Fill = fn(&mut WriteBatch, &Keyspace);
    let fills: [Fill; 4] = [
        |batch, goes| _ = batch.put(goes, "key", [7; 5000]).unwrap(),
        |batch, goes| _ = batch.delete(goes, "key").unwrap(),
        |batch, goes| _ = batch.merge(goes, "key", 1u64.to_le_bytes()).unwrap(),
        |batch, goes| _ = batch.delete_range(goes, "a", None).unwrap(),
    ];
    for (number, fill) in fills.into_iter().enumerate() {
        let goes = db.keyspace_with("goes", &options).unwrap();
        let mut batch = WriteBatch::new();
        batch.put(&stays, "first", number.to_string()).unwrap();
        fill(&mut batch, &goes);
        batch.put(&stays, "last", number.to_string()).unwrap();
        let before = db.sequence();
        db.drop_keyspace("goes").unwrap();
        assert!(
            matches!(db.write(&batch), Err(Error::KeyspaceDropped { name }) if name == "goes"),
            "fill {number}"
        );
        // Nor may the batch write to the new keyspace with the same name.
        let again = db.keyspace_with("goes", &options).unwrap();
        assert!(matches!(db.write(&batch), Err(Error::KeyspaceDropped { .. })));
        assert_eq!(again.get("key").unwrap(), None);
        assert_eq!(stays.get("first").unwrap(), None);
        assert!(
            db.sequence() <= before + 4,
            "the drop and the creation are all there is"
        );
        batch.clear();
        batch.put(&stays, "other", "x").unwrap();
        db.write(&batch).unwrap();
        stays.delete("other").unwrap();
        db.drop_keyspace("goes").unwrap();
    }
    assert_eq!(records(&db), of_catalog(&db));
}

/// A key that drops its keyspace when it is read, between two steps of a call.
struct Trap<'a>(&'a Db);

impl AsRef<[u8]> for Trap<'_> {
    fn as_ref(&self) -> &[u8] {
        let _ = self.0.drop_keyspace("goes");
        b"key"
    }
}

/// A write through a keyspace that is dropped halfway through.
type Write = fn(&Keyspace, Trap<'_>) -> Result<(), Error>;

#[test]
fn a_write_whose_keyspace_is_dropped_in_its_midst_is_refused() {
    let db = small();
    let options = KeyspaceOptions::new().merge_operator("append");
    let calls: [Write; 6] = [
        |goes, key| goes.put(key, "value"),
        |goes, key| goes.delete(key),
        |goes, key| goes.merge("key", key),
        |goes, key| goes.compare_and_set(key, None, Some(b"value")).map(drop),
        |goes, key| goes.delete_range(key, None),
        |goes, key| goes.ingest([(key, "value")]).map(drop),
    ];
    for (number, call) in calls.into_iter().enumerate() {
        let goes = db.keyspace_with("goes", &options).unwrap();
        let result = call(&goes, Trap(&db));
        assert!(
            matches!(result, Err(Error::KeyspaceDropped { .. })),
            "call {number}: {result:?}"
        );
    }
    assert_eq!(records(&db), of_catalog(&db));
}

#[test]
fn nothing_that_was_written_beside_a_drop_is_left() {
    let db = small();
    let options = KeyspaceOptions::new().merge_operator("append");
    let stays = db.keyspace("stays").unwrap();
    for round in 0..60u32 {
        let goes = db.keyspace_with("goes", &options).unwrap();
        let barrier = Barrier::new(6);
        let refused = |result: Result<(), Error>| match result {
            Ok(()) => false,
            Err(Error::KeyspaceDropped { .. }) => true,
            Err(other) => panic!("{other}"),
        };
        let calls: [&(dyn Fn(u32) -> Result<(), Error> + Sync); 5] = [
            &|step| goes.put(step.to_be_bytes(), [7; 3000]),
            &|step| goes.merge(step.to_be_bytes(), "more"),
            &|step| {
                let mut batch = WriteBatch::new();
                batch.put(&stays, "key", step.to_be_bytes())?;
                batch.put(&goes, step.to_be_bytes(), [8; 500])?;
                db.write(&batch)
            },
            &|step| match step % 8 {
                0 => goes.delete_range(step.to_be_bytes(), None),
                _ => goes
                    .compare_and_set(step.to_be_bytes(), None, Some(b"set"))
                    .map(drop),
            },
            &|step| {
                goes.ingest((0..50).map(|key: u32| ((step + key).to_be_bytes(), "in")))
                    .map(drop)
            },
        ];
        std::thread::scope(|scope| {
            for call in calls {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    assert!(
                        (0..1_000_000).any(|step| refused(call(step))),
                        "it is refused in the end"
                    );
                });
            }
            barrier.wait();
            for _ in 0..round % 7 * 40 {
                std::thread::yield_now();
            }
            db.drop_keyspace("goes").unwrap();
        });
    }
    stays.delete("key").unwrap();
    assert_eq!(records(&db), of_catalog(&db));
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

/// One call on a register. Each key is a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Write(Option<u32>),
    Swap {
        expected: Option<u32>,
        new: Option<u32>,
        did: bool,
    },
    Read(Option<u32>),
}

/// A call, and the interval in which it took effect.
#[derive(Clone, Copy, Debug)]
struct Call {
    act: Act,
    from: u64,
    to: u64,
}

impl Act {
    /// Returns the state after the call, or `None` if the call is impossible in this state.
    fn after(self, state: Option<u32>) -> Option<Option<u32>> {
        match self {
            Act::Write(value) => Some(value),
            Act::Read(value) => (value == state).then_some(state),
            Act::Swap { expected, new, did } => match (expected == state, did) {
                (true, true) => Some(new),
                (false, false) => Some(state),
                _ => None,
            },
        }
    }
}

/// Returns whether the calls are linearizable, given a set of them that is done and the resulting
/// state: the rest can be ordered so that each takes effect at one moment (Wing and Gong, *Testing
/// and verifying concurrent objects*, 1993, with memoization).
fn is_linear(calls: &[Call], done: u64, state: Option<u32>, tried: &mut HashSet<(u64, Option<u32>)>) -> bool {
    if done.count_ones() as usize == calls.len() {
        return true;
    }
    if !tried.insert((done, state)) {
        return false;
    }
    let open = || (0..calls.len()).filter(|&index| done & 1 << index == 0);
    let first_end = open().map(|index| calls[index].to).min().expect("there is one");
    open()
        .filter(|&index| calls[index].from <= first_end)
        .any(|index| {
            let after = calls[index].act.after(state);
            after.is_some_and(|after| is_linear(calls, done | 1 << index, after, tried))
        })
}

#[test]
fn the_judge_of_histories_knows_right_from_wrong() {
    let call = |act, from, to| Call { act, from, to };
    let judge = |calls: &[Call]| is_linear(calls, 0, None, &mut HashSet::new());
    let swap = |expected, new, did| Act::Swap { expected, new, did };
    assert!(judge(&[
        call(Act::Write(Some(1)), 0, 9),
        call(Act::Read(None), 1, 2),
        call(Act::Read(Some(1)), 3, 4)
    ]));
    assert!(!judge(&[
        call(Act::Write(Some(1)), 0, 9),
        call(Act::Read(Some(1)), 1, 2),
        call(Act::Read(None), 3, 4)
    ]));
    // A conditional write is refused because of a value that the next read does not see.
    let lock = call(swap(None, Some(1), true), 0, 9);
    assert!(!judge(&[
        lock,
        call(swap(None, Some(2), false), 1, 2),
        call(Act::Read(None), 3, 4)
    ]));
    assert!(judge(&[
        lock,
        call(swap(None, Some(2), false), 1, 2),
        call(Act::Read(Some(1)), 3, 4)
    ]));
    // A delete takes effect between a condition and its write.
    let counted = [
        call(Act::Write(Some(1)), 0, 1),
        call(swap(Some(1), Some(2), true), 2, 5),
        call(Act::Write(None), 3, 4),
    ];
    assert!(judge(&[&counted[..], &[call(Act::Read(None), 6, 7)]].concat()));
    assert!(judge(
        &[&counted[..1], &counted[2..], &[call(Act::Read(None), 6, 7)]].concat()
    ));
    assert!(!judge(
        &[&counted[..], &[call(Act::Read(Some(2)), 6, 7)]].concat()
    ));
}

/// Performs the calls of a thread in a round, on the key of that round.
fn calls(
    keyspace: &Keyspace,
    key: &[u8],
    clock: &AtomicU64,
    random: &mut fastrand::Rng,
    unique: u32,
) -> Vec<Call> {
    let number = |value: &[u8]| u32::from_be_bytes(value.try_into().expect("four bytes"));
    let mut last = None;
    (0..5)
        .map(|step| {
            let value = unique * 8 + step;
            let from = clock.fetch_add(1, Ordering::SeqCst);
            let act = match random.u32(0..8) {
                0 => {
                    keyspace.put(key, value.to_be_bytes()).unwrap();
                    Act::Write(Some(value))
                }
                1 => {
                    keyspace.delete(key).unwrap();
                    Act::Write(None)
                }
                2 => {
                    let end = [key, &[0]].concat();
                    keyspace.delete_range(key, Some(&end)).unwrap();
                    Act::Write(None)
                }
                3..6 => {
                    let (expected, new) = (last, (random.u32(0..4) > 0).then_some(value));
                    let bytes = |value: Option<u32>| value.map(u32::to_be_bytes);
                    let (old, next) = (bytes(expected), bytes(new));
                    let did = keyspace.compare_and_set(
                        key,
                        old.as_ref().map(<[u8; 4]>::as_slice),
                        next.as_ref().map(<[u8; 4]>::as_slice),
                    );
                    let did = did.unwrap();
                    if did {
                        last = new;
                    }
                    Act::Swap { expected, new, did }
                }
                _ => {
                    last = keyspace.get(key).unwrap().map(|value| number(&value));
                    Act::Read(last)
                }
            };
            let to = clock.fetch_add(1, Ordering::SeqCst);
            Call { act, from, to }
        })
        .collect()
}

#[test]
fn reads_writes_and_conditional_writes_of_several_threads_take_effect_one_after_the_other() {
    const THREADS: u32 = 4;
    const ROUNDS: u32 = 400;
    let options = Options::new().memory(64 << 20).workers(1);
    let db = options.open_in(Arc::new(MemoryDirectory::new())).unwrap();
    let keyspace = db.keyspace("registers").unwrap();
    let (clock, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let barrier = Barrier::new(THREADS as usize);
    let (history, wrong) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let play = |thread: u32| {
        let mut random = fastrand::Rng::with_seed(u64::from(thread));
        for round in 0..ROUNDS {
            let key = round.to_be_bytes();
            barrier.wait();
            let did = calls(&keyspace, &key, &clock, &mut random, round * THREADS + thread);
            history.lock().unwrap().extend(did);
            if barrier.wait().is_leader() {
                let mut calls: Vec<Call> = std::mem::take(&mut *history.lock().unwrap());
                let last = keyspace.get(key).unwrap();
                let last = last.map(|value| u32::from_be_bytes(value[..].try_into().unwrap()));
                calls.push(Call {
                    act: Act::Read(last),
                    from: u64::MAX,
                    to: u64::MAX,
                });
                if !is_linear(&calls, 0, None, &mut HashSet::new()) {
                    wrong.lock().unwrap().push((round, calls));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        // Commits after a long one wait until they are visible.
        scope.spawn(|| {
            let long = vec![7; 6 << 20];
            while !is_over.load(Ordering::Relaxed) {
                keyspace.put("long", &long).unwrap();
            }
        });
        let play = &play;
        let players: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || play(thread)))
            .collect();
        players.into_iter().for_each(|player| player.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
    });
    let wrong = wrong.into_inner().unwrap();
    println!("{} of {ROUNDS} histories are wrong", wrong.len());
    assert!(wrong.is_empty(), "{:#?}", wrong[0]);
}

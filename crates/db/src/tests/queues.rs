//! Tests of queues in every ordered structure. Keys are added at one end and removed from the
//! other.

use super::{memory, one_of_each, small};
use crate::admin::simulation::DirectoryOpener as _;
use crate::db::Db;
use crate::keyspace::Keyspace;
use crate::options::kind::StructureKind;
use crate::options::{KeyspaceOptions, Options};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

/// Returns the number of dead keys that this thread's iterators have skipped since this function
/// was last called.
fn passed() -> u64 {
    alluvium_dictionary::memtables::empty_ranges::PASSED.with(|passed| passed.replace(0))
}

fn ordered(db: &Db) -> Vec<Keyspace> {
    let mut all = one_of_each(db, &KeyspaceOptions::new());
    all.retain(|keyspace| keyspace.name() != "Hashed");
    let volatile = KeyspaceOptions::new().structure(crate::options::Structure::Volatile(4 << 20));
    all.push(db.keyspace_with("volatile", &volatile).unwrap());
    all
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// Maximum number of dead keys that a later scan may skip once the first scan has skipped all of
/// them.
const FEW: u64 = 24;

#[test]
fn the_first_and_the_last_of_a_queue_cost_the_same_however_many_were_taken_before() {
    const JOBS: u32 = 3000;
    for writes_out in [false, true] {
        let db = small().open_in(memory()).unwrap();
        for queue in ordered(&db) {
            for number in 0..JOBS {
                queue.put(key(number), b"job").unwrap();
            }
            if writes_out {
                db.checkpoint().unwrap();
            }
            passed();
            let (mut worst, mut all) = (0, 0);
            for number in 0..JOBS {
                // Take keys from both ends alternately.
                let (found, expected) = match number % 2 {
                    0 => (queue.first().unwrap(), number / 2),
                    _ => (queue.last().unwrap(), JOBS - 1 - number / 2),
                };
                let (found, _) = found.unwrap();
                assert_eq!(found, key(expected), "{}", queue.name());
                queue.delete(found).unwrap();
                let passed = passed();
                (worst, all) = (worst.max(passed), all + passed);
            }
            assert!(queue.first().unwrap().is_none() && queue.last().unwrap().is_none());
            let each = all as f64 / f64::from(JOBS);
            // An iterator reads some keys ahead and must skip those that were removed at the other
            // end.
            assert!(
                worst < 200 && each < FEW as f64,
                "{}: {worst}, {each}",
                queue.name()
            );
        }
    }
}

#[test]
fn a_queue_of_steady_length_is_as_fast_after_many_jobs_and_over_memtables() {
    let db = small().open_in(memory()).unwrap();
    for queue in ordered(&db) {
        for number in 0..100 {
            queue.put(key(number), [7; 100]).unwrap();
        }
        let mut tenths = Vec::new();
        for number in 0..6000 {
            let (first, _) = queue.first().unwrap().unwrap();
            assert_eq!(first, key(number), "{}", queue.name());
            queue.delete(first).unwrap();
            queue.put(key(number + 100), [7; 100]).unwrap();
            if number % 600 == 0 {
                tenths.push(passed());
            }
            if number == 2500 {
                // From now on, the deletes are in runs instead of memtables.
                db.checkpoint().unwrap();
                while db.work().unwrap() {}
            }
        }
        let (_, all) = tenths.split_first().unwrap();
        assert!(
            all.iter().all(|&tenth| tenth < 600 * FEW),
            "{}: {tenths:?}",
            queue.name()
        );
    }
}

#[test]
fn expired_keys_before_the_first_are_passed_once() {
    const DAY_MS: u64 = 24 * 3600 * 1000;
    const START_MS: u64 = 100 * DAY_MS;
    static NOW: AtomicU64 = AtomicU64::new(START_MS);
    let db = small()
        .clocked(|| NOW.load(Ordering::Relaxed))
        .open_in(memory())
        .unwrap();
    for keyspace in ordered(&db) {
        NOW.store(START_MS, Ordering::Relaxed);
        let until = UNIX_EPOCH + Duration::from_millis(START_MS + 2000);
        for number in 0..1000 {
            keyspace.put_until(key(number), b"soon gone", until).unwrap();
        }
        keyspace.put(key(5000), b"stays").unwrap();
        let first = || keyspace.first().unwrap().unwrap().0;
        assert_eq!(first(), key(0));
        NOW.store(START_MS + 3000, Ordering::Relaxed);
        passed();
        assert_eq!(first(), key(5000));
        assert!(passed() >= 900, "{}", keyspace.name());
        assert_eq!(first(), key(5000));
        assert!(passed() < FEW, "{}", keyspace.name());
        // Keys once found to be expired stay expired, unless the clock was wrong by days.
        NOW.store(START_MS + 1500, Ordering::Relaxed);
        assert_eq!(first(), key(5000), "{}", keyspace.name());
        NOW.store(START_MS - 3 * DAY_MS, Ordering::Relaxed);
        assert_eq!(first(), key(0), "{}", keyspace.name());
    }
}

#[test]
fn readers_at_older_places_see_what_was_taken_since() {
    let db = small().open_in(memory()).unwrap();
    for queue in ordered(&db) {
        for number in 0..500 {
            queue.put(key(number), b"job").unwrap();
        }
        let before = db.snapshot();
        let pop = |count: u32| {
            for _ in 0..count {
                let (first, _) = queue.first().unwrap().unwrap();
                queue.delete(first).unwrap();
            }
        };
        pop(400);
        let between = db.snapshot();
        let first_of =
            |snapshot: &crate::keyspace::snapshot::Snapshot| snapshot.iter(&queue).next().unwrap().unwrap().0;
        assert_eq!(first_of(&before), key(0), "{}", queue.name());
        assert_eq!(first_of(&between), key(400));
        queue.put(key(30), b"back").unwrap();
        queue.put(key(0), b"back").unwrap();
        let all: Vec<Vec<u8>> = queue.iter().keys().map(|key| key.unwrap()).collect();
        assert_eq!(all.len(), 102, "{}", queue.name());
        assert_eq!([&all[0][..], &all[1]], [key(0), key(30)]);
        assert_eq!(first_of(&between), key(400));
        assert_eq!(first_of(&before), key(0));
        let back: Vec<Vec<u8>> = queue.iter().keys().rev().map(|key| key.unwrap()).collect();
        assert!(back.iter().rev().eq(&all));
        // Ingested records bypass the memtables, but must be visible, too.
        let mut ingest = queue.begin_ingest().unwrap();
        ingest.put(key(20), b"loaded").unwrap();
        ingest.finish().unwrap();
        let second = queue.iter().nth(1).unwrap().unwrap().0;
        assert_eq!(second, key(20), "{}", queue.name());
    }
}

/// Compares iteration in both directions with the model.
fn compare(queue: &Keyspace, model: &BTreeMap<Vec<u8>, Vec<u8>>, from: &[u8], turn: u64) {
    let mut iter = queue.range::<&[u8]>(from..);
    let mut expected = model.range::<Vec<u8>, _>(from.to_vec()..);
    for _ in 0..3 {
        let found = iter.next().map(|pair| pair.unwrap().0);
        let wanted = expected.next().map(|(key, _)| key.clone());
        assert_eq!(found, wanted, "{} in turn {turn} from {from:?}", queue.name());
    }
    let mut iter = queue.range::<&[u8]>(..from);
    let mut expected = model.range::<Vec<u8>, _>(..from.to_vec());
    for _ in 0..3 {
        let found = iter.next_back().map(|pair| pair.unwrap().0);
        let wanted = expected.next_back().map(|(key, _)| key.clone());
        assert_eq!(
            found,
            wanted,
            "{} in turn {turn} back from {from:?}",
            queue.name()
        );
    }
}

#[test]
fn walks_over_many_deleted_keys_find_what_a_plain_map_has() {
    for seed in 0..4 {
        let mut random = fastrand::Rng::with_seed(seed);
        let options: Options = small();
        let db = options.open_in(memory()).unwrap();
        for queue in ordered(&db) {
            let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
            for number in 0..600_u32 {
                queue.put(key(number), b"first").unwrap();
                model.insert(key(number).to_vec(), b"first".to_vec());
            }
            for turn in 0..900 {
                let number = random.u32(..600);
                match random.u8(..40) {
                    0..2 => {
                        queue.put(key(number), b"again").unwrap();
                        model.insert(key(number).to_vec(), b"again".to_vec());
                    }
                    2 => {
                        let (low, high) = (key(number), key(number + random.u32(..100)));
                        queue.delete_range(low, Some(&high)).unwrap();
                        model.retain(|key, _| key[..] < low[..] || key[..] >= high[..]);
                    }
                    3 if random.u8(..8) == 0 => db.checkpoint().unwrap(),
                    4 => while db.work().unwrap() {},
                    5..20 => {
                        if let Some((first, _)) = queue.first().unwrap() {
                            assert_eq!(Some(&first), model.keys().next());
                            queue.delete(&first).unwrap();
                            model.remove(&first);
                        }
                    }
                    20..30 => {
                        if let Some((last, _)) = queue.last().unwrap() {
                            assert_eq!(Some(&last), model.keys().next_back());
                            queue.delete(&last).unwrap();
                            model.remove(&last);
                        }
                    }
                    _ => compare(&queue, &model, &key(number), turn),
                }
            }
            assert!(queue.iter().map(|pair| pair.unwrap().0).eq(model.into_keys()));
        }
    }
}

#[test]
fn no_job_is_lost_between_those_that_add_and_those_that_take() {
    const JOBS: u32 = 4000;
    let db = Options::new().memory(16 << 20).open_in(memory()).unwrap();
    for structure in [StructureKind::Tiered, StructureKind::Levels] {
        let options = KeyspaceOptions::new();
        let queue = db
            .keyspace_in(&format!("{structure:?}"), structure, &options)
            .unwrap();
        let taken = AtomicU64::new(0);
        let order = Arc::new(fastrand::Rng::with_seed(9));
        std::thread::scope(|scope| {
            let queue = &queue;
            for adder in 0..2_u32 {
                let mut random = (*order).clone();
                scope.spawn(move || {
                    for number in 0..JOBS / 2 {
                        // Some of the added keys precede keys that were already removed.
                        let at = number.saturating_sub(random.u32(..300));
                        let name = [&key(at)[..], &key(number), &key(adder)].concat();
                        queue.put(name, b"job").unwrap();
                    }
                });
            }
            let taken = &taken;
            scope.spawn(move || {
                while taken.load(Ordering::Relaxed) < u64::from(JOBS) {
                    if let Some((first, _)) = queue.first().unwrap() {
                        queue.delete(first).unwrap();
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        });
        assert!(queue.first().unwrap().is_none());
    }
}

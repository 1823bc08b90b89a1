//! Repeatedly kills a real process while it writes. After each kill, all acknowledged batches must
//! be present, and every batch must be complete.
//!
//! `cargo test` kills the process five times; `ALLUVIUM_KILLS` sets another number. A second
//! variant uses a store in two directories, with compaction output in the second.
//! `ALLUVIUM_KILL_PLACES=/one:/other` sets these directories, which may be on different devices:
//! `.ci/kill-on-two-devices` creates two devices and uses them.

use alluvium::{
    Db, HashedOptions, Keyspace, KeyspaceOptions, LevelsOptions, Options, Structure, TierOptions, WriteBatch,
};
use alluvium_sim::environment::number;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const DIRECTORY: &str = "ALLUVIUM_KILL_DIRECTORY";
/// Directory of the second tier, if any.
const SECOND: &str = "ALLUVIUM_KILL_SECOND_DIRECTORY";
const WRITERS: u64 = 2;
/// Number of batches per writer whose hashed records are read individually.
const RECENT: u64 = 1000;

/// A store with keyspaces of three structures. Each batch writes the same records to all four
/// keyspaces.
struct Store {
    db: Db,
    one: Keyspace,
    two: Keyspace,
    hashed: Keyspace,
    /// Merges in this keyspace reuse whole leaves, because each writer's keys ascend and the
    /// writers' keys alternate.
    levels: Keyspace,
}

fn open(path: &Path, second: Option<&Path>) -> Store {
    let mut options = Options::new().memory(16 << 20);
    if let Some(second) = second {
        options = options.fast_bytes(0).tier(second, TierOptions::new());
    }
    let db = options.open(path).unwrap();
    let (one, two) = (db.keyspace("one").unwrap(), db.keyspace("two").unwrap());
    let with = |name, structure| {
        let options = KeyspaceOptions::new().structure(structure);
        db.keyspace_with(name, &options).unwrap()
    };
    let hashed = with("three", Structure::Hashed(HashedOptions::default()));
    let levels = with("four", Structure::Levels(LevelsOptions::samt(3).stitch(1)));
    Store {
        db,
        one,
        two,
        hashed,
        levels,
    }
}

fn key(writer: u64, number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&writer.to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Returns the number of a writer's last batch in a keyspace, and how many of its batches there
/// are.
fn last(keyspace: &Keyspace, writer: u64) -> (u64, u64) {
    let mut walk = keyspace.prefix(writer.to_be_bytes());
    let last = walk.next_back().map_or(0, |pair| {
        let key = pair.unwrap().0;
        u64::from_be_bytes(key[8..].try_into().unwrap())
    });
    let count = keyspace.prefix(writer.to_be_bytes()).map(Result::unwrap).count();
    (last, count as u64)
}

/// The process that is killed. Without its environment variable, the test does nothing.
#[test]
fn the_child_writes_until_it_is_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let second = std::env::var_os(SECOND);
    let store = open(Path::new(&directory), second.as_deref().map(Path::new));
    let db = &store.db;
    let out = Mutex::new(std::io::stdout());
    std::thread::scope(|scope| {
        if second.is_some() {
            // Let the kill interrupt rewriting from one directory to the other.
            scope.spawn(move || while db.compact().is_ok() {});
        }
        for writer in 0..WRITERS {
            let (store, out) = (&store, &out);
            scope.spawn(move || {
                for number in last(&store.one, writer).0 + 1.. {
                    let mut batch = WriteBatch::new();
                    let value = vec![number as u8; 300];
                    for keyspace in [&store.one, &store.two, &store.hashed, &store.levels] {
                        batch.put(keyspace, key(writer, number), &value).unwrap();
                    }
                    batch
                        .put(&store.one, format!("count {writer}"), number.to_be_bytes())
                        .unwrap();
                    db.write(&batch).unwrap();
                    let mut out = out.lock().unwrap();
                    writeln!(out, "acknowledged {writer} {number}").unwrap();
                    out.flush().unwrap();
                }
            });
        }
    });
}

#[test]
fn a_process_that_is_killed_loses_nothing_that_it_acknowledged() {
    let place = tempfile::tempdir().unwrap();
    kill(&place.path().join("store"), None);
}

#[test]
fn a_process_with_two_tiers_that_is_killed_loses_nothing_that_it_acknowledged() {
    let place = tempfile::tempdir().unwrap();
    let within = place.path().to_owned();
    let places = match std::env::var("ALLUVIUM_KILL_PLACES") {
        Ok(places) => places.split(':').map(PathBuf::from).collect(),
        Err(_) => vec![within.clone(), within],
    };
    assert_eq!(places.len(), 2, "two places, with a colon between them");
    let (path, second) = (places[0].join("store"), places[1].join("second"));
    kill(&path, Some(&second));
    let Store { db, .. } = open(&path, Some(&second));
    db.compact().unwrap();
    let tiers = db.stats().tiers;
    assert!(tiers[1].space.live_bytes > tiers[0].space.live_bytes, "{tiers:?}");
    assert_eq!(db.check().unwrap(), [""; 0]);
}

fn kill(path: &Path, second: Option<&Path>) {
    let mut random = fastrand::Rng::with_seed(number("ALLUVIUM_KILL_SEED", 1));
    let (mut longest, mut batches) = (Duration::ZERO, 0);
    let kills = number("ALLUVIUM_KILLS", 5);
    for _ in 0..kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "kill::the_child_writes_until_it_is_killed",
                "--nocapture",
            ])
            .env(DIRECTORY, path)
            .envs(second.map(|second| (SECOND, second)))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let patience = random.u64(1..4000);
        let mut acknowledged = [0; WRITERS as usize];
        let mut seen = 0;
        for line in lines {
            // The last line may be truncated.
            let line = line.unwrap();
            let words: Vec<&str> = line.split(' ').collect();
            if let ["acknowledged", writer, number] = words[..]
                && let (Ok(writer), Ok(number)) = (writer.parse::<usize>(), number.parse::<u64>())
            {
                seen += 1;
                if seen <= patience {
                    acknowledged[writer] = number;
                }
                if seen == patience {
                    child.kill().unwrap();
                }
            }
        }
        child.wait().unwrap();
        assert!(seen > 0, "the child wrote nothing");
        let began = Instant::now();
        let store = open(path, second);
        longest = longest.max(began.elapsed());
        batches = batches.max(assert_whole(&store, acknowledged));
        assert_eq!(store.db.check().unwrap(), [""; 0]);
        store.db.close().unwrap();
    }
    println!("{kills} kills, {batches} batches of one writer; the longest opening took {longest:?}");
}

/// Fails unless all acknowledged batches are present and every batch is complete. Returns the
/// largest number of batches of any writer.
fn assert_whole(store: &Store, acknowledged: [u64; WRITERS as usize]) -> u64 {
    let (mut all, mut batches) = (0, 0);
    for writer in 0..WRITERS {
        let (newest, count) = last(&store.one, writer);
        assert!(newest >= acknowledged[writer as usize], "acknowledged and lost");
        assert_eq!(count, newest, "there is a hole");
        for other in [&store.two, &store.levels] {
            assert_eq!(last(other, writer), (newest, count), "half a batch");
        }
        let found = |number| store.hashed.get(key(writer, number)).unwrap();
        let mut recent = newest.saturating_sub(RECENT) + 1..=newest;
        let missing = recent.find(|&number| found(number).as_deref() != Some(&[number as u8; 300]));
        assert_eq!(missing, None, "half a batch, or lost of the hashed keyspace");
        all += newest;
        let counted = store.one.get(format!("count {writer}")).unwrap();
        assert_eq!(
            counted.as_deref(),
            (newest > 0).then_some(&newest.to_be_bytes()[..]),
            "half a batch"
        );
        batches = batches.max(newest);
    }
    assert_eq!(
        store.hashed.unordered().count() as u64,
        all,
        "a hole, or half a batch"
    );
    batches
}

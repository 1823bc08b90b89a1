//! Checks the store's memory bound: under every workload, a process that only runs a store stays
//! within 1.10 times the budget plus 32 MiB resident.
//!
//! Each workload runs in its own process, whose peak memory Linux reports. The bound is raised by
//! the caller's own memory, such as a batch that it fills or the values that it passes.
//! `ALLUVIUM_MEMORY_FULL=1` runs larger workloads, with four times as much data as the budget.

use alluvium::simulation::{DirectoryOpener as _, SimulationOperations as _};
use alluvium::{Db, Error, Keyspace, KeyspaceOptions, MAX_KEY, Options, Snapshot, WriteBatch};
use alluvium_device::machine;
use alluvium_device::memory::MemoryDirectory;
use alluvium_sim::environment::{effort, number};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const MIB: u64 = 1 << 20;
/// Environment variable that tells a child process its workload: name, budget in MiB, directory.
const ROW: &str = "ALLUVIUM_MEMORY_ROW";

const VALUE: [u8; 100] = [7; 100];
const LONG_VALUE: u64 = 16 * MIB;
/// Number of range deletes visible to a snapshot, in the small and in the full run.
const SEEN: (u64, u64) = (200_000, 300_000);
/// Number of writes in the long batch, and the approximate bytes of each.
const BATCH: u64 = 1_000_000;
const PER_WRITE: u64 = 16 + 62 + 4;

/// One workload. Workloads with the same directory run in sequence on one store.
struct Row {
    name: &'static str,
    directory: &'static str,
    work: fn(&Path, u64) -> u64,
}

const fn row(name: &'static str, directory: &'static str, work: fn(&Path, u64) -> u64) -> Row {
    Row {
        name,
        directory,
        work,
    }
}

/// The workloads that the gate measures.
#[rustfmt::skip]
const GATE: [&str; 4] = ["load, two threads", "cold open", "get", "16 MiB values, 1 thread"];

const ROWS: &[Row] = &[
    row("load, two threads", "loaded", load),
    row("cold open", "loaded", cold_open),
    row("get", "loaded", get),
    row("scan, four threads", "loaded", scan),
    row("1,000 iterators", "loaded", |at, memory| {
        iterators(at, memory, 1000)
    }),
    row("10,000 iterators", "loaded", |at, memory| {
        iterators(at, memory, 10_000)
    }),
    row("snapshots", "loaded", snapshots),
    row("compact", "loaded", compact),
    row("load, levels", "levels", load_levels),
    row("16 dictionaries", "dictionaries", dictionaries),
    row("compact, levels", "levels", compact),
    row("compact, dictionaries", "dictionaries", compact),
    row("keys of 64 KiB, hashed", "hashed", |at, memory| {
        long_keys(at, memory, "hashed")
    }),
    row("keys of 64 KiB, tiered", "long keys", |at, memory| {
        long_keys(at, memory, "tiered")
    }),
    row("open, keys of 64 KiB", "long keys", open_long_keys),
    row("compact, keys of 64 KiB", "long keys", compact),
    row("keys of 64 KiB, levels", "long keys, levels", |at, memory| {
        long_keys(at, memory, "levels,k=4")
    }),
    row("open, 64 KiB, levels", "long keys, levels", open_long_keys),
    row("200 threads", "threads", threads),
    row("10,000 keyspaces", "keyspaces", keyspaces),
    row("ingest", "ingested", ingest),
    row("batch of a million puts", "batch", batch),
    row("16 MiB values, 1 thread", "long", |at, memory| {
        long_values(at, memory, 1)
    }),
    row("16 MiB values, 4 threads", "long", |at, memory| {
        long_values(at, memory, 4)
    }),
    row("killed", "killed", be_killed),
    row("recovery", "killed", cold_open),
    row("killed, 16 MiB values", "killed long", be_killed_with_long_values),
    row("recovery, 16 MiB values", "killed long", cold_open),
    // The ranges partially overlap.
    row("300,000 range deletes", "ranges", range_deletes),
    row("get after range deletes", "ranges", get),
    row("load after range deletes", "ranges", load),
    row("compact after range deletes", "ranges", compact),
    // The ranges are disjoint, and no records lie in them.
    row("range deletes apart", "apart", range_deletes_apart),
    row("get after those apart", "apart", get),
    row("compact after those apart", "apart", compact),
    // A snapshot retains the records that each range deletes.
    row("range deletes, snapshot", "seen", range_deletes_seen),
    row("opening with those seen", "seen", open_seen),
];

fn is_full() -> bool {
    number("ALLUVIUM_MEMORY_FULL", 0) > 0
}

/// Returns the first number in the small run, and the second in the full run.
fn much(little: u64, full: u64) -> u64 {
    if is_full() { full } else { little }
}

fn open(path: &Path, memory: u64) -> (Db, Keyspace) {
    let db = Options::new().memory(memory).open(path).unwrap();
    let keyspace = db.keyspace("records").unwrap();
    (db, keyspace)
}

/// Returns the number of records in a loaded store.
fn records(memory: u64) -> u64 {
    much(150_000 + memory / 160, memory / 31)
}

/// Returns the key with this number. Keys are in pseudo-random order.
fn key(number: u64) -> [u8; 24] {
    let mut key = [0; 24];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key[16..].copy_from_slice(&number.to_be_bytes());
    key
}

fn load(path: &Path, memory: u64) -> u64 {
    let (db, keyspace) = open(path, memory);
    let half = records(memory) / 2;
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let keyspace = &keyspace;
            scope.spawn(move || {
                for number in thread * half..(thread + 1) * half {
                    keyspace.put(key(number), VALUE).unwrap();
                }
            });
        }
    });
    db.close().unwrap();
    0
}

fn cold_open(path: &Path, memory: u64) -> u64 {
    let (db, keyspace) = open(path, memory);
    assert!(keyspace.get(key(0)).unwrap().is_some());
    db.close().unwrap();
    0
}

fn get(path: &Path, memory: u64) -> u64 {
    let (_db, keyspace) = open(path, memory);
    let all = records(memory);
    for step in 0..much(30_000, 1_000_000) {
        keyspace.get(key(step.wrapping_mul(7919) % all)).unwrap();
    }
    0
}

fn scan(path: &Path, memory: u64) -> u64 {
    let (_db, keyspace) = open(path, memory);
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let keyspace = &keyspace;
            scope.spawn(move || {
                let mut walk = keyspace.range([thread << 6]..);
                for _ in 0..much(50_000, 1_000_000) {
                    if walk.lend().unwrap().is_none() {
                        break;
                    }
                }
            });
        }
    });
    0
}

/// All iterators are open at once and advance in turn. One of them advances far.
fn iterators(path: &Path, memory: u64, count: u64) -> u64 {
    let (_db, keyspace) = open(path, memory);
    let begin = |number: u64| (number * (u64::MAX / count)).to_be_bytes();
    let mut all: Vec<_> = (0..count).map(|number| keyspace.range(begin(number)..)).collect();
    let (near, far) = (much(20_000 / count + 1, 200), much(20_000, 200_000));
    for _ in 0..near {
        for walk in &mut all {
            walk.lend().unwrap();
        }
    }
    for _ in 0..far {
        all[0].lend().unwrap();
    }
    for walk in &mut all {
        walk.lend().unwrap();
    }
    0
}

fn snapshots(path: &Path, memory: u64) -> u64 {
    let (db, keyspace) = open(path, memory);
    let mut all = Vec::new();
    for round in 0..much(20, 200) {
        all.push(db.snapshot());
        for number in 0..2000 {
            keyspace.put(key(number), round.to_be_bytes()).unwrap();
        }
    }
    for (snapshot, round) in all.iter().skip(1).zip(0u64..) {
        let found = snapshot.get(&keyspace, key(1)).unwrap();
        assert_eq!(found.as_deref(), Some(&round.to_be_bytes()[..]));
    }
    0
}

fn compact(path: &Path, memory: u64) -> u64 {
    let (db, _) = open(path, memory);
    db.compact().unwrap();
    db.close().unwrap();
    0
}

fn keyspace_in(db: &Db, structure: &str) -> Keyspace {
    let options = KeyspaceOptions::new().structure(structure.parse().unwrap());
    db.keyspace_with("records", &options).unwrap()
}

fn load_levels(path: &Path, memory: u64) -> u64 {
    load_into(path, memory, &["levels,k=4".to_owned()])
}

/// Every memtable is divided among 16 dictionaries.
fn dictionaries(path: &Path, memory: u64) -> u64 {
    let levels = (2..14).map(|k| format!("levels,k={k}"));
    let hashed = (1..5).map(|bits| format!("hashed,form=boa,lambda={}", 1 << bits));
    load_into(path, memory, &levels.chain(hashed).collect::<Vec<String>>())
}

fn load_into(path: &Path, memory: u64, structures: &[String]) -> u64 {
    let db = Options::new().memory(memory).open(path).unwrap();
    let options = |of: &String| KeyspaceOptions::new().structure(of.parse().unwrap());
    let all = structures.iter().map(|of| db.keyspace_with(of, &options(of)));
    let all: Vec<Keyspace> = all.map(Result::unwrap).collect();
    for number in 0..records(memory) {
        let keyspace = &all[number as usize % all.len()];
        keyspace.put(key(number), VALUE).unwrap();
    }
    db.close().unwrap();
    0
}

/// Merges and iterators encounter keys longer than a leaf.
fn long_keys(path: &Path, memory: u64, structure: &str) -> u64 {
    let db = Options::new().memory(memory).open(path).unwrap();
    let keyspace = keyspace_in(&db, structure);
    let count = much(1200, 4000);
    for number in 0..count {
        let mut long = number.to_be_bytes().to_vec();
        long.resize(MAX_KEY, b'k');
        keyspace.put(&long, VALUE).unwrap();
    }
    assert_eq!(keyspace.unordered().map(Result::unwrap).count() as u64, count);
    db.close().unwrap();
    0
}

fn open_long_keys(path: &Path, memory: u64) -> u64 {
    let (db, keyspace) = open(path, memory);
    let count = much(1200, 4000);
    for number in 0..count {
        let mut long = number.to_be_bytes().to_vec();
        long.resize(MAX_KEY, b'k');
        assert!(keyspace.get(&long).unwrap().is_some(), "{number}");
        let next = keyspace
            .range(&number.to_be_bytes()[..]..)
            .next()
            .unwrap()
            .unwrap();
        assert!(next.0 == long, "{number}");
    }
    assert_eq!(keyspace.iter().rev().count() as u64, count);
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    db.close().unwrap();
    0
}

/// Each thread reads, iterates, writes and commits transactions.
fn threads(path: &Path, memory: u64) -> u64 {
    // Otherwise the threads' heaps would retain memory that the store has freed.
    alluvium::give_freed_memory_back();
    let (db, keyspace) = open(path, memory);
    std::thread::scope(|scope| {
        for thread in 0..200u64 {
            let (db, keyspace) = (&db, &keyspace);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                for step in 0..much(150, 2000) {
                    let key = (thread * 1_000_000 + step % 300).to_be_bytes();
                    match random.u32(0..4) {
                        0 => {
                            let value = vec![thread as u8; random.usize(1..3000)];
                            keyspace.put(key, value).unwrap();
                        }
                        1 => drop(keyspace.get(key).unwrap()),
                        2 => db
                            .transaction(|transaction| {
                                transaction.get(keyspace, key)?;
                                transaction.put(keyspace, key, [1; 100])
                            })
                            .unwrap(),
                        _ => assert!(keyspace.range(key..).take(5).all(|pair| pair.is_ok())),
                    }
                }
            });
        }
    });
    db.close().unwrap();
    0
}

fn keyspaces(path: &Path, memory: u64) -> u64 {
    let (db, _) = open(path, memory);
    for number in 0..much(3000, 10_000) {
        let keyspace = db.keyspace(&format!("keyspace {number}")).unwrap();
        keyspace.put("key", VALUE).unwrap();
    }
    0
}

fn ingest(path: &Path, memory: u64) -> u64 {
    let (_db, keyspace) = open(path, memory);
    let sorted = (0..records(memory)).map(|number| (number.to_be_bytes(), VALUE));
    assert_eq!(keyspace.ingest(sorted).unwrap(), records(memory));
    0
}

fn batch(path: &Path, memory: u64) -> u64 {
    let (db, keyspace) = open(path, memory);
    let mut batch = WriteBatch::new();
    for number in 0..BATCH {
        batch.put(&keyspace, &key(number)[..16], [7; 62]).unwrap();
    }
    match db.write(&batch) {
        // The error must come before the allocation, and a value of half the length may fit.
        Err(Error::TooLong { most, .. }) => assert!(most as u64 <= memory / 2 + 16 * MIB),
        done => done.unwrap(),
    }
    keyspace.put("after", "it").unwrap();
    BATCH * PER_WRITE
}

fn long_values(path: &Path, memory: u64, threads: u64) -> u64 {
    let (db, keyspace) = open(path, memory);
    let value = vec![7; LONG_VALUE as usize];
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (keyspace, value) = (&keyspace, value.clone());
            scope.spawn(move || {
                for number in 0..much(4, 20) {
                    keyspace.put(format!("{thread} {number}"), &value).unwrap();
                }
            });
        }
    });
    drop(value);
    let found = keyspace.get(format!("{} 0", threads - 1)).unwrap().unwrap();
    assert!(found.len() as u64 == LONG_VALUE && found.iter().all(|&byte| byte == 7));
    db.close().unwrap();
    (threads + 1) * LONG_VALUE
}

fn be_killed(path: &Path, memory: u64) -> u64 {
    let (_db, keyspace) = open(path, memory);
    for number in 0..records(memory) {
        keyspace.put(key(number), VALUE).unwrap();
    }
    tell(0);
    std::process::abort()
}

fn be_killed_with_long_values(path: &Path, memory: u64) -> u64 {
    let (_db, keyspace) = open(path, memory);
    let value = vec![7; LONG_VALUE as usize];
    keyspace.put(key(0), VALUE).unwrap();
    for number in 0..much(4, 20) {
        keyspace.put(format!("long {number}"), &value).unwrap();
    }
    tell(LONG_VALUE);
    std::process::abort()
}

fn range_deletes(path: &Path, memory: u64) -> u64 {
    let (db, keyspace) = open(path, memory);
    for number in 0..300_000 {
        let (start, end) = (key(number), key(number + 1));
        let (start, end) = if start < end { (start, end) } else { (end, start) };
        keyspace.delete_range(&start[..8], Some(&end[..8])).unwrap();
    }
    db.close().unwrap();
    0
}

/// Deletes disjoint ranges in pseudo-random order.
fn delete_apart(keyspace: &Keyspace, count: u64) {
    for number in 0..count {
        let place = number.wrapping_mul(7919) % count;
        let bounds = [10 * place, 10 * place + 5].map(u64::to_be_bytes);
        keyspace.delete_range(bounds[0], Some(&bounds[1])).unwrap();
    }
}

fn range_deletes_apart(path: &Path, memory: u64) -> u64 {
    let (db, keyspace) = open(path, memory);
    delete_apart(&keyspace, 300_000);
    db.close().unwrap();
    0
}

fn range_deletes_seen(path: &Path, memory: u64) -> u64 {
    let (db, keyspace) = open(path, memory);
    let count = much(SEEN.0, SEEN.1);
    for number in 0..count {
        keyspace.put((10 * number).to_be_bytes(), b"seen").unwrap();
    }
    let before = db.create_snapshot("before").unwrap();
    delete_apart(&keyspace, count);
    db.compact().unwrap();
    check_seen(&keyspace, &before, count);
    db.close().unwrap();
    0
}

fn check_seen(keyspace: &Keyspace, before: &Snapshot, count: u64) {
    for number in [0, count / 2, count - 1] {
        let key = (10 * number).to_be_bytes();
        assert!(before.get(keyspace, key).unwrap().is_some());
        assert!(keyspace.get(key).unwrap().is_none());
    }
}

fn open_seen(path: &Path, memory: u64) -> u64 {
    let (db, keyspace) = open(path, memory);
    let before = db.open_snapshot("before").unwrap();
    check_seen(&keyspace, &before, much(SEEN.0, SEEN.1));
    0
}

/// Returns the peak resident memory of this process in bytes.
fn peak() -> u64 {
    machine::memory_of_process("VmHWM").expect("Linux says how much memory a process has had")
}

/// Returns how many more bytes the test program, which contains all tests of this crate, keeps
/// resident than a program that only embeds a store.
fn excess_of_program() -> u64 {
    const PROGRAM: u64 = 8 * MIB;
    machine::memory_of_program()
        .expect("Linux says how much of a program is in memory")
        .saturating_sub(PROGRAM)
}

/// Reports the peak and the caller's share of it to the parent process.
fn tell(own: u64) {
    println!("peak {} {}", peak(), own + excess_of_program());
}

/// The process that runs one workload. Without its environment variable, the test does nothing.
#[test]
fn a_child_does_one_kind_of_work() {
    let Ok(row) = std::env::var(ROW) else { return };
    let mut words = row.splitn(3, '\n');
    let mut word = || words.next().unwrap();
    let (name, memory, directory) = (word(), word(), word());
    let memory = memory.parse::<u64>().unwrap() * MIB;
    let found = ROWS.iter().find(|row| row.name == name).unwrap();
    let own = (found.work)(Path::new(directory), memory);
    tell(own);
}

/// Runs one workload in a child process. Returns its peak and the caller's share of it, in bytes.
fn measure(row: &Row, memory_mib: u64, directory: &Path) -> (u64, u64) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "memory::a_child_does_one_kind_of_work", "--nocapture"])
        .env(
            ROW,
            format!("{}\n{memory_mib}\n{}", row.name, directory.display()),
        )
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    let told = said.lines().find_map(|line| {
        let (_, told) = line.split_once("peak ")?;
        let (peak, own) = told.split_once(' ')?;
        Some((peak.parse().ok()?, own.trim().parse().ok()?))
    });
    let complaint = String::from_utf8_lossy(&child.stderr);
    told.unwrap_or_else(|| panic!("{} at {memory_mib} MiB: {said}{complaint}", row.name))
}

#[test]
#[cfg(target_os = "linux")]
fn a_store_has_no_more_memory_than_it_promises() {
    let place = tempfile::tempdir().unwrap();
    let only = std::env::var("ALLUVIUM_MEMORY_ONLY").unwrap_or_default();
    let budgets: &[u64] = if is_full() {
        &[16, 64, 320]
    } else {
        effort(&[16], &[16, 64])
    };
    let mut broken = Vec::new();
    println!(
        "{:26} {:>6} {:>9} {:>6} {:>8}",
        "MiB", "budget", "promised", "peak", "caller's"
    );
    let is_wanted = |row: &&Row| row.name.contains(&only) && effort(GATE.contains(&row.name), true);
    for &memory in budgets {
        for row in ROWS.iter().filter(is_wanted) {
            let directory = place.path().join(format!("{memory} {}", row.directory));
            let (peak, own) = measure(row, memory, &directory);
            let promised = memory * MIB * 11 / 10 + 32 * MIB;
            let line = format!(
                "{:26} {memory:6} {:9} {:6} {:8}",
                row.name,
                promised / MIB,
                peak.saturating_sub(own) / MIB,
                own / MIB
            );
            println!("{line}");
            if peak > promised + own {
                broken.push(line);
            }
        }
    }
    assert!(broken.is_empty(), "the promise is broken:\n{}", broken.join("\n"));
}

#[test]
fn a_batch_that_would_take_too_much_memory_is_refused_before_it_does() {
    let db = Options::new()
        .memory(16 * MIB)
        .open_in(Arc::new(MemoryDirectory::new()))
        .unwrap();
    let keyspace = db.keyspace("records").unwrap();
    let fill = |writes: u64, value: u64| {
        let mut batch = WriteBatch::new();
        for number in 0..writes {
            batch
                .put(&keyspace, number.to_be_bytes(), vec![7; value as usize])
                .unwrap();
        }
        batch
    };
    // Write a few long values, then many short ones, whose overhead per write counts towards the
    // memtable.
    for (writes, value) in [(25, MIB), (250_000, 30)] {
        let batch = fill(writes, value);
        let before = db.sequence();
        match db.write(&batch) {
            Err(Error::TooLong { what, bytes, most }) => {
                assert_eq!(what, "batch");
                assert!(most < bytes && most as u64 <= 24 * MIB, "{most} of {bytes}");
            }
            other => panic!("{writes} writes: {other:?}"),
        }
        assert_eq!((db.sequence(), keyspace.get([0; 8]).unwrap()), (before, None));
    }
    db.write(&fill(20, MIB)).unwrap();
    db.write(&fill(100_000, 30)).unwrap();
    assert_eq!(
        keyspace.get(19u64.to_be_bytes()).unwrap().as_deref(),
        Some(&[7; 30][..])
    );
    // A single value cannot be split.
    keyspace.put("long", vec![8; 30 * MIB as usize]).unwrap();
    assert_eq!(keyspace.get("long").unwrap().unwrap().len() as u64, 30 * MIB);
    assert!(keyspace.approximate_len().unwrap() >= 100_000);
}

#[test]
fn long_operands_that_are_not_copied_are_logged_and_applied_like_short_ones() {
    let directory = Arc::new(MemoryDirectory::new());
    let open = || {
        Options::new()
            .memory(16 * MIB)
            .open_in(directory.clone())
            .unwrap()
    };
    let value = |byte: u8, len: u64| (0..len).map(|at| byte ^ at as u8).collect::<Vec<u8>>();
    let lens = [1000, (64 << 10) - 1, 64 << 10, 100_001, 3 * MIB];
    let db = open();
    let keyspace = db.keyspace("records").unwrap();
    let later = SystemTime::now() + Duration::from_secs(3600);
    for len in lens {
        keyspace.put(format!("put {len}"), value(1, len)).unwrap();
        keyspace
            .put_until(format!("until {len}"), value(2, len), later)
            .unwrap();
        let key = format!("set {len}");
        assert!(
            keyspace
                .compare_and_set(&key, None, Some(&value(3, len)))
                .unwrap()
        );
        assert!(
            !keyspace
                .compare_and_set(&key, None, Some(&value(4, len)))
                .unwrap()
        );
        assert!(
            keyspace
                .compare_and_set(&key, Some(&value(3, len)), Some(&value(5, len)))
                .unwrap()
        );
    }
    let check = |keyspace: &Keyspace| {
        for len in lens {
            for (name, byte) in [("put", 1), ("until", 2), ("set", 5)] {
                let found = keyspace.get(format!("{name} {len}")).unwrap();
                assert!(found.as_deref() == Some(&value(byte, len)[..]), "{name} {len}");
            }
        }
    };
    check(&keyspace);
    // Simulate a crash, so that recovery replays everything from the log.
    db.abandon();
    drop((keyspace, db));
    let db = open();
    check(&db.keyspace("records").unwrap());
    db.checkpoint().unwrap();
    check(&db.keyspace("records").unwrap());
}

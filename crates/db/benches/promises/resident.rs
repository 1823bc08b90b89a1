//! Measures the peak memory of a process in each phase.

use super::{MIB, Sizes, key, mib, process, value};
use alluvium::{Db, Keyspace, Options};
use std::io::Read;
use std::path::Path;

/// Allowance on top of the budget, for the program, its threads' stacks, and memory that the
/// allocator retains.
const BESIDE: u64 = 32 * MIB;

const BIG_VALUE: usize = 16 << 20;

const LAST_PHASE: &str = "everything at once, two threads";

pub(super) fn run(sizes: &Sizes) {
    for &budget in sizes.budgets {
        let place = sizes.place();
        let store = place.path().join("store");
        println!(
            "a budget of {} MiB: most resident memory in a phase, MiB (x budget)",
            budget / MIB
        );
        // Load three times the budget, so that most of the data is on disk.
        for task in ["all phases", "recovery"] {
            let mut child = process::spawn(task, &store, (budget, 3 * budget));
            let mut said = String::new();
            let mut output = child.stdout.take().expect("it is piped");
            output.read_to_string(&mut said).expect("the child speaks UTF-8");
            print!("{said}");
            // The first child aborts, which is like a kill, but only after its last phase.
            let success = child.wait().expect("the child ends").success();
            assert!(success || task == "all phases", "{task} failed");
            assert!(
                said.contains(if task == "all phases" { LAST_PHASE } else { task }),
                "{task} ended early"
            );
        }
    }
}

/// Returns the high-water mark of the process's resident memory in bytes.
fn most_resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse::<u64>().ok())
        .expect("a number of KiB")
        << 10
}

/// Runs one phase and reports its peak memory.
fn phase(name: &str, budget: u64, work: impl FnOnce()) {
    std::fs::write("/proc/self/clear_refs", "5").expect("a process may reset its own mark");
    work();
    let most = most_resident();
    let verdict = if most <= budget / 10 * 11 + BESIDE {
        ""
    } else {
        "  MORE THAN PROMISED"
    };
    println!(
        "  {name:<32} {:>8.1}  ({:.2}){verdict}",
        mib(most),
        most as f64 / budget as f64
    );
}

fn open(store: &Path, budget: u64) -> (Db, Keyspace) {
    let db = Options::new().memory(budget).open(store).expect("a store");
    let keyspace = db.keyspace("main").expect("a keyspace");
    (db, keyspace)
}

/// Runs every phase but recovery, then aborts in the middle of writes.
pub(super) fn all_phases(store: &Path, budget: u64, bytes: u64) {
    let records = bytes / 124;
    let (db, main) = open(store, budget);
    let body = value(7, 100);
    phase("load", budget, || {
        for number in 0..records {
            main.put(key(number), &body).unwrap();
        }
    });
    let mut random = fastrand::Rng::with_seed(1);
    phase("reads", budget, || {
        for _ in 0..records / 20 {
            let found = main.get(key(random.u64(..records))).unwrap();
            assert_eq!(found.as_deref(), Some(&body[..]));
        }
    });
    phase("scan of everything", budget, || {
        assert_eq!(main.iter().map(Result::unwrap).count() as u64, records);
    });
    let mut keyspaces = Vec::new();
    phase("a thousand keyspaces", budget, || {
        for number in 0..1000 {
            let keyspace = db.keyspace(&format!("keyspace {number}")).unwrap();
            for record in 0..20 {
                keyspace.put(key(record), &body).unwrap();
            }
            keyspaces.push(keyspace);
        }
    });
    phase("two hundred iterators", budget, || {
        let mut iterators: Vec<_> = (0..200).map(|at| main.range(key(at)..)).collect();
        for number in 0..50 {
            for iterator in &mut iterators {
                iterator.next();
            }
            main.put(key(records + number), &body).unwrap();
        }
    });
    phase("values of 16 MiB", budget, || {
        for number in 0..12 {
            main.put(format!("big {number}"), value(number, BIG_VALUE))
                .unwrap();
        }
        for number in 0..12 {
            let found = main.get(format!("big {number}")).unwrap().expect("it was put");
            assert_eq!(found.len(), BIG_VALUE);
        }
    });
    phase(LAST_PHASE, budget, || {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in records..records + records / 4 {
                    main.put(key(number), &body).unwrap();
                }
            });
            for pair in main.iter().rev().take(records as usize / 4) {
                pair.unwrap();
            }
        });
    });
    // The log has its maximum length now, and the next opening has to read it.
    std::process::abort();
}

/// Opens the store after the abort.
pub(super) fn recovery(store: &Path, budget: u64, bytes: u64) {
    let records = bytes / 124;
    phase("recovery", budget, || {
        let (db, main) = open(store, budget);
        assert!(main.contains(key(records - 1)).unwrap());
        std::mem::forget(db);
    });
}

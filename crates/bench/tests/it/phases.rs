//! Every phase, with few records.

use super::{job, rows};
use alluvium_bench::engines::OWN;
use alluvium_bench::workload::phase::{Amount, Phase, Task};
use alluvium_bench::workload::trace::{Head, record};

const ALL: [&str; 12] = [
    "load",
    "a",
    "b",
    "c",
    "c:uniform",
    "c:ycsb",
    "d",
    "e",
    "e:exactly=500+run=50",
    "f",
    "m",
    "b:rate=50000",
];

#[test]
fn every_phase_is_measured() {
    let place = tempfile::tempdir().unwrap();
    let rows = rows(&job("alluvium", place.path(), &ALL), &OWN).unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row.phase.as_str()).collect();
    assert_eq!(names[..2], ["load", "settle"]);
    assert_eq!(names[2..], ALL[1..]);
    for row in rows.iter().filter(|row| row.phase != "settle") {
        let expected = match row.phase.as_str() {
            "load" => 3000,
            "e:exactly=500+run=50" => 50,
            _ => 1000,
        };
        assert_eq!((row.operations, row.threads), (expected, 2), "{}", row.phase);
        assert_eq!(row.series.iter().sum::<u64>(), expected, "{}", row.phase);
        assert!(row.ops_per_s > 0.0 && row.cpu_us_per_op >= 0.0, "{row:?}");
        assert!(row.latency.p50_us <= row.latency.p99_us && row.latency.p99_us <= row.latency.max_us);
        assert!(row.user_bytes > 0 && row.rss_peak_bytes > 0, "{row:?}");
    }
    let of = |phase: &str| rows.iter().find(|row| row.phase == phase).unwrap();
    assert_eq!(of("load").user_written_bytes, 3000 * 124);
    assert_eq!(of("c").user_written_bytes, 0);
    assert_eq!(of("c").user_bytes, 1000 * 124);
    assert_eq!(of("m").user_bytes, 64 * 1000 * 124);
    // Records that d and e put are there for what follows.
    assert!(of("d").records > 3000 && of("f").records > of("d").records);
}

#[test]
fn a_run_follows_from_its_seed() {
    let bytes = |seed: u64| {
        let place = tempfile::tempdir().unwrap();
        let mut job = job("none", place.path(), &["load", "e", "f"]);
        job.seed = seed;
        let rows = rows(&job, &OWN).unwrap();
        let bytes: Vec<u64> = rows.iter().map(|row| row.user_bytes).collect();
        bytes
    };
    assert_eq!(bytes(1), bytes(1));
    assert_ne!(bytes(1), bytes(2));
}

#[test]
fn phases_without_a_load_find_the_records_loaded() {
    let place = tempfile::tempdir().unwrap();
    let rows = rows(&job("alluvium", place.path(), &["c"]), &OWN).unwrap();
    assert_eq!(rows.len(), 1);
    // And a later run may use them again.
    let mut again = job("alluvium", place.path(), &["c:uniform", "e"]);
    again.is_loaded = true;
    assert_eq!(super::rows(&again, &OWN).unwrap().len(), 2);
}

#[test]
fn a_trace_is_recorded_and_replayed() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("trace");
    let mut job = job("alluvium", &place.path().join("data"), &["load"]);
    let drawn = Phase::parse("a", super::DEFAULTS).unwrap();
    let head = Head {
        records: job.records,
        operations: 2500,
    };
    record(&file, &drawn, head, 3).unwrap();
    job.phases.push(Phase {
        name: "trace".into(),
        task: Task::Trace { file },
        warm: Amount::Operations(0),
        ..drawn
    });
    let rows = rows(&job, &OWN).unwrap();
    let replayed = rows.last().unwrap();
    assert_eq!((replayed.phase.as_str(), replayed.operations), ("trace", 2500));
    // About half of them are updates.
    let updates = replayed.user_written_bytes / 124;
    assert!((1100..1400).contains(&updates), "{updates}");
}

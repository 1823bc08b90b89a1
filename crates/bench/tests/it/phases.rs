//! Every phase, with few records.

use super::{job, rows};
use alluvium_bench::engine::{CapEnforcement, EngineOption, EngineSetup};
use alluvium_bench::engines::OWN;
use alluvium_bench::run::PhaseFlow;
use alluvium_bench::workload::phase::{PhaseTask, WindowLength, WorkloadPhase};
use alluvium_bench::workload::script;
use alluvium_bench::workload::trace::{TraceHeader, record};

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
    // Phases d and e add records for the later phases.
    assert!(of("d").records > 3000 && of("f").records > of("d").records);
}

#[test]
fn one_engine_is_measured_twice_and_reads_find_nothing_where_nothing_is() {
    for label in ["tiered", "hashed"] {
        let place = tempfile::tempdir().unwrap();
        let engine = format!("alluvium:{label}");
        let mut job = job(&engine, place.path(), &["load", "c:absent+uniform", "a:absent"]);
        job.options = ["tiered", "hashed"]
            .map(|label| EngineOption {
                engine: format!("alluvium:{label}"),
                name: "structure".to_owned(),
                value: label.to_owned(),
            })
            .to_vec();
        let rows = rows(&job, &OWN).unwrap();
        let of = |phase: &str| rows.iter().find(|row| row.phase == phase).unwrap();
        assert_eq!(of("c:absent+uniform").engine, engine);
        // Lookups of absent keys count only the keys, and updates affect existing records.
        assert_eq!(of("c:absent+uniform").user_bytes, 1000 * 24);
        assert_eq!(of("a:absent").records, 3000);
    }
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
    // A later run can reuse the records.
    let mut again = job("alluvium", place.path(), &["c:uniform", "e"]);
    again.is_loaded = true;
    assert_eq!(super::rows(&again, &OWN).unwrap().len(), 2);
}

#[test]
fn a_trace_is_recorded_and_replayed() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("trace");
    let mut job = job("alluvium", &place.path().join("data"), &["load"]);
    let drawn = WorkloadPhase::parse("a", super::DEFAULTS).unwrap();
    let head = TraceHeader {
        records: job.records,
        operations: 2500,
    };
    record(&file, &drawn, head, 3).unwrap();
    job.phases.push(WorkloadPhase {
        name: "trace".into(),
        task: PhaseTask::Trace { file },
        warm: WindowLength::Operations(0),
        ..drawn
    });
    let rows = rows(&job, &OWN).unwrap();
    let replayed = rows.last().unwrap();
    assert_eq!((replayed.phase.as_str(), replayed.operations), ("trace", 2500));
    // About half of them are updates.
    let updates = replayed.user_written_bytes / 124;
    assert!((1100..1400).contains(&updates), "{updates}");
}

/// Returns a job with a script of tiny phases.
fn scripted(engine: &str, directory: &std::path::Path, text: &str) -> alluvium_bench::run::EngineJob {
    let mut job = job(engine, directory, &[]);
    job.phases = script::parse(text, None).unwrap();
    job.flow = PhaseFlow::Continuous;
    job
}

#[test]
fn a_script_goes_through_its_phases_in_one_store_without_a_rest() {
    let place = tempfile::tempdir().unwrap();
    let text = "load, a:1000, d:1000, delete=90%, c:uniform+1000, e:200, d:500, delete=50%, m:20, f:500";
    let rows = rows(&scripted("alluvium", place.path(), text), &OWN).unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row.phase.as_str()).collect();
    assert_eq!(names[..3], ["1 load", "2 a:1000", "3 d:1000"]);
    assert_eq!(rows.len(), 10);
    // The third phase inserts about 50 records. Later ones delete nine of ten, and then half of the
    // rest.
    let (before, after) = (rows[2].records, rows[3].records);
    assert!(before > 3000 && before < 3200, "{before}");
    assert_eq!(
        (rows[3].operations, after),
        (before * 9 / 10, before - before * 9 / 10)
    );
    assert_eq!(rows[7].records, rows[6].records - rows[6].records / 2);
    assert!(rows[6].records > after, "new records after a deletion");
    // All phases share one clock.
    let began: Vec<f64> = rows.iter().map(|row| row.began_s.unwrap()).collect();
    assert_eq!(began[0], 0.0);
    for (pair, row) in began.windows(2).zip(&rows) {
        assert!(pair[1] >= pair[0] + row.seconds, "{began:?}");
    }
}

#[test]
fn a_script_deletes_the_same_with_every_number_of_threads() {
    let bytes = |threads: usize| {
        let place = tempfile::tempdir().unwrap();
        let mut job = scripted("alluvium", place.path(), "load, delete=90%");
        job.threads = threads;
        let rows = rows(&job, &OWN).unwrap();
        assert_eq!((rows[1].operations, rows[1].records), (2700, 300));
        let mut again = super::job("alluvium", place.path(), &[]);
        again.is_loaded = true;
        let keys = std::cell::RefCell::new(Vec::new());
        let engine = (OWN[0].open)(&setup(&again)).unwrap();
        let each = &mut |key: &[u8], _: &[u8]| keys.borrow_mut().push(key.to_vec());
        engine.session().unwrap().scan(b"u", 10_000, each).unwrap();
        engine.close().unwrap();
        keys.into_inner()
    };
    let one = bytes(1);
    assert_eq!(one.len(), 300);
    assert_eq!(one, bytes(3));
}

fn setup(job: &alluvium_bench::run::EngineJob) -> EngineSetup {
    EngineSetup {
        directory: job.directory.clone(),
        cap: job.cap,
        kept: CapEnforcement::Free,
        memory: job.memory,
        log: job.log,
        threads: 1,
        value_bytes: job.value_bytes,
        records: job.records,
        options: Vec::new(),
    }
}

#[test]
fn phases_of_a_script_say_how_far_they_fell() {
    let place = tempfile::tempdir().unwrap();
    let rows = rows(&scripted("none", place.path(), "load, c:100ms"), &OWN).unwrap();
    let dips = rows[1].dips.unwrap();
    assert!(dips.mean_per_s > 0.0 && dips.later_mean_per_s > 0.0, "{dips:?}");
    // Phases outside a script have a warm-up but not these figures.
    let place = tempfile::tempdir().unwrap();
    let rows = super::rows(&job("none", place.path(), &["c"]), &OWN).unwrap();
    assert_eq!((rows[0].dips, rows[0].began_s), (None, None));
}

#[test]
fn an_option_that_an_engine_does_not_know_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let mut job = job("alluvium", place.path(), &["load"]);
    job.options = vec![EngineOption::parse("rocksdb.background-jobs=4").unwrap()];
    rows(&job, &OWN).unwrap();
    let place = tempfile::tempdir().unwrap();
    job.directory = place.path().to_owned();
    job.options = vec![EngineOption::parse("alluvium.speed=high").unwrap()];
    let error = rows(&job, &OWN).unwrap_err().to_string();
    assert_eq!(
        error,
        "alluvium has no option \"speed\"; it has the options structure"
    );
}

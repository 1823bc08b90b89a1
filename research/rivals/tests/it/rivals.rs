//! Tests each engine of this build: its adapter against a map, and a tiny run of every phase.

use alluvium_bench::adapter_test::{ReopenExpectation, prove_with};
use alluvium_bench::engine::{EngineEntry, EngineOption, WriteLogging};
use alluvium_bench::run::{ChildEvent, EngineJob, GroupPaths, PhaseFlow, run_job};
use alluvium_bench::transactions;
use alluvium_bench::workload::keys::KeyOrdering;
use alluvium_bench::workload::phase::{PhaseDefaults, WindowLength, WorkloadPhase};
use alluvium_bench::workload::script;
use alluvium_rivals::{ENGINES, TRANSACTIONAL};
use std::path::Path;

const DEFAULTS: PhaseDefaults = PhaseDefaults {
    warm: WindowLength::Operations(50),
    run: WindowLength::Operations(200),
    rate: None,
};

/// Returns the engines that can be opened here. SplinterDB needs a library named by the user.
fn engines() -> impl Iterator<Item = (&'static EngineEntry, Vec<EngineOption>)> {
    let library = std::env::var("ALLUVIUM_SPLINTERDB").ok();
    ENGINES
        .iter()
        .filter_map(move |entry| match (entry.name, &library) {
            ("splinterdb", None) => {
                alluvium_bench::skipped!("splinterdb", "ALLUVIUM_SPLINTERDB names no library");
                None
            }
            ("splinterdb", Some(library)) => {
                let option = format!("splinterdb.library={library}");
                Some((entry, vec![EngineOption::parse(&option).unwrap()]))
            }
            _ => Some((entry, Vec::new())),
        })
}

#[test]
fn every_adapter_answers_as_a_map_does() {
    for (seed, (entry, options)) in engines().enumerate() {
        let place = tempfile::tempdir().unwrap();
        let options: Vec<_> = options
            .into_iter()
            .map(|option| (option.name, option.value))
            .collect();
        let reopened = match entry.name {
            "bf-tree" => ReopenExpectation::Refused,
            _ => ReopenExpectation::WithEverything,
        };
        if let Err(error) = prove_with(entry, place.path(), &options, reopened, 3000, seed as u64) {
            panic!("{}: {error:#}", entry.name);
        }
    }
}

fn job(
    entry: &EngineEntry,
    directory: &Path,
    phases: Vec<WorkloadPhase>,
    options: Vec<EngineOption>,
) -> EngineJob {
    EngineJob {
        engine: entry.name.to_owned(),
        repetition: 1,
        directory: directory.to_owned(),
        records: 1000,
        keys: KeyOrdering::default(),
        value_bytes: 100,
        threads: 2,
        phases,
        flow: PhaseFlow::Separate,
        is_loaded: false,
        seed: 1,
        log: WriteLogging::On,
        cap: 64 << 20,
        memory: None,
        options,
        settle_ms: 0,
        verify_every: 1,
        interval_ms: 100,
        groups: GroupPaths::default(),
    }
}

/// Runs a job. Returns the number of measured phases.
fn measured(job: &EngineJob) -> usize {
    let mut measured = 0;
    let done = run_job(job, ENGINES, &mut |event| {
        if let ChildEvent::Measured(row) = event {
            measured += usize::from(row.operations > 0);
        }
    });
    if let Err(error) = done {
        panic!("{}: {error:#}", job.engine);
    }
    measured
}

#[test]
fn every_engine_goes_through_every_phase() {
    let phases: Vec<WorkloadPhase> = ["load", "a", "b", "c", "d", "e", "f", "m"]
        .iter()
        .map(|text| WorkloadPhase::parse(text, DEFAULTS).unwrap())
        .collect();
    for (entry, options) in engines() {
        let place = tempfile::tempdir().unwrap();
        let job = job(entry, place.path(), phases.clone(), options);
        assert_eq!(measured(&job), phases.len(), "{}", entry.name);
    }
}

#[test]
fn every_engine_goes_through_a_script() {
    let phases = script::parse("load, a:200, delete=90%, c:200, d:100, delete=50%, e:50", None).unwrap();
    for (entry, options) in engines() {
        let place = tempfile::tempdir().unwrap();
        let mut job = job(entry, place.path(), phases.clone(), options);
        job.flow = PhaseFlow::Continuous;
        assert_eq!(measured(&job), phases.len(), "{}", entry.name);
    }
}

#[test]
fn the_transactions_of_every_engine_are_what_they_are_said_to_be() {
    for entry in TRANSACTIONAL {
        let place = tempfile::tempdir().unwrap();
        if let Err(error) = transactions::adapter_test::prove(entry, place.path()) {
            panic!("{}: {error:#}", entry.name);
        }
    }
}

#[test]
fn every_engine_with_transactions_goes_through_every_phase() {
    let texts = [
        "commit:4",
        "txn-size:pair=32",
        "group-commit:4",
        "rmw:4",
        "rmw:4+later",
    ];
    for entry in TRANSACTIONAL {
        let place = tempfile::tempdir().unwrap();
        let job = transactions::TransactionJob {
            engine: entry.name.to_owned(),
            repetition: 1,
            directory: place.path().to_owned(),
            counters: 300,
            phases: texts
                .iter()
                .map(|text| transactions::phase::TransactionPhase::parse(text).unwrap())
                .collect(),
            warm: WindowLength::Operations(10),
            run: WindowLength::Operations(60),
            seed: 1,
            cap: 64 << 20,
            memory: None,
            interval_ms: 100,
            groups: GroupPaths::default(),
        };
        let mut measured = Vec::new();
        let done = transactions::run_job(&job, TRANSACTIONAL, &mut |event| {
            if let ChildEvent::Measured(row) = event {
                measured.push((row.phase, row.operations));
            }
        });
        if let Err(error) = done {
            panic!("{}: {error:#}", entry.name);
        }
        assert_eq!(
            measured,
            texts.map(|text| (text.to_owned(), 60)),
            "{}",
            entry.name
        );
    }
}

/// Returns the error for opening an engine with an option.
#[cfg(any(feature = "rocksdb", feature = "splinterdb"))]
fn refused(name: &str, option: Option<&str>) -> String {
    let entry = ENGINES.iter().find(|entry| entry.name == name).unwrap();
    let place = tempfile::tempdir().unwrap();
    let options = option.map(|text| EngineOption::parse(text).unwrap());
    let job = job(entry, place.path(), Vec::new(), options.into_iter().collect());
    format!("{:#}", run_job(&job, ENGINES, &mut |_| {}).unwrap_err())
}

#[cfg(feature = "rocksdb")]
#[test]
fn options_of_rocksdb_are_heeded_and_wrong_ones_refused() {
    let entry = ENGINES
        .iter()
        .find(|entry| entry.name == "rocksdb-direct")
        .unwrap();
    let place = tempfile::tempdir().unwrap();
    let options = ["background-jobs=3", "multi-get=single"]
        .map(|text| EngineOption::parse(&format!("rocksdb-direct.{text}")).unwrap());
    let phases = vec![WorkloadPhase::parse("m", DEFAULTS).unwrap()];
    let mut opened = Vec::new();
    let job = job(entry, place.path(), phases, options.to_vec());
    run_job(&job, ENGINES, &mut |event| {
        if let ChildEvent::Opened { settings } = event {
            opened = settings;
        }
    })
    .unwrap();
    for (name, value) in [("background jobs", "3"), ("reads of many keys", "one by one")] {
        assert!(
            opened.contains(&(name.to_owned(), value.to_owned())),
            "{opened:?}"
        );
    }
    for (option, words) in [
        ("background-jobs=0", "write a number from 1 to 64"),
        ("multi-get=async", "write batched or single"),
        (
            "speed=high",
            "it has the options background-jobs, cache-percent, multi-get",
        ),
    ] {
        let error = refused("rocksdb", Some(&format!("rocksdb.{option}")));
        assert!(error.contains(words), "{error}");
    }
}

#[cfg(feature = "splinterdb")]
#[test]
fn a_library_that_is_not_splinterdb_is_refused_by_name() {
    let error = refused("splinterdb", None);
    assert!(error.contains("say --splinterdb-library PATH"), "{error}");
    let error = refused("splinterdb", Some("splinterdb.library=/nowhere/libsplinterdb.so"));
    assert!(
        error.contains("/nowhere/libsplinterdb.so cannot be opened"),
        "{error}"
    );
    let error = refused("splinterdb", Some("splinterdb.library=libc.so.6"));
    assert!(error.contains("libc.so.6 has no function splinterdb_"), "{error}");
}

#[cfg(feature = "leveldb")]
#[test]
fn leveldb_writes_about_what_its_model_and_its_simulation_say() {
    use alluvium_rivals::leveldb_writes::{InsertStudy, count};
    let place = tempfile::tempdir().unwrap();
    let study = InsertStudy {
        keys: 30_000,
        skew: 0.0,
        rounds: 1.0,
        seed: 1,
    };
    let written = count(place.path(), &study).unwrap();
    // The timing of compactions depends on the load of the machine, and so does the number of bytes
    // written. This test therefore allows a wide margin; a benchmark measures the exact agreement.
    let is_like = |other: f64| (0.5..2.0).contains(&(written.counted / other));
    assert!(
        is_like(written.model) && is_like(written.simulated),
        "{written:?}"
    );
    let none = InsertStudy {
        rounds: f64::NAN,
        ..study
    };
    assert!(count(place.path(), &none).is_err());
}

/// Returns the values of a line.
#[cfg(any(feature = "berkeley-db", feature = "leveldb", feature = "mariadb"))]
fn values(measured: &alluvium_lab::MeasurementSet, name: &str) -> Vec<f64> {
    let line = measured.counts.iter().find(|line| line.name == name);
    let line = line.unwrap_or_else(|| panic!("{name}: {measured:?}"));
    line.points.iter().map(|spot| spot.value).collect()
}

/// Runs a study with this number of records.
#[cfg(any(feature = "berkeley-db", feature = "leveldb", feature = "mariadb"))]
fn made(name: &str, records: u64) -> alluvium_lab::MeasurementSet {
    let study = alluvium_rivals::studies::STUDIES
        .iter()
        .find(|study| study.name == name);
    let place = tempfile::tempdir().unwrap();
    let measured = study.unwrap().make(&place.path().join("study"), records);
    let left = std::fs::read_dir(place.path()).unwrap().count();
    assert_eq!(left, 0, "RS1: a study leaves nothing behind");
    measured.unwrap_or_else(|error| panic!("{name}: {error:#}"))
}

#[cfg(feature = "leveldb")]
#[test]
fn leveldb_takes_inserts_and_writes_more_of_them_the_larger_it_is() {
    let measured = made("leveldb-inserts", 100_000);
    for popularity in ["uniform", "Zipf 0.99"] {
        let written = values(&measured, &format!("written, {popularity}"));
        assert_eq!(written.len(), 4);
        // At least the log is written; the last memtable is not flushed.
        assert!(written.iter().all(|written| *written > 1.0), "{written:?}");
        assert!(written[3] > written[0], "{popularity}: {written:?}");
        let inserts = values(&measured, &format!("inserts by written, {popularity}"));
        assert!(inserts.iter().all(|inserts| *inserts > 0.0), "{inserts:?}");
    }
}

#[cfg(feature = "berkeley-db")]
#[test]
fn pages_of_berkeley_db_are_counted_at_each_size() {
    let measured = made("berkeley-pages", 40_000);
    let pages = values(&measured, "pages of queries, berkeley-db");
    assert_eq!(pages.len(), 5);
    // The cache holds a sixteenth of the data, so that nearly each query reads its leaf. Few leaves
    // are written after the inserts.
    assert!(pages.iter().all(|pages| (0.6..2.5).contains(pages)), "{pages:?}");
    let inserts = values(&measured, "pages of inserts, berkeley-db");
    assert!(
        inserts.iter().all(|pages| (1.2..3.5).contains(pages)),
        "each reads a leaf and writes one: {inserts:?}"
    );
    let disk = values(&measured, "queries, berkeley-db");
    let times = disk[4] / disk[0] / (pages[4] / pages[0]);
    // 16 pages of 4 KiB in one request, on the Hitachi.
    assert!((times - 13.656 / 13.041).abs() < 1e-3, "{times}");
}

#[cfg(feature = "berkeley-db")]
#[test]
fn berkeley_db_falls_off_the_cliff_as_a_tree_of_ours_without_a_buffer_does() {
    let measured = made("berkeley-inserts", 200_000);
    let theirs = values(&measured, "pages, berkeley-db");
    let ours = values(&measured, "pages, alluvium, no buffer");
    assert_eq!(theirs.len(), ours.len());
    // The cache is larger here; at the first places all data fits in memory.
    let (first, last) = (theirs[0], theirs[theirs.len() - 1]);
    assert!(first < 0.5 && last > 1.3 && last < 2.6, "{theirs:?}");
    assert!(ours[ours.len() - 1] > 1.9, "{ours:?}");
    let place = tempfile::tempdir().unwrap();
    for study in alluvium_rivals::studies::STUDIES {
        assert!(study.make(&place.path().join("study"), 10).is_err() || study.name == "change-buffer");
    }
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0, "RS1");
}

#[cfg(feature = "mariadb")]
#[test]
fn a_server_of_ones_own_merges_what_waits_only_with_its_change_buffer() {
    let measured = made("change-buffer", 62_000);
    if measured.counts.is_empty() {
        // The server is not installed here, and the note names the package to install.
        assert!(measured.notes[0].starts_with("skipped: "), "{:?}", measured.notes);
        alluvium_bench::skipped!(
            "MariaDB 10",
            "it is not installed, or of a version without a change buffer"
        );
        return;
    }
    let rates = values(&measured, "rates, mariadb, buffered");
    assert!(rates.iter().all(|rate| *rate >= 1.0), "{rates:?}");
    let merged = |line: &alluvium_lab::FigureSeries| line.name == "rates, mariadb, not buffered";
    assert!(
        !measured.counts.iter().any(merged),
        "without a buffer nothing is merged: {measured:?}"
    );
    let pages = values(&measured, "ratio, mariadb");
    assert!(pages.iter().all(|ratio| *ratio < 1.0), "{pages:?}");
}

//! `bench`: tiny runs by the real binary and its children.

use crate::{Place, Said};

/// A run with few records in a directory of its own.
fn bench(place: &Place, more: &[&str]) -> Said {
    let data = place.path("bench data");
    let mut words = vec!["bench", "ycsb", "--no-cap", "--records", "2000", "--threads", "2"];
    let data = data.to_str().expect("a path that is text");
    words.extend([
        "--warm",
        "100",
        "--run",
        "500",
        "--settle",
        "0s",
        "--directory",
        data,
    ]);
    words.extend(more);
    place.run(&words)
}

#[test]
fn a_run_reports_every_engine_and_phase_and_leaves_nothing() {
    let place = Place::new();
    let said = bench(
        &place,
        &[
            "--engines",
            "alluvium,none",
            "--phases",
            "load,a,e",
            "--repetitions",
            "3",
            "--json",
        ],
    )
    .ended(0);
    let report = said.json();
    let rows = report["results"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * 4, "{report}");
    for row in rows.iter().filter(|row| row["phase"] != "settle") {
        for name in [
            "ops_per_s",
            "p50_us",
            "p99_us",
            "p999_us",
            "max_us",
            "cpu_us_per_op",
            "device_write_bytes",
            "device_read_bytes",
            "device_reads",
            "user_bytes",
            "rss_peak_bytes",
        ] {
            assert!(row[name].is_number(), "{name} in {row}");
        }
        for name in ["write_amplification", "read_amplification", "space_amplification"] {
            assert!(row.get(name).is_some(), "{name} in {row}");
        }
        assert_eq!((&row["threads"], &row["repetition"]), (&2.into(), &3.into()));
    }
    assert_eq!(report["repetitions"].as_array().unwrap().len(), 3 * 8);
    assert!(report["machine"]["cores"].as_u64().unwrap() > 0);
    assert!(!place.path("bench data").exists());
}

#[test]
fn a_table_is_printed_and_the_report_goes_to_a_file() {
    let place = Place::new();
    let file = place.path("report.json");
    let said = bench(&place, &["--phases", "load,c", "--json", file.to_str().unwrap()]).ended(0);
    assert!(said.text().starts_with("phase"), "{said:?}");
    assert_eq!(said.text().lines().count(), 4);
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(report["results"][0]["engine"], "alluvium");
}

#[test]
fn files_that_are_kept_can_be_used_again() {
    let place = Place::new();
    bench(&place, &["--phases", "load", "--keep"]).ended(0);
    bench(&place, &["--phases", "c,e", "--reuse", "--json"]).ended(0);
    assert!(place.path("bench data").join("alluvium").exists());
}

#[test]
fn what_cannot_be_measured_is_said() {
    let place = Place::new();
    for (words, complaint) in [
        (&["--phases", "x"][..], "they are load, a, b"),
        (&["--records", "0"], "nothing to measure"),
        (&["--value-bytes", "4"], "at least 16"),
        (&["--reuse"], "leave the phase load out"),
        (&["--settle", "100"], "is a time"),
    ] {
        // What is said twice counts as said last.
        let mut all = vec!["bench", "ycsb", "--no-cap"];
        all.extend(words);
        place.run(&all).ended(2).complained(complaint);
    }
    bench(&place, &["--engines", "alluvium,leveldb-of-old"])
        .ended(2)
        .complained("alluvium-rivals");
}

//! `bench`: tiny runs of the real binary and its child processes.

use crate::{Place, Said, as_other_user};
use std::process::Stdio;
use std::time::Duration;

/// Runs YCSB with few records in a separate directory.
fn bench(place: &Place, more: &[&str]) -> Said {
    tiny(place, &["ycsb"], more)
}

/// Runs a benchmark with few records in a separate directory.
fn tiny(place: &Place, verb: &[&str], more: &[&str]) -> Said {
    let data = place.path("bench data");
    let mut words = vec!["bench"];
    words.extend(verb);
    words.extend(["--no-cap", "--records", "2000", "--threads", "2"]);
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
fn an_engine_that_fails_takes_no_others_figures_with_it() {
    let place = Place::new();
    // Put a file in the way of the engine's directory.
    std::fs::create_dir(place.path("bench data")).unwrap();
    place.file("bench data/alluvium", "");
    let words = ["--engines", "alluvium,none", "--phases", "load,c", "--json"];
    let said = bench(&place, &words)
        .ended(3)
        .complained("alluvium, repetition 1: removing");
    let report = said.json();
    let of = |list: &str| -> Vec<String> {
        let rows = report[list].as_array().unwrap();
        rows.iter()
            .map(|row| row["engine"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        (of("results").len(), of("failures")),
        (3, vec!["alluvium".to_owned()])
    );
    assert!(of("results").iter().all(|engine| engine == "none"));
}

#[test]
fn what_is_loaded_once_serves_every_repetition() {
    let place = Place::new();
    let words = [
        "--phases",
        "load,c,d",
        "--repetitions",
        "2",
        "--load-once",
        "--json",
    ];
    let report = bench(&place, &words).ended(0).json();
    let times = |phase: &str| {
        let rows = report["repetitions"].as_array().unwrap();
        rows.iter().filter(|row| row["phase"] == phase).count()
    };
    assert_eq!(
        [times("load"), times("settle"), times("c"), times("d")],
        [1, 1, 2, 2]
    );
    // In the second repetition, records inserted by the first do not exist.
    let of_d = report["repetitions"].as_array().unwrap();
    for row in of_d.iter().filter(|row| row["phase"] == "d") {
        assert!(row["records"].as_u64().unwrap() < 2000 + 500, "{row}");
    }
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
    let page = std::fs::read_to_string(place.path("report.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("Settings of alluvium"));
    assert!(place.path("report-throughput.svg").exists());
    let table = place.done(["bench", "table", file.to_str().unwrap()]).text();
    assert!(
        table.starts_with("| phase, threads | alluvium |\n|---|---|\n| load, 2 |"),
        "{table}"
    );
    // Compare the report with itself, and with a copy in which the throughput of the first result
    // is halved.
    let compare = |after: &std::path::Path| {
        let words = [
            "bench",
            "compare",
            file.to_str().unwrap(),
            after.to_str().unwrap(),
            "--json",
        ];
        place.run(words)
    };
    assert_eq!(compare(&file).ended(0).json(), serde_json::json!([]));
    let mut slower = report.clone();
    let ops = report["results"][0]["ops_per_s"].as_f64().unwrap();
    slower["results"][0]["ops_per_s"] = (ops / 2.0).into();
    let slower = place.file("slower.json", slower.to_string());
    let found = compare(&slower).ended(1).json();
    assert_eq!(
        (&found[0]["figure"], &found[0]["phase"]),
        (&"ops_per_s".into(), &"load".into())
    );
    compare(&place.path("nowhere.json"))
        .ended(3)
        .complained("nowhere.json");
}

#[test]
fn sweeps_measure_point_after_point() {
    let place = Place::new();
    let names = |verb: &[&str], more: &[&str]| {
        let report = tiny(&place, verb, more).ended(0).json();
        let rows = report["results"].as_array().unwrap();
        let all = rows.iter().map(|row| row["phase"].as_str().unwrap().to_owned());
        // Each load is followed by a settle phase under the same name.
        let (settles, names): (Vec<_>, Vec<_>) = all.partition(|name| name.ends_with("settle"));
        for settle in settles {
            assert!(names.contains(&settle.replace("settle", "load")), "{settle}");
        }
        names
    };
    let json = ["--json"];
    assert_eq!(
        names(&["sweep", "sequential", "--points", "0,100"], &json),
        ["0 % in order: load", "100 % in order: load"]
    );
    assert_eq!(
        names(&["sweep", "scan", "--points", "1,50"], &json),
        [
            "scans of 1: e:uniform+exactly=1",
            "scans of 50: e:uniform+exactly=50"
        ]
    );
    let threads = names(&["sweep", "threads", "--points", "1,2"], &json);
    assert_eq!((threads.len(), threads[4].as_str()), (8, "2 threads: load"));
    let values = names(&["sweep", "value", "--points", "16,1000"], &json);
    assert_eq!(values[3], "values of 1000 bytes: load");
    let memory = names(&["sweep", "memory", "--points", "50"], &json);
    assert_eq!(memory.len(), 3);
    let records = names(&["sweep", "records", "--points", "1000,3000"], &json);
    assert_eq!((records.len(), records[3].as_str()), (6, "3000 records: load"));
    place
        .run(["bench", "sweep", "weather"])
        .ended(2)
        .complained("the parameters are sequential");
    place
        .run(["bench", "sweep", "sequential", "--points", "101", "--no-cap"])
        .ended(2)
        .complained("give at most 100");
}

#[test]
fn a_trace_is_replayed_by_every_engine() {
    let place = Place::new();
    let file = place.path("a.trace");
    let file = file.to_str().unwrap();
    let record = [
        "bench",
        "trace",
        "record",
        file,
        "--phase",
        "a:uniform",
        "--records",
        "1000",
        "--operations",
        "3k",
    ];
    place.done(record).complained("3,000 operations on 1,000 records");
    let report = tiny(
        &place,
        &["trace", "replay", file],
        &["--engines", "alluvium,none", "--json"],
    )
    .ended(0)
    .json();
    let rows = report["results"].as_array().unwrap();
    let replayed: Vec<_> = rows.iter().filter(|row| row["phase"] == "trace").collect();
    assert_eq!(replayed.len(), 2);
    assert!(
        replayed
            .iter()
            .all(|row| row["operations"] == 3000 && row["user_bytes"] == replayed[0]["user_bytes"])
    );
    let no_trace = place.file("no.trace", "this is nothing of the kind, whatever it is");
    tiny(&place, &["trace", "replay", no_trace.to_str().unwrap()], &[])
        .ended(3)
        .complained("is not a trace");
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
        (&["--phases", "x"][..], "the phases are load, a, b"),
        (&["--records", "0"], "nothing to measure"),
        (&["--value-bytes", "4"], "at least 16"),
        (&["--reuse"], "leave the phase load out"),
        (&["--settle", "100"], "must be a time"),
    ] {
        // Of repeated arguments, the last one wins.
        let mut all = vec!["bench", "ycsb", "--no-cap"];
        all.extend(words);
        place.run(&all).ended(2).complained(complaint);
    }
    bench(&place, &["--engines", "alluvium,leveldb-of-old"])
        .ended(2)
        .complained("alluvium-rivals");
}

#[test]
fn ctrl_c_leaves_neither_processes_nor_groups_nor_files() {
    let place = Place::new();
    let data = place.path("bench data");
    let words = [
        "bench",
        "ycsb",
        "--records",
        "50M",
        "--directory",
        data.to_str().unwrap(),
    ];
    // Without permission to create control groups, the run has no memory cap.
    let may = place.run(
        [
            &words[..],
            &["--phases", "c", "--warm", "0", "--run", "1", "--records", "100"],
        ]
        .concat(),
    );
    let free: &[&str] = if may.code == Some(0) { &[] } else { &["--no-cap"] };
    let runner = place
        .command([&words[..], free].concat())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The store exists once the child is running.
    while !data.join("alluvium").join("store").exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let number = runner.id();
    // SAFETY: it sends a signal to a child process of this test that has not been waited for.
    assert_eq!(unsafe { libc::kill(number as i32, libc::SIGINT) }, 0);
    let said: Said = runner.wait_with_output().unwrap().into();
    let said = said.ended(130).complained("stopped");
    assert!(!data.exists(), "{said:?}");
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    for (controller, path) in groups
        .lines()
        .filter_map(|line| line.split_once(':')?.1.split_once(':'))
    {
        let group = std::path::Path::new("/sys/fs/cgroup")
            .join(controller)
            .join(path.trim_start_matches('/'));
        let left = std::fs::read_dir(group)
            .into_iter()
            .flatten()
            .filter_map(Result::ok);
        let mine = format!("alluvium-bench-{number}-");
        assert!(
            left.map(|entry| entry.file_name())
                .all(|name| !name.to_string_lossy().starts_with(&mine))
        );
    }
}

#[test]
fn servers_are_asked_by_either_protocol_and_leave_nothing() {
    let place = Place::new();
    let data = place.path("bench data");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    let mut servers = vec!["alluvium", "alluvium-memcached", "alluvium-cache"];
    for (program, named) in [
        ("redis-server", &["redis", "redis-aof"][..]),
        ("memcached", &["memcached"]),
    ] {
        match is_there(program) {
            true => servers.extend(named),
            false => alluvium_device::skipped!(program, "its servers are left out"),
        }
    }
    let names = servers.join(",");
    let words = [
        "bench",
        "server",
        "--servers",
        &names,
        "--records",
        "2000",
        "--connections",
        "5",
        "--threads",
        "2",
        "--depths",
        "1,16",
        "--settle",
        "0s",
        "--warm",
        "100",
        "--run",
        "1000",
        "--json",
        "--directory",
        data.to_str().unwrap(),
    ];
    let report = place.run(words).ended(0).json();
    let rows = report["results"].as_array().unwrap();
    assert_eq!(rows.len(), 5 * servers.len(), "{report}");
    for row in rows {
        let expected = if row["phase"] == "load" { 2000 } else { 1000 };
        assert_eq!(row["operations"], expected, "{row}");
        assert!(
            row["ops_per_s"].as_f64().unwrap() > 0.0 && row["rss_peak_bytes"].as_u64().unwrap() > 0,
            "{row}"
        );
    }
    assert_eq!(rows[1]["phase"], "set, depth 1");
    assert_eq!(rows[4]["phase"], "get, depth 16");
    assert!(!data.exists());
    place
        .run(["bench", "server", "--servers", "nobody"])
        .ended(2)
        .complained("there is no server \"nobody\"");
    place
        .run(["bench", "server", "--depths", "0"])
        .ended(2)
        .complained("--depths 0");
}

#[test]
fn what_a_cache_can_do_at_best_is_counted_without_an_engine() {
    let place = Place::new();
    let words = [
        "bench",
        "ceiling",
        "--records",
        "10k",
        "--kept",
        "500,10k",
        "--warm",
        "50k",
        "--run",
        "20k",
    ];
    let rows = place
        .done(words.iter().chain(&["--phases", "c,d", "--json"]))
        .json();
    let of = |row: usize, what: &str| rows[row]["reads_per_op"][what].as_f64().unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 4);
    assert!(of(0, "counted") < of(0, "recent") && of(0, "endless") < of(0, "counted"));
    assert!((of(1, "recent") - of(1, "endless")).abs() < 1e-9);
    assert!(of(2, "recent") < of(2, "counted"));
    let text = place.done(words).text();
    assert!(text.contains("10,000"), "{text}");
    place
        .run(["bench", "ceiling", "--phases", "e"])
        .ended(2)
        .complained("scans or batches");
}

#[test]
fn without_control_groups_it_measures_without_a_cap_and_says_so() {
    let place = Place::new();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(place.path(""), open).unwrap();
    let data = place.path("bench data");
    let data = data.to_str().unwrap();
    let arguments = [
        "bench",
        "ycsb",
        "--records",
        "2000",
        "--phases",
        "load",
        "--settle",
        "0s",
        "--json",
        "--directory",
        data,
    ];
    let own = place.command(arguments);
    let Some(other) = as_other_user(&own) else {
        return;
    };
    for mut command in [own, other] {
        let said: Said = command.stdin(Stdio::null()).output().unwrap().into();
        let said = said.ended(0);
        assert_eq!(said.json()["results"].as_array().unwrap().len(), 2, "{said:?}");
        let is_capped = said.err.contains("page cache included");
        let is_said = said.err.contains("measuring without a memory cap") && said.err.contains("cap: none");
        assert!(is_capped != is_said, "{said:?}");
    }
}

#[test]
fn a_script_is_measured_over_time_on_the_terminal_in_json_and_as_a_plot() {
    let place = Place::new();
    let file = place.path("report.json");
    let script = "load, a:300ms, delete=90%, c:300ms";
    let words = ["--script", script, "--json", file.to_str().unwrap()];
    let said = bench(&place, &words).ended(0).text();
    for words in [
        "lowest second",
        "longest, s",
        "2 a:300ms: up to",
        "3 delete=90%",
        "  alluvium |",
    ] {
        assert!(said.contains(words), "{words} in {said}");
    }
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let rows = report["results"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["phase"].as_str().unwrap()).collect();
    assert_eq!(names, ["1 load", "2 a:300ms", "3 delete=90%", "4 c:300ms"]);
    assert_eq!(rows[3]["records"], 200);
    for row in [&rows[1], &rows[3]] {
        assert!(row["dips"]["mean_per_s"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["series"].as_array().unwrap().len() >= 2, "{row}");
        assert!(row["began_s"].is_number(), "{row}");
    }
    let plot = std::fs::read_to_string(place.path("report-over-time.svg")).unwrap();
    assert!(plot.contains("4 c:300ms: thousand operations a second"));
    let page = std::fs::read_to_string(place.path("report.html")).unwrap();
    assert!(page.contains("<h2>Over time</h2>"));
}

#[test]
fn a_script_that_makes_no_sense_is_refused_before_anything_is_done() {
    let place = Place::new();
    for (words, said) in [
        (
            &["--script", "load, a:3s, q:3s"][..],
            "part 3 of the script, \"q:3s\"",
        ),
        (&["--script", "load, e"], "give a time, as in a:30s"),
        (
            &["--script", "load, delete=90%", "--keep"],
            "the script deletes some",
        ),
        (&["--script", "load, a:1s", "--load-once"], "--load-once"),
        (&["--script", "load", "--phases", "load"], "--phases"),
        (
            &["--script", "load", "--engine-option", "rocksdb.background-jobs=4"],
            "rocksdb is not among --engines",
        ),
        (&["--engine-option", "jobs=4"], "ENGINE.NAME=VALUE"),
    ] {
        bench(&place, words).ended(2).complained(said);
    }
    assert!(!place.path("bench data").exists());
}

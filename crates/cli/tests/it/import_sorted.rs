//! Imports with `--sort`.

use crate::{Place, Said};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Returns rows in random order, many of which repeat earlier keys, and the resulting records.
fn rows(count: u32, keys: u32) -> (String, BTreeMap<String, String>) {
    let mut random = fastrand::Rng::with_seed(30);
    let (mut text, mut left) = (String::from("key,value\n"), BTreeMap::new());
    for number in 0..count {
        let key = format!("{:07}", random.u32(..keys));
        let value = format!("{number} {}", "x".repeat(random.usize(..60)));
        text += &format!("{key},{value}\n");
        left.insert(key, value);
    }
    (text, left)
}

/// Returns the expected output of a scan.
fn scanned(left: &BTreeMap<String, String>) -> String {
    let line = |(key, value): (&String, &String)| format!("{key}\t{value}\n");
    left.iter().map(line).collect()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

fn names(place: &Place) -> Vec<String> {
    let directory = fs::read_dir(place.path("")).unwrap();
    let names = directory.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn rows_in_any_order_are_loaded_in_that_of_their_keys_and_the_last_of_a_key_stays() {
    let place = Place::new();
    let (rows, left) = rows(40_000, 30_000);
    let file = place.file("rows.csv", &rows);
    // With memory for a tenth of the rows, runs are written next to the store.
    for (keyspace, memory) in [("little", "256K"), ("enough", "64M")] {
        let arguments = [
            "import",
            text(&file),
            "-k",
            keyspace,
            "--sort",
            "--sort-memory",
            memory,
        ];
        let said = place.done(arguments.iter().chain(&["--json"]));
        let json = said.json();
        assert_eq!(
            (&json["rows"], &json["is_complete"]),
            (&40_000.into(), &true.into())
        );
        assert_eq!(json["duplicates"], 40_000 - left.len());
        assert_eq!(json["duplicates_are_all"], true);
        assert!(
            place.done(["scan", "-k", keyspace]).text() == scanned(&left),
            "{keyspace}"
        );
    }
    assert_eq!(names(&place), ["rows.csv", "store"], "nothing is left behind");
    let db = alluvium::Db::open(place.path("store")).unwrap();
    assert!(
        db.sequence() < 1000,
        "loaded rows have a number together, those of batches one each"
    );
    db.close().unwrap();
    place.done(["check"]);
}

#[test]
fn every_format_with_keys_and_values_is_sorted_also_from_a_pipe_and_into_hashed_keyspaces() {
    let place = Place::new();
    let (rows, left) = rows(5000, 4000);
    let file = place.file("rows.csv", &rows);
    place.done(["import", text(&file)]);
    for name in ["a.tsv", "a.jsonl", "a.kv"] {
        let exported = place.path(name);
        place.done(["export", text(&exported)]);
        place.done(["import", text(&exported), "-k", name, "--sort"]);
        assert!(
            place.done(["scan", "-k", name]).text() == scanned(&left),
            "{name}"
        );
    }
    place.done(["keyspaces", "create", "hashed", "--structure", "hashed"]);
    let pipe = [
        "import",
        "-",
        "-f",
        "csv",
        "-k",
        "hashed",
        "--sort",
        "--sort-memory",
        "256K",
    ];
    place.fed(pipe, rows.as_bytes()).ended(0).complained("5,000 rows");
    let scan = place.done(["scan", "-k", "hashed"]).text();
    let mut found: Vec<&str> = scan.lines().collect();
    found.sort_unstable();
    assert!(found.iter().copied().eq(scanned(&left).lines()));
    let empty = place.file("empty.csv", "key,value\n");
    place
        .done(["import", text(&empty), "-k", "empty", "--sort"])
        .complained("0 rows");
}

#[test]
fn what_cannot_be_sorted_is_refused_and_bad_rows_leave_nothing() {
    let place = Place::new();
    let file = place.file("rows.csv", "key,value\nb,1\na,2\nc\n");
    let refused = |more: &[&str], words: &str| {
        let arguments = ["import", text(&file), "--sort"];
        place.run(arguments.iter().chain(more)).ended(2).complained(words);
    };
    refused(&["--unique"], "--unique");
    refused(&["--redis-db", "0"], "--redis-db");
    refused(&["--format", "redis"], "executed in order");
    refused(&["--sort-memory", "1K"], "--sort-memory");
    place
        .run(["import", text(&file), "--temporary", "."])
        .ended(2)
        .complained("--sort");
    place
        .run(["import", text(&file), "--sort", "--temporary", "/nowhere"])
        .complained("--temporary");
    place
        .run(["import", text(&file), "--sort"])
        .ended(4)
        .complained("line 4")
        .complained("nothing is imported");
    assert_eq!(
        place.done(["keyspaces", "list"]).text(),
        "",
        "nothing was created"
    );
    let bad = place.path("bad.csv");
    place
        .run(["import", text(&file), "--sort", "--rejects", text(&bad)])
        .ended(4);
    assert_eq!(place.done(["scan"]).text(), "a\t2\nb\t1\n");
    assert_eq!(fs::read_to_string(&bad).unwrap(), "key,value\nc\n");
    let long = place.file("long.csv", format!("key,value\na,{}\n", "x".repeat(100_000)));
    place
        .run(["import", text(&long), "--sort", "--sort-memory", "256K"])
        .ended(3)
        .complained("--sort-memory");
}

#[test]
fn a_killed_import_sorts_again_and_goes_on_behind_the_keys_that_are_there() {
    let place = Place::new();
    let (rows, left) = rows(300_000, 1_000_000);
    let file = place.file("rows.csv", &rows);
    let import = ["import", text(&file), "--sort", "--sort-memory", "2M"];
    let mut killed = 0;
    for wait in [150, 400, 700] {
        let mut child = place
            .command(import)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_millis(wait));
        // The import may have finished already, and then the next one starts from the beginning.
        let _ = child.kill();
        killed += u32::from(child.wait().unwrap().code().is_none());
    }
    assert!(killed > 0, "it is over before it can be killed");
    let json = place.done(import.iter().chain(&["--json"])).json();
    assert_eq!(json["rows"], 300_000);
    assert!(
        place.done(["scan"]).text() == scanned(&left),
        "rows are missing, or doubled"
    );
    assert_eq!(names(&place), ["rows.csv", "store"]);
}

#[test]
fn a_disk_without_space_for_the_sort_is_an_error_before_anything_is_begun() {
    let place = Place::new();
    let (rows, _) = rows(60_000, 60_000);
    let file = place.file("rows.csv", rows);
    fs::create_dir(place.path("mount")).unwrap();
    let script = "mount -t tmpfs -o size=1m none \"$0\" && exec \"$@\"";
    let run = |arguments: &[&str]| -> Said {
        let command = place.command(arguments);
        let mut inside = Command::new("unshare");
        inside.args(["-m", "sh", "-c", script]).arg(place.path("mount"));
        inside.arg(command.get_program()).args(command.get_args());
        inside
            .env("ALLUVIUM_DB", place.path("store"))
            .stdin(Stdio::null());
        inside.output().map_or_else(
            |error| Said {
                code: None,
                out: Vec::new(),
                err: error.to_string(),
            },
            Said::from,
        )
    };
    if run(&["--version"]).code != Some(0) {
        alluvium_device::skipped!("mounts", "only root mounts, and not in every container");
        return;
    }
    let mount = place.path("mount");
    let import = [
        "import",
        text(&file),
        "--sort",
        "--sort-memory",
        "256K",
        "--temporary",
        text(&mount),
    ];
    run(&import)
        .ended(7)
        .complained("nothing was imported")
        .complained("--temporary");
    assert!(!place.path("store").exists(), "no store was made");
    run(&import[..5]).ended(0);
}

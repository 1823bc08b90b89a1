//! Errors: their messages and exit codes.

use crate::{Place, binary};
use std::fs;
use std::io::Read;
use std::process::Stdio;

#[test]
fn a_command_line_that_makes_no_sense_is_code_2() {
    let place = Place::new();
    place.run(["frobnicate"]).ended(2);
    place.run(["put", "a"]).ended(2);
    place.run(["get", "--hex", "--base64", "00"]).ended(2);
    place.run(["scan", "--prefix", "a", "--from", "b"]).ended(2);
    place
        .run(["put", "a", "1", "--expires-in", "soon"])
        .ended(2)
        .complained("90s");
    place.run(["get", "--hex", "0g"]).ended(2).complained("--hex");
    place
        .run(["get", "a", "--memory", "lots"])
        .ended(2)
        .complained("512M");
}

#[test]
fn a_store_that_is_not_there_is_code_1_and_is_not_created() {
    let place = Place::new();
    for verb in [
        &["get", "a"][..],
        &["scan"],
        &["delete", "a"],
        &["check"],
        &["compact"],
        &["keyspaces"],
    ] {
        place
            .run(verb)
            .ended(1)
            .complained("there is no store in")
            .complained("--db");
    }
    assert!(!place.path("store").exists());
}

#[test]
fn a_directory_that_is_no_store_is_named_as_such() {
    let place = Place::new();
    fs::create_dir(place.path("store")).unwrap();
    fs::write(place.path("store/letter"), "dear").unwrap();
    place.run(["get", "a"]).ended(1).complained("is not a store");
}

#[test]
fn a_store_whose_data_file_is_gone_is_damaged() {
    let place = Place::new();
    place.done(["put", "a", "1"]);
    fs::remove_file(place.path("store/tier-0.data")).unwrap();
    for verb in [
        &["get", "a"][..],
        &["put", "a", "1"],
        &["scan"],
        &["check"],
        &["stats"],
        &["repair"],
    ] {
        place
            .run(verb)
            .ended(5)
            .complained("tier-0.data is missing")
            .complained("from a backup");
    }
}

#[test]
fn a_file_in_the_place_of_a_store_is_named_as_such() {
    let place = Place::new();
    let file = place.file("store", "dear");
    for verb in [
        &["get", "a"][..],
        &["put", "a", "1"],
        &["check"],
        &["keyspaces"],
        &["serve"],
    ] {
        let said = place.run(verb).ended(2).complained("is a file: --db");
        assert!(!said.err.contains("device"), "{said:?}");
    }
    assert_eq!(fs::read(file).unwrap(), b"dear");
}

#[test]
fn an_error_is_in_the_words_of_the_command_line() {
    let place = Place::new();
    let said = place
        .run([
            "serve",
            "--redis",
            "0.0.0.0:0",
            "--memcached",
            "off",
            "--web",
            "off",
        ])
        .ended(2)
        .complained("--unprotected");
    assert!(!said.err.contains("::"), "{said:?}");
    let file = place.file("a.csv", "key,value\na,1\nb\n");
    let file = file.to_str().unwrap();
    place.run(["import", file]).ended(4);
    place
        .run(["import", file, "--value", "value"])
        .ended(2)
        .complained("with --format csv, not with --format csv --value \"value\"");
}

#[test]
fn a_store_that_is_open_elsewhere_is_code_6() {
    let place = Place::new();
    let _db = alluvium::Db::open(place.path("store")).unwrap();
    place.run(["get", "a"]).ended(6).complained("open elsewhere");
}

#[test]
fn a_damaged_store_is_code_5() {
    let place = Place::new();
    place.done(["put", "a", "1"]);
    for entry in fs::read_dir(place.path("store")).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_string_lossy().contains("super") {
            let length = fs::metadata(&path).unwrap().len() as usize;
            fs::write(&path, vec![0x5a; length]).unwrap();
        }
    }
    place.run(["get", "a"]).ended(5);
}

#[test]
fn too_little_memory_is_said_and_so_are_keys_that_are_too_long() {
    let place = Place::new();
    place
        .run(["put", "a", "1", "--memory", "1M"])
        .ended(2)
        .complained("--memory 1.00 MiB: a store needs 16.0 MiB or more");
    place
        .fed(["put", &"k".repeat(100_000), "v"], b"")
        .ended(3)
        .complained("too long");
}

#[test]
fn whoever_stops_reading_ends_a_scan_quietly() {
    let place = Place::new();
    let db = alluvium::Db::open(place.path("store")).unwrap();
    let keyspace = db.keyspace("default").unwrap();
    for i in 0..20_000u32 {
        keyspace.put(format!("{i:08}"), [b'v'; 100]).unwrap();
    }
    db.close().unwrap();
    let mut child = place
        .command(["scan"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut some = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn every_verb_has_help_with_an_example() {
    let help = |arguments: &[&str]| {
        let output = binary()
            .args(arguments)
            .arg("--help")
            .output()
            .expect("the binary runs");
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let all = help(&[]);
    assert!(all.contains("Exit codes:"), "{all}");
    let verbs = all
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty());
    let verbs: Vec<&str> = verbs.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(verbs.len() > 5 && verbs.contains(&"get"), "{verbs:?}");
    for verb in verbs.into_iter().filter(|verb| *verb != "help") {
        let text = help(&[verb]);
        let is_example = |line: &str| line.starts_with("  alluvium") && line.contains(verb);
        assert!(text.lines().any(is_example), "{verb}: {text}");
    }
}

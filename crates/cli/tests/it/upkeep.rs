//! Checks and compaction.

use crate::Place;
use std::fs;

fn filled(place: &Place) {
    let db = alluvium::Options::new()
        .memory(32 << 20)
        .open(place.path("store"))
        .unwrap();
    let keyspace = db.keyspace("default").unwrap();
    for i in 0..30_000u32 {
        keyspace
            .put(format!("{:08}", i.wrapping_mul(2_654_435_761)), [i as u8; 200])
            .unwrap();
    }
    db.close().unwrap();
}

#[test]
fn a_whole_store_is_said_to_be_whole() {
    let place = Place::new();
    filled(&place);
    place.done(["check"]).complained("whole");
    place.done(["check", "--structure"]);
    let json = place.done(["check", "--json"]).json();
    assert_eq!(json["is_whole"], true);
    assert_eq!(json["findings"].as_array().unwrap().len(), 0);
}

#[test]
fn damage_is_found_and_named() {
    let place = Place::new();
    filled(&place);
    let mut files: Vec<_> = fs::read_dir(place.path("store"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort_by_key(|path| fs::metadata(path).unwrap().len());
    let data = files
        .iter()
        .find(|path| path.to_string_lossy().contains("data"))
        .expect("a data file");
    let mut bytes = fs::read(data).unwrap();
    // Every page of the last two thirds, for some of them are free.
    let third = bytes.len() / 3;
    for byte in bytes[third..].iter_mut().step_by(2048) {
        *byte ^= 1;
    }
    fs::write(data, bytes).unwrap();
    let said = place.run(["check"]);
    assert_eq!(said.code, Some(5), "{said:?}");
    assert!(
        said.text().contains("offset") || said.err.contains("offset"),
        "{said:?}"
    );
}

#[test]
fn compaction_says_what_it_gained_and_keeps_everything() {
    let place = Place::new();
    filled(&place);
    let before = place.done(["scan"]).out;
    let json = place.done(["compact", "--json"]).json();
    assert!(json["bytes_after"].as_u64().unwrap() > 0, "{json}");
    assert_eq!(place.done(["scan"]).out, before);
}

#[test]
fn stats_and_drawing_say_what_there_is() {
    let place = Place::new();
    filled(&place);
    let json = place.done(["stats", "--json"]).json();
    assert_eq!(json["store"]["keyspaces"], 1);
    assert!(
        json["space"]["live_bytes"].as_u64().unwrap() > 5_000_000,
        "{json}"
    );
    assert_eq!(json["memory"]["budget_bytes"], 32 << 20);
    let text = place.done(["stats"]).text();
    assert!(text.contains("live bytes") && text.contains("MiB"), "{text}");
    let drawing = place.done(["inspect"]).text();
    assert!(
        drawing.starts_with("version ") && drawing.contains("runs"),
        "{drawing}"
    );
    let lines = place.done(["inspect", "--json"]).json()["drawing"]
        .as_array()
        .unwrap()
        .len();
    assert!(lines >= 2);
}

#[test]
fn a_backup_is_a_store_and_is_made_one_again() {
    let place = Place::new();
    filled(&place);
    let before = place.done(["scan"]).out;
    let backup = place.path("backup");
    let backup = backup.to_str().unwrap();
    place.done(["backup", backup, "--json"]);
    place.done(["put", "late", "1"]);
    assert!(
        place.done(["scan", "--db", backup]).out == before,
        "the backup differs"
    );
    let restored = place.path("restored");
    let restored = restored.to_str().unwrap();
    place.done(["restore", backup, "--db", restored]);
    assert!(
        place.done(["scan", "--db", restored]).out == before,
        "what was restored differs"
    );
    place.run(["backup", backup]).ended(3);
    place.run(["restore", "nowhere", "--db", "nowhere-else"]).ended(1);
}

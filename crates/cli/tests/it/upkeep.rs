//! Checks and compaction.

use crate::{Place, lines};
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
    // Damage every page in the last two thirds, because some pages are free.
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
    place.done([
        "keyspaces",
        "create",
        "counters",
        "--structure",
        "paged,beps,node=512,key=16,value=40",
    ]);
    let rows: String = (0..400).map(|number| format!("{number:05}\n")).collect();
    place
        .fed(
            ["import", "-", "-f", "lines", "--keyspace", "counters"],
            rows.as_bytes(),
        )
        .ended(0);
    let drawing = place.done(["inspect"]).text();
    assert!(
        drawing.contains("pages of 512 bytes: ")
            && drawing.contains("  leaves: ")
            && drawing.contains("messages"),
        "{drawing}"
    );
    let pages = &place.done(["inspect", "--json"]).json()["pages"];
    assert!(pages["levels"].as_array().unwrap().len() > 2, "{pages}");
    assert_eq!(pages["page_bytes"], 512);
}

#[test]
fn levels_are_drawn_with_the_runs_of_each_level() {
    let place = Place::new();
    place.done(["put", "a", "1"]);
    let json = place.done(["inspect", "--json"]).json();
    assert_eq!(json["levels"], serde_json::json!([]));
    for (name, structure, times) in [("hot", "levels,k=4,f=0", 3), ("cold", "levels,never", 2)] {
        place.done(["keyspaces", "create", name, "--structure", structure]);
        for time in 0..times {
            let rows: String = (0..2_000).map(|row| format!("{time}{row:07}\n")).collect();
            place
                .fed(
                    ["import", "-", "-f", "lines", "--keyspace", name],
                    rows.as_bytes(),
                )
                .ended(0);
        }
    }
    let drawing = place.done(["inspect"]).text();
    for line in [
        "levels,samt,k=4,f=0: keyspace hot; 3 runs on 1 levels",
        "levels,never: keyspace cold; 2 runs on 1 levels",
    ] {
        assert!(lines(&drawing).contains(&line), "{drawing}");
    }
    assert!(drawing.contains("    run 2: "), "{drawing}");
    let before = place.done(["inspect", "--json"]).json();
    let hot = &before["levels"][0];
    assert_eq!(hot["structure"], "levels,samt,k=4,f=0");
    assert_eq!(hot["keyspaces"], serde_json::json!(["hot"]));
    assert_eq!(hot["levels"][0]["run_count"], 3);
    let runs = hot["levels"][0]["runs"].as_array().unwrap();
    assert_eq!(runs[0]["place"], 2, "the newest comes first");
    assert!(
        runs.iter()
            .all(|run| run["records"] == 2_000 && run["filter_bytes"].as_u64() > Some(0))
    );
    // A merge adopts the leaves of runs that do not overlap.
    place.done(["compact"]);
    let after = place.done(["inspect", "--json"]).json();
    let levels = after["levels"][0]["levels"].as_array().unwrap();
    let merged = levels.iter().flat_map(|level| level["runs"].as_array().unwrap());
    let merged: Vec<_> = merged.collect();
    assert_eq!(merged.len(), 1, "{after}");
    assert_eq!(merged[0]["records"], 6_000);
    assert!(merged[0]["inherited_bytes"].as_u64() > Some(0), "{after}");
    assert_eq!(
        (&merged[0]["oldest_addition"], &merged[0]["newest_addition"]),
        (&0.into(), &2.into())
    );
    let drawing = place.done(["inspect"]).text();
    assert!(drawing.contains(" of them written by other runs, "), "{drawing}");
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
    place
        .run(["backup", backup])
        .ended(3)
        .complained("holds a store already: name an empty directory for the copy");
    place.run(["restore", "nowhere", "--db", "nowhere-else"]).ended(1);
}

#[test]
fn runs_of_the_tree_are_named_and_described() {
    let place = Place::new();
    filled(&place);
    let tree = place.done(["inspect", "--json"]).json();
    let pivots = tree["root"]["pivots"].as_array().unwrap();
    fn layers(pivot: &serde_json::Value) -> impl Iterator<Item = &serde_json::Value> {
        let lists = [&pivot["own"], &pivot["pending"]];
        lists.into_iter().flat_map(|list| list.as_array().unwrap())
    }
    let layer = pivots.iter().flat_map(layers).next().expect("it holds something");
    let name = layer["runs"][0].as_str().unwrap();
    let run = place.done(["inspect", "--json", "--run", name]).json();
    assert!(run["records"].as_u64().unwrap() > 0 && run["leaves"].as_u64().unwrap() > 0);
    assert!(!run["extents"].as_array().unwrap().is_empty(), "{run}");
    let text = place.done(["inspect", "--run", name]).text();
    assert!(text.contains("leaves") && text.contains("offset"), "{text}");
    place.run(["inspect", "--run", "999999.0"]).ended(1);
    place.run(["inspect", "--run", "seven"]).ended(2);
}

#[test]
fn a_repair_says_what_it_would_do_and_does_it_only_when_told_to() {
    let place = Place::new();
    place.run(["repair"]).ended(1);
    filled(&place);
    place.done(["repair"]).complained("nothing is lost");
    place.done(["put", "late", "1"]);
    let files = || {
        let entries = fs::read_dir(place.path("store")).unwrap();
        let mut files: Vec<_> = entries
            .map(|entry| entry.unwrap().path())
            .map(|path| (fs::read(&path).unwrap(), path))
            .collect();
        files.sort_by(|one, other| one.1.cmp(&other.1));
        files
    };
    // Damage a leaf of the largest run.
    let tree = place.done(["inspect", "--json"]).json();
    let pivots = tree["root"]["pivots"].as_array().unwrap();
    let layers = pivots.iter().flat_map(|pivot| {
        let lists = [&pivot["own"], &pivot["pending"]];
        lists.into_iter().flat_map(|list| list.as_array().unwrap())
    });
    let largest = layers.max_by_key(|layer| layer["bytes"].as_u64()).unwrap();
    let name = largest["runs"][0].as_str().unwrap();
    let run = place.done(["inspect", "--json", "--run", name]).json();
    let extent = |name: &str| run["extents"][0][name].as_u64().unwrap() as usize;
    // Spare the first leaf, which may hold the catalog, without which the store cannot be opened.
    let at = extent("offset") + extent("live_bytes") / 2;
    let (mut bytes, data) = files()
        .into_iter()
        .filter(|(_, path)| path.to_string_lossy().contains("data"))
        .max_by_key(|(bytes, _)| bytes.len())
        .unwrap();
    bytes[at] ^= 1;
    fs::write(&data, bytes).unwrap();
    let before = files();
    let said = place.run(["repair", "--json"]).ended(5);
    assert!(
        files() == before,
        "saying what would be done has changed something"
    );
    let json = said.json();
    assert_eq!(
        (&json["is_done"], &json["is_whole"]),
        (&false.into(), &false.into())
    );
    let told = place.run(["repair", "--yes"]).ended(5);
    assert!(told.text().contains("damaged"), "{told:?}");
    // Undamaged records are still readable.
    assert_eq!(place.done(["get", "late"]).out, b"1");
}

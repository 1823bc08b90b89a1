//! How the web page shows stores with pages that are updated in place, and with levels.

use crate::client::Fixture;
use crate::web::{get, with_page};
use alluvium::{KeyspaceOptions, LevelsOptions, PagedOptions, Structure};

#[test]
fn pages_that_are_written_in_place_are_shown_by_level() {
    let fixture = Fixture::with(with_page());
    let structure = Structure::Paged(PagedOptions::beps().node_bytes(512).key_bytes(16).value_bytes(40));
    let options = KeyspaceOptions::new().structure(structure);
    let keyspace = fixture.db.keyspace_with("counters", &options).unwrap();
    for number in 0..2000u32 {
        keyspace.put(number.to_be_bytes(), [7; 20]).unwrap();
    }
    fixture.db.checkpoint().unwrap();
    let tree = get(&fixture, "/api/tree").json();
    let levels = tree["pages"]["levels"].as_array().unwrap();
    assert!(levels.len() > 2, "{tree}");
    let sum = |name: &str| {
        let all = levels.iter().map(|level| level[name].as_u64().unwrap());
        all.sum::<u64>()
    };
    let pairs = levels[0]["entries"].as_u64().unwrap();
    assert!(pairs <= 2000 && pairs + sum("messages") >= 2000, "{tree}");
    assert!(sum("most_messages") > sum("messages") && levels.last().unwrap()["nodes"] == 1);
    let stats = fixture.db.stats().paged;
    assert_eq!(sum("nodes"), stats.pages - stats.free_pages);
    assert_eq!(tree["pages"]["free_pages"], stats.free_pages);
}

#[test]
fn levels_are_shown_for_each_set_of_options() {
    let fixture = Fixture::with(with_page());
    assert_eq!(get(&fixture, "/api/tree").json()["levels"], serde_json::json!([]));
    for (name, k) in [("hot", 4), ("cold", 8)] {
        let options = KeyspaceOptions::new().structure(Structure::Levels(LevelsOptions::samt(k)));
        let keyspace = fixture.db.keyspace_with(name, &options).unwrap();
        for number in 0..k {
            keyspace.put(number.to_be_bytes(), [7; 20]).unwrap();
        }
    }
    fixture.db.checkpoint().unwrap();
    let tree = get(&fixture, "/api/tree").json();
    let levels = tree["levels"].as_array().unwrap();
    assert_eq!(levels.len(), 2, "{tree}");
    for (of, (name, k)) in levels.iter().zip([("hot", 4), ("cold", 8)]) {
        assert_eq!(of["structure"], format!("levels,samt,k={k}"));
        assert_eq!(of["keyspaces"], serde_json::json!([name]));
        assert_eq!(of["levels"][0]["run_count"], 1);
        assert_eq!(of["levels"][0]["runs"][0]["records"], k);
    }
}

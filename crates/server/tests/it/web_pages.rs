//! How the web page shows stores whose structure updates pages in place.

use crate::client::Fixture;
use crate::web::{get, with_page};
use alluvium::{KeyspaceOptions, PagedOptions, Structure};

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

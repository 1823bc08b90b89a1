//! How the web page shows a store's directories.

use crate::client::Fixture;
use crate::web::{get, with_page};
use alluvium::TierOptions;

#[test]
fn each_directory_is_shown_with_its_runs() {
    let fixture = Fixture::with(with_page());
    let tree = get(&fixture, "/api/tree").json();
    assert!(tree["tiers"].is_null(), "there is one");
    let keyspace = fixture.db.keyspace("rivers").unwrap();
    for number in 0..2000u32 {
        keyspace.put(number.to_be_bytes(), [7; 200]).unwrap();
    }
    let further = tempfile::tempdir().unwrap();
    let path = further.path().join("large");
    fixture.db.add_tier(&path, TierOptions::new()).unwrap();
    fixture.db.compact().unwrap();
    let tree = get(&fixture, "/api/tree").json();
    let tiers = tree["tiers"].as_array().unwrap();
    assert_eq!(tiers.len(), 2);
    let directory = tiers[1]["directory"].as_str().unwrap();
    assert!(directory.contains("large"), "{tree}");
    assert!(
        tiers
            .iter()
            .all(|tier| tier["state"] == "takes data" && tier["failure"].is_null())
    );
    let sum = |name: &str| tiers.iter().map(|tier| tier[name].as_u64().unwrap()).sum::<u64>();
    assert!(sum("run_bytes") > 2000 * 200, "{tree}");
    assert!(
        sum("run_bytes") + sum("filter_bytes") <= sum("live_bytes"),
        "{tree}"
    );
    let run = &tiers[0]["runs"][0];
    assert!(run["name"].as_str().unwrap().ends_with("of the tree"), "{tree}");
    // The page must have elements for them.
    let page = get(&fixture, "/").text();
    assert!(page.contains("id=\"tiers-table\"") && page.contains("id=\"tiers-runs\""));
}

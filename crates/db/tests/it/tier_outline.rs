//! The outline of a store's tiers, which shows where each run is.

use crate::tiers::{fill, places, small, with};
use alluvium::{KeyspaceOptions, LevelsOptions, Structure};

#[test]
fn each_tier_says_which_runs_lie_there_and_how_full_it_is() {
    let (_place, [fast, one, ..]) = places();
    let db = with(&[&one]).open(&fast).unwrap();
    let keyspace = fill(&db);
    let levels = KeyspaceOptions::new().structure(Structure::Levels(LevelsOptions::samt(2)));
    let levels = db.keyspace_with("levels", &levels).unwrap();
    for number in 0..500u32 {
        levels.put(number.to_be_bytes(), vec![7; 2000]).unwrap();
    }
    db.compact().unwrap();
    keyspace.put("new", "on the first tier").unwrap();
    db.checkpoint().unwrap();
    let tiers = db.outline_tiers();
    assert_eq!(tiers.iter().map(|tier| tier.number).collect::<Vec<_>>(), [0, 1]);
    let slow = &tiers[1];
    assert_eq!((slow.state(), slow.stats.failure.as_ref()), ("takes data", None));
    assert!(slow.full_percent() <= 100);
    for name in ["of the tree", "of level"] {
        let runs = slow.runs.iter().filter(|run| run.name.to_string().contains(name));
        let bytes: u64 = runs.map(|run| run.bytes).sum();
        assert!(bytes > 500 * 2000, "{name}: {bytes} bytes in {slow}");
    }
    let bytes: u64 = slow.runs.iter().map(|run| run.bytes + run.filter_bytes).sum();
    assert!(bytes <= slow.stats.space.live_bytes, "{bytes} in {slow}");
    let filters: u64 = tiers[0].runs.iter().map(|run| run.filter_bytes).sum();
    assert!(filters > 0, "filters lie on the first tier");
    let drawing = db.draw();
    for text in ["tier 0 in", "tier 1 in", "of level", "takes data"] {
        assert!(drawing.contains(text), "{text}: {drawing}");
    }
    drop((keyspace, levels));
    db.close().unwrap();
    // A store with a single directory does not print tiers.
    let (_place, [alone, ..]) = places();
    let db = small().open(&alone).unwrap();
    assert!(!db.draw().contains("tier 0"));
}

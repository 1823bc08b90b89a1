//! Damaged leaves, index nodes and pages of filters: a repair leaves nodes out and says which keys
//! that are, and writes filters again; then nothing is damaged, and all that is left can be merged.

use super::*;
use alluvium::{LevelsOptions, RepairReport, Structure};
use alluvium_device::simulated::Corruption;

const PAGE: u64 = 4096;
const KEYS: u32 = 1500;

/// A store with a keyspace in the tree and one in levels: runs with versions of the same keys, each
/// in both of the generations that the store keeps.
fn store() -> (SimDirectory, Contents) {
    let directory = SimDirectory::new(5);
    let db = small().create_in(shared(&directory)).unwrap();
    let tree = db.keyspace("tree").unwrap();
    let in_levels = KeyspaceOptions::new().structure(Structure::Levels(LevelsOptions::samt(4)));
    let levels = db.keyspace_with("levels", &in_levels).unwrap();
    let mut contents = Contents::new();
    for round in 0..3u32 {
        for number in (0..KEYS).filter(|number| number % (round + 1) == 0) {
            let (key, value) = (format!("key {number:05}"), vec![round as u8; 90]);
            for (name, keyspace) in [("tree", &tree), ("levels", &levels)] {
                keyspace.put(&key, &value).unwrap();
                let pairs = contents.entry(name.to_owned()).or_default();
                pairs.insert(key.clone().into_bytes(), value.clone());
            }
        }
        while db.work().unwrap() {}
    }
    for last in ["one", "two"] {
        tree.put("last", last).unwrap();
        db.checkpoint().unwrap();
    }
    contents
        .get_mut("tree")
        .unwrap()
        .insert(b"last".to_vec(), b"two".to_vec());
    db.close().unwrap();
    (directory, contents)
}

/// Whether a report says that something of a key is lost.
fn tells(report: &RepairReport, name: &str, key: &[u8]) -> bool {
    let key = key.escape_ascii().to_string();
    let is_in = |sentence: &String| {
        let rest = sentence.strip_prefix(&format!("keyspace {name}, keys from \""))?;
        let (low, rest) = rest.split_once("\" ")?;
        let high = rest
            .strip_prefix("below \"")
            .and_then(|rest| rest.split_once('"'));
        Some(low <= &*key && high.is_none_or(|(high, _)| &*key < high))
    };
    report
        .lost
        .iter()
        .any(|sentence| is_in(sentence).unwrap_or(false))
}

#[test]
fn a_repair_leaves_damaged_leaves_out_and_merges_go_on() {
    let (whole, contents) = store();
    let pages = used_blocks(&whole)
        .into_iter()
        .filter_map(|(file, offset)| (file == "tier-0.data").then_some(offset / PAGE * PAGE));
    let mut pages: Vec<u64> = pages.collect();
    pages.dedup();
    let (mut in_tree, mut in_levels, mut in_filters, mut hidden) = (0, 0, 0, 0);
    for page in pages {
        let what = format!("page at {page}");
        let damaged = whole.image(Survival::Process, 3);
        let offset = page + 100;
        let flip = Corruption::FlipBit { offset, bit: 3 };
        assert!(damaged.corrupt("tier-0.data", &flip).unwrap(), "{what}");
        let report = small().repair_in(shared(&damaged)).unwrap();
        let text = report.to_string();
        assert!(report.left.is_empty(), "{what}: {report}");
        assert!(!text.contains("run `alluvium repair`"), "{what}: {report}");
        in_tree += u32::from(text.contains("of the tree that cannot be read were left out"));
        in_levels += u32::from(text.contains("of keyspaces in levels that cannot be read were left out"));
        let has_filter = text.contains("filters of runs of keyspaces in levels were written again");
        assert!(!has_filter || report.lost.is_empty(), "{what}: {report}");
        in_filters += u32::from(has_filter);
        let db = small().open_existing_in(shared(&damaged)).unwrap();
        assert_eq!(db.check().unwrap(), [""; 0], "{what}: {report}");
        db.compact()
            .unwrap_or_else(|error| panic!("{what}: {error}\n{report}"));
        assert_eq!(db.check().unwrap(), [""; 0], "{what}: {report}");
        for (name, pairs) in &contents {
            let keyspace = db.existing_keyspace(name).unwrap();
            for (key, value) in pairs {
                let found = keyspace.get(key).unwrap();
                if found.as_deref() != Some(&value[..]) {
                    assert!(
                        tells(&report, name, key),
                        "{what}: {key:?} is not as it was\n{report}"
                    );
                    hidden += 1;
                }
            }
        }
        db.close().unwrap();
    }
    println!(
        "{in_tree} of the tree, {in_levels} of levels, {in_filters} filters, {hidden} keys as they were before, or gone"
    );
    assert!(in_tree > 10 && in_levels > 10 && in_filters > 2 && hidden > 100);
}

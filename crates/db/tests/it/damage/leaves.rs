//! Damages leaves, index nodes, separated values and filter pages. A repair drops damaged nodes and
//! values, reports the affected keys, and rebuilds filters. Afterwards the store is undamaged, and
//! the remaining data can be merged.

use super::*;
use alluvium::{LevelsOptions, RepairReport, Structure};
use alluvium_device::simulated::Corruption;

const PAGE: u64 = 4096;

/// A store with one keyspace in the tree and one in levels. Its runs hold versions of the same
/// keys, and both generations of the store refer to each run. `value` returns a key's value in a
/// given round.
fn store(keys: u32, value: impl Fn(u32, u32) -> Vec<u8>) -> (SimDirectory, Contents) {
    let directory = SimDirectory::new(5);
    let db = small().create_in(shared(&directory)).unwrap();
    let options = KeyspaceOptions::new().value_threshold(512);
    let tree = db.keyspace_with("tree", &options).unwrap();
    let in_levels = options.structure(Structure::Levels(LevelsOptions::samt(4)));
    let levels = db.keyspace_with("levels", &in_levels).unwrap();
    let mut contents = Contents::new();
    for round in 0..3u32 {
        for number in (0..keys).filter(|number| number % (round + 1) == 0) {
            let (key, value) = (format!("key {number:05}"), value(number, round));
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

/// Returns whether a report lists a loss for this key.
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

/// Returns the used pages of a data file.
fn pages(whole: &SimDirectory) -> Vec<u64> {
    let pages = used_blocks(whole)
        .into_iter()
        .filter_map(|(file, offset)| (file == "tier-0.data").then_some(offset / PAGE * PAGE));
    let mut pages: Vec<u64> = pages.collect();
    pages.dedup();
    pages
}

/// Damages pages of a copy of a store and repairs it. Afterwards the copy must be undamaged, and
/// the report must list every key that changed. Returns the number of changed keys, and the report.
fn repaired(whole: &SimDirectory, contents: &Contents, pages: &[u64]) -> (u32, RepairReport) {
    let what = format!("pages at {pages:?}");
    let damaged = whole.image(CrashSurvival::Process, 3);
    for page in pages {
        let offset = page + 100;
        let flip = Corruption::FlipBit { offset, bit: 3 };
        assert!(damaged.corrupt("tier-0.data", &flip).unwrap(), "{what}");
    }
    let report = small().repair_in(shared(&damaged)).unwrap();
    assert!(report.left.is_empty(), "{what}: {report}");
    assert!(
        !report.to_string().contains("run `alluvium repair`"),
        "{what}: {report}"
    );
    let again = small().repair_in(shared(&damaged)).unwrap();
    assert!(again.is_whole(), "{what}: {report}\nagain: {again}");
    let db = small().open_existing_in(shared(&damaged)).unwrap();
    assert_eq!(db.check().unwrap(), [""; 0], "{what}: {report}");
    db.compact()
        .unwrap_or_else(|error| panic!("{what}: {error}\n{report}"));
    assert_eq!(db.check().unwrap(), [""; 0], "{what}: {report}");
    let mut hidden = 0;
    for (name, pairs) in contents {
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
    (hidden, report)
}

#[test]
fn a_repair_leaves_damaged_leaves_out_and_merges_go_on() {
    let (whole, contents) = store(1500, |_, round| vec![round as u8; 90]);
    let (mut in_tree, mut in_levels, mut in_filters, mut hidden) = (0, 0, 0, 0);
    let every = effort(4, 1);
    for page in pages(&whole).into_iter().step_by(every as usize) {
        let (keys, report) = repaired(&whole, &contents, &[page]);
        let text = report.to_string();
        in_tree += u32::from(text.contains("unreadable leaves or index nodes of the tree were dropped"));
        in_levels +=
            u32::from(text.contains("unreadable leaves or index nodes of keyspaces in levels were dropped"));
        let has_filter = text.contains("filters of runs of keyspaces in levels were rewritten");
        assert!(!has_filter || report.lost.is_empty(), "page at {page}: {report}");
        in_filters += u32::from(has_filter);
        hidden += keys;
    }
    println!(
        "{in_tree} of the tree, {in_levels} of levels, {in_filters} filters, {hidden} keys as they were before, or gone"
    );
    let met = [in_tree * every, in_levels * every, hidden * every];
    assert!(
        met.iter().zip([10, 10, 100]).all(|(met, least)| *met > least),
        "{met:?}"
    );
    // Filters occupy few pages.
    assert!(every > 1 || in_filters > 2, "{in_filters} filters");
}

#[test]
fn a_repair_leaves_damaged_values_out_beside_damaged_leaves() {
    // Store values within the leaf, values that share a node, and values longer than a node.
    let (whole, contents) = store(120, |number, round| {
        let len = [90, 700, 3000, 90][number as usize % 4];
        let len = if number % 40 == 2 { 90_000 } else { len };
        let mut state = u64::from(number * 4 + round) + 1;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        });
        noise.take(len).collect()
    });
    let pages = pages(&whole);
    let (mut in_tree, mut in_levels, mut both) = (0, 0, 0);
    let every = effort(4, 1);
    for (number, page) in pages.iter().enumerate().step_by(3 * every as usize) {
        let other = pages[(number + pages.len() / 3) % pages.len()];
        let (_, report) = repaired(&whole, &contents, &[*page, other]);
        let text = report.to_string();
        let has_values = [
            text.contains("values of the tree, which are stored separately"),
            text.contains("values of keyspaces in levels, which are stored separately"),
        ];
        in_tree += u32::from(has_values[0]);
        in_levels += u32::from(has_values[1]);
        let has_leaves = text.contains("leaves or index nodes of");
        both += u32::from(has_leaves && (has_values[0] || has_values[1]));
    }
    println!("{in_tree} with values of the tree, {in_levels} of levels, {both} with leaves as well");
    assert!(in_tree * every > 10 && in_levels * every > 10 && both * every > 2);
}

//! The shape of the tree as JSON.

use super::json;
use crate::observe::{levels, paged, tiers};
use alluvium::{CompactionState, Db, KeyRange, OutlineKey, OutlineLayer, OutlineNode, OutlinePivot};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Maximum number of pivots to show. In a larger tree, leaves are only counted.
const MOST: usize = 5000;
/// Maximum number of in-place updated pages whose nodes are read. The limit exists because the web
/// page refreshes every few seconds.
const MOST_READ: u64 = 4096;
/// Maximum number of runs to show for each tier, beginning with the largest.
const MOST_RUNS: usize = 100;
/// Maximum number of runs to show for each level, beginning with the newest.
const MOST_LEVEL_RUNS: usize = 64;

/// Returns the shape of a store's tree, with the statistics of in-place updated pages.
pub(super) fn shape(db: &Db) -> Value {
    let outline = db.outline();
    let names = KeyspaceNames::of(db);
    let root = &outline.root;
    let lowest = if pivots(root) > MOST { 1 } else { 0 };
    let mut shape = json!({
        "version": outline.version,
        "cut": outline.cut,
        "height": root.height + 1,
        "pivots": pivots(root),
        "root": node(root, &names, lowest),
        "levels": levels::outline(db, MOST_LEVEL_RUNS),
    });
    // If the pages cannot be read, show the tree without their statistics. The command `check` and
    // reads of the data report the damage.
    if let Ok(Some(pages)) = paged::outline_within(db, MOST_READ) {
        shape["pages"] = pages;
    }
    let tiers = tiers::outline(db, MOST_RUNS);
    if !tiers.is_null() {
        shape["tiers"] = tiers;
    }
    shape
}

struct KeyspaceNames(BTreeMap<u32, String>);

impl KeyspaceNames {
    fn of(db: &Db) -> KeyspaceNames {
        let names = db.keyspaces().into_iter();
        let numbered = names.filter_map(|name| Some((db.existing_keyspace(&name).ok()?.number(), name)));
        KeyspaceNames(numbered.collect())
    }

    /// Splits a tree key into its keyspace and the user's key, both as JSON.
    fn key(&self, key: &[u8]) -> Value {
        let (name, key) = match OutlineKey::of(key) {
            OutlineKey::Between(key) => return json::bytes_object("key", key).into(),
            OutlineKey::Catalog(key) => ("the catalog".to_owned(), key),
            OutlineKey::User { keyspace, key } => match self.0.get(&keyspace) {
                Some(name) => (name.clone(), key),
                None => (format!("dropped keyspace {keyspace}"), key),
            },
        };
        let mut object = json::bytes_object("key", key);
        object.insert("keyspace".to_owned(), name.into());
        object.into()
    }

    fn range(&self, object: &mut Map<String, Value>, range: &KeyRange) {
        object.insert("low".to_owned(), self.key(&range.low));
        if let Some(high) = &range.high {
            object.insert("high".to_owned(), self.key(high));
        }
    }
}

fn pivots(node: &OutlineNode) -> usize {
    let below = node.pivots.iter().filter_map(|pivot| pivot.child.as_deref());
    node.pivots.len() + below.map(pivots).sum::<usize>()
}

fn node(of: &OutlineNode, names: &KeyspaceNames, lowest: u8) -> Value {
    let bundles: Vec<Value> = of
        .bundles
        .iter()
        .map(|bundle| json!({ "number": bundle.number, "runs": bundle.runs, "bytes": bundle.bytes }))
        .collect();
    let pivots: Vec<Value> = of.pivots.iter().map(|of| pivot(of, names, lowest)).collect();
    let mut object = Map::new();
    object.insert("height".to_owned(), of.height.into());
    names.range(&mut object, &of.range);
    object.insert("bundles".to_owned(), bundles.into());
    object.insert("pivots".to_owned(), pivots.into());
    object.into()
}

fn pivot(of: &OutlinePivot, names: &KeyspaceNames, lowest: u8) -> Value {
    let layers = |layers: &[OutlineLayer]| layers.iter().map(layer).collect::<Vec<_>>();
    let mut object = Map::new();
    names.range(&mut object, &of.range);
    object.insert("own".to_owned(), layers(&of.own).into());
    object.insert("pending".to_owned(), layers(&of.pending).into());
    let word = match of.compaction {
        None => Value::Null,
        Some(CompactionState::Queued) => "queued".into(),
        Some(CompactionState::Running) => "running".into(),
    };
    object.insert("compaction".to_owned(), word);
    if let Some(child) = of.child.as_deref() {
        let child = match child.height >= lowest {
            true => node(child, names, lowest),
            false => Value::Null,
        };
        object.insert("child".to_owned(), child);
    }
    object.into()
}

fn layer(of: &OutlineLayer) -> Value {
    json!({
        "group": of.group,
        "bundle": of.bundle,
        "runs": of.runs,
        "is_clipped": of.is_clipped,
        "bytes": of.bytes,
        "records": of.records,
        "tombstones": of.tombstones,
    })
}

//! Reports of a store as JSON.

use alluvium::{CheckReport, Compression, Db, RepairReport, Stats};
use serde_json::{Map, Value, json};

/// Returns all numbers of a store's statistics as an object: each name with its value.
#[must_use]
pub fn stats_json(stats: &Stats) -> String {
    let metrics = stats.list().into_iter();
    let object: Map<String, Value> = metrics.map(|metric| (metric.name, json!(metric.value))).collect();
    Value::Object(object).to_string()
}

/// Returns the result of a check as an object: `whole`, `findings`, `unreadable`, `unlisted`,
/// `notes`, `records`, `values_apart`.
#[must_use]
pub fn check_json(report: &CheckReport) -> String {
    let object = json!({
        "whole": report.is_whole(),
        "findings": report.findings,
        "unreadable": report.unreadable,
        "unlisted": report.unlisted,
        "notes": report.notes,
        "records": report.records,
        "values_apart": report.values_apart,
    });
    object.to_string()
}

/// Returns the result of a repair as an object: `whole`, and what was `done`, `lost` and `left`.
#[must_use]
pub fn repair_json(report: &RepairReport) -> String {
    let object = json!({
        "whole": report.is_whole(),
        "done": report.done,
        "lost": report.lost,
        "left": report.left,
    });
    object.to_string()
}

/// Returns the keyspaces of a store as an array of objects with their names and options.
#[must_use]
pub fn keyspaces_json(db: &Db) -> String {
    let object = |name: String| {
        let keyspace = db.existing_keyspace(&name).ok()?;
        let options = keyspace.options();
        let compression = match options.compression {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        };
        Some(json!({
            "name": name,
            "structure": options.structure.to_string(),
            "compression": compression,
            "value_threshold": options.value_threshold,
            "merge_operator": options.merge_operator,
            "compaction_filter": options.compaction_filter,
        }))
    };
    let all = db.keyspaces().into_iter().filter_map(object);
    Value::Array(all.collect()).to_string()
}

//! JSON reports: store statistics, the shape of the tree, and check results.

use super::advised;
use super::request::compression;
use crate::observe::{forecast, levels, paged, tiers};
use alluvium::{
    CheckReport, CompactionState, Db, HashedStats, HourlyRequests, OutlineLayer, OutlineNode, OutlinePivot,
    OutlineRun, Stats,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// Returns a list of all keyspaces with their options.
pub(super) fn keyspaces(db: &Db) -> alluvium::Result<Value> {
    let mut all = Vec::new();
    for name in db.keyspaces() {
        let keyspace = match db.existing_keyspace(&name) {
            Ok(keyspace) => keyspace,
            // Another thread dropped the keyspace after it was listed.
            Err(alluvium::Error::NoSuchKeyspace { .. }) => continue,
            Err(error) => return Err(error),
        };
        let options = keyspace.options();
        all.push(json!({
            "name": name,
            "compression": compression(options.compression),
            "value_threshold": options.value_threshold,
            "merge_operator": options.merge_operator,
            "compaction_filter": options.compaction_filter,
            "structure": options.structure.to_string(),
            "default_expiry_ms": options.default_expiry.map(|after| after.as_millis() as u64),
        }));
    }
    Ok(all.into())
}

/// Returns the statistics of the store, arranged in groups.
pub(super) fn stats(db: &Db) -> Value {
    let stats = db.stats();
    let (space, memory, log) = (&stats.space, &stats.memory, &stats.log);
    let (device, done) = (stats.device.total(), &stats.operations);
    let mut answer = json!({
        "store": {
            "keyspaces": db.keyspaces().len(),
            "kept_snapshots": db.snapshots().len(),
            "last_commit": db.sequence(),
        },
        "space": {
            "file_bytes": space.file_bytes,
            "live_bytes": space.live_bytes,
            "free_bytes": space.free_bytes,
            "dead_bytes": space.dead_bytes,
        },
        "memory": {
            "budget_bytes": memory.budget,
            "memtables_bytes": memory.memtables,
            "log_bytes": log.resident_bytes,
            "pages_bytes": memory.pages,
            "records_bytes": memory.records,
            "tree_bytes": memory.tree,
            "tables_bytes": memory.tables,
            "total_bytes": memory.total(),
        },
        "operations_since_opening": {
            "gets": done.gets + done.multi_get_keys,
            "scans": done.scans,
            "puts": done.puts,
            "deletes": done.deletes,
            "commits": done.commits,
        },
        "device_since_opening": {
            "reads": device.reads,
            "read_bytes": device.read_bytes,
            "writes": device.writes,
            "written_bytes": device.written_bytes,
            "syncs": device.syncs,
        },
        "measured": {
            "write_amplification": stats.write_amplification(),
            "reads_per_lookup": stats.read_amplification(),
        },
        "workload": workload(db),
        "chosen": chosen(db),
        "changes": advised::trials(db),
        "forecast": db.forecast().ok().flatten().map(|forecast| forecast::json_of(&forecast)),
    });
    add_structures(&mut answer, &stats);
    // The statistics above are totals over all tiers. If there are several tiers, add those of
    // each.
    let further = stats.tiers.iter().filter(|_| stats.tiers.len() > 1);
    for (number, tier) in further.enumerate() {
        let device = tier.device.total();
        answer[format!("tier_{number}")] = json!({
            "directory": tier.directory,
            "capacity_bytes": tier.capacity_bytes,
            "available_bytes": tier.available_bytes,
            "file_bytes": tier.space.file_bytes,
            "live_bytes": tier.space.live_bytes,
            "dead_bytes": tier.space.dead_bytes,
            "read_bytes": device.read_bytes,
            "written_bytes": device.written_bytes,
        });
    }
    answer
}

/// Adds the statistics of levels and hashed structures, if there are any.
fn add_structures(answer: &mut Value, stats: &Stats) {
    if !stats.dictionaries.is_empty() {
        answer["dictionaries"] = levels::stats(&stats.dictionaries);
    }
    if let Some(hashed) = &stats.hashed {
        answer["hashed"] = of_hashed(hashed);
    }
}

/// Returns the combined statistics of all hashed keyspaces.
fn of_hashed(hashed: &HashedStats) -> Value {
    json!({
        "hash_stores": hashed.hash_stores,
        "hash_store_records": hashed.hash_store_records,
        "sorted_records": hashed.sorted_records,
        "tombstones": hashed.tombstones,
        "memory_bytes": hashed.memory_bytes,
        "device_bytes": hashed.device_bytes,
        "merges": hashed.merges,
        "merged_records": hashed.merged_records,
    })
}

/// Returns each tier's capacity and used space.
pub(super) fn tiers(db: &Db) -> Value {
    let tiers = db.stats().tiers.into_iter().enumerate();
    let all = tiers.map(|(number, tier)| {
        json!({
            "tier": number,
            "directory": tier.directory,
            "capacity_bytes": tier.capacity_bytes,
            "available_bytes": tier.available_bytes,
            "live_bytes": tier.space.live_bytes,
            "takes_data": tier.takes_data,
            "failure": tier.failure,
        })
    });
    all.collect::<Vec<_>>().into()
}

/// Returns the settings that the store chose on its own, with the reasons.
fn chosen(db: &Db) -> Value {
    let all = db.choices().into_iter();
    let all = all.map(|choice| {
        let said = json!({ "value": choice.value, "why": choice.why });
        (choice.name.to_owned(), said)
    });
    all.collect::<Map<String, Value>>().into()
}

/// Returns each keyspace's workload as measured since the store was opened.
fn workload(db: &Db) -> Value {
    let of = |hour: &HourlyRequests| {
        json!({
            "began_ms": hour.began_ms, "puts": hour.puts, "deletes": hour.deletes, "hits": hour.hits,
            "misses": hour.misses, "scans": hour.scans, "scanned": hour.scanned,
        })
    };
    let seen = db.workload().into_iter().map(|seen| {
        let total = of(&seen.total());
        let what = json!({
            "total": total,
            "hours": seen.hours.iter().map(of).collect::<Vec<_>>(),
            "key_bytes": seen.key_bytes,
            "value_bytes": seen.value_bytes,
            "in_order": seen.in_order,
            "requests": seen.requests,
            "same_pairs": seen.same_pairs,
            "keys": seen.keys,
            "new_keys": seen.new_keys,
            "skew": seen.skew(),
        });
        (seen.keyspace, what)
    });
    seen.collect::<Map<String, Value>>().into()
}

/// Returns all statistics and the shape of the tree.
pub(super) fn figures(db: &Db) -> Value {
    let figures = db.stats().list().into_iter();
    let figures: Map<String, Value> = figures.map(|figure| (figure.name, json!(figure.value))).collect();
    json!({
        "process_id": std::process::id(),
        "figures": figures,
        "root": node(&db.outline().root),
    })
}

/// Returns the shape of the tree.
pub(super) fn outline(db: &Db) -> Value {
    let (outline, drawing) = (db.outline(), db.draw());
    let mut answer = json!({
        "version": outline.version,
        "cut": outline.cut,
        "root": node(&outline.root),
        "drawing": drawing.lines().collect::<Vec<_>>(),
        "levels": levels::outline(db, usize::MAX),
    });
    // If the pages cannot be read, the drawing shows the error instead.
    if let Ok(Some(of)) = db.outline_pages() {
        answer["pages"] = paged::outline(&of);
    }
    let tiers = tiers::outline(db, usize::MAX);
    if !tiers.is_null() {
        answer["tiers"] = tiers;
    }
    answer
}

/// Returns the result of a check.
pub(super) fn check(report: &CheckReport) -> Value {
    let structures = report.read.iter().map(|structure| {
        json!({ "structure": structure.name, "nodes": structure.nodes, "bytes": structure.bytes })
    });
    json!({
        "findings": report.findings,
        "unlisted": report.unlisted,
        "unreadable": report.unreadable,
        "notes": report.notes,
        "read": {
            "bytes": report.bytes(),
            "records": report.records,
            "values_apart": report.values_apart,
            "structures": structures.collect::<Vec<_>>(),
        },
    })
}

/// Adds a field to a JSON object. As in exports, the bytes are written as text if they are valid
/// UTF-8, otherwise in base 64.
fn put(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_owned(), text.into()),
        Err(_) => object.insert(format!("{name}_base64"), STANDARD.encode(bytes).into()),
    };
}

fn node(of: &OutlineNode) -> Value {
    let bundles = of.bundles.iter();
    let bundles: Vec<Value> = bundles
        .map(|bundle| json!({ "number": bundle.number, "runs": bundle.runs, "bytes": bundle.bytes }))
        .collect();
    let pivots: Vec<Value> = of.pivots.iter().map(pivot).collect();
    json!({ "height": of.height, "bundles": bundles, "pivots": pivots })
}

fn pivot(of: &OutlinePivot) -> Value {
    let layers = |layers: &[OutlineLayer]| layers.iter().map(layer).collect::<Vec<Value>>();
    let mut object = Map::new();
    put(&mut object, "low", &of.range.low);
    if let Some(high) = &of.range.high {
        put(&mut object, "high", high);
    }
    object.insert("own".to_owned(), layers(&of.own).into());
    object.insert("pending".to_owned(), layers(&of.pending).into());
    let compaction = of.compaction.map(|how| match how {
        CompactionState::Queued => "queued",
        CompactionState::Running => "running",
    });
    object.insert("compaction".to_owned(), compaction.into());
    object.insert("child".to_owned(), of.child.as_deref().map_or(Value::Null, node));
    object.into()
}

fn layer(of: &OutlineLayer) -> Value {
    let runs: Vec<String> = of
        .runs
        .iter()
        .map(|place| format!("{}.{place}", of.group))
        .collect();
    json!({
        "bundle": of.bundle,
        "runs": runs,
        "is_clipped": of.is_clipped,
        "bytes": of.bytes,
        "records": of.records,
        "tombstones": of.tombstones,
    })
}

/// Returns a description of one sorted run.
pub(super) fn run(run: &OutlineRun) -> Value {
    let summary = &run.summary;
    let extents = run.extents.iter().map(|used| {
        let mut object = Map::new();
        object.insert("tier".to_owned(), used.extent.tier.into());
        object.insert("offset".to_owned(), used.extent.offset().into());
        object.insert("bytes".to_owned(), used.extent.bytes().into());
        put(&mut object, "low", &used.low);
        put(&mut object, "high", &used.high);
        object.insert("live_bytes".to_owned(), used.live.into());
        object.insert("is_inherited".to_owned(), used.inherited.into());
        Value::from(object)
    });
    let extents: Vec<Value> = extents.collect();
    let mut object = Map::new();
    put(&mut object, "low", &run.low);
    put(&mut object, "high", &run.high);
    for (name, number) in [
        ("records", summary.records),
        ("keys", summary.keys),
        ("tombstones", summary.tombstones),
        ("merges", summary.merges),
        ("separate_values", summary.separate),
        ("range_deletes", summary.range_deletes),
        ("lowest_sequence", summary.lowest_sequence),
        ("highest_sequence", summary.highest_sequence),
        ("bytes", summary.bytes),
        ("value_bytes", summary.value_bytes),
        ("leaves", summary.leaves),
        ("height", u64::from(run.height)),
    ] {
        object.insert(name.to_owned(), number.into());
    }
    object.insert("footer".to_owned(), run.footer.clone().into());
    object.insert("extents".to_owned(), extents.into());
    object.into()
}

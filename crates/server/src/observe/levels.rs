//! Levels with their runs as JSON, for the web page and the command `inspect`.

use alluvium::{Db, DictionaryOutline, DictionaryStats, OutlineLevel, OutlineLevelRun};
use serde_json::{Value, json};

/// Returns all levels with up to `most_runs` runs on each level, beginning with the newest. There
/// is one entry for each set of options.
pub(crate) fn outline(db: &Db, most_runs: usize) -> Value {
    let outlines = db.outline_levels();
    let all = outlines.iter().map(|of| of_dictionary(of, most_runs));
    all.collect::<Vec<Value>>().into()
}

fn of_dictionary(of: &DictionaryOutline, most_runs: usize) -> Value {
    let levels = of.shape.levels.iter();
    json!({
        "structure": of.structure.to_string(),
        "keyspaces": of.keyspaces,
        "merges": of.shape.merges,
        "adopted_leaves": of.shape.adopted_leaves,
        "levels": levels.map(|level| of_level(level, most_runs)).collect::<Vec<Value>>(),
    })
}

fn of_level(of: &OutlineLevel, most_runs: usize) -> Value {
    let runs = of.runs.iter().enumerate();
    json!({
        "run_count": of.runs.len(),
        "bytes": of.bytes(),
        "runs": runs.rev().take(most_runs).map(of_run).collect::<Vec<Value>>(),
    })
}

fn of_run((place, run): (usize, &OutlineLevelRun)) -> Value {
    json!({
        "place": place,
        "records": run.records,
        "leaves": run.leaves,
        "range_deletes": run.range_deletes,
        "bytes": run.bytes,
        "inherited_bytes": run.inherited_bytes,
        "filter_bytes": run.filter_bytes,
        "oldest_addition": run.ages.0,
        "newest_addition": run.ages.1,
        "is_merging": run.is_merging,
    })
}

/// Returns the statistics of levels and hashed structures, one entry for each set of options.
pub(crate) fn stats(all: &[DictionaryStats]) -> Value {
    all.iter().map(of_stats).collect::<Vec<Value>>().into()
}

fn of_stats(of: &DictionaryStats) -> Value {
    let mut object = json!({
        "structure": of.structure.to_string(),
        "keyspaces": of.keyspaces,
        "memory_bytes": of.memory_bytes,
        "said": of.to_string(),
    });
    if let Some(levels) = &of.levels {
        object["levels"] = levels.levels.into();
        object["runs"] = levels.runs.into();
        object["leaves_adopted"] = levels.taken_over.into();
    }
    if let Some(hashed) = &of.hashed {
        object["levels"] = hashed.levels.into();
        object["runs"] = hashed.runs.into();
        object["hash_stores"] = hashed.hash_stores.into();
        object["device_bytes"] = hashed.device_bytes.into();
    }
    object
}

//! A store's tiers and the runs on each as JSON, for the web page and the command `inspect`.

use alluvium::{Db, RunName, TierOutline, TierRun};
use serde_json::{Value, json};

/// Returns up to `most_runs` of the largest runs of each tier, or null if the store has only one
/// tier.
pub(crate) fn outline(db: &Db, most_runs: usize) -> Value {
    let tiers = db.outline_tiers();
    if tiers.len() < 2 {
        return Value::Null;
    }
    tiers
        .iter()
        .map(|tier| of_tier(tier, most_runs))
        .collect::<Vec<Value>>()
        .into()
}

fn of_tier(tier: &TierOutline, most_runs: usize) -> Value {
    let runs = tier.runs.iter().take(most_runs).map(of_run);
    json!({
        "tier": tier.number,
        "directory": tier.stats.directory,
        "state": tier.state(),
        "failure": tier.stats.failure,
        "capacity_bytes": tier.stats.capacity_bytes,
        "available_bytes": tier.stats.available_bytes,
        "live_bytes": tier.stats.space.live_bytes,
        "full_percent": tier.full_percent(),
        "copies_bytes": tier.copies_bytes,
        "run_count": tier.runs.len(),
        "run_bytes": tier.runs.iter().map(|run| run.bytes).sum::<u64>(),
        "filter_bytes": tier.runs.iter().map(|run| run.filter_bytes).sum::<u64>(),
        "runs": runs.collect::<Vec<Value>>(),
    })
}

fn of_run(run: &TierRun) -> Value {
    let mut object = json!({
        "name": run.title(),
        "structure": run.structure.to_string(),
        "bytes": run.bytes,
        "filter_bytes": run.filter_bytes,
        "records": run.records,
    });
    match run.name {
        RunName::Tree { group, place } => {
            (object["group"], object["place"]) = (group.into(), place.into());
        }
        RunName::Level { level, place } => {
            (object["level"], object["place"]) = (level.into(), place.into());
        }
        _ => {}
    }
    object
}

//! Reports the open transactions and snapshots as JSON, with the old versions that the store
//! retains for them.

use alluvium::{Concurrency, Db, Isolation, TransactionInfo};
use serde_json::{Value, json};

/// Maximum number of transactions, and also of named snapshots, in a report.
const MOST: usize = 1000;

/// Returns the open transactions, oldest first, and the kept snapshots. `commits_held` is the
/// number of commits newer than the reader's snapshot; the store retains the versions that these
/// commits replaced.
pub(crate) fn report(db: &Db) -> Value {
    let stats = db.stats();
    let last = db.sequence();
    let open = db.transactions();
    let kept = db.snapshots();
    let places = open.iter().filter(|info| info.sequence.is_some()).count();
    let transactions: Vec<Value> = open
        .iter()
        .take(MOST)
        .map(|info| transaction(info, last))
        .collect();
    let snapshots: Vec<Value> = kept
        .iter()
        .take(MOST)
        .map(|(name, at)| json!({ "name": name, "sequence": at, "commits_held": last.saturating_sub(*at) }))
        .collect();
    json!({
        "last_commit": last,
        "commits_held": stats.held_commits,
        "memory_bytes": stats.memory.transactions,
        "transactions_open": open.len(),
        "transactions": transactions,
        "snapshots_kept": kept.len(),
        "snapshots": snapshots,
        "other_readers": stats.snapshots.saturating_sub(places + kept.len()),
    })
}

fn transaction(info: &TransactionInfo, last: u64) -> Value {
    json!({
        "number": info.number,
        "age_ms": u64::try_from(info.age.as_millis()).unwrap_or(u64::MAX),
        "isolation": match info.isolation {
            Isolation::Serializable => "serializable",
            Isolation::Snapshot => "snapshot",
        },
        "mechanism": match info.concurrency {
            Concurrency::Optimistic => "optimistic",
            Concurrency::Locking => "locking",
        },
        "sequence": info.sequence,
        "commits_held": info.sequence.map(|at| last.saturating_sub(at)),
        "reads": info.reads,
        "write_bytes": info.write_bytes,
        "spilled_bytes": info.spilled_bytes,
        "spilled_layers": info.spilled_layers,
        "memory_bytes": info.memory_bytes(),
        "locks": info.locks,
        "waits_for": info.waits_for,
    })
}

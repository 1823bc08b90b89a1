//! What a store says that it has seen, as a workload; and how far that has drifted.

use alluvium_model::observed;
use alluvium_model::structures::{Operations, Workload};
use serde_json::Value;

/// Requests of an hour below which it says nothing of drift.
const ENOUGH: f64 = 1000.0;

/// What a store has seen of a keyspace, and what it measures.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) keyspace: String,
    /// By hour, oldest first: when it began, in milliseconds since 1970, and what was asked.
    pub(super) hours: Vec<(u64, Operations)>,
    pub(super) total: Operations,
    key_bytes: f64,
    value_bytes: f64,
    scan_records: f64,
    skew: f64,
    keys: f64,
    /// The share of writes in the order of keys.
    pub(super) in_order: f64,
    pub(super) memory_bytes: f64,
    pub(super) measured: Measured,
}

/// What the store measures of itself: of all keyspaces.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measured {
    pub(super) write_amplification: Option<f64>,
    pub(super) reads: Option<f64>,
    pub(super) space_amplification: Option<f64>,
    pub(super) memory_bytes: f64,
}

fn figure(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or(0.0)
}

/// Returns operations as one hour, or all, of a keyspace's record says them. Of puts, `inserts` are
/// new keys.
fn operations(of: &Value, inserts: f64) -> Operations {
    let puts = figure(of, "puts");
    Operations {
        inserts: puts * inserts,
        updates: puts * (1.0 - inserts),
        deletes: figure(of, "deletes"),
        hits: figure(of, "hits"),
        misses: figure(of, "misses"),
        scans: figure(of, "scans"),
    }
}

impl Seen {
    /// Returns what a store's numbers say of a keyspace, or of that with the most requests.
    pub(super) fn of(numbers: &Value, keyspace: Option<&str>) -> Option<Seen> {
        let all = numbers["workload"].as_object()?;
        let requests = |seen: &Value| operations(&seen["total"], 0.0).total();
        let (name, seen) = match keyspace {
            Some(wanted) => all.get_key_value(wanted)?,
            None => all
                .iter()
                .max_by(|one, other| requests(one.1).total_cmp(&requests(other.1)))?,
        };
        if requests(seen) <= 0.0 {
            return None;
        }
        let (key_bytes, value_bytes) = (figure(seen, "key_bytes").max(1.0), figure(seen, "value_bytes"));
        // Live bytes have older versions in them: they are about as many as keys and values.
        let live = figure(&numbers["space"], "live_bytes");
        let puts = figure(&seen["total"], "puts");
        let keys = (live / (key_bytes + value_bytes)).max(puts.min(1e6)).max(2.0);
        // A store that has been written to no more often than it has keys has got new ones only.
        let commits = figure(&numbers["store"], "last_commit").max(1.0);
        let inserts = (keys / commits).clamp(0.0, 1.0);
        let hours = seen["hours"].as_array().into_iter().flatten();
        let hours = hours.map(|hour| (hour["began_ms"].as_u64().unwrap_or(0), operations(hour, inserts)));
        let total = operations(&seen["total"], inserts);
        let (samples, pairs) = (seen["requests"].as_u64()?, seen["same_pairs"].as_u64()?);
        let scans = figure(&seen["total"], "scans");
        Some(Seen {
            keyspace: name.clone(),
            hours: hours.collect(),
            total,
            key_bytes,
            value_bytes,
            scan_records: figure(&seen["total"], "scanned") / scans.max(1.0),
            skew: observed::skew(pairs, samples.max(2), keys as u64).unwrap_or(0.0),
            keys,
            in_order: figure(seen, "in_order"),
            memory_bytes: figure(&numbers["memory"], "budget_bytes"),
            measured: Measured::of(numbers),
        })
    }

    /// Returns the workload.
    pub(super) fn workload(&self) -> Workload {
        Workload {
            keys: self.keys,
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            skew: self.skew,
            operations: self.total,
            scan_records: self.scan_records,
        }
    }

    /// Returns the workload as each hour with enough requests had it: how far it has drifted.
    pub(super) fn drifts(&self, workload: &Workload) -> Vec<Workload> {
        let hours = self.hours.iter().filter(|(_, hour)| hour.total() >= ENOUGH);
        hours
            .map(|(_, operations)| Workload {
                operations: *operations,
                ..*workload
            })
            .collect()
    }
}

impl Measured {
    fn of(numbers: &Value) -> Measured {
        let ratio = |one: f64, other: f64| (other > 0.0).then(|| one / other);
        let measured = &numbers["measured"];
        let (space, memory) = (&numbers["space"], &numbers["memory"]);
        Measured {
            write_amplification: measured["write_amplification"].as_f64(),
            reads: measured["reads_per_lookup"].as_f64(),
            space_amplification: ratio(
                figure(space, "live_bytes") + figure(space, "dead_bytes"),
                figure(space, "live_bytes"),
            ),
            memory_bytes: figure(memory, "total_bytes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn numbers() -> Value {
        json!({
            "store": { "last_commit": 2000.0 },
            "space": { "live_bytes": 116_000.0, "dead_bytes": 0.0 },
            "memory": { "budget_bytes": 67_108_864.0, "total_bytes": 5e7 },
            "workload": {
                "small": { "total": { "puts": 64 }, "requests": 2, "same_pairs": 0 },
                "large": {
                    "total": { "puts": 2000, "hits": 6000, "scans": 10, "scanned": 500 },
                    "hours": [
                        { "began_ms": 0, "puts": 2000, "hits": 10 },
                        { "began_ms": 3_600_000, "hits": 5990 },
                        { "began_ms": 7_200_000, "hits": 3 },
                    ],
                    "key_bytes": 16.0, "value_bytes": 100.0, "in_order": 0.5,
                    "requests": 4096, "same_pairs": 40_000,
                },
            },
        })
    }

    #[test]
    fn the_keyspace_with_most_requests_is_looked_at_unless_one_is_named() {
        let seen = Seen::of(&numbers(), None).unwrap();
        let workload = seen.workload();
        assert_eq!(
            (&seen.keyspace[..], seen.total.hits, workload.scan_records),
            ("large", 6000.0, 50.0)
        );
        assert!(workload.checked().is_ok() && workload.skew > 0.3, "{workload:?}");
        assert_eq!(
            workload.operations.inserts,
            workload.operations.updates * 0.0 + 2000.0
        );
        assert_eq!(
            seen.drifts(&workload).len(),
            2,
            "of the third hour too little is known"
        );
        assert_eq!(Seen::of(&numbers(), Some("small")).unwrap().keyspace, "small");
        assert!(Seen::of(&numbers(), Some("none")).is_none());
        assert!(Seen::of(&json!({}), None).is_none());
    }
}

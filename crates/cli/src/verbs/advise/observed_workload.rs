//! The observed workload of a store or a trace, and how the workload has drifted over time.

use crate::terminal::exit::{CommandExit, failure};
use alluvium_bench::workload::trace;
use alluvium_model::observed;
use alluvium_model::structures::{OperationRates, WorkloadProfile};
use alluvium_server::control::is_of_server;
use anyhow::Result;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Minimum number of requests in an hour for the drift analysis to use it.
const ENOUGH: f64 = 1000.0;

/// Where a workload was observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WorkloadSource {
    /// The keyspace of a store with this name.
    Keyspace(String),
    /// A recorded trace, given by the path of its file.
    Trace(String),
}

/// An observed workload, and the store's measurements.
#[derive(Clone, Debug)]
pub(super) struct ObservedWorkload {
    pub(super) source: WorkloadSource,
    /// The operations in each hour, oldest first. The number is the start of the hour in
    /// milliseconds since 1970. For a trace, the elements are parts of the trace instead.
    pub(super) hours: Vec<(u64, OperationRates)>,
    pub(super) total: OperationRates,
    key_bytes: f64,
    value_bytes: f64,
    scan_records: f64,
    skew: f64,
    keys: f64,
    /// Fraction of the writes that were in key order.
    pub(super) in_order: f64,
    pub(super) memory_bytes: f64,
    /// Quantities that the store has both predicted and measured.
    pub(super) beside: Vec<PredictionCheck>,
}

/// A quantity with its predicted and its measured value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PredictionCheck {
    pub(super) what: String,
    pub(super) band: [f64; 3],
    pub(super) measured: f64,
    pub(super) is_within: bool,
}

fn figure(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or(0.0)
}

/// Converts the counts of one hour, or of the whole period, from JSON. `inserts` is the fraction of
/// puts whose keys were new.
fn operations(of: &Value, inserts: f64) -> OperationRates {
    let puts = figure(of, "puts");
    OperationRates {
        inserts: puts * inserts,
        updates: puts * (1.0 - inserts),
        deletes: figure(of, "deletes"),
        hits: figure(of, "hits"),
        misses: figure(of, "misses"),
        scans: figure(of, "scans"),
    }
}

impl ObservedWorkload {
    /// Converts the observed workload of a keyspace from JSON. If no keyspace is named, chooses the
    /// one with the most requests. The hashed keyspaces of a server are combined into one, unless
    /// one of them is named.
    pub(super) fn of(numbers: &Value, keyspace: Option<&str>) -> Option<ObservedWorkload> {
        let mut all = numbers["workload"].as_object()?.clone();
        let mut keyspace = keyspace.map(str::to_owned);
        if keyspace.as_deref().is_none_or(is_sum) {
            let sum = add_up(&mut all);
            keyspace = keyspace.and(sum);
        }
        let requests = |seen: &Value| operations(&seen["total"], 0.0).total();
        let (name, seen) = match keyspace {
            Some(wanted) => all.get_key_value(&wanted)?,
            None => all
                .iter()
                .max_by(|one, other| requests(one.1).total_cmp(&requests(other.1)))?,
        };
        if requests(seen) <= 0.0 {
            return None;
        }
        let (key_bytes, value_bytes) = (figure(seen, "key_bytes").max(1.0), figure(seen, "value_bytes"));
        // The store itself reports the number of keys and the fraction of puts with new keys.
        let (keys, inserts) = (figure(seen, "keys").max(2.0), figure(seen, "new_keys"));
        let hours = seen["hours"].as_array().into_iter().flatten();
        let hours = hours.map(|hour| (hour["began_ms"].as_u64().unwrap_or(0), operations(hour, inserts)));
        let total = operations(&seen["total"], inserts);
        let scans = figure(&seen["total"], "scans");
        Some(ObservedWorkload {
            source: WorkloadSource::Keyspace(name.clone()),
            hours: hours.collect(),
            total,
            key_bytes,
            value_bytes,
            scan_records: figure(&seen["total"], "scanned") / scans.max(1.0),
            skew: figure(seen, "skew"),
            keys,
            in_order: figure(seen, "in_order"),
            memory_bytes: figure(&numbers["memory"], "budget_bytes"),
            beside: beside(numbers, name),
        })
    }

    pub(super) fn workload(&self) -> WorkloadProfile {
        WorkloadProfile {
            keys: self.keys,
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            skew: self.skew,
            operations: self.total,
            scan_records: self.scan_records,
            ..WorkloadProfile::default()
        }
    }

    /// Returns the workload of each hour that has enough requests. Their differences show the
    /// drift.
    pub(super) fn drifts(&self, workload: &WorkloadProfile) -> Vec<WorkloadProfile> {
        let hours = self.hours.iter().filter(|(_, hour)| hour.total() >= ENOUGH);
        hours
            .map(|(_, operations)| WorkloadProfile {
                operations: *operations,
                ..*workload
            })
            .collect()
    }
}

/// Prefix of the names of a server's hashed keyspaces. `SUM` is the name of their combination.
const HASHED: &str = "redis.keys.";
const SUM: &str = "redis.keys.*";

/// Returns whether a name denotes the combination of a server's hashed keyspaces.
pub(super) fn is_sum(name: &str) -> bool {
    name == SUM
}

/// Returns whether a keyspace is one of a server's hashed keyspaces.
pub(super) fn is_of_sum(name: &str) -> bool {
    name.starts_with(HASHED) && is_of_server(name)
}

/// Combines a server's hashed keyspaces into one entry, and returns its name. Adds the counts, and
/// averages other statistics weighted by requests or keys. Returns `None` if there are no such
/// keyspaces.
fn add_up(all: &mut Map<String, Value>) -> Option<String> {
    let names: Vec<String> = all.keys().filter(|name| is_of_sum(name)).cloned().collect();
    let parts: Vec<Value> = names.iter().filter_map(|name| all.remove(name)).collect();
    let sum = match &parts[..] {
        [] => return None,
        [one] => one.clone(),
        _ => sum(&parts),
    };
    // A single keyspace keeps its name, because the store reports predictions under that name.
    let name = match &names[..] {
        [name] => name.clone(),
        _ => SUM.to_owned(),
    };
    all.insert(name.clone(), sum);
    Some(name)
}

fn sum(parts: &[Value]) -> Value {
    let requests = |part: &Value| operations(&part["total"], 0.0).total();
    let puts = |part: &Value| figure(&part["total"], "puts");
    let keys = |part: &Value| figure(part, "keys");
    let mean = |name: &str, weight: &dyn Fn(&Value) -> f64| {
        let weights: f64 = parts.iter().map(weight).sum();
        let all: f64 = parts.iter().map(|part| weight(part) * figure(part, name)).sum();
        if weights > 0.0 { all / weights } else { 0.0 }
    };
    let mut hours: BTreeMap<u64, Map<String, Value>> = BTreeMap::new();
    for hour in parts.iter().filter_map(|part| part["hours"].as_array()).flatten() {
        let began_ms = hour["began_ms"].as_u64().unwrap_or(0);
        add(hours.entry(began_ms).or_default(), hour);
    }
    let hours = hours.into_iter().map(|(began_ms, mut hour)| {
        hour.insert("began_ms".to_owned(), began_ms.into());
        Value::Object(hour)
    });
    let mut total = Map::new();
    parts.iter().for_each(|part| add(&mut total, &part["total"]));
    json!({
        "total": total,
        "hours": hours.collect::<Vec<_>>(),
        "keys": parts.iter().map(keys).sum::<f64>(),
        "new_keys": mean("new_keys", &puts),
        "in_order": mean("in_order", &puts),
        "key_bytes": mean("key_bytes", &keys),
        "value_bytes": mean("value_bytes", &keys),
        "skew": mean("skew", &requests),
    })
}

/// Adds the numbers in the JSON object `more` to those in `sum`.
fn add(sum: &mut Map<String, Value>, more: &Value) {
    for (name, value) in more.as_object().into_iter().flatten() {
        if let Some(number) = value.as_f64() {
            let before = sum.get(name).and_then(Value::as_f64).unwrap_or(0.0);
            sum.insert(name.clone(), (before + number).into());
        }
    }
}

/// Returns the quantities of a keyspace that the store has both predicted and measured.
fn beside(numbers: &Value, keyspace: &str) -> Vec<PredictionCheck> {
    let forecast = &numbers["forecast"];
    if forecast["keyspace"] != keyspace {
        return Vec::new();
    }
    let rows = forecast["now"].as_array().into_iter().flatten();
    let rows = rows.filter_map(|row| {
        Some(PredictionCheck {
            what: row["what"].as_str()?.to_owned(),
            band: [figure(row, "p10"), figure(row, "predicted"), figure(row, "p90")],
            measured: row["measured"].as_f64()?,
            is_within: row["within_band"].as_bool()?,
        })
    });
    rows.collect()
}

impl ObservedWorkload {
    /// Returns the workload of a recorded trace. Traces do not contain sizes of keys and values.
    pub(super) fn of_trace(path: &Path) -> Result<ObservedWorkload> {
        if path.is_dir() {
            let text = format!(
                "--trace {} is a directory: name the file that `alluvium bench trace record` \
                 has written",
                path.display()
            );
            return Err(failure(CommandExit::Usage, text));
        }
        let summary = trace::summary(path).map_err(|error| match error.downcast_ref::<io::Error>() {
            Some(cause) if cause.kind() == io::ErrorKind::NotFound => {
                failure(CommandExit::NotFound, format!("{error:#}"))
            }
            _ => failure(CommandExit::Damaged, format!("{error:#}")),
        })?;
        let operations = |part: &trace::TracePart| OperationRates {
            inserts: part.inserts as f64,
            updates: part.updates as f64,
            deletes: 0.0,
            hits: part.reads as f64,
            misses: 0.0,
            scans: part.scans as f64,
        };
        let mut all = trace::TracePart::default();
        for part in &summary.parts {
            all.reads += part.reads;
            all.updates += part.updates;
            all.inserts += part.inserts;
            all.scans += part.scans;
            all.scanned += part.scanned;
        }
        let parts = summary.parts.iter().zip(0u64..);
        let usual = WorkloadProfile::default();
        let keys = summary.keys().max(2);
        let skew = observed::skew(summary.same_pairs, summary.samples.max(2), keys);
        Ok(ObservedWorkload {
            source: WorkloadSource::Trace(path.display().to_string()),
            hours: parts.map(|(part, number)| (number, operations(part))).collect(),
            total: operations(&all),
            key_bytes: usual.key_bytes,
            value_bytes: usual.value_bytes,
            scan_records: all.scanned as f64 / all.scans.max(1) as f64,
            skew: skew.unwrap_or(0.0),
            keys: keys as f64,
            in_order: 0.0,
            memory_bytes: 0.0,
            beside: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                    "keys": 1000, "new_keys": 0.5, "skew": 0.6,
                },
            },
            "forecast": {
                "keyspace": "large",
                "now": [
                    { "what": "reads_hit", "p10": 0.2, "predicted": 0.3, "p90": 0.4, "measured": 0.5, "within_band": false },
                    { "what": "reads_miss", "p10": 0.2, "predicted": 0.3, "p90": 0.4, "measured": null, "within_band": null },
                ],
            },
        })
    }

    #[test]
    fn the_keyspace_with_most_requests_is_looked_at_unless_one_is_named() {
        let seen = ObservedWorkload::of(&numbers(), None).unwrap();
        let workload = seen.workload();
        assert_eq!(seen.source, WorkloadSource::Keyspace("large".to_owned()));
        assert_eq!((seen.total.hits, workload.scan_records), (6000.0, 50.0));
        assert!(workload.checked().is_ok(), "{workload:?}");
        assert_eq!((workload.keys, workload.skew), (1000.0, 0.6));
        let puts = (workload.operations.inserts, workload.operations.updates);
        assert_eq!(puts, (1000.0, 1000.0));
        let [row] = &seen.beside[..] else {
            panic!("what was not measured is left out: {:?}", seen.beside);
        };
        assert_eq!(
            (&row.what[..], row.measured, row.is_within),
            ("reads_hit", 0.5, false)
        );
        assert_eq!(
            seen.drifts(&workload).len(),
            2,
            "of the third hour too little is known"
        );
        let small = ObservedWorkload::of(&numbers(), Some("small")).unwrap();
        assert_eq!(small.source, WorkloadSource::Keyspace("small".to_owned()));
        assert!(small.beside.is_empty(), "the forecast is of another");
        assert!(ObservedWorkload::of(&numbers(), Some("none")).is_none());
        assert!(ObservedWorkload::of(&json!({}), None).is_none());
    }

    #[test]
    fn the_hashed_keys_of_a_server_are_one() {
        let one = |puts: u64, keys: u64, value_bytes: f64, skew: f64| {
            json!({
                "total": { "puts": puts, "hits": 3 * puts },
                "hours": [{ "began_ms": 3_600_000, "puts": puts, "hits": 3 * puts }],
                "keys": keys, "key_bytes": 20.0, "value_bytes": value_bytes, "skew": skew, "new_keys": 0.25,
            })
        };
        let mut numbers = numbers();
        let workload = numbers["workload"].as_object_mut().unwrap();
        workload.insert("redis.keys.0".to_owned(), one(3000, 100, 50.0, 0.9));
        // A single hashed keyspace keeps its name, even if another keyspace has more requests.
        numbers["workload"]["large"]["total"]["hits"] = 20_000.into();
        let seen = |numbers: &Value, name: Option<&str>| ObservedWorkload::of(numbers, name).unwrap();
        assert_eq!(
            seen(&numbers, None).source,
            WorkloadSource::Keyspace("large".to_owned())
        );
        let alone = seen(&numbers, Some("redis.keys.*"));
        assert_eq!(alone.source, WorkloadSource::Keyspace("redis.keys.0".to_owned()));
        numbers["workload"]["redis.keys.7"] = one(3000, 300, 150.0, 0.5);
        let sum = seen(&numbers, None);
        assert_eq!(sum.source, WorkloadSource::Keyspace("redis.keys.*".to_owned()));
        assert_eq!(
            (sum.total.hits, sum.total.inserts, sum.keys),
            (18_000.0, 1500.0, 400.0)
        );
        assert_eq!((sum.key_bytes, sum.value_bytes, sum.skew), (20.0, 125.0, 0.7));
        let [(began_ms, hour)] = sum.hours[..] else {
            panic!("both are of one hour: {:?}", sum.hours);
        };
        assert_eq!((began_ms, hour.hits), (3_600_000, 18_000.0));
        assert_eq!(seen(&numbers, Some("redis.keys.*")).keys, 400.0);
        assert_eq!(seen(&numbers, Some("redis.keys.7")).keys, 300.0);
    }
}

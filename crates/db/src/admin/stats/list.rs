//! Two presentations of the statistics: a metrics list for exporters, and a table for people.

use super::Stats;
use super::register::{self, MetricRow, StatsMetricKind, StatsMetricUnit};
use super::tiers::TierStats;
use alluvium_base::Purpose;
use alluvium_storage::CopyStats;
use std::fmt;

/// One metric of [`Stats`], with its name, unit and meaning.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StatsMetric {
    /// Name of the metric: words separated by dots, such as `device.lookup.reads`. Names are stable
    /// across versions.
    pub name: String,
    /// Unit of `value`. Ratios have no unit.
    pub unit: StatsMetricUnit,
    /// Whether the metric is a counter, which never decreases, or a gauge.
    pub nature: StatsMetricKind,
    /// Meaning of the metric, in one sentence.
    pub help: &'static str,
    /// Current value of the metric. Counts are exact up to 2^53.
    pub value: f64,
}

/// A metrics list under construction.
#[derive(Default)]
struct MetricList(Vec<StatsMetric>);

impl MetricList {
    fn push(
        &mut self,
        name: String,
        unit: StatsMetricUnit,
        nature: StatsMetricKind,
        help: &'static str,
        value: f64,
    ) {
        self.0.push(StatsMetric {
            name,
            unit,
            nature,
            help,
            value,
        });
    }

    fn rows(&mut self, rows: &[MetricRow], stats: &Stats) {
        for row in rows {
            if let Some(value) = (row.read)(stats) {
                self.push(row.name.to_owned(), row.unit, row.nature, row.help, value);
            }
        }
    }
}

/// The counters of each device purpose, in the field order of `DeviceCounts`.
const DEVICE: [(&str, StatsMetricUnit, &str); 5] = [
    ("reads", StatsMetricUnit::Count, "Reads of the device."),
    ("writes", StatsMetricUnit::Count, "Writes to the device."),
    ("syncs", StatsMetricUnit::Count, "Syncs of the device."),
    (
        "read_bytes",
        StatsMetricUnit::Bytes,
        "Bytes read from the device.",
    ),
    (
        "written_bytes",
        StatsMetricUnit::Bytes,
        "Bytes written to the device.",
    ),
];

impl Stats {
    /// Returns all metrics in a fixed order. A ratio is omitted if its divisor is zero.
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// db.keyspace("rivers")?.put("Elbe", "1094 km")?;
    /// let stats = db.stats();
    /// let puts = stats.list().into_iter().find(|figure| figure.name == "operations.puts");
    /// assert!(puts.is_some_and(|figure| figure.value >= 1.0));
    /// println!("{stats}"); // a table
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn list(&self) -> Vec<StatsMetric> {
        let mut list = MetricList::default();
        list.rows(register::OPERATIONS, self);
        self.list_latencies(&mut list);
        list.rows(register::AMPLIFICATION, self);
        self.list_device(&mut list);
        list.rows(register::CACHES, self);
        list.rows(register::SPACE, self);
        self.list_tiers(&mut list);
        list.rows(register::LOG, self);
        list.rows(register::STRUCTURES, self);
        list.rows(register::WORK, self);
        list.0
    }

    fn list_device(&self, list: &mut MetricList) {
        for purpose in Purpose::ALL {
            let counts = self.device.of(purpose);
            let numbers = [
                counts.reads,
                counts.writes,
                counts.syncs,
                counts.read_bytes,
                counts.written_bytes,
            ];
            for ((name, unit, help), value) in DEVICE.into_iter().zip(numbers) {
                let name = format!("device.{}.{name}", purpose.name());
                list.push(name, unit, StatsMetricKind::Counter, help, value as f64);
            }
        }
    }

    fn list_latencies(&self, list: &mut MetricList) {
        let all = &self.latencies;
        for (of, latency) in [
            ("get", &all.get),
            ("multi_get", &all.multi_get),
            ("commit", &all.commit),
            ("durable_commit", &all.durable_commit),
        ] {
            let name = |what: &str| format!("latency.{of}.{what}");
            let timed = latency.timed as f64;
            list.push(
                name("timed"),
                StatsMetricUnit::Count,
                StatsMetricKind::Counter,
                "Timed operations.",
                timed,
            );
            for (what, help, value) in [
                ("mean", "Mean latency.", latency.mean_ns),
                ("p50", "Median latency.", latency.p50_ns as f64),
                ("p99", "99th percentile of the latency.", latency.p99_ns as f64),
                (
                    "p999",
                    "99.9th percentile of the latency.",
                    latency.p999_ns as f64,
                ),
                (
                    "p9999",
                    "99.99th percentile of the latency.",
                    latency.p9999_ns as f64,
                ),
                ("longest", "Longest latency.", latency.longest_ns as f64),
            ] {
                list.push(
                    name(what),
                    StatsMetricUnit::Nanoseconds,
                    StatsMetricKind::Gauge,
                    help,
                    value,
                );
            }
        }
    }

    /// Adds the metrics of each tier and of the copies between tiers, unless the store has a single
    /// tier.
    fn list_tiers(&self, list: &mut MetricList) {
        if self.tiers.len() < 2 {
            return;
        }
        for (number, tier) in self.tiers.iter().enumerate() {
            for (name, nature, help, read) in TIER {
                let name = format!("tiers.{number}.{name}");
                list.push(name, StatsMetricUnit::Bytes, *nature, help, read(tier) as f64);
            }
        }
        for (name, unit, nature, help, read) in COPIES {
            let name = format!("tiers.copies.{name}");
            list.push(name, *unit, *nature, help, read(&self.copies) as f64);
        }
    }
}

/// A tier metric in bytes: name, kind, meaning, and the function that reads it.
type TierMetric = (&'static str, StatsMetricKind, &'static str, fn(&TierStats) -> u64);

#[rustfmt::skip]
const TIER: &[TierMetric] = &[
    ("capacity_bytes", StatsMetricKind::Gauge, "Capacity of the tier in bytes.", |tier| tier.capacity_bytes),
    ("available_bytes", StatsMetricKind::Gauge, "Bytes available for new data.", |tier| tier.available_bytes),
    ("file_bytes", StatsMetricKind::Gauge, "Length of its data file.", |tier| tier.space.file_bytes),
    ("live_bytes", StatsMetricKind::Gauge, "Bytes of live data.", |tier| tier.space.live_bytes),
    ("dead_bytes", StatsMetricKind::Gauge, "Bytes of dead data that will be freed.", |tier| tier.space.dead_bytes),
    ("read_bytes", StatsMetricKind::Counter, "Bytes read from it.", |tier| tier.device.total().read_bytes),
    ("written_bytes", StatsMetricKind::Counter, "Bytes written to it.", |tier| tier.device.total().written_bytes),
];

/// A metric of the copies on the first tier: name, unit, kind, meaning, and the function that reads
/// it.
type CopyMetric = (
    &'static str,
    StatsMetricUnit,
    StatsMetricKind,
    &'static str,
    fn(&CopyStats) -> u64,
);

#[rustfmt::skip]
const COPIES: &[CopyMetric] = &[
    ("bytes", StatsMetricUnit::Bytes, StatsMetricKind::Gauge, "Bytes copied to the first tier.", |copies| copies.bytes),
    ("memory_bytes", StatsMetricUnit::Bytes, StatsMetricKind::Gauge, "Memory of the index of copies.", |copies| copies.memory_bytes),
    ("copies", StatsMetricUnit::Count, StatsMetricKind::Gauge, "Nodes copied to the first tier.", |copies| copies.copies),
    ("made", StatsMetricUnit::Count, StatsMetricKind::Counter, "Copies made.", |copies| copies.made),
    ("hits", StatsMetricUnit::Count, StatsMetricKind::Counter, "Reads served from copies.", |copies| copies.hits),
    ("refused", StatsMetricUnit::Count, StatsMetricKind::Counter, "Copies dropped because they failed verification.", |copies| copies.refused),
];

impl fmt::Display for StatsMetric {
    /// Formats the value for people, with a unit and a unit prefix.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps: (&[&str], f64) = match self.unit {
            StatsMetricUnit::Count => (&["", " k", " M", " G", " T"], 1000.0),
            StatsMetricUnit::Bytes => (&[" B", " KiB", " MiB", " GiB", " TiB"], 1024.0),
            StatsMetricUnit::Nanoseconds => (&[" ns", " µs", " ms", " s"], 1000.0),
            StatsMetricUnit::Ratio => return write!(f, "{:.3}", self.value),
        };
        let (words, step) = steps;
        let (mut value, mut word) = (self.value, 0);
        // Four digits are as easy to read as three digits and a prefix.
        while value >= 10.0 * step && word + 1 < words.len() {
            value /= step;
            word += 1;
        }
        if word == 0 && value.fract() == 0.0 {
            write!(f, "{value}{}", words[word])
        } else {
            write!(f, "{value:.1}{}", words[word])
        }
    }
}

impl fmt::Display for Stats {
    /// Formats the metrics as a table with one line per group of names, and one line for each of
    /// the levels and hashed structures. Metrics that are zero are omitted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut group = String::new();
        for figure in self.list().iter().filter(|figure| figure.value != 0.0) {
            let (of, name) = figure.name.rsplit_once('.').unwrap_or(("", &figure.name));
            if of == group {
                write!(f, ", ")?;
            } else {
                if !group.is_empty() {
                    writeln!(f)?;
                }
                write!(f, "{of:24} ")?;
                of.clone_into(&mut group);
            }
            write!(f, "{} {figure}", name.replace('_', " "))?;
        }
        writeln!(f)?;
        self.dictionaries
            .iter()
            .try_for_each(|dictionary| writeln!(f, "{dictionary}"))
    }
}

//! The same numbers as a list, for exporters, and as a table, for people.

use super::Stats;
use super::latencies::Latency;
use alluvium_base::Purpose;
use std::fmt;

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
    /// Nothing: one number divided by another.
    Ratio,
}

/// Whether a number only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Nature {
    /// It was counted since the store was opened.
    Counter,
    /// It is so now.
    Gauge,
}

/// One number of [`Stats`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Figure {
    /// Its name: words and dots, such as `device.lookup.reads`. Names stay what they are.
    pub name: String,
    /// What it counts.
    pub unit: Unit,
    /// Whether it only grows.
    pub nature: Nature,
    /// The number. Counts are exact up to 2^53.
    pub value: f64,
}

/// Figures that are put together.
#[derive(Default)]
struct List(Vec<Figure>);

impl List {
    fn push(&mut self, name: impl Into<String>, unit: Unit, nature: Nature, value: f64) {
        let name = name.into();
        self.0.push(Figure {
            name,
            unit,
            nature,
            value,
        });
    }

    fn counts(&mut self, of: &str, counts: &[(&str, u64)]) {
        for (name, value) in counts {
            self.push(join(of, name), Unit::Count, Nature::Counter, *value as f64);
        }
    }

    fn counted_bytes(&mut self, of: &str, counts: &[(&str, u64)]) {
        for (name, value) in counts {
            self.push(join(of, name), Unit::Bytes, Nature::Counter, *value as f64);
        }
    }

    fn are(&mut self, of: &str, unit: Unit, now: &[(&str, u64)]) {
        for (name, value) in now {
            self.push(join(of, name), unit, Nature::Gauge, *value as f64);
        }
    }

    fn ratio(&mut self, name: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.push(name, Unit::Ratio, Nature::Gauge, value);
        }
    }

    fn latency(&mut self, of: &str, latency: &Latency) {
        self.counts(of, &[("timed", latency.timed)]);
        let times = [
            ("p50", latency.p50_ns),
            ("p99", latency.p99_ns),
            ("p999", latency.p999_ns),
            ("p9999", latency.p9999_ns),
            ("longest", latency.longest_ns),
        ];
        self.push(
            join(of, "mean"),
            Unit::Nanoseconds,
            Nature::Gauge,
            latency.mean_ns,
        );
        self.are(of, Unit::Nanoseconds, &times);
    }
}

fn join(of: &str, name: &str) -> String {
    format!("{of}.{name}")
}

impl Stats {
    /// All numbers, each with its name and its unit, in a fixed order. A ratio is missing while
    /// there is nothing to divide by.
    ///
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
    pub fn list(&self) -> Vec<Figure> {
        let mut list = List::default();
        self.list_operations(&mut list);
        self.list_device(&mut list);
        self.list_caches(&mut list);
        self.list_space(&mut list);
        self.list_structures(&mut list);
        self.list_work(&mut list);
        list.0
    }

    fn list_operations(&self, list: &mut List) {
        let done = &self.operations;
        list.counts(
            "operations",
            &[
                ("commits", done.commits),
                ("puts", done.puts),
                ("deletes", done.deletes),
                ("merges", done.merges),
                ("range_deletes", done.range_deletes),
                ("gets", done.gets),
                ("multi_gets", done.multi_gets),
                ("multi_get_keys", done.multi_get_keys),
                ("scans", done.scans),
                ("scanned", done.scanned),
                ("found", done.found),
                ("found_reads", done.found_reads),
                ("absent", done.absent),
                ("absent_reads", done.absent_reads),
            ],
        );
        list.counted_bytes("operations", &[("written_bytes", self.written_bytes)]);
        let transactions = &self.transactions;
        list.counts(
            "transactions",
            &[
                ("begun", transactions.begun),
                ("committed", transactions.committed),
                ("rolled_back", transactions.rolled_back),
                ("conflicts", transactions.conflicts),
                ("deadlocks", transactions.deadlocks),
                ("timeouts", transactions.timeouts),
            ],
        );
        let open = [("open", transactions.open), ("oldest_ms", transactions.oldest_ms)];
        list.are("transactions", Unit::Count, &open);
        let bytes = [
            ("write_bytes", transactions.write_bytes),
            ("spilled_bytes", transactions.spilled_bytes),
        ];
        list.are("transactions", Unit::Bytes, &bytes);
        list.latency("latency.get", &self.latencies.get);
        list.latency("latency.multi_get", &self.latencies.multi_get);
        list.latency("latency.commit", &self.latencies.commit);
        list.latency("latency.durable_commit", &self.latencies.durable_commit);
        list.ratio("amplification.write", self.write_amplification());
        list.ratio("amplification.read", self.read_amplification());
        list.ratio("amplification.space", self.space_amplification());
    }

    fn list_device(&self, list: &mut List) {
        for purpose in Purpose::ALL {
            let counts = self.device.of(purpose);
            let of = join("device", purpose.name());
            list.counts(
                &of,
                &[
                    ("reads", counts.reads),
                    ("writes", counts.writes),
                    ("syncs", counts.syncs),
                ],
            );
            list.counted_bytes(
                &of,
                &[
                    ("read_bytes", counts.read_bytes),
                    ("written_bytes", counts.written_bytes),
                ],
            );
        }
    }

    fn list_caches(&self, list: &mut List) {
        list.ratio("cache.pages.hit_rate", self.page_hit_rate());
        let pages = &self.cache;
        list.counts(
            "cache.pages",
            &[
                ("hits", pages.hits),
                ("misses", pages.misses),
                ("joined", pages.joined),
                ("evictions", pages.evictions),
                ("failures", pages.failures),
            ],
        );
        let bytes = [
            ("resident_bytes", pages.resident_bytes),
            ("pinned_bytes", pages.pinned_bytes),
        ];
        list.are("cache.pages", Unit::Bytes, &bytes);
        list.ratio("cache.records.hit_rate", self.record_hit_rate());
        let records = &self.records;
        list.counts(
            "cache.records",
            &[
                ("hits", records.hits),
                ("misses", records.misses),
                ("ghost_hits", records.ghost_hits),
            ],
        );
        list.are("cache.records", Unit::Count, &[("records", records.records)]);
        let memory = &self.memory;
        list.are(
            "memory",
            Unit::Bytes,
            &[
                ("budget", memory.budget),
                ("total", memory.total()),
                ("memtables", memory.memtables),
                ("log", memory.log),
                ("pages", memory.pages),
                ("records", memory.records),
                ("tree", memory.tree),
                ("tables", memory.tables),
                ("transactions", memory.transactions),
            ],
        );
    }

    fn list_space(&self, list: &mut List) {
        let space = &self.space;
        list.are(
            "space",
            Unit::Bytes,
            &[
                ("file_bytes", space.file_bytes),
                ("live_extent_bytes", space.live_extent_bytes),
                ("live_bytes", space.live_bytes),
                ("dead_bytes", space.dead_bytes),
                ("free_bytes", space.free_bytes),
                ("hole_bytes", space.hole_bytes),
                ("reserve_bytes", space.reserve_bytes),
            ],
        );
        let further = self.tiers.iter().filter(|_| self.tiers.len() > 1);
        for (number, tier) in further.enumerate() {
            let device = tier.device.total();
            list.are(
                &format!("tiers.{number}"),
                Unit::Bytes,
                &[
                    ("capacity_bytes", tier.capacity_bytes),
                    ("available_bytes", tier.available_bytes),
                    ("file_bytes", tier.space.file_bytes),
                    ("live_bytes", tier.space.live_bytes),
                    ("dead_bytes", tier.space.dead_bytes),
                ],
            );
            list.counted_bytes(
                &format!("tiers.{number}"),
                &[
                    ("read_bytes", device.read_bytes),
                    ("written_bytes", device.written_bytes),
                ],
            );
        }
        if self.tiers.len() > 1 {
            let copies = &self.copies;
            list.are(
                "tiers.copies",
                Unit::Bytes,
                &[("bytes", copies.bytes), ("memory_bytes", copies.memory_bytes)],
            );
            list.are("tiers.copies", Unit::Count, &[("copies", copies.copies)]);
            let counts = [
                ("made", copies.made),
                ("hits", copies.hits),
                ("refused", copies.refused),
            ];
            list.counts("tiers.copies", &counts);
        }
        let log = &self.log;
        list.are(
            "log",
            Unit::Bytes,
            &[
                ("limit_bytes", log.limit_bytes),
                ("live_bytes", log.live_bytes),
                ("disk_bytes", log.disk_bytes),
            ],
        );
        list.counts(
            "log",
            &[("syncs", log.syncs), ("commit_rounds", log.commit_rounds)],
        );
    }

    fn list_structures(&self, list: &mut List) {
        if let Some(levels) = &self.levels {
            let has = [
                ("levels", levels.levels),
                ("runs", levels.runs),
                ("jumps", levels.jumps),
            ];
            list.are("levels", Unit::Count, &has);
            let counts = [
                ("leaves_taken_over", levels.taken_over),
                ("defragmented_runs", levels.defragmented_runs),
            ];
            list.counts("levels", &counts);
            let written = [("defragmented_bytes", levels.defragmented_bytes)];
            list.counted_bytes("levels", &written);
        }
        if let Some(hashed) = &self.hashed {
            list.are(
                "hashed",
                Unit::Bytes,
                &[
                    ("memory_bytes", hashed.memory_bytes),
                    ("device_bytes", hashed.device_bytes),
                    ("filter_bytes", hashed.filter_bytes),
                ],
            );
            list.are(
                "hashed",
                Unit::Count,
                &[
                    ("hash_stores", hashed.hash_stores),
                    ("hash_store_records", hashed.hash_store_records),
                    ("sorted_records", hashed.sorted_records),
                    ("runs", hashed.runs),
                    ("levels", hashed.levels),
                    ("tombstones", hashed.tombstones),
                ],
            );
            list.counts(
                "hashed",
                &[
                    ("merges", hashed.merges),
                    ("merged_records", hashed.merged_records),
                ],
            );
        }
        let paged = &self.paged;
        let bytes = [
            ("file_bytes", paged.file_bytes),
            ("journal_bytes", paged.journal_bytes),
        ];
        list.are("paged", Unit::Bytes, &bytes);
        let pages = [("pages", paged.pages), ("free_pages", paged.free_pages)];
        list.are("paged", Unit::Count, &pages);
        let done = [
            ("hits", paged.hits),
            ("reads", paged.reads),
            ("writes", paged.writes),
            ("images", paged.images),
        ];
        list.counts("paged", &done);
    }

    fn list_work(&self, list: &mut List) {
        let tree = &self.tree;
        list.counts(
            "work",
            &[
                ("waits", self.waits),
                ("cap_yields", self.cap_yields),
                ("checkpoints", self.checkpoints),
                ("incorporations", tree.incorporations),
                ("flushes", tree.shape.flushes),
                ("adoptions", tree.shape.adoptions),
                ("leaf_splits", tree.shape.leaf_splits),
                ("index_splits", tree.shape.index_splits),
                ("merges", tree.shape.merges),
                ("compacted_records_read", tree.compacted.0),
                ("compacted_records_written", tree.compacted.1),
                ("rewritten_records", tree.rewritten),
            ],
        );
        list.counted_bytes(
            "work",
            &[
                ("incorporated_bytes", tree.incorporated_bytes),
                ("compacted_bytes", tree.compacted_bytes),
            ],
        );
        for (name, us) in [
            ("work.delayed", self.delays.total_us()),
            ("work.delayed_for_runs", self.delays.runs_us),
            ("work.delayed_for_memtables", self.delays.memtables_us),
            ("work.capped", self.capped_us),
        ] {
            list.push(name, Unit::Nanoseconds, Nature::Counter, us as f64 * 1e3);
        }
        list.are(
            "debt",
            Unit::Count,
            &[
                ("sealed_memtables", self.sealed_memtables as u64),
                ("pending_jobs", self.debt.pending_jobs),
                ("running_jobs", self.debt.running_jobs),
                ("snapshots", self.snapshots as u64),
                ("held_commits", self.held_commits),
            ],
        );
        let shape = [
            ("height", u64::from(self.tree_height)),
            ("runs", self.tree_runs as u64),
        ];
        list.are("tree", Unit::Count, &shape);
        let bytes = [
            ("pending_bytes", self.debt.pending_bytes),
            ("running_bytes", self.debt.running_bytes),
        ];
        list.are("debt", Unit::Bytes, &bytes);
    }
}

impl fmt::Display for Figure {
    /// Its value with its unit, as people read it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps: (&[&str], f64) = match self.unit {
            Unit::Count => (&["", " k", " M", " G", " T"], 1000.0),
            Unit::Bytes => (&[" B", " KiB", " MiB", " GiB", " TiB"], 1024.0),
            Unit::Nanoseconds => (&[" ns", " µs", " ms", " s"], 1000.0),
            Unit::Ratio => return write!(f, "{:.3}", self.value),
        };
        let (words, step) = steps;
        let (mut value, mut word) = (self.value, 0);
        // Four digits of a count are as readable as three and a word.
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
    /// Returns a table: a line for each group, without what is zero.
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
        writeln!(f)
    }
}

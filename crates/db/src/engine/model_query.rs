//! Inputs of the cost models: each keyspace's workload, the contents of its files, and the
//! measurements to compare predictions with.

use super::{Engine, EngineCounter};
use crate::advise::forecast::measurement::{ForecastSample, processor_us};
use crate::advise::forecast::question::{KeyspaceContents, ModelQuery, different, model_of, workload};
use crate::advise::forecast::{Forecast, WriteMark, compared};
use crate::advise::workload::KeyspaceRequests;
use crate::error::Result;
use crate::options::Durability;
use crate::options::kind::{DictionaryPlace, StructureKind};
use crate::schema::catalog::KeyspaceDefinition;
use alluvium_base::Purpose;
use alluvium_dictionary::contract::DistinctKeys;
use alluvium_dictionary::range::KeyRange;
use alluvium_model::structures::{MachineProfile, TieredSettings, WorkloadProfile};
use alluvium_trees::tiered::RangeHoldings;
use std::sync::Arc;

/// Number of bytes that a log record needs in addition to its key and value.
const LOG_BYTES: u64 = 24;

/// Write amplification is measured only once user writes exceed this multiple of the memtable size.
/// Before that, most of the data has not reached the tree.
const MEMTABLES: u64 = 4;

impl Engine {
    /// Returns the store's predicted and measured costs. Returns `None` if no request has been made
    /// yet, or if the structure has no model.
    pub(crate) fn forecast(&self) -> Result<Option<Forecast>> {
        self.is_open()?;
        self.note_hour();
        let Some((keyspace, question)) = self.question()? else {
            return Ok(None);
        };
        // Take the measurements first, because the model's processor time must not be attributed to
        // the operations.
        let truth = self.truth(Some(&question));
        let Some(cost) = question.cost() else {
            return Ok(None);
        };
        let mut before = self.forecasts.opened();
        let half = self.forecasts.half(truth.user_bytes);
        (before.user_bytes, before.device_bytes) = (half.user_bytes, half.device_bytes);
        let now = compared(&cost, &before, &truth);
        let past = self.forecasts.past();
        Ok(Some(Forecast {
            keyspace,
            structure: cost.name,
            keys: question.workload.keys,
            skew: question.workload.skew,
            now,
            past,
        }))
    }

    /// Stores the model inputs and the counters at the end of each hour, and the number of written
    /// bytes each time it has doubled. A call costs only two comparisons if neither is due.
    pub(crate) fn note_hour(&self) {
        let now_ms = self.time.peek();
        if self.memory_budget() == 0 {
            return;
        }
        let written = self.counters.of(EngineCounter::WrittenBytes);
        self.forecasts.mark(written, || self.mark());
        if !self.forecasts.is_due(now_ms) {
            return;
        }
        // If this fails, the hour has no prediction.
        let question = self.question().ok().flatten().map(|(_, question)| question);
        let truth = self.truth(question.as_ref());
        self.forecasts.note(now_ms, truth, question);
    }

    /// Returns the workload observed in each keyspace, including its number of keys.
    pub(crate) fn workload(&self) -> Vec<KeyspaceRequests> {
        let mut all = self.workload_monitor.seen(&self.catalog);
        let new_keys = self.new_keys();
        for seen in &mut all {
            let Some(definition) = self.catalog.get(&seen.keyspace) else {
                continue;
            };
            // If a damaged node prevents counting the keys, report zero. Reads of the damaged node
            // report the damage.
            seen.keys = self.count(&definition).map_or(0, |(keys, _)| keys as u64);
            seen.new_keys = new_keys;
        }
        all
    }

    /// Returns a keyspace's approximate number of keys, and what its data files contain.
    fn count(&self, definition: &Arc<KeyspaceDefinition>) -> Result<(f64, RangeHoldings)> {
        let range = KeyRange::new(&definition.prefix, Some(&definition.end));
        let place = definition.dictionary();
        let all = self.approximate_len(place, &range)? as f64;
        let distinct = self.distinct_keys(place);
        let is_new = (distinct.keys / (self.visible().max(1) as f64)).min(1.0);
        if definition.structure != StructureKind::Tiered {
            let dictionary = self.dictionaries.of(place);
            let here = dictionary.approximate_len(&range)? as f64;
            let everything = dictionary.approximate_len(&KeyRange::everything())? as f64;
            let on_disk = distinct.keys * here / everything.max(1.0);
            let in_memory = (all - here).max(0.0);
            let keys = match here > 0.0 {
                true => on_disk + in_memory * is_new,
                false => in_memory,
            };
            return Ok((keys, RangeHoldings::default()));
        }
        let held = self.dictionaries.tree.holdings(&range)?;
        let (live, records) = (different(&held, distinct), held.records as f64);
        let in_memory = (all - (records - held.tombstones as f64)).max(0.0);
        let deleted = (held.tombstones as f64).min(live);
        // This assumes that new keys make up the same fraction of the writes in the memtables as of
        // all writes.
        let keys = match records > 0.0 {
            true => (live - deleted) + in_memory * is_new,
            false => in_memory,
        };
        Ok((keys, held))
    }

    /// Returns the number of distinct keys in a dictionary's data files, or the number of records
    /// if a damaged page prevents counting the keys. Reads of the damaged page report the damage.
    fn distinct_keys(&self, place: DictionaryPlace) -> DistinctKeys {
        let dictionary = self.dictionaries.of(place);
        let count = || dictionary.distinct_keys().ok();
        let counted = self.forecasts.distinct_keys(place, self.visible(), count);
        counted.unwrap_or_else(|| {
            let all = dictionary.approximate_len(&KeyRange::everything());
            let records = all.unwrap_or(0) as f64;
            DistinctKeys {
                keys: records,
                records,
            }
        })
    }

    /// Returns the current values of the write counters.
    fn mark(&self) -> WriteMark {
        let places = self.dictionaries.all().map(|(place, _)| place);
        WriteMark {
            user_bytes: self.counters.of(EngineCounter::WrittenBytes),
            device_bytes: self.device_stats().total().written_bytes,
            writes: self.visible(),
            keys: places.map(|place| self.distinct_keys(place).keys).sum(),
        }
    }

    /// Returns how often each byte of the log is written to the device, on average. This may be
    /// less than one, because the log may drop unsynced bytes before the operating system writes
    /// them.
    fn log_share(&self) -> f64 {
        let writes = [EngineCounter::Puts, EngineCounter::Deletes, EngineCounter::Merges]
            .map(|what| self.counters.of(what));
        let user = self.counters.of(EngineCounter::WrittenBytes) + LOG_BYTES * writes.iter().sum::<u64>();
        let written = self.device_stats().of(Purpose::Log).written_bytes as f64;
        match self.durability {
            Durability::Disk if user == 0 => 1.0,
            _ => written / user.max(1) as f64,
        }
    }

    /// Returns the fraction of recent writes that created a new key.
    fn new_keys(&self) -> f64 {
        let half = self.forecasts.half(self.counters.of(EngineCounter::WrittenBytes));
        let now = self.mark();
        half.new_keys(now.writes, now.keys)
    }

    /// Returns the keyspace with the most requests, and the cost model's inputs for it.
    pub(crate) fn question(&self) -> Result<Option<(String, ModelQuery)>> {
        let all = self.workload_monitor.seen(&self.catalog);
        let Some(seen) = all.iter().max_by_key(|seen| seen.total().total()) else {
            return Ok(None);
        };
        let Some(definition) = self.catalog.get(&seen.keyspace) else {
            return Ok(None);
        };
        let (keys, held) = self.count(&definition)?;
        let memory = self.memory_use();
        let caches = (memory.records + memory.pages).max(1);
        let setting = TieredSettings {
            fanout: self.plan.scale.shape.fanout as u32,
            records_share: memory.records as f64 / caches as f64,
        };
        let Some(structure) = model_of(&definition, setting) else {
            return Ok(None);
        };
        let mut seen = seen.clone();
        seen.keys = keys as u64;
        seen.new_keys = self.new_keys();
        let rewrites = (self.visible() as f64 - keys).max(0.0) / keys.max(1.0);
        let workload = workload(&seen);
        // Deleted keys occupy space, and are rewritten along with the others, for as long as their
        // tombstones exist. Include them in the number of keys.
        let all = &workload.operations;
        let gone = (all.deletes / all.writes().max(1.0)).min(0.5);
        let workload = WorkloadProfile {
            keys: workload.keys / (1.0 - gone),
            rewrites,
            ..workload
        };
        // An extent may contain data of several keyspaces, so this keyspace's space can only be
        // estimated.
        let everything = self.dictionaries.tree.holdings(&KeyRange::everything())?;
        let of = |held: &RangeHoldings| (held.leaf_bytes + held.guide_bytes) as f64;
        let extents = self.store.usage().0.total().live_extent_bytes as f64;
        let bytes = extents * of(&held) / of(&everything).max(1.0);
        let question = ModelQuery {
            structure,
            machine: MachineProfile {
                memory_bytes: memory.budget as f64,
                cache_bytes: Some(caches as f64),
                device: self.plan.device,
                records_share: setting.records_share,
                log_share: self.log_share(),
                endurance_bytes: None,
            },
            held: KeyspaceContents {
                keys: different(&held, self.distinct_keys(DictionaryPlace::TREE)),
                record_bytes: workload.key_bytes + workload.value_bytes,
                bytes,
                guide_bytes: held.guide_bytes as f64,
            },
            workload,
        };
        Ok(Some((seen.keyspace, question)))
    }

    /// Returns the counters' current values, and what the data files contain for the keyspace of
    /// `question`.
    fn truth(&self, question: Option<&ModelQuery>) -> ForecastSample {
        let of = |tally| self.counters.of(tally);
        let writes = of(EngineCounter::Puts)
            + of(EngineCounter::Deletes)
            + of(EngineCounter::Merges)
            + of(EngineCounter::RangeDeletes);
        let reads = of(EngineCounter::Gets) + of(EngineCounter::MultiGetKeys) + of(EngineCounter::Scans);
        ForecastSample {
            user_bytes: of(EngineCounter::WrittenBytes),
            device_bytes: self.device_stats().total().written_bytes,
            found: of(EngineCounter::Found),
            found_reads: of(EngineCounter::FoundReads),
            absent: of(EngineCounter::Absent),
            absent_reads: of(EngineCounter::AbsentReads),
            operations: writes + reads,
            processor_us: processor_us(),
            enough_bytes: MEMTABLES * self.plan.scale.memtable,
            held: question.map(|question| question.held).unwrap_or_default(),
        }
    }
}

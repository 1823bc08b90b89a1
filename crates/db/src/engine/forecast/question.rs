//! The observed workload of a keyspace, as input to a model.

use super::super::{Engine, Tally};
use super::history::Mark;
use crate::advise::workload::KeyspaceSeen;
use crate::error::Result;
use crate::options::kind::Structure as Kind;
use crate::options::structure;
use crate::options::{Durability, HashedForm};
use crate::schema::catalog::Definition;
use alluvium_base::Purpose;
use alluvium_dictionary::contract::DistinctKeys;
use alluvium_dictionary::range::KeyRange;
use alluvium_hashes::hashed::IndexKind;
use alluvium_model::structures::{Cost, HashIndex, Machine, Operations, Setting, Structure, Workload};
use alluvium_trees::levels::Policy;
use alluvium_trees::tiered::Holdings;
use std::sync::Arc;

/// Log overhead of a record in addition to its key and value, in bytes.
const LOG_BYTES: u64 = 24;

/// Model inputs, and the contents of the keyspace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Question {
    pub(crate) structure: Structure,
    pub(crate) workload: Workload,
    machine: Machine,
    pub(super) held: Held,
}

/// The contents of a keyspace, as far as known without reading its leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Held {
    /// Keys in the data files.
    pub(super) keys: f64,
    /// Mean bytes of a key and its value.
    pub(super) record_bytes: f64,
    /// Bytes of extents in use.
    pub(super) bytes: f64,
    /// Bytes of maplets and index nodes.
    pub(super) guide_bytes: f64,
}

impl Question {
    /// Returns the model's answer, if there is a model.
    pub(crate) fn cost(&self) -> Option<Cost> {
        self.structure.cost(&self.workload, &self.machine).ok()
    }

    /// Returns the same question for another structure.
    pub(crate) fn with(&self, structure: Structure) -> Question {
        Question { structure, ..*self }
    }
}

/// Returns the number of distinct keys in a range of the tree with these contents, if a record
/// stands for the same number of keys everywhere. The oldest runs of a range contain no key twice.
fn different(held: &Holdings, everything: DistinctKeys) -> f64 {
    let each = everything.keys / everything.records.max(1.0);
    let (oldest, all) = (held.oldest_records as f64, held.records as f64);
    (all * each).clamp(oldest.min(all), all)
}

/// Returns the model of a keyspace's structure, if there is one.
fn model_of(definition: &Definition, setting: Setting) -> Option<Structure> {
    match &definition.options.structure {
        structure::Structure::Tiered => Some(Structure::Tiered(setting)),
        structure::Structure::Levels(options) => match &options.policy {
            Policy::Samt(fanouts) => fanouts.first().map(|fanout| Structure::Samt { k: fanout.runs }),
            Policy::Cola { ratio } => Some(Structure::Cola { ratio: *ratio }),
            Policy::Leveled { ratio } => Some(Structure::Levelled { ratio: *ratio }),
            Policy::Never => None,
        },
        structure::Structure::Hashed(options) => Some(match options.form {
            HashedForm::Silt => Structure::Hashed {
                index: match options.index {
                    IndexKind::PaCHash => HashIndex::PaCHash,
                    IndexKind::Trie => HashIndex::Trie,
                },
            },
            HashedForm::Boa { lambda, refined } => Structure::Boa {
                lambda: lambda.into(),
                refined,
            },
            HashedForm::Bot { lambda } => Structure::Bot {
                lambda: lambda.into(),
            },
        }),
        structure::Structure::Paged(_) | structure::Structure::Volatile(_) => None,
    }
}

impl Engine {
    /// Returns the observed workload of each keyspace, with its number of keys.
    pub(crate) fn workload(&self) -> Vec<KeyspaceSeen> {
        let mut all = self.watches.seen(&self.catalog);
        let new_keys = self.new_keys();
        for seen in &mut all {
            let Some(definition) = self.catalog.get(&seen.keyspace) else {
                continue;
            };
            // If keys cannot be counted because of a damaged node, the number is zero; readers
            // report the damage.
            seen.keys = self.count(&definition).map_or(0, |(keys, _)| keys as u64);
            seen.new_keys = new_keys;
        }
        all
    }

    /// Returns the approximate number of keys of a keyspace, and the contents of its files.
    fn count(&self, definition: &Arc<Definition>) -> Result<(f64, Holdings)> {
        let range = KeyRange::new(&definition.prefix, Some(&definition.end));
        let all = self.approximate_len(definition.structure, &range)? as f64;
        let distinct = self.distinct_keys(definition.structure);
        let is_new = (distinct.keys / (self.visible().max(1) as f64)).min(1.0);
        if definition.structure != Kind::Tiered {
            let dictionary = self.dictionaries.of(definition.structure);
            let here = dictionary.approximate_len(&range)? as f64;
            let everything = dictionary.approximate_len(&KeyRange::everything())? as f64;
            let on_disk = distinct.keys * here / everything.max(1.0);
            let in_memory = (all - here).max(0.0);
            let keys = match here > 0.0 {
                true => on_disk + in_memory * is_new,
                false => in_memory,
            };
            return Ok((keys, Holdings::default()));
        }
        let held = self.dictionaries.tree.holdings(&range)?;
        let (live, records) = (different(&held, distinct), held.records as f64);
        let in_memory = (all - (records - held.tombstones as f64)).max(0.0);
        let deleted = (held.tombstones as f64).min(live);
        // Assumes that memtables contain the same fraction of new keys as all writes.
        let keys = match records > 0.0 {
            true => (live - deleted) + in_memory * is_new,
            false => in_memory,
        };
        Ok((keys, held))
    }

    /// Returns the number of distinct keys in a structure's data files. If they cannot be counted
    /// because of a damaged page, every record counts; readers report the damage.
    fn distinct_keys(&self, structure: Kind) -> DistinctKeys {
        let dictionary = self.dictionaries.of(structure);
        let count = || dictionary.distinct_keys().ok();
        let counted = self.forecasts.distinct_keys(structure, self.visible(), count);
        counted.unwrap_or_else(|| {
            let all = dictionary.approximate_len(&KeyRange::everything());
            let records = all.unwrap_or(0) as f64;
            DistinctKeys {
                keys: records,
                records,
            }
        })
    }

    /// Returns a mark of the current counters.
    pub(super) fn mark(&self) -> Mark {
        let structures = self.dictionaries.all().map(|(structure, _)| structure);
        Mark {
            user_bytes: self.tallies.of(Tally::WrittenBytes),
            device_bytes: self.device_stats().total().written_bytes,
            writes: self.visible(),
            keys: structures
                .map(|structure| self.distinct_keys(structure).keys)
                .sum(),
        }
    }

    /// Returns the number of times that each byte of the log is written to the device. It may be
    /// less than one, because unsynced bytes may be dropped before the system writes them.
    fn log_share(&self) -> f64 {
        let writes = [Tally::Puts, Tally::Deletes, Tally::Merges].map(|what| self.tallies.of(what));
        let user = self.tallies.of(Tally::WrittenBytes) + LOG_BYTES * writes.iter().sum::<u64>();
        let written = self.device_stats().of(Purpose::Log).written_bytes as f64;
        match self.durability {
            Durability::Disk if user == 0 => 1.0,
            _ => written / user.max(1) as f64,
        }
    }

    /// Returns the fraction of recent writes that were to new keys.
    fn new_keys(&self) -> f64 {
        let half = self.forecasts.half(self.tallies.of(Tally::WrittenBytes));
        let now = self.mark();
        half.new_keys(now.writes, now.keys)
    }

    /// Returns the keyspace with the most requests, and the model inputs for it.
    pub(crate) fn question(&self) -> Result<Option<(String, Question)>> {
        let all = self.watches.seen(&self.catalog);
        let Some(seen) = all.iter().max_by_key(|seen| seen.total().total()) else {
            return Ok(None);
        };
        let Some(definition) = self.catalog.get(&seen.keyspace) else {
            return Ok(None);
        };
        let (keys, held) = self.count(&definition)?;
        let memory = self.memory_use();
        let caches = (memory.records + memory.pages).max(1);
        let setting = Setting {
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
        // Deleted keys are rewritten with the others, and count for as long as their tombstones
        // exist.
        let all = &workload.operations;
        let gone = (all.deletes / all.writes().max(1.0)).min(0.5);
        let workload = Workload {
            keys: workload.keys / (1.0 - gone),
            rewrites,
            ..workload
        };
        // Extents do not belong to keyspaces: estimate the share of this keyspace.
        let everything = self.dictionaries.tree.holdings(&KeyRange::everything())?;
        let of = |held: &Holdings| (held.leaf_bytes + held.guide_bytes) as f64;
        let extents = self.store.usage().0.total().live_extent_bytes as f64;
        let bytes = extents * of(&held) / of(&everything).max(1.0);
        let question = Question {
            structure,
            machine: Machine {
                memory_bytes: memory.budget as f64,
                cache_bytes: Some(caches as f64),
                device: self.plan.device,
                records_share: setting.records_share,
                log_share: self.log_share(),
                endurance_bytes: None,
            },
            held: Held {
                keys: different(&held, self.distinct_keys(Kind::Tiered)),
                record_bytes: workload.key_bytes + workload.value_bytes,
                bytes,
                guide_bytes: held.guide_bytes as f64,
            },
            workload,
        };
        Ok(Some((seen.keyspace, question)))
    }
}

/// Converts observations to the workload of a model.
fn workload(seen: &KeyspaceSeen) -> Workload {
    let total = seen.total();
    let puts = total.puts as f64;
    Workload {
        keys: (seen.keys as f64).max(2.0),
        key_bytes: seen.key_bytes.max(1.0),
        value_bytes: seen.value_bytes,
        skew: seen.skew(),
        operations: Operations {
            inserts: puts * seen.new_keys,
            updates: puts * (1.0 - seen.new_keys),
            deletes: total.deletes as f64,
            hits: total.hits as f64,
            misses: total.misses as f64,
            scans: total.scans as f64,
        },
        scan_records: total.scanned as f64 / total.scans.max(1) as f64,
        ..Workload::default()
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    fn held(oldest: u64, records: u64) -> Holdings {
        Holdings {
            records,
            oldest_records: oldest,
            ..Holdings::default()
        }
    }

    #[test]
    fn keys_are_told_from_versions() {
        let counted = |keys, records| DistinctKeys { keys, records };
        let of = |oldest, records| different(&held(oldest, records), counted(3000.0, 4000.0));
        assert_eq!(of(1000, 4000), 3000.0);
        assert_eq!(of(500, 2000), 1500.0, "a half of it");
        assert_eq!(of(1900, 2000), 1900.0, "its oldest runs have more");
        assert_eq!(different(&held(0, 0), counted(0.0, 0.0)), 0.0);
        assert_eq!(
            different(&held(5, 9), counted(12.0, 9.0)),
            9.0,
            "a record is one key at most"
        );
    }
}

//! What was seen of a keyspace, as a question to a model.

use super::super::{Engine, Tally};
use super::history::Mark;
use crate::catalog::Definition;
use crate::levels_options;
use crate::structure::Structure as Kind;
use crate::workload::KeyspaceSeen;
use crate::{Durability, HashedForm, Result};
use alluvium_base::Purpose;
use alluvium_dictionary::contract::DistinctKeys;
use alluvium_dictionary::range::KeyRange;
use alluvium_hashes::hashed::IndexKind;
use alluvium_model::structures::{Cost, HashIndex, Machine, Operations, Setting, Structure, Workload};
use alluvium_trees::levels::Policy;
use alluvium_trees::tiered::Holdings;
use std::sync::Arc;

/// What a record takes in the log beside its key and value.
const LOG_BYTES: u64 = 24;

/// A question, and what the keyspace holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Question {
    pub(crate) structure: Structure,
    pub(crate) workload: Workload,
    machine: Machine,
    pub(super) held: Held,
}

/// What a keyspace holds, as far as is known without reading its leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Held {
    /// Keys in the data files.
    pub(super) keys: f64,
    /// Bytes of a key and its value.
    pub(super) record_bytes: f64,
    /// Bytes of extents in use.
    pub(super) bytes: f64,
    /// Bytes of maplets and index nodes.
    pub(super) guide_bytes: f64,
}

impl Question {
    /// Returns the model's answer, if it has one.
    pub(crate) fn cost(&self) -> Option<Cost> {
        self.structure.cost(&self.workload, &self.machine).ok()
    }

    /// Returns the same question about another structure.
    pub(crate) fn with(&self, structure: Structure) -> Question {
        Question { structure, ..*self }
    }
}

/// Returns how many different keys a range of the tree has, of which this is held: each record
/// stands for as many keys as one of everything. The oldest runs of a range have no key twice.
fn different(held: &Holdings, everything: DistinctKeys) -> f64 {
    let each = everything.keys / everything.records.max(1.0);
    let (oldest, all) = (held.oldest_records as f64, held.records as f64);
    (all * each).clamp(oldest.min(all), all)
}

/// Returns the model of the structure that a keyspace is in, if there is one.
fn model_of(definition: &Definition, setting: Setting) -> Option<Structure> {
    match &definition.options.structure {
        levels_options::Structure::Tiered => Some(Structure::Tiered(setting)),
        levels_options::Structure::Levels(options) => match &options.policy {
            Policy::Samt(fanouts) => fanouts.first().map(|fanout| Structure::Samt { k: fanout.runs }),
            Policy::Cola { ratio } => Some(Structure::Cola { ratio: *ratio }),
            Policy::Leveled { ratio } => Some(Structure::Levelled { ratio: *ratio }),
            Policy::Never => None,
        },
        levels_options::Structure::Hashed(options) => Some(match options.form {
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
        levels_options::Structure::Paged(_) | levels_options::Structure::Volatile(_) => None,
    }
}

impl Engine {
    /// Returns what was seen of each keyspace, with how many keys each has.
    pub(crate) fn workload(&self) -> Vec<KeyspaceSeen> {
        let mut all = self.watches.seen(&self.catalog);
        let new_keys = self.new_keys();
        for seen in &mut all {
            let Some(definition) = self.catalog.get(&seen.keyspace) else {
                continue;
            };
            // What cannot be counted, because a node is damaged, is none here: readers are told.
            seen.keys = self.count(&definition).map_or(0, |(keys, _)| keys as u64);
            seen.new_keys = new_keys;
        }
        all
    }

    /// Returns how many keys a keyspace has, about, and what its files hold of it.
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
        // What memtables have is new keys and old ones in the same proportion as all writes.
        let keys = match records > 0.0 {
            true => (live - deleted) + in_memory * is_new,
            false => in_memory,
        };
        Ok((keys, held))
    }

    /// Returns how many different keys the data files of a structure have. Where that cannot be
    /// counted, because a page is damaged, every record counts: readers are told.
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

    /// Returns what had been written by now.
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

    /// Returns how often each byte of the log was written to the device: what is not synced may be
    /// dropped before the system writes it.
    fn log_share(&self) -> f64 {
        let writes = [Tally::Puts, Tally::Deletes, Tally::Merges].map(|what| self.tallies.of(what));
        let user = self.tallies.of(Tally::WrittenBytes) + LOG_BYTES * writes.iter().sum::<u64>();
        let written = self.device_stats().of(Purpose::Log).written_bytes as f64;
        match self.durability {
            Durability::Disk if user == 0 => 1.0,
            _ => written / user.max(1) as f64,
        }
    }

    /// Returns which share of the puts of late was of new keys.
    fn new_keys(&self) -> f64 {
        let half = self.forecasts.half(self.tallies.of(Tally::WrittenBytes));
        let now = self.mark();
        half.new_keys(now.writes, now.keys)
    }

    /// Returns the keyspace with the most requests, and the question for it.
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
        // Deleted keys are written again with the others, and count as long as their deletes do.
        let all = &workload.operations;
        let gone = (all.deletes / all.writes().max(1.0)).min(0.5);
        let workload = Workload {
            keys: workload.keys / (1.0 - gone),
            rewrites,
            ..workload
        };
        // Extents belong to no keyspace: each has its share of those in use.
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

/// Returns what was seen as a model is asked.
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

//! Converts the observed workload of a keyspace to model inputs.

use crate::advise::workload::KeyspaceRequests;
use crate::options::HashedForm;
use crate::options::structure;
use crate::schema::catalog::KeyspaceDefinition;
use alluvium_dictionary::contract::DistinctKeys;
use alluvium_hashes::hashed::IndexKind;
use alluvium_model::structures::{
    HashIndex, MachineProfile, OperationRates, StructureCost, StructureModel, TieredSettings, WorkloadProfile,
};
use alluvium_trees::levels::MergePolicy;
use alluvium_trees::tiered::RangeHoldings;

/// The model inputs for one keyspace, and a summary of its contents.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ModelQuery {
    pub(crate) structure: StructureModel,
    pub(crate) workload: WorkloadProfile,
    pub(crate) machine: MachineProfile,
    pub(crate) held: KeyspaceContents,
}

/// What is known about a keyspace's contents without reading leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct KeyspaceContents {
    /// Number of keys in the data files.
    pub(crate) keys: f64,
    /// Mean length of a record's key and value combined, in bytes.
    pub(crate) record_bytes: f64,
    /// Bytes of the extents that the keyspace uses.
    pub(crate) bytes: f64,
    /// Bytes of the keyspace's maplets and index nodes.
    pub(crate) guide_bytes: f64,
}

impl ModelQuery {
    /// Returns the cost that the model predicts, or `None` if the model does not support the
    /// inputs.
    pub(crate) fn cost(&self) -> Option<StructureCost> {
        self.structure.cost(&self.workload, &self.machine).ok()
    }

    /// Returns the same inputs for another structure's model.
    pub(crate) fn with(&self, structure: StructureModel) -> ModelQuery {
        ModelQuery { structure, ..*self }
    }
}

/// Estimates the number of distinct keys in a range of the tree. `held` describes the contents of
/// the range, and `everything` those of the whole tree. The estimate assumes the same ratio of keys
/// to records everywhere. It is at least the number of records in the oldest runs, which contain no
/// key twice.
pub(crate) fn different(held: &RangeHoldings, everything: DistinctKeys) -> f64 {
    let each = everything.keys / everything.records.max(1.0);
    let (oldest, all) = (held.oldest_records as f64, held.records as f64);
    (all * each).clamp(oldest.min(all), all)
}

/// Returns the model of a keyspace's structure, or `None` if the structure has no model.
pub(crate) fn model_of(definition: &KeyspaceDefinition, setting: TieredSettings) -> Option<StructureModel> {
    match &definition.options.structure {
        structure::Structure::Tiered => Some(StructureModel::Tiered(setting)),
        structure::Structure::Levels(options) => match &options.policy {
            MergePolicy::Samt(fanouts) => fanouts
                .first()
                .map(|fanout| StructureModel::Samt { k: fanout.runs }),
            MergePolicy::Cola { ratio } => Some(StructureModel::Cola { ratio: *ratio }),
            MergePolicy::Leveled { ratio } => Some(StructureModel::Levelled { ratio: *ratio }),
            MergePolicy::Never => None,
        },
        structure::Structure::Hashed(options) => Some(match options.form {
            HashedForm::Silt => StructureModel::Hashed {
                index: match options.index {
                    IndexKind::PaCHash => HashIndex::PaCHash,
                    IndexKind::Trie => HashIndex::Trie,
                },
            },
            HashedForm::Boa { lambda, refined } => StructureModel::Boa {
                lambda: lambda.into(),
                refined,
            },
            HashedForm::Bot { lambda } => StructureModel::Bot {
                lambda: lambda.into(),
            },
        }),
        structure::Structure::Paged(_) | structure::Structure::Volatile(_) => None,
    }
}

/// Converts the requests sampled in a keyspace to a model workload.
pub(crate) fn workload(seen: &KeyspaceRequests) -> WorkloadProfile {
    let total = seen.total();
    let puts = total.puts as f64;
    WorkloadProfile {
        keys: (seen.keys as f64).max(2.0),
        key_bytes: seen.key_bytes.max(1.0),
        value_bytes: seen.value_bytes,
        skew: seen.skew(),
        operations: OperationRates {
            inserts: puts * seen.new_keys,
            updates: puts * (1.0 - seen.new_keys),
            deletes: total.deletes as f64,
            hits: total.hits as f64,
            misses: total.misses as f64,
            scans: total.scans as f64,
        },
        scan_records: total.scanned as f64 / total.scans.max(1) as f64,
        ..WorkloadProfile::default()
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    fn held(oldest: u64, records: u64) -> RangeHoldings {
        RangeHoldings {
            records,
            oldest_records: oldest,
            ..RangeHoldings::default()
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

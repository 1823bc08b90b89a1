//! Keyspaces for tests, which are identified by the first bytes of a key and have different rules.

use alluvium_dictionary::merge::AppendOperator;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::{KeyspaceRules, KeyspaceSchema, OneKeyspace};
use alluvium_storage::NodeCodec;
use std::sync::Arc;

/// Keyspaces that are identified by a key prefix of this many bytes. Every key is at least this
/// long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prefixed(pub(crate) usize);

impl KeyspaceSchema for Prefixed {
    fn prefix_len(&self, _key: &[u8]) -> usize {
        self.0
    }

    fn rules(&self, key: &[u8]) -> Arc<KeyspaceRules> {
        let (codec, value_threshold) = match key[self.0 - 1] % 5 {
            0 => (NodeCodec::None, None),
            1 => (NodeCodec::Lz4, Some(16)),
            2 => (NodeCodec::Zstd, Some(4096)),
            3 => (NodeCodec::Zstd, Some(0)),
            _ => (NodeCodec::None, Some(60)),
        };
        Arc::new(KeyspaceRules {
            value_threshold,
            gathers_values: key[self.0 - 1].is_multiple_of(2),
            ..appending(codec)
        })
    }

    fn gathers_values_in(&self, _range: &KeyRange) -> bool {
        true
    }
}

/// Returns rules with a merge operator that appends.
pub(crate) fn appending(codec: NodeCodec) -> KeyspaceRules {
    KeyspaceRules {
        operator: Some(Arc::new(AppendOperator)),
        codec,
        ..KeyspaceRules::default()
    }
}

/// Puts all keys in one keyspace if `prefix` is 0. Otherwise, the first `prefix` bytes of a key
/// identify its keyspace.
pub(crate) fn schema(prefix: usize, codec: NodeCodec) -> Arc<dyn KeyspaceSchema> {
    schema_with(prefix, codec, None)
}

/// Like [`schema`], but if all keys are in one keyspace, values longer than the threshold are
/// stored separately and gathered.
pub(crate) fn schema_with(
    prefix: usize,
    codec: NodeCodec,
    value_threshold: Option<usize>,
) -> Arc<dyn KeyspaceSchema> {
    if prefix == 0 {
        Arc::new(OneKeyspace::new(KeyspaceRules {
            value_threshold,
            gathers_values: value_threshold.is_some(),
            ..appending(codec)
        }))
    } else {
        Arc::new(Prefixed(prefix))
    }
}

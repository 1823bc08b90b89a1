//! Keyspaces for tests, identified by the first bytes of a key, with different rules.

use alluvium_dictionary::merge::Append;
use alluvium_dictionary::rules::{KeyspaceRules, OneKeyspace, Schema};
use alluvium_storage::Codec;
use std::sync::Arc;

/// Keyspaces identified by key prefixes of this many bytes. Every key is at least this long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prefixed(pub(crate) usize);

impl Schema for Prefixed {
    fn prefix_len(&self, _key: &[u8]) -> usize {
        self.0
    }

    fn rules(&self, key: &[u8]) -> Arc<KeyspaceRules> {
        let (codec, value_threshold) = match key[self.0 - 1] % 5 {
            0 => (Codec::None, None),
            1 => (Codec::Lz4, Some(16)),
            2 => (Codec::Zstd, Some(4096)),
            3 => (Codec::Zstd, Some(0)),
            _ => (Codec::None, Some(60)),
        };
        Arc::new(KeyspaceRules {
            value_threshold,
            ..appending(codec)
        })
    }
}

/// Rules with a merge operator that appends.
pub(crate) fn appending(codec: Codec) -> KeyspaceRules {
    KeyspaceRules {
        operator: Some(Arc::new(Append)),
        codec,
        ..KeyspaceRules::default()
    }
}

/// All keys in one keyspace, or in one for each prefix of `prefix` bytes.
pub(crate) fn schema(prefix: usize, codec: Codec) -> Arc<dyn Schema> {
    schema_with(prefix, codec, None)
}

/// As [`schema`]. If all keys are in one keyspace, values longer than the threshold are separated.
pub(crate) fn schema_with(prefix: usize, codec: Codec, value_threshold: Option<usize>) -> Arc<dyn Schema> {
    if prefix == 0 {
        Arc::new(OneKeyspace::new(KeyspaceRules {
            value_threshold,
            ..appending(codec)
        }))
    } else {
        Arc::new(Prefixed(prefix))
    }
}

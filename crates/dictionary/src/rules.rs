//! Keyspace settings: the key prefix that identifies a keyspace, and how its records are stored.

use crate::merge::{CompactionFilter, MergeOperator};
use crate::range::KeyRange;
use alluvium_storage::NodeCodec;
use std::fmt;
use std::sync::Arc;

/// Maps keys to keyspaces. A keyspace is the set of keys that begin with its prefix.
///
/// ```
/// use alluvium_storage::NodeCodec;
/// use alluvium_dictionary::rules::{KeyspaceRules, KeyspaceSchema};
/// use std::sync::Arc;
/// /// Keyspaces have numbers of one byte.
/// #[derive(Debug)]
/// struct Numbered(Vec<Arc<KeyspaceRules>>);
/// impl KeyspaceSchema for Numbered {
///     fn prefix_len(&self, _key: &[u8]) -> usize {
///         1
///     }
///     fn rules(&self, key: &[u8]) -> Arc<KeyspaceRules> {
///         Arc::clone(&self.0[usize::from(key[0])])
///     }
/// }
/// let packed = KeyspaceRules { codec: NodeCodec::Lz4, ..KeyspaceRules::default() };
/// let schema = Numbered(vec![Arc::default(), Arc::new(packed)]);
/// assert_eq!(schema.rules(b"\x01key").codec, NodeCodec::Lz4);
/// ```
pub trait KeyspaceSchema: Send + Sync + fmt::Debug {
    /// Returns the length of a key's keyspace prefix in bytes, which is at most the length of the
    /// key. No keyspace prefix may be a prefix of another.
    fn prefix_len(&self, key: &[u8]) -> usize;

    /// Returns the current rules of the keyspace that contains `key`. A caller that iterates over
    /// keys should call this only once per keyspace.
    fn rules(&self, key: &[u8]) -> Arc<KeyspaceRules>;

    /// Returns whether any keyspace with keys in `range` gathers values.
    fn gathers_values_in(&self, _range: &KeyRange) -> bool {
        false
    }
}

/// The storage settings of a keyspace. They may change at any time, and a change applies to data
/// that is written from then on.
#[derive(Clone, Debug, Default)]
pub struct KeyspaceRules {
    /// The merge operator. Without one, a merge counts as a put of its operand.
    pub operator: Option<Arc<dyn MergeOperator>>,
    /// The codec that compresses leaves and separate values.
    pub codec: NodeCodec,
    /// Maximum length, in bytes, of a value that is stored in its key's leaf. Longer values are
    /// stored separately. The threshold is at most four pages, and `None` means a quarter of a
    /// page.
    pub value_threshold: Option<usize>,
    /// Whether compactions of the tiered tree write separate values again where they are scattered,
    /// so that values of neighbouring keys are stored together.
    pub gathers_values: bool,
    /// The user's filter, which compactions apply to values.
    pub filter: Option<Arc<dyn CompactionFilter>>,
}

/// A schema with one keyspace that contains all keys.
#[derive(Clone, Debug, Default)]
pub struct OneKeyspace {
    rules: Arc<KeyspaceRules>,
}

impl OneKeyspace {
    /// Creates the schema with the given rules.
    #[must_use]
    pub fn new(rules: KeyspaceRules) -> OneKeyspace {
        OneKeyspace {
            rules: Arc::new(rules),
        }
    }
}

impl KeyspaceSchema for OneKeyspace {
    fn prefix_len(&self, _key: &[u8]) -> usize {
        0
    }

    fn rules(&self, _key: &[u8]) -> Arc<KeyspaceRules> {
        Arc::clone(&self.rules)
    }

    fn gathers_values_in(&self, _range: &KeyRange) -> bool {
        self.rules.gathers_values
    }
}

/// Caches the rules of the current keyspace during an iteration over keys, so that they are looked
/// up only once per keyspace.
#[derive(Debug)]
pub struct KeyspaceCursor {
    schema: Arc<dyn KeyspaceSchema>,
    prefix: Vec<u8>,
    rules: Option<Arc<KeyspaceRules>>,
}

impl KeyspaceCursor {
    /// Creates the cache in its state before the first key.
    pub fn new(schema: &Arc<dyn KeyspaceSchema>) -> KeyspaceCursor {
        KeyspaceCursor {
            schema: Arc::clone(schema),
            prefix: Vec::new(),
            rules: None,
        }
    }

    /// Advances to `key`. Returns the rules if the key's keyspace differs from that of the previous
    /// key, and `None` otherwise.
    #[inline]
    pub fn enter(&mut self, key: &[u8]) -> Option<&KeyspaceRules> {
        if self.rules.is_some() && key.starts_with(&self.prefix) {
            return None;
        }
        self.enter_another(key)
    }

    #[cold]
    fn enter_another(&mut self, key: &[u8]) -> Option<&KeyspaceRules> {
        let len = self.schema.prefix_len(key);
        assert!(
            len <= key.len(),
            "a prefix of {len} bytes of a key of {}",
            key.len()
        );
        self.prefix.clear();
        self.prefix.extend_from_slice(&key[..len]);
        self.rules = Some(self.schema.rules(key));
        self.rules.as_deref()
    }

    /// Returns the rules of the current keyspace.
    #[inline]
    pub fn rules(&self) -> &KeyspaceRules {
        self.rules.as_deref().expect("a key was entered")
    }

    /// Returns `key` without the prefix of the current keyspace, to which it must belong.
    #[inline]
    pub fn user_key<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        debug_assert!(key.starts_with(&self.prefix), "a key of the keyspace entered");
        &key[self.prefix.len()..]
    }
}

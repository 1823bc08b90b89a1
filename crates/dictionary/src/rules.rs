//! What the tree must know of keyspaces: where one ends in a key, and how its records are kept.

use crate::merge::{CompactionFilter, Operator};
use alluvium_storage::Codec;
use std::fmt;
use std::sync::Arc;

/// What the tree must know about keys and cannot know itself. A keyspace is all keys that begin
/// with its prefix.
///
/// ```
/// use alluvium_storage::Codec;
/// use alluvium_dictionary::rules::{KeyspaceRules, Schema};
/// use std::sync::Arc;
/// /// Keyspaces have numbers of one byte.
/// #[derive(Debug)]
/// struct Numbered(Vec<Arc<KeyspaceRules>>);
/// impl Schema for Numbered {
///     fn prefix_len(&self, _key: &[u8]) -> usize {
///         1
///     }
///     fn rules(&self, key: &[u8]) -> Arc<KeyspaceRules> {
///         Arc::clone(&self.0[usize::from(key[0])])
///     }
/// }
/// let packed = KeyspaceRules { codec: Codec::Lz4, ..KeyspaceRules::default() };
/// let schema = Numbered(vec![Arc::default(), Arc::new(packed)]);
/// assert_eq!(schema.rules(b"\x01key").codec, Codec::Lz4);
/// ```
pub trait Schema: Send + Sync + fmt::Debug {
    /// Returns how many bytes at the beginning of a key name its keyspace; not more than it has. No
    /// keyspace's prefix is the beginning of another's.
    fn prefix_len(&self, key: &[u8]) -> usize;

    /// Returns the rules of the keyspace that a key is in, as they are now. A caller that walks
    /// over keys asks once for each keyspace.
    fn rules(&self, key: &[u8]) -> Arc<KeyspaceRules>;
}

/// How the records of a keyspace are kept. All of it may change at any time: what is written then
/// follows it.
#[derive(Clone, Debug, Default)]
pub struct KeyspaceRules {
    /// The merge operator; without one, a merge message stands for its operand.
    pub operator: Option<Arc<dyn Operator>>,
    /// How leaves and separate values are encoded.
    pub codec: Codec,
    /// Values longer than this, in bytes, are kept apart from their keys; a quarter of a page if
    /// absent, four pages at most.
    pub value_threshold: Option<usize>,
    /// What a user says of values that compactions meet.
    pub filter: Option<Arc<dyn CompactionFilter>>,
}

/// A schema in which all keys are in one keyspace.
#[derive(Clone, Debug, Default)]
pub struct OneKeyspace {
    rules: Arc<KeyspaceRules>,
}

impl OneKeyspace {
    /// All keys, by these rules.
    #[must_use]
    pub fn new(rules: KeyspaceRules) -> OneKeyspace {
        OneKeyspace {
            rules: Arc::new(rules),
        }
    }
}

impl Schema for OneKeyspace {
    fn prefix_len(&self, _key: &[u8]) -> usize {
        0
    }

    fn rules(&self, _key: &[u8]) -> Arc<KeyspaceRules> {
        Arc::clone(&self.rules)
    }
}

/// The keyspace that a walk over keys is in.
#[derive(Debug)]
pub struct Keyspace {
    schema: Arc<dyn Schema>,
    prefix: Vec<u8>,
    rules: Option<Arc<KeyspaceRules>>,
}

impl Keyspace {
    /// Before the first key.
    pub fn new(schema: &Arc<dyn Schema>) -> Keyspace {
        Keyspace {
            schema: Arc::clone(schema),
            prefix: Vec::new(),
            rules: None,
        }
    }

    /// Goes on to a key; the rules when it is in another keyspace than the one before.
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

    /// Returns the rules of the last key's keyspace.
    #[inline]
    pub fn rules(&self) -> &KeyspaceRules {
        self.rules.as_deref().expect("a key was entered")
    }

    /// Returns the last key, or one of the same keyspace, without its prefix.
    #[inline]
    pub fn user_key<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        debug_assert!(key.starts_with(&self.prefix), "a key of the keyspace entered");
        &key[self.prefix.len()..]
    }
}

//! A cache of keyspace rules, for work in hash order, in which each key may belong to a different
//! keyspace than the one before.

use alluvium_dictionary::rules::{KeyspaceRules, KeyspaceSchema};
use std::collections::HashMap;
use std::sync::Arc;

/// Keyspace rules that were looked up in the current work slice.
#[derive(Debug)]
pub(super) struct RulesCache {
    schema: Arc<dyn KeyspaceSchema>,
    known: HashMap<Box<[u8]>, Arc<KeyspaceRules>>,
    /// Prefix and rules of the keyspace that was looked up most recently. Most stores have only
    /// one.
    last: Option<(Box<[u8]>, Arc<KeyspaceRules>)>,
}

/// Maximum number of keyspaces in the cache. A full cache is cleared.
const MOST_KNOWN: usize = 1024;

impl RulesCache {
    pub(super) fn new(schema: &Arc<dyn KeyspaceSchema>) -> RulesCache {
        RulesCache {
            schema: Arc::clone(schema),
            known: HashMap::new(),
            last: None,
        }
    }

    /// Clears the cache. Must be called for each work slice, because rules may change at any time.
    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.last = None;
    }

    /// Returns the rules of a key's keyspace.
    pub(super) fn of(&mut self, key: &[u8]) -> Arc<KeyspaceRules> {
        let prefix = &key[..self.schema.prefix_len(key)];
        if let Some((last, rules)) = &self.last
            && **last == *prefix
        {
            return Arc::clone(rules);
        }
        let rules = match self.known.get(prefix) {
            Some(rules) => Arc::clone(rules),
            None => {
                if self.known.len() >= MOST_KNOWN {
                    self.known.clear();
                }
                let rules = self.schema.rules(key);
                self.known.insert(prefix.into(), Arc::clone(&rules));
                rules
            }
        };
        self.last = Some((prefix.into(), Arc::clone(&rules)));
        rules
    }

    /// Returns a key without its keyspace prefix.
    pub(super) fn user_key<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        &key[self.schema.prefix_len(key)..]
    }
}

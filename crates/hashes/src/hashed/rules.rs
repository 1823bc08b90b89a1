//! Cache of keyspace rules, for keys that are not in keyspace order.

use alluvium_dictionary::rules::{KeyspaceRules, KeyspaceSchema};
use std::collections::HashMap;
use std::sync::Arc;

/// Keyspace rules used in the current slice of work.
#[derive(Debug)]
pub(super) struct RulesCache {
    schema: Arc<dyn KeyspaceSchema>,
    known: HashMap<Box<[u8]>, Arc<KeyspaceRules>>,
    /// The rules used last; in most stores the only ones.
    last: Option<(Box<[u8]>, Arc<KeyspaceRules>)>,
}

/// Maximum number of cached keyspaces.
const MOST_KNOWN: usize = 1024;

impl RulesCache {
    pub(super) fn new(schema: &Arc<dyn KeyspaceSchema>) -> RulesCache {
        RulesCache {
            schema: Arc::clone(schema),
            known: HashMap::new(),
            last: None,
        }
    }

    /// Clears the cache, because rules may change at any time.
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

    /// Returns a key without its keyspace's prefix.
    pub(super) fn user_key<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        &key[self.schema.prefix_len(key)..]
    }
}

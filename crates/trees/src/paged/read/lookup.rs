//! Point lookups (thesis, section 5.8 and listing 5.7, with corrections).

use crate::paged::buffer::PageBuffer;
use crate::paged::core::{TreeCore, TreeCounters};
use crate::paged::node::{MessageAction, PageContentKind};
use crate::paged::read::LatchCoupling;
use alluvium_storage::Result;

impl<B: PageBuffer> TreeCore<B> {
    /// Copies a key's value into `value`. Returns whether the key has a value.
    ///
    /// The descent ends at the first insert or delete message for the key, because everything in
    /// lower nodes is older. Updates found on the way are combined with newer ones.
    pub(in crate::paged) fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.readable()?;
        self.descend(|coupling| self.try_get(key, value, coupling))
    }

    fn try_get(&self, key: &[u8], value: &mut Vec<u8>, coupling: LatchCoupling) -> Result<Option<bool>> {
        let mut updates: Option<Vec<u8>> = None;
        let mut stop = self.begin(coupling)?;
        let mut visited = 1;
        let exists = loop {
            if let Some(leaf) = stop.leaf() {
                value.clear();
                let found = self.shape.pairs.find(leaf, key);
                if let Ok(at) = found {
                    value.extend_from_slice(self.shape.pairs.value(leaf, at));
                }
                break found.is_ok();
            }
            let Some(look) = self.look(&stop, key, value) else {
                return Ok(None);
            };
            if look.kind == Some(PageContentKind::Buffered) {
                self.watch.iter().for_each(|watch| watch.looked_up(stop.number()));
            }
            match look.action {
                Some(MessageAction::Insert) => break true,
                Some(MessageAction::Delete) => break false,
                Some(MessageAction::Update) => updates = Some(self.combined(value, updates)),
                None => {}
            }
            let Some(next) = self.go(stop, look, coupling)? else {
                return Ok(None);
            };
            stop = next;
            visited += 1;
        };
        if !exists {
            value.clear();
        } else if let Some(updates) = updates {
            let base = std::mem::take(value);
            self.operator.combine(&base, &updates, value);
        }
        assert!(value.is_empty() || exists, "an absent key has no value");
        TreeCounters::add(&self.counters.visited, visited);
        Ok(Some(exists))
    }

    /// Combines an update with the newer updates found so far, if there are any.
    fn combined(&self, older: &[u8], younger: Option<Vec<u8>>) -> Vec<u8> {
        let Some(younger) = younger else {
            return older.to_vec();
        };
        let mut both = Vec::with_capacity(self.shape.value_limit);
        self.operator.combine(older, &younger, &mut both);
        both
    }
}

//! Point lookups (thesis, section 5.8 and listing 5.7, corrected).

use crate::paged::buffer::PageBuffer;
use crate::paged::core::{Core, Counters};
use crate::paged::error::Result;
use crate::paged::node::{Action, Kind, child, kind};
use crate::paged::read::Coupling;

impl<B: PageBuffer> Core<B> {
    /// Puts the value of a key into `value`, and returns whether the key has one.
    ///
    /// The walk ends at the first insert or delete of the key: what lies below is older.
    /// Updates on the way are combined, each with the younger ones.
    pub(in crate::paged) fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.readable()?;
        self.descend(|coupling| self.try_get(key, value, coupling))
    }

    fn try_get(&self, key: &[u8], value: &mut Vec<u8>, coupling: Coupling) -> Result<Option<bool>> {
        let mut updates: Option<Vec<u8>> = None;
        let mut node = self.buffer.pin_shared(self.root)?;
        let mut visited = 1;
        let base = loop {
            match kind(&node) {
                Some(Kind::Leaf) => {
                    let pairs = &self.shape.pairs;
                    break pairs.find(&node, key).ok().map(|at| pairs.value(&node, at));
                }
                Some(Kind::Buffered) => {
                    self.watch.iter().for_each(|watch| watch.looked_up(node.number()));
                    let buffer = self.shape.buffer_of(&node);
                    if let Ok(at) = buffer.find(&node, key) {
                        let operand = buffer.value(&node, at);
                        match buffer.action(&node, at) {
                            Action::Insert => break Some(operand),
                            Action::Delete => break None,
                            Action::Update => updates = Some(self.combined(operand, updates)),
                        }
                    }
                }
                Some(Kind::Wide | Kind::Free | Kind::Apart) | None => {}
            }
            let page = child(&self.shape, &node, key);
            let Some(next) = self.step(node, page, coupling)? else {
                return Ok(None);
            };
            node = next;
            visited += 1;
        };
        value.clear();
        let exists = base.is_some();
        match (base, updates) {
            (Some(base), Some(updates)) => self.operator.combine(base, &updates, value),
            (Some(base), None) => value.extend_from_slice(base),
            (None, _) => {}
        }
        assert!(value.is_empty() || exists, "an absent key has no value");
        Counters::add(&self.counters.visited, visited);
        Ok(Some(exists))
    }

    /// Combines an update with the younger ones.
    fn combined(&self, older: &[u8], younger: Option<Vec<u8>>) -> Vec<u8> {
        let Some(younger) = younger else {
            return older.to_vec();
        };
        let mut both = Vec::with_capacity(self.shape.value_limit);
        self.operator.combine(older, &younger, &mut both);
        both
    }
}

//! Flushes: buffered changes are moved to their leaf, and an overfull leaf is split.

use super::change_buffer::BufferedChange;
use super::policy::{FlushTarget, choose};
use super::{AbsorptionMode, InsertionTree, LeafRecord, format};
use alluvium_base::Purpose;
use alluvium_storage::Result;
use std::cmp::Ordering;

impl InsertionTree {
    /// Flushes the leaf that the policy chooses.
    pub(super) fn flush(&mut self) -> Result<()> {
        let (policy, gate) = (self.options.policy, self.next_flush_key.as_deref());
        let chosen = choose(
            policy,
            &self.waiting,
            self.fullest.as_ref(),
            gate,
            &mut self.random,
        );
        let key: Box<[u8]> = match chosen {
            FlushTarget::Of(key) => key.into(),
            FlushTarget::Leaf(leaf) => self.fence_of[leaf as usize].clone(),
        };
        let end = self.end_of(&key);
        self.flush_leaf_of(&key)?;
        self.next_flush_key = end;
        Ok(())
    }

    /// Writes the buffered changes for the leaf that covers a key to that leaf.
    pub(super) fn flush_leaf_of(&mut self, key: &[u8]) -> Result<()> {
        let leaf = self.leaf_of(key);
        // A failure here leaves the tree unchanged.
        self.leaves.load(leaf, Purpose::Compact, &mut self.counts)?;
        let taken = self.apply_buffered_changes(leaf);
        assert!(taken > 0, "a leaf is flushed for which something waits");
        self.counts.flushes += 1;
        self.counts.flushed += taken;
        self.leaves.trim(&mut self.counts)
    }

    /// Writes a change to its leaf.
    pub(super) fn apply(&mut self, leaf: u32, change: BufferedChange) -> Result<()> {
        self.leaves.load(leaf, Purpose::Compact, &mut self.counts)?;
        let mut records = self.leaves.take(leaf);
        merge(&mut records, vec![change]);
        self.set(leaf, records);
        self.leaves.trim(&mut self.counts)
    }

    /// Moves the buffered changes for a cached leaf to it, if absorption is on (IB3).
    pub(super) fn absorb(&mut self, leaf: u32) {
        if self.options.absorption == AbsorptionMode::On {
            self.counts.absorbed += self.apply_buffered_changes(leaf);
        }
    }

    /// Moves the buffered changes for a cached leaf to it. Returns the number of changes moved.
    fn apply_buffered_changes(&mut self, leaf: u32) -> u64 {
        let fence = self.fence_of[leaf as usize].clone();
        let end = self.end_of(&fence);
        let changes = self.waiting.range(&fence, end.as_deref());
        let taken = self.waiting.take(&fence, end.as_deref());
        assert_eq!(taken, changes.len(), "all that waited is taken");
        if let Some(fullest) = &mut self.fullest {
            assert_eq!(fullest.count(leaf), taken, "the policy counts what waits");
            fullest.clear(leaf);
        }
        if taken > 0 {
            let mut records = self.leaves.take(leaf);
            merge(&mut records, changes);
            self.set(leaf, records);
        }
        taken as u64
    }

    /// Stores records in a cached leaf. If they do not fit, splits them evenly over as few new
    /// leaves as possible.
    fn set(&mut self, leaf: u32, mut records: Vec<LeafRecord>) {
        let parts = self.parts(&records);
        let bounds: Vec<usize> = (0..=parts).map(|part| part * records.len() / parts).collect();
        let rights: Vec<Vec<LeafRecord>> = (1..parts)
            .rev()
            .map(|part| records.split_off(bounds[part]))
            .collect();
        for right in rights.into_iter().rev() {
            let fence = right[0].0.clone();
            let number = self.leaves.add(right);
            let before = self.fences.insert(fence.clone(), number);
            assert!(before.is_none(), "IB1: each fence once");
            assert_eq!(self.fence_of.len(), number as usize, "IB1: each leaf has a fence");
            self.fence_of.push(fence);
        }
        self.leaves.put(leaf, records);
    }

    /// Returns the number of leaves that the records need.
    fn parts(&self, records: &[LeafRecord]) -> usize {
        let page = self.options.page_bytes as usize;
        let mut parts = records.len().div_ceil(self.options.leaf_records).max(1);
        loop {
            let fits = (0..parts).all(|part| {
                let range = part * records.len() / parts..(part + 1) * records.len() / parts;
                let bytes = records[range]
                    .iter()
                    .map(|(key, value)| format::record_bytes(key, value));
                format::HEAD + bytes.sum::<usize>() <= page
            });
            if fits {
                return parts;
            }
            parts += 1;
            assert!(parts <= records.len(), "each record fits a page");
        }
    }
}

/// Applies changes to records; both are in key order (IB2).
pub(super) fn merge(records: &mut Vec<LeafRecord>, changes: Vec<BufferedChange>) {
    if changes.is_empty() {
        return;
    }
    if let [_] = &changes[..] {
        // With a single change, only the records after it move.
        for (key, value) in changes {
            match (records.binary_search_by(|(found, _)| found.cmp(&key)), value) {
                (Ok(at), Some(value)) => records[at].1 = value,
                (Ok(at), None) => drop(records.remove(at)),
                (Err(at), Some(value)) => records.insert(at, (key, value)),
                (Err(_), None) => {}
            }
        }
        return;
    }
    let mut merged = Vec::with_capacity(records.len() + changes.len());
    let mut old = std::mem::take(records).into_iter().peekable();
    for (key, value) in changes {
        while let Some(record) = old.next_if(|(found, _)| found.cmp(&key) == Ordering::Less) {
            merged.push(record);
        }
        let _replaced = old.next_if(|(found, _)| *found == key);
        merged.extend(value.map(|value| (key, value)));
    }
    merged.extend(old);
    debug_assert!(
        merged.is_sorted_by(|one, next| one.0 < next.0),
        "in order, each once"
    );
    *records = merged;
}

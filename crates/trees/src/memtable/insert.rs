//! Inserting: descend, split what is full on the way, lock one leaf, link one record.

use super::arena::{Arena, Place};
use super::node::{FANOUT, Node, NodeId, Restart, Version};
use super::{Full, MAX_KEY, Memtable};
use crate::sync::{Ordering, spin_loop};
use alluvium_base::Message;

/// The most levels a memtable can have: 64-way nodes, at least half full, reach 2³² keys in seven.
const MAX_HEIGHT: usize = 32;

impl Memtable {
    /// Adds a message about `key`. Any number of threads may insert at once; messages of one key may arrive in any
    /// order, and the same sequence number for one key only once.
    ///
    /// # Errors
    /// [`Full`] when there is no room; nothing was changed then.
    ///
    /// # Panics
    /// When the key is longer than [`MAX_KEY`].
    pub fn insert(&self, key: &[u8], message: Message<'_>) -> Result<(), Full> {
        assert!(key.len() <= MAX_KEY, "a key of {} bytes", key.len());
        // A split at every level is the most that an insertion can add beside its record.
        let splits = (self.nodes.get(self.root()).level() as usize + 2) * size_of::<Node>();
        if self.bytes() + Arena::cost(key, message.operand) + splits > self.limit {
            return Err(Full);
        }
        let record = self.arena.add(key, &message).ok_or(Full)?;
        while self.try_insert(record).is_err() {
            spin_loop();
        }
        Ok(())
    }

    fn try_insert(&self, record: Place) -> Result<(), Restart> {
        let key = self.arena.record(record).key();
        let mut id = self.root();
        let mut node = self.nodes.get(id);
        let mut version = node.begin();
        if self.root() != id {
            return Err(Restart);
        }
        let mut parent: Option<(&Node, Version)> = None;
        for _ in 0..MAX_HEIGHT {
            if node.count() == FANOUT {
                self.split(parent, id, node, version, key)?;
                return Err(Restart);
            }
            if node.is_leaf() {
                node.lock(version)?;
                self.add_to_leaf(node, key, record);
                node.unlock();
                return Ok(());
            }
            let child = node.child(node.child_for(&self.arena, key));
            node.validate(version)?;
            let next = self.nodes.get(child);
            let next_version = next.begin();
            node.validate(version)?;
            parent = Some((node, version));
            (id, node, version) = (child, next, next_version);
        }
        unreachable!("a memtable of more than {MAX_HEIGHT} levels")
    }

    /// Links a record into a locked leaf that is not full (M2).
    fn add_to_leaf(&self, leaf: &Node, key: &[u8], record: Place) {
        let (index, found) = leaf.lower_bound(&self.arena, key);
        if !found {
            leaf.insert(&self.arena, index, record, 0);
            return;
        }
        let added = self.arena.record(record);
        let newest = leaf.slot(index);
        if self.arena.record(newest).sequence() < added.sequence() {
            added.set_older(newest);
            leaf.replace(index, record);
            return;
        }
        let mut newer = self.arena.record(newest);
        loop {
            let older = newer.older();
            if older == 0 || self.arena.record(older).sequence() < added.sequence() {
                added.set_older(older);
                newer.set_older(record);
                return;
            }
            newer = self.arena.record(older);
        }
    }

    /// Splits a full node under its parent, or under a new root.
    fn split(
        &self,
        parent: Option<(&Node, Version)>,
        id: NodeId,
        node: &Node,
        version: Version,
        key: &[u8],
    ) -> Result<(), Restart> {
        if let Some((parent, version)) = parent {
            parent.lock(version)?;
        }
        let unlock_parent = || {
            if let Some((parent, _)) = parent {
                parent.unlock_unchanged();
            }
        };
        if node.lock(version).is_err() {
            unlock_parent();
            return Err(Restart);
        }
        if parent.is_none() && self.root() != id {
            node.unlock_unchanged();
            return Err(Restart);
        }
        let right_id = self
            .nodes
            .add(Node::new(node.level()))
            .expect("a memtable is full before its nodes run out");
        let right = self.nodes.get(right_id);
        // Keys that arrive in order leave full nodes behind; others halve them.
        let ascending = node.high() == 0 && node.lower_bound(&self.arena, key).0 == FANOUT;
        let middle = if ascending { FANOUT - 1 } else { FANOUT / 2 };
        let separator = node.split(&self.arena, middle, right);
        if let Some((parent, _)) = parent {
            let (index, _) = parent.lower_bound(&self.arena, self.arena.key(separator));
            parent.insert(&self.arena, index, separator, right_id);
            node.unlock();
            parent.unlock();
        } else {
            let root = Node::new(node.level() + 1);
            root.insert(&self.arena, 0, 0, id);
            root.insert(&self.arena, 1, separator, right_id);
            let root = self
                .nodes
                .add(root)
                .expect("a memtable is full before its nodes run out");
            self.root.store(root, Ordering::Release);
            node.unlock();
        }
        Ok(())
    }
}

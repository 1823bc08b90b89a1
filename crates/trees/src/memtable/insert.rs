//! Inserting: descend, split what is full on the way, lock one leaf, link one record.

use super::arena::Place;
use super::lanes::Writer;
use super::node::{FANOUT, NodeRef, Restart, Version};
use super::{Full, MAX_KEY, Memtable};
use crate::sync::{Backoff, Ordering};
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
        let mut writer = self.lanes.writer(&self.arena);
        // A split at every level, and a new root, are what an insertion can need beside its record.
        let nodes = self.node(self.root()).level() as usize + 2;
        let record = writer.add_record(key, &message, nodes)?;
        let mut backoff = Backoff::default();
        loop {
            match self.try_insert(&mut writer, key, record) {
                Ok(()) => break,
                Err(Stop::Restart) => backoff.wait(),
                Err(Stop::Full) => return Err(Full),
            }
        }
        writer.count();
        Ok(())
    }

    fn try_insert(&self, writer: &mut Writer<'_>, key: &[u8], record: Place) -> Result<(), Stop> {
        let mut node = self.node(self.root());
        let mut version = node.begin();
        if self.root() != node.id() {
            return Err(Stop::Restart);
        }
        let mut parent: Option<(NodeRef<'_>, Version)> = None;
        for _ in 0..MAX_HEIGHT {
            if node.count() == FANOUT {
                self.split(writer, parent, node, version, key)?;
                return Err(Stop::Restart);
            }
            if node.is_leaf() {
                node.lock(version)?;
                self.add_to_leaf(node, key, record);
                node.unlock();
                return Ok(());
            }
            let child = node.child(node.child_for(key));
            node.prefetch_child(child);
            node.validate(version)?;
            let next = self.node(child);
            let next_version = next.begin();
            node.validate(version)?;
            parent = Some((node, version));
            (node, version) = (next, next_version);
        }
        unreachable!("a memtable of more than {MAX_HEIGHT} levels")
    }

    /// Links a record into a locked leaf that is not full (M2).
    fn add_to_leaf(&self, leaf: NodeRef<'_>, key: &[u8], record: Place) {
        let (index, found) = leaf.lower_bound(key);
        if !found {
            leaf.insert(index, record, 0);
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
        writer: &mut Writer<'_>,
        parent: Option<(NodeRef<'_>, Version)>,
        node: NodeRef<'_>,
        version: Version,
        key: &[u8],
    ) -> Result<(), Stop> {
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
            return Err(Stop::Restart);
        }
        if parent.is_none() && self.root() != node.id() {
            node.unlock_unchanged();
            return Err(Stop::Restart);
        }
        let added = writer.add_node(node.level()).and_then(|right| {
            let root = parent.is_none().then(|| writer.add_node(node.level() + 1));
            Ok((right, root.transpose()?))
        });
        let (right, root) = match added {
            Ok(added) => added,
            Err(Full) => {
                node.unlock_unchanged();
                unlock_parent();
                return Err(Stop::Full);
            }
        };
        // Keys that arrive in order leave full nodes behind; others halve them.
        let ascending = node.high() == 0 && node.lower_bound(key).0 == FANOUT;
        let middle = if ascending { FANOUT - 1 } else { FANOUT / 2 };
        let separator = node.split(middle, self.node(right));
        if let Some((parent, _)) = parent {
            let (index, _) = parent.lower_bound(self.arena.key(separator));
            parent.insert(index, separator, right);
            node.unlock();
            parent.unlock();
        } else if let Some(root) = root {
            let above = self.node(root);
            above.insert(0, 0, node.id());
            above.insert(1, separator, right);
            self.root.store(root, Ordering::Release);
            node.unlock();
        }
        Ok(())
    }
}

/// Why an insertion did not go through.
enum Stop {
    /// It met another writer and starts over.
    Restart,
    /// There is no room for a node.
    Full,
}

impl From<Restart> for Stop {
    fn from(Restart: Restart) -> Stop {
        Stop::Restart
    }
}

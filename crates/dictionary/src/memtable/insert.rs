//! Memtable insertion. A writer descends from the root, splits the full nodes on its path, locks
//! one leaf, and links one record.

use super::arena::ArenaOffset;
use super::lanes::LaneWriter;
use super::node::{FANOUT, NodeBankKind, NodeConflict, NodeView};
use super::{MAX_KEY, Memtable, MemtableFull};
use crate::key::LookupKey;
use crate::sync::{Backoff, Ordering};
use alluvium_base::Message;

/// Maximum number of levels in a memtable. A tree of 64-way nodes that are at least half full holds
/// 2³² keys in seven levels.
const MAX_HEIGHT: usize = 32;

impl Memtable {
    /// Inserts a message for `key`. Any number of threads may insert concurrently. The messages of
    /// a key may be inserted in any order, but no two may have the same sequence number.
    ///
    /// # Errors
    /// [`MemtableFull`] if there is no space for the message, in which case the memtable is
    /// unchanged.
    ///
    /// # Panics
    /// If the key is longer than [`MAX_KEY`].
    pub fn insert(&self, key: &[u8], message: Message<'_>) -> Result<(), MemtableFull> {
        assert!(key.len() <= MAX_KEY, "a key of {} bytes", key.len());
        let bits = self.filter.of(LookupKey::new(key).hash());
        bits.prefetch();
        let mut writer = self.lanes.writer(&self.arena);
        writer.stock_for_insertion()?;
        let record = writer.add_record(key, &message)?;
        bits.add();
        let mut backoff = Backoff::default();
        loop {
            match self.try_insert(&mut writer, key, record) {
                Ok(()) => break,
                Err(InsertInterruption::Restart) => backoff.wait(),
                Err(InsertInterruption::Split) => {}
                Err(InsertInterruption::Full) => return Err(MemtableFull),
            }
        }
        writer.count();
        Ok(())
    }

    fn try_insert(
        &self,
        writer: &mut LaneWriter<'_>,
        key: &[u8],
        record: ArenaOffset,
    ) -> Result<(), InsertInterruption> {
        let mut node = self.root_view()?;
        let mut parent: Option<NodeView<'_>> = None;
        for _ in 0..MAX_HEIGHT {
            if node.count() == FANOUT {
                self.split(writer, parent, node, key)?;
                return Err(InsertInterruption::Split);
            }
            if node.is_leaf() {
                writer.stock_for_insertion()?;
                node.lock()?;
                self.add_to_leaf(writer, &node, key, record);
                return Ok(());
            }
            let child = node.child(node.child_for(key));
            node.validate()?;
            let next = self.view(child);
            next.prefetch_if_leaf_of(&node);
            node.validate()?;
            parent = Some(node);
            node = next;
        }
        unreachable!("a memtable of more than {MAX_HEIGHT} levels")
    }

    /// Links a record into a locked leaf, which must not be full (M2), and unlocks the leaf.
    fn add_to_leaf(&self, writer: &mut LaneWriter<'_>, leaf: &NodeView<'_>, key: &[u8], record: ArenaOffset) {
        debug_assert!(leaf.is_leaf() && record != 0, "M1: records are in leaves");
        debug_assert!(self.arena.key(leaf.low()) <= key, "M1: low <= key");
        debug_assert!(
            leaf.high() == 0 || key < self.arena.key(leaf.high()),
            "M1: key < high"
        );
        let (index, found) = leaf.lower_bound(key);
        if !found {
            let bank = writer.take_bank(NodeBankKind::Leaf);
            bank.fill_with(leaf, index, record, 0);
            writer.give_back(NodeBankKind::Leaf, leaf.publish(bank));
            return;
        }
        self.link_version(leaf, index, record);
        leaf.unlock();
    }

    /// Links a record into the version list of a slot's key. Concurrent readers see the list either
    /// with or without the record.
    fn link_version(&self, leaf: &NodeView<'_>, index: usize, record: ArenaOffset) {
        let added = self.arena.record(record);
        let newest = leaf.slot(index);
        debug_assert!(newest != 0 && newest != record, "M2: every key has a record");
        debug_assert_eq!(
            self.arena.key(newest),
            added.key(),
            "M2: records of one key are linked"
        );
        if self.arena.record(newest).sequence() < added.sequence() {
            let (jump, rank) = self.jump_above(newest);
            added.set_jump(jump, rank);
            added.set_older(newest);
            leaf.replace(index, record);
            return;
        }
        let is_newer =
            |place: ArenaOffset| place != 0 && self.arena.record(place).sequence() > added.sequence();
        let mut newer = self.arena.record(newest);
        while let Some(&next) = [newer.jump(), newer.older()].iter().find(|&&next| is_newer(next)) {
            newer = self.arena.record(next);
        }
        // Jumps over the new record remain valid, because they lead to older records.
        let older = newer.older();
        debug_assert!(newer.sequence() >= added.sequence(), "M2: newest first");
        added.set_jump(older, 0);
        added.set_older(older);
        newer.set_older(record);
    }

    /// Returns the target and the rank of the jump of a record that is linked in front of `newest`.
    /// Two consecutive jumps of equal rank are combined into one of the next rank, so that a reader
    /// finds one of n versions in about 2 log n steps (skew-binary lists: Myers, An Applicative
    /// Random-Access Stack, 1983).
    fn jump_above(&self, newest: ArenaOffset) -> (ArenaOffset, u32) {
        let before = self.arena.record(newest);
        let second = before.jump();
        if second != 0 {
            let second = self.arena.record(second);
            if second.rank() == before.rank() {
                return (second.jump(), before.rank() + 1);
            }
        }
        (newest, 0)
    }

    /// Splits a full node below its parent or below a new root. Concurrent readers find every key
    /// throughout: the keys that move to the right node can be reached there through the parent
    /// before they are removed from the left node.
    fn split(
        &self,
        writer: &mut LaneWriter<'_>,
        parent: Option<NodeView<'_>>,
        node: NodeView<'_>,
        key: &[u8],
    ) -> Result<(), InsertInterruption> {
        writer.stock_for_split()?;
        if let Some(parent) = &parent {
            parent.lock()?;
        }
        let locked = node.lock();
        if locked.is_err() || (parent.is_none() && self.root() != node.id()) {
            if locked.is_ok() {
                node.unlock();
            }
            if let Some(parent) = &parent {
                parent.unlock();
            }
            return Err(InsertInterruption::Restart);
        }
        let kind = NodeBankKind::of(node.level());
        debug_assert_eq!(node.count(), FANOUT, "only full nodes are split");
        // For keys that are inserted in ascending order, leave the left node full. Otherwise, split
        // the keys in half.
        let ascending = node.high() == 0 && node.lower_bound(key).0 == FANOUT;
        let middle = if ascending { FANOUT - 1 } else { FANOUT / 2 };
        let separator = node.slot(middle);
        debug_assert!(
            node.is_leaf() || separator != 0,
            "M1: only the lowest separator may be none"
        );
        let (left, right) = (writer.take_bank(kind), writer.take_bank(kind));
        left.fill_part(&node, 0..middle, (node.low(), separator));
        right.fill_part(&node, middle..FANOUT, (separator, node.high()));
        let right = writer.add_node(right);
        debug_assert_ne!(right, node.id(), "M4: each node has a word of its own");
        let above = writer.take_bank(NodeBankKind::Inner);
        if let Some(parent) = &parent {
            let (index, _) = parent.lower_bound(self.arena.key(separator));
            above.fill_with(parent, index, separator, right);
            writer.give_back(NodeBankKind::Inner, parent.publish(above));
        } else {
            above.fill_root(node.level() + 1, node.id(), separator, right);
            let root = writer.add_node(above);
            self.view(root).unlock();
            self.root.store(root, Ordering::Release);
        }
        writer.give_back(kind, node.publish(left));
        // The right node must not change before this point, because a scan may have found its keys
        // in the left node.
        self.view(right).unlock();
        Ok(())
    }
}

/// Why an insertion attempt was interrupted.
enum InsertInterruption {
    /// Another writer has changed a node, so the insertion must restart.
    Restart,
    /// A node was split, so the insertion must continue from the root.
    Split,
    /// The arena has no memory left for a node.
    Full,
}

impl From<MemtableFull> for InsertInterruption {
    fn from(MemtableFull: MemtableFull) -> InsertInterruption {
        InsertInterruption::Full
    }
}

impl From<NodeConflict> for InsertInterruption {
    fn from(NodeConflict: NodeConflict) -> InsertInterruption {
        InsertInterruption::Restart
    }
}

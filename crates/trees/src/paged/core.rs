//! State and operations shared by both kinds of tree: pages, node layout, leaves, and a root that
//! keeps its page number.

use super::buffer::{FrameHint, PageBuffer, PageReadGuard, PageWriteGuard};
use super::error::damaged_page;
use super::merge::{UnderfullKeys, UnderfullPolicy};
use super::node::add_pivot;
use super::node::{
    MessageAction, MessageList, NodeMessage, NodeShape, PageContentKind, UpdateOperator, fold, kind, level,
    merge, set_head, split_leaf, union_median,
};
use super::read::LatchCoupling;
use super::watch::NodeAccessCounts;
use alluvium_storage::{DiskLocation, Error, Result};
use parking_lot::RwLock;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Number of pages that an operation reserves before it starts moving messages.
pub(super) const RESERVED: u64 = 64;
/// Maximum number of levels of a tree. The page limit keeps real trees far below it.
pub(super) const MOST_LEVELS: u8 = 64;
const _: () = assert!(RESERVED > 0 && MOST_LEVELS > 2, "a flush may split nodes");

/// Counters of a tree's operations. An operation increments its counter when it has finished, with
/// relaxed ordering.
#[derive(Debug, Default)]
pub(super) struct TreeCounters {
    pub(super) retries: AtomicU64,
    pub(super) flushes: AtomicU64,
    pub(super) moved: AtomicU64,
    pub(super) splits_of_leaves: AtomicU64,
    pub(super) splits_of_nodes: AtomicU64,
    pub(super) growths: AtomicU64,
    pub(super) most_held: AtomicU64,
    pub(super) visited: AtomicU64,
    pub(super) restarts: AtomicU64,
    pub(super) merges: AtomicU64,
    pub(super) balances: AtomicU64,
    pub(super) lowerings: AtomicU64,
    pub(super) divisions: AtomicU64,
}

impl TreeCounters {
    pub(super) fn add(counter: &AtomicU64, more: usize) {
        counter.fetch_add(more as u64, Ordering::Relaxed);
    }
}

/// The state shared by Bε-trees and B⁺-trees.
pub(super) struct TreeCore<B> {
    pub(super) buffer: B,
    pub(super) shape: NodeShape,
    /// The page number of the root. It never changes, so the root can be latched without first
    /// looking up its page number.
    pub(super) root: u64,
    /// A hint to the frame that most recently held the root.
    pub(super) root_way: FrameHint,
    pub(super) operator: Arc<dyn UpdateOperator>,
    /// Writers hold this lock in shared mode. Operations that must exclude all writers hold it
    /// exclusively.
    pub(super) gate: RwLock<()>,
    pub(super) coupling: LatchCoupling,
    pub(super) merging: UnderfullPolicy,
    /// For each leaf that was left under-full and is not merged yet, one of its keys (PM1).
    pub(super) noted: UnderfullKeys,
    /// Lookups and messages counted per node. `None` if all nodes divide their space in the same
    /// way.
    pub(super) watch: Option<NodeAccessCounts>,
    pub(super) counters: TreeCounters,
    broken: OnceLock<String>,
    /// The corruption that broke the tree, if any: its location, the expected content and the
    /// actual content.
    damage: OnceLock<(DiskLocation, String, String)>,
}

impl<B: PageBuffer> TreeCore<B> {
    /// Creates an empty tree. Its root is an empty leaf.
    pub(super) fn create(
        buffer: B,
        shape: NodeShape,
        operator: Arc<dyn UpdateOperator>,
    ) -> Result<TreeCore<B>> {
        let root = {
            let mut root = buffer.allocate()?;
            set_head(&mut root, PageContentKind::Leaf, 0);
            root.number()
        };
        Ok(TreeCore::of(buffer, shape, root, operator))
    }

    pub(super) fn of(
        buffer: B,
        shape: NodeShape,
        root: u64,
        operator: Arc<dyn UpdateOperator>,
    ) -> TreeCore<B> {
        assert_eq!(
            buffer.content_bytes(),
            shape.content_bytes,
            "the shape is that of the pages"
        );
        TreeCore {
            buffer,
            shape,
            root,
            root_way: FrameHint::new(),
            operator,
            gate: RwLock::new(()),
            coupling: Default::default(),
            merging: UnderfullPolicy::default(),
            noted: UnderfullKeys::default(),
            watch: shape.own.map(|_| NodeAccessCounts::new(&shape)),
            counters: TreeCounters::default(),
            broken: OnceLock::new(),
            damage: OnceLock::new(),
        }
    }

    /// Returns an error if the tree is broken.
    pub(super) fn readable(&self) -> Result<()> {
        let cause = self.broken.get();
        cause.map_or(Ok(()), |cause| Err(Error::Poisoned { cause: cause.clone() }))
    }

    /// Returns the corruption that broke the tree, if any. A tree breaks if an error interrupts a
    /// flush or another operation that moves messages.
    pub(super) fn damage(&self) -> Option<Error> {
        let (place, expected, found) = self.damage.get()?.clone();
        Some(Error::corrupt(place, expected, found))
    }

    /// Returns an error if the tree cannot accept this message.
    pub(super) fn writable(&self, message: NodeMessage<'_>) -> Result<()> {
        self.shape.check(message.key, message.operand)?;
        self.readable()?;
        self.buffer.writable()
    }

    /// Marks the tree as broken, because an error while messages were being moved has lost some of
    /// them. The tree must be reopened from its last checkpoint.
    pub(super) fn break_down(&self, cause: &Error) {
        if let Error::Corrupt {
            place,
            expected,
            found,
        } = cause
        {
            self.damage
                .get_or_init(|| (place.clone(), expected.clone(), found.clone()));
        }
        let cause = self.broken.get_or_init(|| cause.to_string());
        self.buffer.poison(cause);
        assert!(
            self.readable().is_err(),
            "messages that are lost are not passed over"
        );
    }

    fn misplaced(page: u64, expected: String, found: &[u8]) -> Error {
        let found = format!("a node of kind {:?} at level {}", kind(found), level(found));
        damaged_page("the tree", page, 0, expected, found)
    }

    /// Returns an error unless the node `child` is exactly one level below level `above`.
    pub(super) fn check_child(page: u64, above: u8, child: &[u8]) -> Result<()> {
        let below = above.checked_sub(1);
        let is_child = below == Some(level(child))
            && !matches!(
                kind(child),
                None | Some(PageContentKind::Free | PageContentKind::Apart)
            );
        if !is_child {
            return Err(Self::misplaced(
                page,
                format!("a node below level {above}"),
                child,
            ));
        }
        Ok(())
    }

    /// Latches a child of a node on level `above` in shared mode. Returns an error if the page does
    /// not hold a node of the level below.
    pub(super) fn shared(&self, page: u64, above: u8) -> Result<PageReadGuard<'_>> {
        let child = self.buffer.pin_shared(page)?;
        Self::check_child(page, above, &child)?;
        Ok(child)
    }

    /// Latches a child of a node on level `above` exclusively. Returns an error if the page does
    /// not hold a node of the level below.
    pub(super) fn exclusive(&self, page: u64, above: u8) -> Result<PageWriteGuard<'_>> {
        let child = self.buffer.pin_exclusive(page)?;
        Self::check_child(page, above, &child)?;
        Ok(child)
    }

    /// Returns the number of pairs that a leaf would gain if the messages were applied. The result
    /// is negative if the leaf would lose pairs.
    fn growth(&self, leaf: &[u8], messages: &MessageList) -> isize {
        let change =
            |message: NodeMessage<'_>| match (message.action, self.shape.pairs.find(leaf, message.key)) {
                (MessageAction::Insert, Err(_)) => 1,
                (MessageAction::Delete, Ok(_)) => -1,
                _ => 0,
            };
        messages.iter().map(change).sum()
    }

    /// Returns whether the messages fit into a leaf without splitting it.
    pub(super) fn leaf_takes(&self, leaf: &[u8], messages: &MessageList) -> bool {
        let free = self.shape.pairs.free(leaf);
        free >= messages.len() || self.growth(leaf, messages) <= free as isize
    }

    /// Returns whether a message fits into a leaf without splitting it.
    pub(super) fn leaf_takes_one(&self, leaf: &[u8], message: NodeMessage<'_>) -> bool {
        let pairs = &self.shape.pairs;
        pairs.free(leaf) > 0
            || message.action != MessageAction::Insert
            || pairs.find(leaf, message.key).is_ok()
    }

    /// Applies a message to a leaf, which must have enough free space for the result.
    pub(super) fn apply_one(&self, leaf: &mut [u8], message: NodeMessage<'_>) -> Result<()> {
        let pairs = &self.shape.pairs;
        match (pairs.find(leaf, message.key), message.action) {
            (Ok(at), MessageAction::Insert) => {
                self.operator.dropped(pairs.value(leaf, at));
                pairs.replace(leaf, at, message.operand, None);
            }
            (Err(at), MessageAction::Insert) => pairs.insert(leaf, at, message.key, message.operand, None),
            (Ok(at), MessageAction::Delete) => {
                self.operator.dropped(pairs.value(leaf, at));
                pairs.remove(leaf, at);
            }
            (Ok(at), MessageAction::Update) => {
                let mut value = Vec::with_capacity(self.shape.value_limit);
                let older = Some(pairs.value(leaf, at));
                let exists = fold(
                    &*self.operator,
                    older,
                    (message.action, message.operand),
                    &mut value,
                );
                assert!(exists, "an update takes no value away");
                self.shape.check_value(&value)?;
                pairs.replace(leaf, at, &value, None);
            }
            (Err(_), MessageAction::Update | MessageAction::Delete) => {}
        }
        Ok(())
    }

    /// Applies messages to a leaf, deletes first. The leaf must have enough free space for the
    /// result.
    pub(super) fn apply(&self, leaf: &mut [u8], messages: &MessageList) -> Result<()> {
        assert!(
            self.leaf_takes(leaf, messages),
            "a leaf that overflows is split first"
        );
        for is_delete in [true, false] {
            for message in messages.iter() {
                if (message.action == MessageAction::Delete) == is_delete {
                    self.apply_one(leaf, message)?;
                }
            }
        }
        Ok(())
    }

    /// Splits a leaf at the median of its own keys and the keys of `messages`, and adds a pivot for
    /// the right half to the parent. Returns the median, which becomes the pivot's key, and the
    /// right half. The parent must have a free pivot.
    pub(super) fn split_leaf(
        &self,
        parent: &mut PageWriteGuard<'_>,
        leaf: &mut PageWriteGuard<'_>,
        messages: &MessageList,
    ) -> Result<(Vec<u8>, PageWriteGuard<'_>)> {
        assert!(
            self.shape.pivots_of(parent).free(parent) > 0,
            "the parent has a free pivot (PE3)"
        );
        let mut right = self.buffer.allocate()?;
        let median = union_median(&self.shape.pairs, leaf, messages);
        split_leaf(&self.shape, leaf, &mut right, &median);
        add_pivot(&self.shape, parent, &median, right.number());
        TreeCounters::add(&self.counters.splits_of_leaves, 1);
        Ok((median, right))
    }

    /// Adds a message to a node's buffer. If the buffer already has a message for the key, the two
    /// are combined; otherwise the buffer must have enough free space.
    pub(super) fn deposit(&self, node: &mut [u8], message: NodeMessage<'_>) -> Result<()> {
        let buffer = self.shape.buffer_of(node);
        match buffer.find(node, message.key) {
            Err(at) => buffer.insert(node, at, message.key, message.operand, Some(message.action)),
            Ok(at) => {
                let mut operand = Vec::with_capacity(self.shape.value_limit);
                let older = (buffer.action(node, at), buffer.value(node, at));
                let younger = (message.action, message.operand);
                let action = merge(&*self.operator, older, younger, &mut operand);
                self.shape.check_value(&operand)?;
                if older.0 == MessageAction::Insert && message.action != MessageAction::Update {
                    self.operator.dropped(older.1);
                }
                buffer.replace(node, at, &operand, Some(action));
            }
        }
        debug_assert!(
            buffer.find(node, message.key).is_ok(),
            "the message is there (PN3)"
        );
        Ok(())
    }

    /// Returns whether a node's buffer can accept a message.
    pub(super) fn has_place(&self, node: &[u8], message: NodeMessage<'_>) -> bool {
        let buffer = self.shape.buffer_of(node);
        buffer.free(node) > 0 || buffer.find(node, message.key).is_ok()
    }

    /// Returns the level of the root, which is 0 if the root is a leaf.
    pub(super) fn height(&self) -> Result<u8> {
        let root = self.buffer.pin_shared(self.root)?;
        let level = level(&root);
        assert!(level < MOST_LEVELS, "a tree of pages has few levels");
        Ok(level)
    }
}

impl<B> fmt::Debug for TreeCore<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeCore")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

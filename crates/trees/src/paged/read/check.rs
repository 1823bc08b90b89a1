//! Checks all nodes of a tree.

use crate::paged::buffer::PageBuffer;
use crate::paged::core::TreeCore;
use crate::paged::merge::UnderfullPolicy;
use crate::paged::node::{MessageAction, NodeArray, PageContentKind, child_at, is_under_full, kind, level};
use alluvium_storage::Result;
use std::collections::BTreeSet;

/// The result of visiting all nodes of a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeWalkReport {
    /// The errors found, one sentence each.
    pub found: Vec<String>,
    /// Page numbers of the nodes that can be reached from the root.
    pub pages: BTreeSet<u64>,
    /// Number of levels, which is 1 if the root is a leaf.
    pub height: u32,
    /// Number of inner nodes.
    pub inner: u64,
    /// Number of pairs in leaves.
    pub pairs: u64,
    /// Number of messages in the buffers of inner nodes.
    pub messages: u64,
    /// The totals of each level, starting with the leaves.
    pub levels: Vec<LevelFigures>,
}

/// Totals over the nodes of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelFigures {
    pub nodes: u64,
    /// Number of entries: pairs on the leaf level, pivots on the levels above.
    pub entries: u64,
    /// Number of pairs or pivots that the nodes have space for.
    pub most_entries: u64,
    /// Number of messages in the buffers of the nodes.
    pub messages: u64,
    /// Number of messages that the buffers have space for.
    pub most_messages: u64,
}

/// The key range of a node.
#[derive(Clone, Default)]
struct NodeFence {
    low: Option<Vec<u8>>,
    high: Option<Vec<u8>>,
}

impl NodeFence {
    fn contains(&self, key: &[u8]) -> bool {
        self.low.as_deref().is_none_or(|low| low <= key) && self.high.as_deref().is_none_or(|high| key < high)
    }
}

impl<B: PageBuffer> TreeCore<B> {
    /// Adds a node to its level's totals; `table` is the array of its pairs or pivots. Reports the
    /// node if it is under-full and should have been merged.
    fn weigh(&self, (page, node): (u64, &[u8]), table: &NodeArray, examined: &mut TreeWalkReport) {
        let at = usize::from(level(node));
        if examined.levels.len() <= at {
            examined.levels.resize_with(at + 1, LevelFigures::default);
        }
        let of = &mut examined.levels[at];
        of.nodes += 1;
        of.entries += table.len(node) as u64;
        of.most_entries += table.capacity() as u64;
        if kind(node) == Some(PageContentKind::Buffered) {
            let buffer = self.shape.buffer_of(node);
            of.messages += buffer.len(node) as u64;
            of.most_messages += buffer.capacity() as u64;
        }
        let is_under_full = match page == self.root {
            true => at > 0 && table.is_empty(node),
            false => is_under_full(&self.shape, node),
        };
        if self.merging == UnderfullPolicy::UnderFull && is_under_full {
            let text = format!(
                "page {page}: {} entries at level {at} are too few, and were not merged (PM1)",
                table.len(node)
            );
            examined.found.push(text);
        }
    }

    /// Checks the tree, while writers wait.
    pub(in crate::paged) fn examine(&self) -> Result<TreeWalkReport> {
        self.examine_each(&mut |_| ())
    }

    /// Like [`TreeCore::examine`], but also calls `tell` with every value in a leaf or in an insert
    /// message.
    pub(in crate::paged) fn examine_each(&self, tell: &mut dyn FnMut(&[u8])) -> Result<TreeWalkReport> {
        let _alone = self.gate.write();
        let mut examined = TreeWalkReport {
            height: u32::from(self.height()?) + 1,
            ..TreeWalkReport::default()
        };
        let mut todo = vec![(self.root, None, NodeFence::default())];
        while let Some((page, above, fence)) = todo.pop() {
            if !examined.pages.insert(page) {
                examined.found.push(format!("page {page} is reached twice"));
                continue;
            }
            let node = match above {
                None => self.buffer.pin_shared(page)?,
                Some(above) => self.shared(page, above)?,
            };
            if let Err(wrong) = self.shape.validate(&node) {
                examined.found.push(format!("page {page}: {wrong}"));
                continue;
            }
            let mut inside = |table: &NodeArray, name: &str| {
                let outside = (0..table.len(&node)).filter(|at| !fence.contains(table.key(&node, *at)));
                let outside = outside.count();
                if outside > 0 {
                    let text = format!("page {page}: {outside} {name} are outside its range (PN2)");
                    examined.found.push(text);
                }
                table.len(&node) as u64
            };
            if kind(&node) == Some(PageContentKind::Leaf) {
                examined.pairs += inside(&self.shape.pairs, "pairs");
                let pairs = &self.shape.pairs;
                self.weigh((page, &node[..]), pairs, &mut examined);
                (0..pairs.len(&node)).for_each(|at| tell(pairs.value(&node, at)));
                continue;
            }
            let pivots = self.shape.pivots_of(&node);
            let children = inside(&pivots, "pivots") as usize + 1;
            if kind(&node) == Some(PageContentKind::Buffered) {
                let buffer = self.shape.buffer_of(&node);
                examined.messages += inside(&buffer, "messages");
                let inserts = (0..buffer.len(&node)).map(|at| buffer.message(&node, at));
                let inserts = inserts.filter(|message| message.action == MessageAction::Insert);
                inserts.for_each(|message| tell(message.operand));
            }
            examined.inner += 1;
            self.weigh((page, &node[..]), &pivots, &mut examined);
            for at in 0..children {
                let mut of_child = fence.clone();
                if at > 0 {
                    of_child.low = Some(pivots.key(&node, at - 1).to_vec());
                }
                if at + 1 < children {
                    of_child.high = Some(pivots.key(&node, at).to_vec());
                }
                todo.push((child_at(&pivots, &node, at), Some(level(&node)), of_child));
            }
        }
        assert!(examined.pages.contains(&self.root), "the walk began at the root");
        Ok(examined)
    }
}

//! Flushes, which move blocks of messages from nodes to their children (thesis, listing 5.6, with
//! corrections).

use super::BepsTree;
use super::plan::{MessageBlock, RequiredAction};
use crate::paged::buffer::{PageBuffer, PageWriteGuard};
use crate::paged::core::TreeCounters;
use crate::paged::node::{MessageList, level};
use alluvium_storage::Result;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

/// A latched node, and the blocks of messages to move from it to its children.
pub(super) type FlushTask<'b> = (PageWriteGuard<'b>, Vec<MessageBlock>);

impl<B: PageBuffer> BepsTree<B> {
    /// Returns whether a child must be split before it can accept messages.
    pub(super) fn must_split(&self, child: &PageWriteGuard<'_>, messages: &MessageList) -> bool {
        if level(child) == 0 {
            return !self.core.leaf_takes(child, messages);
        }
        matches!(self.need(child, messages), RequiredAction::Split)
    }

    /// Adds messages to a child. If the child must be split, the parent must have a free pivot. If
    /// blocks of messages must leave the child, they are added to `tasks`, which the caller must
    /// then run.
    pub(super) fn receive<'b>(
        &'b self,
        parent: &mut PageWriteGuard<'_>,
        mut child: PageWriteGuard<'b>,
        messages: &MessageList,
        tasks: &mut Vec<FlushTask<'b>>,
    ) -> Result<()> {
        if level(&child) == 0 {
            return self.receive_in_leaf(parent, child, messages);
        }
        if !self.fits(&child, messages) {
            self.widen_buffer(&mut child);
        }
        match self.need(&child, messages) {
            RequiredAction::Split => {}
            need => return self.keep(child, messages, &need, tasks),
        }
        let (pivot, mut right) = self.core.split_node(parent, &mut child)?;
        self.adapt(&mut child);
        self.adapt(&mut right);
        let [below, above] = messages.split(&pivot);
        // Both halves stay latched until they contain the messages, so that no reader misses a
        // message.
        let needs = [self.need(&child, &below), self.need(&right, &above)];
        self.keep(child, &below, &needs[0], tasks)?;
        self.keep(right, &above, &needs[1], tasks)
    }

    fn receive_in_leaf(
        &self,
        parent: &mut PageWriteGuard<'_>,
        mut leaf: PageWriteGuard<'_>,
        messages: &MessageList,
    ) -> Result<()> {
        assert!(!messages.is_empty(), "a block has a message");
        if self.core.leaf_takes(&leaf, messages) {
            self.core.apply(&mut leaf, messages)?;
            self.core.note_leaf(&leaf, messages.get(0).key);
            return Ok(());
        }
        let (median, mut right) = self.core.split_leaf(parent, &mut leaf, messages)?;
        let [below, above] = messages.split(&median);
        assert!(below.len() + above.len() == messages.len(), "no message is lost");
        self.core.apply(&mut leaf, &below)?;
        self.core.apply(&mut right, &above)?;
        // The smallest key is below the median, so it is either in the left leaf or among the
        // messages for the left leaf.
        let least = match below.is_empty() {
            true => self.core.shape.pairs.key(&leaf, 0),
            false => below.get(0).key,
        };
        self.core.note_leaf(&leaf, least);
        self.core.note_leaf(&right, &median);
        Ok(())
    }

    /// Adds messages to a node's buffer. If `need` is a flush, also takes the planned blocks out of
    /// the node, and adds them to `tasks`.
    fn keep<'b>(
        &'b self,
        mut node: PageWriteGuard<'b>,
        messages: &MessageList,
        need: &RequiredAction,
        tasks: &mut Vec<FlushTask<'b>>,
    ) -> Result<()> {
        assert!(
            !matches!(need, RequiredAction::Split),
            "one split suffices for a flush (PE3)"
        );
        if let RequiredAction::Flush(plan) = need {
            let blocks = self.take_or_break(&mut node, messages, plan)?;
            tasks.push((node, blocks));
            return Ok(());
        }
        messages
            .iter()
            .try_for_each(|message| self.core.deposit(&mut node, message))
    }

    /// Runs tasks, and all further tasks that they lead to. If this fails, messages are lost (PE5).
    pub(super) fn run<'b>(&'b self, tasks: Vec<FlushTask<'b>>) -> Result<()> {
        let result = if self.path.goes_by_level {
            self.by_level(tasks)
        } else {
            tasks.into_iter().try_for_each(|task| self.by_depth(task, 1))
        };
        result.inspect_err(|error| self.core.break_down(error))
    }

    fn note(&self, moved: usize, held: usize) {
        let counters = &self.core.counters;
        TreeCounters::add(&counters.flushes, 1);
        TreeCounters::add(&counters.moved, moved);
        counters.most_held.fetch_max(held as u64, Ordering::Relaxed);
    }

    fn by_level<'b>(&'b self, tasks: Vec<FlushTask<'b>>) -> Result<()> {
        let mut queue = VecDeque::from(tasks);
        let mut next = Vec::new();
        while let Some((mut node, blocks)) = queue.pop_front() {
            let moved = blocks.iter().map(|(_, block)| block.len()).sum();
            for (page, block) in blocks {
                let child = self.core.exclusive(page, level(&node))?;
                self.receive(&mut node, child, &block, &mut next)?;
            }
            queue.extend(next.drain(..));
            // The latched nodes are this node, the child that was just released, and the nodes in
            // the queue.
            self.note(moved, queue.len() + 2);
        }
        assert!(next.is_empty(), "every task was done");
        Ok(())
    }

    fn by_depth<'b>(&'b self, (mut node, blocks): FlushTask<'b>, depth: usize) -> Result<()> {
        let moved = blocks.iter().map(|(_, block)| block.len()).sum();
        for (page, block) in blocks {
            let child = self.core.exclusive(page, level(&node))?;
            let mut next = Vec::new();
            self.receive(&mut node, child, &block, &mut next)?;
            assert!(next.len() <= 2, "a child has two halves at most");
            for task in next {
                self.by_depth(task, depth + 1)?;
            }
        }
        self.note(moved, 2 * depth + 1);
        Ok(())
    }
}

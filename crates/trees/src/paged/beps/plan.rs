//! Selects the messages that leave a full node: the largest blocks. A block never has more messages
//! than the smallest buffer can hold, which is b (thesis, listing 5.5).

use super::BepsTree;
use crate::paged::buffer::{PageBuffer, PageWriteGuard};
use crate::paged::node::{MessageList, NodeMessage, child_at, child_index};
use alluvium_storage::Result;

/// The messages that leave a node in a flush.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FlushPlan {
    /// Indices of the children that receive messages, in ascending order.
    pub(super) children: Vec<usize>,
    /// Indices of the incoming messages whose keys are not in the node's buffer yet.
    fresh: Vec<usize>,
}

/// What a node must do before it can accept incoming messages.
#[derive(Debug)]
pub(super) enum RequiredAction {
    /// Nothing, because the messages fit.
    Nothing,
    /// A flush according to this plan.
    Flush(FlushPlan),
    /// A split, because the node has too few free pivots for the child splits that a flush may
    /// cause.
    Split,
}

/// The messages to move to a child, after the child's page number.
pub(super) type MessageBlock = (u64, MessageList);

/// Selects the children with the most messages, until at least `need` messages leave, and returns
/// their indices in ascending order. `sizes` is the number of messages for each child. At most
/// `most` messages leave for any one child (PE2).
fn choose(sizes: &[usize], need: usize, most: usize) -> Vec<usize> {
    // Usually the largest block suffices, so nothing needs to be sorted.
    let largest = (0..sizes.len()).max_by_key(|at| (sizes[*at].min(most), std::cmp::Reverse(*at)));
    if let Some(at) = largest.filter(|at| need > 0 && need <= sizes[*at].min(most)) {
        return vec![at];
    }
    let mut order: Vec<usize> = (0..sizes.len()).filter(|at| sizes[*at] > 0).collect();
    order.sort_by_key(|at| std::cmp::Reverse(sizes[*at].min(most)));
    let mut gone = 0;
    let mut chosen = Vec::new();
    for at in order {
        if gone >= need {
            break;
        }
        gone += sizes[at].min(most);
        chosen.push(at);
    }
    assert!(gone >= need, "the blocks suffice (PE2)");
    chosen.sort_unstable();
    chosen
}

/// Returns how many messages can leave if each child receives one block.
fn movable(sizes: &[usize], most: usize) -> usize {
    sizes.iter().map(|size| size.min(&most)).sum()
}

impl<B: PageBuffer> BepsTree<B> {
    /// Returns whether messages fit into a node's buffer without a flush.
    pub(super) fn fits(&self, node: &[u8], messages: &MessageList) -> bool {
        let buffer = self.core.shape.buffer_of(node);
        let free = buffer.free(node);
        free >= messages.len() || {
            let fresh = messages
                .iter()
                .filter(|message| buffer.find(node, message.key).is_err());
            fresh.count() <= free
        }
    }

    /// Determines what a node with a buffer must do before it can accept incoming messages. Changes
    /// nothing.
    pub(super) fn need(&self, node: &PageWriteGuard<'_>, incoming: &MessageList) -> RequiredAction {
        if self.fits(node, incoming) {
            return RequiredAction::Nothing;
        }
        let plan = self.plan(node, incoming);
        assert!(!plan.children.is_empty(), "a full node passes messages on");
        if self.core.shape.pivots_of(node).free(node) < plan.children.len() {
            return RequiredAction::Split;
        }
        RequiredAction::Flush(plan)
    }

    /// Plans the flush that makes space in a node for incoming messages. Changes nothing.
    fn plan(&self, node: &PageWriteGuard<'_>, incoming: &MessageList) -> FlushPlan {
        let shape = &self.core.shape;
        let (buffer, pivots) = (shape.buffer_of(node), shape.pivots_of(node));
        let (b, own, most) = (buffer.capacity(), buffer.len(node), shape.most_moved());
        let is_fresh = |at: &usize| buffer.find(node, incoming.get(*at).key).is_err();
        let fresh: Vec<usize> = (0..incoming.len()).filter(is_fresh).collect();
        assert!(
            incoming.len() <= most && most <= b,
            "a node receives a block at most (PE2)"
        );
        let mut sizes = buffer.runs(&pivots, node);
        for at in &fresh {
            sizes[child_index(&pivots, node, incoming.get(*at).key)] += 1;
        }
        let all = own + fresh.len();
        let mut children = choose(&sizes, all.saturating_sub(b), most);
        assert!(
            children.len() <= pivots.most_addressed(),
            "half of the children suffice (PE3)"
        );
        let wish = all.saturating_sub(self.messages_wanted(node));
        if wish > all.saturating_sub(b) && pivots.free(node) > children.len() {
            children = choose(&sizes, wish.min(movable(&sizes, most)), most);
            if children.len() > pivots.free(node) {
                // Select at most as many children as there are free pivots.
                children.sort_by_key(|at| std::cmp::Reverse(sizes[*at].min(most)));
                children.truncate(pivots.free(node));
                children.sort_unstable();
            }
        }
        FlushPlan { children, fresh }
    }

    /// Takes the planned blocks out of a node, and adds the remaining incoming messages to the
    /// node. Returns the blocks.
    pub(super) fn take(
        &self,
        node: &mut PageWriteGuard<'_>,
        incoming: &MessageList,
        plan: &FlushPlan,
    ) -> Result<Vec<MessageBlock>> {
        let buffer = self.core.shape.buffer_of(node);
        let mut is_fresh = vec![false; incoming.len()];
        plan.fresh.iter().for_each(|at| is_fresh[*at] = true);
        for (message, _) in incoming.iter().zip(&is_fresh).filter(|(_, is_fresh)| !**is_fresh) {
            self.core.deposit(node, message)?;
        }
        let mut stays = is_fresh;
        let mut blocks = Vec::with_capacity(plan.children.len());
        for &child in &plan.children {
            blocks.push(self.take_block(node, child, incoming, &mut stays));
        }
        for (message, _) in incoming.iter().zip(&stays).filter(|(_, stays)| **stays) {
            self.core.deposit(node, message)?;
        }
        assert!(buffer.len(node) <= buffer.capacity(), "what stays fits (PE2)");
        self.widen_pivots(node);
        Ok(blocks)
    }

    /// Takes the next block for a child out of the node's buffer and out of the incoming messages
    /// that `stays` marks. Unmarks the incoming messages that it takes. Returns the block.
    pub(super) fn take_block(
        &self,
        node: &mut PageWriteGuard<'_>,
        child: usize,
        incoming: &MessageList,
        stays: &mut [bool],
    ) -> MessageBlock {
        let (buffer, pivots) = (self.core.shape.buffer_of(node), self.core.shape.pivots_of(node));
        let (last, most) = (pivots.len(node), self.core.shape.most_moved());
        let own_from = if child == 0 {
            0
        } else {
            buffer.below(node, pivots.key(node, child - 1))
        };
        let own_to = if child == last {
            buffer.len(node)
        } else {
            buffer.below(node, pivots.key(node, child))
        };
        let new_from = if child == 0 {
            0
        } else {
            incoming.below(pivots.key(node, child - 1))
        };
        let new_to = if child == last {
            incoming.len()
        } else {
            incoming.below(pivots.key(node, child))
        };
        let page = child_at(&pivots, node, child);
        let mut block = MessageList::new();
        let mut own = own_from;
        let mut new = (new_from..new_to)
            .filter(|at| stays[*at])
            .collect::<Vec<_>>()
            .into_iter()
            .peekable();
        while block.len() < most {
            let next_own: Option<NodeMessage<'_>> = (own < own_to).then(|| buffer.message(node, own));
            let next_new = new.peek().map(|at| incoming.get(*at));
            match (next_own, next_new) {
                (Some(message), None) => {
                    block.push(message);
                    own += 1;
                }
                (Some(message), Some(other)) if message.key < other.key => {
                    block.push(message);
                    own += 1;
                }
                (_, Some(message)) => {
                    block.push(message);
                    new.next().into_iter().for_each(|at| stays[at] = false);
                }
                (None, None) => break,
            }
        }
        (own_from..own).rev().for_each(|at| buffer.remove(node, at));
        self.note_passed(node, block.len());
        assert!(block.len() <= most, "a block is not larger than any buffer (PE2)");
        (page, block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_blocks_go_until_enough_do() {
        assert_eq!(choose(&[1, 5, 0, 3, 5], 1, 10), [1]);
        assert_eq!(choose(&[1, 5, 0, 3, 5], 8, 10), [1, 4]);
        assert_eq!(choose(&[1, 5, 0, 3, 5], 14, 10), [0, 1, 3, 4]);
        assert_eq!(choose(&[20, 0, 0], 10, 10), [0], "a block counts b at most");
        assert_eq!(choose(&[4, 4], 0, 10), [0; 0]);
    }

    #[test]
    fn half_of_the_children_suffice_for_any_distribution() {
        let mut rng = fastrand::Rng::with_seed(6);
        for _ in 0..20_000 {
            let (children, b) = (2 * rng.usize(2..30), rng.usize(1..40));
            let total = rng.usize(b + 1..=2 * b);
            let mut sizes = vec![0; children];
            let most = rng.usize(1..=children);
            (0..total).for_each(|_| sizes[rng.usize(..most)] += 1);
            let chosen = choose(&sizes, total - b, b);
            assert!(chosen.len() <= children.div_ceil(2), "{sizes:?}");
        }
    }
}

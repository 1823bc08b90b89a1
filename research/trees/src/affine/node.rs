//! Nodes in memory: children with their messages, and leaves.

use super::space::SpaceExtent;
use alluvium_trees::paged::node::{MessageAction, UpdateOperator, merge};
use std::sync::Arc;

/// Bytes that own their allocation, without excess capacity.
pub(super) type BoxedBytes = Box<[u8]>;

/// The encoding overhead of a pair and of a message, in bytes.
pub(super) const PAIR_HEAD: usize = 6;
pub(super) const MESSAGE_HEAD: usize = 7;

/// A message about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TreeMessage {
    pub(super) key: BoxedBytes,
    pub(super) action: MessageAction,
    pub(super) operand: BoxedBytes,
}

impl TreeMessage {
    /// Returns the encoded size of the message in bytes.
    pub(super) fn bytes(&self) -> usize {
        MESSAGE_HEAD + self.key.len() + self.operand.len()
    }
}

/// A pair of a key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeafPair {
    pub(super) key: BoxedBytes,
    pub(super) value: BoxedBytes,
}

impl LeafPair {
    /// Returns the encoded size of the pair in bytes.
    pub(super) fn bytes(&self) -> usize {
        PAIR_HEAD + self.key.len() + self.value.len()
    }
}

/// Returns the encoded size of a leaf in bytes.
pub(super) fn leaf_bytes(pairs: &[LeafPair]) -> usize {
    pairs.iter().map(LeafPair::bytes).sum()
}

/// A part of a node: the segment for one child, or a sub-block of a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodePart {
    /// The smallest key that belongs to the part; empty for the first part of the first node.
    pub(super) from: BoxedBytes,
    /// Its length in bytes. The parts are stored one after the other.
    pub(super) bytes: u32,
    pub(super) sum: u64,
    /// The child, in an inner node.
    pub(super) below: Option<ChildLocation>,
}

/// The location of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChildLocation {
    pub(super) extent: SpaceExtent,
    /// The number of leaves below it, including itself.
    pub(super) weight: u64,
    /// The size and checksum of the child's index, if the index is in front of the child.
    pub(super) front: Option<(u32, u64)>,
}

/// The pivots of a node and the locations of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeIndex {
    pub(super) height: u8,
    pub(super) parts: Vec<NodePart>,
}

impl NodeIndex {
    /// Returns the part that covers a key.
    pub(super) fn find(&self, key: &[u8]) -> usize {
        debug_assert!(!self.parts.is_empty(), "a node has parts");
        let behind = self.parts.partition_point(|part| *part.from <= *key);
        behind.saturating_sub(1)
    }

    /// Returns the offset of a part from the first part.
    pub(super) fn offset(&self, part: usize) -> u64 {
        debug_assert!(part <= self.parts.len(), "the part is one of the node");
        self.parts
            .iter()
            .take(part)
            .map(|part| u64::from(part.bytes))
            .sum()
    }
}

/// The location of a stored node and of its pivots.
#[derive(Clone, Debug)]
pub(super) struct NodeLink {
    pub(super) extent: SpaceExtent,
    pub(super) pivots: PivotLocation,
}

/// The location of a node's pivots.
#[derive(Clone, Debug)]
pub(super) enum PivotLocation {
    /// In the parent (AF2).
    Parent(Arc<NodeIndex>),
    /// In front of the node, with their size and checksum.
    Front(u32, u64),
}

/// A child of a node, with the messages for it.
#[derive(Debug)]
pub(super) struct BufferedChild {
    /// The smallest key that belongs to it; empty for the first child.
    pub(super) from: BoxedBytes,
    /// The number of leaves below it, including itself.
    pub(super) weight: u64,
    pub(super) buffer: MessageBuffer,
    /// The child's location on disk, if the stored version is current.
    pub(super) link: Option<NodeLink>,
    /// The child itself, if it is in memory.
    pub(super) node: Option<Box<InnerNode>>,
}

#[derive(Debug)]
pub(super) struct InnerNode {
    /// The height: one more than that of its children; leaves have height 0.
    pub(super) height: u8,
    pub(super) children: Vec<BufferedChild>,
}

#[derive(Debug)]
pub(super) enum NodeBody {
    Leaf(Vec<LeafPair>),
    Inner(InnerNode),
}

impl BufferedChild {
    /// Returns a child without messages, either stored or in memory.
    pub(super) fn new(
        from: BoxedBytes,
        weight: u64,
        link: Option<NodeLink>,
        node: Option<Box<InnerNode>>,
    ) -> BufferedChild {
        assert!(
            link.is_some() || node.is_some(),
            "a child is in memory or on the disk"
        );
        let buffer = MessageBuffer::default();
        BufferedChild {
            from,
            weight,
            buffer,
            link,
            node,
        }
    }
}

/// The messages for a child in key order, at most one per key.
#[derive(Debug, Default)]
pub(super) struct MessageBuffer {
    messages: Vec<TreeMessage>,
    bytes: usize,
}

impl MessageBuffer {
    pub(super) fn of(messages: Vec<TreeMessage>) -> MessageBuffer {
        debug_assert!(
            messages.is_sorted_by(|one, next| one.key < next.key),
            "messages are in key order"
        );
        let bytes = messages.iter().map(TreeMessage::bytes).sum();
        MessageBuffer { messages, bytes }
    }

    /// Returns the encoded size of the messages in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn messages(&self) -> &[TreeMessage] {
        &self.messages
    }

    /// Removes and returns all messages.
    pub(super) fn take(&mut self) -> Vec<TreeMessage> {
        self.bytes = 0;
        std::mem::take(&mut self.messages)
    }

    /// Returns the message for a key.
    pub(super) fn get(&self, key: &[u8]) -> Option<&TreeMessage> {
        let found = self.messages.binary_search_by(|other| (*other.key).cmp(key));
        found.ok().map(|at| &self.messages[at])
    }

    /// Adds a message, replacing the previous message for its key.
    pub(super) fn put(&mut self, message: TreeMessage) {
        self.bytes += message.bytes();
        match self
            .messages
            .binary_search_by(|other| other.key.cmp(&message.key))
        {
            Ok(at) => {
                let before = std::mem::replace(&mut self.messages[at], message);
                self.bytes -= before.bytes();
            }
            Err(at) => self.messages.insert(at, message),
        }
        debug_assert!(
            self.bytes >= self.messages.len() * MESSAGE_HEAD,
            "each message is counted"
        );
    }
}

impl InnerNode {
    /// Returns the number of leaves below.
    pub(super) fn weight(&self) -> u64 {
        self.children.iter().map(|child| child.weight).sum()
    }

    /// Returns the child that covers a key.
    pub(super) fn find(&self, key: &[u8]) -> usize {
        debug_assert!(!self.children.is_empty(), "a node has children");
        let behind = self.children.partition_point(|child| *child.from <= *key);
        behind.saturating_sub(1)
    }

    /// Adds younger messages to the buffers of the children.
    pub(super) fn deliver(&mut self, operator: &dyn UpdateOperator, messages: Vec<TreeMessage>) {
        assert!(!self.children.is_empty(), "a node has children");
        let mut shares: Vec<Vec<TreeMessage>> = self.children.iter().map(|_| Vec::new()).collect();
        let mut at = 0;
        for message in messages {
            while self
                .children
                .get(at + 1)
                .is_some_and(|next| *next.from <= *message.key)
            {
                at += 1;
            }
            shares[at].push(message);
        }
        for (child, share) in self.children.iter_mut().zip(shares) {
            if !share.is_empty() {
                let older = child.buffer.take();
                child.buffer = MessageBuffer::of(merge_messages(operator, older, share));
            }
        }
    }
}

/// Combines an older and a younger message for the same key.
pub(super) fn combine_messages(
    operator: &dyn UpdateOperator,
    older: &TreeMessage,
    younger: TreeMessage,
) -> TreeMessage {
    debug_assert!(older.key == younger.key, "they are about one key");
    if younger.action != MessageAction::Update {
        return younger;
    }
    let mut operand = Vec::new();
    let before = (older.action, &*older.operand);
    let action = merge(
        operator,
        before,
        (younger.action, &*younger.operand),
        &mut operand,
    );
    let (key, operand) = (younger.key, operand.into_boxed_slice());
    TreeMessage { key, action, operand }
}

/// Merges older and younger messages. Both are in key order, with at most one message per key.
pub(super) fn merge_messages(
    operator: &dyn UpdateOperator,
    older: Vec<TreeMessage>,
    younger: Vec<TreeMessage>,
) -> Vec<TreeMessage> {
    let mut out = Vec::with_capacity(older.len() + younger.len());
    let mut older = older.into_iter().peekable();
    for message in younger {
        while let Some(before) = older.next_if(|before| before.key < message.key) {
            out.push(before);
        }
        match older.next_if(|before| before.key == message.key) {
            Some(before) => out.push(combine_messages(operator, &before, message)),
            None => out.push(message),
        }
    }
    out.extend(older);
    debug_assert!(
        out.is_sorted_by(|one, next| one.key < next.key),
        "messages are in key order"
    );
    out
}

/// Returns the value of a key after a message; `None` if the key does not exist.
pub(super) fn apply_message(
    operator: &dyn UpdateOperator,
    value: Option<BoxedBytes>,
    message: TreeMessage,
) -> Option<BoxedBytes> {
    match (message.action, value) {
        (MessageAction::Insert, _) => Some(message.operand),
        (MessageAction::Delete, _) | (MessageAction::Update, None) => None,
        (MessageAction::Update, Some(value)) => {
            let mut both = Vec::new();
            operator.combine(&value, &message.operand, &mut both);
            Some(both.into_boxed_slice())
        }
    }
}

/// Applies messages to the pairs of a leaf. Both are in key order.
pub(super) fn apply_messages(
    operator: &dyn UpdateOperator,
    pairs: Vec<LeafPair>,
    messages: Vec<TreeMessage>,
) -> Vec<LeafPair> {
    let mut out = Vec::with_capacity(pairs.len() + messages.len());
    let mut pairs = pairs.into_iter().peekable();
    for message in messages {
        while let Some(pair) = pairs.next_if(|pair| pair.key < message.key) {
            out.push(pair);
        }
        let found = pairs.next_if(|pair| pair.key == message.key);
        let key = message.key.clone();
        if let Some(value) = apply_message(operator, found.map(|pair| pair.value), message) {
            out.push(LeafPair { key, value });
        }
    }
    out.extend(pairs);
    debug_assert!(
        out.is_sorted_by(|one, next| one.key < next.key),
        "pairs are in key order"
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_trees::paged::node::ReplaceOperator;

    #[derive(Debug)]
    struct ConcatOperator;
    impl UpdateOperator for ConcatOperator {
        fn combine(&self, older: &[u8], younger: &[u8], into: &mut Vec<u8>) {
            into.extend_from_slice(older);
            into.extend_from_slice(younger);
        }
    }

    fn msg(key: &str, action: MessageAction, operand: &str) -> TreeMessage {
        let (key, operand) = (key.as_bytes().into(), operand.as_bytes().into());
        TreeMessage { key, action, operand }
    }

    fn pair(key: &str, value: &str) -> LeafPair {
        let (key, value) = (key.as_bytes().into(), value.as_bytes().into());
        LeafPair { key, value }
    }

    #[test]
    fn younger_messages_meet_older_ones_of_their_key() {
        use MessageAction::{Delete, Insert, Update};
        let older = vec![
            msg("a", Insert, "1"),
            msg("c", Update, "2"),
            msg("d", Delete, ""),
            msg("f", Insert, "3"),
        ];
        let younger = vec![
            msg("a", Update, "x"),
            msg("b", Delete, ""),
            msg("c", Update, "y"),
            msg("d", Update, "z"),
        ];
        let both = merge_messages(&ConcatOperator, older, younger);
        let expected = [
            msg("a", Insert, "1x"),
            msg("b", Delete, ""),
            msg("c", Update, "2y"),
            msg("d", Delete, ""),
            msg("f", Insert, "3"),
        ];
        assert_eq!(both, expected);
        let pairs = vec![pair("b", "B"), pair("c", "C"), pair("e", "E")];
        let leaf = apply_messages(&ConcatOperator, pairs, both);
        assert_eq!(
            leaf,
            [pair("a", "1x"), pair("c", "C2y"), pair("e", "E"), pair("f", "3")]
        );
    }

    #[test]
    fn messages_go_to_the_child_of_their_key() {
        let empty = || {
            Some(Box::new(InnerNode {
                height: 1,
                children: Vec::new(),
            }))
        };
        let child = |from: &str| BufferedChild::new(from.as_bytes().into(), 1, None, empty());
        let mut node = InnerNode {
            height: 2,
            children: vec![child(""), child("c"), child("f")],
        };
        let sent = ["a", "c", "d", "f", "z"].map(|key| msg(key, MessageAction::Delete, ""));
        node.deliver(&ReplaceOperator, sent.to_vec());
        let counts: Vec<usize> = node
            .children
            .iter()
            .map(|child| child.buffer.messages().len())
            .collect();
        assert_eq!(counts, [1, 2, 2]);
        assert_eq!((node.find(b"b"), node.find(b"c"), node.find(b"")), (0, 1, 0));
    }
}

//! Point queries: messages on the path from the root, then one sub-block of a leaf.
//!
//! For each level below the nodes in memory, a query reads a whole node (B-tree, V0); the node's
//! index and one segment (V1); or one segment (V2, V3), since the index came with the segment
//! above.

use super::counters::RequestCause;
use super::error::Result;
use super::node::{BoxedBytes, BufferedChild, NodeLink, TreeMessage, combine_messages};
use super::node_io::NodePartBytes;
use super::space::NodeSpace;
use super::tree::AffineTree;
use alluvium_trees::paged::node::{MessageAction, UpdateOperator};

/// The state of a lookup: the messages of the levels above, combined into one.
struct AffineLookup<'a> {
    key: &'a [u8],
    younger: Option<TreeMessage>,
}

impl AffineLookup<'_> {
    /// Adds an older message. Returns whether it makes all older data irrelevant.
    fn add_older_message(&mut self, operator: &dyn UpdateOperator, older: &TreeMessage) -> bool {
        debug_assert!(*older.key == *self.key, "a message is about the key");
        let all = match self.younger.take() {
            Some(younger) => combine_messages(operator, older, younger),
            None => older.clone(),
        };
        let is_final = all.action != MessageAction::Update;
        self.younger = Some(all);
        is_final
    }

    fn value(self) -> Option<Vec<u8>> {
        let message = self
            .younger
            .filter(|message| message.action == MessageAction::Insert);
        message.map(|message| message.operand.into_vec())
    }
}

impl<S: NodeSpace> AffineTree<S> {
    /// Returns the value of a key.
    ///
    /// # Errors
    /// [`Error::Damaged`](super::Error::Damaged), [`Error::Poisoned`](super::Error::Poisoned), or
    /// an error of the space.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.ensure_usable()?;
        let mut search = AffineLookup { key, younger: None };
        let mut node = &self.root;
        let (mut child, mut height) = loop {
            let child = &node.children[node.find(key)];
            if self.collect_message(&mut search, child) {
                return Ok(search.value());
            }
            match &child.node {
                Some(inner) => node = inner,
                None => break (child.link.clone(), node.height - 1),
            }
        };
        while let Some(link) = child.take() {
            let piece = self.read_part_of(&link, height, key)?;
            if height == 0 {
                return self.finish(search, &piece);
            }
            let below = self.child_of(&piece, height, self.indexes())?;
            if self.collect_message(&mut search, &below) {
                return Ok(search.value());
            }
            (child, height) = (below.link, height - 1);
        }
        unreachable!("a child that is not in memory is on the disk")
    }

    fn collect_message(&self, search: &mut AffineLookup<'_>, child: &BufferedChild) -> bool {
        let found = child.buffer.get(search.key);
        found.is_some_and(|older| search.add_older_message(&*self.operator, older))
    }

    /// Reads the part of a node that covers a key, or the whole node, as the variant requires.
    fn read_part_of(&self, link: &NodeLink, height: u8, key: &[u8]) -> Result<NodePartBytes> {
        if self.options.variant.reads_whole_nodes() {
            let (index, mut pieces) = self.read_whole(RequestCause::Query, link, height, self.indexes())?;
            return Ok(pieces.swap_remove(index.find(key)));
        }
        let (index, base) = self.read_index(link, height)?;
        let at = index.find(key);
        let mut pieces = self.read_parts(&index, base, at..=at)?;
        Ok(pieces.swap_remove(0))
    }

    /// Applies the combined message to the pair in a leaf.
    fn finish(&self, search: AffineLookup<'_>, block: &NodePartBytes) -> Result<Option<Vec<u8>>> {
        let mut pairs = Vec::new();
        super::format::decode_pairs(&block.bytes, block.at, &mut pairs)?;
        let found = pairs.binary_search_by(|pair| (*pair.key).cmp(search.key));
        let value: Option<BoxedBytes> = found.ok().map(|at| pairs.swap_remove(at).value);
        let value = match search.younger {
            Some(message) => super::node::apply_message(&*self.operator, value, message),
            None => value,
        };
        Ok(value.map(<[u8]>::into_vec))
    }
}

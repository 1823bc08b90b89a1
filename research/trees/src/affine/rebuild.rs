//! Rebuilding subtrees, keeping weights within their band (AF3), and bulk loads.
//!
//! When a node's weight leaves its band, its parent's whole subtree is rebuilt (§4.3). If the
//! parent is also out of its band, the rebuild moves to the parent's parent, up to the highest
//! such node.

use super::counters::{AffineCounters, RequestCause};
use super::error::{Error, Result};
use super::format::{FRONT_PART, INDEX_HEAD, MOST_HEIGHTS, SEGMENT_HEAD};
use super::node::{BoxedBytes, BufferedChild, InnerNode, LeafPair, NodeBody, leaf_bytes};
use super::options::AffineVariant;
use super::space::NodeSpace;
use super::tree::AffineTree;

/// The permitted weights of nodes at one height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WeightBand {
    pub(super) least: u64,
    pub(super) most: u64,
}

impl WeightBand {
    /// Returns F^h(1 ± 1/log₂ F), rounded inwards.
    pub(super) fn of(fanout: u32, height: u8) -> WeightBand {
        let usual = f64::from(fanout).powi(i32::from(height));
        let slack = f64::from(fanout).log2().recip();
        let least = (usual * (1.0 - slack)).ceil().max(1.0) as u64;
        let most = ((usual * (1.0 + slack)).floor() as u64).max(least);
        WeightBand { least, most }
    }

    pub(super) fn has(self, weight: u64) -> bool {
        (self.least..=self.most).contains(&weight)
    }

    /// Returns the maximum weight of a root at this height. Some weights above the band are not
    /// sums of weights in the band: k nodes weigh too little, and k + 1 too much. A root grows at
    /// the weight beyond which there are no such gaps.
    pub(super) fn most_of_root(self) -> u64 {
        debug_assert!(self.least > 0 && self.least <= self.most, "a band has a weight");
        let slack = (self.most - self.least).max(1);
        let parts = (self.least - 1).div_ceil(slack).max(2);
        self.most.max(parts * self.least - 1)
    }
}

/// The fill of leaves written by a rebuild, in quarters.
const FULL: usize = 3;
const QUARTERS: usize = 4;
const _: () = assert!(
    FULL < QUARTERS && 2 * FULL > QUARTERS,
    "more than half full, and less than full"
);

/// Builds leaves from pairs in key order.
pub(super) struct BulkLeafWriter {
    pending: Vec<LeafPair>,
    bytes: usize,
    cause: RequestCause,
    made: Vec<BufferedChild>,
}

impl BulkLeafWriter {
    pub(super) fn new(cause: RequestCause) -> BulkLeafWriter {
        BulkLeafWriter {
            pending: Vec::new(),
            bytes: 0,
            cause,
            made: Vec::new(),
        }
    }

    fn next_from(&self) -> BoxedBytes {
        match (self.made.is_empty(), self.pending.first()) {
            (false, Some(pair)) => pair.key.clone(),
            _ => BoxedBytes::default(),
        }
    }

    /// Adds a pair, and writes a leaf once the pending pairs suffice for two leaves.
    pub(super) fn push<S: NodeSpace>(&mut self, tree: &mut AffineTree<S>, pair: LeafPair) -> Result<()> {
        let full = tree.options.node_bytes as usize * FULL / QUARTERS;
        self.bytes += pair.bytes();
        self.pending.push(pair);
        if self.bytes < 2 * full {
            return Ok(());
        }
        let mut bytes = 0;
        let end = self.pending.iter().position(|pair| {
            bytes += pair.bytes();
            bytes > full
        });
        let rest = self.pending.split_off(end.unwrap_or(self.pending.len()).max(1));
        let from = self.next_from();
        let leaf = std::mem::replace(&mut self.pending, rest);
        self.bytes -= leaf_bytes(&leaf);
        self.made.push(tree.write_leaf_for(from, &leaf, self.cause)?);
        Ok(())
    }

    /// Writes the remaining pairs, and returns the leaves, of which there is at least one.
    pub(super) fn finish<S: NodeSpace>(
        mut self,
        tree: &mut AffineTree<S>,
        from: BoxedBytes,
    ) -> Result<Vec<BufferedChild>> {
        if !self.pending.is_empty() || self.made.is_empty() {
            let next = self.next_from();
            let pending = std::mem::take(&mut self.pending);
            self.made.extend(tree.write_leaves(next, &pending, self.cause)?);
        }
        assert!(self.bytes == 0 || !self.made.is_empty(), "no pair is left out");
        self.made[0].from = from;
        Ok(self.made)
    }
}

impl<S: NodeSpace> AffineTree<S> {
    /// Returns whether a child of a node is out of its band while the node itself is within its
    /// own.
    pub(super) fn must_rebuild(&self, node: &InnerNode) -> bool {
        WeightBand::of(self.options.fanout, node.height).has(node.weight()) && self.has_unbalanced_child(node)
    }

    fn has_unbalanced_child(&self, node: &InnerNode) -> bool {
        let band = WeightBand::of(self.options.fanout, node.height - 1);
        node.height > 1 && node.children.iter().any(|child| !band.has(child.weight))
    }

    /// Returns whether the root's height matches its weight and its children are in their bands.
    pub(super) fn root_fits(&self, root: &InnerNode) -> bool {
        root.height == self.root_height(root.weight()) && !self.has_unbalanced_child(root)
    }

    /// Returns the height of a root with this weight: the lowest whose limit is not exceeded.
    fn root_height(&self, weight: u64) -> u8 {
        let balanced = self.options.variant == AffineVariant::WeightBalanced;
        let fits = |height: &u8| {
            let limit = match balanced {
                true => WeightBand::of(self.options.fanout, *height).most_of_root(),
                false => self.bulk_fanout().saturating_pow(u32::from(*height)),
            };
            weight <= limit
        };
        (1..MOST_HEIGHTS as u8)
            .find(fits)
            .unwrap_or(MOST_HEIGHTS as u8 - 1)
    }

    /// Returns the number of children of a node in a rebuilt subtree.
    fn bulk_fanout(&self) -> u64 {
        match self.options.variant {
            AffineVariant::BTree => {
                // The estimate assumes that pivots are at most as long as the keys of typical
                // elements.
                let part = FRONT_PART + SEGMENT_HEAD + self.options.element_bytes as usize / 4;
                let bytes = (self.options.node_bytes as usize).saturating_sub(INDEX_HEAD) * FULL / QUARTERS;
                (bytes / part).max(2) as u64
            }
            _ => u64::from(self.options.fanout),
        }
    }

    /// Rebuilds the subtree of a node: its messages are applied, its leaves are three quarters
    /// full, and the weights of its nodes are even.
    pub(super) fn rebuild(&mut self, node: InnerNode) -> Result<InnerNode> {
        let height = node.height;
        assert!(height > 1, "leaves alone need no balance");
        let leaves = self.gather_leaves(node)?;
        self.build(leaves, height)
    }

    /// Rebuilds the whole tree with the height that its weight requires.
    pub(super) fn rebuild_root(&mut self, root: InnerNode) -> Result<InnerNode> {
        assert_eq!(self.levels[usize::from(root.height)], 1, "there is one root");
        self.levels[usize::from(root.height)] -= 1;
        let leaves = self.gather_leaves(root)?;
        self.build_root(leaves)
    }

    /// Builds a root above leaves.
    pub(super) fn build_root(&mut self, leaves: Vec<BufferedChild>) -> Result<InnerNode> {
        let height = self.root_height(leaves.len() as u64);
        self.levels.resize(usize::from(height) + 1, 0);
        // The nodes below are written immediately, since they may exceed the memory limit.
        let before = std::mem::replace(&mut self.resident_height, height);
        let built = self.build(leaves, height);
        self.resident_height = before.min(height).max(1);
        let root = built?;
        self.levels[usize::from(height)] += 1;
        Ok(root)
    }

    fn gather_leaves(&mut self, node: InnerNode) -> Result<Vec<BufferedChild>> {
        let from = node
            .children
            .first()
            .map(|child| child.from.clone())
            .unwrap_or_default();
        let mut leaves = BulkLeafWriter::new(RequestCause::Rebuild);
        let height = node.height;
        for child in node.children {
            self.collect_pairs(child, height - 1, &mut leaves)?;
        }
        let leaves = leaves.finish(self, from)?;
        AffineCounters::add(&self.figures.rebuilds, 1);
        AffineCounters::add(&self.figures.rebuilt_leaves, leaves.len() as u64);
        Ok(leaves)
    }

    /// Collects the pairs of a subtree in order, with all messages applied.
    fn collect_pairs(
        &mut self,
        mut child: BufferedChild,
        height: u8,
        leaves: &mut BulkLeafWriter,
    ) -> Result<()> {
        let messages = child.buffer.take();
        match self.take(&mut child, height, RequestCause::Rebuild)? {
            NodeBody::Leaf(pairs) => {
                for pair in self.apply_to_leaf(pairs, messages)? {
                    leaves.push(self, pair)?;
                }
            }
            NodeBody::Inner(mut inner) => {
                inner.deliver(&*self.operator, messages);
                for child in inner.children {
                    self.collect_pairs(child, height - 1, leaves)?;
                }
            }
        }
        Ok(())
    }

    /// Builds a node at the given height above leaves.
    fn build(&mut self, leaves: Vec<BufferedChild>, height: u8) -> Result<InnerNode> {
        assert!(height > 0 && !leaves.is_empty(), "a node has leaves below it");
        if height == 1 {
            return Ok(InnerNode {
                height,
                children: leaves,
            });
        }
        let weight = leaves.len() as u64;
        let mut left = self.shares(weight, height);
        let (mut children, mut leaves) = (Vec::with_capacity(left as usize), leaves);
        while left > 0 {
            let rest = leaves.split_off(leaves.len() / left as usize);
            let from = leaves[0].from.clone();
            let below = self.build(leaves, height - 1)?;
            children.push(self.place_node(from, below, RequestCause::Rebuild)?);
            (leaves, left) = (rest, left - 1);
        }
        assert!(leaves.is_empty(), "every leaf has a parent");
        Ok(InnerNode { height, children })
    }

    /// Returns the number of children, one height lower, that share a weight.
    fn shares(&self, weight: u64, height: u8) -> u64 {
        let fanout = self.bulk_fanout();
        let usual = fanout.saturating_pow(u32::from(height) - 1);
        let nearest = (weight + usual / 2) / usual;
        if self.options.variant != AffineVariant::WeightBalanced {
            // The number is at most the number of leaves and the maximum fan-out of a node.
            return weight.div_ceil(usual).clamp(1, fanout);
        }
        let band = WeightBand::of(self.options.fanout, height - 1);
        let (fewest, most) = (weight.div_ceil(band.most), weight / band.least);
        nearest.clamp(fewest.max(1), most.max(fewest).max(1))
    }

    /// Fills an empty dictionary with pairs in key order. Does not commit.
    ///
    /// # Errors
    /// [`Error::BadOption`] when the dictionary is not empty or the keys are not in order;
    /// [`Error::TooLong`]; or an error of the space, after which the dictionary refuses work.
    pub fn load_sorted(&mut self, pairs: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) -> Result<()> {
        self.ensure_usable()?;
        let done = self.load_pairs(pairs.into_iter());
        self.poison_on_error(done)
    }

    fn load_pairs(&mut self, pairs: impl Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Result<()> {
        let refuse = |why: &str| Error::BadOption {
            option: "pairs",
            why: why.to_owned(),
        };
        let mut root = self.take_root();
        let mut first = root.children.pop();
        let old = match (&mut first, root.children.is_empty()) {
            (Some(child), true) if child.buffer.bytes() == 0 && root.height == 1 => {
                self.take(child, 0, RequestCause::Rebuild)?
            }
            _ => return Err(refuse("only an empty dictionary is loaded: insert them")),
        };
        if !matches!(&old, NodeBody::Leaf(pairs) if pairs.is_empty()) {
            return Err(refuse("only an empty dictionary is loaded: insert them"));
        }
        let limit = self.options.pair_limit();
        let mut leaves = BulkLeafWriter::new(RequestCause::Rebuild);
        let mut before: Option<BoxedBytes> = None;
        for (key, value) in pairs {
            let (key, value): (BoxedBytes, BoxedBytes) = (key.into(), value.into());
            if before.as_ref().is_some_and(|before| *before >= key) {
                return Err(refuse("their keys are not in order: sort them first"));
            }
            let pair = LeafPair { key, value };
            if pair.bytes() >= limit {
                let len = pair.bytes();
                return Err(Error::TooLong { len, limit });
            }
            before = Some(pair.key.clone());
            leaves.push(self, pair)?;
        }
        let leaves = leaves.finish(self, BoxedBytes::default())?;
        self.levels[usize::from(root.height)] -= 1;
        let root = self.build_root(leaves)?;
        self.root = root;
        self.choose_resident()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_are_those_of_the_source_and_every_weight_of_a_root_can_be_shared() {
        assert_eq!(WeightBand::of(16, 0), WeightBand { least: 1, most: 1 });
        assert_eq!(WeightBand::of(16, 1), WeightBand { least: 12, most: 20 });
        assert_eq!(
            WeightBand::of(16, 2),
            WeightBand {
                least: 192,
                most: 320
            }
        );
        for fanout in [8, 9, 16, 50] {
            for height in 1..4 {
                let (below, own) = (WeightBand::of(fanout, height - 1), WeightBand::of(fanout, height));
                let lowest = match height {
                    1 => 1,
                    _ => below.most_of_root() + 1,
                };
                for weight in lowest..=own.most_of_root() {
                    let children = weight.div_ceil(below.most);
                    assert!(children * below.least <= weight, "{fanout} {height} {weight}");
                }
            }
        }
    }
}

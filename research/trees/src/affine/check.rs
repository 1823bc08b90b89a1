//! Checks a dictionary: reads everything that a query can reach, and reports violations.
//!
//! - AF1: the messages for a child occupy at most B/F bytes, as does each sub-block of a leaf.
//! - AF2: with V2 and V3 a stored node consists of its segments only; its pivots are in its
//!   parent.
//! - AF3: with V3 every node's weight is in its band, and the root's weight is at most its limit.

use super::counters::RequestCause;
use super::error::Result;
use super::format::decode_pairs;
use super::node::{BufferedChild, InnerNode, NodeBody, NodeLink, PivotLocation, leaf_bytes};
use super::options::AffineVariant;
use super::rebuild::WeightBand;
use super::space::{NodeSpace, SpaceExtent};
use super::tree::AffineTree;
use std::fmt;

/// A defect of a dictionary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AffineViolation {
    /// The offset of the node; `None` for a node that is only in memory.
    pub at: Option<u64>,
    /// The violated invariant and the observed value.
    pub what: String,
}

impl fmt::Display for AffineViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "node at {at}: {}", self.what),
            None => write!(f, "node in memory: {}", self.what),
        }
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AffineCheckReport {
    pub violations: Vec<AffineViolation>,
    /// The number of pairs in leaves, and of messages above them.
    pub elements: u64,
    /// The number of nodes at each height, leaves first.
    pub levels: Vec<u64>,
}

/// The state of a running check.
struct AffineChecker {
    seen: AffineCheckReport,
    extents: Vec<SpaceExtent>,
}

impl AffineChecker {
    fn say(&mut self, link: Option<&NodeLink>, what: String) {
        let at = link.map(|link| link.extent.at);
        self.seen.violations.push(AffineViolation { at, what });
    }
}

impl<S: NodeSpace> AffineTree<S> {
    /// Reads the whole dictionary and returns all defects. Between [`AffineTree::enqueue_message`]
    /// and the last [`AffineTree::step`] the root may violate AF1.
    ///
    /// # Errors
    /// [`Error::Poisoned`](super::Error::Poisoned). Unreadable nodes are reported as defects, not
    /// as errors.
    pub fn check(&self) -> Result<AffineCheckReport> {
        self.ensure_usable()?;
        let mut check = AffineChecker {
            seen: AffineCheckReport {
                levels: vec![0; usize::from(self.root.height) + 1],
                ..AffineCheckReport::default()
            },
            extents: Vec::new(),
        };
        check.extents.extend(self.durable_root);
        self.check_node(&mut check, &self.root, None, (&[], None));
        self.check_root(&mut check);
        check.extents.sort_unstable();
        if check.extents != self.space.extents() && self.resident_is_stored() {
            let (found, expected) = (check.extents.len(), self.space.extents().len());
            check.say(
                None,
                format!("{found} extents are reached, the space has {expected}"),
            );
        }
        Ok(check.seen)
    }

    fn check_root(&self, check: &mut AffineChecker) {
        let (weight, height) = (self.root.weight(), self.root.height);
        if check.seen.levels != self.levels {
            let what = format!(
                "{:?} nodes of each height, counted as {:?}",
                check.seen.levels, self.levels
            );
            check.say(None, what);
        }
        if self.options.variant == AffineVariant::WeightBalanced {
            let limit = WeightBand::of(self.options.fanout, height).most_of_root();
            if weight > limit {
                check.say(None, format!("AF3: the root weighs {weight}, at most {limit}"));
            }
        }
    }

    /// Returns whether every node in memory equals its stored version, so that extents can be
    /// compared.
    fn resident_is_stored(&self) -> bool {
        fn stored(node: &InnerNode) -> bool {
            let mut children = node.children.iter();
            children.all(|child| child.link.is_some() && child.node.as_ref().is_none_or(|node| stored(node)))
        }
        stored(&self.root)
    }

    fn check_node(
        &self,
        check: &mut AffineChecker,
        node: &InnerNode,
        link: Option<&NodeLink>,
        keys: (&[u8], Option<&[u8]>),
    ) {
        check.seen.levels[usize::from(node.height)] += 1;
        let (from, end) = keys;
        if node.children.first().is_none_or(|first| *first.from != *from) {
            check.say(
                link,
                "the first child does not begin where the node does".to_owned(),
            );
        }
        for (at, child) in node.children.iter().enumerate() {
            let next = node.children.get(at + 1).map(|next| &*next.from).or(end);
            if next.is_some_and(|next| *next <= *child.from) {
                check.say(link, format!("pivots {at} and {} are not in order", at + 1));
            }
            self.check_buffer(check, child, link, next);
            let below = node.height - 1;
            let band = WeightBand::of(self.options.fanout, below);
            if self.options.variant == AffineVariant::WeightBalanced && !band.has(child.weight) {
                let what = format!(
                    "AF3: child {at} of height {below} weighs {}, not {band:?}",
                    child.weight
                );
                check.say(link, what);
            }
            self.check_child(check, child, below, next);
        }
    }

    fn check_buffer(
        &self,
        check: &mut AffineChecker,
        child: &BufferedChild,
        link: Option<&NodeLink>,
        next: Option<&[u8]>,
    ) {
        let (bytes, limit) = (child.buffer.bytes(), self.options.segment_bytes());
        if bytes > limit {
            check.say(
                link,
                format!("AF1: {bytes} bytes of messages for a child, at most {limit}"),
            );
        }
        let messages = child.buffer.messages();
        let is_outside = |key: &[u8]| *key < *child.from || next.is_some_and(|next| key >= next);
        if messages.iter().any(|message| is_outside(&message.key)) {
            check.say(link, "a message is about a key of another child".to_owned());
        }
        check.seen.elements += messages.len() as u64;
    }

    fn check_child(&self, check: &mut AffineChecker, child: &BufferedChild, height: u8, next: Option<&[u8]>) {
        let link = child.link.as_ref();
        check
            .extents
            .extend(link.map(|link| link.extent).filter(|extent| extent.bytes > 0));
        let keys = (&*child.from, next);
        if let Some(node) = &child.node {
            if node.height != height || node.weight() != child.weight {
                let what = format!(
                    "height {} and weight {}, not {height} and {}",
                    node.height,
                    node.weight(),
                    child.weight
                );
                check.say(link, what);
            }
            return self.check_node(check, node, link, keys);
        }
        let Some(link) = link else {
            return check.say(None, "a child is neither in memory nor stored".to_owned());
        };
        let has_none = matches!(link.pivots, PivotLocation::Parent(_));
        if has_none != self.options.variant.has_pivots_in_parent() {
            check.say(
                Some(link),
                "AF2: the node's pivots are not where the variant has them".to_owned(),
            );
        }
        match self.load(RequestCause::Query, link, height) {
            Err(error) => check.say(Some(link), error.to_string()),
            Ok(NodeBody::Inner(node)) => {
                if node.weight() != child.weight {
                    let what = format!("children weigh {}, the node {}", node.weight(), child.weight);
                    check.say(Some(link), what);
                }
                self.check_node(check, &node, Some(link), keys);
            }
            Ok(NodeBody::Leaf(_)) => self.check_leaf(check, child, link, next),
        }
    }

    fn check_leaf(
        &self,
        check: &mut AffineChecker,
        child: &BufferedChild,
        link: &NodeLink,
        next: Option<&[u8]>,
    ) {
        check.seen.levels[0] += 1;
        let read = self.read_whole(RequestCause::Query, link, 0, self.indexes());
        let Ok((index, pieces)) = read else {
            return check.say(Some(link), "a leaf cannot be read twice".to_owned());
        };
        let (mut pairs, limit) = (Vec::new(), self.options.sub_block_bytes());
        for (at, piece) in pieces.iter().enumerate() {
            let before = pairs.len();
            if let Err(error) = decode_pairs(&piece.bytes, piece.at, &mut pairs) {
                check.say(Some(link), error.to_string());
            }
            if let Some(limit) = limit.filter(|limit| piece.bytes.len() > *limit) {
                check.say(
                    Some(link),
                    format!("AF1: a sub-block of {} bytes, at most {limit}", piece.bytes.len()),
                );
            }
            if at > 0
                && pairs
                    .get(before)
                    .is_none_or(|first| first.key != index.parts[at].from)
            {
                check.say(
                    Some(link),
                    format!("sub-block {at} does not begin with its first key"),
                );
            }
        }
        let is_outside = |key: &[u8]| *key < *child.from || next.is_some_and(|next| key >= next);
        if pairs.iter().any(|pair| is_outside(&pair.key)) {
            check.say(Some(link), "a pair belongs to another leaf".to_owned());
        }
        if leaf_bytes(&pairs) > self.options.node_bytes as usize || child.weight != 1 {
            let what = format!(
                "a leaf of {} bytes and weight {}",
                leaf_bytes(&pairs),
                child.weight
            );
            check.say(Some(link), what);
        }
        check.seen.elements += pairs.len() as u64;
    }
}

//! The options of an affine dictionary.

use super::error::{Error, Result};
use alluvium_model::nodes;

/// The layout of nodes and the balancing scheme: a B-tree, and four steps from a plain Bε-tree to
/// the tree of Theorem 9. Each step adds one improvement to the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AffineVariant {
    /// A B-tree: nodes are full of pivots, messages go directly to the leaves, and queries read
    /// whole nodes.
    BTree,
    /// V0: a Bε-tree whose queries read whole nodes.
    Naive,
    /// V1: the messages for each child form a separate segment. A query reads a node's pivots,
    /// then one segment.
    Segmented,
    /// V2: the pivots of a node are in its parent's segment for it, so a query needs one read per
    /// level.
    ParentPivots,
    /// V3: V2 with weight balance: a subtree is rebuilt when its weight leaves the permitted
    /// band.
    WeightBalanced,
}

impl AffineVariant {
    /// All variants, the plainest first.
    pub const ALL: [AffineVariant; 5] = [
        AffineVariant::BTree,
        AffineVariant::Naive,
        AffineVariant::Segmented,
        AffineVariant::ParentPivots,
        AffineVariant::WeightBalanced,
    ];

    /// Returns the variant's name for tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AffineVariant::BTree => "B-tree",
            AffineVariant::Naive => "V0",
            AffineVariant::Segmented => "V1",
            AffineVariant::ParentPivots => "V2",
            AffineVariant::WeightBalanced => "V3",
        }
    }

    /// Returns whether a query reads whole nodes.
    pub(super) fn reads_whole_nodes(self) -> bool {
        matches!(self, AffineVariant::BTree | AffineVariant::Naive)
    }

    /// Returns whether a node's pivots are stored in its parent (AF2).
    pub(super) fn has_pivots_in_parent(self) -> bool {
        matches!(self, AffineVariant::ParentPivots | AffineVariant::WeightBalanced)
    }
}

/// The operation that the node size is optimised for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TuningGoal {
    /// Minimises the cost of B-tree queries (Corollary 7).
    Queries,
    /// Minimises the cost of inserts into a Bε-tree with √B children (Table 3).
    Inserts,
}

/// Sizes and limits. The file stores all of them except `memory_bytes`.
///
/// ```
/// use research_trees::affine::{AffineOptions, TuningGoal, AffineVariant};
/// let usual = AffineOptions::default();
/// assert_eq!((usual.node_bytes, usual.fanout), (4 << 20, 16));
/// // A disk of Table 2, and elements of 100 bytes: the node at which inserts cost least.
/// let (goal, variant) = (TuningGoal::Inserts, AffineVariant::WeightBalanced);
/// let disk = AffineOptions::best_for(0.0022 / 4096.0, 100, goal, variant)?;
/// assert_eq!(disk.node_bytes >> 20, 2);
/// assert!(AffineOptions { fanout: 2, ..usual }.checked().is_err());
/// # Ok::<(), research_trees::affine::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AffineOptions {
    /// B: the size of a node in bytes, 512 to 64 MiB.
    pub node_bytes: u32,
    /// F: the maximum number of children of a node, at least 3. A B-tree node has as many as fit.
    pub fanout: u32,
    /// The size of a typical element, a key and its value, in bytes. F and B are compared in
    /// elements.
    pub element_bytes: u32,
    /// The size of a sub-block of a leaf in bytes, which TokuDB calls a basement node. `None`
    /// means B/F. Variants that read whole nodes have no sub-blocks.
    pub leaf_block_bytes: Option<u32>,
    /// The variant, which determines the layout.
    pub variant: AffineVariant,
    /// M: the memory for the nodes of the upper levels, each counted as `node_bytes`. A level is
    /// kept in memory if it fits together with all levels above it; the root is always in memory.
    pub memory_bytes: u64,
}

impl Default for AffineOptions {
    /// Returns TokuDB's options: nodes of 4 MiB with 16 children (§1 and §4).
    fn default() -> AffineOptions {
        AffineOptions {
            node_bytes: 4 << 20,
            fanout: 16,
            element_bytes: 116,
            leaf_block_bytes: None,
            variant: AffineVariant::WeightBalanced,
            memory_bytes: 64 << 20,
        }
    }
}

/// The minimum and maximum size of a node.
const LEAST_NODE: u32 = 512;
const MOST_NODE: u32 = 64 << 20;
/// The maximum number of children.
const MOST_FANOUT: u32 = 1 << 16;
/// With fewer children, nodes of adjacent heights could have the same weight (AF3).
const LEAST_BALANCED: u32 = 8;
const _: () = assert!(LEAST_NODE < MOST_NODE && LEAST_BALANCED > 2);

impl AffineOptions {
    /// Returns the optimal options for a device on which the transfer of one byte costs
    /// `alpha_byte` setups, as predicted by the affine model (Table 3).
    ///
    /// # Errors
    /// [`Error::BadOption`] when α of an element is not above 0 and below 1; also the errors of
    /// [`AffineOptions::checked`].
    pub fn best_for(
        alpha_byte: f64,
        element_bytes: u32,
        goal: TuningGoal,
        variant: AffineVariant,
    ) -> Result<AffineOptions> {
        let alpha = alpha_byte * f64::from(element_bytes);
        let best = match goal {
            TuningGoal::Queries => nodes::best_b_tree_node(alpha),
            TuningGoal::Inserts => nodes::best_buffered_node(alpha),
        };
        let elements = best.map_err(|why| bad("alpha", format!("{why}, for one element")))?;
        let bytes = elements * f64::from(element_bytes);
        let options = AffineOptions {
            node_bytes: bytes.min(f64::from(MOST_NODE)) as u32,
            fanout: elements.sqrt().floor().clamp(3.0, f64::from(MOST_FANOUT)) as u32,
            element_bytes,
            variant,
            ..AffineOptions::default()
        };
        options.checked()
    }

    /// Returns the options if they are valid.
    ///
    /// # Errors
    /// [`Error::BadOption`] with the valid range.
    pub fn checked(self) -> Result<AffineOptions> {
        let AffineOptions {
            node_bytes,
            fanout,
            element_bytes,
            variant,
            ..
        } = self;
        if !(LEAST_NODE..=MOST_NODE).contains(&node_bytes) {
            let why = format!("{node_bytes} bytes, but nodes have {LEAST_NODE} to {MOST_NODE}");
            return Err(bad("node_bytes", why));
        }
        if element_bytes == 0 || element_bytes > node_bytes / 4 {
            let most = node_bytes / 4;
            let why =
                format!("{element_bytes} bytes, but a node of {node_bytes} takes elements of 1 to {most}");
            return Err(bad("element_bytes", why));
        }
        self.check_leaf_block()?;
        if variant == AffineVariant::BTree {
            return Ok(self);
        }
        if !(3..=MOST_FANOUT).contains(&fanout) {
            let why = format!("{fanout} children, but a node has 3 to {MOST_FANOUT}: log F must be above 1");
            return Err(bad("fanout", why));
        }
        if variant == AffineVariant::WeightBalanced && fanout < LEAST_BALANCED {
            let why = format!(
                "{fanout} children, but subtrees are balanced by weight with {LEAST_BALANCED} or more"
            );
            return Err(bad("fanout", why));
        }
        let (elements, least) = (u64::from(node_bytes / element_bytes), u64::from(fanout).pow(2));
        if elements < least {
            let why = format!(
                "a node of {node_bytes} bytes has {elements} elements of {element_bytes}, fewer than the square of {fanout} children: \
                 choose nodes of {} bytes, or fewer children",
                least * u64::from(element_bytes)
            );
            return Err(bad("node_bytes", why));
        }
        Ok(self)
    }

    /// Checks the size of a sub-block, if it is set.
    fn check_leaf_block(&self) -> Result<()> {
        let Some(bytes) = self.leaf_block_bytes else {
            return Ok(());
        };
        if self.variant.reads_whole_nodes() {
            let why = format!(
                "{bytes} bytes, but {} reads leaves whole: leave it out",
                self.variant.name()
            );
            return Err(bad("leaf_block_bytes", why));
        }
        // The minimum number of elements in a node.
        let (least, most) = (self.element_bytes.saturating_mul(4), self.node_bytes);
        if !(least..=most).contains(&bytes) {
            let why = format!(
                "{bytes} bytes, but a sub-block takes four elements or more, and a leaf at most: {least} to {most}"
            );
            return Err(bad("leaf_block_bytes", why));
        }
        Ok(())
    }

    /// Returns the maximum size of the messages for one child, in bytes (AF1).
    pub(super) fn segment_bytes(&self) -> usize {
        match self.variant {
            AffineVariant::BTree => 0,
            _ => (self.node_bytes / self.fanout) as usize,
        }
    }

    /// Returns the maximum size of a sub-block in bytes; `None` if a leaf is a single block.
    pub(super) fn sub_block_bytes(&self) -> Option<usize> {
        match (self.variant, self.leaf_block_bytes) {
            (AffineVariant::BTree, _) => None,
            (_, Some(bytes)) => Some(bytes as usize),
            (_, None) => Some(self.segment_bytes()),
        }
    }

    /// Returns the maximum encoded size of a pair, in bytes.
    pub(super) fn pair_limit(&self) -> usize {
        match self.variant {
            AffineVariant::BTree => (self.node_bytes / 4) as usize,
            _ => {
                let block = self.sub_block_bytes();
                block.map_or(usize::MAX, |block| block.min(self.segment_bytes()))
            }
        }
    }

    /// Returns the maximum number of children of a node without weight balance; a B-tree node has
    /// as many as fit.
    pub(super) fn most_children(&self) -> usize {
        (self.fanout as usize * 3).div_ceil(2)
    }
}

/// Checks α, the cost of one byte or one element in setups (Definition 2).
///
/// # Errors
/// [`Error::BadOption`] unless it is above 0, at most 1, and finite.
pub fn checked_alpha(alpha: f64) -> Result<f64> {
    if alpha.is_finite() && alpha > 0.0 && alpha <= 1.0 {
        return Ok(alpha);
    }
    Err(bad(
        "alpha",
        format!("{alpha}, but a transfer costs above 0 and at most 1 setup"),
    ))
}

fn bad(option: &'static str, why: String) -> Error {
    Error::BadOption { option, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(options: AffineOptions) -> String {
        options.checked().unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_work_is_refused_with_the_reason() {
        let usual = AffineOptions::default();
        assert!(usual.checked().is_ok());
        for fanout in [0, 1, 2] {
            assert!(refused(AffineOptions { fanout, ..usual }).contains("log F must be above 1"));
        }
        let small = AffineOptions {
            node_bytes: 16 << 10,
            ..usual
        };
        assert!(
            refused(small).contains("fewer than the square"),
            "{}",
            refused(small)
        );
        let b_tree = AffineOptions {
            variant: AffineVariant::BTree,
            ..small
        };
        assert!(b_tree.checked().is_ok(), "a B-tree has no buffers");
        let few = AffineOptions { fanout: 5, ..usual };
        assert!(refused(few).contains("8 or more"));
        assert!(
            AffineOptions {
                variant: AffineVariant::ParentPivots,
                ..few
            }
            .checked()
            .is_ok()
        );
        assert!(
            refused(AffineOptions {
                node_bytes: 0,
                ..usual
            })
            .contains("512")
        );
        assert!(
            refused(AffineOptions {
                node_bytes: u32::MAX,
                ..usual
            })
            .contains("512")
        );
        for element_bytes in [0, 2 << 20] {
            assert!(
                refused(AffineOptions {
                    element_bytes,
                    ..usual
                })
                .contains("elements of 1 to")
            );
        }
        for alpha in [0.0, -1.0, 1.5, f64::NAN, f64::INFINITY] {
            assert!(
                checked_alpha(alpha)
                    .unwrap_err()
                    .to_string()
                    .contains("at most 1 setup")
            );
            let best = AffineOptions::best_for(alpha, 100, TuningGoal::Inserts, AffineVariant::Naive);
            assert!(best.unwrap_err().to_string().contains("alpha"));
        }
        assert!(checked_alpha(1.0).is_ok());
    }

    #[test]
    fn sub_blocks_that_no_leaf_can_have_are_refused() {
        let usual = AffineOptions::default();
        for (bytes, variant) in [
            (0, AffineVariant::WeightBalanced),
            (463, AffineVariant::ParentPivots),
            ((4 << 20) + 1, AffineVariant::Segmented),
            (64 << 10, AffineVariant::Naive),
            (64 << 10, AffineVariant::BTree),
        ] {
            let basement = AffineOptions {
                leaf_block_bytes: Some(bytes),
                variant,
                ..usual
            };
            assert!(
                refused(basement).contains("leaf_block_bytes"),
                "{}",
                refused(basement)
            );
        }
    }

    #[test]
    fn the_model_chooses_the_nodes_of_table_2() {
        // Spec 1.5: the best node sizes for inserts in MiB, and for a B-tree in KiB.
        let disks = [
            (0.033 / 15.0, 2.7, 263.0),
            (0.041 / 13.0, 1.9, 192.0),
            (0.021 / 18.0, 4.9, 460.0),
            (0.026 / 16.0, 3.5, 343.0),
        ];
        for (alpha, mib, kib) in disks {
            let best = |goal, variant| AffineOptions::best_for(alpha / 4096.0, 100, goal, variant).unwrap();
            let inserts = best(TuningGoal::Inserts, AffineVariant::WeightBalanced);
            assert!(
                (f64::from(inserts.node_bytes) / 1_048_576.0 - mib).abs() < 0.1,
                "{inserts:?}"
            );
            let queries = best(TuningGoal::Queries, AffineVariant::BTree);
            assert!(
                (f64::from(queries.node_bytes) / 1024.0 - kib).abs() < 1.0,
                "{queries:?}"
            );
        }
    }
}

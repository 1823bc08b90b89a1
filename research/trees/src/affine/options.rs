//! What an affine dictionary is made with.

use super::error::{Error, Result};
use alluvium_model::nodes;

/// How nodes are laid out and kept in balance: a B-tree, and four steps from a plain Bε-tree to the
/// one of Theorem 9. Each step adds one thing to the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// A B-tree: nodes are full of pivots, messages go to their leaves at once, and whole nodes are
    /// read.
    BTree,
    /// V0: a Bε-tree whose nodes are read whole.
    Naive,
    /// V1: the messages of each child are a segment of their own. A query reads a node's pivots,
    /// then one segment.
    Segmented,
    /// V2: the pivots of a node are in its parent's segment for it, so that a query needs one read
    /// a level.
    ParentPivots,
    /// V3: the same, with subtrees that are built again when one weighs too much or too little.
    WeightBalanced,
}

impl Variant {
    /// All of them, from the plainest on.
    pub const ALL: [Variant; 5] = [
        Variant::BTree,
        Variant::Naive,
        Variant::Segmented,
        Variant::ParentPivots,
        Variant::WeightBalanced,
    ];

    /// Returns a name for tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Variant::BTree => "B-tree",
            Variant::Naive => "V0",
            Variant::Segmented => "V1",
            Variant::ParentPivots => "V2",
            Variant::WeightBalanced => "V3",
        }
    }

    /// Returns whether a query reads whole nodes.
    pub(super) fn reads_whole_nodes(self) -> bool {
        matches!(self, Variant::BTree | Variant::Naive)
    }

    /// Returns whether pivots stand in the parent (AF2).
    pub(super) fn has_pivots_in_parent(self) -> bool {
        matches!(self, Variant::ParentPivots | Variant::WeightBalanced)
    }
}

/// What nodes are chosen for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Goal {
    /// Queries of a B-tree cost least (Corollary 7).
    Queries,
    /// Inserts into a Bε-tree with √B children cost least (Table 3).
    Inserts,
}

/// Sizes and limits. All but `memory_bytes` are kept in the file.
///
/// ```
/// use research_trees::affine::{AffineOptions, Goal, Variant};
/// let usual = AffineOptions::default();
/// assert_eq!((usual.node_bytes, usual.fanout), (4 << 20, 16));
/// // A disk of Table 2, and elements of 100 bytes: the node at which inserts cost least.
/// let disk = AffineOptions::best_for(0.0022 / 4096.0, 100, Goal::Inserts, Variant::WeightBalanced)?;
/// assert_eq!(disk.node_bytes >> 20, 2);
/// assert!(AffineOptions { fanout: 2, ..usual }.checked().is_err());
/// # Ok::<(), research_trees::affine::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AffineOptions {
    /// B: bytes of a node, 512 to 64 MiB.
    pub node_bytes: u32,
    /// F: children of a node, at least 3. A B-tree has as many as fit.
    pub fanout: u32,
    /// Bytes of a usual element, a key and its value. F and B are compared in elements.
    pub element_bytes: u32,
    /// Bytes of a sub-block of a leaf, which TokuDB calls a basement node. None stands for B/F.
    /// Trees that read nodes whole have none.
    pub leaf_block_bytes: Option<u32>,
    /// The layout.
    pub variant: Variant,
    /// M: memory for the nodes of the upper levels, each counted as `node_bytes`. A level is in
    /// memory if it fits with all levels above it; the root always is.
    pub memory_bytes: u64,
}

impl Default for AffineOptions {
    /// Returns those of TokuDB: nodes of 4 MiB with 16 children (§1 and §4).
    fn default() -> AffineOptions {
        AffineOptions {
            node_bytes: 4 << 20,
            fanout: 16,
            element_bytes: 116,
            leaf_block_bytes: None,
            variant: Variant::WeightBalanced,
            memory_bytes: 64 << 20,
        }
    }
}

/// The smallest and the largest node.
const LEAST_NODE: u32 = 512;
const MOST_NODE: u32 = 64 << 20;
/// The most children.
const MOST_FANOUT: u32 = 1 << 16;
/// With fewer children, nodes of neighbouring heights may have the same weight (AF3).
const LEAST_BALANCED: u32 = 8;
const _: () = assert!(LEAST_NODE < MOST_NODE && LEAST_BALANCED > 2);

impl AffineOptions {
    /// Returns the options with which a device does best whose transfer of one byte costs
    /// `alpha_byte` setups, as the affine model predicts (Table 3).
    ///
    /// # Errors
    /// [`Error::BadOption`] when α of an element is not above 0 and below 1; or as
    /// [`AffineOptions::checked`].
    pub fn best_for(
        alpha_byte: f64,
        element_bytes: u32,
        goal: Goal,
        variant: Variant,
    ) -> Result<AffineOptions> {
        let alpha = alpha_byte * f64::from(element_bytes);
        let best = match goal {
            Goal::Queries => nodes::best_b_tree_node(alpha),
            Goal::Inserts => nodes::best_buffered_node(alpha),
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

    /// Checks that a dictionary can be made with these options, and returns them.
    ///
    /// # Errors
    /// [`Error::BadOption`], which says what would be right.
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
        if variant == Variant::BTree {
            return Ok(self);
        }
        if !(3..=MOST_FANOUT).contains(&fanout) {
            let why = format!("{fanout} children, but a node has 3 to {MOST_FANOUT}: log F must be above 1");
            return Err(bad("fanout", why));
        }
        if variant == Variant::WeightBalanced && fanout < LEAST_BALANCED {
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

    /// Checks the size of a sub-block, if one was chosen.
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
        // As few elements as a node may have.
        let (least, most) = (self.element_bytes.saturating_mul(4), self.node_bytes);
        if !(least..=most).contains(&bytes) {
            let why = format!(
                "{bytes} bytes, but a sub-block takes four elements or more, and a leaf at most: {least} to {most}"
            );
            return Err(bad("leaf_block_bytes", why));
        }
        Ok(())
    }

    /// Returns the most bytes of the messages for one child (AF1).
    pub(super) fn segment_bytes(&self) -> usize {
        match self.variant {
            Variant::BTree => 0,
            _ => (self.node_bytes / self.fanout) as usize,
        }
    }

    /// Returns the most bytes of a sub-block of a leaf; none where a leaf is one.
    pub(super) fn sub_block_bytes(&self) -> Option<usize> {
        match (self.variant, self.leaf_block_bytes) {
            (Variant::BTree, _) => None,
            (_, Some(bytes)) => Some(bytes as usize),
            (_, None) => Some(self.segment_bytes()),
        }
    }

    /// Returns the most bytes of a pair as it is stored.
    pub(super) fn pair_limit(&self) -> usize {
        match self.variant {
            Variant::BTree => (self.node_bytes / 4) as usize,
            _ => {
                let block = self.sub_block_bytes();
                block.map_or(usize::MAX, |block| block.min(self.segment_bytes()))
            }
        }
    }

    /// Returns the most children of a node whose weight is not balanced; a B-tree has as many as
    /// fit.
    pub(super) fn most_children(&self) -> usize {
        (self.fanout as usize * 3).div_ceil(2)
    }
}

/// Checks α: what one byte, or one element, costs in setups (Definition 2).
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
            variant: Variant::BTree,
            ..small
        };
        assert!(b_tree.checked().is_ok(), "a B-tree has no buffers");
        let few = AffineOptions { fanout: 5, ..usual };
        assert!(refused(few).contains("8 or more"));
        assert!(
            AffineOptions {
                variant: Variant::ParentPivots,
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
            let best = AffineOptions::best_for(alpha, 100, Goal::Inserts, Variant::Naive);
            assert!(best.unwrap_err().to_string().contains("alpha"));
        }
        assert!(checked_alpha(1.0).is_ok());
    }

    #[test]
    fn sub_blocks_that_no_leaf_can_have_are_refused() {
        let usual = AffineOptions::default();
        for (bytes, variant) in [
            (0, Variant::WeightBalanced),
            (463, Variant::ParentPivots),
            ((4 << 20) + 1, Variant::Segmented),
            (64 << 10, Variant::Naive),
            (64 << 10, Variant::BTree),
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
        // Spec 1.5: the best nodes for inserts in MiB, and those of a B-tree in KiB.
        let disks = [
            (0.033 / 15.0, 2.7, 263.0),
            (0.041 / 13.0, 1.9, 192.0),
            (0.021 / 18.0, 4.9, 460.0),
            (0.026 / 16.0, 3.5, 343.0),
        ];
        for (alpha, mib, kib) in disks {
            let best = |goal, variant| AffineOptions::best_for(alpha / 4096.0, 100, goal, variant).unwrap();
            let inserts = best(Goal::Inserts, Variant::WeightBalanced);
            assert!(
                (f64::from(inserts.node_bytes) / 1_048_576.0 - mib).abs() < 0.1,
                "{inserts:?}"
            );
            let queries = best(Goal::Queries, Variant::BTree);
            assert!(
                (f64::from(queries.node_bytes) / 1024.0 - kib).abs() < 1.0,
                "{queries:?}"
            );
        }
    }
}

//! Node sizes in the affine model: the costs of operations on B-trees and Bε-trees, and the node
//! sizes that minimise them (Bender §4 and §5, Table 3).
//!
//! All sizes are numbers of elements. α is per element, so an access of x elements costs 1 + αx
//! times the setup time. Operation costs are multiples of the setup time, per unit of ln(N/M) for a
//! tree of N elements whose top M are in memory: multiply by [`height`] to get the cost of an
//! operation. Constants that O(…) hides are set to one.
//!
//! ```
//! use alluvium_model::nodes;
//! // A disk of Table 2 (α = 0.0022 for 4 KiB), and elements of 100 bytes.
//! let alpha = 0.0022 * 100.0 / 4096.0;
//! let kib = nodes::best_b_tree_node(alpha)? * 100.0 / 1024.0;
//! assert_eq!(kib.round(), 263.0);
//! let (small, large) = (nodes::b_tree(alpha, 164.0)?, nodes::b_tree(alpha, 42_000.0)?);
//! assert!(small.query < large.query, "nodes of 16 KiB cost less than those of 4 MiB");
//! # Ok::<(), alluvium_model::nodes::BadParameter>(())
//! ```

pub use crate::parameter::BadParameter;

/// The costs of operations on a tree, as multiples of the setup time per unit of ln(N/M).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeCosts {
    /// Average cost of an insert or a delete.
    pub insert: f64,
    /// Cost of a point query.
    pub query: f64,
}

/// Returns ln(N/M), the factor that all costs of this module share, or 0 if the tree fits into
/// memory.
///
/// # Errors
/// [`BadParameter`] unless both arguments are positive and finite.
pub fn height(elements: f64, in_memory: f64) -> Result<f64, BadParameter> {
    let elements = checked("the number of elements", elements, 0.0)?;
    let in_memory = checked("the number of elements in memory", in_memory, 0.0)?;
    Ok((elements / in_memory).ln().max(0.0))
}

/// Returns the costs of operations on a B-tree with nodes of `node` elements (Lemma 5).
///
/// # Errors
/// [`BadParameter`] unless α is positive and a node has at least one element.
pub fn b_tree(alpha: f64, node: f64) -> Result<NodeCosts, BadParameter> {
    let (alpha, node) = (checked("α", alpha, 0.0)?, checked("the node", node, 1.0)?);
    let cost = (1.0 + alpha * node) / node.ln_1p();
    Ok(NodeCosts {
        insert: cost,
        query: cost,
    })
}

/// Returns the costs of operations on a Bε-tree whose queries read only one segment of each node.
/// For this purpose, a node's pivots are stored in its parent, and its buffer is divided into a
/// segment per child (Theorem 9, Table 3).
///
/// # Errors
/// [`BadParameter`] unless α is positive, the fanout is at least 2, and a node has at least as many
/// elements as children.
pub fn buffered(alpha: f64, node: f64, fanout: f64) -> Result<NodeCosts, BadParameter> {
    let (alpha, node, fanout) = buffered_parameters(alpha, node, fanout)?;
    Ok(NodeCosts {
        insert: fanout * (1.0 + alpha * node) / (node * fanout.ln()),
        query: (fanout + alpha * fanout * fanout + alpha * node) / (fanout * fanout.ln()),
    })
}

/// Returns the costs of operations on a Bε-tree that always reads and writes whole nodes (Lemma 8).
///
/// # Errors
/// As [`buffered`].
pub fn buffered_naive(alpha: f64, node: f64, fanout: f64) -> Result<NodeCosts, BadParameter> {
    let (alpha, node, fanout) = buffered_parameters(alpha, node, fanout)?;
    Ok(NodeCosts {
        insert: (fanout / node + alpha * fanout) / fanout.ln(),
        query: (1.0 + alpha * node) / fanout.ln(),
    })
}

/// Returns the node size, in elements, that minimises the cost of point operations on a B-tree: the
/// solution of 1 + αx = α ln(x + 1) (1 + x) (Corollary 7). It is about 1/(α ln(1/α)), which is less
/// than 1/α.
///
/// # Errors
/// [`BadParameter`] unless α is positive and less than 1.
pub fn best_b_tree_node(alpha: f64) -> Result<f64, BadParameter> {
    let alpha = small(alpha)?;
    Ok(root(1.0, 1.0 / alpha, |node| {
        alpha * node.ln_1p() * (1.0 + node) - 1.0 - alpha * node
    }))
}

/// Returns the node size B, in elements, that minimises the cost of inserts into a Bε-tree whose
/// nodes have √B children: the solution of αB/(1 + αB) = 1/2 + 1/ln B.
///
/// # Errors
/// As [`best_b_tree_node`].
pub fn best_buffered_node(alpha: f64) -> Result<f64, BadParameter> {
    let alpha = small(alpha)?;
    let slope = |node: f64| alpha * node / (1.0 + alpha * node) - 0.5 - 1.0 / node.ln();
    // For B > e², the right-hand side of the equation is less than 1 and the left-hand side
    // approaches 1, so there is a solution.
    let mut high = 10.0 / alpha;
    while slope(high) < 0.0 {
        high *= 2.0;
    }
    Ok(root(std::f64::consts::E, high, slope))
}

/// Returns the root of an increasing function, which must be negative at `low` and positive at
/// `high`.
fn root(mut low: f64, mut high: f64, of: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if of(middle) < 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

fn buffered_parameters(alpha: f64, node: f64, fanout: f64) -> Result<(f64, f64, f64), BadParameter> {
    let alpha = checked("α", alpha, 0.0)?;
    let fanout = checked("the fanout", fanout, 2.0)?;
    let node = checked("the node", node, 1.0)?;
    if node < fanout {
        return Err(BadParameter {
            name: "the node",
            value: node,
            must: "at least the fanout: each child has an element of it",
        });
    }
    Ok((alpha, node, fanout))
}

/// Returns α, or an error if it is so large that no optimal node size exists.
fn small(alpha: f64) -> Result<f64, BadParameter> {
    let alpha = checked("α", alpha, 0.0)?;
    if alpha >= 1.0 {
        return Err(BadParameter {
            name: "α",
            value: alpha,
            must: "less than 1: otherwise the smallest node is the best one",
        });
    }
    Ok(alpha)
}

fn checked(name: &'static str, value: f64, least: f64) -> Result<f64, BadParameter> {
    if value.is_finite() && value > 0.0 && value >= least {
        return Ok(value);
    }
    let must = match least {
        2.0 => "at least 2, and finite",
        1.0 => "at least 1, and finite",
        _ => "positive and finite",
    };
    Err(BadParameter { name, value, must })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ELEMENT: f64 = 100.0;
    const KIB: f64 = 1024.0 / ELEMENT;
    const MIB: f64 = 1024.0 * KIB;

    /// A disk of Table 2: α for 4 KiB, which is t/s; the optimal B-tree node in KiB; the relative
    /// costs of nodes of 16 KiB, 64 KiB, 1 MiB and 4 MiB; and, for some disks, the node size in MiB
    /// that minimises the cost of inserts into a Bε-tree.
    type Disk = (f64, f64, [f64; 4], Option<f64>);

    const DISKS: [Disk; 5] = [
        (0.033 / 15.0, 263.0, [1.36, 1.10, 1.17, 2.11], Some(2.7)),
        (0.041 / 13.0, 192.0, [1.31, 1.07, 1.29, 2.62], Some(1.9)),
        (0.035 / 12.0, 206.0, [1.32, 1.07, 1.26, 2.49], None),
        (0.021 / 18.0, 460.0, [1.47, 1.17, 1.05, 1.54], Some(4.9)),
        (0.026 / 16.0, 343.0, [1.41, 1.13, 1.10, 1.79], Some(3.5)),
    ];

    fn alphas() -> impl Iterator<Item = (f64, Disk)> {
        DISKS.into_iter().map(|disk| (disk.0 * ELEMENT / 4096.0, disk))
    }

    #[test]
    fn the_best_b_tree_nodes_of_the_disks_are_those_of_corollary_7() {
        for (alpha, (_, kib, relative, _)) in alphas() {
            let best = best_b_tree_node(alpha).unwrap();
            assert!((best / KIB - kib).abs() < 1.0, "{} KiB, not {kib}", best / KIB);
            assert!(
                best < 1.0 / alpha,
                "it is smaller than that of half the bandwidth"
            );
            let least = b_tree(alpha, best).unwrap().query;
            for (kib, relative) in [16.0, 64.0, 1024.0, 4096.0].into_iter().zip(relative) {
                let cost = b_tree(alpha, kib * KIB).unwrap().query;
                assert!((cost / least - relative).abs() < 0.006, "{kib}: {}", cost / least);
            }
        }
    }

    #[test]
    fn the_best_nodes_for_inserts_are_ten_times_as_large() {
        for (alpha, (.., mib)) in alphas() {
            let best = best_buffered_node(alpha).unwrap();
            if let Some(mib) = mib {
                assert!((best / MIB - mib).abs() < 0.1, "{} MiB, not {mib}", best / MIB);
            }
            let cost = |node: f64| buffered(alpha, node, node.sqrt()).unwrap().insert;
            assert!(cost(best) < cost(best * 1.1) && cost(best) < cost(best / 1.1));
        }
    }

    #[test]
    fn a_segment_is_read_for_a_third_of_a_whole_node() {
        // TokuDB's nodes of 4 MiB with 16 children, on the first disk of the table.
        let (alpha, node) = (DISKS[0].0 * ELEMENT / 4096.0, 4.0 * MIB);
        let whole = buffered_naive(alpha, node, 16.0).unwrap().query * 16f64.ln();
        assert!((whole - 3.25).abs() < 0.01, "{whole}");
        let segment = buffered(alpha, node, 16.0).unwrap().query * 16f64.ln();
        assert!((segment - 1.14).abs() < 0.01, "{segment}");
    }

    #[test]
    fn queries_of_buffered_trees_grow_with_the_root_of_the_node_only() {
        // Corollary 10: above 1/α, the cost of a B-tree grows with the node size.
        let alpha = 1e-4;
        let growth = |cost: &dyn Fn(f64) -> f64| cost(100.0 / alpha) / cost(1.0 / alpha);
        let b_tree = growth(&|node| b_tree(alpha, node).unwrap().query);
        let buffered = growth(&|node| buffered(alpha, node, node.sqrt()).unwrap().query);
        assert!(b_tree > 25.0, "{b_tree}");
        assert!(buffered < 1.1, "{buffered}");
    }

    #[test]
    fn inserts_are_faster_by_the_logarithm_of_corollary_12() {
        let alpha: f64 = 0.01;
        let tree = b_tree(alpha, best_b_tree_node(alpha).unwrap()).unwrap();
        let fanout = 1.0 / (alpha * (1.0 / alpha).ln());
        assert!((fanout - 21.7).abs() < 0.1);
        let buffered = buffered(alpha, fanout * fanout, fanout).unwrap();
        // Queries are optimal except for lower-order terms, which matter at this value of α.
        assert!(buffered.query < 1.5 * tree.query, "{buffered:?} {tree:?}");
        let faster = tree.insert / buffered.insert;
        assert!(faster > 0.5 * (1.0 / alpha).ln(), "{faster}");
    }

    #[test]
    fn what_has_no_cost_is_refused_by_name() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(b_tree(bad, 10.0).unwrap_err().name, "α");
            assert_eq!(b_tree(0.1, bad).unwrap_err().name, "the node");
            assert_eq!(buffered(0.1, 100.0, bad).unwrap_err().name, "the fanout");
            assert!(best_b_tree_node(bad).is_err() && best_buffered_node(bad).is_err());
            assert!(height(bad, 1.0).is_err() && height(1.0, bad).is_err());
        }
        let fewer = buffered_naive(0.1, 4.0, 8.0).unwrap_err();
        assert!(fewer.to_string().contains("at least the fanout"), "{fewer}");
        assert!(
            best_b_tree_node(1.0)
                .unwrap_err()
                .to_string()
                .contains("less than 1")
        );
        assert_eq!(height(10.0, 20.0), Ok(0.0));
        assert!((height(8.0, 1.0).unwrap() - 8f64.ln()).abs() < 1e-12);
    }
}

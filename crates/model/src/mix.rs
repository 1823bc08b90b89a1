//! Node sizes that are optimal for a mix of operations in the affine model (Bender §4 and §5, Table
//! 3).
//!
//! All sizes are numbers of elements, α is per element, and costs are multiples of the setup time,
//! as in [`nodes`].

use crate::minimum::minimum;
use crate::nodes::{self, NodeCosts};
use crate::parameter::{BadParameter, positive, require};

/// Frequencies of the operations on a tree. Only their ratios matter, so the unit is arbitrary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TreeOperationMix {
    /// Frequency of inserts and deletes, which cost the same.
    pub inserts: f64,
    /// Frequency of point queries. `ranges` is that of range queries.
    pub queries: f64,
    pub ranges: f64,
    /// Average number of elements that a range query returns.
    pub range: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OptimalNodes {
    /// Size of a node, as a number of elements.
    pub node: f64,
    /// Number of children of a node.
    pub fanout: f64,
    /// Average cost of an operation of the mix, as a multiple of the setup time.
    pub cost: f64,
}

impl TreeOperationMix {
    /// Returns the average cost of an operation of the mix. `costs` holds the costs of updates and
    /// point queries per unit of `height`, and `node` is the number B of elements of a leaf. A
    /// range query that returns ℓ elements costs (1 + ℓ/B)(1 + αB) more than a point query.
    ///
    /// # Errors
    /// [`BadParameter`] unless α, node and height are positive and the mix is valid.
    pub fn cost(&self, costs: NodeCosts, alpha: f64, node: f64, height: f64) -> Result<f64, BadParameter> {
        let all = self.checked()?;
        let alpha = positive("α", alpha)?;
        let node = positive("the node", node)?;
        let height = positive("the height", height)?;
        let scan = (1.0 + self.range / node) * (1.0 + alpha * node);
        let query = costs.query * height;
        let sum = self.inserts * costs.insert * height + self.queries * query + self.ranges * (query + scan);
        Ok(sum / all)
    }

    /// Returns the optimal nodes of a B-tree whose nodes have at most `most` elements.
    ///
    /// ```
    /// use alluvium_model::mix::TreeOperationMix;
    /// let lookups = TreeOperationMix { inserts: 0.0, queries: 1.0, ranges: 0.0, range: 0.0 };
    /// let alpha = 0.0022 * 100.0 / 4096.0;
    /// let best = lookups.best_b_tree(alpha, 10.0, 1e6)?;
    /// assert_eq!((best.node * 100.0 / 1024.0).round(), 263.0); // KiB
    /// # Ok::<(), alluvium_model::BadParameter>(())
    /// ```
    ///
    /// # Errors
    /// As [`cost`](TreeOperationMix::cost), and if `most` is less than 4.
    pub fn best_b_tree(&self, alpha: f64, height: f64, most: f64) -> Result<OptimalNodes, BadParameter> {
        let cost = |node: f64| self.cost(nodes::b_tree(alpha, node)?, alpha, node, height);
        checked_most(most)?;
        cost(most)?;
        let (node, cost) = least(most, |node| cost(node).unwrap_or(f64::INFINITY));
        Ok(OptimalNodes {
            node,
            fanout: node,
            cost,
        })
    }

    /// Returns the optimal node size and fanout of a Bε-tree whose nodes have at most `most`
    /// elements. For inserts alone, the largest permitted nodes are optimal.
    ///
    /// # Errors
    /// As [`best_b_tree`](TreeOperationMix::best_b_tree).
    pub fn best_buffered(&self, alpha: f64, height: f64, most: f64) -> Result<OptimalNodes, BadParameter> {
        let cost =
            |node: f64, fanout: f64| self.cost(nodes::buffered(alpha, node, fanout)?, alpha, node, height);
        checked_most(most)?;
        cost(most, most.sqrt().max(3.0))?;
        let mut best: Option<OptimalNodes> = None;
        let mut of = |at: &[f64]| {
            let (node, fanout) = (at[0].exp(), at[1].exp());
            if node > most {
                f64::INFINITY
            } else {
                cost(node, fanout).unwrap_or(f64::INFINITY)
            }
        };
        // Start the search from a small, a medium and a large node size.
        for share in [0.3, 0.6, 0.999] {
            let node = most.ln() * share;
            let start = [node.max(1.2), (node / 2.0).max(1.1)];
            let (at, cost) = minimum(&start, -0.1, &mut of);
            if best.is_none_or(|best| cost < best.cost) {
                let (node, fanout) = (at[0].exp(), at[1].exp());
                best = Some(OptimalNodes { node, fanout, cost });
            }
        }
        Ok(best.expect("the search begins three times"))
    }

    /// Returns the sum of the frequencies, or an error if the mix is invalid.
    fn checked(&self) -> Result<f64, BadParameter> {
        for (name, value) in [
            ("the inserts", self.inserts),
            ("the queries", self.queries),
            ("the ranges", self.ranges),
            ("the range", self.range),
        ] {
            let counts = value.is_finite() && value >= 0.0;
            require(name, value, counts, "finite, and not negative")?;
        }
        positive(
            "the number of operations",
            self.inserts + self.queries + self.ranges,
        )
    }
}

fn checked_most(most: f64) -> Result<(), BadParameter> {
    let counts = most.is_finite() && most >= 4.0;
    require("the largest node", most, counts, "at least 4, and finite").map(|_| ())
}

/// Minimises a unimodal function of a node size between 2 and `most` by ternary search. Returns the
/// minimum and the function's value there.
fn least(most: f64, of: impl Fn(f64) -> f64) -> (f64, f64) {
    let (mut low, mut high) = (2.0_f64.ln(), most.ln());
    for _ in 0..200 {
        let third = (high - low) / 3.0;
        if of((low + third).exp()) <= of((high - third).exp()) {
            high -= third;
        } else {
            low += third;
        }
    }
    let node = f64::midpoint(low, high).exp();
    (node, of(node))
}

/// Returns the minimum and the maximum number of children of a node in a tightly balanced tree with
/// target fanout F. The factor 1 ± 1/lg F applies twice, once for the node and once for its parent
/// (Theorem 9).
///
/// # Errors
/// [`BadParameter`] if the fanout is at most 2, because a node might then have no children.
pub fn children(fanout: f64) -> Result<(f64, f64), BadParameter> {
    let slack = 1.0 / above_two(fanout)?.log2();
    let (less, more) = (1.0 - slack, 1.0 + slack);
    Ok((fanout * less / more, fanout * more / less))
}

/// Returns the upper bound on the cost of a query per unit of `height` in a tightly balanced
/// Bε-tree: (1 + αB/F + αF)(1 + 1/lg F) / ln F (Theorem 9, with a hidden constant of 1).
///
/// # Errors
/// [`BadParameter`] if the fanout is at most 2 or exceeds the node size, or if α is not positive.
pub fn query_bound(alpha: f64, node: f64, fanout: f64) -> Result<f64, BadParameter> {
    let slack = 1.0 / above_two(fanout)?.log2();
    Ok(nodes::buffered(alpha, node, fanout)?.query * (1.0 + slack))
}

fn above_two(fanout: f64) -> Result<f64, BadParameter> {
    let grows = fanout.is_finite() && fanout > 2.0;
    require("the fanout", fanout, grows, "more than 2, and finite")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOKUPS: TreeOperationMix = TreeOperationMix {
        inserts: 0.0,
        queries: 1.0,
        ranges: 0.0,
        range: 0.0,
    };

    const INSERTS: TreeOperationMix = TreeOperationMix {
        inserts: 1.0,
        queries: 0.0,
        ..LOOKUPS
    };

    /// α of the first disk of Table 2, for elements of 100 bytes.
    const ALPHA: f64 = 0.0022 * 100.0 / 4096.0;

    fn near(found: f64, wanted: f64, share: f64) {
        assert!((found / wanted - 1.0).abs() < share, "{found}, not {wanted}");
    }

    #[test]
    fn lookups_alone_want_the_node_of_corollary_7_and_scans_larger_ones() {
        let best = LOOKUPS.best_b_tree(ALPHA, 10.0, 1e7).unwrap();
        near(best.node, nodes::best_b_tree_node(ALPHA).unwrap(), 1e-4);
        let scans = TreeOperationMix {
            ranges: 1.0,
            range: 1e6,
            ..LOOKUPS
        };
        let scanned = scans.best_b_tree(ALPHA, 10.0, 1e7).unwrap();
        assert!(scanned.node > 5.0 * best.node, "{scanned:?} {best:?}");
        // For all operations, a node size of 1/α costs at most a constant factor more than the
        // optimum (Corollary 6).
        let half = scans
            .cost(
                nodes::b_tree(ALPHA, 1.0 / ALPHA).unwrap(),
                ALPHA,
                1.0 / ALPHA,
                10.0,
            )
            .unwrap();
        assert!(half < 2.5 * scanned.cost, "{half} {scanned:?}");
    }

    #[test]
    fn the_best_buffered_tree_is_no_worse_than_its_neighbours() {
        let mixed = TreeOperationMix {
            inserts: 0.5,
            queries: 0.5,
            ..LOOKUPS
        };
        for mix in [LOOKUPS, INSERTS, mixed] {
            let best = mix.best_buffered(ALPHA, 10.0, 1e6).unwrap();
            assert!(best.fanout >= 2.0 && best.node <= 1e6, "{best:?}");
            for (node, fanout) in [(1.1, 1.0), (0.9, 1.0), (1.0, 1.1), (1.0, 0.9)] {
                let (node, fanout) = (best.node * node, best.fanout * fanout);
                if node <= 1e6 && fanout >= 2.0 && fanout <= node {
                    let costs = nodes::buffered(ALPHA, node, fanout).unwrap();
                    let cost = mix.cost(costs, ALPHA, node, 10.0).unwrap();
                    assert!(
                        cost >= best.cost * (1.0 - 1e-6),
                        "{mix:?}: {cost} at {node} {fanout}, {best:?}"
                    );
                }
            }
        }
        // In a mix with more inserts, inserts are cheaper than those of a B-tree.
        let buffered = INSERTS.best_buffered(ALPHA, 10.0, 1e6).unwrap();
        let plain = INSERTS.best_b_tree(ALPHA, 10.0, 1e6).unwrap();
        assert!(plain.cost > 20.0 * buffered.cost, "{plain:?} {buffered:?}");
        near(buffered.node, 1e6, 0.01);
    }

    #[test]
    fn a_mix_costs_the_mean_of_its_operations() {
        let costs = nodes::b_tree(ALPHA, 1000.0).unwrap();
        let mix = TreeOperationMix {
            inserts: 1.0,
            queries: 2.0,
            ranges: 1.0,
            range: 3000.0,
        };
        let scan = 4.0 * (1.0 + 1000.0 * ALPHA);
        let wanted = (4.0 * costs.query * 7.0 + scan) / 4.0;
        near(mix.cost(costs, ALPHA, 1000.0, 7.0).unwrap(), wanted, 1e-12);
    }

    #[test]
    fn nodes_in_tight_balance_have_the_children_of_theorem_9() {
        for (fanout, least, most) in [(16.0, 9.6, 26.7), (64.0, 45.7, 89.6), (128.0, 96.0, 171.0)] {
            let (fewest, largest) = children(fanout).unwrap();
            near(fewest, least, 0.005);
            near(largest, most, 0.005);
        }
        // With this fanout, the bound's slack term is one quarter.
        let bound = query_bound(ALPHA, 1e5, 16.0).unwrap();
        near(
            bound,
            1.25 * (1.0 + ALPHA * 1e5 / 16.0 + ALPHA * 16.0) / 16f64.ln(),
            1e-12,
        );
    }

    #[test]
    fn fanouts_of_two_and_mixes_of_nothing_are_refused_by_name() {
        for bad in [2.0, 1.0, 0.0, -3.0, f64::NAN, f64::INFINITY] {
            assert_eq!(children(bad).unwrap_err().name, "the fanout");
            assert_eq!(query_bound(ALPHA, 1e5, bad).unwrap_err().name, "the fanout");
        }
        let none = TreeOperationMix {
            queries: 0.0,
            ..LOOKUPS
        };
        let refused = none.best_b_tree(ALPHA, 10.0, 1e6).unwrap_err();
        assert_eq!(refused.name, "the number of operations");
        for bad in [-1.0, f64::NAN, f64::INFINITY] {
            let mix = TreeOperationMix {
                inserts: bad,
                ..LOOKUPS
            };
            assert_eq!(
                mix.best_buffered(ALPHA, 10.0, 1e6).unwrap_err().name,
                "the inserts"
            );
            assert!(LOOKUPS.best_b_tree(bad, 10.0, 1e6).is_err());
            assert!(LOOKUPS.best_b_tree(ALPHA, bad, 1e6).is_err());
            assert_eq!(
                LOOKUPS.best_buffered(ALPHA, 10.0, bad).unwrap_err().name,
                "the largest node"
            );
        }
    }
}

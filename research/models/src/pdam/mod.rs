//! B-trees on a device that transfers P blocks per step (Bender §6).
//!
//! *Scope*: the number of steps of a query with nodes of one block, of P blocks, and of P blocks
//! in van Emde Boas order; that order; a simulation with read-ahead shared among clients.
//!
//! *Must not depend on*: the device's clock, which is `PdamClock`; the nodes and keys of a store.
//!
//! Invariants:
//!
//! - **V1** The van Emde Boas order maps tree positions one-to-one to places.
//! - **V2** A step transfers at most P blocks, and read-ahead does not cross a node boundary.

mod layout;
mod simulate;

pub use layout::VanEmdeBoas;
pub use simulate::shares;

use alluvium_model::parameter::{BadParameter, at_least, positive, require};

/// The layout of a B-tree's nodes on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodePlacement {
    /// A node is one block.
    OneBlock,
    /// A node is P blocks and is read completely.
    Whole,
    /// A node is P blocks in van Emde Boas order and is read partially.
    VanEmdeBoas,
}

/// A B-tree queried by clients.
///
/// ```
/// use research_models::pdam::{NodePlacement, PdamTreeModel};
/// let tree = PdamTreeModel { keys: 1 << 30, block: 64, parallel: 8 };
/// // One client is served as with large nodes, eight as with small ones.
/// assert_eq!((tree.steps(NodePlacement::VanEmdeBoas, 1.0)? * 100.0).round(), 333.0);
/// assert_eq!((tree.steps(NodePlacement::VanEmdeBoas, 8.0)? * 100.0).round(), 500.0);
/// # Ok::<(), alluvium_model::BadParameter>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PdamTreeModel {
    /// The number of keys in the tree.
    pub keys: u64,
    /// The number of keys per block.
    pub block: u64,
    /// P, the number of blocks that the device transfers per step.
    pub parallel: u64,
}

impl PdamTreeModel {
    /// Returns the number of steps of a query with this number of concurrent clients (Lemma 13).
    ///
    /// # Errors
    /// [`BadParameter`] unless there is a client, blocks have at least two keys, and the tree has
    /// at least as many keys as a block.
    pub fn steps(&self, nodes: NodePlacement, clients: f64) -> Result<f64, BadParameter> {
        self.checked()?;
        let clients = at_least("the clients", clients, 1.0, "at least 1, and finite")?;
        let (block, parallel) = (self.block as f64, self.parallel as f64);
        let height = |fanout: f64| (self.keys as f64).ln() / fanout.ln();
        // More than P clients wait for each other.
        let wait = (clients / parallel).max(1.0);
        Ok(match nodes {
            NodePlacement::OneBlock => wait * height(block),
            NodePlacement::Whole => clients * height(parallel * block),
            NodePlacement::VanEmdeBoas => {
                let share = (parallel / clients).max(1.0);
                wait * height(share * block)
            }
        })
    }

    /// Returns the number of queries completed per step: clients divided by steps.
    ///
    /// # Errors
    /// The errors of [`steps`](PdamTreeModel::steps).
    pub fn queries_per_step(&self, nodes: NodePlacement, clients: f64) -> Result<f64, BadParameter> {
        Ok(clients / self.steps(nodes, clients)?)
    }

    fn checked(&self) -> Result<(), BadParameter> {
        at_least("the keys of a block", self.block as f64, 2.0, "at least 2")?;
        positive("the parallelism", self.parallel as f64)?;
        let fits = self.keys >= self.block;
        require(
            "the number of keys",
            self.keys as f64,
            fits,
            "at least a block of them",
        )?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: PdamTreeModel = PdamTreeModel {
        keys: 1 << 30,
        block: 64,
        parallel: 8,
    };

    const ALL: [NodePlacement; 3] = [
        NodePlacement::OneBlock,
        NodePlacement::Whole,
        NodePlacement::VanEmdeBoas,
    ];

    /// The number of clients, and the expected steps of a query for each layout of nodes.
    const TABLE: [(u32, [f64; 3]); 4] = [
        (1, [5.0, 3.33, 3.33]),
        (2, [5.0, 6.67, 3.75]),
        (4, [5.0, 13.3, 4.29]),
        (8, [5.0, 26.7, 5.0]),
    ];

    #[test]
    fn queries_take_the_steps_of_the_table() {
        for (clients, wanted) in TABLE {
            for (nodes, wanted) in ALL.into_iter().zip(wanted) {
                let found = TREE.steps(nodes, f64::from(clients)).unwrap();
                assert!(
                    (found / wanted - 1.0).abs() < 0.003,
                    "{nodes:?} {clients}: {found}"
                );
            }
        }
    }

    #[test]
    fn played_queries_take_the_steps_of_the_table_within_a_factor_of_two() {
        for (clients, wanted) in TABLE {
            for (nodes, wanted) in ALL.into_iter().zip(wanted) {
                let found = TREE.play(nodes, clients as usize, 2000, 1).unwrap();
                let ratio = found / wanted;
                assert!(
                    (0.8..2.0).contains(&ratio),
                    "{nodes:?} {clients}: {found}, not {wanted}"
                );
            }
        }
    }

    #[test]
    fn the_order_of_van_emde_boas_is_near_the_best_for_every_number_of_clients() {
        for clients in 1..=12 {
            let played = |nodes| TREE.play(nodes, clients, 1000, 2).unwrap();
            let best = played(NodePlacement::OneBlock).min(played(NodePlacement::Whole));
            let found = played(NodePlacement::VanEmdeBoas);
            assert!(found < 1.5 * best, "{clients}: {found} {best}");
            let formula = TREE.steps(NodePlacement::VanEmdeBoas, clients as f64).unwrap();
            assert!(found < 2.0 * formula, "Lemma 13: {clients}: {found} {formula}");
        }
    }

    #[test]
    fn throughput_grows_to_p_clients_and_no_further() {
        let rate = |clients| {
            TREE.queries_per_step(NodePlacement::VanEmdeBoas, clients)
                .unwrap()
        };
        assert!(rate(1.0) < rate(2.0) && rate(4.0) < rate(8.0));
        assert!((rate(16.0) - rate(8.0)).abs() < 1e-9);
        let whole = |clients| TREE.queries_per_step(NodePlacement::Whole, clients).unwrap();
        assert!((whole(8.0) - whole(1.0)).abs() < 1e-9);
    }

    #[test]
    fn trees_that_are_none_are_refused_by_name() {
        for bad in [0.0, 0.5, f64::NAN, f64::INFINITY] {
            assert_eq!(
                TREE.steps(NodePlacement::Whole, bad).unwrap_err().name,
                "the clients"
            );
        }
        let name = |tree: PdamTreeModel| tree.steps(NodePlacement::OneBlock, 1.0).unwrap_err().name;
        assert_eq!(name(PdamTreeModel { block: 1, ..TREE }), "the keys of a block");
        assert_eq!(name(PdamTreeModel { parallel: 0, ..TREE }), "the parallelism");
        assert_eq!(name(PdamTreeModel { keys: 63, ..TREE }), "the number of keys");
        assert!(
            TREE.play(NodePlacement::Whole, 0, 10, 1).is_err()
                && TREE.play(NodePlacement::Whole, 1, 0, 1).is_err()
        );
    }
}

//! A step-by-step simulation of queries with read-ahead (Bender §6).
//!
//! In each step every client requests one block. The remaining slots are distributed over the
//! requests in turn as read-ahead, which extends a request to a run of blocks within its node.

use super::layout::VanEmdeBoas;
use super::{NodePlacement, PdamTreeModel};
use alluvium_model::SplitMix64;
use alluvium_model::parameter::{BadParameter, at_least};

/// A client descending from the root to a leaf.
#[derive(Clone, Debug)]
struct ClientDescent {
    /// The number of remaining levels of the binary tree.
    left: u32,
    /// The client's position in its node, by level; 0 before it enters the node.
    position: u64,
    /// The blocks of the node that the client has read, as ranges.
    loaded: Vec<(u64, u64)>,
}

impl PdamTreeModel {
    /// Simulates queries for random keys until the given number has been answered, and returns
    /// the number of steps per query.
    ///
    /// # Errors
    /// The errors of [`steps`](PdamTreeModel::steps); also [`BadParameter`] if the number of
    /// queries is zero.
    pub fn play(
        &self,
        nodes: NodePlacement,
        clients: usize,
        queries: usize,
        seed: u64,
    ) -> Result<f64, BadParameter> {
        self.checked()?;
        at_least("the clients", clients as f64, 1.0, "at least 1")?;
        at_least("the queries", queries as f64, 1.0, "at least 1")?;
        let blocks = if nodes == NodePlacement::OneBlock {
            1
        } else {
            self.parallel
        };
        // The number of complete levels that fit: a node of 512 keys has 9.
        let order = VanEmdeBoas::new((blocks * self.block).ilog2())?;
        let height = self.keys.next_power_of_two().ilog2();
        let mut random = SplitMix64::from_seed(seed);
        let start = ClientDescent {
            left: height,
            position: 0,
            loaded: Vec::new(),
        };
        let mut walks = vec![start.clone(); clients];
        let (mut steps, mut answered) = (0_u64, 0_usize);
        while answered < queries {
            let shares = match nodes {
                NodePlacement::OneBlock => one_each(clients, self.parallel, steps),
                // Reading a node needs all slots, so clients are served in turn.
                NodePlacement::Whole => whole(clients, self.parallel, steps),
                NodePlacement::VanEmdeBoas => shares(clients, self.parallel, steps),
            };
            steps += 1;
            for (walk, share) in walks.iter_mut().zip(shares) {
                if share > 0 && walk.step(&order, self.block, blocks, share, &mut random) {
                    answered += 1;
                    walk.clone_from(&start);
                }
            }
        }
        Ok(steps as f64 * clients as f64 / answered as f64)
    }
}

impl ClientDescent {
    /// Loads a run of `share` blocks, and descends as far as they allow. Returns whether the
    /// query is answered.
    fn step(
        &mut self,
        order: &VanEmdeBoas,
        block: u64,
        blocks: u64,
        share: u64,
        random: &mut SplitMix64,
    ) -> bool {
        let position = self.position.max(1);
        let wanted = order.place(position) / block;
        // V2: a run that would cross the end of the node starts earlier.
        let from = wanted.min(blocks.saturating_sub(share));
        self.loaded.push((from, (from + share).min(blocks)));
        self.position = position;
        while self.left > 0 {
            let at = order.place(self.position) / block;
            if !self.loaded.iter().any(|&(from, to)| from <= at && at < to) {
                return false;
            }
            self.left -= 1;
            self.position = 2 * self.position + random.below(2) as u64;
            if self.position.ilog2() as usize == order.height() {
                // Continue with the next node.
                self.position = 0;
                self.loaded.clear();
                return self.left == 0;
            }
        }
        true
    }
}

/// Returns the number of blocks per client in a step: P divided by the number of clients. The
/// remainder is distributed in turn, so all clients get the same number over many steps.
///
/// ```
/// use research_models::pdam::shares;
/// assert_eq!([shares(3, 8, 0), shares(3, 8, 1)], [[3, 3, 2], [3, 2, 3]]);
/// ```
#[must_use]
pub fn shares(clients: usize, parallel: u64, step: u64) -> Vec<u64> {
    let count = clients as u64;
    let (each, rest) = (parallel / count, parallel % count);
    // Clients that got an extra block in one step are last in the next.
    let share = |client: u64| each + u64::from((client + count - (step * rest) % count) % count < rest);
    (0..count).map(share).collect()
}

fn one_each(clients: usize, parallel: u64, step: u64) -> Vec<u64> {
    shares(clients, parallel, step)
        .into_iter()
        .map(|share| share.min(1))
        .collect()
}

fn whole(clients: usize, parallel: u64, step: u64) -> Vec<u64> {
    let served = step % clients as u64;
    (0..clients as u64)
        .map(|client| if client == served { parallel } else { 0 })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_shared_evenly_over_steps_and_never_exceeded() {
        for parallel in [1_u64, 5, 8] {
            for clients in 1..=13_usize {
                let mut got = vec![0; clients];
                let steps = 40 * clients as u64;
                for step in 0..steps {
                    let now = shares(clients, parallel, step);
                    assert_eq!(now.iter().sum::<u64>(), parallel, "V2");
                    assert!(now.iter().max().unwrap() - now.iter().min().unwrap() <= 1);
                    for (got, now) in got.iter_mut().zip(now) {
                        *got += now;
                    }
                }
                let fair = steps * parallel / clients as u64;
                assert!(
                    got.iter().all(|got| got.abs_diff(fair) <= 1),
                    "{clients} {parallel}: {got:?}"
                );
            }
        }
    }

    #[test]
    fn one_client_reads_a_node_in_a_step() {
        let tree = PdamTreeModel {
            keys: 1 << 27,
            block: 64,
            parallel: 8,
        };
        // 27 levels in nodes of 9.
        assert_eq!(tree.play(NodePlacement::Whole, 1, 100, 3), Ok(3.0));
        assert_eq!(tree.play(NodePlacement::VanEmdeBoas, 1, 100, 3), Ok(3.0));
        assert_eq!(tree.play(NodePlacement::OneBlock, 1, 100, 3), Ok(5.0));
        assert_eq!(tree.play(NodePlacement::OneBlock, 8, 800, 3), Ok(5.0));
    }
}

//! Queries that are played step by step, with read-ahead (Bender §6).
//!
//! In each step every client asks for one block. Slots that are left are given to the requests
//! in turn, as read-ahead: a request becomes a run of blocks, inside of its node.

use super::layout::VanEmdeBoas;
use super::{Nodes, Tree};
use alluvium_model::Random;
use alluvium_model::parameter::{BadParameter, at_least};

/// A client on its way from the root to a leaf.
#[derive(Clone, Debug)]
struct Walk {
    /// The levels of the binary tree that are still below.
    left: u32,
    /// Where in its node the client is, by level; 0 before the node is entered.
    position: u64,
    /// The blocks of the node that the client has, as ranges.
    loaded: Vec<(u64, u64)>,
}

impl Tree {
    /// Plays queries for random keys until as many are answered, and returns the steps of a
    /// query.
    ///
    /// # Errors
    /// As [`steps`](Tree::steps), and unless there is a query.
    pub fn play(&self, nodes: Nodes, clients: usize, queries: usize, seed: u64) -> Result<f64, BadParameter> {
        self.checked()?;
        at_least("the clients", clients as f64, 1.0, "at least 1")?;
        at_least("the queries", queries as f64, 1.0, "at least 1")?;
        let blocks = if nodes == Nodes::OneBlock {
            1
        } else {
            self.parallel
        };
        // As many whole levels as fit: a node of 512 keys has 9.
        let order = VanEmdeBoas::new((blocks * self.block).ilog2())?;
        let height = self.keys.next_power_of_two().ilog2();
        let mut random = Random::from_seed(seed);
        let start = Walk {
            left: height,
            position: 0,
            loaded: Vec::new(),
        };
        let mut walks = vec![start.clone(); clients];
        let (mut steps, mut answered) = (0_u64, 0_usize);
        while answered < queries {
            let shares = match nodes {
                Nodes::OneBlock => one_each(clients, self.parallel, steps),
                // A node takes all slots: clients are served in turn.
                Nodes::Whole => whole(clients, self.parallel, steps),
                Nodes::VanEmdeBoas => shares(clients, self.parallel, steps),
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

impl Walk {
    /// Loads a run of `share` blocks and walks on as far as they lead. Returns whether the
    /// query is answered.
    fn step(
        &mut self,
        order: &VanEmdeBoas,
        block: u64,
        blocks: u64,
        share: u64,
        random: &mut Random,
    ) -> bool {
        let position = self.position.max(1);
        let wanted = order.place(position) / block;
        // V2: a run that would leave the node begins earlier.
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
                // The next node.
                self.position = 0;
                self.loaded.clear();
                return self.left == 0;
            }
        }
        true
    }
}

/// Returns how many blocks each client gets in a step: P over all of them, and what is left in
/// turn, so that over many steps all get as much.
///
/// ```
/// use research_models::pdam::shares;
/// assert_eq!([shares(3, 8, 0), shares(3, 8, 1)], [[3, 3, 2], [3, 2, 3]]);
/// ```
#[must_use]
pub fn shares(clients: usize, parallel: u64, step: u64) -> Vec<u64> {
    let count = clients as u64;
    let (each, rest) = (parallel / count, parallel % count);
    // Those that got more in one step come last in the next.
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
        let tree = Tree {
            keys: 1 << 27,
            block: 64,
            parallel: 8,
        };
        // 27 levels in nodes of 9.
        assert_eq!(tree.play(Nodes::Whole, 1, 100, 3), Ok(3.0));
        assert_eq!(tree.play(Nodes::VanEmdeBoas, 1, 100, 3), Ok(3.0));
        assert_eq!(tree.play(Nodes::OneBlock, 1, 100, 3), Ok(5.0));
        assert_eq!(tree.play(Nodes::OneBlock, 8, 800, 3), Ok(5.0));
    }
}

//! A loser tree, which finds the next record among many sources.

/// A tournament between `n` sources. Each inner node stores the loser of its game, and the overall
/// winner is stored separately. When the winner advances to its next record, only the games on its
/// path to the root are replayed.
#[derive(Debug)]
pub(super) struct LoserTree {
    losers: Vec<u32>,
    winner: u32,
}

impl LoserTree {
    /// Plays all games. `before(a, b)` must return whether the record of source `a` comes before
    /// that of source `b`.
    pub(super) fn new(sources: usize, before: impl Fn(u32, u32) -> bool) -> LoserTree {
        assert!(sources > 0, "a tournament has players");
        let mut losers = vec![0; sources];
        let mut winners = vec![0; 2 * sources];
        for (leaf, winner) in winners[sources..].iter_mut().enumerate() {
            *winner = leaf as u32;
        }
        for node in (1..sources).rev() {
            let (one, other) = (winners[2 * node], winners[2 * node + 1]);
            let (winner, loser) = if before(other, one) {
                (other, one)
            } else {
                (one, other)
            };
            (winners[node], losers[node]) = (winner, loser);
        }
        LoserTree {
            losers,
            winner: winners[1],
        }
    }

    /// Returns the index of the source with the next record.
    #[inline]
    pub(super) fn winner(&self) -> usize {
        self.winner as usize
    }

    /// Replays the winner's games. Call this after the winner has advanced to its next record.
    #[inline]
    pub(super) fn replay(&mut self, before: impl Fn(u32, u32) -> bool) {
        let mut winner = self.winner;
        let mut node = (winner as usize + self.losers.len()) / 2;
        while node > 0 {
            let loser = self.losers[node];
            if before(loser, winner) {
                self.losers[node] = winner;
                winner = loser;
            }
            node /= 2;
        }
        assert!(
            (winner as usize) < self.losers.len().max(1),
            "the winner is a player"
        );
        self.winner = winner;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_any_number_are_merged_in_order() {
        let mut random = fastrand::Rng::with_seed(1);
        for sources in 1..20 {
            let mut queues: Vec<Vec<u32>> = (0..sources)
                .map(|_| (0..random.usize(0..30)).map(|_| random.u32(0..50)).collect())
                .collect();
            let mut expected = queues.concat();
            expected.sort_unstable();
            queues
                .iter_mut()
                .for_each(|queue| queue.sort_unstable_by(|a, b| b.cmp(a)));
            let head =
                |queues: &[Vec<u32>], at: u32| queues[at as usize].last().map_or(u32::MAX, |&head| head);
            let mut tree = LoserTree::new(sources, |a, b| head(&queues, a) < head(&queues, b));
            let mut merged = Vec::new();
            while let Some(next) = queues[tree.winner()].pop() {
                merged.push(next);
                tree.replay(|a, b| head(&queues, a) < head(&queues, b));
            }
            assert_eq!(merged, expected);
        }
    }
}

//! Choosing the leaf to flush (Conway §5.2, and §5.5 for InnoDB).

use super::change_buffer::ChangeBuffer;
use alluvium_model::SplitMix64;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

/// How the leaf to flush is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushPolicy {
    /// No buffer: each record is written to its leaf immediately.
    None,
    /// The leaf with the most buffered records; the oldest leaf on a tie.
    FullestBin,
    /// The leaf of a record drawn uniformly from the buffer.
    RandomBall,
    /// The leaf of the next record in key order after the last flushed leaf.
    GoldenGate,
    /// The leaf of a record reached by a random walk through the buffer, which is a B-tree, as in
    /// InnoDB. The walk draws a child of each node uniformly, regardless of the subtree sizes.
    RandomWalk,
}

/// The number of buffered records per leaf.
#[derive(Debug, Default)]
pub(super) struct FullestLeafIndex {
    counts: HashMap<u32, usize>,
    order: BTreeSet<(usize, Reverse<u32>)>,
}

impl FullestLeafIndex {
    /// Counts a record of a leaf.
    pub(super) fn add(&mut self, leaf: u32) {
        let count = self.counts.entry(leaf).or_insert(0);
        let was_there = self.order.remove(&(*count, Reverse(leaf)));
        debug_assert_eq!(was_there, *count > 0, "a leaf is in order once something waits");
        *count += 1;
        self.order.insert((*count, Reverse(leaf)));
    }

    /// Resets the count of a leaf after its flush.
    pub(super) fn clear(&mut self, leaf: u32) {
        if let Some(count) = self.counts.remove(&leaf) {
            let was_there = self.order.remove(&(count, Reverse(leaf)));
            assert!(was_there, "a leaf for which something waits is in order");
        }
    }

    /// Returns the number of buffered records for a leaf.
    pub(super) fn count(&self, leaf: u32) -> usize {
        self.counts.get(&leaf).copied().unwrap_or(0)
    }

    fn first(&self) -> Option<u32> {
        self.order.last().map(|(_, Reverse(leaf))| *leaf)
    }
}

/// The result of a policy's choice.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FlushTarget<'w> {
    /// The leaf that covers this key.
    Of(&'w [u8]),
    Leaf(u32),
}

/// Chooses from the buffer, which must not be empty.
pub(super) fn choose<'w>(
    policy: FlushPolicy,
    waiting: &'w ChangeBuffer,
    fullest: Option<&FullestLeafIndex>,
    gate: Option<&[u8]>,
    random: &mut SplitMix64,
) -> FlushTarget<'w> {
    assert!(waiting.len() > 0, "a flush follows when the buffer is full");
    match policy {
        FlushPolicy::None => unreachable!("nothing waits without a buffer"),
        FlushPolicy::FullestBin => {
            let leaf = fullest.and_then(FullestLeafIndex::first);
            FlushTarget::Leaf(leaf.expect("what waits is counted"))
        }
        FlushPolicy::RandomBall => FlushTarget::Of(waiting.nth(random.below(waiting.len()))),
        FlushPolicy::GoldenGate => {
            let next = gate.and_then(|gate| waiting.at_or_after(gate));
            let next = next.or_else(|| waiting.at_or_after(&[]));
            FlushTarget::Of(next.expect("something waits"))
        }
        FlushPolicy::RandomWalk => FlushTarget::Of(waiting.walk(|count| random.below(count))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(keys: &[&str]) -> ChangeBuffer {
        let mut waiting = ChangeBuffer::default();
        for key in keys {
            waiting.put(key.as_bytes(), None);
        }
        waiting
    }

    #[test]
    fn policies_choose_what_they_are_called() {
        let waiting = waiting(&["b", "d", "f", "h"]);
        let mut random = SplitMix64::from_seed(1);
        let mut gate =
            |gate: Option<&[u8]>| choose(FlushPolicy::GoldenGate, &waiting, None, gate, &mut random);
        assert_eq!(gate(None), FlushTarget::Of(b"b"));
        assert_eq!(gate(Some(b"d")), FlushTarget::Of(b"d"));
        assert_eq!(gate(Some(b"e")), FlushTarget::Of(b"f"));
        assert_eq!(gate(Some(b"i")), FlushTarget::Of(b"b"), "around");
        let mut fullest = FullestLeafIndex::default();
        for leaf in [3, 1, 2, 2, 1] {
            fullest.add(leaf);
        }
        let mut first = |fullest: &FullestLeafIndex| {
            choose(
                FlushPolicy::FullestBin,
                &waiting,
                Some(fullest),
                None,
                &mut random,
            )
        };
        assert_eq!(first(&fullest), FlushTarget::Leaf(1), "the oldest of equals");
        fullest.clear(1);
        assert_eq!(first(&fullest), FlushTarget::Leaf(2));
        assert_eq!((fullest.count(1), fullest.count(3)), (0, 1));
        for policy in [FlushPolicy::RandomBall, FlushPolicy::RandomWalk] {
            let mut drawn: HashMap<Vec<u8>, u32> = HashMap::new();
            for _ in 0..4000 {
                let FlushTarget::Of(key) = choose(policy, &waiting, None, None, &mut random) else {
                    panic!("a record is drawn");
                };
                *drawn.entry(key.into()).or_insert(0) += 1;
            }
            assert_eq!(drawn.len(), 4);
            assert!(
                drawn.values().all(|count| (850..1150).contains(count)),
                "{drawn:?}"
            );
        }
    }
}

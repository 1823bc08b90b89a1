//! Huffman codes for the distribution Binomial(C, ½). They are computed with integers only, so that
//! they are the same on every machine.

/// Maximum length of a code word in bits. One load of a stream holds a whole code word.
pub(super) const MAX_WORD_BITS: u32 = 56;

/// Base-2 logarithm of the sum of all weights. A symbol rarer than one in 2^44 has weight one,
/// which limits the length of its code word.
const WEIGHT_BITS: u32 = 44;

/// Generates the rows of Pascal's triangle, each scaled so that its sum is 2^60 up to rounding.
pub(super) struct PascalRows {
    keys: usize,
    row: Vec<u64>,
}

impl PascalRows {
    /// Starts before the row for one key.
    pub(super) fn new() -> PascalRows {
        PascalRows {
            keys: 0,
            row: vec![1 << 60],
        }
    }

    /// Advances to the row for one more key, which is the distribution of the number of keys that
    /// go left.
    pub(super) fn advance(&mut self) {
        self.keys += 1;
        self.row.push(0);
        for left in (1..=self.keys).rev() {
            self.row[left] = u64::midpoint(self.row[left], self.row[left - 1]);
        }
        self.row[0] /= 2;
    }

    /// Returns the weights of the symbols. Symbol 0 means that all keys go to the same side, and
    /// symbols 1 to C - 1 are the number of keys that go left.
    pub(super) fn weights(&self) -> Vec<u64> {
        let scaled = |weight: u64| (weight >> (60 - WEIGHT_BITS)).max(1);
        let all = scaled(self.row[0]) + scaled(self.row[0]);
        let rest = self.row[1..self.keys].iter().map(|&weight| scaled(weight));
        std::iter::once(all).chain(rest).collect()
    }
}

/// Returns the length of each symbol's code word, in bits. The two nodes with the lowest weights
/// are joined repeatedly. Among equal weights, symbols come before joined nodes, and lower symbols
/// before higher ones.
pub(super) fn lengths(weights: &[u64]) -> Vec<u8> {
    let mut leaves: Vec<usize> = (0..weights.len()).collect();
    leaves.sort_by_key(|&symbol| (weights[symbol], symbol));
    // Nodes are numbered starting with the leaves, in ascending order of their weights, followed by
    // the joined nodes. Joined nodes are created in ascending order of their weights.
    let mut heavy: Vec<u64> = leaves.iter().map(|&symbol| weights[symbol]).collect();
    let mut parents = vec![0; weights.len()];
    let (mut next_leaf, mut next_joined) = (0, weights.len());
    while heavy.len() < 2 * weights.len() - 1 {
        let mut sum = 0;
        for _ in 0..2 {
            let joined_is_lighter = heavy
                .get(next_joined)
                .is_some_and(|joined| next_leaf == weights.len() || *joined < heavy[next_leaf]);
            let next = if joined_is_lighter {
                &mut next_joined
            } else {
                &mut next_leaf
            };
            sum += heavy[*next];
            parents[*next] = heavy.len();
            *next += 1;
        }
        heavy.push(sum);
        parents.push(0);
    }
    let mut depths = vec![0u8; heavy.len()];
    for node in (0..heavy.len() - 1).rev() {
        depths[node] = depths[parents[node]] + 1;
    }
    let mut lengths = vec![0; weights.len()];
    for (node, &symbol) in leaves.iter().enumerate() {
        lengths[symbol] = depths[node];
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::super::shape::MAX_HMAX;
    use super::*;

    #[test]
    fn code_words_fill_the_tree_and_fit_a_load() {
        let mut rows = PascalRows::new();
        rows.advance();
        for keys in 2..=MAX_HMAX as usize {
            rows.advance();
            let lengths = lengths(&rows.weights());
            assert_eq!(lengths.len(), keys);
            let kraft: u64 = lengths.iter().map(|&bits| 1u64 << (60 - u32::from(bits))).sum();
            assert_eq!(kraft, 1 << 60, "{keys} keys: {lengths:?}");
            assert!(lengths.iter().all(|&bits| u32::from(bits) <= MAX_WORD_BITS));
        }
    }

    #[test]
    fn likelier_symbols_have_no_longer_words_and_none_is_longer_than_in_a_naive_tree() {
        let mut rows = PascalRows::new();
        (0..40).for_each(|_| rows.advance());
        let weights = rows.weights();
        let lengths = lengths(&weights);
        for (a, b) in (0..40).flat_map(|a| (0..40).map(move |b| (a, b))) {
            assert!(weights[a] <= weights[b] || lengths[a] <= lengths[b], "{a} {b}");
        }
        // The cost of a Huffman tree is the sum of its joined nodes' weights, however ties are
        // resolved.
        let mut heap: std::collections::BinaryHeap<_> =
            weights.iter().map(|&weight| std::cmp::Reverse(weight)).collect();
        let mut cost = 0;
        while heap.len() > 1 {
            let sum = heap.pop().unwrap().0 + heap.pop().unwrap().0;
            cost += sum;
            heap.push(std::cmp::Reverse(sum));
        }
        let ours: u64 = weights
            .iter()
            .zip(&lengths)
            .map(|(weight, &bits)| weight * u64::from(bits))
            .sum();
        assert_eq!(ours, cost);
    }
}

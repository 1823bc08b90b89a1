//! The key spans of runs within a pivot's range, and the maximum number of spans that overlap at
//! any one key.

use super::node::{StackEntry, TrunkNode};
use alluvium_dictionary::range::KeyRange;

/// The lowest and the highest key that a run can have within a pivot's range. Spans are ordered by
/// their lowest key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeySpan<'n> {
    low: &'n [u8],
    high: SpanEnd<'n>,
}

/// The upper end of a span, either exclusive or inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SpanEnd<'n> {
    key: &'n [u8],
    with_it: bool,
}

impl SpanEnd<'_> {
    /// Returns whether the span ends before `low`.
    fn is_before(&self, low: &[u8]) -> bool {
        self.key < low || self.key == low && !self.with_it
    }
}

impl KeySpan<'_> {
    /// Returns whether a key may exist that is in both spans.
    #[must_use]
    pub(crate) fn meets(&self, other: &KeySpan<'_>) -> bool {
        !self.high.is_before(other.low) && !other.high.is_before(self.low)
    }

    /// Returns the span as a key range.
    #[must_use]
    pub(crate) fn range(&self) -> KeyRange {
        let end = if self.high.with_it { &[0][..] } else { &[] };
        KeyRange::new(self.low, Some(&[self.high.key, end].concat()))
    }
}

/// Returns the smallest span that contains all given spans, or `None` if none are given.
#[must_use]
pub(super) fn hull<'n>(spans: &[KeySpan<'n>]) -> Option<KeySpan<'n>> {
    Some(KeySpan {
        low: spans.iter().map(|span| span.low).min()?,
        high: spans.iter().map(|span| span.high).max()?,
    })
}

/// Returns the maximum number of spans that overlap at any one key.
#[must_use]
pub(crate) fn depth(spans: &[KeySpan<'_>]) -> usize {
    let mut lows: Vec<&[u8]> = spans.iter().map(|span| span.low).collect();
    let mut highs: Vec<SpanEnd<'_>> = spans.iter().map(|span| span.high).collect();
    lows.sort_unstable();
    highs.sort_unstable();
    let mut ended = 0;
    let open = lows.iter().enumerate().map(|(begun, low)| {
        ended += highs[ended..]
            .iter()
            .take_while(|high| high.is_before(low))
            .count();
        begun + 1 - ended
    });
    open.max().unwrap_or(0)
}

impl TrunkNode {
    /// Returns the key spans of all runs in the given parts of a pivot's stack.
    pub(crate) fn spans<'n>(
        &'n self,
        pivot: usize,
        layers: impl Iterator<Item = StackEntry<'n>>,
    ) -> Vec<KeySpan<'n>> {
        let next = self.pivots.get(pivot + 1).map(|next| &*next.low);
        let high = next.or(self.range.high.as_deref());
        let low = &*self.pivots[pivot].low;
        let mut spans = Vec::new();
        for StackEntry { part, .. } in layers {
            let clip = part.clip.as_deref();
            let lowest = clip.map_or(low, |clip| low.max(&clip.low));
            let ends = [high, clip.and_then(|clip| clip.high.as_deref())];
            for (_, run) in part.group.runs() {
                let end = |key, with_it| SpanEnd { key, with_it };
                let ends = ends.iter().flatten().map(|key| end(*key, false));
                let span = KeySpan {
                    low: lowest.max(run.low()),
                    high: ends.fold(end(run.high(), true), SpanEnd::min),
                };
                if !span.high.is_before(span.low) {
                    spans.push(span);
                }
            }
        }
        spans
    }

    /// Returns the maximum number of runs in a pivot's stack that a lookup may have to search. Runs
    /// that do not overlap each other count only once.
    #[must_use]
    pub(crate) fn depth(&self, pivot: usize) -> usize {
        let of = |pivot| depth(&self.spans(pivot, self.stack(pivot)));
        self.depths
            .get_or_init(|| (0..self.pivots.len()).map(of).collect())[pivot]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span<'n>(low: &'n str, high: &'n str, with_it: bool) -> KeySpan<'n> {
        let (low, key) = (low.as_bytes(), high.as_bytes());
        KeySpan {
            low,
            high: SpanEnd { key, with_it },
        }
    }

    #[test]
    fn spans_meet_where_both_may_have_a_key() {
        let meets = |one: KeySpan<'_>, other: KeySpan<'_>| {
            assert_eq!(one.meets(&other), other.meets(&one));
            one.meets(&other)
        };
        assert!(meets(span("a", "c", true), span("c", "d", true)));
        assert!(!meets(span("a", "c", false), span("c", "d", true)));
        assert!(!meets(span("a", "b", true), span("c", "d", true)));
        assert!(meets(span("a", "z", true), span("c", "d", true)));
        assert!(meets(span("a", "a", true), span("a", "a", true)));
    }

    #[test]
    fn what_lies_side_by_side_counts_once() {
        assert_eq!(depth(&[]), 0);
        let side_by_side = [span("c", "d", true), span("a", "b", true), span("e", "g", false)];
        assert_eq!(depth(&side_by_side), 1);
        let tower = [
            side_by_side.as_slice(),
            &[span("b", "f", false), span("d", "e", true)],
        ]
        .concat();
        assert_eq!(depth(&tower), 3);
        assert_eq!(depth(&[span("a", "c", false), span("c", "d", true)]), 1);
        assert_eq!(depth(&[span("a", "c", true), span("c", "d", true)]), 2);
    }

    #[test]
    fn spans_drawn_at_random_are_as_deep_as_the_deepest_key() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..500 {
            let keys: Vec<String> = (0..10).map(|number| number.to_string()).collect();
            let spans: Vec<KeySpan<'_>> = (0..random.usize(0..12))
                .map(|_| {
                    let low = random.usize(0..10);
                    let high = random.usize(low..10);
                    span(&keys[low], &keys[high], low == high || random.bool())
                })
                .collect();
            // Also test keys between the spans' bounds.
            let points = keys.iter().flat_map(|key| [key.clone(), format!("{key}+")]);
            let above = |key: &str| {
                let inside = |span: &&KeySpan<'_>| span.range().contains(key.as_bytes());
                spans.iter().filter(inside).count()
            };
            let deepest = points.map(|key| above(&key)).max().unwrap_or(0);
            assert_eq!(depth(&spans), deepest, "{spans:?}");
            if let Some(hull) = hull(&spans) {
                assert!(spans.iter().all(|span| span.meets(&hull) && hull.low <= span.low));
                assert!(spans.iter().all(|span| span.high <= hull.high));
            }
        }
    }
}

//! A merging iterator over sorted sources. It uses a tree of losers, so that each step takes one
//! comparison per level.
//!
//! The algorithm is from Knuth, *The Art of Computer Programming*, volume 3, section 5.4.1. If
//! several sources have equal keys, the newest source comes first (G1). Nearly every comparison
//! compares two offset-value codes (`code.rs`), which are words. A step therefore reads a single
//! key, however long the common prefixes of the keys are.

use super::code::{ENDED, EQUAL, OffsetValueCode};
use std::cmp::Ordering;
use std::hint::select_unpredictable;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeDirection {
    Forward,
    Backward,
}

/// A source of keys in sorted order, positioned at a key or at its end. The same key may occur
/// several times.
pub trait SortedSource {
    /// Returns the current key, or `None` at the end. The key does not change until the source
    /// advances.
    fn key(&self) -> Option<&[u8]>;

    /// Advances to the next key in the merge's direction.
    ///
    /// # Errors
    /// Errors from reading the source.
    fn advance(&mut self) -> Result<(), Self::Error>;

    /// The type of errors from reading the source.
    type Error;
}

/// Merges several sources into one sorted sequence. The current source is the newest among those at
/// the smallest key (or the greatest key, in a backward merge).
///
/// ```
/// use alluvium_dictionary::merge::{MergeDirection, MergingIter, SortedSource};
/// struct Slice(&'static [&'static str]);
/// impl SortedSource for Slice {
///     type Error = std::convert::Infallible;
///     fn key(&self) -> Option<&[u8]> { self.0.first().map(|key| key.as_bytes()) }
///     fn advance(&mut self) -> Result<(), Self::Error> { self.0 = &self.0[1..]; Ok(()) }
/// }
/// let mut merged = MergingIter::new(vec![Slice(&["b", "d"]), Slice(&["a", "b"])], MergeDirection::Forward);
/// let mut order = Vec::new();
/// while let Some(source) = merged.winner() {
///     let key = String::from_utf8(merged.source(source).key().unwrap().to_vec()).unwrap();
///     order.push((key, source));
///     merged.advance()?;
/// }
/// assert_eq!(order, [("a".into(), 1), ("b".into(), 0), ("b".into(), 1), ("d".into(), 0)]);
/// # Ok::<(), std::convert::Infallible>(())
/// ```
#[derive(Debug)]
pub struct MergingIter<S> {
    sources: Vec<S>,
    direction: MergeDirection,
    /// The inner nodes 1…n−1 of a tree whose leaves n…2n−1 are the sources. Each inner node holds
    /// the source that lost the match there, with its code relative to the winner's key. Entry 0 is
    /// the overall winner, with its code relative to `last`.
    losers: Vec<LoserTreeEntry>,
    /// The key of the previous winner.
    last: Vec<u8>,
    /// Buffers for [`MergingIter::gallop`]: the winner's key, and (`bound`) the key of the next
    /// source.
    base: Vec<u8>,
    bound: Vec<u8>,
}

/// A tree entry: a source and the code of its current key.
#[derive(Clone, Copy, Debug)]
struct LoserTreeEntry {
    code: OffsetValueCode,
    source: usize,
}

impl<S: SortedSource> MergingIter<S> {
    /// Creates an iterator over `sources`, which must be ordered from newest to oldest and
    /// positioned at their first keys.
    #[must_use]
    pub fn new(sources: Vec<S>, direction: MergeDirection) -> MergingIter<S> {
        let nobody = LoserTreeEntry {
            code: ENDED,
            source: 0,
        };
        let mut merged = MergingIter {
            losers: vec![nobody; sources.len()],
            sources,
            direction,
            last: Vec::new(),
            base: Vec::new(),
            bound: Vec::new(),
        };
        merged.rebuild();
        merged
    }

    /// Returns the index of the current source, or `None` if all sources are at their ends.
    #[must_use]
    #[inline]
    pub fn winner(&self) -> Option<usize> {
        let winner = self.losers.first()?;
        (winner.code != ENDED).then_some(winner.source)
    }

    /// Returns the current key, or `None` at the end.
    #[must_use]
    #[inline]
    pub fn key(&self) -> Option<&[u8]> {
        self.sources[self.losers.first()?.source].key()
    }

    /// Returns whether the current key equals the key before the last [`MergingIter::advance`],
    /// which means that the current message is an older one of the same key. Very cheap.
    #[must_use]
    #[inline]
    pub fn repeats(&self) -> bool {
        self.losers.first().is_some_and(|winner| winner.code == EQUAL) && self.key() == Some(&self.last[..])
    }

    /// Returns the source with the given index.
    #[must_use]
    #[inline]
    pub fn source(&self, index: usize) -> &S {
        &self.sources[index]
    }

    #[must_use]
    pub fn sources(&self) -> &[S] {
        &self.sources
    }

    /// Returns all sources for repositioning. If the key of any source changes, the caller must
    /// call [`MergingIter::rebuild`].
    pub fn sources_mut(&mut self) -> &mut [S] {
        &mut self.sources
    }

    /// Advances the current source and determines the next winner.
    ///
    /// # Errors
    /// Errors of the source, after which the merge keeps its position.
    #[inline]
    pub fn advance(&mut self) -> Result<(), S::Error> {
        self.advance_by(S::advance)
    }

    /// Like [`MergingIter::advance`], but calls `step` to advance the current source. `step` must
    /// move it to a later key or to an older message of the same key.
    ///
    /// # Errors
    /// The same errors as [`MergingIter::advance`].
    #[inline]
    pub fn advance_by(&mut self, step: impl FnOnce(&mut S) -> Result<(), S::Error>) -> Result<(), S::Error> {
        let Some(&LoserTreeEntry { source, code }) = self.losers.first() else {
            return Ok(());
        };
        let winner = &mut self.sources[source];
        let Some(key) = winner.key() else {
            return Ok(());
        };
        // If the key has not changed, neither does `last`.
        let repeats = code == EQUAL && key.len() == self.last.len();
        if !repeats {
            self.last.clear();
            self.last.extend_from_slice(key);
        }
        if let Err(error) = step(winner) {
            if !repeats {
                // The winner is still at the first message of its key, but `last` has changed, and
                // the winner's code must be relative to it.
                self.losers[0].code = OffsetValueCode::of(&self.last, self.direction);
            }
            return Err(error);
        }
        let code = match winner.key() {
            Some(key) => {
                debug_assert!(
                    match self.direction {
                        MergeDirection::Forward => *self.last <= *key,
                        MergeDirection::Backward => *self.last >= *key,
                    },
                    "source {source} goes from {:02x?} back to {key:02x?}",
                    self.last
                );
                OffsetValueCode::relative(&self.last, key, self.direction)
            }
            None => ENDED,
        };
        self.replay(LoserTreeEntry { code, source });
        Ok(())
    }

    /// Emits several keys of the current source without playing a match for each, and then
    /// determines the next winner. `walk` receives the current source and an exclusive bound: the
    /// key of the next source, or `None` if there is no other source. `walk` must emit the current
    /// key and all further keys of the source below the bound, leave the source at the first key
    /// not emitted, and return the number of keys emitted. That first key must differ from the last
    /// one emitted.
    ///
    /// # Errors
    /// Errors from `walk`.
    pub fn gallop(
        &mut self,
        walk: impl FnOnce(&mut S, Option<&[u8]>) -> Result<usize, S::Error>,
    ) -> Result<usize, S::Error> {
        let Some(&LoserTreeEntry { source, .. }) = self.losers.first() else {
            return Ok(0);
        };
        let Some(key) = self.sources[source].key() else {
            return Ok(0);
        };
        self.base.clear();
        self.base.extend_from_slice(key);
        debug_assert!(
            source < self.sources.len(),
            "source {source} of {}",
            self.sources.len()
        );
        let next = self.runner_up(source).and_then(|next| self.sources[next].key());
        self.bound.clear();
        self.bound.extend_from_slice(next.unwrap_or_default());
        let bound = next.is_some().then_some(&self.bound[..]);
        let winner = &mut self.sources[source];
        let count = walk(winner, bound)?;
        if count == 0 {
            return Ok(0);
        }
        // The losers on the winner's path lost to its former key, and their codes are still
        // relative to that key.
        std::mem::swap(&mut self.last, &mut self.base);
        let code = match winner.key() {
            Some(key) => OffsetValueCode::relative(&self.last, key, self.direction),
            None => ENDED,
        };
        self.replay(LoserTreeEntry { code, source });
        Ok(count)
    }

    /// Returns the source whose key comes next after the winner's. It must have lost a match
    /// against the winner.
    fn runner_up(&self, winner: usize) -> Option<usize> {
        let mut best: Option<(usize, &[u8])> = None;
        let mut node = (winner + self.losers.len()) / 2;
        while node > 0 {
            let source = self.losers[node].source;
            if let Some(key) = self.sources[source].key()
                && best.is_none_or(|(_, least)| match self.direction {
                    MergeDirection::Forward => key < least,
                    MergeDirection::Backward => key > least,
                })
            {
                best = Some((source, key));
            }
            node /= 2;
        }
        Some(best?.0)
    }

    /// Replays all matches. Must be called after sources have been repositioned.
    pub fn rebuild(&mut self) {
        let count = self.sources.len();
        if count == 0 {
            return;
        }
        self.last.clear();
        // The winner at each node, computed from the leaves up.
        let start = |source: usize| LoserTreeEntry {
            code: self.sources[source]
                .key()
                .map_or(ENDED, |key| OffsetValueCode::of(key, self.direction)),
            source,
        };
        let mut winners: Vec<LoserTreeEntry> = (0..2 * count).map(|node| start(node % count)).collect();
        for node in (1..count).rev() {
            let (winner, loser) = self.play(winners[2 * node], winners[2 * node + 1]);
            (winners[node], self.losers[node]) = (winner, loser);
        }
        self.losers[0] = winners[1];
    }

    /// Replays the matches on the path from a source's leaf to the root. All losers on that path
    /// lost to the source's previous key, so all codes are relative to that key.
    #[inline]
    fn replay(&mut self, mut winner: LoserTreeEntry) {
        let mut node = (winner.source + self.losers.len()) / 2;
        while node > 0 {
            let other = self.losers[node];
            if other.code == winner.code {
                (winner, self.losers[node]) = self.play(winner, other);
            } else {
                let stays = winner.code < other.code;
                self.losers[node] = select_unpredictable(stays, other, winner);
                winner = select_unpredictable(stays, winner, other);
            }
            node /= 2;
        }
        self.losers[0] = winner;
    }

    /// Plays a match and returns the winner and the loser, whose code is now relative to the
    /// winner's key. Sources are ordered by key. If keys are equal, the newest source comes first.
    /// Sources at their ends come last.
    #[cold]
    #[inline(never)]
    fn play(&self, one: LoserTreeEntry, two: LoserTreeEntry) -> (LoserTreeEntry, LoserTreeEntry) {
        let first = match one.code.cmp(&two.code) {
            Ordering::Equal => one.source < two.source,
            order => order == Ordering::Less,
        };
        let keys = (self.sources[one.source].key(), self.sources[two.source].key());
        let (true, (Some(left), Some(right))) = (one.code == two.code, keys) else {
            return if first { (one, two) } else { (two, one) };
        };
        let agreed = one.code.agreed().min(left.len()).min(right.len());
        debug_assert_eq!(left[..agreed], right[..agreed], "equal codes agree so far");
        let order = match self.direction {
            MergeDirection::Forward => left[agreed..].cmp(&right[agreed..]),
            MergeDirection::Backward => right[agreed..].cmp(&left[agreed..]),
        };
        let lost = |winner: &[u8], loser: &[u8], player: LoserTreeEntry| LoserTreeEntry {
            code: OffsetValueCode::relative(winner, loser, self.direction),
            ..player
        };
        match order.then(one.source.cmp(&two.source)) {
            Ordering::Less => (one, lost(left, right, two)),
            _ => (two, lost(right, left, one)),
        }
    }
}

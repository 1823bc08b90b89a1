//! A tournament of losers over sorted sources: one comparison per level for each step, whichever source wins.
//!
//! Knuth, *The Art of Computer Programming*, volume 3, section 5.4.1. Sources with equal keys come newest first (G1).

use std::cmp::Ordering;

/// Which way a merge goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Backward,
}

/// A sorted source of keys. It stands at a key or at its end.
pub trait Source {
    /// The current key; none at the end. It stays the same until the source is advanced.
    fn key(&self) -> Option<&[u8]>;

    /// Goes to the next key in the merge's direction.
    ///
    /// # Errors
    /// What reading the source says.
    fn advance(&mut self) -> Result<(), Self::Error>;

    /// What reading can fail with.
    type Error;
}

/// Sources merged into one order. It stands at one source at a time: the newest of those with the next key.
///
/// ```
/// use alluvium_trees::merge::{Direction, Merged, Source};
/// struct Slice(&'static [&'static str]);
/// impl Source for Slice {
///     type Error = std::convert::Infallible;
///     fn key(&self) -> Option<&[u8]> { self.0.first().map(|key| key.as_bytes()) }
///     fn advance(&mut self) -> Result<(), Self::Error> { self.0 = &self.0[1..]; Ok(()) }
/// }
/// let mut merged = Merged::new(vec![Slice(&["b", "d"]), Slice(&["a", "b"])], Direction::Forward);
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
pub struct Merged<S> {
    sources: Vec<S>,
    direction: Direction,
    /// Inner nodes 1…n−1 of a tree whose leaves n…2n−1 are the sources: who lost there. Entry 0 is the winner.
    losers: Vec<usize>,
}

impl<S: Source> Merged<S> {
    /// Merges sources that stand at their first keys, newest source first.
    #[must_use]
    pub fn new(sources: Vec<S>, direction: Direction) -> Merged<S> {
        let mut merged = Merged {
            losers: vec![0; sources.len()],
            sources,
            direction,
        };
        merged.rebuild();
        merged
    }

    /// The source that is next, by its number; none when all are at their ends.
    #[must_use]
    pub fn winner(&self) -> Option<usize> {
        let winner = *self.losers.first()?;
        self.sources[winner].key().map(|_| winner)
    }

    /// The current key.
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        self.sources[*self.losers.first()?].key()
    }

    /// A source.
    #[must_use]
    pub fn source(&self, index: usize) -> &S {
        &self.sources[index]
    }

    /// Every source, for repositioning; [`Merged::rebuild`] must follow.
    pub fn sources_mut(&mut self) -> &mut [S] {
        &mut self.sources
    }

    /// Advances the winner and finds the next one.
    ///
    /// # Errors
    /// What the source says; the merge stands where it stood.
    pub fn advance(&mut self) -> Result<(), S::Error> {
        let Some(&winner) = self.losers.first() else {
            return Ok(());
        };
        self.sources[winner].advance()?;
        self.replay(winner);
        Ok(())
    }

    /// Plays every match anew, after sources were moved.
    pub fn rebuild(&mut self) {
        let count = self.sources.len();
        if count < 2 {
            return;
        }
        // Winners of each inner node, from the leaves up.
        let mut winners = vec![0; 2 * count];
        for (index, winner) in winners[count..].iter_mut().enumerate() {
            *winner = index;
        }
        for node in (1..count).rev() {
            let (left, right) = (winners[2 * node], winners[2 * node + 1]);
            let left_wins = self.beats(left, right);
            (winners[node], self.losers[node]) = if left_wins { (left, right) } else { (right, left) };
        }
        self.losers[0] = winners[1];
    }

    /// Plays the matches from a source's leaf up to the root.
    fn replay(&mut self, source: usize) {
        let mut winner = source;
        let mut node = (source + self.sources.len()) / 2;
        while node > 0 {
            if self.beats(self.losers[node], winner) {
                std::mem::swap(&mut self.losers[node], &mut winner);
            }
            node /= 2;
        }
        self.losers[0] = winner;
    }

    /// Whether source `a` comes before source `b`: by key, then newest first; ends come last.
    fn beats(&self, a: usize, b: usize) -> bool {
        let order = match (self.sources[a].key(), self.sources[b].key()) {
            (Some(left), Some(right)) => match self.direction {
                Direction::Forward => left.cmp(right),
                Direction::Backward => right.cmp(left),
            },
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        };
        order.then(a.cmp(&b)) == Ordering::Less
    }
}

//! A tournament of losers over sorted sources: one comparison per level for each step, whichever
//! source wins.
//!
//! Knuth, *The Art of Computer Programming*, volume 3, section 5.4.1. Sources with equal keys come
//! newest first (G1). Almost every comparison is one of two words (`code.rs`), so a step looks at
//! one key, whatever the keys have in common.

use super::code::{Code, ENDED, EQUAL};
use std::cmp::Ordering;
use std::hint::select_unpredictable;

/// Which way a merge goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Backward,
}

/// A sorted source of keys. It stands at a key or at its end, and a key may come several times.
pub trait Source {
    /// Returns the current key; none at the end. It stays the same until the source is advanced.
    fn key(&self) -> Option<&[u8]>;

    /// Goes to the next key in the merge's direction.
    ///
    /// # Errors
    /// What reading the source says.
    fn advance(&mut self) -> Result<(), Self::Error>;

    /// What reading can fail with.
    type Error;
}

/// Sources merged into one order. It stands at one source at a time: the newest of those with the
/// next key.
///
/// ```
/// use alluvium_dictionary::merge::{Direction, Merged, Source};
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
    /// Inner nodes 1…n−1 of a tree whose leaves n…2n−1 are the sources: who lost there, with its
    /// code relative to whom it lost to. Entry 0 is the winner, with its code relative to `last`.
    losers: Vec<Player>,
    /// The key of the winner before.
    last: Vec<u8>,
    /// Memory for [`Merged::gallop`]: the winner's key, and that of the source that is next.
    base: Vec<u8>,
    bound: Vec<u8>,
}

/// A source that stands in the tree.
#[derive(Clone, Copy, Debug)]
struct Player {
    code: Code,
    source: usize,
}

impl<S: Source> Merged<S> {
    /// Merges sources that stand at their first keys, newest source first.
    #[must_use]
    pub fn new(sources: Vec<S>, direction: Direction) -> Merged<S> {
        let nobody = Player {
            code: ENDED,
            source: 0,
        };
        let mut merged = Merged {
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

    /// Returns the source that is next, by its number; none when all are at their ends.
    #[must_use]
    #[inline]
    pub fn winner(&self) -> Option<usize> {
        let winner = self.losers.first()?;
        (winner.code != ENDED).then_some(winner.source)
    }

    /// Returns the current key.
    #[must_use]
    #[inline]
    pub fn key(&self) -> Option<&[u8]> {
        self.sources[self.losers.first()?.source].key()
    }

    /// Returns whether the current key is the one that the last [`Merged::advance`] went on from:
    /// the winner has an older message about it. Costs next to nothing.
    #[must_use]
    #[inline]
    pub fn repeats(&self) -> bool {
        self.losers.first().is_some_and(|winner| winner.code == EQUAL) && self.key() == Some(&self.last[..])
    }

    /// Returns a source.
    #[must_use]
    #[inline]
    pub fn source(&self, index: usize) -> &S {
        &self.sources[index]
    }

    /// Every source.
    #[must_use]
    pub fn sources(&self) -> &[S] {
        &self.sources
    }

    /// Every source, for repositioning; when a key has changed, [`Merged::rebuild`] must follow.
    pub fn sources_mut(&mut self) -> &mut [S] {
        &mut self.sources
    }

    /// Advances the winner and finds the next one.
    ///
    /// # Errors
    /// What the source says; the merge stands where it stood.
    #[inline]
    pub fn advance(&mut self) -> Result<(), S::Error> {
        self.advance_by(S::advance)
    }

    /// Lets `step` move the winner to a later key, or to an older message about its key, and finds
    /// the next one.
    ///
    /// # Errors
    /// As [`Merged::advance`].
    #[inline]
    pub fn advance_by(&mut self, step: impl FnOnce(&mut S) -> Result<(), S::Error>) -> Result<(), S::Error> {
        let Some(&Player { source, code }) = self.losers.first() else {
            return Ok(());
        };
        let winner = &mut self.sources[source];
        let Some(key) = winner.key() else {
            return Ok(());
        };
        // The same key again: the last one stays as it is.
        let repeats = code == EQUAL && key.len() == self.last.len();
        if !repeats {
            self.last.clear();
            self.last.extend_from_slice(key);
        }
        if let Err(error) = step(winner) {
            if !repeats {
                // It is still the current key's first message, whatever its code was relative to
                // the key before.
                self.losers[0].code = Code::of(&self.last, self.direction);
            }
            return Err(error);
        }
        let code = match winner.key() {
            Some(key) => {
                debug_assert!(
                    match self.direction {
                        Direction::Forward => *self.last <= *key,
                        Direction::Backward => *self.last >= *key,
                    },
                    "source {source} goes from {:02x?} back to {key:02x?}",
                    self.last
                );
                Code::relative(&self.last, key, self.direction)
            }
            None => ENDED,
        };
        self.replay(Player { code, source });
        Ok(())
    }

    /// Lets the winner go on by itself, without a match for each key, and finds the next one.
    /// `walk` gets the winner and the key that it must stay before, at which another source stands
    /// (none where it is the only one); it hands out the winner's key and those that follow, moves
    /// it to the first that it has not handed out, and says how many there were. Behind the last of
    /// them the winner must stand at another key.
    ///
    /// # Errors
    /// What `walk` says.
    pub fn gallop(
        &mut self,
        walk: impl FnOnce(&mut S, Option<&[u8]>) -> Result<usize, S::Error>,
    ) -> Result<usize, S::Error> {
        let Some(&Player { source, .. }) = self.losers.first() else {
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
        // The sources that lost to this one lost to the key that it stood at: their codes stay
        // relative to that key.
        std::mem::swap(&mut self.last, &mut self.base);
        let code = match winner.key() {
            Some(key) => Code::relative(&self.last, key, self.direction),
            None => ENDED,
        };
        self.replay(Player { code, source });
        Ok(count)
    }

    /// Returns the source whose key comes next after the winner's: one that lost to it.
    fn runner_up(&self, winner: usize) -> Option<usize> {
        let mut best: Option<(usize, &[u8])> = None;
        let mut node = (winner + self.losers.len()) / 2;
        while node > 0 {
            let source = self.losers[node].source;
            if let Some(key) = self.sources[source].key()
                && best.is_none_or(|(_, least)| match self.direction {
                    Direction::Forward => key < least,
                    Direction::Backward => key > least,
                })
            {
                best = Some((source, key));
            }
            node /= 2;
        }
        Some(best?.0)
    }

    /// Plays every match again, after sources were moved.
    pub fn rebuild(&mut self) {
        let count = self.sources.len();
        if count == 0 {
            return;
        }
        self.last.clear();
        // Winners of each inner node, from the leaves up.
        let start = |source: usize| Player {
            code: self.sources[source]
                .key()
                .map_or(ENDED, |key| Code::of(key, self.direction)),
            source,
        };
        let mut winners: Vec<Player> = (0..2 * count).map(|node| start(node % count)).collect();
        for node in (1..count).rev() {
            let (winner, loser) = self.play(winners[2 * node], winners[2 * node + 1]);
            (winners[node], self.losers[node]) = (winner, loser);
        }
        self.losers[0] = winners[1];
    }

    /// Plays the matches from a source's leaf up to the root. The losers there lost to the source's
    /// last key, so all codes are relative to that.
    #[inline]
    fn replay(&mut self, mut winner: Player) {
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

    /// Returns the winner of a match and the loser, whose code is relative to the winner then: by
    /// key, then newest first; ends come last.
    #[cold]
    #[inline(never)]
    fn play(&self, one: Player, two: Player) -> (Player, Player) {
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
            Direction::Forward => left[agreed..].cmp(&right[agreed..]),
            Direction::Backward => right[agreed..].cmp(&left[agreed..]),
        };
        let lost = |winner: &[u8], loser: &[u8], player: Player| Player {
            code: Code::relative(winner, loser, self.direction),
            ..player
        };
        match order.then(one.source.cmp(&two.source)) {
            Ordering::Less => (one, lost(left, right, two)),
            _ => (two, lost(right, left, one)),
        }
    }
}

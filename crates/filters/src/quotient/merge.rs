//! Merges filters without access to their keys.
//!
//! Each source supplies its entries page by page, and a tournament of losers selects the smallest
//! one. A function supplied by the caller changes the value of each entry or drops it. The
//! remaining entries of a fingerprint are then sorted again and passed to a [`FilterBuilder`].

use super::build::FilterBuilder;
use super::scan::EntryChunk;
use super::spill::CountedEntry;
use crate::{Error, FilterEntry};
use std::fmt;
use std::hint::select_unpredictable;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeStats {
    /// Number of distinct entries read from all sources.
    pub read: u64,
    /// Number of distinct entries that `rewrite` dropped.
    pub dropped: u64,
}

/// Merges the entries of `sources` into `builder`. A source fills the empty chunk that it is given
/// with its next entries, all greater than its earlier ones, and returns false if it has no more.
/// [`crate::FilterImage::source`] returns such a source. `rewrite` receives the index of the source
/// and the entry, and returns the entry's new value, or `None` to drop it.
///
/// All filters must have the builder's fingerprint length, but they may have different numbers of
/// pages.
///
/// ```
/// use alluvium_filters::{
///     Error, FilterBuilder, FilterEntry, FilterGeometry, FilterImage, FilterShape,
///     QuotientMaplet, hash, merge,
/// };
/// let geometry = FilterGeometry::for_entries(100, FilterShape::new(40, 4))?;
/// let fingerprint = |key: u32| geometry.fingerprint(hash(0, &key.to_le_bytes()));
/// let (mut older, mut newer) =
///     (QuotientMaplet::new(geometry), QuotientMaplet::new(geometry));
/// for key in 0..60 {
///     older.insert(FilterEntry::new(fingerprint(key), 0))?;
///     newer.insert(FilterEntry::new(fingerprint(key + 40), 0))?;
/// }
/// let (older, newer) = (older.to_bytes(), newer.to_bytes());
///
/// let mut merged = Vec::new();
/// let sink = |page: &[u8]| -> Result<(), Error> { Ok(merged.extend_from_slice(page)) };
/// let mut builder =
///     FilterBuilder::new(FilterGeometry::for_entries(120, geometry.shape())?, sink);
/// let sources = vec![
///     FilterImage::new(&geometry, &older)?.source(),
///     FilterImage::new(&geometry, &newer)?.source(),
/// ];
/// // The sources become runs 0 and 1 of the result.
/// merge(sources, |source, _| Some(source as u16), &mut builder)?;
/// let geometry = *builder.geometry();
/// builder.finish()?;
///
/// let values = FilterImage::new(&geometry, &merged)?.lookup(fingerprint(50))?;
/// assert_eq!(values.collect::<Vec<_>>(), [1, 0]);
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// Errors from the sources and from the builder; [`Error::Order`] if the entries of a source are
/// not ascending.
pub fn merge<I, R, S, E>(sources: Vec<I>, rewrite: R, builder: &mut FilterBuilder<S>) -> Result<MergeStats, E>
where
    I: FnMut(&mut EntryChunk) -> Result<bool, E>,
    R: FnMut(usize, FilterEntry) -> Option<u16>,
    S: FnMut(&[u8]) -> Result<(), E>,
    E: From<Error>,
{
    let mut merge = FilterMerge::new(sources)?;
    merge.step(u64::MAX, rewrite, builder)?;
    Ok(merge.merged())
}

/// State of a [`FilterMerge`] after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeProgress {
    More,
    /// The builder has received all entries of all sources.
    Done,
}

/// A merge like [`merge`] that runs in steps, for a thread that must return soon.
///
/// ```
/// use alluvium_filters::{
///     Error, FilterBuilder, FilterEntry, FilterGeometry, FilterImage, FilterMerge,
///     FilterShape, MergeProgress, QuotientMaplet, hash,
/// };
/// let geometry = FilterGeometry::for_entries(100, FilterShape::new(40, 4))?;
/// let mut maplet = QuotientMaplet::new(geometry);
/// for key in 0u32..100 {
///     maplet.insert(FilterEntry::new(
///         geometry.fingerprint(hash(0, &key.to_le_bytes())),
///         1,
///     ))?;
/// }
/// let (bytes, mut copy) = (maplet.to_bytes(), Vec::new());
/// let write = |page: &[u8]| -> Result<(), Error> { Ok(copy.extend_from_slice(page)) };
/// let mut builder = FilterBuilder::new(geometry, write);
/// let mut merge = FilterMerge::new(vec![FilterImage::new(&geometry, &bytes)?.source()])?;
/// while merge.step(10, |_, entry| Some(entry.value()), &mut builder)?
///     == MergeProgress::More
/// {}
/// assert_eq!(merge.merged().read, 100);
/// builder.finish()?;
/// assert_eq!(copy, bytes);
/// # Ok::<(), Error>(())
/// ```
pub struct FilterMerge<I> {
    inputs: Vec<MergeInput<I>>,
    tournament: MergeTournament,
    group: FingerprintGroup,
    merged: MergeStats,
}

impl<I> FilterMerge<I> {
    /// Creates a merge of `sources` and reads the first entries of each.
    ///
    /// # Errors
    /// Errors from the sources.
    pub fn new<E>(sources: Vec<I>) -> Result<FilterMerge<I>, E>
    where
        I: FnMut(&mut EntryChunk) -> Result<bool, E>,
        E: From<Error>,
    {
        let mut inputs = Vec::with_capacity(sources.len());
        for source in sources {
            inputs.push(MergeInput::new(source)?);
        }
        Ok(FilterMerge {
            tournament: MergeTournament::new(inputs.iter().map(|input| input.key).collect()),
            inputs,
            group: FingerprintGroup::default(),
            merged: MergeStats::default(),
        })
    }

    /// Returns the statistics of the steps so far.
    #[must_use]
    pub fn merged(&self) -> MergeStats {
        self.merged
    }

    /// Merges up to `entries` entries. After a failure, neither the merge nor the builder may be
    /// used again.
    ///
    /// # Errors
    /// The same errors as [`merge`].
    pub fn step<R, S, E>(
        &mut self,
        entries: u64,
        mut rewrite: R,
        builder: &mut FilterBuilder<S>,
    ) -> Result<MergeProgress, E>
    where
        I: FnMut(&mut EntryChunk) -> Result<bool, E>,
        R: FnMut(usize, FilterEntry) -> Option<u16>,
        S: FnMut(&[u8]) -> Result<(), E>,
        E: From<Error>,
    {
        let stop = self.merged.read.saturating_add(entries);
        while let Some(source) = self.tournament.winner() {
            if self.merged.read == stop {
                return Ok(MergeProgress::More);
            }
            let input = &mut self.inputs[source];
            let counted = input.current();
            self.merged.read += 1;
            match rewrite(source, counted.entry) {
                Some(value) => self
                    .group
                    .push(counted.entry.with_value(value), counted.count, builder)?,
                None => self.merged.dropped += 1,
            }
            input.advance()?;
            self.tournament.replace(source, input.key);
        }
        self.group.flush(builder)?;
        Ok(MergeProgress::Done)
    }
}

impl<I> fmt::Debug for FilterMerge<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterMerge")
            .field("sources", &self.inputs.len())
            .field("merged", &self.merged)
            .finish_non_exhaustive()
    }
}

/// A source and its current chunk. `key` is its next entry, or [`DONE`] after the last one.
struct MergeInput<I> {
    source: I,
    chunk: EntryChunk,
    at: usize,
    repeat: usize,
    /// Index, in the chunk, of the next entry that occurs more than once.
    repeat_at: usize,
    key: u128,
}

/// Key of an exhausted source, which exceeds every entry.
const DONE: u128 = u128::MAX;

impl<I> MergeInput<I> {
    fn new<E>(source: I) -> Result<MergeInput<I>, E>
    where
        I: FnMut(&mut EntryChunk) -> Result<bool, E>,
        E: From<Error>,
    {
        let mut input = MergeInput {
            source,
            chunk: EntryChunk::new(),
            at: 0,
            repeat: 0,
            repeat_at: usize::MAX,
            key: 0,
        };
        input.refill(None)?;
        Ok(input)
    }

    #[inline(always)]
    fn current(&self) -> CountedEntry {
        let entry = self.chunk.entries()[self.at];
        let count = if self.at == self.repeat_at {
            self.chunk.repeats()[self.repeat].1
        } else {
            1
        };
        CountedEntry { entry, count }
    }

    #[inline(always)]
    fn advance<E>(&mut self) -> Result<(), E>
    where
        I: FnMut(&mut EntryChunk) -> Result<bool, E>,
        E: From<Error>,
    {
        if self.at == self.repeat_at {
            self.repeat += 1;
            self.find_repeat();
        }
        self.at += 1;
        match self.chunk.entries().get(self.at) {
            Some(entry) => {
                self.key = u128::from(entry.0);
                Ok(())
            }
            None => self.refill(self.chunk.entries().last().copied()),
        }
    }

    fn find_repeat(&mut self) {
        self.repeat_at = self
            .chunk
            .repeats()
            .get(self.repeat)
            .map_or(usize::MAX, |repeat| repeat.0 as usize);
    }

    #[cold]
    #[inline(never)]
    fn refill<E>(&mut self, last: Option<FilterEntry>) -> Result<(), E>
    where
        I: FnMut(&mut EntryChunk) -> Result<bool, E>,
        E: From<Error>,
    {
        loop {
            self.chunk.clear();
            if !(self.source)(&mut self.chunk)? {
                self.key = DONE;
                return Ok(());
            }
            if let Some(&first) = self.chunk.entries().first() {
                let rises = self.chunk.entries().is_sorted_by(|one, two| one < two);
                if !rises || last.is_some_and(|last| last >= first) {
                    return Err(Error::Order {
                        entry: first.0,
                        last: last.map_or(0, |last| last.0),
                    }
                    .into());
                }
                (self.at, self.repeat, self.key) = (0, 0, u128::from(first.0));
                self.find_repeat();
                return Ok(());
            }
        }
    }
}

/// A tree of losers. Each inner node stores the loser of its match, and the winner proceeds to the
/// parent (Knuth, volume 3, 5.4.1).
struct MergeTournament {
    /// Node 0 is the winner of the tournament, and node n has the children 2n and 2n + 1. The
    /// leaves follow the inner nodes and are not stored.
    nodes: Vec<(u128, usize)>,
    leaves: usize,
}

impl MergeTournament {
    fn new(keys: Vec<u128>) -> MergeTournament {
        let leaves = keys.len().next_power_of_two();
        let mut winners = vec![(DONE, 0); 2 * leaves];
        for (source, key) in keys.into_iter().enumerate() {
            winners[leaves + source] = (key, source);
        }
        let mut nodes = vec![(DONE, 0); leaves];
        for node in (1..leaves).rev() {
            let (one, two) = (winners[2 * node], winners[2 * node + 1]);
            (winners[node], nodes[node]) = if one.0 <= two.0 { (one, two) } else { (two, one) };
        }
        nodes[0] = winners[1];
        MergeTournament { nodes, leaves }
    }

    #[inline(always)]
    fn winner(&self) -> Option<usize> {
        let (key, source) = self.nodes[0];
        // Test only the upper half of the key. Both halves have just been stored separately, so
        // loading the whole key would have to wait for both stores.
        ((key >> 64) as u64 == 0).then_some(source)
    }

    /// Replaces the winning source's key with its next one, and replays the matches of this source.
    #[inline(always)]
    fn replace(&mut self, source: usize, key: u128) {
        let mut winner = (key, source);
        let mut node = (self.leaves + source) / 2;
        while node > 0 {
            let other = self.nodes[node];
            let stays = other.0 < winner.0;
            self.nodes[node] = select_unpredictable(stays, winner, other);
            winner = select_unpredictable(stays, other, winner);
            node /= 2;
        }
        self.nodes[0] = winner;
    }
}

/// The entries of one fingerprint, whose order may have changed with their values.
#[derive(Default)]
struct FingerprintGroup {
    entries: Vec<CountedEntry>,
}

impl FingerprintGroup {
    #[inline(always)]
    fn push<S, E>(&mut self, entry: FilterEntry, count: u32, builder: &mut FilterBuilder<S>) -> Result<(), E>
    where
        S: FnMut(&[u8]) -> Result<(), E>,
        E: From<Error>,
    {
        if self
            .entries
            .first()
            .is_some_and(|first| first.entry.fingerprint() != entry.fingerprint())
        {
            self.flush(builder)?;
        }
        self.entries.push(CountedEntry { entry, count });
        Ok(())
    }

    #[inline(always)]
    fn flush<S, E>(&mut self, builder: &mut FilterBuilder<S>) -> Result<(), E>
    where
        S: FnMut(&[u8]) -> Result<(), E>,
        E: From<Error>,
    {
        if self.entries.len() > 1 {
            self.entries.sort_unstable_by_key(|counted| counted.entry);
        }
        for counted in &self.entries {
            builder.push(counted.entry, counted.count)?;
        }
        self.entries.clear();
        Ok(())
    }
}

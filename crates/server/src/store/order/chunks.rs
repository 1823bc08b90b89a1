//! The in-memory rank index of a sorted set: a list of chunks with the number of elements in each.
//!
//! A chunk contains the elements from its *start* up to the start of the next chunk. The start is
//! the shortest byte string greater than all elements of the previous chunk and not greater than
//! the chunk's own first element; the first chunk has an empty start. Most chunks are between half
//! full and full. The element limit grows with the set, which bounds the number of chunks.

/// Minimum element limit of a chunk. Iterating over half of such a chunk takes about a third of a
/// millisecond. Smaller chunks would spread the changes of a batch over more chunks, so that more
/// chunk counts would be written.
pub(super) const LEAST_LIMIT: u64 = 4096;

/// Approximate maximum number of chunks. In a larger set, the chunks grow instead.
const MOST_CHUNKS: u64 = 8192;

/// Returns the maximum number of elements of a chunk in a set of `count` elements.
pub(super) fn limit(count: u64) -> u64 {
    LEAST_LIMIT.max(count / MOST_CHUNKS)
}

/// The action that the caller must take after an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkAction {
    Nothing,
    /// Split the chunk at this index, because it has too many elements.
    Split(usize),
}

/// The chunks of a sorted set, in ascending order of their starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ChunkIndex {
    starts: Vec<Box<[u8]>>,
    /// The first eight bytes of each start as an integer. They decide most comparisons.
    heads: Vec<u64>,
    counts: Vec<u32>,
    /// Whether the chunk's count differs from the stored count, for each chunk.
    is_changed: Vec<bool>,
    /// Starts of removed chunks whose counts are still stored.
    gone: Vec<Box<[u8]>>,
    bytes: usize,
}

/// Memory used by a chunk, in bytes, excluding the bytes of its start.
const CHUNK_BYTES: usize = size_of::<Box<[u8]>>() + size_of::<u64>() + size_of::<u32>() + 1 + 16;

/// Returns the shortest byte string greater than `left` and not greater than `right`. The caller
/// must ensure that `right` is greater than `left`.
pub(super) fn separator<'r>(left: &[u8], right: &'r [u8]) -> &'r [u8] {
    let common = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    &right[..right.len().min(common + 1)]
}

impl ChunkIndex {
    /// Appends a chunk without marking it as changed.
    pub(super) fn push(&mut self, start: &[u8], count: u32) {
        let at = self.counts.len();
        self.insert(at, start, count, false);
    }

    fn insert(&mut self, at: usize, start: &[u8], count: u32, is_changed: bool) {
        self.bytes += start.len() + CHUNK_BYTES;
        self.starts.insert(at, start.into());
        self.heads.insert(at, head(start));
        self.counts.insert(at, count);
        self.is_changed.insert(at, is_changed);
    }

    /// Marks all chunks as changed, so that all counts will be stored.
    pub(super) fn change_all(&mut self) {
        self.is_changed.fill(true);
    }

    pub(super) fn len(&self) -> usize {
        self.counts.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn total(&self) -> u64 {
        sum(&self.counts)
    }

    pub(super) fn count(&self, at: usize) -> u32 {
        self.counts[at]
    }

    pub(super) fn start(&self, at: usize) -> Option<&[u8]> {
        self.starts.get(at).map(|start| &**start)
    }

    /// Returns the index of the chunk whose range contains a position.
    pub(super) fn find(&self, place: &[u8]) -> usize {
        let own = head(place);
        let from = self.heads.partition_point(|&head| head < own);
        let alike = self.heads[from..].partition_point(|&head| head == own);
        let of_these = self.starts[from..from + alike].partition_point(|start| **start <= *place);
        (from + of_these).saturating_sub(1)
    }

    /// Returns the total number of elements in the chunks before a chunk.
    pub(super) fn before(&self, at: usize) -> u64 {
        sum(&self.counts[..at])
    }

    /// Returns the index of the chunk that contains the element with a given rank, and the
    /// element's rank within the chunk. Returns `None` if there is no such element.
    pub(super) fn seek(&self, rank: u64) -> Option<(usize, u64)> {
        let mut left = rank;
        for (at, &count) in self.counts.iter().enumerate() {
            if left < u64::from(count) {
                return Some((at, left));
            }
            left -= u64::from(count);
        }
        None
    }

    /// Increments the count of the chunk to which a new element belongs. Returns whether the caller
    /// must split the chunk.
    pub(super) fn add(&mut self, place: &[u8], limit: u64) -> ChunkAction {
        let at = self.find(place);
        self.counts[at] += 1;
        self.is_changed[at] = true;
        if u64::from(self.counts[at]) > limit {
            ChunkAction::Split(at)
        } else {
            ChunkAction::Nothing
        }
    }

    /// Decrements the count of the chunk from which an element was removed, and merges small
    /// chunks. Returns `None` if the count was already zero, because the stored counts are then
    /// damaged.
    pub(super) fn remove(&mut self, place: &[u8], limit: u64) -> Option<()> {
        let at = self.find(place);
        self.counts[at] = self.counts[at].checked_sub(1)?;
        self.is_changed[at] = true;
        let few = |left: usize, right: usize| {
            let both = u64::from(self.counts[left]) + u64::from(self.counts[right]);
            both <= limit / 2
        };
        if at + 1 < self.len() && few(at, at + 1) {
            self.join(at);
        } else if at > 0 && few(at - 1, at) {
            self.join(at - 1);
        }
        Some(())
    }

    /// Merges the chunk at index `at` with the next chunk.
    fn join(&mut self, at: usize) {
        let start = self.starts.remove(at + 1);
        self.heads.remove(at + 1);
        let count = self.counts.remove(at + 1);
        self.is_changed.remove(at + 1);
        self.bytes -= start.len() + CHUNK_BYTES;
        self.gone.push(start);
        self.counts[at] += count;
        self.is_changed[at] = true;
    }

    /// Splits the chunk at index `at`. The new chunk begins at `start`, and the old one keeps
    /// `left` elements.
    pub(super) fn split(&mut self, at: usize, start: &[u8], left: u32) {
        let right = self.counts[at] - left;
        self.counts[at] = left;
        self.is_changed[at] = true;
        self.insert(at + 1, start, right, true);
    }

    /// Returns the changes to store: the starts of removed chunks with `None`, followed by the
    /// starts of changed chunks with their counts.
    pub(super) fn changes(&self) -> impl Iterator<Item = (&[u8], Option<u32>)> {
        let gone = self.gone.iter().map(|start| (&**start, None));
        let changed = (0..self.len()).filter(|&at| self.is_changed[at]);
        gone.chain(changed.map(|at| (&*self.starts[at], Some(self.counts[at]))))
    }

    /// Marks all changes as stored. Called after the commit.
    pub(super) fn is_stored(&mut self) {
        self.gone.clear();
        self.is_changed.fill(false);
    }
}

/// Returns the first eight bytes of a byte string as an integer that sorts in the same order.
fn head(bytes: &[u8]) -> u64 {
    let first = bytes.iter().copied().chain(std::iter::repeat(0));
    first
        .take(size_of::<u64>())
        .fold(0, |head, byte| head << 8 | u64::from(byte))
}

fn sum(counts: &[u32]) -> u64 {
    counts.iter().map(|&count| u64::from(count)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn a_separator_is_short_and_between() {
        assert_eq!(separator(b"abcx", b"abdyyy"), b"abd");
        assert_eq!(separator(b"ab", b"abc"), b"abc");
        assert_eq!(separator(b"", b"xyz"), b"x");
    }

    /// Adds an element and splits the chunk if necessary, as the store does after reading the
    /// chunk's elements.
    fn add(chunks: &mut ChunkIndex, model: &BTreeSet<Vec<u8>>, place: &[u8], limit: u64) {
        if let ChunkAction::Split(at) = chunks.add(place, limit) {
            let of_chunk: Vec<&Vec<u8>> = model.iter().filter(|place| chunks.find(place) == at).collect();
            let half = of_chunk.len() / 2;
            chunks.split(at, separator(of_chunk[half - 1], of_chunk[half]), half as u32);
        }
    }

    #[test]
    fn ranks_are_those_of_a_plain_set_and_what_is_stored_is_the_same() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut chunks = ChunkIndex::default();
        chunks.push(b"", 0);
        chunks.change_all();
        let mut model: BTreeSet<Vec<u8>> = BTreeSet::new();
        let mut stored: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        let limit = 8;
        for turn in 0..6_000 {
            let place = random
                .u16(..300)
                .to_be_bytes()
                .repeat(2 + 4 * usize::from(random.bool()));
            let grows = random.u8(..10) < if turn / 1000 % 2 == 0 { 7 } else { 2 };
            if grows && model.insert(place.clone()) {
                add(&mut chunks, &model, &place, limit);
            } else if !grows && model.remove(&place) {
                chunks.remove(&place, limit).unwrap();
            }
            if turn % 7 == 0 {
                for (start, count) in chunks.changes() {
                    match count {
                        Some(count) => drop(stored.insert(start.to_vec(), count)),
                        None => drop(stored.remove(start)),
                    }
                }
                chunks.is_stored();
                let own: Vec<_> = (0..chunks.len())
                    .map(|at| (chunks.start(at).unwrap().to_vec(), chunks.count(at)))
                    .collect();
                assert_eq!(stored.clone().into_iter().collect::<Vec<_>>(), own);
            }
            assert_eq!(chunks.total(), model.len() as u64);
            let at = chunks.find(&place);
            let before = model.iter().filter(|place| chunks.find(place) < at).count();
            assert_eq!(chunks.before(at), before as u64);
            let rank = random.u64(..300);
            match (chunks.seek(rank), model.iter().nth(rank as usize)) {
                (None, None) => {}
                (Some((at, within)), Some(place)) => {
                    assert_eq!(chunks.find(place), at);
                    assert_eq!(chunks.before(at) + within, rank);
                }
                other => panic!("{other:?}"),
            }
            assert!(chunks.len() as u64 <= 2 + 4 * chunks.total().div_ceil(limit / 2));
        }
    }
}

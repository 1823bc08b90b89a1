//! The index of a run, which locates the leaves that may contain a hash. It is either a `PaCHash`
//! index of the leaves, or a trie of all hashes with the rank of each leaf's first hash.

use super::options::IndexKind;
use alluvium_filters::pachash;
use alluvium_filters::trie::{self, TrieCodes, key_of};
use alluvium_filters::{Error, Result};
use std::ops::Range;
use std::sync::OnceLock;

/// Base-2 logarithm of the number of bins per leaf. A lookup needlessly reads a second leaf with
/// probability 2^−`BINS_LOG`.
const BINS_LOG: u32 = 8;

/// Maximum number of distinct hashes in a run with a trie.
const MOST_HASHES: usize = 1 << 31;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeafIndex {
    /// The encoded `PaCHash` index.
    PaCHash(Box<[u8]>),
    /// The encoded trie of all hashes. The second field contains a number for each leaf: twice the
    /// rank of the leaf's first hash, plus one if the previous leaf ends with the same hash.
    Trie(Box<[u8]>, Box<[u32]>),
}

#[derive(Clone, Copy, Debug)]
pub struct LeafIndexInput<'h> {
    /// First and last hash of each leaf, in leaf order.
    pub leaves: &'h [(u64, u64)],
    /// All distinct hashes, ascending. Needed only for a trie.
    pub all: &'h [u64],
}

/// Returns the code tables that all tries share.
fn codes() -> &'static TrieCodes {
    static CODES: OnceLock<TrieCodes> = OnceLock::new();
    CODES.get_or_init(|| TrieCodes::new(trie::TrieShape::new(8).hmax))
}

impl LeafIndex {
    /// Builds the index of a run with leaves of `page_bytes` bytes.
    ///
    /// # Errors
    /// [`Error::Shape`] if the run has too many leaves or hashes for the index.
    pub fn build(kind: IndexKind, hashes: LeafIndexInput<'_>, page_bytes: u32) -> Result<LeafIndex> {
        debug_assert!(
            hashes.leaves.windows(2).all(|pair| pair[0].1 <= pair[1].0),
            "leaves ascend by hash (R1)"
        );
        match kind {
            IndexKind::PaCHash => {
                let bytes = hashes.leaves.len() as u64 * u64::from(page_bytes);
                let mut builder = pachash::BlockIndexBuilder::new(pachash::BlockIndexShape::with_bins(
                    bytes, page_bytes, BINS_LOG,
                )?);
                for &(first, last) in hashes.leaves {
                    builder.push(first, 1)?;
                    builder.push(last, u64::from(page_bytes) - 1)?;
                }
                Ok(LeafIndex::PaCHash(builder.finish()?.into()))
            }
            IndexKind::Trie => {
                let shape = trie::TrieShape::new(8);
                let buckets = shape.buckets(hashes.all.len() as u64);
                let mut builder = trie::TrieIndexBuilder::new(codes(), shape, buckets)?;
                for &hash in hashes.all {
                    builder.push(&key_of(hash))?;
                }
                let mut starts = Vec::with_capacity(hashes.leaves.len());
                let mut last = None;
                for leaf in hashes.leaves {
                    let before = hashes.all.partition_point(|&hash| hash < leaf.0);
                    if before >= MOST_HASHES {
                        return Err(Error::Shape {
                            what: format!("a trie of {before} hashes"),
                            instead: "more parts".to_owned(),
                        });
                    }
                    starts.push(2 * before as u32 + u32::from(last == Some(leaf.0)));
                    last = Some(leaf.1);
                }
                Ok(LeafIndex::Trie(builder.finish().into(), starts.into()))
            }
        }
    }

    /// Returns the kind of this index.
    #[must_use]
    pub fn kind(&self) -> IndexKind {
        match self {
            LeafIndex::PaCHash(_) => IndexKind::PaCHash,
            LeafIndex::Trie(..) => IndexKind::Trie,
        }
    }

    /// Returns the range of leaves that may contain records with a hash. The range is empty if the
    /// index shows that there are none.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the encoded index is invalid.
    #[inline]
    pub fn leaves(&self, hash: u64) -> Result<Range<u64>> {
        match self {
            LeafIndex::PaCHash(bytes) => pachash::BlockIndex::open(bytes)?.blocks(hash),
            LeafIndex::Trie(bytes, starts) => {
                let Some(rank) = trie::TrieIndex::open(codes(), 8, bytes)?.lookup(&key_of(hash))? else {
                    return Ok(0..0);
                };
                let rank = 2 * u32::try_from(rank).unwrap_or(u32::MAX / 2).min(u32::MAX / 2);
                let begun = starts.partition_point(|&start| start < rank);
                let first = match starts.get(begun) {
                    Some(&start) if start == rank => begun,
                    _ => begun.saturating_sub(1),
                };
                let end = starts.partition_point(|&start| start <= rank + 1);
                Ok(first as u64..end as u64)
            }
        }
    }

    /// Returns the size of the index in memory, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        match self {
            LeafIndex::PaCHash(bytes) => bytes.len() as u64,
            LeafIndex::Trie(bytes, starts) => bytes.len() as u64 + size_of_val(&**starts) as u64,
        }
    }

    /// Checks the encoded index and returns a description of each error.
    #[must_use]
    pub fn check(&self) -> Vec<String> {
        match self {
            LeafIndex::PaCHash(bytes) => match pachash::BlockIndex::open(bytes) {
                Ok(index) => index.check().iter().map(ToString::to_string).collect(),
                Err(error) => vec![error.to_string()],
            },
            LeafIndex::Trie(bytes, _) => match trie::TrieIndex::open(codes(), 8, bytes) {
                Ok(index) => index.check().iter().map(ToString::to_string).collect(),
                Err(error) => vec![error.to_string()],
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits hashes into leaves of up to `most` records. Returns the first and last hash of each
    /// leaf, and all distinct hashes.
    fn leaves(hashes: &[u64], most: usize) -> (Vec<(u64, u64)>, Vec<u64>) {
        let bounds = hashes.chunks(most).map(|leaf| (leaf[0], leaf[leaf.len() - 1]));
        let mut all = hashes.to_vec();
        all.dedup();
        (bounds.collect(), all)
    }

    #[test]
    fn every_hash_is_found_in_all_leaves_that_have_it_and_few_others() {
        let mut random = fastrand::Rng::with_seed(7);
        for kind in [IndexKind::PaCHash, IndexKind::Trie] {
            for count in [1, 2, 40, 3000] {
                let mut hashes: Vec<u64> = (0..count).map(|_| random.u64(..)).collect();
                // Add a hash that starts inside a leaf and continues through the leaves after it,
                // and a hash that starts a leaf.
                let repeated = hashes[count / 2];
                hashes.extend(std::iter::repeat_n(repeated, 70));
                hashes.extend(std::iter::repeat_n(hashes[0], 30));
                hashes.sort_unstable();
                let (bounds, all) = leaves(&hashes, 30);
                let of = LeafIndexInput {
                    leaves: &bounds,
                    all: &all,
                };
                let index = LeafIndex::build(kind, of, 4096).unwrap();
                assert_eq!((index.kind(), index.check()), (kind, Vec::new()));
                let mut read = 0;
                for &hash in &all {
                    let found = index.leaves(hash).unwrap();
                    let has = |leaf: &(u64, u64)| leaf.0 <= hash && hash <= leaf.1;
                    let first = bounds.iter().position(has).unwrap() as u64;
                    let last = bounds.iter().rposition(has).unwrap() as u64;
                    assert!(
                        found.start <= first && last < found.end,
                        "{found:?} {first} {last}"
                    );
                    read += found.end - found.start;
                    let absent = index.leaves(random.u64(..)).unwrap();
                    assert!(absent.end <= bounds.len() as u64 && absent.start <= absent.end);
                }
                assert!(
                    read <= all.len() as u64 + 2 + all.len() as u64 / 20 + 8,
                    "{read} of {}",
                    all.len()
                );
            }
        }
    }
}

//! Estimates the amount of data in a key range, and finds keys that divide the range evenly. Reads
//! only index nodes.

use super::index::{IndexLayout, SubtreeSums};
use super::load::load;
use super::{IndexedRun, MalformedNode};
use alluvium_base::Purpose;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::{EpochGuard, NodeCache, NodePointer, Result};

/// The amount of data in a key range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeWeight {
    /// Encoded bytes of the leaves plus the bytes of their separate values.
    pub bytes: u64,
    pub records: u64,
    /// Number of records that are deletes.
    pub tombstones: u64,
}

impl std::ops::Add for RangeWeight {
    type Output = RangeWeight;
    fn add(self, other: RangeWeight) -> RangeWeight {
        RangeWeight {
            bytes: self.bytes + other.bytes,
            records: self.records + other.records,
            tombstones: self.tombstones + other.tombstones,
        }
    }
}

/// A piece of a key range, from `low` to the `low` of the next piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangePiece {
    /// The lower bound of the piece. All records of a key are in the same piece.
    pub low: Box<[u8]>,
    /// Size of the piece in bytes, as in [`RangeWeight::bytes`].
    pub bytes: u64,
}

/// Minimum number of candidate start keys per piece. The search descends to lower index levels
/// until it has found enough of them.
const CHOICES: usize = 4;

/// An index node on the path of a search.
struct IndexNodeView<'n> {
    pointer: &'n NodePointer,
    layout: &'n IndexLayout,
    bytes: &'n [u8],
}

/// The parameters for reading nodes through the cache.
#[derive(Clone, Copy)]
struct NodeAccess<'g> {
    cache: &'g NodeCache,
    guard: &'g EpochGuard,
    purpose: Purpose,
}

impl IndexedRun {
    /// Returns the amount of data in a key range without reading leaves. The leaves at both ends of
    /// the range count in full, even if only some of their keys are in the range.
    ///
    /// # Errors
    /// [`Error::Corrupt`](alluvium_storage::Error::Corrupt) if a node does not match its pointer;
    /// I/O errors.
    pub fn weigh(
        &self,
        range: &KeyRange,
        cache: &NodeCache,
        guard: &EpochGuard,
        purpose: Purpose,
    ) -> Result<RangeWeight> {
        let inner = &*self.inner;
        let mut sums = SubtreeSums::default();
        if let Some((layout, bytes)) = &inner.root
            && !range.is_empty()
            && *range.low <= *inner.last
        {
            let root = IndexNodeView {
                pointer: &inner.pointer,
                layout,
                bytes,
            };
            let through = NodeAccess {
                cache,
                guard,
                purpose,
            };
            let (low, high) = (Some(&*range.low), range.high.as_deref());
            self.weigh_node(&root, low, high, through, &mut sums)?;
        }
        Ok(RangeWeight {
            bytes: sums.bytes,
            records: sums.records,
            tombstones: sums.tombstones,
        })
    }

    /// Adds the sums of the node's children between `low` and `high`. A bound of `None` means that
    /// this node is not restricted on that side.
    fn weigh_node(
        &self,
        node: &IndexNodeView<'_>,
        low: Option<&[u8]>,
        high: Option<&[u8]>,
        through: NodeAccess<'_>,
        sums: &mut SubtreeSums,
    ) -> Result<()> {
        let bad = |bad: MalformedNode| bad.at(node.pointer);
        let Some((first, last)) = overlapping(node, low, high).map_err(bad)? else {
            return Ok(());
        };
        debug_assert!(
            first <= last && last < node.layout.children,
            "children {first} to {last}"
        );
        let cut_below = match low {
            Some(low) => node.layout.compare(node.bytes, first, low).map_err(bad)?.is_lt(),
            None => false,
        };
        for child in first..=last {
            let low = low.filter(|_| child == first && cut_below);
            let high = high.filter(|_| child == last);
            if node.layout.level == 1 || (low.is_none() && high.is_none()) {
                *sums += node.layout.sums(node.bytes, child).map_err(bad)?;
            } else {
                self.enter(node, child, through, |node| {
                    self.weigh_node(node, low, high, through, sums)
                })?;
            }
        }
        Ok(())
    }

    /// Loads a child that is an index node, and calls `visit` with it.
    fn enter<T>(
        &self,
        node: &IndexNodeView<'_>,
        child: usize,
        through: NodeAccess<'_>,
        visit: impl FnOnce(&IndexNodeView<'_>) -> Result<T>,
    ) -> Result<T> {
        let pointer = node.layout.pointer(node.bytes, child, self.inner.page_size);
        let pointer = pointer.map_err(|bad| bad.at(node.pointer))?;
        let bytes = load(through.cache, through.guard, &pointer, through.purpose)?;
        let layout = IndexLayout::of(&bytes).map_err(|bad| bad.at(&pointer))?;
        if layout.level + 1 != node.layout.level {
            return Err(MalformedNode("an index node of its level").at(&pointer));
        }
        visit(&IndexNodeView {
            pointer: &pointer,
            layout: &layout,
            bytes: &bytes,
        })
    }

    /// Divides a key range into about `wanted` pieces of similar size, or into fewer if there are
    /// not enough leaves. The first piece starts where the range starts.
    ///
    /// # Errors
    /// See [`IndexedRun::weigh`].
    pub fn separators(
        &self,
        range: &KeyRange,
        wanted: usize,
        cache: &NodeCache,
        guard: &EpochGuard,
        purpose: Purpose,
    ) -> Result<Vec<RangePiece>> {
        let inner = &*self.inner;
        let wanted = wanted.max(1);
        let through = NodeAccess {
            cache,
            guard,
            purpose,
        };
        let mut found = Vec::new();
        if let Some((layout, bytes)) = &inner.root
            && !range.is_empty()
            && *range.low <= *inner.last
        {
            let root = IndexNodeView {
                pointer: &inner.pointer,
                layout,
                bytes,
            };
            for level in (1..=layout.level).rev() {
                found.clear();
                self.collect(&root, level, range, through, &mut found)?;
                if found.len() >= wanted.saturating_mul(CHOICES) {
                    break;
                }
            }
        }
        Ok(group(found, range, wanted))
    }

    /// Collects the children that overlap a key range from all index nodes of the given level.
    fn collect(
        &self,
        node: &IndexNodeView<'_>,
        level: u8,
        range: &KeyRange,
        through: NodeAccess<'_>,
        found: &mut Vec<SplitCandidate>,
    ) -> Result<()> {
        let bad = |bad: MalformedNode| bad.at(node.pointer);
        let bounds = overlapping(node, Some(&range.low), range.high.as_deref());
        let Some((first, last)) = bounds.map_err(bad)? else {
            return Ok(());
        };
        for child in first..=last {
            if node.layout.level > level {
                self.enter(node, child, through, |node| {
                    self.collect(node, level, range, through, found)
                })?;
                continue;
            }
            let begun = node.layout.is_begun(node.bytes, child).map_err(bad)?;
            let separator = node.layout.separator(node.bytes, child).map_err(bad)?;
            // If only part of the subtree is in the range, count only that part.
            let low = (*separator < *range.low).then_some(&*range.low);
            let high = range.high.as_deref().filter(|_| child == last);
            let mut sums = SubtreeSums::default();
            if level > 1 && (low.is_some() || high.is_some()) {
                self.enter(node, child, through, |node| {
                    self.weigh_node(node, low, high, through, &mut sums)
                })?;
            } else {
                sums = node.layout.sums(node.bytes, child).map_err(bad)?;
            }
            found.push(SplitCandidate {
                can_begin: !begun && *separator > *range.low,
                low: separator,
                bytes: sums.bytes,
            });
        }
        Ok(())
    }
}

/// A key at which a piece may start.
struct SplitCandidate {
    low: Vec<u8>,
    bytes: u64,
    can_begin: bool,
}

/// Returns the indices of a node's first and last child that may have keys between the bounds, or
/// `None` if there are no such children.
fn overlapping(
    node: &IndexNodeView<'_>,
    low: Option<&[u8]>,
    high: Option<&[u8]>,
) -> std::result::Result<Option<(usize, usize)>, MalformedNode> {
    let first = match low {
        Some(low) => node.layout.child_for(node.bytes, low)?.unwrap_or(0),
        None => 0,
    };
    let behind = match high {
        Some(high) => node.layout.below(node.bytes, high)?,
        None => node.layout.children,
    };
    Ok(behind
        .checked_sub(1)
        .filter(|&last| first <= last)
        .map(|last| (first, last)))
}

/// Combines the candidates' subtrees into pieces of similar size.
fn group(candidates: Vec<SplitCandidate>, range: &KeyRange, wanted: usize) -> Vec<RangePiece> {
    assert!(wanted > 0, "a range is one piece at least");
    let total: u64 = candidates
        .iter()
        .fold(0, |sum, candidate| sum.saturating_add(candidate.bytes));
    let mut pieces: Vec<RangePiece> = Vec::new();
    let mut before = 0u64;
    for candidate in candidates {
        // The next piece starts at the first candidate whose middle is at or after the ideal
        // boundary.
        let due = u128::from(total) * pieces.len() as u128 / wanted as u128;
        let middle = before.saturating_add(candidate.bytes / 2);
        match pieces.last_mut() {
            Some(last) if !candidate.can_begin || u128::from(middle) < due => {
                last.bytes = last.bytes.saturating_add(candidate.bytes);
            }
            Some(_) => pieces.push(RangePiece {
                low: candidate.low.into(),
                bytes: candidate.bytes,
            }),
            None => pieces.push(RangePiece {
                low: range.low.clone(),
                bytes: candidate.bytes,
            }),
        }
        before = before.saturating_add(candidate.bytes);
    }
    debug_assert_eq!(before, total, "pieces have all the bytes (I2)");
    pieces
}

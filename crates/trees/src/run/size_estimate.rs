//! The weight of a key range, and suitable split points, computed from index nodes alone.

use super::index::{IndexLayout, SubtreeSums};
use super::load::load;
use super::{IndexedRun, MalformedNode};
use alluvium_base::Purpose;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::{EpochGuard, NodeCache, NodePointer, Result};

/// The amount of data in a key range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeWeight {
    /// Encoded bytes of leaves, plus the bytes of their separate values.
    pub bytes: u64,
    pub records: u64,
    /// Number of deletes among the records.
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

/// A piece of a range, from `low` up to the start of the next piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangePiece {
    /// Lower bound of the keys in the piece. No key has records on both sides of it.
    pub low: Box<[u8]>,
    /// Size in bytes, as in [`RangeWeight::bytes`].
    pub bytes: u64,
}

/// The search descends until there are this many candidates per piece.
const CHOICES: usize = 4;

/// An index node on the path.
struct IndexNodeView<'n> {
    pointer: &'n NodePointer,
    layout: &'n IndexLayout,
    bytes: &'n [u8],
}

/// The means for reading nodes.
#[derive(Clone, Copy)]
struct NodeAccess<'g> {
    cache: &'g NodeCache,
    guard: &'g EpochGuard,
    purpose: Purpose,
}

impl IndexedRun {
    /// Returns the weight of a range. Leaves are not read; the leaves at the start and the end of
    /// the range count completely.
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

    /// Adds the sums of a node's children between the bounds. An absent bound is outside the node.
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

    /// Splits a range into about `wanted` pieces of about equal weight; fewer if there are too few
    /// leaves. The first piece starts at the start of the range.
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

    /// Collects the children of the nodes of a level that overlap a range.
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
            // For a subtree that is partly outside the range, counts only the part inside.
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

/// A possible start of a piece.
struct SplitCandidate {
    low: Vec<u8>,
    bytes: u64,
    can_begin: bool,
}

/// Returns the first and the last child of a node that may have keys between the bounds.
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

/// Combines candidates into pieces of about equal weight.
fn group(candidates: Vec<SplitCandidate>, range: &KeyRange, wanted: usize) -> Vec<RangePiece> {
    assert!(wanted > 0, "a range is one piece at least");
    let total: u64 = candidates
        .iter()
        .fold(0, |sum, candidate| sum.saturating_add(candidate.bytes));
    let mut pieces: Vec<RangePiece> = Vec::new();
    let mut before = 0u64;
    for candidate in candidates {
        // The next piece starts at the candidate whose middle passes the due weight.
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

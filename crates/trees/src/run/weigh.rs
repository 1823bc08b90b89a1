//! What a range of keys comes to, and where it would be cut, from index nodes alone.

use super::index::{Layout, Sums};
use super::load::load;
use super::{Bad, Run};
use alluvium_base::Purpose;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::{Cache, Guard, NodePointer, Result};

/// What a range comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Encoded bytes of leaves, and of the values outside them.
    pub bytes: u64,
    /// Records.
    pub records: u64,
    /// Deletes among the records.
    pub tombstones: u64,
}

impl std::ops::Add for Weight {
    type Output = Weight;
    fn add(self, other: Weight) -> Weight {
        Weight {
            bytes: self.bytes + other.bytes,
            records: self.records + other.records,
            tombstones: self.tombstones + other.tombstones,
        }
    }
}

/// A piece of a range: from its lowest key up to the next piece's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The lowest key that may be in the piece. No key's records are on both sides of it.
    pub low: Box<[u8]>,
    /// Bytes, as in [`Weight::bytes`].
    pub bytes: u64,
}

/// Children are looked at more closely until there are this many for each piece.
const CHOICES: usize = 4;

/// An index node on the way.
struct Node<'n> {
    pointer: &'n NodePointer,
    layout: &'n Layout,
    bytes: &'n [u8],
}

/// Through what nodes are read.
#[derive(Clone, Copy)]
struct Through<'g> {
    cache: &'g Cache,
    guard: &'g Guard,
    purpose: Purpose,
}

impl Run {
    /// Returns what a range comes to. Leaves are not read: those that the range begins and ends in
    /// count whole.
    ///
    /// # Errors
    /// [`Error::Corrupt`](alluvium_storage::Error::Corrupt) when a node is not what its pointer
    /// means; as the device says.
    pub fn weigh(&self, range: &KeyRange, cache: &Cache, guard: &Guard, purpose: Purpose) -> Result<Weight> {
        let inner = &*self.inner;
        let mut sums = Sums::default();
        if let Some((layout, bytes)) = &inner.root
            && !range.is_empty()
            && *range.low <= *inner.last
        {
            let root = Node {
                pointer: &inner.pointer,
                layout,
                bytes,
            };
            let through = Through {
                cache,
                guard,
                purpose,
            };
            let (low, high) = (Some(&*range.low), range.high.as_deref());
            self.weigh_node(&root, low, high, through, &mut sums)?;
        }
        Ok(Weight {
            bytes: sums.bytes,
            records: sums.records,
            tombstones: sums.tombstones,
        })
    }

    /// Adds what the children of a node come to. A bound that is absent is outside the node.
    fn weigh_node(
        &self,
        node: &Node<'_>,
        low: Option<&[u8]>,
        high: Option<&[u8]>,
        through: Through<'_>,
        sums: &mut Sums,
    ) -> Result<()> {
        let bad = |bad: Bad| bad.at(node.pointer);
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

    /// Loads a child that is an index node.
    fn enter<T>(
        &self,
        node: &Node<'_>,
        child: usize,
        through: Through<'_>,
        visit: impl FnOnce(&Node<'_>) -> Result<T>,
    ) -> Result<T> {
        let pointer = node.layout.pointer(node.bytes, child, self.inner.page_size);
        let pointer = pointer.map_err(|bad| bad.at(node.pointer))?;
        let bytes = load(through.cache, through.guard, &pointer, through.purpose)?;
        let layout = Layout::of(&bytes).map_err(|bad| bad.at(&pointer))?;
        if layout.level + 1 != node.layout.level {
            return Err(Bad("an index node of its level").at(&pointer));
        }
        visit(&Node {
            pointer: &pointer,
            layout: &layout,
            bytes: &bytes,
        })
    }

    /// Cuts a range in about `wanted` pieces that come to about as much each; in fewer where there
    /// are too few leaves. The first piece begins with the range.
    ///
    /// # Errors
    /// As [`Run::weigh`].
    pub fn separators(
        &self,
        range: &KeyRange,
        wanted: usize,
        cache: &Cache,
        guard: &Guard,
        purpose: Purpose,
    ) -> Result<Vec<Piece>> {
        let inner = &*self.inner;
        let wanted = wanted.max(1);
        let through = Through {
            cache,
            guard,
            purpose,
        };
        let mut found = Vec::new();
        if let Some((layout, bytes)) = &inner.root
            && !range.is_empty()
            && *range.low <= *inner.last
        {
            let root = Node {
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

    /// Collects the children, in a range, of the nodes of a level.
    fn collect(
        &self,
        node: &Node<'_>,
        level: u8,
        range: &KeyRange,
        through: Through<'_>,
        found: &mut Vec<Candidate>,
    ) -> Result<()> {
        let bad = |bad: Bad| bad.at(node.pointer);
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
            // Of a subtree that the range cuts, what is in the range.
            let low = (*separator < *range.low).then_some(&*range.low);
            let high = range.high.as_deref().filter(|_| child == last);
            let mut sums = Sums::default();
            if level > 1 && (low.is_some() || high.is_some()) {
                self.enter(node, child, through, |node| {
                    self.weigh_node(node, low, high, through, &mut sums)
                })?;
            } else {
                sums = node.layout.sums(node.bytes, child).map_err(bad)?;
            }
            found.push(Candidate {
                can_begin: !begun && *separator > *range.low,
                low: separator,
                bytes: sums.bytes,
            });
        }
        Ok(())
    }
}

/// Where a piece may begin.
struct Candidate {
    low: Vec<u8>,
    bytes: u64,
    can_begin: bool,
}

/// Returns the first and the last child of a node that may have keys between bounds.
fn overlapping(
    node: &Node<'_>,
    low: Option<&[u8]>,
    high: Option<&[u8]>,
) -> std::result::Result<Option<(usize, usize)>, Bad> {
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

/// Groups candidates in pieces of about the same weight.
fn group(candidates: Vec<Candidate>, range: &KeyRange, wanted: usize) -> Vec<Piece> {
    assert!(wanted > 0, "a range is one piece at least");
    let total: u64 = candidates
        .iter()
        .fold(0, |sum, candidate| sum.saturating_add(candidate.bytes));
    let mut pieces: Vec<Piece> = Vec::new();
    let mut before = 0u64;
    for candidate in candidates {
        // Where the next piece is due to begin; the candidate's middle decides.
        let due = u128::from(total) * pieces.len() as u128 / wanted as u128;
        let middle = before.saturating_add(candidate.bytes / 2);
        match pieces.last_mut() {
            Some(last) if !candidate.can_begin || u128::from(middle) < due => {
                last.bytes = last.bytes.saturating_add(candidate.bytes);
            }
            Some(_) => pieces.push(Piece {
                low: candidate.low.into(),
                bytes: candidate.bytes,
            }),
            None => pieces.push(Piece {
                low: range.low.clone(),
                bytes: candidate.bytes,
            }),
        }
        before = before.saturating_add(candidate.bytes);
    }
    debug_assert_eq!(before, total, "pieces have all the bytes (I2)");
    pieces
}

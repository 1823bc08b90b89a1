//! Point lookups.

use super::leaf::{LeafLayout, ValueStorage};
use super::load::{load, load_index_in, load_leaf_in};
use super::path::{IndexPath, PathTarget};
use super::{IndexedRun, MalformedNode, index};
use alluvium_base::{Purpose, SequenceNumber, prefetch};
use alluvium_dictionary::fetch::{BlockingFetch, NodeFetch, unwrap_ready};
use alluvium_dictionary::record::{RecordValue, StoredRecord};
use alluvium_dictionary::value_log::ValuePointer;
use alluvium_storage::{EpochGuard, NodeCache, NodePointer, PageSize, Result};
use std::ops::ControlFlow;
use std::task::{Poll, ready};

/// Number of cache lines of a leaf to prefetch. They cover the header and the keys of a one-page
/// leaf.
const FIRST_LINES: usize = 16;

impl IndexedRun {
    /// Looks up a key as of sequence number `at`: calls `visit` with each record of the key whose
    /// sequence number is at most `at`, from newest to oldest, until `visit` returns a break.
    ///
    /// # Errors
    /// [`Error::Corrupt`](alluvium_storage::Error::Corrupt) if a node does not match its pointer;
    /// I/O errors; the errors of `visit`.
    pub fn find(
        &self,
        key: &[u8],
        at: SequenceNumber,
        cache: &NodeCache,
        guard: &EpochGuard,
        purpose: Purpose,
        mut visit: impl FnMut(StoredRecord<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let from = BlockingFetch {
            cache,
            guard,
            purpose,
        };
        unwrap_ready(self.search(key, at, &from, |record| Poll::Ready(visit(record))))
    }

    /// Like [`IndexedRun::find`], but reads nodes through `fetch`. If this returns pending, the
    /// caller must repeat the call, which starts over with the newest record, so `visit` may see a
    /// record twice.
    #[inline]
    pub(crate) fn search<F: NodeFetch>(
        &self,
        key: &[u8],
        at: SequenceNumber,
        fetch: &F,
        mut visit: impl FnMut(StoredRecord<'_>) -> Poll<Result<ControlFlow<()>>>,
    ) -> Poll<Result<()>> {
        let base = self.base;
        if at < base {
            return Poll::Ready(Ok(()));
        }
        let mut visit = |record: StoredRecord<'_>| {
            let sequence = record.sequence.max(base);
            visit(StoredRecord { sequence, ..record })
        };
        let Some(pointer) = ready!(self.locate_in(key, fetch))? else {
            return Poll::Ready(Ok(()));
        };
        let leaf = ready!(load_leaf_in(fetch, &pointer))?;
        for line in 0..FIRST_LINES {
            prefetch(&leaf, line * 64);
        }
        let page_size = self.inner.page_size;
        if ready!(visit_key(&leaf, &pointer, key, at, page_size, &mut visit))? == VisitOutcome::Continues {
            return self.search_on(key, at, fetch.blocking(), &mut visit);
        }
        Poll::Ready(Ok(()))
    }

    /// Continues a lookup after the first leaf, for a key whose records span several leaves. Waits
    /// for the reads of these leaves.
    #[cold]
    fn search_on(
        &self,
        key: &[u8],
        at: SequenceNumber,
        from: &BlockingFetch<'_>,
        visit: &mut impl FnMut(StoredRecord<'_>) -> Poll<Result<ControlFlow<()>>>,
    ) -> Poll<Result<()>> {
        let BlockingFetch {
            cache,
            guard,
            purpose,
        } = *from;
        let Some(mut path) = IndexPath::seek(self, PathTarget::First(key), cache, guard, purpose)? else {
            return Poll::Ready(Ok(()));
        };
        while path.next(cache, guard, purpose)? {
            let pointer = path.child()?.pointer;
            let leaf = load(cache, guard, &pointer, purpose)?;
            if ready!(visit_key(&leaf, &pointer, key, at, self.inner.page_size, visit))?
                != VisitOutcome::Continues
            {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Returns the leaf that contains the newest record of a key, if the run has the key, so that
    /// the caller can prefetch the leaves of several lookups in one batch. Reads index nodes as
    /// needed. Returns `None` if the run cannot contain the key.
    ///
    /// # Errors
    /// See [`IndexedRun::find`].
    pub fn locate(
        &self,
        key: &[u8],
        cache: &NodeCache,
        guard: &EpochGuard,
        purpose: Purpose,
    ) -> Result<Option<NodePointer>> {
        unwrap_ready(self.locate_in(
            key,
            &BlockingFetch {
                cache,
                guard,
                purpose,
            },
        ))
    }

    #[inline]
    fn locate_in<F: NodeFetch>(&self, key: &[u8], fetch: &F) -> Poll<Result<Option<NodePointer>>> {
        let inner = &*self.inner;
        let Some((layout, root)) = &inner.root else {
            return Poll::Ready(Ok(None));
        };
        if *key > *inner.last {
            return Poll::Ready(Ok(None));
        }
        let bad = |bad: MalformedNode| bad.at(&inner.pointer);
        let Some(child) = layout.child_for(root, key).map_err(bad)? else {
            return Poll::Ready(Ok(None));
        };
        let mut pointer = layout.pointer(root, child, inner.page_size).map_err(bad)?;
        for level in (1..layout.level).rev() {
            let node = ready!(load_index_in(fetch, &pointer))?;
            pointer = child_in(&node, level, key, inner.page_size).map_err(|bad| bad.at(&pointer))?;
        }
        Poll::Ready(Ok(Some(pointer)))
    }
}

/// Returns the pointer to the child of an index node that contains the newest record of a key.
#[inline]
fn child_in(
    node: &[u8],
    level: u8,
    key: &[u8],
    page_size: PageSize,
) -> std::result::Result<NodePointer, MalformedNode> {
    let layout = index::IndexLayout::of(node)?;
    if layout.level != level {
        return Err(MalformedNode("an index node of its level"));
    }
    let child = layout.child_for(node, key)?.ok_or(MalformedNode(
        "a first separator no higher than in the node above",
    ))?;
    layout.pointer(node, child, page_size)
}

/// The result of visiting the records of a key in one leaf.
#[derive(PartialEq, Eq)]
enum VisitOutcome {
    Done,
    /// The key has more records in the next leaf.
    Continues,
}

#[inline]
fn visit_key(
    leaf: &[u8],
    pointer: &NodePointer,
    key: &[u8],
    at: SequenceNumber,
    page_size: PageSize,
    visit: &mut impl FnMut(StoredRecord<'_>) -> Poll<Result<ControlFlow<()>>>,
) -> Poll<Result<VisitOutcome>> {
    let bad = |bad: MalformedNode| bad.at(pointer);
    let layout = LeafLayout::of(leaf).map_err(bad)?;
    let (found, equal) = layout.lower_bound(leaf, key).map_err(bad)?;
    if !equal {
        return Poll::Ready(Ok(VisitOutcome::Done));
    }
    let records = layout.records_of(leaf, found).map_err(bad)?;
    let first = layout.first_seen(leaf, &records, at).map_err(bad)?;
    debug_assert!(
        records.start <= first && first <= records.end,
        "the first seen is one of the key's"
    );
    for record in first..records.end {
        let record = record_of(&layout, leaf, record, pointer, page_size)?;
        if ready!(visit(record))?.is_break() {
            return Poll::Ready(Ok(VisitOutcome::Done));
        }
    }
    if layout.goes_on && found + 1 == layout.keys {
        return Poll::Ready(Ok(VisitOutcome::Continues));
    }
    Poll::Ready(Ok(VisitOutcome::Done))
}

/// Decodes the record at index `record` of a leaf.
#[inline]
pub(super) fn record_of<'a>(
    layout: &LeafLayout,
    leaf: &'a [u8],
    record: usize,
    pointer: &NodePointer,
    page_size: PageSize,
) -> Result<StoredRecord<'a>> {
    let parts = layout.parts(leaf, record).map_err(|bad| bad.at(pointer))?;
    let value = &leaf[parts.value];
    Ok(StoredRecord {
        sequence: parts.sequence,
        kind: parts.kind,
        expires_ms: parts.expires_ms,
        value: match parts.placement {
            ValueStorage::Inline => RecordValue::Inline(value),
            ValueStorage::Separate => {
                RecordValue::Separate(ValuePointer::decode(value, &pointer.place(), page_size)?)
            }
        },
    })
}

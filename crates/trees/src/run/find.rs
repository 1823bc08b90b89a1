//! Point lookups.

use super::leaf::{Layout, Placement};
use super::load::{load, load_index_in, load_leaf_in};
use super::path::{Path, Target};
use super::{Bad, Run, index};
use alluvium_base::{Purpose, Sequence, prefetch};
use alluvium_dictionary::fetch::{Blocking, Fetch, found};
use alluvium_dictionary::record::{Record, Value};
use alluvium_dictionary::values::ValuePointer;
use alluvium_storage::{Cache, Guard, NodePointer, PageSize, Result};
use std::ops::ControlFlow;
use std::task::{Poll, ready};

/// Number of cache lines of a leaf to prefetch: its header, and the keys of a one-page leaf.
const FIRST_LINES: usize = 16;

impl Run {
    /// Calls `visit` with the records of a key at or below `at`, newest first, until it breaks.
    ///
    /// # Errors
    /// [`Error::Corrupt`](alluvium_storage::Error::Corrupt) if a node does not match its pointer;
    /// I/O errors; errors of `visit`.
    pub fn find(
        &self,
        key: &[u8],
        at: Sequence,
        cache: &Cache,
        guard: &Guard,
        purpose: Purpose,
        mut visit: impl FnMut(Record<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let from = Blocking {
            cache,
            guard,
            purpose,
        };
        found(self.search(key, at, &from, |record| Poll::Ready(visit(record))))
    }

    /// Like [`Run::find`], with nodes from any source. If it returns pending, `visit` may have been
    /// called with some of the records and will be called with them again.
    #[inline]
    pub(crate) fn search<F: Fetch>(
        &self,
        key: &[u8],
        at: Sequence,
        fetch: &F,
        mut visit: impl FnMut(Record<'_>) -> Poll<Result<ControlFlow<()>>>,
    ) -> Poll<Result<()>> {
        let base = self.base;
        if at < base {
            return Poll::Ready(Ok(()));
        }
        let mut visit = |record: Record<'_>| {
            let sequence = record.sequence.max(base);
            visit(Record { sequence, ..record })
        };
        let Some(pointer) = ready!(self.locate_in(key, fetch))? else {
            return Poll::Ready(Ok(()));
        };
        let leaf = ready!(load_leaf_in(fetch, &pointer))?;
        for line in 0..FIRST_LINES {
            prefetch(&leaf, line * 64);
        }
        let page_size = self.inner.page_size;
        if ready!(visit_key(&leaf, &pointer, key, at, page_size, &mut visit))? == Visited::GoesOn {
            return self.search_on(key, at, fetch.blocking(), &mut visit);
        }
        Poll::Ready(Ok(()))
    }

    /// Continues the search after a key's first leaf, for a key whose records fill several leaves.
    /// Waits for these leaves.
    #[cold]
    fn search_on(
        &self,
        key: &[u8],
        at: Sequence,
        from: &Blocking<'_>,
        visit: &mut impl FnMut(Record<'_>) -> Poll<Result<ControlFlow<()>>>,
    ) -> Poll<Result<()>> {
        let Blocking {
            cache,
            guard,
            purpose,
        } = *from;
        let Some(mut path) = Path::seek(self, Target::First(key), cache, guard, purpose)? else {
            return Poll::Ready(Ok(()));
        };
        while path.next(cache, guard, purpose)? {
            let pointer = path.child()?.pointer;
            let leaf = load(cache, guard, &pointer, purpose)?;
            if ready!(visit_key(&leaf, &pointer, key, at, self.inner.page_size, visit))? != Visited::GoesOn {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Returns the leaf that contains a key's newest record if the run has the key, so that it can
    /// be prefetched together with others. Reads index nodes as needed.
    ///
    /// # Errors
    /// See [`Run::find`].
    pub fn locate(
        &self,
        key: &[u8],
        cache: &Cache,
        guard: &Guard,
        purpose: Purpose,
    ) -> Result<Option<NodePointer>> {
        found(self.locate_in(
            key,
            &Blocking {
                cache,
                guard,
                purpose,
            },
        ))
    }

    #[inline]
    fn locate_in<F: Fetch>(&self, key: &[u8], fetch: &F) -> Poll<Result<Option<NodePointer>>> {
        let inner = &*self.inner;
        let Some((layout, root)) = &inner.root else {
            return Poll::Ready(Ok(None));
        };
        if *key > *inner.last {
            return Poll::Ready(Ok(None));
        }
        let bad = |bad: Bad| bad.at(&inner.pointer);
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

/// Returns the child of an index node that contains a key's newest record.
#[inline]
fn child_in(
    node: &[u8],
    level: u8,
    key: &[u8],
    page_size: PageSize,
) -> std::result::Result<NodePointer, Bad> {
    let layout = index::Layout::of(node)?;
    if layout.level != level {
        return Err(Bad("an index node of its level"));
    }
    let child = layout
        .child_for(node, key)?
        .ok_or(Bad("a first separator no higher than in the node above"))?;
    layout.pointer(node, child, page_size)
}

/// Whether the search for a key's records is complete.
#[derive(PartialEq, Eq)]
enum Visited {
    Done,
    /// The following leaf has more records.
    GoesOn,
}

#[inline]
fn visit_key(
    leaf: &[u8],
    pointer: &NodePointer,
    key: &[u8],
    at: Sequence,
    page_size: PageSize,
    visit: &mut impl FnMut(Record<'_>) -> Poll<Result<ControlFlow<()>>>,
) -> Poll<Result<Visited>> {
    let bad = |bad: Bad| bad.at(pointer);
    let layout = Layout::of(leaf).map_err(bad)?;
    let (found, equal) = layout.lower_bound(leaf, key).map_err(bad)?;
    if !equal {
        return Poll::Ready(Ok(Visited::Done));
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
            return Poll::Ready(Ok(Visited::Done));
        }
    }
    if layout.goes_on && found + 1 == layout.keys {
        return Poll::Ready(Ok(Visited::GoesOn));
    }
    Poll::Ready(Ok(Visited::Done))
}

/// Returns a record of a leaf.
#[inline]
pub(super) fn record_of<'a>(
    layout: &Layout,
    leaf: &'a [u8],
    record: usize,
    pointer: &NodePointer,
    page_size: PageSize,
) -> Result<Record<'a>> {
    let parts = layout.parts(leaf, record).map_err(|bad| bad.at(pointer))?;
    let value = &leaf[parts.value];
    Ok(Record {
        sequence: parts.sequence,
        kind: parts.kind,
        expires_ms: parts.expires_ms,
        value: match parts.placement {
            Placement::Inline => Value::Inline(value),
            Placement::Separate => Value::Separate(ValuePointer::decode(value, &pointer.place(), page_size)?),
        },
    })
}

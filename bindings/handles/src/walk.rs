//! Handles to iterators, which return pages of records.

use crate::error::{HandleError, Result};
use crate::page;
use crate::registry::LiveTicket;
use crate::store::StoreState;
use alluvium::{
    Error, Iter, Keyspace, Snapshot, Transaction, TransactionIter, TransactionUnorderedScan, UnorderedScan,
};
use parking_lot::Mutex;
use self_cell::self_cell;
use std::ops::Bound;
use std::sync::Arc;

/// The range and the kind of an iterator. Without bounds, it is the whole keyspace.
#[derive(Clone, Copy, Debug)]
pub struct WalkRange<'a> {
    /// The first key.
    pub start: Bound<&'a [u8]>,
    /// The last key.
    pub end: Bound<&'a [u8]>,
    /// Whether values are empty, and not read if they are long.
    pub omits_values: bool,
    /// Whether the records have the order of the structure, which is the only one that hashed
    /// keyspaces have. The bounds must be open.
    pub is_unordered: bool,
}

impl Default for WalkRange<'_> {
    fn default() -> Self {
        WalkRange {
            start: Bound::Unbounded,
            end: Bound::Unbounded,
            omits_values: false,
            is_unordered: false,
        }
    }
}

impl WalkRange<'_> {
    /// Returns the end of the range of keys that start with a prefix.
    #[must_use]
    pub fn end_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
        let kept = prefix.iter().rposition(|&byte| byte != 0xff)?;
        let mut end = prefix.get(..=kept)?.to_vec();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        Some(end)
    }

    fn is_whole(&self) -> bool {
        matches!((self.start, self.end), (Bound::Unbounded, Bound::Unbounded))
    }
}

/// From which end of its range an iterator returns records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkDirection {
    /// From the smallest key.
    Forward,
    /// From the greatest key.
    Backward,
}

/// A key and its value.
pub type RecordPair = (Vec<u8>, Vec<u8>);

/// What a page contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageExtent {
    /// Number of records. Zero at the end of the range, or if the buffer is too short.
    pub records: usize,
    /// Number of bytes that the records occupy. If the buffer is too short for the next record, the
    /// number of bytes that this record needs.
    pub bytes: usize,
}

self_cell!(
    struct TransactionWalk {
        owner: Arc<Transaction>,

        #[not_covariant]
        dependent: TransactionIter,
    }
);

self_cell!(
    struct TransactionScan {
        owner: Arc<Transaction>,

        #[not_covariant]
        dependent: TransactionUnorderedScan,
    }
);

/// Where the records come from.
enum WalkSource {
    Ordered(Box<Iter>),
    Unordered(Box<UnorderedScan>),
    Transaction(TransactionWalk),
    TransactionScan(TransactionScan),
    /// The iterator of a transaction that has ended.
    Ended,
    /// The bounds cannot be used. The first page reports it.
    Refused(HandleError),
}

struct WalkState {
    source: WalkSource,
    omits_values: bool,
    /// The record of each end that the last buffer was too short for.
    pending: [Option<RecordPair>; 2],
    /// An error that followed the last record of a page.
    failed: Option<HandleError>,
}

/// The state of an iterator, which its transaction can end.
pub(crate) struct WalkCell {
    state: Mutex<WalkState>,
}

/// A handle to an iterator.
pub struct WalkHandle {
    cell: Arc<WalkCell>,
    store: Arc<StoreState>,
    _live: LiveTicket,
}

impl WalkHandle {
    pub(crate) fn new(
        store: &Arc<StoreState>,
        live: LiveTicket,
        keyspace: &Keyspace,
        snapshot: Option<&Snapshot>,
        range: &WalkRange<'_>,
    ) -> WalkHandle {
        let bounds = (range.start, range.end);
        let source = match (range.is_unordered, snapshot) {
            (true, _) if !range.is_whole() => refused_bounds(),
            (true, None) => WalkSource::Unordered(Box::new(keyspace.unordered())),
            (true, Some(snapshot)) => WalkSource::Unordered(Box::new(snapshot.unordered(keyspace))),
            (false, None) => WalkSource::Ordered(Box::new(keyspace.range::<&[u8]>(bounds))),
            (false, Some(snapshot)) => {
                WalkSource::Ordered(Box::new(snapshot.range::<&[u8]>(keyspace, bounds)))
            }
        };
        WalkHandle::over(store, live, source, range)
    }

    pub(crate) fn in_transaction(
        store: &Arc<StoreState>,
        live: LiveTicket,
        keyspace: &Keyspace,
        transaction: Arc<Transaction>,
        range: &WalkRange<'_>,
    ) -> WalkHandle {
        let bounds = (range.start, range.end);
        let omits = range.omits_values;
        let source = match range.is_unordered {
            true if !range.is_whole() => refused_bounds(),
            true => WalkSource::TransactionScan(TransactionScan::new(transaction, |transaction| {
                let scan = transaction.unordered(keyspace);
                if omits { scan.without_long_values() } else { scan }
            })),
            false => WalkSource::Transaction(TransactionWalk::new(transaction, |transaction| {
                let walk = transaction.range::<&[u8]>(keyspace, bounds);
                if omits { walk.without_long_values() } else { walk }
            })),
        };
        WalkHandle::over(store, live, source, range)
    }

    fn over(
        store: &Arc<StoreState>,
        live: LiveTicket,
        source: WalkSource,
        range: &WalkRange<'_>,
    ) -> WalkHandle {
        let source = match source {
            WalkSource::Ordered(iter) if range.omits_values => {
                WalkSource::Ordered(Box::new(iter.without_long_values()))
            }
            WalkSource::Unordered(scan) if range.omits_values => {
                WalkSource::Unordered(Box::new(scan.without_long_values()))
            }
            source => source,
        };
        WalkHandle {
            cell: Arc::new(WalkCell {
                state: Mutex::new(WalkState {
                    source,
                    omits_values: range.omits_values,
                    pending: [None, None],
                    failed: None,
                }),
            }),
            store: Arc::clone(store),
            _live: live,
        }
    }

    pub(crate) fn cell(&self) -> &Arc<WalkCell> {
        &self.cell
    }

    /// Fills a buffer with the next records from one end, as [`page`] describes. An iterator whose
    /// ends have met returns no more records from either.
    ///
    /// # Errors
    /// The errors of [`Iter::lend`]; [`Error::TransactionEnded`]; an error about the argument if an
    /// unordered iterator is asked for records from its back.
    pub fn fill(&self, direction: WalkDirection, buffer: &mut [u8]) -> Result<PageExtent> {
        self.store.db()?;
        let mut state = self.cell.state.lock();
        let mut extent = PageExtent::default();
        state.each(direction, |key, value| {
            match buffer
                .get_mut(extent.bytes..)
                .and_then(|rest| page::push_record(rest, key, value))
            {
                Some(length) => {
                    extent.bytes += length;
                    extent.records += 1;
                    true
                }
                None => {
                    if extent.records == 0 {
                        extent.bytes = page::encoded_length(key, value);
                    }
                    false
                }
            }
        })?;
        Ok(extent)
    }

    /// Returns the next records from one end: as many as fit into `bytes` in the form of
    /// [`WalkHandle::fill`], but at least one, and at most `records`. None at the end of the range.
    ///
    /// # Errors
    /// The errors of [`WalkHandle::fill`].
    pub fn fetch(&self, direction: WalkDirection, bytes: usize, records: usize) -> Result<Vec<RecordPair>> {
        self.store.db()?;
        let mut state = self.cell.state.lock();
        let mut pairs = Vec::new();
        let mut filled = 0;
        state.each(direction, |key, value| {
            filled += page::encoded_length(key, value);
            let fits = pairs.is_empty() || (filled <= bytes && pairs.len() < records);
            if fits {
                pairs.push((key.to_vec(), value.to_vec()));
            }
            fits
        })?;
        Ok(pairs)
    }

    /// Moves the front of the iterator to the first key that is not less than `key`.
    ///
    /// # Errors
    /// An error about the argument if the iterator is unordered or one of a transaction;
    /// [`Error::Closed`].
    pub fn seek(&self, key: &[u8]) -> Result<()> {
        self.store.db()?;
        let mut state = self.cell.state.lock();
        match &mut state.source {
            WalkSource::Ordered(iter) => iter.seek(key),
            WalkSource::Ended => return Err(ended()),
            WalkSource::Refused(error) => return Err(error.clone()),
            _ => {
                let text = "unordered iterators and iterators of transactions cannot seek: open another iterator that begins at the key";
                return Err(HandleError::argument(text));
            }
        }
        state.pending[0] = None;
        state.failed = None;
        Ok(())
    }
}

fn refused_bounds() -> WalkSource {
    WalkSource::Refused(HandleError::argument(
        "an unordered iterator has no bounds: leave the bounds out, or iterate in order",
    ))
}

pub(crate) fn ended() -> HandleError {
    Error::TransactionEnded {
        why: "it was committed or rolled back",
    }
    .into()
}

impl WalkCell {
    /// Ends the iterator, because its transaction ends (H3).
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.source = WalkSource::Ended;
        state.pending = [None, None];
        state.failed = None;
    }
}

impl WalkState {
    /// Calls `take` with each record from one end, until it returns `false`. That record is pending
    /// until the next call (H4).
    fn each(&mut self, direction: WalkDirection, mut take: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let own = direction as usize;
        let mut taken = 0usize;
        if let Some((key, value)) = self.pending[own].take() {
            if !take(&key, &value) {
                self.pending[own] = Some((key, value));
                return Ok(());
            }
            taken += 1;
        }
        let omits_values = self.omits_values;
        loop {
            let accepted = match self.source.step(direction) {
                Ok(Some(record)) => {
                    let (key, value) = record.slices();
                    let value = if omits_values { &[] } else { value };
                    let accepted = take(key, value);
                    if !accepted {
                        self.pending[own] = Some((key.to_vec(), value.to_vec()));
                    }
                    accepted
                }
                // The ends have met: the record that the other end holds back is the last one.
                Ok(None) => match self.pending[1 - own].take() {
                    None => return Ok(()),
                    Some((key, value)) => {
                        let accepted = take(&key, &value);
                        if !accepted {
                            self.pending[own] = Some((key, value));
                        }
                        accepted
                    }
                },
                Err(error) if taken == 0 => return Err(error),
                Err(error) => {
                    self.failed = Some(error);
                    return Ok(());
                }
            };
            if !accepted {
                return Ok(());
            }
            taken += 1;
        }
    }
}

/// A record of an iterator.
enum WalkRecord<'a> {
    Lent(&'a [u8], &'a [u8]),
    Own(Vec<u8>, alluvium::Value),
}

impl WalkRecord<'_> {
    fn slices(&self) -> (&[u8], &[u8]) {
        match self {
            WalkRecord::Lent(key, value) => (key, value),
            WalkRecord::Own(key, value) => (key, value),
        }
    }
}

impl WalkSource {
    fn step(&mut self, direction: WalkDirection) -> Result<Option<WalkRecord<'_>>> {
        let is_forward = direction == WalkDirection::Forward;
        let own = |pair: Option<alluvium::Result<(Vec<u8>, alluvium::Value)>>| {
            let pair = pair.transpose()?;
            Ok(pair.map(|(key, value)| WalkRecord::Own(key, value)))
        };
        match self {
            WalkSource::Ordered(iter) => {
                let lent = if is_forward { iter.lend() } else { iter.lend_back() };
                Ok(lent?.map(|(key, value)| WalkRecord::Lent(key, value)))
            }
            WalkSource::Transaction(walk) => walk
                .with_dependent_mut(|_, iter| own(if is_forward { iter.next() } else { iter.next_back() })),
            WalkSource::Unordered(_) | WalkSource::TransactionScan(_) if !is_forward => Err(
                HandleError::argument("an unordered iterator has no back: ask for records from its front"),
            ),
            WalkSource::Unordered(scan) => own(scan.next()),
            WalkSource::TransactionScan(scan) => scan.with_dependent_mut(|_, scan| own(scan.next())),
            WalkSource::Ended => Err(ended()),
            WalkSource::Refused(error) => Err(error.clone()),
        }
    }
}

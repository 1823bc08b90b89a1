//! Iterators over the store with a write set's writes overlaid on it.

use super::map::MapCursor;
use super::write::{KeyWrite, OwnWrite};
use super::{UserKeyBounds, WriteSet, bad_base};
use crate::error::Result;
use crate::keyspace::Keyspace;
use crate::locking::ranges::{InlineKey, RangeSet};
use crate::read::iter::Iter;
use crate::read::value::{KeyValuePair, Value};
use alluvium_dictionary::batch::LongValues;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// An iterator over records that can be told to omit long values.
pub(crate) trait BaseWalk: DoubleEndedIterator<Item = Result<KeyValuePair>> {
    /// Makes the iterator return an empty value in place of each long value. Values stored outside
    /// leaves are then not read.
    fn leave_out_long_values(&mut self);
}

impl BaseWalk for Iter {
    fn leave_out_long_values(&mut self) {
        Iter::leave_out_long_values(self);
    }
}

/// A double-ended iterator that allows peeking at the next element of either end.
struct PeekableEnds<I: DoubleEndedIterator> {
    iter: I,
    front: Option<I::Item>,
    back: Option<I::Item>,
}

impl<I: DoubleEndedIterator> PeekableEnds<I> {
    fn new(iter: I) -> PeekableEnds<I> {
        PeekableEnds {
            iter,
            front: None,
            back: None,
        }
    }

    /// Removes the next element at one end. If only one element is left, it may already have been
    /// fetched for the other end.
    fn take(&mut self, end: IterEnd) -> Option<I::Item> {
        match end {
            IterEnd::Front => {
                let next = self.front.take().or_else(|| self.iter.next());
                next.or_else(|| self.back.take())
            }
            IterEnd::Back => {
                let next = self.back.take().or_else(|| self.iter.next_back());
                next.or_else(|| self.front.take())
            }
        }
    }

    /// Returns the next element at one end without removing it.
    fn peek(&mut self, end: IterEnd) -> Option<&I::Item> {
        let next = self.take(end);
        let place = match end {
            IterEnd::Front => &mut self.front,
            IterEnd::Back => &mut self.back,
        };
        *place = next;
        place.as_ref()
    }
}

/// One of the two ends of an iterator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IterEnd {
    Front,
    Back,
}

/// A layer of writes, in key order, overlaid on a lower layer.
pub(crate) trait OverlayLayer {
    /// Makes the layer return an empty value in place of each long value.
    fn leave_out_long_values(&mut self);

    /// Returns the next key at one end without removing it.
    fn peek(&mut self, end: IterEnd) -> Result<Option<&[u8]>>;

    /// Removes the next write at one end. Returns its key, and the result of applying the write to
    /// `below`, the key's value in the lower layer. `None` stands for no value.
    fn take(&mut self, end: IterEnd, below: Option<Value>) -> Result<Option<(Vec<u8>, Option<Value>)>>;

    /// Returns whether a deleted range of this layer covers a key, hiding its value in the lower
    /// layer.
    fn hides(&self, key: &[u8]) -> bool;
}

/// The part of a write set within bounds, as a layer over the store. Later changes of the set do
/// not affect it.
pub(crate) struct WriteSetLayer {
    keyspace: Keyspace,
    writes: MapCursor,
    deleted: Arc<RangeSet>,
    now_ms: u64,
    long_values: LongValues,
}

impl WriteSetLayer {
    pub(crate) fn new(set: &WriteSet, bounds: UserKeyBounds<'_>) -> WriteSetLayer {
        WriteSetLayer {
            keyspace: set.keyspace.clone(),
            writes: set.writes.by_key().cursor(bounds),
            deleted: Arc::clone(&set.deleted),
            now_ms: set.now_ms,
            long_values: LongValues::Read,
        }
    }

    fn next(&self, end: IterEnd) -> Option<(&InlineKey, &Arc<KeyWrite>)> {
        match end {
            IterEnd::Front => self.writes.front(),
            IterEnd::Back => self.writes.back(),
        }
    }
}

impl OverlayLayer for WriteSetLayer {
    fn leave_out_long_values(&mut self) {
        self.long_values = LongValues::LeftOut;
    }

    fn peek(&mut self, end: IterEnd) -> Result<Option<&[u8]>> {
        Ok(self.next(end).map(|(key, _)| &key[..]))
    }

    fn take(&mut self, end: IterEnd, below: Option<Value>) -> Result<Option<(Vec<u8>, Option<Value>)>> {
        let Some((key, write)) = self.next(end) else {
            return Ok(None);
        };
        let (key, write) = (key.to_vec(), Arc::clone(write));
        match end {
            IterEnd::Front => self.writes.pass_front(),
            IterEnd::Back => self.writes.pass_back(),
        }
        // If the value is to be omitted, return an empty value without copying it.
        if let OwnWrite::Put(value) = write.own(self.now_ms)
            && self.long_values.shown(value).len() < value.len()
        {
            return Ok(Some((key, Some(Value::default()))));
        }
        let value = write.over(below, self.now_ms, self.keyspace.operator());
        let value = value.map_err(|bad| bad_base(&self.keyspace, &key, bad))?;
        Ok(Some((key, value)))
    }

    fn hides(&self, key: &[u8]) -> bool {
        self.deleted.contains(key)
    }
}

/// A double-ended iterator over the store with the writes of a [`WriteSet`] overlaid on it.
pub struct WriteSetIter<'w> {
    overlay: OverlayIter<Iter, WriteSetLayer>,
    set: &'w WriteSet,
}

impl<'w> WriteSetIter<'w> {
    pub(super) fn new(set: &'w WriteSet, bounds: UserKeyBounds<'_>, base: Iter) -> WriteSetIter<'w> {
        let overlay = OverlayIter::new(Some(WriteSetLayer::new(set, bounds)), base);
        WriteSetIter { overlay, set }
    }
}

impl fmt::Debug for WriteSetIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteSetIter").finish_non_exhaustive()
    }
}

/// An iterator over `base` with a layer of writes overlaid on it, if there is one.
pub(crate) struct OverlayIter<B: DoubleEndedIterator, U> {
    base: PeekableEnds<B>,
    upper: Option<U>,
    long_values: LongValues,
}

impl<B: BaseWalk, U: OverlayLayer> OverlayIter<B, U> {
    pub(crate) fn new(upper: Option<U>, base: B) -> OverlayIter<B, U> {
        OverlayIter {
            base: PeekableEnds::new(base),
            upper,
            long_values: LongValues::Read,
        }
    }

    /// Makes the iterator return an empty value in place of each long value. Values stored outside
    /// leaves are then not read, unless a merge operand of `keyspace` may depend on them.
    pub(crate) fn leave_out_long_values_of(&mut self, keyspace: &Keyspace) {
        self.long_values = LongValues::LeftOut;
        if keyspace.without_operands(LongValues::LeftOut) == LongValues::LeftOut {
            self.leave_out_long_values();
        }
    }

    /// Returns the next key of `base` that no deleted range of the layer above covers (A5). Removes
    /// covered keys.
    fn peek_base(&mut self, end: IterEnd) -> Result<Option<&[u8]>> {
        while let Some(Ok((key, _))) = self.base.peek(end)
            && self.upper.as_ref().is_some_and(|upper| upper.hides(key))
        {
            self.base.take(end);
        }
        // Return an error only once, so that the iterator can continue with the next element.
        if matches!(self.base.peek(end), Some(Err(_)))
            && let Some(Err(error)) = self.base.take(end)
        {
            return Err(error);
        }
        let next = self.base.peek(end);
        Ok(next.and_then(|next| next.as_ref().ok()).map(|(key, _)| &key[..]))
    }

    /// Compares the next keys of `base` and of the layer above. Returns `Less` if the key of `base`
    /// is lower, and `None` if neither has a next key.
    fn compare(&mut self, end: IterEnd) -> Result<Option<Ordering>> {
        self.peek_base(end)?;
        let base = self.base.peek(end);
        let base = base.and_then(|next| next.as_ref().ok()).map(|(key, _)| &key[..]);
        let own = match &mut self.upper {
            Some(upper) => upper.peek(end)?,
            None => None,
        };
        Ok(match (base, own) {
            (None, None) => None,
            (Some(_), None) => Some(Ordering::Less),
            (None, Some(_)) => Some(Ordering::Greater),
            (Some(base), Some(own)) => Some(match end {
                IterEnd::Front => base.cmp(own),
                IterEnd::Back => own.cmp(base),
            }),
        })
    }

    fn step(&mut self, end: IterEnd) -> Result<Option<KeyValuePair>> {
        let next = self.step_over(end)?;
        let long_values = self.long_values;
        Ok(next.map(|(key, value)| (key, value.shown(long_values))))
    }

    fn step_over(&mut self, end: IterEnd) -> Result<Option<KeyValuePair>> {
        loop {
            let Some(order) = self.compare(end)? else {
                return Ok(None);
            };
            if order.is_lt() {
                return self.base.take(end).transpose();
            }
            // If both layers have the key, the upper layer's write replaces the value of `base` or
            // merges into it (A5).
            let below = match order {
                Ordering::Equal => self.base.take(end).transpose()?,
                _ => None,
            };
            let below = below.map(|(_, value)| value);
            if let Some(upper) = &mut self.upper
                && let Some((key, Some(value))) = upper.take(end, below)?
            {
                return Ok(Some((key, value)));
            }
        }
    }
}

impl<B: BaseWalk, U: OverlayLayer> BaseWalk for OverlayIter<B, U> {
    fn leave_out_long_values(&mut self) {
        self.long_values = LongValues::LeftOut;
        self.base.iter.leave_out_long_values();
        if let Some(upper) = &mut self.upper {
            upper.leave_out_long_values();
        }
    }
}

impl<B: BaseWalk, U: OverlayLayer> Iterator for OverlayIter<B, U> {
    type Item = Result<KeyValuePair>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(IterEnd::Front).transpose()
    }
}

impl<B: BaseWalk, U: OverlayLayer> DoubleEndedIterator for OverlayIter<B, U> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(IterEnd::Back).transpose()
    }
}

impl<'w> WriteSetIter<'w> {
    /// Makes the iterator return an empty value in place of each value longer than 1 KiB. Values
    /// stored outside leaves are then not read, unless merge operands may depend on them; see
    /// [`Iter::without_long_values`].
    #[must_use]
    pub fn without_long_values(mut self) -> WriteSetIter<'w> {
        self.overlay.leave_out_long_values_of(self.set.keyspace());
        self
    }
}

impl Iterator for WriteSetIter<'_> {
    type Item = Result<KeyValuePair>;

    fn next(&mut self) -> Option<Self::Item> {
        self.overlay.next()
    }
}

impl DoubleEndedIterator for WriteSetIter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.overlay.next_back()
    }
}

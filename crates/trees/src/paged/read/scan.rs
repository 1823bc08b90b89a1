//! Range scans in both directions, one leaf at a time.

use crate::paged::buffer::PageBuffer;
use crate::paged::core::TreeCore;
use crate::paged::node::{MessageList, PageContentKind, child_index, fold, kind, reference_at};
use crate::paged::read::LatchCoupling;
use alluvium_storage::Result;
use std::fmt;

/// A key and its value.
type LeafKeyValue = (Vec<u8>, Vec<u8>);

/// The key range of a scan, from `from` (inclusive) to `below` (exclusive). `None` means that the
/// range is unbounded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanBounds {
    pub from: Option<Vec<u8>>,
    pub below: Option<Vec<u8>>,
}

impl ScanBounds {
    fn contain(&self, key: &[u8]) -> bool {
        self.from.as_deref().is_none_or(|from| from <= key)
            && self.below.as_deref().is_none_or(|below| key < below)
    }
}

#[derive(Clone, Copy, Debug)]
enum LeafTarget<'k> {
    /// The leaf whose range contains this key.
    At(&'k [u8]),
    /// The leaf whose range contains the keys just below this key; `None` means the last leaf.
    Below(Option<&'k [u8]>),
}

/// One leaf's key range, and its pairs after all messages on the path have been applied.
#[derive(Debug, Default)]
struct MergedLeaf {
    pairs: Vec<LeafKeyValue>,
    low: Option<Vec<u8>>,
    high: Option<Vec<u8>>,
}

impl<B: PageBuffer> TreeCore<B> {
    /// Reads the pairs of one leaf. On the way down, collects each buffer's messages for the chosen
    /// child. At the leaf, applies them from the lowest node upwards, so that the oldest come
    /// first.
    fn view(&self, want: LeafTarget<'_>) -> Result<MergedLeaf> {
        self.readable()?;
        self.descend(|coupling| self.try_view(want, coupling))
    }

    fn try_view(&self, want: LeafTarget<'_>, coupling: LatchCoupling) -> Result<Option<MergedLeaf>> {
        let shape = &self.shape;
        let mut view = MergedLeaf::default();
        let mut above: Vec<MessageList> = Vec::new();
        let mut node = self.buffer.pin_shared_by(self.root, Some(&self.root_way))?;
        while kind(&node) != Some(PageContentKind::Leaf) {
            let table = shape.pivots_of(&node);
            let at = match want {
                LeafTarget::At(key) => child_index(&table, &node, key),
                LeafTarget::Below(Some(key)) => table.below(&node, key),
                LeafTarget::Below(None) => table.len(&node),
            };
            if at > 0 {
                view.low = Some(table.key(&node, at - 1).to_vec());
            }
            if at < table.len(&node) {
                view.high = Some(table.key(&node, at).to_vec());
            }
            if kind(&node) == Some(PageContentKind::Buffered) {
                self.watch.iter().for_each(|watch| watch.looked_up(node.number()));
                let buffer = shape.buffer_of(&node);
                let from = view.low.as_deref().map_or(0, |low| buffer.below(&node, low));
                let to = view.high.as_deref();
                let to = to.map_or(buffer.len(&node), |high| buffer.below(&node, high));
                let mut messages = MessageList::new();
                (from..to).for_each(|at| messages.push(buffer.message(&node, at)));
                above.push(messages);
            }
            let to = reference_at(&table, &node, at);
            let Some(next) = self.step(node, to, coupling)? else {
                return Ok(None);
            };
            node = next;
        }
        let pairs = &shape.pairs;
        let pair = |at| (pairs.key(&node, at).to_vec(), pairs.value(&node, at).to_vec());
        view.pairs = (0..pairs.len(&node)).map(pair).collect();
        drop(node);
        for messages in above.iter().rev() {
            view.pairs = self.applied(std::mem::take(&mut view.pairs), messages);
        }
        let (low, high) = (view.low.as_deref(), view.high.as_deref());
        let is_within = |key: &[u8]| low.is_none_or(|low| low <= key) && high.is_none_or(|high| key < high);
        view.pairs.retain(|(key, _)| is_within(key));
        Ok(Some(view))
    }

    /// Applies messages to pairs. Both are in key order, and so is the result.
    fn applied(&self, pairs: Vec<LeafKeyValue>, messages: &MessageList) -> Vec<LeafKeyValue> {
        if messages.is_empty() {
            return pairs;
        }
        let mut out = Vec::with_capacity(pairs.len() + messages.len());
        let mut pairs = pairs.into_iter().peekable();
        for message in messages.iter() {
            while let Some(pair) = pairs.next_if(|(key, _)| &key[..] < message.key) {
                out.push(pair);
            }
            let own = pairs.next_if(|(key, _)| key == message.key);
            let mut value = Vec::new();
            let older = own.as_ref().map(|(_, value)| &value[..]);
            if fold(
                &*self.operator,
                older,
                (message.action, message.operand),
                &mut value,
            ) {
                out.push((message.key.to_vec(), value));
            }
        }
        out.extend(pairs);
        debug_assert!(
            out.is_sorted_by(|one, two| one.0 < two.0),
            "pairs are in key order"
        );
        out
    }
}

/// A double-ended iterator over the pairs in a key range.
///
/// All pairs of one leaf come from the same state of the leaf. The tree may change between two
/// leaves.
pub struct PagedTreeScan<'t, B> {
    core: &'t TreeCore<B>,
    bounds: ScanBounds,
    /// Pairs that have been read but not returned yet: `front` has those of the leaf reached from
    /// the start of the range, and `back` those of the leaf reached from its end.
    front: std::vec::IntoIter<LeafKeyValue>,
    back: Vec<LeafKeyValue>,
    is_done: bool,
}

impl<'t, B: PageBuffer> PagedTreeScan<'t, B> {
    pub(in crate::paged) fn new(core: &'t TreeCore<B>, bounds: ScanBounds) -> PagedTreeScan<'t, B> {
        PagedTreeScan {
            core,
            bounds,
            front: Vec::new().into_iter(),
            back: Vec::new(),
            is_done: false,
        }
    }

    /// Returns the next pair in ascending order, or `None` at the end of the range.
    ///
    /// # Errors
    /// I/O errors, or an error if a page is damaged. After an error, the next call tries again.
    pub fn next_pair(&mut self) -> Result<Option<LeafKeyValue>> {
        loop {
            if let Some(pair) = self.front.next() {
                return Ok(Some(pair));
            }
            if self.is_done || self.is_empty() {
                return Ok((!self.back.is_empty()).then(|| self.back.remove(0)));
            }
            let view = self
                .core
                .view(LeafTarget::At(self.bounds.from.as_deref().unwrap_or_default()))?;
            let inside = view.pairs.into_iter().filter(|(key, _)| self.bounds.contain(key));
            self.front = inside.collect::<Vec<_>>().into_iter();
            self.is_done = view.high.is_none();
            assert!(self.is_done || view.high > self.bounds.from, "the walk goes on");
            self.bounds.from = view.high;
        }
    }

    /// Returns the next pair in descending order, or `None` at the end of the range.
    ///
    /// # Errors
    /// The errors of [`PagedTreeScan::next_pair`].
    pub fn next_back(&mut self) -> Result<Option<LeafKeyValue>> {
        loop {
            if let Some(pair) = self.back.pop() {
                return Ok(Some(pair));
            }
            if self.is_done || self.is_empty() {
                return Ok(self.front.next_back());
            }
            let view = self.core.view(LeafTarget::Below(self.bounds.below.as_deref()))?;
            let inside = view.pairs.into_iter().filter(|(key, _)| self.bounds.contain(key));
            self.back = inside.collect();
            self.is_done = view.low.is_none();
            let goes_on = self.bounds.below.is_none() || view.low < self.bounds.below;
            assert!(self.is_done || goes_on, "the walk goes on");
            self.bounds.below = view.low;
        }
    }

    fn is_empty(&self) -> bool {
        matches!((&self.bounds.from, &self.bounds.below), (Some(from), Some(below)) if from >= below)
    }
}

impl<B: PageBuffer> Iterator for PagedTreeScan<'_, B> {
    type Item = Result<LeafKeyValue>;
    fn next(&mut self) -> Option<Result<LeafKeyValue>> {
        self.next_pair().transpose()
    }
}

impl<B: PageBuffer> DoubleEndedIterator for PagedTreeScan<'_, B> {
    fn next_back(&mut self) -> Option<Result<LeafKeyValue>> {
        PagedTreeScan::next_back(self).transpose()
    }
}

impl<B> fmt::Debug for PagedTreeScan<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagedTreeScan")
            .field("bounds", &self.bounds)
            .finish_non_exhaustive()
    }
}

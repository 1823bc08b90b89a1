//! Delivers the leaves of a run in order, in either direction, with read-ahead.

use super::device::ReadConcurrency;
use super::load::{LoadedNode, assemble, is_long, load, load_passing};
use super::path::{IndexPath, PathTarget};
use super::{IndexedRun, MalformedNode};
use alluvium_base::{KIB, Purpose};
use alluvium_device::{AlignedBuffer, Device, IoBatch, Ticket};
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::nodes::DirectNodeReader;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::cache::Reservation;
use alluvium_storage::store::Store;
use alluvium_storage::{
    CacheRetention, EpochGuard, FrameRef, NodeCache, NodeCodec, NodePointer, PendingReads, Result, TierFiles,
};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// The access pattern of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CursorAccess {
    /// For users' scans: through the cache, with a read-ahead window that doubles. Long scans read
    /// past the cache in large reads if few of their leaves are cached.
    Cached,
    /// For checks: large reads past the cache, submitted ahead of time.
    Streaming,
    /// For compactions: like `Streaming`, for data that is about to be replaced, so the cache may
    /// evict it.
    Replacing,
}

impl CursorAccess {
    pub(super) fn purpose(self) -> Purpose {
        match self {
            CursorAccess::Cached => Purpose::Scan,
            CursorAccess::Streaming | CursorAccess::Replacing => Purpose::Compact,
        }
    }
}

/// Maximum number of leaves that a cached cursor requests ahead.
/// Tuning: `64` since 2026-11-23.
const MAX_AHEAD: usize = 64;
/// Number of leaves missing from the cache after which the cursor reads past the cache. If it
/// expects as many, it does so from the first leaf.
/// Tuning: `256` since 2026-11-23.
const LONG: usize = 256;
/// Number of misses after which the cursor reads past the cache if it expects at least [`LONG`]
/// leaves but the cache had some of them.
/// Tuning: `16` since 2026-11-23.
const LACKING: usize = 16;
/// Minimum read-ahead of a cursor that reads many leaves.
/// Tuning: `4` since 2026-11-22.
const MIN_AHEAD: usize = 4;
/// A cursor that starts with at most this many leaves keeps them in the cache, like lookups.
/// Tuning: `16` since 2026-11-23.
const MAX_KEPT: usize = 16;
/// Maximum size of one read past the cache.
/// Tuning: `256 * KIB` since 2026-11-21.
const WINDOW: u64 = 256 * KIB;
/// Size of a scan's first read past the cache, for which its caller waits. Each following read may
/// be twice as long.
/// Tuning: `32 * KIB` since 2026-11-23.
const FIRST_WINDOW: u64 = 32 * KIB;
/// Maximum number of unwanted bytes between two leaves that are read in order to merge two reads.
/// Tuning: `16 * KIB` since 2026-11-21.
const MAX_GAP: u64 = 16 * KIB;
const _: () = assert!(
    MIN_AHEAD <= MAX_AHEAD && MAX_KEPT <= MAX_AHEAD,
    "a window of leaves"
);
const _: () = assert!(FIRST_WINDOW <= WINDOW && MAX_GAP < WINDOW, "windows of bytes");
const _: () = assert!(MIN_AHEAD > 0 && LACKING <= LONG, "a cursor has something ahead");

/// The leaves of a run within a range.
pub(super) struct LeafReadahead {
    run: IndexedRun,
    cache: NodeCache,
    tiers: Arc<TierFiles>,
    range: KeyRange,
    direction: MergeDirection,
    access: CursorAccess,
    /// The next leaf to request, or `None` after the last one.
    ahead: Option<IndexPath>,
    /// With cached access: leaves that were requested and not entered yet, in order.
    asked: VecDeque<NodePointer>,
    /// Number of leading entries in `asked` that were requested at the start, not read ahead.
    begun: usize,
    pending: Vec<PendingReads>,
    window: usize,
    /// The largest window that the cache has been able to hold so far.
    most: usize,
    /// Cached: number of leaves that will probably be needed. They are requested with the first
    /// one, up to the read-ahead limit.
    expected: usize,
    /// Whether only the expected leaves were requested so far.
    is_expected: bool,
    /// Number of cache misses since most of the requested leaves were last cached.
    missed: usize,
    /// Whether further leaves are read past the cache.
    streams: bool,
    /// Memory lent by the cache for the windows of a cached cursor.
    loan: Option<Reservation>,
    /// Maximum size of the next window in bytes.
    span: u64,
    /// Number of windows that suits the device.
    depth: ReadConcurrency,
    /// Maximum number of concurrent windows: currently, and for a cursor that has run for a while.
    breadth: usize,
    widest: usize,
    /// Reads past the cache, after all requested leaves. The first one contains the current leaf.
    windows: VecDeque<Window>,
    spare: Vec<AlignedBuffer>,
    current: LeafBuffer,
}

/// The bytes of the current leaf, by where they are held.
enum LeafBuffer {
    None,
    Frame(FrameRef),
    /// Part of the first window.
    ReadWindow(Range<usize>),
    Whole(Vec<u8>),
}

/// One read of several adjacent leaves.
struct Window {
    /// The leaves in the cursor's order. Those from `next` on are not delivered yet.
    leaves: Vec<NodePointer>,
    next: usize,
    start: u64,
    read: WindowRead,
}

enum WindowRead {
    InFlight(Ticket, Arc<dyn Device>),
    Done(AlignedBuffer),
    Over,
}

impl LeafReadahead {
    pub(super) fn new(
        run: &IndexedRun,
        store: &Store,
        range: KeyRange,
        direction: MergeDirection,
        access: CursorAccess,
    ) -> LeafReadahead {
        let depth = ReadConcurrency::of(store.device());
        LeafReadahead {
            run: run.clone(),
            cache: store.cache().clone(),
            tiers: Arc::clone(store.tiers()),
            range,
            direction,
            access,
            ahead: None,
            asked: VecDeque::new(),
            begun: 0,
            pending: Vec::new(),
            window: 1,
            most: MAX_AHEAD,
            expected: 1,
            is_expected: false,
            missed: 0,
            streams: access != CursorAccess::Cached,
            loan: None,
            span: WINDOW,
            depth,
            breadth: depth.windows,
            widest: depth.windows,
            windows: VecDeque::new(),
            spare: Vec::new(),
            current: LeafBuffer::None,
        }
    }

    pub(super) fn run(&self) -> &IndexedRun {
        &self.run
    }

    pub(super) fn range(&self) -> &KeyRange {
        &self.range
    }

    pub(super) fn direction(&self) -> MergeDirection {
        self.direction
    }

    pub(super) fn cache(&self) -> &NodeCache {
        &self.cache
    }

    pub(super) fn access(&self) -> CursorAccess {
        self.access
    }

    /// Announces the number of leaves that will probably be needed.
    pub(super) fn expect(&mut self, leaves: usize) {
        self.expected = leaves.max(1);
    }

    /// Returns the approximate memory of retained nodes and of the lists of the next leaves, in
    /// bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let current = match &self.current {
            LeafBuffer::Frame(frame) => frame.len(),
            LeafBuffer::Whole(bytes) => bytes.capacity(),
            LeafBuffer::ReadWindow(_) | LeafBuffer::None => 0,
        };
        let path = self.ahead.as_ref().map_or(0, IndexPath::memory_bytes);
        current + path + self.asked.capacity() * size_of::<NodePointer>()
    }

    /// Returns the bytes of the current leaf.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        match &self.current {
            LeafBuffer::Frame(frame) => frame,
            LeafBuffer::ReadWindow(range) => match self.windows.front().map(|window| &window.read) {
                Some(WindowRead::Done(buffer)) => &buffer[range.clone()],
                _ => &[],
            },
            LeafBuffer::Whole(bytes) => bytes,
            LeafBuffer::None => &[],
        }
    }

    /// Starts at a target and requests the first leaves, without waiting for them. Returns the
    /// first leaves if the caller is to request them from the cache.
    pub(super) fn start(&mut self, target: PathTarget<'_>) -> Result<Vec<NodePointer>> {
        self.current = LeafBuffer::None;
        self.asked.clear();
        self.pending.clear();
        self.windows.clear();
        self.breadth = self.depth.windows;
        let expected = self.expected.min(MAX_AHEAD);
        self.window = expected.div_ceil(4);
        debug_assert!(
            (1..=self.most.max(MAX_AHEAD)).contains(&self.window),
            "{} leaves",
            self.window
        );
        self.is_expected = expected > 1;
        self.missed = 0;
        self.streams = self.access != CursorAccess::Cached;
        self.span = WINDOW;
        if self.access == CursorAccess::Cached && self.expected >= LONG {
            self.stream_cached();
            self.span = FIRST_WINDOW;
        }
        self.ahead = None;
        // There is nothing after the last record, and the extent of the last leaf may have been
        // released (R2).
        let last = &*self.run.inner.last;
        let is_behind = *self.range.low > *last || matches!(target, PathTarget::First(key) if *key > *last);
        if !self.range.is_empty() && !is_behind {
            let guard = self.cache.epochs().pin();
            self.ahead = IndexPath::seek(&self.run, target, &self.cache, &guard, self.access.purpose())?;
        }
        if self.direction == MergeDirection::Forward {
            self.stop_behind_range()?;
        }
        self.begun = 0;
        if self.streams {
            self.fill_windows()?;
        }
        // The leaves come from windows, or are in the cache after all.
        if self.streams || !self.windows.is_empty() || !self.asked.is_empty() {
            return Ok(Vec::new());
        }
        while self.asked.len() < expected
            && let Some(pointer) = self.take_ahead()?
        {
            self.asked.push_back(pointer);
        }
        let first: Vec<NodePointer> = self.asked.iter().copied().collect();
        // Leaves in this number would evict those of other users, and need not all be present
        // before the first one is used.
        if first.len() > MAX_KEPT {
            let purpose = self.access.purpose();
            let pending = self.cache.request(&first, purpose, CacheRetention::PassThrough)?;
            self.pending.push(pending);
            return Ok(Vec::new());
        }
        self.begun = first.len();
        Ok(first)
    }

    /// Returns the next leaf to request, and advances as long as the range needs further leaves.
    fn take_ahead(&mut self) -> Result<Option<NodePointer>> {
        let Some(path) = &mut self.ahead else {
            return Ok(None);
        };
        let pointer = path.child()?.pointer;
        let (guard, purpose) = (self.cache.epochs().pin(), self.access.purpose());
        match self.direction {
            MergeDirection::Forward => {
                if path.next(&self.cache, &guard, purpose)? {
                    self.stop_behind_range()?;
                } else {
                    self.ahead = None;
                }
            }
            MergeDirection::Backward => {
                let (order, begun) = path.compare(&self.range.low)?;
                let more = order.is_gt() || (order.is_eq() && begun);
                if !more || !path.previous(&self.cache, &guard, purpose)? {
                    self.ahead = None;
                }
            }
        }
        Ok(Some(pointer))
    }

    /// Ends the forward iteration if all keys of the next leaf are after the range.
    fn stop_behind_range(&mut self) -> Result<()> {
        if let (Some(path), Some(high)) = (&self.ahead, &self.range.high)
            && path.compare(high)?.0.is_ge()
        {
            self.ahead = None;
        }
        Ok(())
    }

    /// Moves to the next leaf and returns its pointer, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<NodePointer>> {
        self.current = LeafBuffer::None;
        self.retire_windows();
        if self.streams {
            self.fill_windows()?;
        } else if self.windows.is_empty() {
            self.keep_ahead()?;
        }
        match self.asked.pop_front() {
            Some(pointer) => self.enter_cached(pointer).map(Some),
            None => self.next_streamed(),
        }
    }

    /// Requests more leaves when few requested ones are left.
    fn keep_ahead(&mut self) -> Result<()> {
        // A growing window is requested at once. A full-size window is refilled in quarters, so
        // that several reads are in progress.
        let portion = if self.window < self.most {
            self.window
        } else {
            self.window.div_ceil(4)
        };
        // The expected number of leaves suffices until it is exceeded.
        let enough = match self.is_expected {
            true => 0,
            false if self.window < self.most => self.window / 2,
            false => self.window - portion,
        };
        if self.asked.len() <= enough && self.ahead.is_some() {
            self.is_expected = false;
            self.ask_ahead(portion)?;
            let many = if self.expected < LONG { LONG } else { LACKING };
            if self.missed >= many {
                self.stream_cached();
            }
        }
        Ok(())
    }

    /// Reads past the cache from here on, if the cache lends the memory.
    fn stream_cached(&mut self) {
        let ReadConcurrency {
            windows,
            scan_windows,
        } = self.depth;
        for widest in [scan_windows, windows] {
            if self.loan.is_none() {
                self.loan = self.cache.try_reserve(widest as u64 * WINDOW);
                (self.breadth, self.widest) = (windows, widest);
            }
        }
        self.streams = self.loan.is_some();
    }

    /// Loads a requested leaf. If the cache has lost it, fewer leaves are read ahead from then on.
    fn enter_cached(&mut self, pointer: NodePointer) -> Result<NodePointer> {
        let guard = self.cache.epochs().pin();
        if self.cache.peek_untracked(&pointer, &guard).is_none() && self.is_lost(&pointer, &guard) {
            self.most = (self.most / 2).max(MIN_AHEAD);
            self.window = self.window.min(self.most);
        }
        debug_assert!(self.most >= MIN_AHEAD, "{} leaves ahead at most", self.most);
        let load = if self.begun > 0 { load } else { load_passing };
        self.begun = self.begun.saturating_sub(1);
        self.current = match load(&self.cache, &guard, &pointer, self.access.purpose())? {
            LoadedNode::Cached(node) => LeafBuffer::Frame(node.retain()),
            LoadedNode::Whole(bytes) => LeafBuffer::Whole(bytes),
        };
        Ok(pointer)
    }

    /// Returns whether a leaf was read ahead and evicted before its use, which means that the
    /// window is too large for the cache.
    #[cold]
    fn is_lost(&mut self, pointer: &NodePointer, guard: &EpochGuard) -> bool {
        let was_asked = !self.pending.is_empty();
        self.pending.retain_mut(|pending| !pending.poll());
        was_asked && self.pending.is_empty() && self.cache.peek_untracked(pointer, guard).is_none()
    }

    /// Requests `leaves` leaves, and doubles the window.
    fn ask_ahead(&mut self, leaves: usize) -> Result<()> {
        self.pending.retain_mut(|pending| !pending.poll());
        let first = self.asked.is_empty();
        debug_assert!((1..=MAX_AHEAD).contains(&leaves), "{leaves} leaves are asked for");
        let mut wanted = Vec::with_capacity(leaves);
        let guard = self.cache.epochs().pin();
        for _ in 0..leaves {
            let Some(pointer) = self.take_ahead()? else { break };
            self.asked.push_back(pointer);
            // Leaves that are already cached are marked as used, so they stay.
            if self.cache.peek(&pointer, &guard).is_none() {
                wanted.push(pointer);
            }
        }
        self.missed = if wanted.len() * 2 < leaves {
            0
        } else {
            self.missed + wanted.len()
        };
        // A single leaf that is needed now is read synchronously.
        if wanted.len() > usize::from(first) {
            let pending = self
                .cache
                .request(&wanted, self.access.purpose(), CacheRetention::PassThrough)?;
            if pending.skipped() == 0 {
                self.window = (self.window * 2).min(self.most);
            }
            self.pending.push(pending);
        } else {
            self.window = (self.window * 2).min(self.most);
        }
        Ok(())
    }

    /// Removes windows whose leaves were all delivered, and retains their buffers for later reads.
    fn retire_windows(&mut self) {
        while self.windows.front().is_some_and(Window::is_over) {
            if let Some(Window {
                read: WindowRead::Done(buffer),
                ..
            }) = self.windows.pop_front()
            {
                self.spare.push(buffer);
            }
            self.breadth = (self.breadth + 1).min(self.widest);
        }
        debug_assert!(
            self.breadth <= self.widest,
            "{} windows of {}",
            self.breadth,
            self.widest
        );
        if !self.streams && self.windows.is_empty() && self.loan.take().is_some() {
            self.spare.clear();
        }
    }

    /// Returns the next leaf of the first window.
    fn next_streamed(&mut self) -> Result<Option<NodePointer>> {
        let Some(window) = self.windows.front_mut() else {
            return Ok(None);
        };
        window.wait(&self.tiers)?;
        let (pointer, range) = window.take();
        let encoded = match self.windows.front().map(|window| &window.read) {
            Some(WindowRead::Done(buffer)) => buffer.get(range.clone()),
            _ => None,
        };
        let encoded = encoded.ok_or_else(|| MalformedNode("a leaf in its window").at(&pointer))?;
        pointer.verify(encoded)?;
        if self.access == CursorAccess::Replacing {
            self.cache.demote(&pointer);
        }
        let whole = match pointer.codec {
            NodeCodec::None if !is_long(encoded) => None,
            _ => Some(self.unpack(&pointer, encoded)?),
        };
        self.current = whole.map_or(LeafBuffer::ReadWindow(range), LeafBuffer::Whole);
        Ok(Some(pointer))
    }

    /// Decodes a leaf that is compressed or long.
    fn unpack(&self, pointer: &NodePointer, encoded: &[u8]) -> Result<Vec<u8>> {
        let page_size = self.cache.page_size();
        let mut node = vec![0; page_size.node_bytes(pointer.pages)];
        NodeCodec::decode(pointer, page_size, encoded, &mut node)?;
        if is_long(&node) {
            let nodes = DirectNodeReader {
                tiers: &self.tiers,
                page_size,
                purpose: self.access.purpose(),
            };
            return assemble(&nodes, pointer, &node);
        }
        Ok(node)
    }

    /// Submits reads up to the maximum number of concurrent windows.
    fn fill_windows(&mut self) -> Result<()> {
        while self.streams && self.windows.len() < self.breadth && self.ahead.is_some() {
            let Some(window) = self.next_window()? else { break };
            self.windows.push_back(window);
            debug_assert!(self.windows.len() <= self.widest, "windows are counted");
        }
        Ok(())
    }

    /// Returns whether most of these leaves are cached, judged by a sample.
    fn are_cached(&self, leaves: &[NodePointer]) -> bool {
        let guard = self.cache.epochs().pin();
        let asked = leaves.iter().step_by(leaves.len().div_ceil(8).max(1));
        let (asked, found) = asked.fold((0, 0), |(asked, found), leaf| {
            (
                asked + 1,
                found + usize::from(self.cache.peek(leaf, &guard).is_some()),
            )
        });
        found * 2 > asked
    }

    /// Submits one read of the next leaves, as far as they are adjacent. Returns `None` at the end,
    /// and if no window is in progress and the leaves are cached, in which case it continues with
    /// the cache.
    fn next_window(&mut self) -> Result<Option<Window>> {
        let mut leaves: Vec<NodePointer> = Vec::new();
        let mut bytes: Range<u64> = 0..0;
        while let Some(path) = &self.ahead {
            let pointer = path.child()?.pointer;
            let own = pointer.offset..pointer.offset + pointer.read_len() as u64;
            let joined = own.start.min(bytes.start)..own.end.max(bytes.end);
            let gap = own
                .start
                .saturating_sub(bytes.end)
                .max(bytes.start.saturating_sub(own.end));
            if leaves.is_empty() {
                bytes = own;
            } else if leaves[0].tier == pointer.tier
                && joined.end - joined.start <= self.span
                && gap <= MAX_GAP
            {
                bytes = joined;
            } else {
                break;
            }
            leaves.extend(self.take_ahead()?);
        }
        let Some(first) = leaves.first() else {
            return Ok(None);
        };
        if self.access == CursorAccess::Cached && self.are_cached(&leaves) {
            (self.streams, self.missed) = (false, 0);
            if self.windows.is_empty() {
                let purpose = self.access.purpose();
                let pending = self
                    .cache
                    .request(&leaves, purpose, CacheRetention::PassThrough)?;
                self.pending.push(pending);
                self.asked.extend(leaves);
                return Ok(None);
            }
        }
        self.span = (2 * self.span).min(WINDOW);
        debug_assert!(
            bytes.start < bytes.end && self.span <= WINDOW,
            "a window has bytes, and no more than the largest"
        );
        let device = Arc::clone(self.tiers.get(first.tier)?);
        let len = (bytes.end - bytes.start) as usize;
        let fitting = self.spare.iter().position(|buffer| buffer.len() == len);
        let buffer = match fitting {
            Some(index) => self.spare.swap_remove(index),
            None => {
                assert!(
                    self.windows.len() < self.breadth,
                    "{} windows are read at once",
                    self.breadth
                );
                let others = self.breadth - 1 - self.windows.len();
                self.spare.truncate(others);
                AlignedBuffer::zeroed(len)
            }
        };
        let mut batch = IoBatch::with_capacity(1);
        batch.read(bytes.start, buffer, self.access.purpose());
        Ok(Some(Window {
            leaves,
            next: 0,
            start: bytes.start,
            read: WindowRead::InFlight(device.submit(batch), device),
        }))
    }
}

impl Window {
    fn is_over(&self) -> bool {
        debug_assert!(
            self.next <= self.leaves.len(),
            "{} of {} leaves",
            self.next,
            self.leaves.len()
        );
        self.next == self.leaves.len()
    }

    /// Waits for the read, if it is in flight.
    fn wait(&mut self, tiers: &TierFiles) -> Result<()> {
        if let WindowRead::InFlight(..) = self.read
            && let WindowRead::InFlight(ticket, device) = std::mem::replace(&mut self.read, WindowRead::Over)
        {
            device.wait(&ticket);
            let tier = self.leaves.first().map_or(0, |leaf| leaf.tier);
            let mut buffers = tiers.record_failure(tier, ticket.take_buffers())?;
            self.read = buffers.pop().map_or(WindowRead::Over, WindowRead::Done);
        }
        Ok(())
    }

    /// Returns the next leaf and its position in the buffer.
    fn take(&mut self) -> (NodePointer, Range<usize>) {
        debug_assert!(!self.is_over(), "a window has a leaf left");
        let pointer = self.leaves[self.next];
        assert!(pointer.offset >= self.start, "a leaf lies in its window");
        self.next += 1;
        let at = (pointer.offset - self.start) as usize;
        (pointer, at..at + pointer.encoded_len as usize)
    }
}

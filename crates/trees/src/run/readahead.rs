//! Read-ahead: delivers the leaves of a run one after another, in either direction.

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

/// The access pattern of a cursor, which determines how its leaves are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CursorAccess {
    /// For user scans. Leaves are read through the cache, with a read-ahead window that doubles. A
    /// long scan bypasses the cache with large reads if few of its leaves are cached.
    Cached,
    /// For checks. Leaves are read ahead with large reads that bypass the cache.
    Streaming,
    /// For compactions. Like `Streaming`, but the data are about to be replaced, so the cache may
    /// evict them.
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
/// Number of cache misses after which a cached cursor starts to bypass the cache. A cursor that
/// expects to read at least this many leaves bypasses the cache from the first leaf.
/// Tuning: `256` since 2026-11-23.
const LONG: usize = 256;
/// Number of cache misses after which a cursor bypasses the cache again, if it expects to read at
/// least [`LONG`] leaves but stopped bypassing because some of them were cached.
/// Tuning: `16` since 2026-11-23.
const LACKING: usize = 16;
/// Lower limit to the number of leaves that a cursor requests ahead. The limit holds even after the
/// cache has evicted leaves before they were used.
/// Tuning: `4` since 2026-11-22.
const MIN_AHEAD: usize = 4;
/// Maximum number of first leaves that a starting cursor keeps in the cache, as lookups do. If it
/// starts with more leaves, they may be evicted soon.
/// Tuning: `16` since 2026-11-23.
const MAX_KEPT: usize = 16;
/// Maximum size in bytes of one read that bypasses the cache.
/// Tuning: `256 * KIB` since 2026-11-21.
const WINDOW: u64 = 256 * KIB;
/// Maximum size in bytes of the first read of a scan that bypasses the cache. The caller waits for
/// this read, so it is short. The limit doubles with each further read.
/// Tuning: `32 * KIB` since 2026-11-23.
const FIRST_WINDOW: u64 = 32 * KIB;
/// Maximum number of unneeded bytes that a read covers between two leaves to save a second read.
/// Tuning: `16 * KIB` since 2026-11-21.
const MAX_GAP: u64 = 16 * KIB;
const _: () = assert!(
    MIN_AHEAD <= MAX_AHEAD && MAX_KEPT <= MAX_AHEAD,
    "a window of leaves"
);
const _: () = assert!(FIRST_WINDOW <= WINDOW && MAX_GAP < WINDOW, "windows of bytes");
const _: () = assert!(MIN_AHEAD > 0 && LACKING <= LONG, "a cursor has something ahead");

/// Delivers the leaves of a run that may have keys in a range.
pub(super) struct LeafReadahead {
    run: IndexedRun,
    cache: NodeCache,
    tiers: Arc<TierFiles>,
    range: KeyRange,
    direction: MergeDirection,
    access: CursorAccess,
    /// The path to the next leaf to be requested, or `None` after the last one.
    ahead: Option<IndexPath>,
    /// The leaves requested through the cache but not delivered yet, in order.
    asked: VecDeque<NodePointer>,
    /// Number of leaves at the front of `asked` that the seek requested, rather than read-ahead.
    begun: usize,
    pending: Vec<PendingReads>,
    window: usize,
    /// Maximum number of leaves to request ahead. It shrinks if the cache evicts requested leaves
    /// before they are used.
    most: usize,
    /// Number of leaves that a seek is expected to read. A cached cursor requests them together
    /// with the first one, up to the read-ahead limit.
    expected: usize,
    /// Whether only the expected leaves have been requested since the seek.
    is_expected: bool,
    /// Number of cache misses since a request last found most of its leaves in the cache.
    missed: usize,
    /// Whether reads of the next leaves bypass the cache.
    streams: bool,
    /// Memory for a cached cursor's read windows, borrowed from the cache.
    loan: Option<Reservation>,
    /// Maximum size in bytes of the next read that bypasses the cache.
    span: u64,
    /// The read concurrency that suits the device.
    depth: ReadConcurrency,
    /// Maximum number of concurrent reads that bypass the cache: `breadth` at present, and `widest`
    /// once the cursor has run for a while.
    breadth: usize,
    widest: usize,
    /// The reads that bypass the cache. Their leaves follow all leaves in `asked`. The first window
    /// contains the current leaf.
    windows: VecDeque<Window>,
    spare: Vec<AlignedBuffer>,
    current: LeafBuffer,
}

/// Where the current leaf's bytes are.
enum LeafBuffer {
    None,
    Frame(FrameRef),
    /// In the buffer of the first window, at these offsets.
    ReadWindow(Range<usize>),
    Whole(Vec<u8>),
}

/// One read, bypassing the cache, of several leaves that are stored close together.
struct Window {
    /// The leaves in the cursor's order. Those from index `next` on have not been delivered yet.
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

    /// Sets the number of leaves that a seek is expected to read.
    pub(super) fn expect(&mut self, leaves: usize) {
        self.expected = leaves.max(1);
    }

    /// Returns the approximate memory in bytes of the retained nodes and the list of requested
    /// leaves.
    pub(super) fn memory_bytes(&self) -> usize {
        let current = match &self.current {
            LeafBuffer::Frame(frame) => frame.len(),
            LeafBuffer::Whole(bytes) => bytes.capacity(),
            LeafBuffer::ReadWindow(_) | LeafBuffer::None => 0,
        };
        let path = self.ahead.as_ref().map_or(0, IndexPath::memory_bytes);
        current + path + self.asked.capacity() * size_of::<NodePointer>()
    }

    /// Returns the bytes of the current leaf, or nothing if there is none.
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

    /// Starts at `target` and requests the first leaves without waiting for them. Any leaves that
    /// it returns must be requested from the cache by the caller.
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
        // If the range starts after the last record, there is nothing to read, and the extent of
        // the last leaf may already have been released (R2).
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
        // Windows read the first leaves, or found them cached and requested them from the cache.
        if self.streams || !self.windows.is_empty() || !self.asked.is_empty() {
            return Ok(Vec::new());
        }
        while self.asked.len() < expected
            && let Some(pointer) = self.take_ahead()?
        {
            self.asked.push_back(pointer);
        }
        let first: Vec<NodePointer> = self.asked.iter().copied().collect();
        // Do not retain this many leaves, because they would displace the nodes of other users.
        // Also do not wait for all of them before the first one is used.
        if first.len() > MAX_KEPT {
            let purpose = self.access.purpose();
            let pending = self.cache.request(&first, purpose, CacheRetention::PassThrough)?;
            self.pending.push(pending);
            return Ok(Vec::new());
        }
        self.begun = first.len();
        Ok(first)
    }

    /// Returns the next leaf to request and advances the path. The path ends after the last leaf
    /// that may have keys in the range.
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

    /// Ends a forward iteration if the next leaf has only keys above the range.
    fn stop_behind_range(&mut self) -> Result<()> {
        if let (Some(path), Some(high)) = (&self.ahead, &self.range.high)
            && path.compare(high)?.0.is_ge()
        {
            self.ahead = None;
        }
        Ok(())
    }

    /// Moves to the next leaf and returns its pointer. Returns `None` after the last leaf.
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

    /// Requests more leaves if few of the requested ones are left.
    fn keep_ahead(&mut self) -> Result<()> {
        // While the window grows, all of it is requested at once. At its full size it is refilled
        // in quarters, so that several reads are in progress.
        let portion = if self.window < self.most {
            self.window
        } else {
            self.window.div_ceil(4)
        };
        // After a seek that announced its leaves, request no others until those are used up.
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

    /// Switches to reads that bypass the cache, if the cache can lend the memory for them.
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

    /// Loads a requested leaf. If the cache has already evicted it, halves the read-ahead limit.
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

    /// Returns whether a leaf was read ahead but evicted before it was used. This means that the
    /// read-ahead window is too large for the cache.
    #[cold]
    fn is_lost(&mut self, pointer: &NodePointer, guard: &EpochGuard) -> bool {
        let was_asked = !self.pending.is_empty();
        self.pending.retain_mut(|pending| !pending.poll());
        was_asked && self.pending.is_empty() && self.cache.peek_untracked(pointer, guard).is_none()
    }

    /// Requests the next `leaves` leaves through the cache, and doubles the window.
    fn ask_ahead(&mut self, leaves: usize) -> Result<()> {
        self.pending.retain_mut(|pending| !pending.poll());
        let first = self.asked.is_empty();
        debug_assert!((1..=MAX_AHEAD).contains(&leaves), "{leaves} leaves are asked for");
        let mut wanted = Vec::with_capacity(leaves);
        let guard = self.cache.epochs().pin();
        for _ in 0..leaves {
            let Some(pointer) = self.take_ahead()? else { break };
            self.asked.push_back(pointer);
            // Looking up a cached leaf marks it as used, so it stays in the cache.
            if self.cache.peek(&pointer, &guard).is_none() {
                wanted.push(pointer);
            }
        }
        self.missed = if wanted.len() * 2 < leaves {
            0
        } else {
            self.missed + wanted.len()
        };
        // If the only missing leaf is needed now, it is read synchronously later.
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

    /// Removes windows whose leaves have all been delivered, keeping their buffers for later reads.
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

    /// Returns the next leaf of the first window, or `None` if there is no window.
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

    /// Decodes a leaf that is compressed or consists of several parts.
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

    /// Submits reads until the maximum number of windows is in progress.
    fn fill_windows(&mut self) -> Result<()> {
        while self.streams && self.windows.len() < self.breadth && self.ahead.is_some() {
            let Some(window) = self.next_window()? else { break };
            self.windows.push_back(window);
            debug_assert!(self.windows.len() <= self.widest, "windows are counted");
        }
        Ok(())
    }

    /// Returns whether most of the leaves are probably cached, judging by a sample.
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

    /// Submits one read of the next leaves that are stored close together. Returns `None` if no
    /// leaf is left, or if most of these leaves are cached and no other window is in progress. In
    /// the second case, the cursor continues through the cache.
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

    /// Waits for the read to complete, if it is in progress.
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

    /// Returns the pointer to the next leaf, and the leaf's position in the window's buffer.
    fn take(&mut self) -> (NodePointer, Range<usize>) {
        debug_assert!(!self.is_over(), "a window has a leaf left");
        let pointer = self.leaves[self.next];
        assert!(pointer.offset >= self.start, "a leaf lies in its window");
        self.next += 1;
        let at = (pointer.offset - self.start) as usize;
        (pointer, at..at + pointer.encoded_len as usize)
    }
}

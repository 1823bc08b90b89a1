//! Chunks of the cache's memory: how they are assigned to size classes, divided into frames,
//! drained, and moved between classes.
//!
//! When the budget allows another chunk, a size class gets it and divides it into frames. A chunk
//! is *drained* when the budget shrinks or when another class needs the chunk more: its class loses
//! it, its frames leave the free and retired lists, and its nodes are evicted. Once every frame is
//! free, the chunk goes to its new class or its memory goes back to the system. This takes at least
//! two epochs, and longer if a frame is pinned.
//!
//! Lock order: the chunks, the list of a class, a lane, a pool. No lock is held during device I/O.

use super::NodeCacheInner;
use super::frame::{FrameId, FrameState};
use super::geometry::CLASSES;
use crate::EpochGuard;
use parking_lot::{Mutex, RwLock};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

#[derive(Debug, Default)]
pub(super) struct SizeClass {
    /// The chunks of this class, over which the clock hand sweeps. A sweep holds the read lock, so
    /// that no chunk is removed meanwhile.
    pub(super) chunks: RwLock<Vec<u32>>,
    /// Position of the clock hand, counted as the number of frames it has passed in total.
    pub(super) hand: AtomicU64,
    /// Free frames that are not in any lane's stock.
    pub(super) pool: Mutex<Vec<FrameId>>,
    /// Demand for frames of this class, measured as revolutions of the clock hand, in thousandths.
    /// Halved periodically.
    pressure: AtomicU64,
}

/// A chunk that was taken from its class and is being drained.
#[derive(Debug)]
struct ChunkDrain {
    chunk: u32,
    class: usize,
    /// The class that will get the chunk, or `None` if the chunk leaves the cache because the
    /// budget shrinks.
    new_owner: Option<usize>,
}

#[derive(Debug, Default)]
struct ChunkAllocatorState {
    /// Chunks whose memory was returned to the system.
    free: Vec<u32>,
    /// Number of the first chunk that has never been used.
    next: u32,
    draining: Vec<ChunkDrain>,
    /// Position in the list of all chunks at which the next search for a cold chunk starts.
    hand: usize,
    /// Number of chunk boundaries that clock hands have crossed since the demands were last halved.
    crossings: usize,
}

/// The chunks of a cache, and their assignment to size classes.
#[derive(Debug)]
pub(super) struct ChunkAllocator {
    pub(super) classes: [SizeClass; CLASSES],
    owned: Mutex<ChunkAllocatorState>,
    /// Number of chunks in use, including chunks that are being drained.
    assigned: AtomicU64,
    draining: AtomicUsize,
    /// The safe epoch at which draining chunks were last examined. Examining them again before it
    /// advances would free few frames.
    drains_checked_at: AtomicU64,
    /// Number of frames and list entries examined while choosing and removing chunks.
    walked: AtomicU64,
}

impl ChunkAllocator {
    pub(super) fn new() -> ChunkAllocator {
        ChunkAllocator {
            classes: std::array::from_fn(|_| SizeClass::default()),
            owned: Mutex::default(),
            assigned: AtomicU64::new(0),
            draining: AtomicUsize::new(0),
            drains_checked_at: AtomicU64::new(0),
            walked: AtomicU64::new(0),
        }
    }

    /// Returns the number of frames and list entries examined while choosing and removing chunks.
    #[cfg(test)]
    pub(super) fn walked(&self) -> u64 {
        self.walked.load(Ordering::Relaxed)
    }

    pub(super) fn assigned(&self) -> u64 {
        self.assigned.load(Ordering::Relaxed)
    }

    pub(super) fn draining(&self) -> usize {
        self.draining.load(Ordering::Relaxed)
    }

    /// Returns the draining chunks and their previous classes, for `check`.
    pub(super) fn drained_chunks(&self) -> Vec<(u32, usize)> {
        let owned = self.owned.lock();
        owned
            .draining
            .iter()
            .map(|drain| (drain.chunk, drain.class))
            .collect()
    }
}

impl NodeCacheInner {
    /// Returns how many chunks the budget allows at present.
    pub(super) fn allowed_chunks(&self) -> u64 {
        let bytes = self.budget.chunks(self.tables.bytes(), &self.geometry);
        bytes.min((self.arena.len() / self.geometry.chunk_bytes) as u64)
    }

    /// Gives the class another chunk if the budget allows it. Returns whether it did.
    pub(super) fn grow(&self, class: usize) -> bool {
        if self.chunks.assigned() >= self.allowed_chunks() {
            return false;
        }
        let mut owned = self.chunks.owned.lock();
        if self.chunks.assigned() >= self.allowed_chunks() {
            return false;
        }
        let chunk = owned.free.pop().unwrap_or_else(|| {
            owned.next += 1;
            owned.next - 1
        });
        self.chunks.assigned.fetch_add(1, Ordering::Relaxed);
        debug_assert!(chunk < owned.next, "chunk {chunk} of {}", owned.next);
        let at = self.geometry.chunk_at(chunk);
        self.arena.prefer_huge_pages(at, self.geometry.chunk_bytes);
        self.cut(chunk, class);
        true
    }

    /// Divides an unused chunk into free frames of a class.
    fn cut(&self, chunk: u32, class: usize) {
        let frames = self.geometry.cut(class).frames;
        let ids = (0..frames).map(|slot| self.geometry.frame(chunk, slot));
        for frame in ids.clone() {
            self.header(frame).cut(class);
        }
        debug_assert!(
            self.chunks
                .classes
                .iter()
                .all(|class| !class.chunks.read().contains(&chunk)),
            "a chunk belongs to one class"
        );
        let owner = &self.chunks.classes[class];
        owner.chunks.write().push(chunk);
        // Reversed because frames are taken from the end of the pool, and the lowest ones should be
        // used first.
        owner.pool.lock().extend(ids.rev());
    }

    /// Takes a chunk from its class and marks its frames as draining. The caller must then remove
    /// the frames from the lists by calling [`NodeCacheInner::forget_draining`].
    fn begin_drain(
        &self,
        owned: &mut ChunkAllocatorState,
        class: usize,
        at: usize,
        new_owner: Option<usize>,
    ) {
        let chunk = {
            let mut chunks = self.chunks.classes[class].chunks.write();
            if at >= chunks.len() {
                return;
            }
            chunks.swap_remove(at)
        };
        for frame in self.frames_of(chunk, class) {
            self.header(frame).set_draining();
        }
        debug_assert!(new_owner != Some(class), "a class does not inherit from itself");
        debug_assert!(
            owned.draining.iter().all(|drain| drain.chunk != chunk),
            "a chunk is drained once"
        );
        owned.draining.push(ChunkDrain {
            chunk,
            class,
            new_owner,
        });
        self.chunks
            .draining
            .store(owned.draining.len(), Ordering::Relaxed);
    }

    /// Removes the frames of all draining chunks from the free and retired lists in one pass. The
    /// queues of cold and demoted frames keep their entries, because a thread that pops one checks
    /// the frame anyway.
    fn forget_draining(&self, classes: &[bool; CLASSES]) {
        let mut walked = 0;
        for lane in &self.lanes {
            walked += lane.lock().forget_draining(self.headers());
        }
        for (class, owner) in self.chunks.classes.iter().enumerate() {
            if classes[class] {
                let mut pool = owner.pool.lock();
                walked += pool.len();
                pool.retain(|&frame| !self.header(frame).is_draining());
            }
        }
        self.chunks.walked.fetch_add(walked as u64, Ordering::Relaxed);
    }

    pub(super) fn frames_of(&self, chunk: u32, class: usize) -> impl Iterator<Item = FrameId> + Clone {
        let geometry = self.geometry;
        (0..geometry.cut(class).frames).map(move |slot| geometry.frame(chunk, slot))
    }

    /// Continues draining if there are draining chunks and the safe epoch has advanced since the
    /// last call.
    pub(super) fn drain_if_due(&self, guard: &EpochGuard) {
        if self.chunks.draining() > 0 {
            let safe = self.epochs.safe();
            if self.chunks.drains_checked_at.swap(safe, Ordering::Relaxed) != safe {
                self.continue_draining(guard);
            }
        }
    }

    /// Drains chunks as far as possible: evicts nodes, recycles retired frames whose epoch is safe,
    /// and reassigns or returns chunks in which all frames are free. Returns immediately if another
    /// thread is already doing this.
    pub(super) fn continue_draining(&self, guard: &EpochGuard) {
        let Some(mut owned) = self.chunks.owned.try_lock() else {
            return;
        };
        let safe = self.epochs.safe();
        let mut at = 0;
        while at < owned.draining.len() {
            let ChunkDrain {
                chunk,
                class,
                new_owner,
            } = owned.draining[at];
            if !self.drain_frames(chunk, class, safe, guard) {
                at += 1;
                continue;
            }
            owned.draining.swap_remove(at);
            match new_owner {
                Some(new_owner) if self.chunks.assigned() <= self.allowed_chunks() => {
                    self.cut(chunk, new_owner);
                }
                _ => self.give_chunk_back(&mut owned, chunk),
            }
        }
        self.chunks
            .draining
            .store(owned.draining.len(), Ordering::Relaxed);
    }

    fn give_chunk_back(&self, owned: &mut ChunkAllocatorState, chunk: u32) {
        if !self.is_offered(chunk) {
            let at = self.geometry.chunk_at(chunk);
            // SAFETY: every frame of the chunk is free and in no list, so no reference to its bytes
            // exists. The headers are atomics, and a reader that still accesses one of them sees a
            // free frame of class 0.
            unsafe { self.arena.give_back(at, self.geometry.chunk_bytes) };
        }
        let before = self.chunks.assigned.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "a chunk that goes was assigned");
        debug_assert!(!owned.free.contains(&chunk), "a chunk goes once (C3)");
        owned.free.push(chunk);
    }

    /// Evicts nodes and recycles frames of a draining chunk. Returns whether all its frames are now
    /// free.
    fn drain_frames(&self, chunk: u32, class: usize, safe: u64, guard: &EpochGuard) -> bool {
        let mut evicted = Vec::new();
        let mut all_free = true;
        for frame in self.frames_of(chunk, class) {
            let header = self.header(frame);
            let free = match header.state() {
                FrameState::Free => true,
                FrameState::Filling => false,
                FrameState::Resident => {
                    if self.unmap(frame, guard) {
                        evicted.push(frame);
                    }
                    false
                }
                FrameState::Retired => header.retired_at() < safe && header.recycle(),
            };
            all_free &= free;
        }
        self.retire(&evicted, guard);
        all_free
    }

    /// Starts draining chunks until the remaining ones fit the budget. Each is the coldest of a few
    /// candidates.
    pub(super) fn shrink(&self) {
        if self.chunks.assigned() <= self.allowed_chunks() {
            return;
        }
        let mut owned = self.chunks.owned.lock();
        let leaving = owned
            .draining
            .iter()
            .filter(|drain| drain.new_owner.is_none())
            .count() as u64;
        let staying = self.chunks.assigned().saturating_sub(leaving);
        let mut surplus = staying.saturating_sub(self.allowed_chunks());
        // A chunk that was moving to another class leaves the cache instead.
        let moving = owned
            .draining
            .iter_mut()
            .filter(|drain| drain.new_owner.is_some());
        for drain in moving.take(usize::try_from(surplus).unwrap_or(usize::MAX)) {
            drain.new_owner = None;
            surplus -= 1;
        }
        let mut classes = [false; CLASSES];
        while surplus > 0
            && let Some(((class, at), _)) = self.coldest(&mut owned, None, SEARCHED_TO_SHRINK)
        {
            self.begin_drain(&mut owned, class, at, None);
            classes[class] = true;
            surplus -= 1;
        }
        if classes.contains(&true) {
            self.forget_draining(&classes);
        }
    }

    /// Examines the next `count` chunks and returns the coldest, as its class and its index in the
    /// list of that class. Also returns, in thousandths, the share of its frames that were used
    /// since the chunk was last examined. Like the clock hand, this clears the reference bits.
    fn coldest(
        &self,
        owned: &mut ChunkAllocatorState,
        except: Option<usize>,
        count: usize,
    ) -> Option<((usize, usize), u64)> {
        // The lists cannot change, because that requires the lock of `owned`, which this thread
        // holds.
        let lists = self.chunks.classes.iter().enumerate();
        let lists: Vec<_> = lists
            .filter(|(class, _)| Some(*class) != except)
            .map(|(class, owner)| (class, owner.chunks.read()))
            .collect();
        let total: usize = lists.iter().map(|(_, chunks)| chunks.len()).sum();
        let mut best: Option<((usize, usize), u64)> = None;
        for _ in 0..count.min(total) {
            owned.hand = (owned.hand + 1) % total;
            let mut at = owned.hand;
            let (class, chunks) = lists
                .iter()
                .find(|(_, chunks)| {
                    let here = at < chunks.len();
                    at -= if here { 0 } else { chunks.len() };
                    here
                })
                .expect("the hand is below the number of chunks");
            let walked = self.geometry.cut(*class).frames as u64;
            self.chunks.walked.fetch_add(walked, Ordering::Relaxed);
            let frames = self.frames_of(chunks[at], *class);
            let warm = frames.filter(|&frame| {
                let header = self.header(frame);
                header.pins() > 0 || (header.state() == FrameState::Resident && header.cool())
            });
            let warm = (warm.count() * 1000 / self.geometry.cut(*class).frames) as u64;
            if best.is_none_or(|(_, least)| warm < least) {
                best = Some(((*class, at), warm));
            }
        }
        best
    }

    /// Moves a chunk to this class if another class needs it less. Called when the class's clock
    /// hand crosses a chunk boundary, or when the class has no chunk.
    ///
    /// The aim is that nodes of all classes age at the same rate. During one revolution of this
    /// class's hand, as many chunks of other classes are examined as exist. A chunk is moved if few
    /// of its frames were used recently and its class's hand moves more slowly than this one.
    pub(super) fn balance(&self, class: usize) {
        let Some(mut owned) = self.chunks.owned.try_lock() else {
            return;
        };
        let own = self.chunks.classes[class].chunks.read().len();
        let all = self.chunks.assigned() as usize;
        let pressure = &self.chunks.classes[class].pressure;
        pressure.fetch_add(1000 / own.max(1) as u64, Ordering::Relaxed);
        owned.crossings += 1;
        if owned.crossings > all {
            owned.crossings = 0;
            for other in &self.chunks.classes {
                other
                    .pressure
                    .store(other.pressure.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
            }
        }
        if owned.draining.len() > all / 16 {
            return;
        }
        let look_at = (all.saturating_sub(own)).div_ceil(own.max(1));
        let Some(((donor, at), warm)) = self.coldest(&mut owned, Some(class), look_at.min(MAX_SEARCHED))
        else {
            return;
        };
        let theirs = self.chunks.classes[donor].pressure.load(Ordering::Relaxed).max(1);
        let ratio = pressure.load(Ordering::Relaxed) / theirs;
        let allowed = match ratio {
            _ if own == 0 => 1000,
            0..2 => return,
            2..8 => 125,
            _ => 500,
        };
        if warm <= allowed {
            self.begin_drain(&mut owned, donor, at, Some(class));
            self.forget_draining(&std::array::from_fn(|class| class == donor));
        }
    }
}

/// Number of candidates examined for each chunk that leaves the cache.
const SEARCHED_TO_SHRINK: usize = 4;
/// Maximum number of candidates examined by a single call of [`NodeCacheInner::balance`].
const MAX_SEARCHED: usize = 16;

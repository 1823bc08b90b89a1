//! Allocates frames. A free frame comes from the stock of the thread's lane, the pool of the size
//! class, a new chunk, or the CLOCK hand. As in SplinterDB, each thread that needs frames reserves
//! the next 64 under the hand for itself (Conway 2023, §3.4).
//!
//! A node that was just read is cold. When cold nodes occupy more than an eighth of the frames,
//! those that were not used again are evicted in FIFO order, ahead of the CLOCK hand. If a node is
//! missed again soon after such an eviction, it counts as hot at once (S3-FIFO: Yang et al., SOSP
//! 2023). Leaves that are read only once therefore do not evict index nodes and maplets, even if
//! these are used somewhat less than once per revolution of the hand.
//!
//! Demoted frames are evicted before all others. Nodes that a compaction has replaced are dead, but
//! the hand would evict them only after a whole revolution.
//!
//! An evicted frame can be reused only two epochs later, and the evicting thread itself holds a
//! guard. A thread therefore evicts *ahead*: it keeps a stock of free and retired frames large
//! enough to last while epochs pass. Long-lived guards or many misses under one guard may exhaust
//! the stock. In that case, the read uses private memory, the target size of the stock doubles, and
//! completed reads are finished, because each unfinished read prevents the epoch from advancing.

use super::frame::{FrameId, FrameState};
use super::{CacheRetention, NodeCacheInner};
use crate::EpochGuard;
use std::sync::atomic::Ordering;

/// Maximum number of frames that a thread reserves from the CLOCK hand at a time.
/// Tuning: `64` since 2026-11-21.
const HAND: usize = 64;
/// The stock of a lane has at most 1/`AHEAD_FRACTION` of the frames of a class.
/// Tuning: `16` since 2026-11-21.
const AHEAD_FRACTION: usize = 16;
/// Maximum number of times a single call advances the CLOCK hand if all frames are in use. By then
/// the reference bits of these frames are cleared, so the next sweep can evict them.
/// Tuning: `16` since 2026-11-21.
const MAX_HANDS: usize = 16;
const _: () = assert!(HAND > 0 && AHEAD_FRACTION > 1 && MAX_HANDS > 0);
/// Cold nodes may occupy up to 1/`COLD_FRACTION` of all frames before they are evicted.
/// Tuning: `8` since 2026-11-21; S3-FIFO (Yang et al., SOSP 2023) uses a tenth; with the
/// probationary queue, reads of YCSB C fell from 1.39 to 1.05.
const COLD_FRACTION: usize = 8;

impl NodeCacheInner {
    fn lane_of(&self, guard: &EpochGuard) -> usize {
        guard.slot().unwrap_or(0) % self.lanes.len()
    }

    fn frames_in(&self, class: usize) -> usize {
        self.chunks.classes[class].chunks.read().len() * self.geometry.cut(class).frames
    }

    /// Allocates a frame for a node of a size class. Returns `None` if every frame is in use,
    /// pinned, or waiting for the epoch to advance.
    pub(super) fn take_frame(
        &self,
        class: usize,
        guard: &EpochGuard,
        residence: CacheRetention,
    ) -> Option<FrameId> {
        let lane = self.lane_of(guard);
        debug_assert!(guard.is_of(&self.epochs), "frames are evicted under a guard (C2)");
        let (least, most) = self.stock_bounds(class);
        let (frame, low) = {
            let mut lane = self.lanes[lane].lock();
            lane.recycle(self.epochs.safe(), self.headers());
            let frame = lane.take(class, self.headers());
            (frame, lane.stock(class) < lane.target_stock(class, least, most))
        };
        if low || frame.is_none() {
            self.restock(class, lane, guard, residence);
        }
        self.drain_if_due(guard);
        let frame = frame
            .or_else(|| {
                let mut lane = self.lanes[lane].lock();
                lane.recycle(self.epochs.safe(), self.headers());
                lane.take(class, self.headers())
            })
            .or_else(|| self.steal(class, lane));
        if frame.is_none() {
            self.lanes[lane].lock().raise_target(class, least, most);
            // The readers of these reads may be away for a long time: a scan over many runs can
            // stay in one of them.
            self.settle_all(guard);
        }
        frame
    }

    fn stock_bounds(&self, class: usize) -> (usize, usize) {
        let frames = self.frames_in(class);
        let least = (frames / (4 * AHEAD_FRACTION)).clamp(1, HAND);
        (least, frames / AHEAD_FRACTION)
    }

    /// Puts a frame that was allocated but not published back into the thread's stock.
    pub(super) fn return_frame(&self, frame: FrameId, guard: &EpochGuard) {
        let mut lane = self.lanes[self.lane_of(guard)].lock();
        debug_assert_eq!(self.header(frame).pins(), 0, "no reader has seen it");
        self.header(frame).give_back();
        lane.put(frame, self.headers());
    }

    /// Takes a free frame from the stock of another lane, or returns `None` if there is none.
    fn steal(&self, class: usize, own: usize) -> Option<FrameId> {
        let safe = self.epochs.safe();
        let lanes = self.lanes.len();
        (1..lanes).find_map(|step| {
            let mut lane = self.lanes[(own + step) % lanes].try_lock()?;
            lane.recycle(safe, self.headers());
            lane.take(class, self.headers())
        })
    }

    /// Refills the stock of a lane from the pool of the class, from a new chunk, or by evicting
    /// nodes.
    fn restock(&self, class: usize, lane: usize, guard: &EpochGuard, residence: CacheRetention) {
        loop {
            {
                let mut lane = self.lanes[lane].lock();
                let mut pool = self.chunks.classes[class].pool.lock();
                let keep = pool.len().saturating_sub(HAND);
                if !pool.is_empty() {
                    for frame in pool.drain(keep..) {
                        lane.put(frame, self.headers());
                    }
                    return;
                }
            }
            if !self.grow(class) {
                break;
            }
        }
        if self.chunks.assigned() > self.allowed_chunks() {
            self.shrink();
        }
        self.finish_orphans(guard);
        self.evict_ahead(class, lane, guard, residence);
    }

    /// Evicts nodes so that a lane's stock will reach its target size once epochs have passed. If
    /// enough frames already wait for the epoch to advance, evicting more would not help.
    fn evict_ahead(&self, class: usize, lane: usize, guard: &EpochGuard, residence: CacheRetention) {
        let (least, most) = self.stock_bounds(class);
        let wanted = {
            let mut lane = self.lanes[lane].lock();
            lane.lower_target(class);
            let ahead = lane.target_stock(class, least, most);
            (2 * ahead).saturating_sub(lane.waiting(class)).min(ahead)
        };
        if wanted > 0 {
            let mut evicted = Vec::with_capacity(HAND);
            let spare = match residence {
                CacheRetention::Keep => self.cold_share(),
                CacheRetention::PassThrough => self.cold_share() / 4,
            };
            self.evict_marked(class, guard, wanted, &mut evicted);
            let left = wanted.saturating_sub(self.gain(class, &evicted));
            self.evict_cold(class, guard, spare, left, &mut evicted);
            let mut hands = if self.may_sweep(class, lane, residence) {
                MAX_HANDS
            } else {
                0
            };
            while hands > 0 && self.gain(class, &evicted) < wanted {
                self.sweep(class, guard, wanted, &mut evicted);
                hands -= 1;
            }
            self.retire(&evicted, guard);
        }
        self.epochs.try_advance();
    }

    /// Returns whether the CLOCK hand may evict hot frames. It may not do so for pass-through reads
    /// that already occupy their share of frames.
    fn may_sweep(&self, class: usize, lane: usize, residence: CacheRetention) -> bool {
        if residence == CacheRetention::Keep {
            return true;
        }
        let stock = self.lanes[lane].lock().stock(class);
        let filled = self.cold.lock().len();
        stock + filled + self.passing.load(Ordering::Relaxed) as usize <= self.cold_share()
    }

    fn gain(&self, class: usize, evicted: &[FrameId]) -> usize {
        debug_assert!(
            evicted
                .iter()
                .all(|&frame| self.header(frame).state() == FrameState::Resident),
            "evicted frames are retired later"
        );
        evicted
            .iter()
            .filter(|&&frame| self.header(frame).class() == class)
            .count()
    }

    /// Evicts demoted frames of any class, in the order in which they were marked.
    fn evict_marked(&self, class: usize, guard: &EpochGuard, wanted: usize, evicted: &mut Vec<FrameId>) {
        let mut gained = 0;
        while gained < wanted {
            let Some(frame) = self.demoted.lock().pop_front() else {
                return;
            };
            let header = self.header(frame);
            // By now the frame may have been evicted in another way and hold a different node.
            if header.is_demoted() && self.unmap(frame, guard) {
                gained += usize::from(header.class() == class);
                evicted.push(frame);
            }
        }
    }

    /// Evicts cold nodes, oldest first, but spares the newest `spare` ones.
    fn evict_cold(
        &self,
        class: usize,
        guard: &EpochGuard,
        spare: usize,
        wanted: usize,
        evicted: &mut Vec<FrameId>,
    ) {
        let mut gained = 0;
        for _ in 0..4 * HAND {
            if gained >= wanted {
                return;
            }
            let frame = {
                let mut cold = self.cold.lock();
                if cold.len() <= spare {
                    return;
                }
                cold.pop_front()
            };
            let Some(frame) = frame else { return };
            let header = self.header(frame);
            if !header.is_cold() {
                continue;
            }
            if header.class() != class && !header.is_passing() {
                // Evicting this node would not free a frame of the wanted class, and other readers
                // may still use the node.
                self.push_cold(frame);
                continue;
            }
            let (hash, is_passing) = (header.key().hash(), header.is_passing());
            if self.unmap(frame, guard) {
                gained += usize::from(header.class() == class);
                evicted.push(frame);
                if !is_passing {
                    self.ghosts.note(hash);
                }
            }
        }
    }

    /// Returns how many frames cold nodes may occupy before they are evicted.
    fn cold_share(&self) -> usize {
        (self.chunks.assigned() as usize * self.geometry.max_frames() / COLD_FRACTION).max(2)
    }

    /// Adds a frame to the queue of cold frames.
    pub(super) fn push_cold(&self, frame: FrameId) {
        let mut cold = self.cold.lock();
        if cold.len() >= self.chunks.assigned() as usize * self.geometry.max_frames() {
            // Most entries are stale, because their frames have been used or evicted since. If the
            // frame of a dropped entry is still cold, the CLOCK hand will evict it.
            cold.pop_front();
        }
        cold.push_back(frame);
    }

    /// Adds a frame to the queue of frames to evict first.
    pub(super) fn push_demoted(&self, frame: FrameId) {
        let mut marked = self.demoted.lock();
        if marked.len() >= self.chunks.assigned() as usize * self.geometry.max_frames() {
            // Most entries are stale, as in the queue of cold frames.
            marked.pop_front();
        }
        marked.push_back(frame);
    }

    /// Advances the CLOCK hand of a class over some frames, and evicts those that were not used
    /// since the hand last passed them.
    fn sweep(&self, class: usize, guard: &EpochGuard, wanted: usize, evicted: &mut Vec<FrameId>) {
        let owner = &self.chunks.classes[class];
        let per_chunk = self.geometry.cut(class).frames as u64;
        let crossed = {
            let chunks = owner.chunks.read();
            let all = chunks.len() as u64 * per_chunk;
            if all > 0 {
                let hand = (HAND as u64).min((2 * wanted as u64).max(4)).min(all);
                let start = owner.hand.fetch_add(hand, Ordering::Relaxed);
                for at in start..start + hand {
                    let at = at % all;
                    let chunk = chunks[(at / per_chunk) as usize];
                    let frame = self.geometry.frame(chunk, (at % per_chunk) as usize);
                    let header = self.header(frame);
                    if header.state() != FrameState::Resident || header.pins() > 0 {
                        continue;
                    }
                    if header.is_cold() {
                        // The node has not reached the front of the cold queue yet. Unless it is
                        // used again, the hand evicts it in the next revolution.
                        header.clear_cold();
                    } else if !header.cool() && self.unmap(frame, guard) {
                        evicted.push(frame);
                    }
                }
                start / per_chunk != (start + hand) / per_chunk
            } else {
                true
            }
        };
        if crossed {
            self.balance(class);
        }
    }

    /// Removes a frame from the page table. If this call removed it, returns true, and the caller
    /// must retire the frame. The guard must predate the observation that the frame is resident, so
    /// that the frame's key cannot change.
    pub(super) fn unmap(&self, frame: FrameId, guard: &EpochGuard) -> bool {
        let header = self.header(frame);
        header.state() == FrameState::Resident && self.tables.remove(header.key().hash(), frame, guard)
    }

    /// Retires frames that the caller has removed from the page table.
    pub(super) fn retire(&self, frames: &[FrameId], guard: &EpochGuard) {
        if frames.is_empty() {
            return;
        }
        let epoch = self.epochs.current();
        debug_assert!(guard.epoch() <= epoch, "the guard pins an epoch that was (R1)");
        let mut bytes = 0;
        for &frame in frames {
            let header = self.header(frame);
            bytes += self.geometry.cut(header.class()).frame_bytes as u64;
            header.retire(epoch);
        }
        self.counters.evicted(guard, frames.len() as u64);
        debug_assert!(
            self.resident_bytes.load(Ordering::Relaxed) >= bytes,
            "resident bytes are counted"
        );
        self.resident_bytes.fetch_sub(bytes, Ordering::Relaxed);
        let mut lane = self.lanes[self.lane_of(guard)].lock();
        for &frame in frames {
            lane.retire(frame, epoch, self.headers());
        }
    }
}

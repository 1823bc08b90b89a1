//! Sources of free frames: the thread's lane, the class's pool, a new chunk, and the CLOCK hand
//! (SplinterDB's: each thread that needs frames claims the next 64 for itself, Conway 2023, §3.4).
//!
//! A node that was read is cold at first. Once cold nodes exceed an eighth of the frames, they are
//! evicted in FIFO order rather than by the hand, unless they were used again. A node that is
//! missed again soon after such an eviction is kept at once (S3-FIFO: Yang et al., SOSP 2023). So
//! leaves that are read once do not evict index nodes and maplets that are read somewhat less than
//! once per revolution of the hand.
//!
//! Frames that are marked to be evicted first go before all others: nodes replaced by compactions
//! are dead, and the hand would evict them only after a whole revolution.
//!
//! An evicted frame is usable only two epochs later, and the evicting thread itself is pinned. So a
//! thread evicts *ahead*: it keeps a stock of free and retired frames that lasts while epochs pass.
//! When the stock runs out (because of long-lived guards, or many misses under one guard), the read
//! is served from private memory, the target stock is doubled, and completed reads are settled,
//! since each holds an epoch until then.

use super::frame::{FrameId, FrameState};
use super::{CacheRetention, NodeCacheInner};
use crate::EpochGuard;
use std::sync::atomic::Ordering;

/// Number of frames that a thread claims from the CLOCK hand at a time.
/// Tuning: `64` since 2026-11-21.
const HAND: usize = 64;
/// A stock holds at most 1/`AHEAD_FRACTION` of a class's frames.
/// Tuning: `16` since 2026-11-21.
const AHEAD_FRACTION: usize = 16;
/// Maximum number of claims swept in one call if all their frames are in use. Their reference bits
/// are then clear for the next sweep.
/// Tuning: `16` since 2026-11-21.
const MAX_HANDS: usize = 16;
const _: () = assert!(HAND > 0 && AHEAD_FRACTION > 1 && MAX_HANDS > 0);
/// Cold nodes may use 1/`COLD_FRACTION` of all frames.
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

    /// Takes a frame for a node of a class. `None` if every frame is in use, pinned, or waiting for
    /// an epoch.
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
            // Their readers may not return for a long time: a scan of many runs can stay in one of
            // them.
            self.settle_all(guard);
        }
        frame
    }

    fn stock_bounds(&self, class: usize) -> (usize, usize) {
        let frames = self.frames_in(class);
        let least = (frames / (4 * AHEAD_FRACTION)).clamp(1, HAND);
        (least, frames / AHEAD_FRACTION)
    }

    /// Gives back a frame that was taken and never published.
    pub(super) fn return_frame(&self, frame: FrameId, guard: &EpochGuard) {
        let mut lane = self.lanes[self.lane_of(guard)].lock();
        debug_assert_eq!(self.header(frame).pins(), 0, "no reader has seen it");
        self.header(frame).give_back();
        lane.put(frame, self.headers());
    }

    /// Takes a free frame from another lane.
    fn steal(&self, class: usize, own: usize) -> Option<FrameId> {
        let safe = self.epochs.safe();
        let lanes = self.lanes.len();
        (1..lanes).find_map(|step| {
            let mut lane = self.lanes[(own + step) % lanes].try_lock()?;
            lane.recycle(safe, self.headers());
            lane.take(class, self.headers())
        })
    }

    /// Refills a lane's stock: from the pool, from a new chunk, or by evicting.
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

    /// Evicts frames into a lane's limbo, unless enough are already waiting there: then only the
    /// epochs are slow.
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

    /// Returns whether ordinary frames may be swept. Pass-through reads may not sweep once they
    /// have their share of frames.
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

    /// Evicts frames that are marked to be evicted first, of any class, oldest mark first.
    fn evict_marked(&self, class: usize, guard: &EpochGuard, wanted: usize, evicted: &mut Vec<FrameId>) {
        let mut gained = 0;
        while gained < wanted {
            let Some(frame) = self.demoted.lock().pop_front() else {
                return;
            };
            let header = self.header(frame);
            // The frame may have been evicted otherwise, and hold another node.
            if header.is_demoted() && self.unmap(frame, guard) {
                gained += usize::from(header.class() == class);
                evicted.push(frame);
            }
        }
    }

    /// Evicts cold nodes, oldest first, but keeps the newest `spare`.
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
                // It frees no frame for this class, and other readers may still want it.
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

    /// Returns the number of frames that cold nodes may use.
    fn cold_share(&self) -> usize {
        (self.chunks.assigned() as usize * self.geometry.max_frames() / COLD_FRACTION).max(2)
    }

    /// Adds a frame to the cold list.
    pub(super) fn push_cold(&self, frame: FrameId) {
        let mut cold = self.cold.lock();
        if cold.len() >= self.chunks.assigned() as usize * self.geometry.max_frames() {
            // Most entries are stale: their frames were used or evicted since. A frame dropped here
            // that is still cold is left to the hand.
            cold.pop_front();
        }
        cold.push_back(frame);
    }

    /// Adds a frame to the list of frames to be evicted first.
    pub(super) fn push_demoted(&self, frame: FrameId) {
        let mut marked = self.demoted.lock();
        if marked.len() >= self.chunks.assigned() as usize * self.geometry.max_frames() {
            // As in the cold list, most entries are stale.
            marked.pop_front();
        }
        marked.push_back(frame);
    }

    /// Claims the next frames of a class's CLOCK hand, and evicts those not used since it last
    /// passed.
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
                        // Its turn in the cold list has not come. If it is not used again, the hand
                        // evicts it the next time.
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

    /// Removes a frame's word from the page table. Returns whether this call removed it; if so, the
    /// caller must retire the frame. The guard must have lived since before the frame was seen
    /// resident, so that its key is stable.
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

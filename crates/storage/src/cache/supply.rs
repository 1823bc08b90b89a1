//! Where free frames come from: the thread's lane, the class's pool, a new chunk, and the CLOCK
//! hand (SplinterDB's: each thread in need claims the next 64 frames for itself, Conway 2023,
//! §3.4).
//!
//! What a read brings is on trial: it goes by the time of its coming, not by the hand, once there
//! is more of that than an eighth, unless it is used again meanwhile. Who comes back soon after is
//! kept at once (S3-FIFO: Yang et al., SOSP 2023). So leaves that are read once do not drive out
//! the index nodes and maplets that are read a little less often than the hand goes round.
//!
//! Before all others go those that are marked to be evicted first: what compactions have replaced
//! is dead, and the clock would notice it only after a whole round.
//!
//! An evicted frame is usable only two epochs later, and the thread that evicts it is pinned
//! itself. So a thread evicts *ahead*: it keeps a stock of free and retired frames that lasts while
//! epochs pass. When the stock is out (guards that live long, many misses under one guard) a read
//! is served from private memory, the stock is made larger, and reads that have arrived are
//! settled: each holds an epoch until then.

use super::frame::{FrameId, State};
use super::{Residence, Shared};
use crate::Guard;
use std::sync::atomic::Ordering;

/// Frames that a thread claims from the CLOCK hand at a time.
const HAND: usize = 64;
/// A stock holds at most this fraction of a class's frames.
const AHEAD_FRACTION: usize = 16;
/// How many hands are swept in one go if all frames of them are in use: their bits are clear the
/// next time.
const MAX_HANDS: usize = 16;
const _: () = assert!(HAND > 0 && AHEAD_FRACTION > 1 && MAX_HANDS > 0);
/// What was read and not used again gets this fraction of all frames.
const COLD_FRACTION: usize = 8;

impl Shared {
    fn lane_of(&self, guard: &Guard) -> usize {
        guard.slot().unwrap_or(0) % self.lanes.len()
    }

    fn frames_in(&self, class: usize) -> usize {
        self.chunks.classes[class].chunks.read().len() * self.geometry.cut(class).frames
    }

    /// Takes a frame for a node of a class. `None` when every frame is in use, pinned, or waits for
    /// an epoch.
    pub(super) fn take_frame(&self, class: usize, guard: &Guard, residence: Residence) -> Option<FrameId> {
        let lane = self.lane_of(guard);
        debug_assert!(guard.is_of(&self.epochs), "frames are evicted under a guard (C2)");
        let (least, most) = self.stock_bounds(class);
        let (frame, low) = {
            let mut lane = self.lanes[lane].lock();
            lane.recycle(self.epochs.safe(), self.headers());
            let frame = lane.take(class, self.headers());
            (frame, lane.stock(class) < lane.ahead(class, least, most))
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
            self.lanes[lane].lock().want_more(class, least, most);
            // Their readers may come back for them much later: a scan of many runs walks through
            // one of them for long.
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
    pub(super) fn return_frame(&self, frame: FrameId, guard: &Guard) {
        let mut lane = self.lanes[self.lane_of(guard)].lock();
        debug_assert_eq!(self.header(frame).pins(), 0, "no reader has seen it");
        self.header(frame).give_back();
        lane.put(frame, self.headers());
    }

    /// Takes a frame from another lane.
    fn steal(&self, class: usize, own: usize) -> Option<FrameId> {
        let safe = self.epochs.safe();
        let lanes = self.lanes.len();
        (1..lanes).find_map(|step| {
            let mut lane = self.lanes[(own + step) % lanes].try_lock()?;
            lane.recycle(safe, self.headers());
            lane.take(class, self.headers())
        })
    }

    /// Adds to a lane's stock: from the pool, from a new chunk, or by evicting.
    fn restock(&self, class: usize, lane: usize, guard: &Guard, residence: Residence) {
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

    /// Evicts frames into a lane's limbo, unless enough wait there already: then only the epochs
    /// are slow.
    fn evict_ahead(&self, class: usize, lane: usize, guard: &Guard, residence: Residence) {
        let (least, most) = self.stock_bounds(class);
        let wanted = {
            let mut lane = self.lanes[lane].lock();
            lane.want_less(class);
            let ahead = lane.ahead(class, least, most);
            (2 * ahead).saturating_sub(lane.waiting(class)).min(ahead)
        };
        if wanted > 0 {
            let mut evicted = Vec::with_capacity(HAND);
            let spare = match residence {
                Residence::Keep => self.cold_share(),
                Residence::PassThrough => self.cold_share() / 4,
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

    /// Returns whether frames that others may want are swept: pass-through reads make do with their
    /// share once they have it.
    fn may_sweep(&self, class: usize, lane: usize, residence: Residence) -> bool {
        if residence == Residence::Keep {
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
                .all(|&frame| self.header(frame).state() == State::Resident),
            "evicted frames are retired later"
        );
        evicted
            .iter()
            .filter(|&&frame| self.header(frame).class() == class)
            .count()
    }

    /// Evicts the frames that are marked to be evicted first, oldest mark first, of whatever class.
    fn evict_marked(&self, class: usize, guard: &Guard, wanted: usize, evicted: &mut Vec<FrameId>) {
        let mut gained = 0;
        while gained < wanted {
            let Some(frame) = self.evict_first.lock().pop_front() else {
                return;
            };
            let header = self.header(frame);
            // It may have gone by itself, and hold another node.
            if header.is_evict_first() && self.unmap(frame, guard) {
                gained += usize::from(header.class() == class);
                evicted.push(frame);
            }
        }
    }

    /// Evicts nodes that reads have brought in and that were not used again, oldest first, but for
    /// the newest `spare`.
    fn evict_cold(
        &self,
        class: usize,
        guard: &Guard,
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
                // It makes no room for this class: others may still want it.
                self.note_cold(frame);
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

    /// Returns how many frames there may be that were not used again.
    fn cold_share(&self) -> usize {
        (self.chunks.assigned() as usize * self.geometry.max_frames() / COLD_FRACTION).max(2)
    }

    /// Notes a frame that a read has filled.
    pub(super) fn note_cold(&self, frame: FrameId) {
        let mut cold = self.cold.lock();
        if cold.len() >= self.chunks.assigned() as usize * self.geometry.max_frames() {
            // Most entries are out of date: frames that were used, or went, since. One that is not
            // is left to the hand.
            cold.pop_front();
        }
        cold.push_back(frame);
    }

    /// Notes a frame that is marked to be evicted first.
    pub(super) fn note_evict_first(&self, frame: FrameId) {
        let mut marked = self.evict_first.lock();
        if marked.len() >= self.chunks.assigned() as usize * self.geometry.max_frames() {
            // As among the cold ones.
            marked.pop_front();
        }
        marked.push_back(frame);
    }

    /// Claims the next frames of a class's CLOCK hand, and evicts those that were not used since it
    /// last passed.
    fn sweep(&self, class: usize, guard: &Guard, wanted: usize, evicted: &mut Vec<FrameId>) {
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
                    if header.state() != State::Resident || header.pins() > 0 {
                        continue;
                    }
                    if header.is_cold() {
                        // Its time has not come. If it is not used again, the hand takes it the
                        // next time.
                        header.settle();
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

    /// Takes a frame's word out of the page table. Returns whether it was this call that did. Then
    /// the frame is the caller's to retire. The guard lives since before the frame was seen
    /// resident, so its key stands still.
    pub(super) fn unmap(&self, frame: FrameId, guard: &Guard) -> bool {
        let header = self.header(frame);
        header.state() == State::Resident && self.tables.remove(header.key().hash(), frame, guard)
    }

    /// Retires frames that the caller has taken out of the page table.
    pub(super) fn retire(&self, frames: &[FrameId], guard: &Guard) {
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

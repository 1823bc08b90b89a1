//! A lane's stock of frames: free frames, and retired frames that wait for the epoch to advance.

use super::arena::FrameArena;
use super::frame::{FrameHeader, FrameId, FrameState};
use super::geometry::{ArenaGeometry, CLASSES};
use std::collections::VecDeque;
use std::sync::Arc;

/// Number of pinned retired frames to re-examine at a time.
const PINNED_LOOKED_AT: usize = 4;

/// The frames of one lane. A lane belongs to the threads whose epoch slots map to it. Other threads
/// take frames from it only as a last resort.
#[derive(Debug)]
pub(super) struct FrameStock {
    free: [Vec<FrameId>; CLASSES],
    /// Retired frames and the epochs at which they were retired, oldest first.
    limbo: VecDeque<(u64, FrameId)>,
    /// Number of frames in `limbo` for each class.
    waiting: [usize; CLASSES],
    /// Retired frames whose epoch is safe, but which are still pinned by a `FrameRef`.
    pinned: VecDeque<FrameId>,
    /// Target number of free and retired frames for each class, so that frames are available while
    /// epochs pass. The target doubles when the stock runs out, and shrinks slowly otherwise.
    ahead: [usize; CLASSES],
}

/// Gives access to the headers of frames.
#[derive(Clone, Copy)]
pub(super) struct FrameHeaders<'a> {
    pub(super) arena: &'a Arc<FrameArena>,
    pub(super) geometry: &'a ArenaGeometry,
}

impl<'a> FrameHeaders<'a> {
    #[inline]
    pub(super) fn of(&self, frame: FrameId) -> &'a FrameHeader {
        self.arena.at(self.geometry.header_at(frame))
    }
}

impl FrameStock {
    pub(super) fn new() -> FrameStock {
        FrameStock {
            free: std::array::from_fn(|_| Vec::new()),
            limbo: VecDeque::new(),
            waiting: [0; CLASSES],
            pinned: VecDeque::new(),
            ahead: [0; CLASSES],
        }
    }

    /// Takes a free frame of a class from the stock, or returns `None` if there is none.
    pub(super) fn take(&mut self, class: usize, headers: FrameHeaders<'_>) -> Option<FrameId> {
        let frame = self.free[class].pop()?;
        let header = headers.of(frame);
        debug_assert_eq!(header.class(), class, "a list has frames of one class (C3)");
        header.take();
        Some(frame)
    }

    /// Adds a free frame to the stock, unless its chunk is being drained.
    pub(super) fn put(&mut self, frame: FrameId, headers: FrameHeaders<'_>) {
        let header = headers.of(frame);
        debug_assert_eq!(header.state(), FrameState::Free, "a stock has free frames");
        if !header.is_draining() {
            self.free[header.class()].push(frame);
        }
    }

    /// Adds a retired frame to the stock, unless its chunk is being drained.
    pub(super) fn retire(&mut self, frame: FrameId, epoch: u64, headers: FrameHeaders<'_>) {
        let header = headers.of(frame);
        debug_assert_eq!(header.state(), FrameState::Retired, "retired before");
        debug_assert!(self.limbo.back().is_none_or(|(last, _)| *last <= epoch));
        if !header.is_draining() {
            self.waiting[header.class()] += 1;
            self.limbo.push_back((epoch, frame));
        }
    }

    /// Frees the unpinned frames that were retired at an epoch below `safe`.
    pub(super) fn recycle(&mut self, safe: u64, headers: FrameHeaders<'_>) {
        for _ in 0..self.pinned.len().min(PINNED_LOOKED_AT) {
            let Some(frame) = self.pinned.pop_front() else {
                break;
            };
            self.recycle_one(frame, headers);
        }
        while let Some(&(epoch, frame)) = self.limbo.front() {
            if epoch >= safe {
                break;
            }
            self.limbo.pop_front();
            debug_assert_eq!(headers.of(frame).state(), FrameState::Retired, "in limbo (C3)");
            debug_assert!(self.waiting[headers.of(frame).class()] > 0, "counted");
            self.waiting[headers.of(frame).class()] -= 1;
            self.recycle_one(frame, headers);
        }
    }

    fn recycle_one(&mut self, frame: FrameId, headers: FrameHeaders<'_>) {
        if headers.of(frame).recycle() {
            self.put(frame, headers);
        } else {
            self.pinned.push_back(frame);
        }
    }

    /// Returns the number of frames of a class that are free, or will be free once the epoch has
    /// advanced.
    pub(super) fn stock(&self, class: usize) -> usize {
        self.free[class].len() + self.waiting[class]
    }

    /// Returns the number of frames of a class that wait for the epoch to advance.
    pub(super) fn waiting(&self, class: usize) -> usize {
        self.waiting[class]
    }

    /// Returns the target number of frames of a class, clamped to the range from `least` to `most`.
    pub(super) fn target_stock(&self, class: usize, least: usize, most: usize) -> usize {
        self.ahead[class].clamp(least, most.max(least))
    }

    /// Doubles the target number of frames of a class whose stock has run out.
    pub(super) fn raise_target(&mut self, class: usize, least: usize, most: usize) {
        self.ahead[class] = (self.target_stock(class, least, most) * 2).min(most.max(least));
    }

    /// Reduces the target number of frames of a class by a 64th.
    pub(super) fn lower_target(&mut self, class: usize) {
        self.ahead[class] -= self.ahead[class].div_ceil(64);
    }

    /// Removes every frame whose chunk is being drained from all lists. Returns the number of
    /// entries examined.
    pub(super) fn forget_draining(&mut self, headers: FrameHeaders<'_>) -> usize {
        let stays = |frame: FrameId| !headers.of(frame).is_draining();
        debug_assert!(self.waiting.iter().sum::<usize>() == self.limbo.len());
        let walked = self.free.iter().map(Vec::len).sum::<usize>() + self.pinned.len() + self.limbo.len();
        for free in &mut self.free {
            free.retain(|&frame| stays(frame));
        }
        self.pinned.retain(|&frame| stays(frame));
        let waiting = &mut self.waiting;
        self.limbo.retain(|&(_, frame)| {
            if !stays(frame) {
                waiting[headers.of(frame).class()] -= 1;
            }
            stays(frame)
        });
        walked
    }

    /// Returns all free frames of the stock, and all retired ones.
    pub(super) fn frames(&self) -> (Vec<FrameId>, Vec<FrameId>) {
        let free = self.free.iter().flatten().copied().collect();
        let retired = self
            .limbo
            .iter()
            .map(|&(_, frame)| frame)
            .chain(self.pinned.iter().copied());
        (free, retired.collect())
    }
}

//! A shard of the page buffer: the table and the queues for some of the pages, under one mutex.
//!
//! The thesis has a single table under one mutex, and leaves partitioning it to future work
//! (section 8.5). A buffer with one shard behaves as in the thesis.

use super::frame::NO_PAGE;
use super::pool::{NO_FRAME, PoolOptions};
use super::queue::EvictionQueues;
use std::ops::Range;

/// The table and the queues of a shard. Frame numbers count the frames of the whole pool.
#[derive(Debug)]
pub(super) struct ShardState {
    /// The number of the shard's first frame.
    first: usize,
    /// Number of shards. A page belongs to the shard whose number is the page number modulo this.
    shards: u64,
    /// For each page of the shard, the number of its frame.
    table: Vec<u32>,
    /// Number of the shard's frames, including spare ones.
    len: usize,
    /// For each frame that was ever used, the number of its page.
    pages: Vec<u64>,
    /// For each frame that was ever used, whether its page is being written.
    is_written: Vec<bool>,
    /// Frames that once held a page and are now empty. After a failed read, such a frame may still
    /// be pinned.
    free: Vec<u32>,
    /// Frames that have never been used, except for the spare ones.
    fresh: Range<u32>,
    /// Number of frames that have ever been used. Only these frames have memory for a page.
    used: usize,
    /// Frames held back until a page write fails. After that, changed pages can no longer be
    /// evicted, and these frames let the failed operation finish and readers continue.
    spare: Vec<u32>,
    queues: EvictionQueues,
    pub(super) hits: u64,
}

impl ShardState {
    /// Maximum memory of a frame in bytes for its page number, its page's entry in the table, its
    /// node in a queue, and its entry in the list of empty frames.
    pub(super) const FRAME_BYTES: usize =
        2 * size_of::<u64>() + EvictionQueues::FRAME_BYTES + 2 * size_of::<u32>();

    /// Creates the state of a shard with `counted` ordinary frames, followed by `spare` spare
    /// frames.
    pub(super) fn new(shard: usize, counted: usize, spare: usize, options: &PoolOptions) -> ShardState {
        assert!(shard < options.shards && counted > 0, "shards are numbered");
        let first = shard * (counted + spare);
        let numbers = |from: usize, to: usize| (from as u32..to as u32).rev().collect();
        ShardState {
            first,
            shards: options.shards as u64,
            table: Vec::new(),
            len: counted + spare,
            pages: Vec::new(),
            is_written: Vec::new(),
            free: Vec::new(),
            fresh: first as u32..(first + counted) as u32,
            used: 0,
            spare: numbers(first + counted, first + counted + spare),
            queues: EvictionQueues::new(counted, options.policy),
            hits: 0,
        }
    }

    /// Returns the number of the shard's frames, including spare ones.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of frames that have ever been used.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Returns the number of the page in a frame, or `NO_PAGE`.
    pub(super) fn page_of(&self, frame: usize) -> u64 {
        self.pages.get(frame - self.first).copied().unwrap_or(NO_PAGE)
    }

    pub(super) fn frame_of(&self, page: u64) -> Option<usize> {
        let at = usize::try_from(page / self.shards).ok()?;
        let frame = *self.table.get(at)?;
        (frame != NO_FRAME).then_some(frame as usize)
    }

    pub(super) fn is_written(&self, frame: usize) -> bool {
        self.is_written
            .get(frame - self.first)
            .is_some_and(|is_written| *is_written)
    }

    /// Records that the page of a frame starts or stops being written.
    pub(super) fn note_written(&mut self, frame: usize, begins: WritePhase) {
        let is_written = &mut self.is_written[frame - self.first];
        assert!(
            *is_written == (begins == WritePhase::Ends),
            "a page is written by one thread (PB4)"
        );
        *is_written = begins == WritePhase::Begins;
    }

    /// Records a reference to a frame in the queues.
    pub(super) fn touch(&mut self, frame: usize) {
        self.queues.touch(frame - self.first);
    }

    /// Returns up to `most` frames for which `may` returns true, in eviction order.
    pub(super) fn victims(&self, most: usize, may: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut victims = self.queues.victims(most, |frame| may(frame + self.first));
        victims.iter_mut().for_each(|frame| *frame += self.first);
        victims
    }

    /// Enters a page into the table, in a frame that is empty.
    pub(super) fn install(&mut self, page: u64, frame: usize) {
        let at = (page / self.shards) as usize;
        if at >= self.table.len() {
            self.table.resize((at + 1).next_multiple_of(1024), NO_FRAME);
        }
        assert!(self.table[at] == NO_FRAME, "page {page} is in one frame (PB1)");
        self.table[at] = frame as u32;
        self.pages[frame - self.first] = page;
        self.touch(frame);
    }

    /// Removes a frame's page from the table, and makes the frame available.
    pub(super) fn detach(&mut self, frame: usize) {
        let page = std::mem::replace(&mut self.pages[frame - self.first], NO_PAGE);
        assert!(self.frame_of(page) == Some(frame), "a frame has one page (PB1)");
        self.table[(page / self.shards) as usize] = NO_FRAME;
        self.queues.remove(frame - self.first);
        self.free.push(frame as u32);
    }

    /// Takes an empty frame for which `idle` returns true, preferably one that has been used
    /// before. Returns `None` if there is no such frame.
    pub(super) fn take_free(&mut self, idle: impl Fn(usize) -> bool) -> Option<usize> {
        let again = self.free.iter().rposition(|frame| idle(*frame as usize));
        let frame = match again {
            Some(at) => self.free.swap_remove(at),
            None => self.fresh.next()?,
        } as usize;
        assert!(self.page_of(frame) == NO_PAGE, "it has no page (PB1)");
        let number = frame - self.first + 1;
        if number > self.pages.len() {
            self.pages.resize(number, NO_PAGE);
            self.is_written.resize(number, false);
        }
        self.used = self.used.max(number);
        Some(frame)
    }

    /// Makes a spare frame available. Returns `false` if no spare frame is left.
    pub(super) fn add_spare(&mut self) -> bool {
        let spare = self.spare.pop();
        self.free.extend(spare);
        spare.is_some()
    }

    /// Permanently removes up to `most` empty frames. Returns those of them that have been used,
    /// and the number of all frames removed.
    #[cfg(feature = "couplings")]
    pub(super) fn give_up(&mut self, most: usize) -> (Vec<usize>, usize) {
        let fresh = most.min(self.fresh.len());
        self.fresh.end -= fresh as u32;
        let kept = self.free.len().saturating_sub(most - fresh);
        let used = self.free.split_off(kept);
        let all = fresh + used.len();
        assert!(all <= most, "others stay in use");
        (used.into_iter().map(|frame| frame as usize).collect(), all)
    }
}

/// Whether a page starts or stops being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WritePhase {
    Begins,
    Ends,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(shard: usize) -> ShardState {
        let options = PoolOptions {
            shards: 3,
            ..PoolOptions::default()
        };
        ShardState::new(shard, 4, 2, &options)
    }

    #[test]
    fn each_shard_has_frames_and_pages_of_its_own() {
        let mut states: Vec<ShardState> = (0..3).map(state).collect();
        let mut frames = std::collections::BTreeSet::new();
        for page in 0..12u64 {
            let state = &mut states[page as usize % 3];
            let frame = state.take_free(|_| true).unwrap();
            state.install(page, frame);
            assert!(frames.insert(frame), "page {page}");
            assert_eq!((state.frame_of(page), state.page_of(frame)), (Some(frame), page));
        }
        assert_eq!(states[1].take_free(|_| true), None);
        assert!(states[1].add_spare() && states[1].add_spare() && !states[1].add_spare());
        assert_eq!(states[1].take_free(|frame| frame == 10), Some(10));
        let victims = states[2].victims(2, |_| true);
        assert_eq!(victims, [12, 13], "the first that were touched");
        states[2].detach(12);
        assert_eq!((states[2].frame_of(2), states[2].page_of(12)), (None, NO_PAGE));
        #[cfg(feature = "couplings")]
        assert_eq!(states[2].give_up(5), (vec![12], 1));
        assert_eq!(states[2].len(), 6);
    }

    #[test]
    #[should_panic(expected = "a page is written by one thread")]
    fn a_page_is_not_written_twice_at_once() {
        let mut state = state(1);
        let used = [6, 7].map(|_| state.take_free(|_| true));
        assert_eq!(used, [Some(6), Some(7)]);
        state.note_written(7, WritePhase::Begins);
        assert!(state.is_written(7));
        state.note_written(7, WritePhase::Begins);
    }
}

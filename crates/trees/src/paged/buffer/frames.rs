//! A pool's frames. They are allocated in chunks on first use, and never move.

use super::frame::PageFrame;
use super::lending::FrameLoans;
use std::ops::Index;
use std::sync::OnceLock;

/// Number of frames in a chunk.
const CHUNK: usize = 64;

#[derive(Debug)]
pub(super) struct FrameTable {
    chunks: Box<[OnceLock<Box<[PageFrame]>>]>,
    len: usize,
}

impl FrameTable {
    /// Creates a table of `len` frames, none of which is allocated yet.
    pub(super) fn new(len: usize) -> FrameTable {
        assert!(len > 0, "a pool has frames");
        let chunks = (0..len.div_ceil(CHUNK)).map(|_| OnceLock::new());
        FrameTable {
            chunks: chunks.collect(),
            len,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the frame with a given number, or `None` if its chunk has not been allocated.
    pub(super) fn get(&self, number: usize) -> Option<&PageFrame> {
        self.chunks.get(number / CHUNK)?.get()?.get(number % CHUNK)
    }

    /// Returns the frames of all allocated chunks.
    pub(super) fn made(&self) -> impl Iterator<Item = &PageFrame> {
        self.chunks.iter().filter_map(OnceLock::get).flatten()
    }
}

impl Index<usize> for FrameTable {
    type Output = PageFrame;

    fn index(&self, number: usize) -> &PageFrame {
        assert!(number < self.len, "frame {number} of {}", self.len);
        let first = number / CHUNK * CHUNK;
        let frames = self.chunks[number / CHUNK].get_or_init(|| {
            let numbers = first..self.len.min(first + CHUNK);
            let made = numbers.map(|number| PageFrame::unused(FrameLoans::new(number, self.len)));
            made.collect()
        });
        &frames[number - first]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_made_once_they_are_used_and_stay() {
        let frames = FrameTable::new(200);
        assert!(frames.len() == 200 && frames.made().count() == 0 && frames.get(199).is_none());
        let one = std::ptr::from_ref(&frames[199]);
        assert_eq!(frames.made().count(), 200 - 192);
        assert_eq!(frames.get(199).map(std::ptr::from_ref), Some(one));
        assert!(frames.get(200).is_none() && frames.get(0).is_none());
        frames[0].touch();
        assert_eq!(frames.made().count(), 64 + 8);
    }

    #[test]
    #[should_panic(expected = "frame 200 of 200")]
    fn there_is_no_frame_behind_the_last() {
        let _ = &FrameTable::new(200)[200];
    }
}

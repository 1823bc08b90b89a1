//! Files that are read one after the other.
//!
//! A program that reads a tree reads its files about in the order in which they were created, or in
//! that of their paths: an archiver, a search, a version control system, a build. Each small file
//! that is not in memory makes it wait for the device, though the device could read many at once.
//! So a reader who continues such a stream also reads the files that are next, in one batch. By
//! path, this works only where contents are [ordered by path](super::block_streams).

use super::block_streams::{BlockStreams, BlocksAhead};
use crate::types::Inode;
use parking_lot::Mutex;
use std::ops::Range;

/// Number of streams that are remembered. Not a tuning parameter.
const STREAMS: usize = 8;

/// Most inode numbers between two files of a stream. Directories lie between them, and what a
/// program has no use for.
/// Tuning: `8` since 2026-11-30.
const WIDEST_GAP: u64 = 8;

/// Number of files in order from which on a stream is expected to continue.
/// Tuning: `4` since 2026-11-30.
const SHORTEST: u64 = 4;

/// Most inode numbers that are read ahead.
/// Tuning: `64` since 2026-11-30.
const MOST_AHEAD: u64 = 64;

/// A sequence of files that were read in the order of their numbers.
#[derive(Clone, Copy, Debug, Default)]
struct FileStream {
    /// The last file that was read.
    last: u64,
    /// Number of files that were read.
    length: u64,
    /// The first number that was not read ahead.
    ahead: u64,
}

#[derive(Debug, Default)]
struct RecentStreams {
    streams: [FileStream; STREAMS],
    /// The stream that the next new one replaces.
    oldest: usize,
}

/// The streams of files that programs are reading.
#[derive(Debug, Default)]
pub(crate) struct FileStreams {
    recent: Mutex<RecentStreams>,
    /// Of blocks that are not compressed, and of those that are.
    by_path: [Mutex<BlockStreams>; 2],
}

impl FileStreams {
    /// Notes that a file is read from its beginning. Returns the numbers of the inodes to be read
    /// ahead, if there are any.
    pub(crate) fn note(&self, inode: Inode) -> Option<Range<u64>> {
        // A reader who would have to wait does without.
        let mut recent = self.recent.try_lock()?;
        let RecentStreams { streams, oldest } = &mut *recent;
        let is_next = |stream: &&mut FileStream| {
            stream.length > 0 && (stream.last..=stream.last.saturating_add(WIDEST_GAP)).contains(&inode.0)
        };
        let Some(stream) = streams.iter_mut().find(is_next) else {
            streams[*oldest] = FileStream {
                last: inode.0,
                length: 1,
                ahead: 0,
            };
            *oldest = (*oldest + 1) % STREAMS;
            return None;
        };
        stream.length += u64::from(inode.0 > stream.last);
        stream.last = inode.0;
        let wanted = (2 * stream.length).min(MOST_AHEAD);
        if stream.length < SHORTEST || stream.ahead > inode.0.saturating_add(wanted / 2) {
            return None;
        }
        let first = stream.ahead.max(inode.0 + 1);
        stream.ahead = inode.0.saturating_add(1 + wanted);
        Some(first..stream.ahead)
    }

    /// Like [`FileStreams::note`], where contents are ordered by path: the file's blocks have keys
    /// from `first` to before `end`.
    pub(super) fn note_blocks(&self, is_compressed: bool, first: &[u8], end: &[u8]) -> Option<BlocksAhead> {
        self.by_path[usize::from(is_compressed)]
            .try_lock()?
            .note(first, end)
    }

    /// Notes the last key that was read ahead for the file whose first block has the key `first`.
    pub(super) fn note_brought(&self, is_compressed: bool, first: &[u8], last: Vec<u8>) {
        self.by_path[usize::from(is_compressed)]
            .lock()
            .note_brought(first, last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_of_a_stream_is_read_ahead_once() {
        let streams = FileStreams::default();
        let (mut ahead, mut batches) = (0, 0);
        for inode in (100..1100).filter(|inode| inode % 7 != 0) {
            // Another program reads one file again and again.
            assert_eq!(streams.note(Inode(5)), None);
            let Some(next) = streams.note(Inode(inode)) else {
                assert!(inode < 105 || inode < ahead, "{inode} was read ahead");
                continue;
            };
            assert!(
                next.start > inode && next.end <= inode + 1 + MOST_AHEAD,
                "{next:?}"
            );
            assert!(ahead == 0 || next.start == ahead, "{next:?} after {ahead}");
            (ahead, batches) = (next.end, batches + 1);
        }
        assert!(ahead > 1100 && batches < 50, "{batches} batches up to {ahead}");
    }

    #[test]
    fn files_in_no_order_are_not_read_ahead() {
        let streams = FileStreams::default();
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..10_000 {
            assert_eq!(streams.note(Inode(random.u64(1..1_000_000))), None);
        }
        for inode in (100..10_000).rev() {
            assert_eq!(streams.note(Inode(inode)), None);
        }
        for inode in (100..100_000).step_by(WIDEST_GAP as usize + 1) {
            assert_eq!(streams.note(Inode(inode)), None);
        }
    }
}

//! Files that are read in the order of their paths, where contents are ordered by path.
//!
//! Their blocks lie beside each other. So a reader who has read a few files of a directory in order
//! also reads the blocks that follow, whichever files they belong to, in one scan.

use std::cmp::Ordering;

/// Number of streams that are remembered. Not a tuning parameter.
const STREAMS: usize = 8;

/// Number of files in order from which on a stream is expected to continue.
/// Tuning: `4` since 2026-11-30.
const SHORTEST: u32 = 4;

/// Number of files in the opposite order that end a stream before anything was read ahead.
/// Tuning: `2` since 2026-11-30.
const MOST_BEHIND: u32 = 2;

/// Fewest bytes that are read ahead. Each scan of a stream reads twice as many as the one before.
/// Tuning: `64 << 10` since 2026-11-30.
const FEWEST_AHEAD: usize = 64 << 10;

/// Most bytes that are read ahead.
/// Tuning: `1 << 20` since 2026-11-30.
const MOST_AHEAD: usize = 1 << 20;

/// What is to be read ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BlocksAhead {
    /// The key from which on.
    pub(super) from: Vec<u8>,
    pub(super) bytes: usize,
}

/// A sequence of files that were read in the order of their blocks.
#[derive(Clone, Debug, Default)]
struct BlockStream {
    /// The key of the first block of the last file that was read in order.
    last: Vec<u8>,
    /// Number of files that were read in order.
    length: u32,
    /// Number of files before the last one that were read since. Threads that share a directory do
    /// not keep its order.
    behind: u32,
    /// The last key that was read ahead, which may be in another directory, or empty.
    ahead: Vec<u8>,
    /// Bytes that the last scan was to read ahead.
    bytes: usize,
}

/// The streams of files that programs are reading by paths.
#[derive(Debug, Default)]
pub(super) struct BlockStreams {
    streams: [BlockStream; STREAMS],
    /// The stream that the next new one replaces.
    oldest: usize,
}

/// Returns the part of a block's key that all files of its directory have.
fn directory_of(key: &[u8]) -> &[u8] {
    // Inode, number of the block, and the zero byte after the name of the file.
    let names = key.get(..key.len().saturating_sub(17)).unwrap_or_default();
    let end = names.iter().rposition(|byte| *byte == 0);
    names.get(..end.map_or(0, |end| end + 1)).unwrap_or_default()
}

impl BlockStream {
    fn begin(first: &[u8]) -> BlockStream {
        BlockStream {
            last: first.to_vec(),
            length: 1,
            ..BlockStream::default()
        }
    }

    fn has_brought(&self, first: &[u8]) -> bool {
        self.last.as_slice() < first && first <= self.ahead.as_slice()
    }

    /// Notes a file that lies in the directory of the last one, or was read ahead.
    fn note(&mut self, first: &[u8], end: &[u8]) -> Option<BlocksAhead> {
        let is_brought = self.has_brought(first);
        match self.last.as_slice().cmp(first) {
            Ordering::Equal => return None,
            Ordering::Greater => {
                self.behind += 1;
                let most = match self.ahead.is_empty() {
                    true => MOST_BEHIND,
                    false => SHORTEST,
                };
                if self.behind == most {
                    *self = BlockStream::begin(first);
                }
                return None;
            }
            // The reader has jumped, so what it reads next is not known.
            Ordering::Less if !self.ahead.is_empty() && !is_brought => {
                *self = BlockStream::begin(first);
                return None;
            }
            Ordering::Less => (),
        }
        self.length = self.length.saturating_add(1);
        self.behind = 0;
        self.last = first.to_vec();
        if self.length < SHORTEST || end <= self.ahead.as_slice() {
            return None;
        }
        self.bytes = (2 * self.bytes).clamp(FEWEST_AHEAD, MOST_AHEAD);
        Some(BlocksAhead {
            from: first.max(&self.ahead).to_vec(),
            bytes: self.bytes,
        })
    }
}

impl BlockStreams {
    /// Notes that a file is read from its beginning, whose blocks have keys from `first` to before
    /// `end`. Returns what is to be read ahead, if there is something.
    pub(super) fn note(&mut self, first: &[u8], end: &[u8]) -> Option<BlocksAhead> {
        let directory = directory_of(first);
        let brought = self.streams.iter().position(|stream| stream.has_brought(first));
        let found = brought.or_else(|| {
            self.streams
                .iter()
                .position(|stream| stream.length > 0 && directory_of(&stream.last) == directory)
        });
        if let Some(found) = found {
            return self.streams[found].note(first, end);
        }
        self.streams[self.oldest] = BlockStream::begin(first);
        self.oldest = (self.oldest + 1) % STREAMS;
        None
    }

    /// Notes the last key that was read ahead for the file whose first block has the key `first`.
    pub(super) fn note_brought(&mut self, first: &[u8], last: Vec<u8>) {
        let stream = self.streams.iter_mut().find(|stream| stream.last == first);
        if let Some(stream) = stream {
            stream.ahead = last;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the first key and the end of the keys of a file in a directory.
    fn keys(directory: u64, file: u64) -> (Vec<u8>, Vec<u8>) {
        let names = format!("d{directory:04}\0f{file:04}\0").into_bytes();
        let key = |inode: u64| [&names[..], &inode.to_be_bytes()].concat();
        ([&key(file)[..], &[0; 8]].concat(), key(file + 1))
    }

    /// Reads files with one block each, in order if `window` files follow each other in `all`.
    fn read(streams: &mut BlockStreams, all: &[(u64, u64)], window: usize) -> Vec<Vec<u8>> {
        let mut scans = Vec::new();
        for (at, file) in all.iter().enumerate() {
            let (first, end) = keys(file.0, file.1);
            if let Some(ahead) = streams.note(&first, &end) {
                assert!(ahead.from >= first && (FEWEST_AHEAD..=MOST_AHEAD).contains(&ahead.bytes));
                let last = all[(at + window).min(all.len() - 1)];
                streams.note_brought(&first, keys(last.0, last.1).0);
                scans.push(ahead.from);
            }
        }
        scans
    }

    #[test]
    fn streams_cross_directories_and_read_each_part_once() {
        let files: Vec<(u64, u64)> = (0..50)
            .flat_map(|directory| (0..12).map(move |file| (directory, file)))
            .collect();
        let mut streams = BlockStreams::default();
        let scans = read(&mut streams, &files, 30);
        assert!(
            (15..=25).contains(&scans.len()),
            "{} scans of 600 files",
            scans.len()
        );
        assert!(scans.is_sorted_by(|one, other| one < other));
    }

    #[test]
    fn files_in_no_order_are_hardly_read_ahead() {
        let mut random = fastrand::Rng::with_seed(1);
        let files: Vec<(u64, u64)> = (0..5000)
            .map(|_| (random.u64(..100), random.u64(..100)))
            .collect();
        let mut streams = BlockStreams::default();
        let scans = read(&mut streams, &files, 0).len();
        assert!(scans < 10, "{scans} scans of 5000 files");
        let files: Vec<(u64, u64)> = (0..5000).map(|file| (file / 100, 99 - file % 100)).collect();
        assert_eq!(read(&mut streams, &files, 30).len(), 0, "backwards");
    }

    #[test]
    fn threads_that_share_a_directory_do_not_end_a_stream() {
        let files: Vec<(u64, u64)> = (0..400)
            .map(|file| (0, if file < 8 { file } else { file ^ 1 }))
            .collect();
        let mut streams = BlockStreams::default();
        let scans = read(&mut streams, &files, 40).len();
        assert!((8..=16).contains(&scans), "{scans} scans of 400 files");
        // A reader who begins again begins a stream.
        assert!(!read(&mut streams, &files, 40).is_empty());
    }
}

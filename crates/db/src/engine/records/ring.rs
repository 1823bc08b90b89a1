//! Records side by side in a ring of bytes, in the order in which they came.

use std::collections::VecDeque;

/// Where a record is, and how long its key and its value are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) at: u32,
    pub(super) key_len: u16,
    pub(super) value_len: u16,
}

/// Bytes that one piece takes beside its key and value.
pub(super) const PIECE_BYTES: usize = size_of::<Piece>();

impl Piece {
    fn len(self) -> usize {
        usize::from(self.key_len) + usize::from(self.value_len)
    }
}

/// The ring. A record is in one stretch: where it does not fit before the end, it begins at the start.
#[derive(Debug, Default)]
pub(super) struct Ring {
    bytes: Box<[u8]>,
    /// Oldest first; never more than it was made for.
    pieces: VecDeque<Piece>,
    most_pieces: usize,
    /// Behind the newest piece.
    head: usize,
}

impl Ring {
    pub(super) fn new(bytes: usize, most_pieces: usize) -> Ring {
        Ring {
            // Zeroed memory that nobody has touched takes none.
            bytes: vec![0; bytes].into_boxed_slice(),
            pieces: VecDeque::with_capacity(most_pieces),
            most_pieces,
            head: 0,
        }
    }

    /// Bytes that it was made with.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len() + self.most_pieces * PIECE_BYTES
    }

    /// How long a record may be.
    pub(super) fn longest(&self) -> usize {
        (self.bytes.len() / 8).min(usize::from(u16::MAX))
    }

    /// Whether it has lost something, or soon will.
    pub(super) fn is_full(&self) -> bool {
        self.room(self.bytes.len() / 16).is_none()
    }

    /// Every piece, oldest first.
    pub(super) fn pieces(&self) -> impl ExactSizeIterator<Item = Piece> + '_ {
        self.pieces.iter().copied()
    }

    pub(super) fn key(&self, piece: Piece) -> &[u8] {
        let at = piece.at as usize;
        &self.bytes[at..at + usize::from(piece.key_len)]
    }

    pub(super) fn value(&self, piece: Piece) -> &[u8] {
        let at = piece.at as usize;
        &self.bytes[at + usize::from(piece.key_len)..at + piece.len()]
    }

    /// Writes another value over a piece's, of the same length.
    pub(super) fn overwrite(&mut self, piece: Piece, value: &[u8]) {
        let start = piece.at as usize + usize::from(piece.key_len);
        self.bytes[start..start + usize::from(piece.value_len)].copy_from_slice(value);
    }

    /// Where so many bytes would go now, if there is room.
    fn room(&self, len: usize) -> Option<usize> {
        let Some(oldest) = self.pieces.front() else {
            return (len <= self.bytes.len()).then_some(0);
        };
        let tail = oldest.at as usize;
        let fits = |from: usize, to: usize| (to - from >= len).then_some(from);
        if self.pieces.len() == self.most_pieces {
            None
        } else if self.head > tail {
            fits(self.head, self.bytes.len()).or_else(|| fits(0, tail))
        } else {
            fits(self.head, tail)
        }
    }

    fn take(&mut self, at: usize, key_len: u16, value_len: u16) -> Piece {
        let piece = Piece {
            at: at as u32,
            key_len,
            value_len,
        };
        self.pieces.push_back(piece);
        self.head = at + piece.len();
        piece
    }

    /// Puts a record behind the others, if there is room; the key is not longer than [`Ring::longest`] with its value.
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) -> Option<Piece> {
        let at = self.room(key.len() + value.len())?;
        let piece = self.take(at, key.len() as u16, value.len() as u16);
        let end = at + key.len();
        self.bytes[at..end].copy_from_slice(key);
        self.bytes[end..end + value.len()].copy_from_slice(value);
        Some(piece)
    }

    /// Takes the oldest piece out. Its bytes stay until something is put there.
    pub(super) fn pop(&mut self) -> Option<Piece> {
        self.pieces.pop_front()
    }

    /// Puts a piece that was just taken out behind the others, if there is room.
    pub(super) fn push_again(&mut self, piece: Piece) -> Option<Piece> {
        let at = self.room(piece.len())?;
        let from = piece.at as usize;
        self.bytes.copy_within(from..from + piece.len(), at);
        Some(self.take(at, piece.key_len, piece.value_len))
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    #[test]
    fn records_of_every_length_stay_whole_while_the_ring_turns() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut ring = Ring::new(1000, 20);
        let mut reference: VecDeque<(Piece, Vec<u8>, Vec<u8>)> = VecDeque::new();
        let (mut again, mut most) = (0, 0);
        for turn in 0..20_000u32 {
            let key = turn.to_string().into_bytes();
            let value = vec![turn as u8; random.usize(0..100)];
            let piece = loop {
                match ring.push(&key, &value) {
                    Some(piece) => break piece,
                    None => {
                        let old = ring.pop().unwrap();
                        let (piece, key, value) = reference.pop_front().unwrap();
                        assert_eq!(old, piece);
                        if random.u8(..) < 60
                            && let Some(piece) = ring.push_again(old)
                        {
                            again += 1;
                            reference.push_back((piece, key, value));
                        }
                    }
                }
            };
            reference.push_back((piece, key, value));
            most = most.max(reference.len());
            for (piece, key, value) in &reference {
                assert_eq!((ring.key(*piece), ring.value(*piece)), (&key[..], &value[..]));
            }
            assert!(ring.pieces().eq(reference.iter().map(|(piece, ..)| *piece)));
        }
        assert!(again > 1000 && most == 20, "{again} put back, {most} at most");
    }
}

//! What a cache evicts: pure decisions.
//!
//! S3-FIFO (Yang et al., SOSP 2023) on circular logs: new items go to a small log, a tenth of
//! the memory. What was asked for twice there moves on to the main log, the rest leaves an
//! entry in the index that leads nowhere: the ghost by which a soon return is known. What was
//! asked for in the main log goes around once more for each access, up to three.

/// Which items a cache evicts first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// The oldest.
    Fifo,
    /// The one not asked for the longest: every access copies the item to the tail.
    Lru,
    /// Nearly that: an access copies the item only if it is nearer to the head than to the
    /// tail.
    ApproximateLru,
    /// Those asked for once only, before others: an access counts, and copies nothing.
    #[default]
    S3Fifo,
}

/// Which of a cache's logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ring {
    /// The only one, or for S3-FIFO the small one that new items enter.
    First,
    /// That of S3-FIFO for items that were asked for.
    Main,
}

/// What becomes of the oldest item of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is dropped.
    Drop,
    /// It goes to the tail of the main log, with this count of accesses.
    Move { accesses: u64 },
}

/// Whether the main log takes another item without dropping one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MainLog {
    HasSpace,
    IsFull,
}

/// Moves to the tail that an append waits for at most; then items are dropped whatever was
/// asked for.
pub(super) const MOST_MOVES: u32 = 64;

/// Accesses from which on an item of the small log moves to the main one.
const PROMOTED: u64 = 2;

/// Decides what becomes of the oldest item under S3-FIFO. While the main log has space, it
/// takes all that the small one has no space for.
pub(super) fn fate(ring: Ring, accesses: u64, moves: u32, main: MainLog) -> Fate {
    match ring {
        Ring::First if main == MainLog::HasSpace => Fate::Move { accesses: 0 },
        _ if moves >= MOST_MOVES => Fate::Drop,
        Ring::First if accesses >= PROMOTED => Fate::Move { accesses: 0 },
        Ring::Main if accesses > 0 => Fate::Move {
            accesses: accesses - 1,
        },
        Ring::First | Ring::Main => Fate::Drop,
    }
}

/// What is known of an entry, when a bucket needs a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) ring: Ring,
    /// Whether the entry leads to an item.
    pub(super) is_held: bool,
    pub(super) accesses: u64,
    pub(super) age: u64,
}

/// Returns how well a slot may be taken: the greatest is. First entries that lead nowhere, the
/// oldest of them; ghosts after others. Then those asked for least, the oldest of them.
pub(super) fn score(candidate: Candidate) -> u64 {
    debug_assert!(candidate.age < 1 << 48 && candidate.accesses <= 3);
    match candidate {
        Candidate {
            is_held: false,
            ring: Ring::Main,
            age,
            ..
        } => 3 << 60 | age,
        Candidate {
            is_held: false,
            ring: Ring::First,
            age,
            ..
        } => 2 << 60 | age,
        Candidate { accesses, age, .. } => (3 - accesses) << 56 | age,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s3_fifo_moves_what_was_asked_for_and_ends() {
        let moves = |ring, accesses| fate(ring, accesses, 0, MainLog::IsFull);
        assert_eq!(moves(Ring::First, 0), Fate::Drop);
        assert_eq!(moves(Ring::First, 1), Fate::Drop);
        assert_eq!(moves(Ring::First, 2), Fate::Move { accesses: 0 });
        assert_eq!(moves(Ring::Main, 0), Fate::Drop);
        assert_eq!(moves(Ring::Main, 3), Fate::Move { accesses: 2 });
        assert_eq!(fate(Ring::Main, 3, MOST_MOVES, MainLog::IsFull), Fate::Drop);
        assert_eq!(
            fate(Ring::First, 0, 0, MainLog::HasSpace),
            Fate::Move { accesses: 0 }
        );
        assert_eq!(fate(Ring::Main, 0, 0, MainLog::HasSpace), Fate::Drop);
    }

    #[test]
    fn slots_are_taken_from_what_leads_nowhere_then_from_the_least_used_then_from_the_oldest() {
        let entry = |ring, is_held, accesses, age| Candidate {
            ring,
            is_held,
            accesses,
            age,
        };
        let order = [
            entry(Ring::First, true, 3, 9),
            entry(Ring::Main, true, 1, 10),
            entry(Ring::First, true, 1, 11),
            entry(Ring::First, true, 0, 4),
            entry(Ring::Main, true, 0, 5),
            entry(Ring::First, false, 0, 1 << 20),
            entry(Ring::First, false, 0, 1 << 21),
            entry(Ring::Main, false, 0, 1 << 19),
        ];
        assert!(order.is_sorted_by_key(|&candidate| score(candidate)));
    }
}

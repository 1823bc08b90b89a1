//! Eviction policy of a cache: pure decisions.
//!
//! S3-FIFO (Yang et al., SOSP 2023) on circular logs: new items are appended to a small log, a
//! tenth of the memory. Items accessed at least twice in it move to the main log. Others leave a
//! ghost, an entry in the index that leads to no item, by which an early return of the key is
//! recognised. Items accessed in the main log go around once more per access, up to three times.

/// Order in which a cache evicts items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// The oldest item first.
    Fifo,
    /// The least recently accessed item first: every access copies the item to the tail.
    Lru,
    /// Approximately LRU: an access copies the item only if it is closer to the head than to the
    /// tail.
    ApproximateLru,
    /// Items accessed only once before others: an access increments a counter and copies nothing.
    #[default]
    S3Fifo,
}

/// One of a cache's logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ring {
    /// The only log, or in S3-FIFO the small log for new items.
    First,
    /// The log of S3-FIFO for items that were accessed.
    Main,
}

/// Decision about the oldest item of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Drop the item.
    Drop,
    /// Move the item to the tail of the main log, with this access count.
    Move { accesses: u64 },
}

/// Whether the main log can accept an item without dropping one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MainLog {
    HasSpace,
    IsFull,
}

/// Maximum number of moves during one append; afterwards items are dropped even if they were
/// accessed.
pub(super) const MOST_MOVES: u32 = 64;

/// Number of accesses at which an item of the small log moves to the main log.
const PROMOTED: u64 = 2;

/// Decides about the oldest item under S3-FIFO. While the main log has free space, it accepts all
/// items that are pushed out of the small log.
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

/// State of an entry that may be replaced when a bucket needs a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) ring: Ring,
    /// Whether the entry leads to an item.
    pub(super) is_held: bool,
    pub(super) accesses: u64,
    pub(super) age: u64,
}

/// Returns the priority for replacing a slot; the greatest is replaced. Entries that lead to no
/// item come first, oldest first, with ghosts after others. Then come the entries with the fewest
/// accesses, oldest first.
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

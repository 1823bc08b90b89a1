//! Eviction policy of a cache: pure decisions.
//!
//! S3-FIFO (Yang et al., SOSP 2023) on circular logs: new items are appended to a small log, a
//! tenth of the memory. Items accessed at least twice in it move to the main log. Others leave a
//! ghost, an entry in the index that leads to no item, by which an early return of the key is
//! recognised. Items accessed in the main log go around once more per access, up to three times.

/// Order in which a cache evicts items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheEviction {
    /// The oldest item first, however often it is accessed.
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
pub(super) enum LogRole {
    /// The only log, or in S3-FIFO the small log for new items.
    First,
    /// The log of S3-FIFO for items that were accessed.
    Main,
}

/// Decision about the oldest item of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EvictionDecision {
    /// Drop the item and do not append it again.
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
pub(super) fn decide_eviction(ring: LogRole, accesses: u64, moves: u32, main: MainLog) -> EvictionDecision {
    match ring {
        LogRole::First if main == MainLog::HasSpace => EvictionDecision::Move { accesses: 0 },
        _ if moves >= MOST_MOVES => EvictionDecision::Drop,
        LogRole::First if accesses >= PROMOTED => EvictionDecision::Move { accesses: 0 },
        LogRole::Main if accesses > 0 => EvictionDecision::Move {
            accesses: accesses - 1,
        },
        LogRole::First | LogRole::Main => EvictionDecision::Drop,
    }
}

/// State of an entry that may be replaced when a bucket needs a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplacementCandidate {
    pub(super) ring: LogRole,
    /// Whether the entry leads to an item.
    pub(super) leads_to_item: bool,
    pub(super) accesses: u64,
    pub(super) age: u64,
}

/// Returns the priority for replacing a slot; the greatest is replaced. Entries that lead to no
/// item come first, oldest first, with ghosts after others. Then come the entries with the fewest
/// accesses, oldest first.
pub(super) fn replacement_priority(candidate: ReplacementCandidate) -> u64 {
    debug_assert!(candidate.age < 1 << 48 && candidate.accesses <= 3);
    match candidate {
        ReplacementCandidate {
            leads_to_item: false,
            ring: LogRole::Main,
            age,
            ..
        } => 3 << 60 | age,
        ReplacementCandidate {
            leads_to_item: false,
            ring: LogRole::First,
            age,
            ..
        } => 2 << 60 | age,
        ReplacementCandidate { accesses, age, .. } => (3 - accesses) << 56 | age,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s3_fifo_moves_what_was_asked_for_and_ends() {
        let moves = |ring, accesses| decide_eviction(ring, accesses, 0, MainLog::IsFull);
        assert_eq!(moves(LogRole::First, 0), EvictionDecision::Drop);
        assert_eq!(moves(LogRole::First, 1), EvictionDecision::Drop);
        assert_eq!(moves(LogRole::First, 2), EvictionDecision::Move { accesses: 0 });
        assert_eq!(moves(LogRole::Main, 0), EvictionDecision::Drop);
        assert_eq!(moves(LogRole::Main, 3), EvictionDecision::Move { accesses: 2 });
        assert_eq!(
            decide_eviction(LogRole::Main, 3, MOST_MOVES, MainLog::IsFull),
            EvictionDecision::Drop
        );
        assert_eq!(
            decide_eviction(LogRole::First, 0, 0, MainLog::HasSpace),
            EvictionDecision::Move { accesses: 0 }
        );
        assert_eq!(
            decide_eviction(LogRole::Main, 0, 0, MainLog::HasSpace),
            EvictionDecision::Drop
        );
    }

    #[test]
    fn slots_are_taken_from_what_leads_nowhere_then_from_the_least_used_then_from_the_oldest() {
        let entry = |ring, is_held, accesses, age| ReplacementCandidate {
            ring,
            leads_to_item: is_held,
            accesses,
            age,
        };
        let order = [
            entry(LogRole::First, true, 3, 9),
            entry(LogRole::Main, true, 1, 10),
            entry(LogRole::First, true, 1, 11),
            entry(LogRole::First, true, 0, 4),
            entry(LogRole::Main, true, 0, 5),
            entry(LogRole::First, false, 0, 1 << 20),
            entry(LogRole::First, false, 0, 1 << 21),
            entry(LogRole::Main, false, 0, 1 << 19),
        ];
        assert!(order.is_sorted_by_key(|&candidate| replacement_priority(candidate)));
    }
}

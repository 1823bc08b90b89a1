//! The eviction policy of a cache, as functions without side effects.
//!
//! S3-FIFO (Yang et al., SOSP 2023) on circular logs. New items go to a small log, which has a
//! tenth of the memory. An item that is accessed at least twice in the small log moves to the main
//! log. Any other item is dropped and leaves a ghost, which is an index entry without an item, so
//! that a key that returns soon is recognised. An item in the main log that has been accessed is
//! appended again instead of being dropped, once for each access and at most three times.

/// Order in which a cache evicts items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheEviction {
    /// Evicts the oldest item first, however often it was accessed.
    Fifo,
    /// Evicts the least recently accessed item first. Every access copies the item to the tail of
    /// the log.
    Lru,
    /// Approximates LRU: an access copies the item to the tail only if it is closer to the head
    /// than to the tail.
    ApproximateLru,
    /// Evicts items that were accessed only once before all others. An access increments a counter
    /// and copies nothing.
    #[default]
    S3Fifo,
}

/// Identifies one of the logs of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogRole {
    /// The only log or, for S3-FIFO, the small log for new items.
    First,
    /// For S3-FIFO, the log for items that were accessed repeatedly.
    Main,
}

/// What to do with the oldest item of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EvictionDecision {
    /// Drop the item.
    Drop,
    /// Move the item to the tail of the main log and set its access count to `accesses`.
    Move { accesses: u64 },
}

/// Whether the main log has space for an item, or must drop another one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MainLog {
    HasSpace,
    IsFull,
}

/// Maximum number of items that an append may move. After that, items are dropped even if they were
/// accessed.
pub(super) const MOST_MOVES: u32 = 64;

/// Minimum number of accesses for an item in the small log to move to the main log.
const PROMOTED: u64 = 2;

/// Decides what S3-FIFO does with the oldest item in a log. As long as the main log has free space,
/// every item that leaves the small log moves there.
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

/// What matters about an entry that may be replaced because its bucket needs a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplacementCandidate {
    pub(super) ring: LogRole,
    /// Whether the entry's item is still in its log.
    pub(super) leads_to_item: bool,
    pub(super) accesses: u64,
    pub(super) age: u64,
}

/// Returns the priority for replacing an entry, of which the greatest is replaced first. Entries
/// without an item come first: those of the main log, and then ghosts, each from oldest to newest.
/// The other entries follow in the order of their access counts, and those with equal counts from
/// oldest to newest.
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

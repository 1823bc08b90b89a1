//! The queue of waiting lock requests, and deadlock detection.

use super::segments::LockSegments;
use super::{LockOwner, RangeLockMode};
use crate::locking::fault::{IsolationFault, is_planted};
use crate::locking::ranges::InlineKey;
use alluvium_dictionary::range::KeyRange;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

/// The number of an owner that holds no locks and makes no requests. Owners are numbered from 1.
const NOBODY: u64 = 0;

/// A lock request that must wait.
#[derive(Debug)]
struct LockRequest {
    owner: LockOwner,
    low: InlineKey,
    high: Option<InlineKey>,
    mode: RangeLockMode,
}

impl LockRequest {
    fn overlaps(&self, other: &LockRequest) -> bool {
        self.touches(&other.low, other.high.as_ref())
    }

    /// Returns whether the request overlaps the range from `low` to `high`.
    fn touches(&self, low: &InlineKey, high: Option<&InlineKey>) -> bool {
        high.is_none_or(|high| self.low < *high) && self.high.as_ref().is_none_or(|end| low < end)
    }
}

/// A granted request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldLock {
    pub(crate) low: InlineKey,
    pub(crate) high: Option<InlineKey>,
    pub(crate) mode: RangeLockMode,
}

/// The final result of a request that had to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LockOutcome {
    Granted,
    /// The owner was chosen as the victim of this deadlock cycle.
    Refused(Vec<(u64, Vec<u8>)>),
    /// The owner has released its locks.
    OwnerEnded,
}

/// The immediate result of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LockAnswer {
    Granted,
    /// The request has this ticket. It is in the queue, or was rejected immediately to break a
    /// deadlock.
    Waits(u64),
}

/// The held locks and the requests waiting for locks.
#[derive(Debug, Default)]
pub(super) struct LockState {
    segments: LockSegments,
    /// The locks of each owner. Each granted request is one entry.
    held: HashMap<u64, Vec<HeldLock>>,
    /// The waiting requests by ticket number. Later requests have higher ticket numbers.
    queue: BTreeMap<u64, LockRequest>,
    outcomes: HashMap<u64, LockOutcome>,
    /// Tickets of requests that were granted or rejected, but whose owners have not been woken.
    decided: Vec<u64>,
    next: u64,
    /// Number of times that any owner has released its locks.
    released: u64,
}

impl LockState {
    /// Grants a request immediately if possible, and otherwise adds it to the queue.
    pub(super) fn ask(
        &mut self,
        owner: LockOwner,
        low: &[u8],
        high: Option<&[u8]>,
        mode: RangeLockMode,
    ) -> LockAnswer {
        if self.segments.covers(owner.number(), low, high, mode) {
            return LockAnswer::Granted;
        }
        let waiter = LockRequest {
            owner,
            low: InlineKey::from_slice(low),
            high: high.map(InlineKey::from_slice),
            mode,
        };
        let ticket = self.next;
        self.next += 1;
        if self.blockers(ticket, &waiter).is_empty() {
            self.grant(&waiter);
            return LockAnswer::Granted;
        }
        self.queue.insert(ticket, waiter);
        self.break_cycles(owner.number());
        LockAnswer::Waits(ticket)
    }

    /// Grants a request if that is possible immediately, and returns whether it is granted. A
    /// request that is not granted does not enter the queue.
    pub(super) fn try_ask(
        &mut self,
        owner: LockOwner,
        low: &[u8],
        high: Option<&[u8]>,
        mode: RangeLockMode,
    ) -> bool {
        if self.segments.covers(owner.number(), low, high, mode) {
            return true;
        }
        let request = LockRequest {
            owner,
            low: InlineKey::from_slice(low),
            high: high.map(InlineKey::from_slice),
            mode,
        };
        let is_free = self.blockers(self.next, &request).is_empty();
        if is_free {
            self.grant(&request);
        }
        is_free
    }

    /// Returns whether an owner without locks would have to wait for the exclusive lock on a range.
    pub(super) fn is_locked(&self, low: &[u8], high: Option<&[u8]>) -> bool {
        let request = LockRequest {
            owner: LockOwner::Commit(NOBODY),
            low: InlineKey::from_slice(low),
            high: high.map(InlineKey::from_slice),
            mode: RangeLockMode::Exclusive,
        };
        !self.blockers(self.next, &request).is_empty()
    }

    fn grant(&mut self, waiter: &LockRequest) {
        let owner = waiter.owner.number();
        self.segments
            .add(owner, &waiter.low, waiter.high.as_deref(), waiter.mode);
        self.held.entry(owner).or_default().push(HeldLock {
            low: waiter.low.clone(),
            high: waiter.high.clone(),
            mode: waiter.mode,
        });
    }

    /// Returns the owners that a request must wait for: the holders of conflicting locks, and the
    /// owners of earlier conflicting requests. Skips an earlier request that itself waits for this
    /// request's owner.
    fn blockers(&self, ticket: u64, waiter: &LockRequest) -> Vec<u64> {
        let owner = waiter.owner.number();
        let (low, high) = (&waiter.low[..], waiter.high.as_deref());
        let mut blockers = self.segments.excluded(owner, low, high, waiter.mode);
        if is_planted(IsolationFault::UpgradesIgnoreReaders)
            && self.segments.covers(owner, low, high, RangeLockMode::Shared)
        {
            blockers.clear();
        }
        for earlier in self.queue.range(..ticket).map(|(_, earlier)| earlier) {
            let number = earlier.owner.number();
            if number == owner || blockers.contains(&number) {
                continue;
            }
            let is_first = earlier.mode.excludes(waiter.mode) && earlier.overlaps(waiter);
            let (low, high) = (&earlier.low[..], earlier.high.as_deref());
            if is_first && !self.segments.holds_against(owner, low, high, earlier.mode) {
                blockers.push(number);
            }
        }
        blockers
    }

    /// Grants waiting requests in FIFO order, after an owner has released locks or withdrawn
    /// requests on the ranges `freed` (L3). Returns whether any request was granted.
    ///
    /// A request that does not overlap `freed` remains blocked, with one exception: if an owner was
    /// just granted a lock, its other requests may now overtake earlier requests that wait for this
    /// owner.
    fn advance(&mut self, freed: &[(InlineKey, Option<InlineKey>)]) -> bool {
        let tickets: Vec<u64> = self.queue.keys().copied().collect();
        let mut granted: Vec<u64> = Vec::new();
        for ticket in tickets {
            let waiter = &self.queue[&ticket];
            let is_affected = freed.iter().any(|(low, high)| waiter.touches(low, high.as_ref()))
                || granted.contains(&waiter.owner.number());
            if is_affected && self.blockers(ticket, waiter).is_empty() {
                let waiter = self.queue.remove(&ticket).expect("it is in the queue");
                self.grant(&waiter);
                self.decide(ticket, LockOutcome::Granted);
                granted.push(waiter.owner.number());
            }
        }
        !granted.is_empty()
    }

    fn decide(&mut self, ticket: u64, outcome: LockOutcome) {
        self.outcomes.insert(ticket, outcome);
        self.decided.push(ticket);
    }

    /// Removes and returns the tickets of requests that were granted or rejected, and whose owners
    /// must be woken.
    pub(super) fn take_decided(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.decided)
    }

    /// Returns whether an owner can be part of a deadlock cycle. This requires a waiting request
    /// that overlaps one of the owner's locks, or more than one request of the owner.
    fn may_be_waited_for(&self, owner: u64) -> bool {
        let held = self.held.get(&owner).map_or(&[][..], Vec::as_slice);
        let mut own_requests = 0;
        self.queue.values().any(|waiter| {
            if waiter.owner.number() == owner {
                own_requests += 1;
                return own_requests > 1;
            }
            held.iter()
                .any(|lock| waiter.touches(&lock.low, lock.high.as_ref()))
        })
    }

    /// Returns an owner's outgoing edges in the wait-for graph: the owners that it waits for, each
    /// with the key that it waits for.
    fn edges(&self, owner: u64) -> Vec<(u64, Vec<u8>)> {
        let mut edges = Vec::new();
        let waits = self
            .queue
            .iter()
            .filter(|(_, waiter)| waiter.owner.number() == owner);
        for (&ticket, waiter) in waits {
            let blockers = self.blockers(ticket, waiter);
            edges.extend(blockers.into_iter().map(|other| (other, waiter.low.to_vec())));
        }
        edges
    }

    /// Rejects requests until no cycle in the wait-for graph contains `owner` (L4).
    fn break_cycles(&mut self, owner: u64) {
        if !self.may_be_waited_for(owner) {
            return;
        }
        while let Some(circle) = self.circle(owner) {
            let of = |number: &u64| {
                let mut waiters = self.queue.iter();
                waiters.find(|(_, waiter)| waiter.owner.number() == *number)
            };
            let waiting = circle.iter().filter_map(|(number, _)| of(number));
            let victim = waiting.max_by_key(|(_, waiter)| {
                let starts_over = matches!(waiter.owner, LockOwner::Commit(_));
                (starts_over, waiter.owner.number())
            });
            let Some((&ticket, _)) = victim else { return };
            let refused = self.queue.remove(&ticket).expect("it is in the queue");
            self.decide(ticket, LockOutcome::Refused(circle));
            self.advance(&[(refused.low, refused.high)]);
        }
    }

    /// Returns a cycle in the wait-for graph that contains `owner`, if there is one.
    fn circle(&self, owner: u64) -> Option<Vec<(u64, Vec<u8>)>> {
        // For each owner reached from `owner`, its predecessor on the path.
        let mut from: HashMap<u64, (u64, Vec<u8>)> = HashMap::new();
        let mut open = vec![owner];
        while let Some(next) = open.pop() {
            for (other, key) in self.edges(next) {
                if other == owner {
                    let mut circle = vec![(next, key)];
                    let mut at = next;
                    while at != owner {
                        let (before, key) = from[&at].clone();
                        circle.push((before, key));
                        at = before;
                    }
                    circle.reverse();
                    return Some(circle);
                }
                if let Entry::Vacant(way) = from.entry(other) {
                    way.insert((next, key));
                    open.push(other);
                }
            }
        }
        None
    }

    /// Removes and returns the result of a request. Returns `None` if it has been neither granted
    /// nor rejected.
    pub(super) fn outcome(&mut self, ticket: u64) -> Option<LockOutcome> {
        self.outcomes.remove(&ticket)
    }

    /// Withdraws a request from the queue, and returns the owners that it was waiting for as an
    /// error. If it was granted or rejected in the meantime, returns that result instead.
    pub(super) fn give_up(&mut self, ticket: u64) -> Result<LockOutcome, Vec<u64>> {
        if let Some(outcome) = self.outcome(ticket) {
            return Ok(outcome);
        }
        let waiter = self.queue.get(&ticket).expect("it waits, or has an outcome");
        let blockers = self.blockers(ticket, waiter);
        let given_up = self.queue.remove(&ticket).expect("it waits");
        self.advance(&[(given_up.low, given_up.high)]);
        Err(blockers)
    }

    /// Releases all locks of an owner, and rejects its waiting requests (L5). Returns whether any
    /// waiting request was granted.
    pub(super) fn release(&mut self, owner: u64) -> bool {
        self.released += 1;
        let held = self.held.remove(&owner).unwrap_or_default();
        for lock in &held {
            self.segments.remove(owner, &lock.low, lock.high.as_deref());
        }
        let mut freed: Vec<_> = held.into_iter().map(|lock| (lock.low, lock.high)).collect();
        let waits = self
            .queue
            .extract_if(.., |_, waiter| waiter.owner.number() == owner);
        for (ticket, waiter) in waits.collect::<Vec<_>>() {
            self.decide(ticket, LockOutcome::OwnerEnded);
            freed.push((waiter.low, waiter.high));
        }
        !freed.is_empty() && self.advance(&freed)
    }

    /// Returns how often any owner has released its locks.
    pub(super) fn released(&self) -> u64 {
        self.released
    }

    /// Returns whether no request is waiting.
    pub(super) fn is_calm(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns whether requests are waiting and the owner holds no lock.
    pub(super) fn is_crowded_for(&self, owner: u64) -> bool {
        !self.queue.is_empty() && !self.held.contains_key(&owner)
    }

    pub(super) fn held(&self, owner: u64) -> usize {
        self.held.get(&owner).map_or(0, Vec::len)
    }

    pub(super) fn waits_for(&self, owner: u64) -> Vec<u64> {
        let mut others: Vec<u64> = self.edges(owner).into_iter().map(|(other, _)| other).collect();
        others.sort_unstable();
        others.dedup();
        others
    }

    /// Returns the parts of a range that an owner has locked only for merging.
    pub(super) fn merge_locks(&self, owner: u64, low: &[u8], high: Option<&[u8]>) -> Vec<KeyRange> {
        self.segments.held_as(owner, low, high, RangeLockMode::Merge)
    }

    /// Returns the locks of an owner, ordered by their lower bounds.
    pub(super) fn locks_of(&self, owner: u64) -> Vec<HeldLock> {
        let mut held = self.held.get(&owner).cloned().unwrap_or_default();
        held.sort_by(|one, other| one.low.cmp(&other.low));
        held
    }

    /// Replaces an owner's locks that are inside one of the `joined` locks by that lock. The owner
    /// must hold all of `joined`, which must be disjoint and ordered by their lower bounds.
    pub(super) fn join(&mut self, owner: u64, joined: &[HeldLock]) {
        let Some(held) = self.held.get_mut(&owner) else {
            return;
        };
        held.retain(|lock| {
            let count = joined.partition_point(|range| range.low <= lock.low);
            let before = count.checked_sub(1).and_then(|index| joined.get(index));
            !before.is_some_and(|range| match (&range.high, &lock.high) {
                (None, _) => true,
                (Some(end), Some(high)) => high <= end,
                (Some(_), None) => false,
            })
        });
        held.extend(joined.iter().cloned());
        for range in joined {
            self.segments.merge_within(&range.low, range.high.as_deref());
        }
    }

    #[cfg(all(test, not(alluvium_model_check)))]
    pub(super) fn check(&self) {
        self.segments.check();
        for (&ticket, waiter) in &self.queue {
            assert!(!self.blockers(ticket, waiter).is_empty(), "L3: {waiter:?}");
            assert!(self.circle(waiter.owner.number()).is_none(), "L4: {waiter:?}");
        }
    }

    #[cfg(all(test, not(alluvium_model_check)))]
    pub(super) fn segments(&self) -> usize {
        self.segments.len()
    }
}

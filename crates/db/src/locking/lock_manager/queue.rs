//! The queue of waiting requests, and deadlock detection.

use super::segments::LockSegments;
use super::{LockOwner, RangeLockMode};
use crate::locking::fault::{IsolationFault, is_planted};
use crate::locking::ranges::InlineKey;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

/// A request that cannot be granted yet.
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

    /// Returns whether the request overlaps a range.
    fn touches(&self, low: &InlineKey, high: Option<&InlineKey>) -> bool {
        high.is_none_or(|high| self.low < *high) && self.high.as_ref().is_none_or(|end| low < end)
    }
}

/// Result of a request that has waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LockOutcome {
    Granted,
    /// The owner was chosen as the victim of this cycle.
    Refused(Vec<(u64, Vec<u8>)>),
}

/// Immediate result of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LockAnswer {
    Granted,
    /// The request waits under this ticket, or was already rejected.
    Waits(u64),
}

/// Held locks and waiting requests.
#[derive(Debug, Default)]
pub(super) struct LockState {
    segments: LockSegments,
    /// Locks of each owner, as requested.
    held: HashMap<u64, Vec<(InlineKey, Option<InlineKey>)>>,
    /// Waiting requests by ticket; tickets ascend.
    queue: BTreeMap<u64, LockRequest>,
    outcomes: HashMap<u64, LockOutcome>,
    /// Tickets of decided requests whose owners must be woken.
    decided: Vec<u64>,
    next: u64,
    /// Number of times that an owner has released its locks.
    released: u64,
}

impl LockState {
    /// Grants a request or enqueues it.
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

    fn grant(&mut self, waiter: &LockRequest) {
        let owner = waiter.owner.number();
        self.segments
            .add(owner, &waiter.low, waiter.high.as_deref(), waiter.mode);
        let interval = (waiter.low.clone(), waiter.high.clone());
        self.held.entry(owner).or_default().push(interval);
    }

    /// Returns the owners that a request waits for: holders that conflict with it, and owners of
    /// earlier conflicting requests that do not wait for its owner themselves.
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

    /// Grants waiting requests in FIFO order, after an owner's locks or requests on `freed` ranges
    /// have gone (L3). Returns whether any was granted.
    ///
    /// Other requests stay blocked, except further requests of an owner that was granted one: they
    /// now overtake earlier requests that wait for this owner.
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

    /// Removes and returns the tickets of decided requests.
    pub(super) fn take_decided(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.decided)
    }

    /// Returns whether an owner can be part of a cycle: a request overlaps a lock of the owner, or
    /// the owner has more than one request.
    fn may_be_waited_for(&self, owner: u64) -> bool {
        let held = self.held.get(&owner).map_or(&[][..], Vec::as_slice);
        let mut own_requests = 0;
        self.queue.values().any(|waiter| {
            if waiter.owner.number() == owner {
                own_requests += 1;
                return own_requests > 1;
            }
            held.iter().any(|(low, high)| waiter.touches(low, high.as_ref()))
        })
    }

    /// Returns the owners that an owner waits for, each with the key that it waits for.
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

    /// Rejects owners until no cycle contains `owner` (L4).
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

    /// Returns a cycle of the wait-for graph that contains `owner`.
    fn circle(&self, owner: u64) -> Option<Vec<(u64, Vec<u8>)>> {
        // Predecessor of each owner reached from `owner`.
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

    /// Removes and returns the result of a request, if it is decided.
    pub(super) fn outcome(&mut self, ticket: u64) -> Option<LockOutcome> {
        self.outcomes.remove(&ticket)
    }

    /// Removes a request from the queue. Returns its blockers, or its result if it was decided in
    /// the meantime.
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

    /// Releases the locks of an owner (L5). Returns whether other requests were granted.
    pub(super) fn release(&mut self, owner: u64) -> bool {
        self.released += 1;
        let held = self.held.remove(&owner).unwrap_or_default();
        for (low, high) in &held {
            self.segments.remove(owner, low, high.as_deref());
        }
        !held.is_empty() && self.advance(&held)
    }

    /// Returns the number of times that an owner has released its locks.
    pub(super) fn released(&self) -> u64 {
        self.released
    }

    /// Returns whether the queue is empty.
    pub(super) fn is_calm(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns whether requests wait and the owner holds no lock.
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

    /// Removes the ranges of an owner that lie within a larger range that it also holds.
    pub(super) fn join(&mut self, owner: u64, low: &[u8], high: Option<&[u8]>) {
        let Some(held) = self.held.get_mut(&owner) else {
            return;
        };
        let lies_within = |(start, end): &(InlineKey, Option<InlineKey>)| {
            let ends = high.is_none_or(|high| end.as_deref().is_some_and(|end| end <= high));
            **start >= *low && ends
        };
        held.retain(|interval| !lies_within(interval));
        held.push((InlineKey::from_slice(low), high.map(InlineKey::from_slice)));
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

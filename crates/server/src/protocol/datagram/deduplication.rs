//! Detects duplicate requests, so that no request is executed twice.
//!
//! The network may duplicate a datagram, and a client retransmits a request whose reply is lost. A
//! set executed a second time could overwrite a later set. For each client, a port therefore
//! remembers the recent request numbers that it has executed, and their outcomes.

use super::format::DatagramOutcome;
use std::collections::HashMap;
use std::collections::VecDeque;

/// Number of request numbers remembered per client. Requests with older numbers are never executed.
pub(super) const KNOWN: u32 = 1024;

/// Maximum number of remembered clients. Beyond it, the client that appeared first is forgotten.
const CLIENTS: usize = 4096;

/// The recent requests of one client.
#[derive(Debug)]
struct RecentRequests {
    /// The highest request number received from the client.
    last: u32,
    /// The outcomes of recent requests, each stored at the request number modulo the array length.
    outcomes: Box<[Option<DatagramOutcome>; KNOWN as usize]>,
}

/// What is known about a request number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestStatus {
    /// The request has not been executed, so the caller must execute it.
    Never,
    /// The request has already been executed, with this outcome.
    Before(DatagramOutcome),
    /// The request number is too old. The request is neither executed nor answered.
    TooOld,
}

/// The recent requests of all clients of one port.
#[derive(Debug, Default)]
pub(super) struct RequestDeduplicator {
    clients: HashMap<u64, RecentRequests>,
    /// The clients in order of first appearance.
    order: VecDeque<u64>,
}

impl RequestDeduplicator {
    /// Returns whether a modifying request has already been executed. Starts to track an unknown
    /// client.
    pub(super) fn look(&mut self, client: u64, sequence: u32) -> RequestStatus {
        let Some(known) = self.clients.get_mut(&client) else {
            self.admit(client, sequence);
            return RequestStatus::Never;
        };
        let ahead = sequence.wrapping_sub(known.last);
        if ahead == 0 || ahead > u32::MAX / 2 {
            let behind = known.last.wrapping_sub(sequence);
            return match known.outcomes[(sequence % KNOWN) as usize] {
                _ if behind >= KNOWN => RequestStatus::TooOld,
                Some(outcome) => RequestStatus::Before(outcome),
                None => RequestStatus::Never,
            };
        }
        // Clear the slots of the skipped request numbers, which may still contain the outcomes of
        // requests that are now too old.
        for step in 1..=ahead.min(KNOWN) {
            let number = known.last.wrapping_add(step);
            known.outcomes[(number % KNOWN) as usize] = None;
        }
        if ahead > KNOWN {
            known.outcomes.fill(None);
        }
        known.last = sequence;
        RequestStatus::Never
    }

    /// Stores the outcome of a request that was executed.
    pub(super) fn note(&mut self, client: u64, sequence: u32, outcome: DatagramOutcome) {
        if let Some(known) = self.clients.get_mut(&client) {
            known.outcomes[(sequence % KNOWN) as usize] = Some(outcome);
        }
    }

    fn admit(&mut self, client: u64, sequence: u32) {
        if self.order.len() >= CLIENTS
            && let Some(first) = self.order.pop_front()
        {
            self.clients.remove(&first);
        }
        self.order.push_back(client);
        let outcomes = Box::new([None; KNOWN as usize]);
        let last = sequence;
        self.clients.insert(client, RecentRequests { last, outcomes });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_executed_once_in_whatever_order_numbers_come() {
        for first in [0, 5, u32::MAX - 600] {
            let mut repeats = RequestDeduplicator::default();
            let mut random = fastrand::Rng::with_seed(u64::from(first));
            let mut numbers: Vec<u32> = (0..3000).map(|step: u32| first.wrapping_add(step)).collect();
            // Swap neighbouring requests, and send each request twice.
            for at in (0..numbers.len() - 1).step_by(2) {
                if random.bool() {
                    numbers.swap(at, at + 1);
                }
            }
            for window in numbers.chunks(100) {
                for &number in window {
                    assert_eq!(repeats.look(7, number), RequestStatus::Never, "{number}");
                    repeats.note(7, number, DatagramOutcome::Missing);
                }
                for &number in window {
                    assert_eq!(
                        repeats.look(7, number),
                        RequestStatus::Before(DatagramOutcome::Missing)
                    );
                }
            }
            assert_eq!(repeats.look(7, first), RequestStatus::TooOld);
            assert_eq!(repeats.look(8, first), RequestStatus::Never, "another client");
        }
    }

    #[test]
    fn clients_are_forgotten_in_the_order_in_which_they_came() {
        let mut repeats = RequestDeduplicator::default();
        for client in 0..=CLIENTS as u64 {
            assert_eq!(repeats.look(client, 1), RequestStatus::Never);
            repeats.note(client, 1, DatagramOutcome::Done);
        }
        assert_eq!(repeats.clients.len(), CLIENTS);
        assert_eq!(repeats.look(1, 1), RequestStatus::Before(DatagramOutcome::Done));
        assert_eq!(repeats.look(0, 1), RequestStatus::Never, "it was forgotten");
    }
}

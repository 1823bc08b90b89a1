//! Groups datagrams into trains, and splits received trains.

use std::net::SocketAddr;
use std::ops::Range;

/// Maximum number of datagrams and bytes in a train, which are Linux's limits since version 4.18.
const MOST: usize = 64;
const MOST_BYTES: usize = 65_000;

/// Datagrams in sending order, and where each train ends.
#[derive(Debug, Default)]
pub(super) struct DatagramTrains {
    order: Vec<usize>,
    ends: Vec<usize>,
}

impl DatagramTrains {
    /// Groups datagrams by length and destination. Datagrams that are empty or have no destination
    /// are left out.
    pub(super) fn couple(&mut self, lengths: &[usize], addresses: &[Option<SocketAddr>]) {
        debug_assert_eq!(lengths.len(), addresses.len());
        self.order.clear();
        self.ends.clear();
        let goes = |&at: &usize| lengths[at] > 0 && addresses[at].is_some();
        self.order.extend((0..lengths.len()).filter(goes));
        // All datagrams of a train must have the same destination and length, except that the last
        // may be shorter. Sort the datagrams by destination, and then by decreasing length.
        self.order
            .sort_by_key(|&at| (addresses[at], std::cmp::Reverse(lengths[at])));
        let (mut first, mut bytes) = (0, 0);
        for at in 0..self.order.len() {
            let (datagram, head) = (self.order[at], self.order[first]);
            let before = self.order[at.saturating_sub(1)];
            let joins = at > first
                && addresses[datagram] == addresses[head]
                && lengths[before] == lengths[head]
                && at - first < MOST
                && bytes + lengths[datagram] <= MOST_BYTES;
            if at > first && !joins {
                self.ends.push(at);
                (first, bytes) = (at, 0);
            }
            bytes += lengths[datagram];
        }
        if !self.order.is_empty() {
            self.ends.push(self.order.len());
        }
    }

    /// Makes every datagram a train of its own.
    pub(super) fn uncouple(&mut self) {
        self.ends.clear();
        self.ends.extend(1..=self.order.len());
    }

    /// Returns the datagrams of each train.
    pub(super) fn all(&self) -> impl Iterator<Item = &[usize]> {
        let mut begin = 0;
        self.ends.iter().map(move |&end| {
            let train = &self.order[begin..end];
            begin = end;
            train
        })
    }
}

/// A received train, and how much of it has been handed out.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceivedTrain {
    pub(super) address: Option<SocketAddr>,
    /// Total size in bytes of the train's datagrams.
    pub(super) bytes: usize,
    /// Size in bytes of each datagram except the last, or 0 if there is only one.
    pub(super) each: usize,
    /// Number of bytes handed out. Initially `None`, so that an empty datagram is handed out once.
    done: Option<usize>,
}

impl ReceivedTrain {
    pub(super) fn new(address: Option<SocketAddr>, bytes: usize, each: usize) -> ReceivedTrain {
        ReceivedTrain {
            address,
            bytes,
            each,
            done: None,
        }
    }

    /// Returns whether the train was handed out entirely.
    pub(super) fn is_done(&self) -> bool {
        self.done.is_some_and(|done| done >= self.bytes)
    }

    /// Returns the range of the next datagram, if any.
    pub(super) fn next(&mut self) -> Option<Range<usize>> {
        if self.is_done() {
            return None;
        }
        let begin = self.done.unwrap_or(0);
        let left = self.bytes - begin;
        let length = if self.each == 0 { left } else { self.each.min(left) };
        self.done = Some(begin + length);
        Some(begin..begin + length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coupled(datagrams: &[(usize, u16)]) -> Vec<Vec<usize>> {
        let lengths: Vec<usize> = datagrams.iter().map(|datagram| datagram.0).collect();
        let to = |port: u16| (port > 0).then(|| SocketAddr::from(([127, 0, 0, 1], port)));
        let addresses: Vec<_> = datagrams.iter().map(|datagram| to(datagram.1)).collect();
        let mut trains = DatagramTrains::default();
        trains.couple(&lengths, &addresses);
        trains.all().map(<[usize]>::to_vec).collect()
    }

    #[test]
    fn equal_lengths_to_one_place_travel_together_and_a_shorter_one_ends_the_train() {
        let found = coupled(&[(8, 1), (8, 2), (5, 1), (8, 1), (3, 1), (0, 1), (8, 0), (3, 1)]);
        assert_eq!(found, [vec![0, 3, 2], vec![4, 7], vec![1]]);
        assert!(coupled(&[]).is_empty());
        assert!(coupled(&[(0, 1)]).is_empty());
    }

    #[test]
    fn a_train_has_bounds() {
        let long = coupled(&[(8000, 1); 20]);
        assert_eq!(long.iter().map(Vec::len).collect::<Vec<_>>(), [8, 8, 4]);
        let many = coupled(&[(10, 1); 130]);
        assert_eq!(many.iter().map(Vec::len).collect::<Vec<_>>(), [64, 64, 2]);
    }

    #[test]
    fn a_train_is_taken_apart_into_what_was_coupled() {
        let parts = |bytes, each| {
            let mut arrived = ReceivedTrain::new(None, bytes, each);
            let part = move || arrived.next().map(|part| (part.start, part.end));
            std::iter::from_fn(part).collect::<Vec<_>>()
        };
        assert_eq!(parts(20, 8), [(0, 8), (8, 16), (16, 20)]);
        assert_eq!(parts(16, 8), [(0, 8), (8, 16)]);
        assert_eq!(parts(20, 0), [(0, 20)], "one that is no train");
        assert_eq!(parts(0, 0), [(0, 0)], "one of no bytes is one");
        assert_eq!(parts(5, 8), [(0, 5)]);
    }
}

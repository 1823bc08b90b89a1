//! A list of range deletes in insertion order.

use alluvium_base::SequenceNumber;

/// Where the two keys of a range delete are stored. The second key follows the first and ends where
/// the next range delete's keys start.
#[derive(Clone, Copy, Debug)]
struct TombstoneEntry {
    at: u32,
    start: u32,
    sequence: SequenceNumber,
}

/// A list of range deletes in insertion order, in only two allocations.
#[derive(Clone, Debug, Default)]
pub struct RangeTombstoneList {
    keys: Vec<u8>,
    entries: Vec<TombstoneEntry>,
}

impl RangeTombstoneList {
    /// Adds a range delete of `start..end`, unless the range is empty.
    ///
    /// # Panics
    /// If the total size of the keys reaches 4 GiB.
    pub fn push(&mut self, start: &[u8], end: &[u8], sequence: SequenceNumber) {
        if start >= end {
            return;
        }
        let number = |number| u32::try_from(number).expect("range deletes with less than 4 GiB of keys");
        self.entries.push(TombstoneEntry {
            at: number(self.keys.len()),
            start: number(start.len()),
            sequence,
        });
        self.keys.extend_from_slice(start);
        self.keys.extend_from_slice(end);
        debug_assert!(
            self.keys(self.entries.len() - 1) == (start, end),
            "what was pushed is read back"
        );
    }

    /// Returns the number of range deletes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the start and end of the range delete with the given number.
    pub(super) fn keys(&self, number: usize) -> (&[u8], &[u8]) {
        let (entry, next) = (&self.entries[number], self.entries.get(number + 1));
        let end = next.map_or(self.keys.len(), |next| next.at as usize);
        debug_assert!(
            entry.at as usize + entry.start as usize <= end,
            "a start within its range's bytes"
        );
        self.keys[entry.at as usize..end].split_at(entry.start as usize)
    }

    /// Returns an iterator over the start, end and sequence number of every range delete, in
    /// insertion order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8], SequenceNumber)> {
        self.entries.iter().enumerate().map(|(number, entry)| {
            let (start, end) = self.keys(number);
            (start, end, entry.sequence)
        })
    }
}

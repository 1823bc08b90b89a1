//! Range deletes as they come, and what readers can tell apart of them.

use alluvium_base::Sequence;
use std::collections::BinaryHeap;

/// Where a delete's two keys are, which lie behind each other.
#[derive(Clone, Copy, Debug)]
struct Entry {
    at: usize,
    start: u32,
    end: u32,
    sequence: Sequence,
}

/// Range deletes in any order, in two pieces of memory however many there are.
#[derive(Clone, Debug, Default)]
pub struct List {
    keys: Vec<u8>,
    entries: Vec<Entry>,
}

impl List {
    /// An empty list with room for so many deletes, whose keys take so many bytes.
    #[must_use]
    pub fn with_room(deletes: usize, bytes: usize) -> List {
        List {
            keys: Vec::with_capacity(bytes),
            entries: Vec::with_capacity(deletes),
        }
    }

    /// Adds a delete of `start..end`. One that ends at or before its start deletes nothing and is left out.
    ///
    /// # Panics
    /// When a key has 4 GiB.
    pub fn push(&mut self, start: &[u8], end: &[u8], sequence: Sequence) {
        if start >= end {
            return;
        }
        let len = |key: &[u8]| u32::try_from(key.len()).expect("a key of less than 4 GiB");
        self.entries.push(Entry {
            at: self.keys.len(),
            start: len(start),
            end: len(end),
            sequence,
        });
        self.keys.extend_from_slice(start);
        self.keys.extend_from_slice(end);
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn parts(&self, entry: &Entry) -> (&[u8], &[u8], Sequence) {
        let (start, end) = (entry.start as usize, entry.end as usize);
        let keys = &self.keys[entry.at..entry.at + start + end];
        let (start, end) = keys.split_at(start);
        (start, end, entry.sequence)
    }

    /// Every delete in the order in which they were added: start, end, sequence number.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8], Sequence)> {
        self.entries.iter().map(|entry| self.parts(entry))
    }

    /// What readers can tell apart who read at one of `places`, which ascend, or above the last of them: of the deletes between two places
    /// only the newest remains for each key. Those above the last place all remain.
    #[must_use]
    pub fn folded(&self, places: &[Sequence]) -> List {
        let mut folded = List::default();
        let mut after = None;
        for &place in places {
            self.fold_into(&mut folded, |sequence| {
                Some(sequence) > after && sequence <= place
            });
            after = Some(place);
        }
        for (start, end, sequence) in self.iter().filter(|delete| Some(delete.2) > after) {
            folded.push(start, end, sequence);
        }
        folded
    }

    /// Adds to a list, for every key, the newest of those deletes that are meant: disjoint ranges, in order.
    fn fold_into(&self, to: &mut List, is_meant: impl Fn(Sequence) -> bool) {
        let mut meant: Vec<_> = self.iter().filter(|delete| is_meant(delete.2)).collect();
        meant.sort();
        let mut ends: Vec<&[u8]> = meant.iter().flat_map(|delete| [delete.0, delete.1]).collect();
        ends.sort();
        ends.dedup();
        let mut coming = meant.into_iter().peekable();
        // What covers the keys from the boundary on, the newest at the top; what has ended is taken away when it is there.
        let mut open: BinaryHeap<(Sequence, &[u8])> = BinaryHeap::new();
        let mut last: Option<(&[u8], &[u8], Sequence)> = None;
        for cell in ends.windows(2) {
            let (from, until) = (cell[0], cell[1]);
            while let Some((_, end, sequence)) = coming.next_if(|delete| delete.0 <= from) {
                open.push((sequence, end));
            }
            while open.peek().is_some_and(|(_, end)| *end <= from) {
                open.pop();
            }
            let Some(&(sequence, _)) = open.peek() else {
                continue;
            };
            match &mut last {
                Some((_, end, before)) if *end == from && *before == sequence => *end = until,
                last => {
                    if let Some((start, end, sequence)) = last.replace((from, until, sequence)) {
                        to.push(start, end, sequence);
                    }
                }
            }
        }
        if let Some((start, end, sequence)) = last {
            to.push(start, end, sequence);
        }
    }

    /// Gives all deletes at or before `place` the number of the oldest of them. For a source that has applied its deletes to its own messages,
    /// above older ones that hold nothing as new as its oldest delete, and of which nobody reads below `place`: all of them delete the same,
    /// and ranges that touch become one.
    pub fn level(&mut self, place: Sequence) {
        let meant = || self.entries.iter().map(|entry| entry.sequence);
        let Some(oldest) = meant().filter(|&sequence| sequence <= place).min() else {
            return;
        };
        for entry in &mut self.entries {
            if entry.sequence <= place {
                entry.sequence = oldest;
            }
        }
    }

    /// Bytes of memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.keys.capacity() + self.entries.capacity() * size_of::<Entry>()
    }
}

//! The changes that imported rows describe, in a reusable buffer.

use std::ops::Range;

/// A change of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowChange<'a> {
    /// Sets the value of a key. If a time to live is given, it is in milliseconds.
    Put(&'a [u8], &'a [u8], Option<u64>),
    Delete(&'a [u8]),
    /// Executes a Redis command, which is given in the wire format of a request.
    Command(&'a [u8]),
}

#[derive(Clone, Debug)]
enum ChangeSpan {
    Put(Range<usize>, Range<usize>, Option<u64>),
    Delete(Range<usize>),
    Command(Range<usize>),
}

/// A list of changes. All keys and values are stored in one shared buffer.
#[derive(Clone, Debug, Default)]
pub struct RowChanges {
    bytes: Vec<u8>,
    list: Vec<ChangeSpan>,
}

impl RowChanges {
    #[must_use]
    pub fn new() -> RowChanges {
        RowChanges::default()
    }

    /// Removes all changes but keeps the allocated memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.list.clear();
    }

    /// Returns the number of changes in the list.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns whether the list contains no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Keeps the first `len` changes and removes the others.
    pub fn truncate(&mut self, len: usize) {
        if let Some(ChangeSpan::Put(first, ..) | ChangeSpan::Delete(first) | ChangeSpan::Command(first)) =
            self.list.get(len)
        {
            self.bytes.truncate(first.start);
            self.list.truncate(len);
        }
    }

    /// Keeps the first `len` changes, and returns the others as a new list.
    #[must_use]
    pub fn split_off(&mut self, len: usize) -> RowChanges {
        let mut rest = RowChanges::new();
        for change in self.iter_from(len) {
            match change {
                RowChange::Put(key, value, ms) => rest.put_for(key, value, ms),
                RowChange::Delete(key) => rest.delete(key),
                RowChange::Command(bytes) => rest.command(bytes),
            }
        }
        self.truncate(len);
        rest
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    /// Appends a change that sets the value of a key.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.put_for(key, value, None);
    }

    /// Appends a change that sets the value of a key, with an optional time to live in
    /// milliseconds.
    pub fn put_for(&mut self, key: &[u8], value: &[u8], ms: Option<u64>) {
        let (key, value) = (self.keep(key), self.keep(value));
        self.list.push(ChangeSpan::Put(key, value, ms));
    }

    /// Appends a change that deletes a key.
    pub fn delete(&mut self, key: &[u8]) {
        let key = self.keep(key);
        self.list.push(ChangeSpan::Delete(key));
    }

    /// Appends the execution of a Redis command, which is given in the wire format of a request.
    pub fn command(&mut self, bytes: &[u8]) {
        let bytes = self.keep(bytes);
        self.list.push(ChangeSpan::Command(bytes));
    }

    /// Returns an iterator over all changes in order.
    pub fn iter(&self) -> impl Iterator<Item = RowChange<'_>> {
        self.iter_from(0)
    }

    /// Returns an iterator over the changes, starting with the one at index `first`.
    pub fn iter_from(&self, first: usize) -> impl Iterator<Item = RowChange<'_>> {
        self.list.iter().skip(first).map(|kept| match kept {
            ChangeSpan::Put(key, value, ms) => {
                RowChange::Put(&self.bytes[key.clone()], &self.bytes[value.clone()], *ms)
            }
            ChangeSpan::Delete(key) => RowChange::Delete(&self.bytes[key.clone()]),
            ChangeSpan::Command(bytes) => RowChange::Command(&self.bytes[bytes.clone()]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_forgotten_or_taken_away() {
        let mut changes = RowChanges::new();
        changes.put(b"a", b"1");
        changes.put_for(b"b", b"2", Some(3));
        changes.delete(b"c");
        let rest = changes.split_off(1);
        let all: Vec<RowChange<'_>> = rest.iter().collect();
        assert_eq!(
            all,
            [RowChange::Put(b"b", b"2", Some(3)), RowChange::Delete(b"c")]
        );
        changes.put(b"d", b"4");
        changes.truncate(1);
        changes.put(b"e", b"5");
        let all: Vec<RowChange<'_>> = changes.iter().collect();
        assert_eq!(
            all,
            [RowChange::Put(b"a", b"1", None), RowChange::Put(b"e", b"5", None)]
        );
        assert_eq!((changes.len(), changes.is_empty()), (2, false));
    }
}

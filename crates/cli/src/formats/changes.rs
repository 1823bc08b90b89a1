//! What a row says, in memory that is used again for the next.

use std::ops::Range;

/// One change of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// The key has this value, for so many milliseconds if that is said.
    Put(&'a [u8], &'a [u8], Option<u64>),
    /// The key has no value.
    Delete(&'a [u8]),
}

#[derive(Clone, Debug)]
enum Kept {
    Put(Range<usize>, Range<usize>, Option<u64>),
    Delete(Range<usize>),
}

/// The changes that a row asks for.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    bytes: Vec<u8>,
    list: Vec<Kept>,
}

impl Changes {
    /// None.
    #[must_use]
    pub fn new() -> Changes {
        Changes::default()
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.list.clear();
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    /// One more: the key has this value.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.put_for(key, value, None);
    }

    /// One more: the key has this value for so many milliseconds.
    pub fn put_for(&mut self, key: &[u8], value: &[u8], ms: Option<u64>) {
        let (key, value) = (self.keep(key), self.keep(value));
        self.list.push(Kept::Put(key, value, ms));
    }

    /// One more: the key has no value.
    pub fn delete(&mut self, key: &[u8]) {
        let key = self.keep(key);
        self.list.push(Kept::Delete(key));
    }

    /// All of them, in their order.
    pub fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        self.list.iter().map(|kept| match kept {
            Kept::Put(key, value, ms) => {
                Change::Put(&self.bytes[key.clone()], &self.bytes[value.clone()], *ms)
            }
            Kept::Delete(key) => Change::Delete(&self.bytes[key.clone()]),
        })
    }
}

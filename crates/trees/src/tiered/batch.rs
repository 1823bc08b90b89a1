//! Records that a scan has decided and nobody has taken yet.

/// Bytes of keys and values after which a batch takes no more.
const ENOUGH: usize = 64 << 10;
/// A value longer than this is moved, not copied, and ends its batch.
const LONG: usize = 16 << 10;

/// Keys with their values, in the order of the scan.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    /// Where each key ends, and its value, which the next key follows.
    ends: Vec<(usize, usize)>,
    /// The last record's value, where that is long.
    long: Option<Vec<u8>>,
    /// How many records are wanted.
    wanted: usize,
    /// The record to be taken next, and where it begins.
    next: usize,
    from: usize,
}

impl Batch {
    /// Forgets everything, but for memory worth keeping.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.long = None;
        (self.next, self.from) = (0, 0);
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// How many were taken.
    pub(super) fn taken(&self) -> usize {
        self.next
    }

    /// Whether there is nothing to be taken.
    pub(super) fn is_over(&self) -> bool {
        self.next == self.ends.len()
    }

    /// So many records are wanted from now on.
    pub(super) fn want(&mut self, records: usize) {
        self.wanted = records;
    }

    /// Whether it takes no more.
    pub(super) fn is_full(&self) -> bool {
        self.len() >= self.wanted || self.bytes.len() >= ENOUGH || self.long.is_some()
    }

    #[inline]
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.push_parts([key, &[]], value);
    }

    /// The same with a key in two parts. A call of its own is a twentieth of a scan's instructions.
    #[inline(always)]
    pub(super) fn push_parts(&mut self, [first, second]: [&[u8]; 2], value: &[u8]) {
        self.bytes.reserve(first.len() + second.len() + value.len());
        self.bytes.extend_from_slice(first);
        self.bytes.extend_from_slice(second);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    /// The same with a value that may be moved away.
    pub(super) fn push_owned(&mut self, key: &[u8], value: &mut Vec<u8>) {
        if value.len() <= LONG {
            self.push(key, value);
        } else {
            self.push(key, &[]);
            self.long = Some(std::mem::take(value));
        }
    }

    /// The key that was pushed last.
    pub(super) fn last_key(&self) -> Option<&[u8]> {
        let &(end, _) = self.ends.last()?;
        let before = self.ends.len().checked_sub(2);
        let start = before.map_or(0, |before| self.ends[before].1);
        Some(&self.bytes[start..end])
    }

    /// The next record.
    #[inline]
    pub(super) fn take(&mut self) -> Option<(&[u8], &[u8])> {
        let &(key_end, end) = self.ends.get(self.next)?;
        let key = &self.bytes[self.from..key_end];
        self.next += 1;
        self.from = end;
        let value = match &self.long {
            Some(long) if self.next == self.ends.len() => long,
            _ => &self.bytes[key_end..end],
        };
        Some((key, value))
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    #[test]
    fn a_batch_gives_back_what_it_was_given() {
        let mut batch = Batch::default();
        for _ in 0..2 {
            batch.clear();
            assert!(batch.is_over() && batch.last_key().is_none());
            batch.push(b"", b"nothing");
            batch.push_owned(b"short", &mut b"value".to_vec());
            assert_eq!(batch.last_key(), Some(&b"short"[..]));
            for (wanted, is_full) in [(2, true), (3, false), (100, false)] {
                batch.want(wanted);
                assert_eq!(batch.is_full(), is_full, "{wanted} records");
            }
            batch.push_owned(b"long", &mut vec![7; LONG + 1]);
            assert!(batch.is_full());
            assert_eq!(batch.take(), Some((&b""[..], &b"nothing"[..])));
            assert_eq!(batch.take(), Some((&b"short"[..], &b"value"[..])));
            assert_eq!(batch.take(), Some((&b"long"[..], &[7; LONG + 1][..])));
            assert!(batch.is_over() && batch.take().is_none());
        }
    }
}

//! The compact header before each item's value in memory.
//!
//! ```text
//!   SIZE    MEANING
//!   1       bits 0–3 length of the number that CAS compares · 4 has flags · 5 has a time
//!           6–7 staleness
//!   0 to 8  the number that CAS compares, without its leading zeros, the lowest byte first
//!   0 or 4  flags, unless they are 0
//!   0 or 4  when memcached last set or touched it, in seconds since 1970
//! ```
//!
//! The header has no expiry time, because the hash table stores it.

const CAS_BYTES: u8 = 15;
const HAS_FLAGS: u8 = 1 << 4;
const HAS_TIME: u8 = 1 << 5;
const STALENESS: u8 = 6;

/// Maximum size of an encoded header in bytes.
pub(super) const MAX_HEAD: usize = 1 + 8 + 4 + 4;

/// The metadata in an item's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CachedItemHeader {
    pub(crate) flags: u32,
    pub(crate) cas: u64,
    pub(crate) touched: u32,
    pub(crate) staleness: u8,
}

fn push(out: &mut Vec<u8>, number: u64, bytes: usize) {
    out.extend((0..bytes).map(|at| (number >> (8 * at)) as u8));
}

fn pull(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, &byte| number << 8 | u64::from(byte))
}

impl CachedItemHeader {
    /// Appends the encoded header to `out`. The caller then appends the value.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        debug_assert!(self.staleness < 4, "two bits say how stale an item is");
        let cas = (u64::BITS - self.cas.leading_zeros()).div_ceil(8) as usize;
        let mut first = cas as u8 | self.staleness << STALENESS;
        if self.flags != 0 {
            first |= HAS_FLAGS;
        }
        if self.touched != 0 {
            first |= HAS_TIME;
        }
        out.push(first);
        push(out, self.cas, cas);
        if self.flags != 0 {
            push(out, u64::from(self.flags), 4);
        }
        if self.touched != 0 {
            push(out, u64::from(self.touched), 4);
        }
    }

    /// Decodes the header at the start of a stored item. Returns the header and its encoded length.
    /// An invalid header is a bug, because no other program writes headers.
    ///
    /// # Panics
    /// Panics if the bytes do not begin with a valid header.
    #[inline]
    pub(crate) fn read(stored: &[u8]) -> (CachedItemHeader, usize) {
        let first = stored[0];
        let mut at = 1;
        let mut take = |bytes: usize| {
            let number = pull(&stored[at..at + bytes]);
            at += bytes;
            number
        };
        let cas = take(usize::from(first & CAS_BYTES));
        let flags = if first & HAS_FLAGS == 0 { 0 } else { take(4) };
        let touched = if first & HAS_TIME == 0 { 0 } else { take(4) };
        let head = CachedItemHeader {
            flags: flags as u32,
            cas,
            touched: touched as u32,
            staleness: first >> STALENESS,
        };
        (head, at)
    }

    /// Returns the encoded length of the header at the start of a stored item.
    #[inline]
    pub(crate) fn length(stored: &[u8]) -> usize {
        let first = stored[0];
        let extras = usize::from(first & HAS_FLAGS != 0) + usize::from(first & HAS_TIME != 0);
        1 + usize::from(first & CAS_BYTES) + 4 * extras
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_comes_back_and_is_no_longer_than_it_needs() {
        let numbers = [0, 1, 255, 256, 1 << 31, u64::MAX];
        for cas in numbers {
            for flags in [0, 1, u32::MAX] {
                for touched in [0, 1_800_000_000] {
                    for staleness in 0..4 {
                        let head = CachedItemHeader {
                            flags,
                            cas,
                            touched,
                            staleness,
                        };
                        let mut stored = Vec::new();
                        head.write(&mut stored);
                        let length = stored.len();
                        assert!(length <= MAX_HEAD);
                        stored.extend_from_slice(b"value");
                        assert_eq!(CachedItemHeader::read(&stored), (head, length));
                        assert_eq!(CachedItemHeader::length(&stored), length);
                    }
                }
            }
        }
        let mut plain = Vec::new();
        CachedItemHeader {
            cas: 300,
            ..CachedItemHeader::default()
        }
        .write(&mut plain);
        assert_eq!(plain, [2, 44, 1]);
    }
}

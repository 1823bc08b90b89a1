//! Offset-value codes: words that encode how a key compares with a smaller key (Conner, 1977; Do
//! and Graefe, *Robust and efficient sorting with offset-value coding*, ACM TODS 2023).
//!
//! A key is padded with zeros and divided into columns of six bytes. Its code is relative to a
//! base, which is a key that precedes it. The code consists of the first column in which the two
//! keys differ and of the key's bytes in that column. Of two keys with codes relative to the same
//! base, the one with the smaller code comes first: it either agrees with the base in more columns,
//! or its first differing column is smaller. The other key's code is then the same relative to the
//! first key. If two codes are equal, the keys agree in that column and in all columns before it,
//! and the later columns must be compared.

use super::MergeDirection;

/// Number of bytes of a key in one column.
const COLUMN: usize = 6;
/// The code of a source that is at its end, which exceeds the code of any key.
pub(super) const ENDED: OffsetValueCode = OffsetValueCode(u64::MAX);
/// The code of a key that agrees with its base in every column. Such keys are equal or differ only
/// in trailing zeros.
pub(super) const EQUAL: OffsetValueCode = OffsetValueCode(0);
/// Number of columns that a code can distinguish. Any later column would be treated as the last of
/// these, but even the longest key has fewer columns.
const COLUMNS: usize = 0xfff0;

const _: () = assert!(COLUMNS * COLUMN > crate::record::MAX_KEY);
const _: () = assert!(
    COLUMNS < 1 << 16 && COLUMN == 6,
    "a code is a column's number and its bytes"
);

/// The result of comparing a key with its base, encoded in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OffsetValueCode(u64);

impl OffsetValueCode {
    /// Returns the code of `key`, which first differs from its base in `column`.
    #[inline(always)]
    fn at(column: usize, key: &[u8], direction: MergeDirection) -> OffsetValueCode {
        let value = word(key, column * COLUMN) >> 16;
        debug_assert!(value < 1 << 48, "a column has six bytes");
        let value = match direction {
            MergeDirection::Forward => value,
            MergeDirection::Backward => value ^ (u64::MAX >> 16),
        };
        // The result always lies strictly between EQUAL and ENDED.
        OffsetValueCode(((COLUMNS - column.min(COLUMNS - 1)) as u64) << 48 | value)
    }

    /// Returns the code of `key` relative to a base that precedes every key.
    pub(super) fn of(key: &[u8], direction: MergeDirection) -> OffsetValueCode {
        OffsetValueCode::at(0, key, direction)
    }

    /// Returns the code of `key` relative to `base`, which must precede or equal it.
    #[inline(always)]
    pub(super) fn relative(base: &[u8], key: &[u8], direction: MergeDirection) -> OffsetValueCode {
        match first_difference(base, key) {
            Some(at) => OffsetValueCode::at(at / COLUMN, key, direction),
            None => EQUAL,
        }
    }

    /// Returns the minimum number of leading bytes that two keys share if both have this code
    /// relative to the same base.
    pub(super) fn agreed(self) -> usize {
        match self {
            EQUAL => 0,
            OffsetValueCode(code) => (COLUMNS - (code >> 48) as usize) * COLUMN,
        }
    }
}

/// Returns the eight bytes of a key that start at `at`, padded with zeros, as an integer that sorts
/// in the same order.
#[inline(always)]
fn word(key: &[u8], at: usize) -> u64 {
    let rest = key.get(at..).unwrap_or(&[]);
    let eight = rest.first_chunk::<8>().copied().unwrap_or_else(|| {
        let mut padded = [0; 8];
        padded[..rest.len()].copy_from_slice(rest);
        padded
    });
    // tidy: allow format: a number to compare by, which never leaves memory
    u64::from_be_bytes(eight)
}

/// Returns the index of the first byte in which two zero-padded keys differ, or `None` if there is
/// no such byte.
#[inline(always)]
fn first_difference(one: &[u8], two: &[u8]) -> Option<usize> {
    let len = one.len().max(two.len());
    let mut at = 0;
    while at < len {
        let differing = word(one, at) ^ word(two, at);
        if differing != 0 {
            return Some(at + differing.leading_zeros() as usize / 8);
        }
        at += 8;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering;

    fn random_key(random: &mut fastrand::Rng) -> Vec<u8> {
        let mut key = b"the same long beginning"[..random.usize(..24)].to_vec();
        key.extend((0..random.usize(..5)).map(|_| [0, 1, 0xff][random.usize(..3)]));
        key
    }

    #[test]
    fn codes_relative_to_one_base_order_like_the_keys_and_are_right_for_the_loser() {
        let mut random = fastrand::Rng::with_seed(2);
        let mut decided = 0;
        for _ in 0..200_000 {
            for direction in [MergeDirection::Forward, MergeDirection::Backward] {
                let mut keys: [Vec<u8>; 3] = std::array::from_fn(|_| random_key(&mut random));
                keys.sort();
                if direction == MergeDirection::Backward {
                    keys.reverse();
                }
                let [base, one, two] = &keys;
                let code = |key: &[u8]| OffsetValueCode::relative(base, key, direction);
                match code(one).cmp(&code(two)) {
                    Ordering::Less => {
                        decided += 1;
                        assert_eq!(
                            OffsetValueCode::relative(one, two, direction),
                            code(two),
                            "{keys:?}"
                        );
                    }
                    Ordering::Equal => {
                        let agreed = code(one).agreed().min(one.len()).min(two.len());
                        assert_eq!(one[..agreed], two[..agreed], "{keys:?}");
                    }
                    Ordering::Greater => panic!("{one:?} comes before {two:?} after {base:?}"),
                }
                assert!(EQUAL <= code(one) && code(two) < ENDED);
                assert!(OffsetValueCode::of(one, direction) <= OffsetValueCode::of(two, direction));
            }
        }
        assert!(decided > 100_000, "{decided} of 400,000 were decided by codes");
    }

    #[test]
    fn the_longest_keys_have_codes() {
        let longest = vec![7; crate::record::MAX_KEY];
        let mut other = longest.clone();
        *other.last_mut().unwrap() = 8;
        let code = OffsetValueCode::relative(&longest, &other, MergeDirection::Forward);
        assert!(EQUAL < code && code < OffsetValueCode::of(&other, MergeDirection::Forward));
    }
}

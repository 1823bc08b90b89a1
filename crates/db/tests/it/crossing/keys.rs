//! Keys and values by number: empty and long ones, some that differ only in their last byte, and
//! some of only 0xff or zero bytes.

use super::ops::{Bytes, KeyNumber};
use super::plan::Operator;

/// Returns the key with this number, truncated to `most` bytes.
pub(crate) fn key(number: KeyNumber, most: usize) -> Vec<u8> {
    let times = usize::from(number / 23);
    let [high, low] = number.to_be_bytes();
    let mut key = match number % 23 {
        _ if number == 0 => Vec::new(),
        1 => [&vec![0xff; times % 20][..], &[low][..]].concat(),
        2 => vec![0xff; times % 40],
        3 => [&[high, low][..], &vec![b'k'; 1000 + 37 * times][..]].concat(),
        // The immediate successor of the previous key.
        5 => [&key(number - 1, most)[..], &[0][..]].concat(),
        6 => vec![0; times % 30],
        _ => {
            let tail = "/tail of a key that is longer";
            let tail = if number.is_multiple_of(2) { tail } else { "" };
            [&[b'a' + (number % 3) as u8, high, low][..], tail.as_bytes()].concat()
        }
    };
    key.truncate(most);
    key
}

/// Returns a value for a keyspace with this merge operator, at most `most` bytes long.
pub(crate) fn value(Bytes(len, fill): Bytes, operator: Operator, most: usize) -> Vec<u8> {
    if operator == Operator::Add {
        return (i64::from(fill) - 100).to_le_bytes().to_vec();
    }
    let len = (len as usize).min(most);
    match fill % 2 {
        0 => vec![fill; len],
        // Incompressible bytes.
        _ => {
            let mut random = fastrand::Rng::with_seed((u64::from(fill) << 32) | len as u64);
            (0..len).map(|_| random.u8(..)).collect()
        }
    }
}

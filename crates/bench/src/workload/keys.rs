//! The keys of records. A key is 24 bytes long: the text `user` and twenty digits. Record numbers
//! are scattered over the key space, so consecutive records are not neighbours in key order.

/// Length of a key in bytes.
pub const KEY_BYTES: usize = 24;

pub type RecordKey = [u8; KEY_BYTES];

/// Scatters numbers by a bijection (the finaliser of SplitMix64), so that no two records have the
/// same key.
#[must_use]
pub fn scatter(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Determines the keys of records. A share of the records has keys in the order of the record
/// numbers, and the keys of all others are scattered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct KeyOrdering {
    /// Percentage of records with sequential keys. A record's number alone determines whether it
    /// has one.
    pub sequential_percent: u8,
}

impl KeyOrdering {
    /// Returns the key of the record with this number.
    #[must_use]
    pub fn of(&self, number: u64) -> RecordKey {
        let scattered = scatter(number);
        if self.sequential_percent > 0 && scatter(scattered) % 100 < u64::from(self.sequential_percent) {
            render(number)
        } else {
            render(scattered)
        }
    }
}

/// The two decimal digits of each number below a hundred.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

fn render(mut number: u64) -> RecordKey {
    let mut key = *b"user00000000000000000000";
    for pair in key[4..].rchunks_exact_mut(2) {
        pair.copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_record_has_a_key_of_its_own_and_they_come_in_no_order() {
        let keys: Vec<RecordKey> = (0..50_000)
            .map(|number| KeyOrdering::default().of(number))
            .collect();
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
        let ascents = keys.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((24_000..26_000).contains(&ascents), "{ascents}");
    }

    #[test]
    fn a_share_of_the_records_is_in_order() {
        for percent in [0, 25, 100] {
            let keys = KeyOrdering {
                sequential_percent: percent,
            };
            let in_order = (0..20_000)
                .filter(|&number| keys.of(number) == render(number))
                .count();
            let expected = 200 * usize::from(percent);
            assert!(in_order.abs_diff(expected) < 300, "{in_order} of {expected}");
        }
    }

    #[test]
    fn a_key_is_written_in_decimal() {
        assert_eq!(&render(1_234_567), b"user00000000000001234567");
        assert_eq!(&render(u64::MAX), b"user18446744073709551615");
    }
}

//! The hash function that maps a key to the 64 bits on which every filter is based.

use alluvium_base::checksum::seeded;

/// Returns the XXH3-64 hash of `key` under the seed of a store.
///
/// Filters see only these hashes and never the keys. A [`crate::Fingerprint`] is the leading part
/// of a hash. The seed should be random for each store, so that clients, who do not know it, cannot
/// choose keys that collide.
///
/// ```
/// use alluvium_filters::hash;
/// assert_eq!(hash(7, b"apple"), hash(7, b"apple"));
/// assert_ne!(hash(7, b"apple"), hash(8, b"apple"));
/// assert_ne!(hash(7, b"apple"), hash(7, b"pear"));
/// ```
#[must_use]
#[inline]
pub fn hash(seed: u64, key: &[u8]) -> u64 {
    seeded(seed, key)
}

#[cfg(test)]
mod tests {
    use super::hash;

    #[test]
    fn the_hash_never_changes_because_filters_on_disk_depend_on_it() {
        assert_eq!(hash(0, b""), 0x2d06_8005_38d3_94c2);
        assert_eq!(hash(1, b"alluvium"), 0x2631_d9f4_22a9_4755);
        assert_eq!(hash(0x9e37_79b9_7f4a_7c15, &[7; 300]), 0x0a00_1714_6060_094d);
    }

    #[test]
    fn every_bit_of_the_hash_is_set_about_half_the_time() {
        let mut ones = [0u32; 64];
        for key in 0u32..4096 {
            let hash = hash(3, &key.to_le_bytes());
            for (bit, ones) in ones.iter_mut().enumerate() {
                *ones += (hash >> bit & 1) as u32;
            }
        }
        assert!(ones.iter().all(|&ones| (1850..2250).contains(&ones)), "{ones:?}");
    }
}

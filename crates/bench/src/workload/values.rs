//! The values of records. A value consists of incompressible bytes and a checksum over these bytes
//! and the key, which detects wrong results.

use twox_hash::XxHash3_64;

/// Minimum length of a value in bytes: a number that distinguishes writes, and the checksum.
pub const LEAST: usize = 16;

/// Maximum length of a value in bytes, which is limited because each thread keeps a value in
/// memory.
pub const MOST: usize = 64 << 20;

const SUM: usize = 8;

/// Generates values and verifies them.
#[derive(Clone, Copy, Debug)]
pub struct ValueGenerator;

impl ValueGenerator {
    /// Generates a value for a key. Different nonces yield different values.
    pub fn fill(value: &mut [u8], key: &[u8], nonce: u64) {
        let Some(body) = value.len().checked_sub(SUM) else {
            return;
        };
        // An xorshift generator (Marsaglia 2003), whose state must never be zero.
        let mut state = nonce.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        for chunk in value[..body].chunks_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
        }
        let sum = sum(&value[..body], key);
        value[body..].copy_from_slice(&sum.to_le_bytes());
    }

    /// Returns whether the value was generated for this key.
    #[must_use]
    pub fn is_of(value: &[u8], key: &[u8]) -> bool {
        value
            .split_last_chunk::<SUM>()
            .is_some_and(|(body, found)| sum(body, key).to_le_bytes() == *found)
    }
}

fn sum(body: &[u8], key: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(key), body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_proves_its_key_and_its_bytes() {
        for len in [16, 100, 1000] {
            let mut value = vec![0; len];
            ValueGenerator::fill(&mut value, b"key", 7);
            assert!(ValueGenerator::is_of(&value, b"key"));
            assert!(!ValueGenerator::is_of(&value, b"other"));
            for at in 0..len {
                value[at] ^= 1;
                assert!(!ValueGenerator::is_of(&value, b"key"), "byte {at} of {len}");
                value[at] ^= 1;
            }
        }
        assert!(!ValueGenerator::is_of(b"", b"key"));
    }

    #[test]
    fn values_of_one_key_differ_and_do_not_repeat_themselves() {
        let (mut one, mut other) = ([0; 100], [0; 100]);
        ValueGenerator::fill(&mut one, b"key", 1);
        ValueGenerator::fill(&mut other, b"key", 2);
        assert_ne!(one, other);
        let words: std::collections::HashSet<&[u8]> = one.chunks_exact(8).collect();
        assert_eq!(words.len(), 12);
    }
}

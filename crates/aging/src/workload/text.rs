//! Random contents of files.

/// The characters of messages and words.
const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 \n";

/// Returns a generator for one part of a workload. Parts with different numbers are independent.
pub(super) fn generator(seed: u64, part: u64) -> fastrand::Rng {
    // The multiplier of SplitMix64 spreads adjacent numbers over all seeds.
    fastrand::Rng::with_seed(seed ^ (part + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Returns random bytes, which cannot be compressed.
pub(super) fn random_bytes(random: &mut fastrand::Rng, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    random.fill(&mut bytes);
    bytes
}

/// Returns random characters.
pub(super) fn random_characters(random: &mut fastrand::Rng, length: usize) -> Vec<u8> {
    let mut bytes = random_bytes(random, length);
    for byte in &mut bytes {
        *byte = LETTERS[usize::from(*byte & 63)];
    }
    bytes
}

/// Returns lines of words from a small vocabulary, as sources have them: Git compresses them.
pub(super) fn random_lines(random: &mut fastrand::Rng, length: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(length + 16);
    while text.len() < length {
        let word = random.u16(..512);
        let word = [word & 31, (word >> 3) & 31, (word >> 4) & 31].map(|at| LETTERS[usize::from(at % 26)]);
        text.extend_from_slice(&word[..2 + usize::from(word[0] & 1)]);
        text.push(if random.u8(..8) == 0 { b'\n' } else { b' ' });
    }
    text.truncate(length);
    text
}

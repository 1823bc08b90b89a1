//! Encoding of a bit stream in bytes, version 1.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0   8·w  bit i of the stream is bit i mod 8, from the lowest, of byte i / 8; zeros fill the
//!               last word of 8 bytes
//!    8·w     8  zeros: a load of 8 bytes at the last bit stays inside
//! ```
//!
//! The lowest bit of a number is written first, so that a little-endian load returns its bits in
//! the right order.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

/// Number of zero bytes after the last word of a stream.
pub const TAIL_BYTES: usize = 8;

/// Loads at least 57 bits of a stream, starting at a bit offset. Bits past the end of `bytes` are
/// zero.
#[inline(always)]
pub fn peek(bytes: &[u8], bit: u64) -> u64 {
    let at = (bit >> 3) as usize;
    let word = match bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        Some(word) => u64::from_le_bytes(*word),
        None => peek_at_the_end(bytes, at),
    };
    word >> (bit & 7)
}

#[cold]
fn peek_at_the_end(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or_default();
    rest.iter()
        .take(8)
        .rev()
        .fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// Returns the number stored in `count` bits, at most 57, starting at a bit offset.
#[inline(always)]
pub fn take(bytes: &[u8], bit: u64, count: u32) -> u64 {
    debug_assert!(count <= 57, "one load brings 57 bits");
    peek(bytes, bit) & ((1 << count) - 1)
}

/// Writer of a bit stream. Each call appends a number of up to 64 bits.
#[derive(Clone, Debug, Default)]
pub struct BitWriter {
    bytes: Vec<u8>,
    /// Bits at the end of the stream that do not fill a word yet.
    bits: u64,
    held: u32,
}

impl BitWriter {
    pub fn new() -> BitWriter {
        BitWriter::default()
    }

    /// Returns the number of bits in the stream.
    #[inline]
    #[must_use]
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64 * 8 + u64::from(self.held)
    }

    /// Returns whether the stream is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the lowest `count` bits of a number, at most 64. All other bits must be zero.
    #[inline]
    pub fn push(&mut self, number: u64, count: u32) {
        assert!(
            count == 64 || number >> count == 0,
            "{number} needs more than {count} bits"
        );
        self.bits |= number.checked_shl(self.held).unwrap_or(0);
        let total = self.held + count;
        if total < 64 {
            self.held = total;
            return;
        }
        self.bytes.extend_from_slice(&self.bits.to_le_bytes());
        self.bits = number.checked_shr(64 - self.held).unwrap_or(0);
        self.held = total - 64;
    }

    /// Appends `count` zeros, followed by a one.
    #[inline]
    pub fn push_unary(&mut self, count: u64) {
        for _ in 0..count / 32 {
            self.push(0, 32);
        }
        let rest = (count % 32) as u32;
        self.push(1 << rest, rest + 1);
    }

    /// Returns the bytes of the stream: complete words, followed by [`TAIL_BYTES`] zeros.
    pub fn finish(mut self) -> Vec<u8> {
        if self.held > 0 {
            self.bytes.extend_from_slice(&self.bits.to_le_bytes());
        }
        self.bytes.extend_from_slice(&[0; TAIL_BYTES]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bytes_of_a_stream_are_these() {
        let mut writer = BitWriter::new();
        writer.push(0b101, 3);
        writer.push(0x1ff, 9);
        writer.push_unary(2);
        assert_eq!(writer.len(), 15);
        let mut expected = vec![0b1111_1101, 0b0100_1111];
        expected.resize(8 + TAIL_BYTES, 0);
        assert_eq!(writer.finish(), expected);
        assert_eq!(BitWriter::new().finish(), [0; TAIL_BYTES]);
    }

    proptest! {
        #[test]
        fn numbers_are_read_back(numbers in proptest::collection::vec((any::<u64>(), 0u32..=57), 0..200), zeros in 0u64..300) {
            let mut writer = BitWriter::new();
            for &(number, count) in &numbers {
                writer.push(number & ((1 << count) - 1), count);
            }
            let before = writer.len();
            writer.push_unary(zeros);
            prop_assert_eq!(writer.len(), before + zeros + 1);
            let bytes = writer.finish();
            let mut at = 0;
            for &(number, count) in &numbers {
                prop_assert_eq!(take(&bytes, at, count), number & ((1 << count) - 1));
                at += u64::from(count);
            }
            let run = (0..).take_while(|skip| take(&bytes, at + skip, 1) == 0).take(400).count();
            prop_assert_eq!(run as u64, zeros);
        }

        #[test]
        fn loads_past_the_end_bring_zeros(bytes in proptest::collection::vec(any::<u8>(), 0..20), bit in 0u64..400) {
            let expected = (0..57).filter(|i| bytes.get(((bit + i) / 8) as usize).is_some_and(|byte| byte >> ((bit + i) % 8) & 1 == 1));
            prop_assert_eq!(take(&bytes, bit, 57), expected.fold(0, |word, i| word | 1 << i));
        }
    }
}

//! Codes for the number of keys that go left at a trie node: Huffman codes for few keys, and the
//! Elias-gamma code for many.

use super::huffman::{MAX_WORD_BITS, PascalRows, lengths};
use super::shape::{MAX_BUCKET_KEYS, MAX_HMAX};
use crate::bits::{BitWriter, peek, take};

/// Maximum length, in bits, of a code word that a table lookup decodes. Longer code words require a
/// search.
const FAST_BITS: u32 = 8;

/// A trie of up to `SMALL` keys and `SMALL_BITS` bits is skipped by a table lookup.
pub(super) const SMALL: u32 = 6;
const SMALL_BITS: u32 = 12;

/// Maximum number of leading zeros in an Elias-gamma code word.
const MAX_ZEROS: u32 = MAX_BUCKET_KEYS.ilog2() + 1;

const _: () = assert!(2 * MAX_ZEROS < 57, "one load has an Elias-gamma code whole");
const _: () = assert!(MAX_HMAX <= 1 << u8::BITS, "a symbol is a byte");

/// The codes for all numbers of keys, which are Huffman codes up to a limit.
///
/// The codes are computed and never stored in an index. They are the same on every machine.
/// Creating them takes milliseconds, so a program should do so only once.
///
/// ```
/// use alluvium_filters::trie::TrieCodes;
/// let codes = TrieCodes::new(64);
/// assert_eq!(codes.bits(1, 2), 1);
/// assert_eq!(codes.bits(0, 64), codes.bits(64, 64), "all left and all right share a word");
/// ```
///
/// # Panics
/// If `hmax` is greater than [`MAX_HMAX`].
#[derive(Clone, Debug)]
pub struct TrieCodes {
    hmax: u32,
    tables: Vec<CodeTable>,
    /// Decoding table. For each number of keys and each value of the next [`FAST_BITS`] bits, it
    /// has the symbol and the length of the code word that these bits start with. The length is 0
    /// if the code word is longer than these bits.
    fast: Vec<(u8, u8)>,
    /// Table for skipping small tries of a dense index. For each number of keys up to [`SMALL`] and
    /// each value of the next [`SMALL_BITS`] bits, it has the length of the trie that these bits
    /// start with. The length is 0 if the trie is longer than these bits.
    small: Vec<u8>,
}

/// The Huffman code for one number of keys.
#[derive(Clone, Debug, Default)]
struct CodeTable {
    /// For each symbol, its code word, whose first bit is the lowest bit, and the code word's
    /// length.
    words: Vec<(u64, u8)>,
    /// The symbols, ordered by their code words.
    symbols: Vec<u8>,
    /// For each code word length, from shortest to longest: the last code word of this length,
    /// padded with ones and with its first bit as the highest bit; the length; and the index of the
    /// code word's symbol.
    last: Vec<(u64, u8, u32)>,
}

impl TrieCodes {
    /// Creates the codes, which are Huffman codes for up to `hmax` keys.
    #[must_use]
    pub fn new(hmax: u32) -> TrieCodes {
        assert!(
            hmax <= MAX_HMAX,
            "Huffman codes for {hmax} keys, {MAX_HMAX} is the most"
        );
        let mut codes = TrieCodes {
            hmax,
            tables: vec![CodeTable::default(); 2],
            fast: vec![(0, 0); 2 << FAST_BITS],
            small: Vec::new(),
        };
        let mut rows = PascalRows::new();
        rows.advance();
        for _ in 2..=hmax {
            rows.advance();
            let table = CodeTable::new(&lengths(&rows.weights()), &mut codes.fast);
            codes.tables.push(table);
        }
        codes.small = codes.small_tries();
        codes
    }

    fn small_tries(&self) -> Vec<u8> {
        let choices = 0..1u64 << SMALL_BITS;
        let tries = (0..=SMALL).flat_map(|keys| choices.clone().map(move |bits| (keys, bits)));
        let whole = |(keys, bits): (u32, u64)| {
            let mut stream = BitWriter::new();
            stream.push(bits, SMALL_BITS);
            self.trie_end(&stream.finish(), 0, keys).unwrap_or(0) as u8
        };
        tries.map(whole).collect()
    }

    /// Returns the bit offset at which a trie ends, or `None` if it does not end within the first
    /// [`SMALL_BITS`] bits. The values of later bits do not matter, because a code word that needs
    /// any of them ends after the limit in any case.
    fn trie_end(&self, stream: &[u8], at: u64, keys: u32) -> Option<u64> {
        if keys < 2 {
            return Some(at);
        }
        let (left, bits) = self.decode(stream, at, keys)?;
        let at = at + u64::from(bits);
        if at > SMALL_BITS.into() {
            return None;
        }
        match left {
            0 => self.trie_end(stream, at, keys),
            _ => self.trie_end(stream, self.trie_end(stream, at, left)?, keys - left),
        }
    }

    /// Returns the length in bits of the next trie of a dense index with at most [`SMALL`] keys, or
    /// 0 if the trie is not in the table.
    #[inline]
    pub(super) fn small_trie(&self, stream: &[u8], at: u64, keys: u32) -> u32 {
        let begin = take(stream, at, SMALL_BITS) as usize;
        let entry = self.small.get((keys as usize) << SMALL_BITS | begin);
        entry.copied().unwrap_or(0).into()
    }

    /// Returns the maximum number of keys with a Huffman code.
    #[must_use]
    pub fn hmax(&self) -> u32 {
        self.hmax
    }

    /// Returns the length in bits of the code word for `left` out of `keys` keys going left. `keys`
    /// must be at least two.
    #[must_use]
    pub fn bits(&self, left: u32, keys: u32) -> u32 {
        let symbol = if left == keys { 0 } else { left };
        match self.tables.get(keys as usize) {
            Some(table) => u32::from(table.words[symbol as usize].1),
            None => 2 * (deviation(symbol, keys) + 1).ilog2() + 1,
        }
    }

    /// Appends the code word for `left` out of `keys` keys going left.
    pub(super) fn encode(&self, out: &mut BitWriter, left: u32, keys: u32) {
        assert!(2 <= keys && left <= keys, "{left} of {keys} keys");
        let symbol = if left == keys { 0 } else { left };
        if let Some(table) = self.tables.get(keys as usize) {
            let (word, bits) = table.words[symbol as usize];
            out.push(word, bits.into());
            return;
        }
        let number = u64::from(deviation(symbol, keys)) + 1;
        let zeros = number.ilog2();
        out.push_unary(zeros.into());
        out.push(number ^ 1 << zeros, zeros);
    }

    /// Decodes a code word at bit offset `at` for a node with `keys` keys, of which there must be
    /// at least two. Returns the number of keys that go left, or 0 if all keys go to the same side,
    /// and the length of the code word in bits. Returns `None` if the code word is invalid.
    #[inline]
    pub(super) fn decode(&self, stream: &[u8], at: u64, keys: u32) -> Option<(u32, u32)> {
        let bits = peek(stream, at);
        let begin = (bits & ((1 << FAST_BITS) - 1)) as usize;
        match self.fast.get((keys as usize) << FAST_BITS | begin) {
            Some(&(symbol, length)) if length != 0 => Some((symbol.into(), length.into())),
            Some(_) => self.tables.get(keys as usize)?.search(bits),
            None => gamma(bits, keys),
        }
    }
}

/// Returns the rank of `left` among the possible numbers in order of decreasing probability: half
/// of the keys, rounded down, has rank 0, followed by one more, one less, two more, two less, and
/// so on.
fn deviation(left: u32, keys: u32) -> u32 {
    let half = keys / 2;
    if left <= half {
        2 * (half - left)
    } else {
        2 * (left - half) - 1
    }
}

/// Decodes an Elias-gamma code word. Returns the number of keys that go left, and the length of the
/// code word in bits.
#[inline]
fn gamma(bits: u64, keys: u32) -> Option<(u32, u32)> {
    let zeros = bits.trailing_zeros();
    if zeros > MAX_ZEROS {
        return None;
    }
    let number = 1 << zeros | (bits >> (zeros + 1) & ((1 << zeros) - 1));
    let (deviation, half) = ((number - 1) as u32, keys / 2);
    let left = if deviation % 2 == 0 {
        half.checked_sub(deviation / 2)?
    } else {
        half + deviation / 2 + 1
    };
    (left < keys).then_some((left, 2 * zeros + 1))
}

impl CodeTable {
    /// Assigns code words to symbols: shorter code words first and, for equal lengths, lower
    /// symbols first.
    fn new(lengths: &[u8], fast: &mut Vec<(u8, u8)>) -> CodeTable {
        let mut symbols: Vec<u8> = (0..=u8::MAX).take(lengths.len()).collect();
        symbols.sort_by_key(|&symbol| (lengths[usize::from(symbol)], symbol));
        let longest = symbols.last().map_or(0, |&symbol| lengths[usize::from(symbol)]);
        assert!(u32::from(longest) <= MAX_WORD_BITS, "a load brings a whole word");
        let mut table = CodeTable {
            words: vec![(0, 0); lengths.len()],
            symbols,
            last: Vec::new(),
        };
        let fast_at = fast.len();
        fast.resize(fast_at + (1 << FAST_BITS), (0, 0));
        let entries = &mut fast[fast_at..];
        // The code word of the next symbol, left-aligned in 64 bits.
        let mut next = 0u64;
        for (index, &symbol) in (0..).zip(&table.symbols) {
            let length = lengths[usize::from(symbol)];
            let word = next.reverse_bits();
            table.words[usize::from(symbol)] = (word, length);
            if u32::from(length) <= FAST_BITS {
                let step = 1 << length;
                let begins = (word as usize..entries.len()).step_by(step);
                begins.for_each(|begin| entries[begin] = (symbol, length));
            }
            let last = next | u64::MAX >> length;
            match table.last.last_mut() {
                Some(entry) if entry.1 == length => *entry = (last, length, index),
                _ => table.last.push((last, length, index)),
            }
            next = last.wrapping_add(1);
        }
        table
    }

    /// Decodes a code word longer than [`FAST_BITS`]. Returns its symbol and its length, or `None`
    /// if it is invalid.
    #[cold]
    fn search(&self, bits: u64) -> Option<(u32, u32)> {
        let bits = bits.reverse_bits();
        let &(last, length, index) = self.last.iter().find(|(last, ..)| bits <= *last)?;
        let behind = (last >> (64 - length)) - (bits >> (64 - length));
        let symbol = self.symbols.get((index as usize).checked_sub(behind as usize)?)?;
        Some(((*symbol).into(), length.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_read_back() {
        for hmax in [1, 2, 16, 64, 256] {
            let codes = TrieCodes::new(hmax);
            for keys in (2..300).chain([1000, 1001, 65_536, MAX_BUCKET_KEYS]) {
                let (low, high) = (0..=keys.min(300), keys - keys.min(300)..=keys);
                let middle = keys / 2 - keys.min(40) / 2..keys / 2 + keys.min(40) / 2;
                for left in low.chain(high).chain(middle) {
                    let mut out = BitWriter::new();
                    out.push(1, 3);
                    codes.encode(&mut out, left, keys);
                    let bits = (out.len() - 3) as u32;
                    assert_eq!(bits, codes.bits(left, keys));
                    out.push(u64::MAX >> 7, 57);
                    let found = codes.decode(&out.finish(), 3, keys);
                    assert_eq!(found, Some((left % keys, bits)), "{left} of {keys}, hmax {hmax}");
                }
            }
        }
    }

    #[test]
    fn the_codes_never_change_because_indexes_do_not_store_them() {
        let codes = TrieCodes::new(MAX_HMAX);
        let words = |keys: u32| -> Vec<String> {
            let words = codes.tables[keys as usize].words.iter();
            let text = |&(word, bits): &(u64, u8)| {
                (0..bits)
                    .map(|bit| char::from(b'0' + (word >> bit & 1) as u8))
                    .collect()
            };
            words.map(text).collect()
        };
        assert_eq!(words(2), ["0", "1"]);
        assert_eq!(words(3), ["10", "11", "0"]);
        assert_eq!(words(5), ["110", "111", "00", "01", "10"]);
        let mut digest = 0u64;
        for table in &codes.tables {
            for &(word, bits) in &table.words {
                digest = (digest ^ word ^ u64::from(bits) << 58).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            }
        }
        assert_eq!(digest, 0x5d9b_9a3f_cf84_7ad0);
    }
}

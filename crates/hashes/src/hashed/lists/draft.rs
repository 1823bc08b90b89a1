//! A page of sketches that is being filled.

use alluvium_filters::golomb::{BitWriter, Delta, Rice};

/// A prefix with what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sketch {
    /// The prefix.
    pub prefix: u64,
    /// What is known of it: a run or a child, and characters; or the rest of a hash.
    pub payload: u64,
}

/// How sketches are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coding {
    /// Bits of a prefix.
    pub prefix_bits: u8,
    /// Bits of a payload.
    pub payload_bits: u8,
    /// The parameter of the code of differences.
    pub parameter: u8,
}

impl Coding {
    pub(super) fn delta(&self, base: u64) -> Delta {
        Delta::new(
            Rice::with_parameter(self.parameter.into(), self.prefix_bits.into()),
            base,
        )
    }
}

/// Sketches after which a search can begin again.
const GROUP: u32 = 64;
/// A difference with more ones than this begins a group instead: it would take more bits.
const MOST_ONES: u64 = 90;

/// A page that is being filled.
#[derive(Debug)]
pub struct Draft {
    pub(super) coding: Coding,
    /// The first prefix of each group, and the bit at which it begins.
    pub(super) groups: Vec<(u64, u32)>,
    pub(super) bits: BitWriter,
    pub(super) entries: u32,
    delta: Delta,
    last: u64,
    in_group: u32,
}

impl Draft {
    /// Begins a page.
    #[must_use]
    pub fn new(coding: Coding) -> Draft {
        Draft {
            coding,
            groups: Vec::new(),
            bits: BitWriter::new(),
            entries: 0,
            delta: coding.delta(0),
            last: 0,
            in_group: 0,
        }
    }

    /// Returns whether it has no sketch.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Returns the first prefix.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        self.groups.first().map(|(prefix, _)| *prefix)
    }

    /// Appends a sketch if the page stays within `page` bytes. Returns whether it did.
    ///
    /// # Panics
    /// When its prefix is less than the one before.
    pub fn push(&mut self, sketch: Sketch, page: usize) -> bool {
        assert!(
            self.is_empty() || sketch.prefix >= self.last,
            "prefixes ascend (L1)"
        );
        let parameter = u32::from(self.coding.parameter);
        let payload_bits = u32::from(self.coding.payload_bits);
        let ones = sketch.prefix.saturating_sub(self.last) >> parameter;
        let begins = self.is_empty() || self.in_group == GROUP || ones > MOST_ONES;
        let groups = self.groups.len() + usize::from(begins);
        let ones = if begins { 0 } else { ones };
        let bits = self.bits.bits() + ones + u64::from(1 + parameter + payload_bits);
        if super::format::sketch_page_bytes(groups, bits) > page {
            return false;
        }
        if begins {
            self.groups.push((sketch.prefix, self.bits.bits() as u32));
            self.delta = self.coding.delta(sketch.prefix);
            self.in_group = 0;
        }
        self.delta.write(&mut self.bits, sketch.prefix);
        self.bits.put(sketch.payload, payload_bits);
        self.last = sketch.prefix;
        self.in_group += 1;
        self.entries += 1;
        true
    }
}

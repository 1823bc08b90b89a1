//! Builds a page of sketches.

use alluvium_filters::golomb::{DeltaCoder, RiceCode, StreamBitWriter};

/// A sketch: a hash prefix and a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PrefixSketch {
    pub prefix: u64,
    /// In a routing filter, the number of a run followed by a check digit of the hash. In a tree
    /// node's list, the number of a child and digits of the hash. In a leaf's list, the remaining
    /// bits of the hash.
    pub payload: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SketchEncoding {
    /// Length of each prefix, in bits.
    pub prefix_bits: u8,
    /// Length of each payload, in bits.
    pub payload_bits: u8,
    /// Parameter of the Rice code for the differences between successive prefixes.
    pub parameter: u8,
}

impl SketchEncoding {
    pub(super) fn delta(&self, base: u64) -> DeltaCoder {
        DeltaCoder::new(
            RiceCode::with_parameter(self.parameter.into(), self.prefix_bits.into()),
            base,
        )
    }
}

/// Maximum number of sketches in a group. Decoding can start at any group.
const GROUP: u32 = 64;
/// Maximum length of the unary part of an encoded difference, in bits. A greater difference starts
/// a new group, because the group's header takes fewer bits.
const MOST_ONES: u64 = 90;

#[derive(Debug)]
pub struct SketchPageBuilder {
    pub(super) coding: SketchEncoding,
    /// The first prefix of each group, and the bit offset at which the group starts.
    pub(super) groups: Vec<(u64, u32)>,
    pub(super) bits: StreamBitWriter,
    pub(super) entries: u32,
    delta: DeltaCoder,
    last: u64,
    in_group: u32,
}

impl SketchPageBuilder {
    #[must_use]
    pub fn new(coding: SketchEncoding) -> SketchPageBuilder {
        SketchPageBuilder {
            coding,
            groups: Vec::new(),
            bits: StreamBitWriter::new(),
            entries: 0,
            delta: coding.delta(0),
            last: 0,
            in_group: 0,
        }
    }

    /// Returns whether the page has no sketches.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Returns the smallest prefix in the page, or `None` if the page is empty.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        self.groups.first().map(|(prefix, _)| *prefix)
    }

    /// Appends a sketch unless the page would exceed `page` bytes. Returns whether it was appended.
    ///
    /// # Panics
    /// If the prefix is less than the previous one.
    pub fn push(&mut self, sketch: PrefixSketch, page: usize) -> bool {
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

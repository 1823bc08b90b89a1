//! What must hold of an index's bytes, each rule checked by itself.

use super::format::{checksums, encode};
use super::index::Index;
use super::sequence::Writer;
use std::fmt;

/// A rule that an index breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The block, if the rule is about one.
    pub block: Option<u64>,
    /// What should be, and what is.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(block) = self.block {
            write!(f, "block {block}: ")?;
        }
        write!(f, "{}", self.what)
    }
}

impl Index<'_> {
    /// Returns every rule that the index breaks; nothing when it is sound: the checksum; first
    /// bins that rise from 0 and exist, one for each block; and that encoding them again gives
    /// the same bytes (B3).
    #[must_use]
    pub fn check(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        let mut add = |block, what| found.push(Violation { block, what });
        if let Some((stored, computed)) = checksums(self.bytes)
            && stored != computed
        {
            add(None, format!("checksum {stored:016x} should be {computed:016x}"));
        }
        let shape = self.shape();
        let mut again = Writer::new(shape.bins_log);
        let (mut last, mut blocks, mut rises) = (0, 0, true);
        for (block, bin) in (0..).zip(self.sequence.numbers()) {
            if bin < last || (block == 0 && bin != 0) || bin >= shape.bins() {
                let bins = shape.bins();
                add(Some(block), format!("first bin {bin} of {bins} after {last}"));
                rises = false;
                break;
            }
            again.push(bin);
            (last, blocks) = (bin, block + 1);
        }
        if rises && blocks != shape.blocks() {
            add(
                None,
                format!("first bins of {blocks} blocks for {}", shape.blocks()),
            );
        } else if rises {
            again.advance(shape.blocks());
            if encode(&self.header, again) != self.bytes {
                add(None, "encoding the same first bins gives other bytes".to_owned());
            }
        }
        if self.objects() > shape.bytes() {
            let (objects, bytes) = (self.objects(), shape.bytes());
            add(None, format!("{objects} objects of {bytes} bytes altogether"));
        }
        found
    }
}

//! Consistency check of a block index's bytes, with a separate check for each rule.

use super::format::encode;
use super::index::BlockIndex;
use super::sequence::SequenceWriter;
use crate::packed::{PackedViolation, wrong_checksum};

impl BlockIndex<'_> {
    /// Returns every violation of the format, or nothing if the index is valid. Checks that the
    /// checksum is correct; that each block has a first bin, and these bins ascend from 0 and are
    /// in range; and that encoding them again produces the same bytes (B3).
    #[must_use]
    pub fn check(&self) -> Vec<PackedViolation> {
        let mut found: Vec<PackedViolation> = wrong_checksum(self.bytes).into_iter().collect();
        let mut add = |block: Option<u64>, what| {
            let part = block.map(|block| ("block", block));
            found.push(PackedViolation { part, what });
        };
        let shape = self.shape();
        let mut again = SequenceWriter::new(shape.bins_log);
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

//! Verifies nodes that were read, and falls back from a damaged copy to the node's own tier. Also
//! assigns reads to batches.

use super::NodeCacheInner;
use super::read::{BatchEntry, NodeBytes, ReadBatchBuilder};
use super::single_flight::SingleFlight;
use crate::{NodePointer, Result};
use alluvium_base::Purpose;
use std::sync::Arc;

/// Returns the batch for a tier, creating it if there is none yet.
pub(super) fn batch_for_tier(issues: &mut Vec<ReadBatchBuilder>, tier: u8) -> &mut ReadBatchBuilder {
    let at = issues.iter().position(|issue| issue.tier == tier);
    let at = at.unwrap_or_else(|| {
        issues.push(ReadBatchBuilder {
            tier,
            reading: Arc::new(SingleFlight::new()),
            entries: Vec::new(),
        });
        issues.len() - 1
    });
    &mut issues[at]
}

impl NodeCacheInner {
    /// Verifies the bytes of a promoted copy, and returns them if they match the pointer.
    /// Otherwise, removes the copy and reads the node from its own tier (C8).
    #[cold]
    pub(super) fn verify_copy<'b>(&self, entry: &mut BatchEntry, brought: NodeBytes<'b>) -> NodeBytes<'b> {
        let pointer = entry.pointer;
        match brought {
            NodeBytes::Shared(bytes) if pointer.verify(bytes).is_ok() => return NodeBytes::Shared(bytes),
            NodeBytes::Own(outcome) => match outcome.into_buffer() {
                Ok(buffer) if pointer.verify(&buffer).is_ok() => return NodeBytes::Copy(buffer),
                _ => {}
            },
            NodeBytes::Shared(_) | NodeBytes::Copy(_) => {}
        }
        self.copies.drop_damaged(entry.hash);
        entry.read = pointer;
        let device = self.device(pointer.tier);
        NodeBytes::Own(self.read_alone(entry, &**device, Purpose::Lookup))
    }

    /// Verifies the encoded bytes of a node. If `offers` is set, the node is also offered for
    /// promotion.
    pub(super) fn verify(&self, pointer: &NodePointer, encoded: &[u8], offers: bool) -> Result<()> {
        pointer.verify(encoded)?;
        if offers {
            self.copies
                .offer(pointer, &encoded[..pointer.encoded_len as usize]);
        }
        Ok(())
    }
}

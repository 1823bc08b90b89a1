//! Verification of reads, with a fallback from a bad copy to the node's own tier; and the
//! assignment of reads to batches.

use super::Shared;
use super::read::{Brought, Entry, Issue};
use super::turn::Turn;
use crate::{NodePointer, Result};
use alluvium_base::Purpose;
use std::sync::Arc;

/// Returns the batch of a tier, creating it if there is none.
pub(super) fn issue_of(issues: &mut Vec<Issue>, tier: u8) -> &mut Issue {
    let at = issues.iter().position(|issue| issue.tier == tier);
    let at = at.unwrap_or_else(|| {
        issues.push(Issue {
            tier,
            reading: Arc::new(Turn::new()),
            entries: Vec::new(),
        });
        issues.len() - 1
    });
    &mut issues[at]
}

impl Shared {
    /// Returns the bytes read from a copy if they match the pointer. Otherwise reads the node from
    /// its own tier (C8).
    #[cold]
    pub(super) fn sound<'b>(&self, entry: &mut Entry, brought: Brought<'b>) -> Brought<'b> {
        let pointer = entry.pointer;
        match brought {
            Brought::Shared(bytes) if pointer.verify(bytes).is_ok() => return Brought::Shared(bytes),
            Brought::Own(outcome) => match outcome.into_buffer() {
                Ok(buffer) if pointer.verify(&buffer).is_ok() => return Brought::Copy(buffer),
                _ => {}
            },
            Brought::Shared(_) | Brought::Copy(_) => {}
        }
        self.copies.refuse(entry.hash);
        entry.read = pointer;
        let device = self.device(pointer.tier);
        Brought::Own(self.read_alone(entry, &**device, Purpose::Lookup))
    }

    /// Verifies the encoded bytes of a node, and offers them for copying if `offers` is set.
    pub(super) fn verify(&self, pointer: &NodePointer, encoded: &[u8], offers: bool) -> Result<()> {
        pointer.verify(encoded)?;
        if offers {
            self.copies
                .offer(pointer, &encoded[..pointer.encoded_len as usize]);
        }
        Ok(())
    }
}

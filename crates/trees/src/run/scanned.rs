//! Counts the jumps of scans in a run. A scan jumps when its next node does not directly follow the
//! previous one on the device.

use super::IndexedRun;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_storage::NodePointer;
use alluvium_storage::extents::UNIT;
use std::sync::atomic::Ordering;

/// Returns whether `node` directly follows `before` on the device, or starts an allocation unit on
/// the same tier. The second case covers the beginning of the next extent, because each of a run's
/// extents is written sequentially.
pub(super) fn lies_behind(node: &NodePointer, before: &NodePointer) -> bool {
    let is_next = before.offset + before.read_len() as u64 == node.offset;
    node.tier == before.tier && (is_next || node.offset.is_multiple_of(UNIT))
}

/// The last leaf and the last separate value that a cursor has read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadPositions {
    leaf: Option<NodePointer>,
    value: Option<NodePointer>,
}

impl ReadPositions {
    /// Records that the cursor reads a leaf, and returns whether this is a jump.
    pub(super) fn pass_leaf(&mut self, leaf: &NodePointer, direction: MergeDirection) -> bool {
        is_jump(self.leaf.replace(*leaf), leaf, direction)
    }

    /// Records that the cursor reads a separate value, and returns whether this is a jump.
    pub(super) fn pass_value(&mut self, value: &NodePointer, direction: MergeDirection) -> bool {
        is_jump(self.value.replace(*value), value, direction)
    }
}

fn is_jump(last: Option<NodePointer>, node: &NodePointer, direction: MergeDirection) -> bool {
    let follows = |last: &NodePointer| match direction {
        MergeDirection::Forward => lies_behind(node, last),
        MergeDirection::Backward => lies_behind(last, node),
    };
    last.is_some_and(|last| last != *node && !follows(&last))
}

impl IndexedRun {
    /// Returns the number of scan jumps since the run was opened or the number was reset.
    pub(crate) fn jumps(&self) -> u64 {
        self.inner.jumps.load(Ordering::Relaxed)
    }

    /// Resets the number of jumps to zero.
    pub(crate) fn forget_jumps(&self) {
        self.inner.jumps.store(0, Ordering::Relaxed);
    }

    /// Increments the number of jumps by scans.
    pub(super) fn note_jump(&self) {
        self.inner.jumps.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_storage::NodeCodec;

    fn node(offset: u64) -> NodePointer {
        NodePointer {
            offset,
            birth: 1,
            checksum: 0,
            encoded_len: 4096,
            tier: 0,
            pages: 1,
            codec: NodeCodec::None,
        }
    }

    #[test]
    fn what_lies_behind_what_was_read_is_no_jump() {
        let jumps = |offsets: &[u64], direction| {
            let mut way = ReadPositions::default();
            let jump = |offset: &&u64| way.pass_leaf(&node(**offset), direction);
            offsets.iter().filter(jump).count()
        };
        let row = [4096, 8192, 8192, 12288];
        assert_eq!(jumps(&row, MergeDirection::Forward), 0);
        assert_eq!(
            jumps(&row, MergeDirection::Backward),
            2,
            "each is before the last"
        );
        assert_eq!(jumps(&[12288, 8192, 4096], MergeDirection::Backward), 0);
        assert_eq!(jumps(&[4096, 12288, 8192], MergeDirection::Forward), 2);
        assert_eq!(
            jumps(&[4096, 5 * UNIT], MergeDirection::Forward),
            0,
            "another extent"
        );
        assert_eq!(jumps(&[5 * UNIT, 4096], MergeDirection::Backward), 0);
        // Leaves and values have separate read positions.
        let mut way = ReadPositions::default();
        let both = [
            way.pass_leaf(&node(4096), MergeDirection::Forward),
            way.pass_value(&node(90 * 4096), MergeDirection::Forward),
            way.pass_leaf(&node(8192), MergeDirection::Forward),
            way.pass_value(&node(91 * 4096), MergeDirection::Forward),
        ];
        assert_eq!(both, [false; 4]);
    }
}

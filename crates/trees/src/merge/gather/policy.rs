//! Decides whether a merge writes separate values again because they are scattered. The decision
//! depends only on where the values lie.

use alluvium_base::{KIB, MIB};
use alluvium_storage::NodePointer;

/// Two nodes are in one stretch if at most this many bytes lie between them, because reading these
/// costs less than another I/O.
/// Tuning: `16 * KIB` since 2026-11-30; the gap that cursors of runs read as well.
const MAX_GAP: u64 = 16 * KIB;

/// The smallest size of a window in bytes.
/// Tuning: `256 * KIB` since 2026-11-30; the largest read that nodes share.
const SMALLEST_WINDOW: u64 = 256 * KIB;

/// The largest size of a window in bytes, because a window is in memory as a whole.
/// Tuning: `2 * MIB` since 2026-11-30; an eighth of the smallest memory of a store.
const LARGEST_WINDOW: u64 = 2 * MIB;

/// Number of transfers of half the bandwidth in a window.
/// Tuning: `8` since 2026-11-30: a seek in a window costs an eighth of its transfer.
const TRANSFERS: u64 = 8;

/// Values are written again if seeks between them cost a reader at least one part in this many of
/// the time that the transfer of the values takes.
/// Tuning: `2` since 2026-11-30: four stretches of a window of the default device stay, which are
/// as many reads as those of a window in one stretch, because a read has at most 256 KiB.
const SHARE: u64 = 2;

/// Returns the number of bytes of values that a merge judges together. `half_bandwidth` is the
/// number of bytes that the device transfers in the latency of one I/O.
pub(super) fn window_bytes(half_bandwidth: u64) -> u64 {
    half_bandwidth
        .saturating_mul(TRANSFERS)
        .clamp(SMALLEST_WINDOW, LARGEST_WINDOW)
}

/// Where the values of a window lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ValueScatter {
    /// Total length of the values in bytes.
    pub(super) bytes: u64,
    /// Number of stretches: places between which a reader has to seek.
    pub(super) stretches: u64,
}

impl ValueScatter {
    /// Returns where values of `bytes` bytes lie whose nodes are `nodes`, in any order.
    pub(super) fn of(nodes: &mut Vec<NodePointer>, bytes: u64) -> ValueScatter {
        nodes.sort_unstable_by_key(|node| (node.tier, node.offset));
        nodes.dedup();
        let mut stretches = 0;
        let mut end: Option<(u8, u64)> = None;
        for node in nodes.iter() {
            let follows = end.is_some_and(|(tier, end)| tier == node.tier && node.offset <= end + MAX_GAP);
            stretches += u64::from(!follows);
            end = Some((node.tier, node.offset + node.read_len() as u64));
        }
        debug_assert!(stretches <= nodes.len() as u64, "a stretch has a node");
        ValueScatter { bytes, stretches }
    }

    /// Returns whether writing the values together is worth its cost.
    pub(super) fn pays(&self, half_bandwidth: u64) -> bool {
        let seeks = self.stretches.saturating_sub(1);
        seeks > 0 && seeks.saturating_mul(half_bandwidth) >= self.bytes / SHARE
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use alluvium_storage::NodeCodec;

    const SSD: u64 = 128 * KIB;

    fn node(tier: u8, page: u64) -> NodePointer {
        NodePointer {
            offset: page * 4096,
            birth: 1,
            checksum: 0,
            encoded_len: 4096,
            tier,
            pages: 1,
            codec: NodeCodec::None,
        }
    }

    fn stretches(nodes: &[NodePointer]) -> u64 {
        ValueScatter::of(&mut nodes.to_vec(), 0).stretches
    }

    #[test]
    fn nodes_behind_each_other_are_one_stretch_in_whatever_order_keys_have_them() {
        assert_eq!(stretches(&[]), 0);
        assert_eq!(stretches(&[node(0, 3), node(0, 1), node(0, 2), node(0, 2)]), 1);
        assert_eq!(stretches(&[node(0, 1), node(0, 6)]), 1, "a gap of 16 KiB");
        assert_eq!(stretches(&[node(0, 1), node(0, 7)]), 2, "a gap of 20 KiB");
        assert_eq!(stretches(&[node(0, 1), node(1, 2)]), 2, "of two tiers");
    }

    #[test]
    fn values_are_written_again_where_seeks_cost_half_of_their_transfer() {
        let pays = |bytes, stretches| ValueScatter { bytes, stretches }.pays(SSD);
        assert!(!pays(MIB, 0) && !pays(MIB, 1) && !pays(0, 1));
        assert!(!pays(MIB, 4) && pays(MIB, 5), "of a window of the default device");
        assert!(pays(8 * KIB, 2), "a seek for two values");
        assert!(!pays(100 * MIB, 400) && pays(100 * MIB, 401));
    }

    #[test]
    fn a_window_has_bounds() {
        assert_eq!([0, SSD, 64 * MIB].map(window_bytes), [256 * KIB, MIB, 2 * MIB]);
    }
}

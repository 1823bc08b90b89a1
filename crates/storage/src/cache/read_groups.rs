//! Groups the nodes of a batch into device reads, so that adjacent nodes of a tier share one
//! request.

use crate::NodePointer;
use std::ops::Range;

/// Maximum size in bytes of a read that several nodes share.
/// Tuning: `256 << 10` since 2026-11-22.
const MAX_SHARED: u64 = 256 << 10;

/// A device read of one node, or of several adjacent nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReadGroup {
    /// The byte range of the read in the tier's data file.
    pub(super) bytes: Range<u64>,
    /// The batch indexes of the nodes in this range, ordered by offset.
    pub(super) nodes: Vec<usize>,
}

/// Groups nodes into device reads. All nodes must be in the same tier.
pub(super) fn grouped<'p>(pointers: impl Iterator<Item = &'p NodePointer>) -> Vec<ReadGroup> {
    let spans = pointers.map(|pointer| pointer.offset..pointer.offset + pointer.read_len() as u64);
    let mut groups: Vec<ReadGroup> = spans
        .enumerate()
        .map(|(node, bytes)| ReadGroup {
            bytes,
            nodes: vec![node],
        })
        .collect();
    if groups.len() < 2 {
        return groups;
    }
    groups.sort_by_key(|group| group.bytes.start);
    let nodes = groups.len();
    let mut joined: Vec<ReadGroup> = Vec::with_capacity(groups.len());
    for group in groups {
        match joined.last_mut() {
            Some(last)
                if last.bytes.end == group.bytes.start
                    && group.bytes.end - last.bytes.start <= MAX_SHARED =>
            {
                last.bytes.end = group.bytes.end;
                last.nodes.extend(group.nodes);
            }
            _ => joined.push(group),
        }
    }
    debug_assert_eq!(
        joined.iter().map(|group| group.nodes.len()).sum::<usize>(),
        nodes,
        "a node is in one request"
    );
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeCodec;

    fn pointer(offset: u64, encoded_len: u32) -> NodePointer {
        NodePointer {
            offset,
            birth: 1,
            checksum: 0,
            encoded_len,
            tier: 0,
            pages: 1,
            codec: NodeCodec::None,
        }
    }

    fn nodes(pointers: &[NodePointer]) -> Vec<Vec<usize>> {
        grouped(pointers.iter())
            .into_iter()
            .map(|group| group.nodes)
            .collect()
    }

    #[test]
    fn neighbours_are_read_together_and_others_are_not() {
        let pointers = [8192, 0, 20480, 4096].map(|offset| pointer(offset, 4096));
        assert_eq!(nodes(&pointers), [vec![1, 3, 0], vec![2]]);
        assert_eq!(grouped(pointers.iter())[0].bytes, 0..12288);
        // The read of an encoded node ends at the end of its last block.
        assert_eq!(nodes(&[pointer(0, 700), pointer(1024, 100)]), [[0, 1]]);
        assert_eq!(nodes(&[pointer(0, 700), pointer(1536, 100)]), [[0], [1]]);
    }

    #[test]
    fn a_shared_read_has_an_end() {
        let pointers: Vec<_> = (0..100).map(|node| pointer(node * 4096, 4096)).collect();
        let lengths: Vec<usize> = nodes(&pointers).iter().map(Vec::len).collect();
        assert_eq!(lengths, [64, 36]);
    }
}

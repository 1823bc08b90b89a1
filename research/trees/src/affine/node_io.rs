//! Reading and writing nodes of the space, one request per node or group of parts.

use super::counters::RequestCause;
use super::error::{Error, Result};
use super::format::{
    IndexPlacement, decode_index, decode_pairs, decode_segment, encode_index, encode_pair, encode_segment,
};
use super::node::{
    BoxedBytes, BufferedChild, ChildLocation, InnerNode, LeafPair, MessageBuffer, NodeBody, NodeIndex,
    NodeLink, NodePart, PivotLocation,
};
use super::space::{NodeSpace, SpaceExtent, SpaceRequest};
use super::tree::AffineTree;
use alluvium_base::checksum::checksum;
use std::sync::Arc;

/// A part of a node that was read: its location and its bytes.
pub(super) struct NodePartBytes {
    pub(super) part: NodePart,
    pub(super) at: u64,
    pub(super) bytes: Vec<u8>,
}

impl<S: NodeSpace> AffineTree<S> {
    pub(super) fn indexes(&self) -> IndexPlacement {
        match self.options.variant.has_pivots_in_parent() {
            true => IndexPlacement::Parent,
            false => IndexPlacement::Front,
        }
    }

    fn read(&self, cause: RequestCause, at: u64, bytes: u64) -> Result<Vec<u8>> {
        if bytes == 0 {
            return Ok(Vec::new());
        }
        self.figures.count(cause, SpaceRequest::Read(bytes));
        self.space.read(at, bytes)
    }

    fn write_extent(&self, cause: RequestCause, bytes: &[u8]) -> Result<SpaceExtent> {
        assert!(u32::try_from(bytes.len()).is_ok(), "a node is shorter than 4 GiB");
        if bytes.is_empty() {
            // A leaf without pairs.
            return Ok(SpaceExtent::default());
        }
        let extent = self.space.allocate(bytes.len() as u64)?;
        self.figures.count(cause, SpaceRequest::Write(bytes.len() as u64));
        self.space.write(extent, bytes)?;
        Ok(extent)
    }

    /// Releases the extent of a node.
    pub(super) fn free(&self, extent: SpaceExtent) {
        if extent.bytes > 0 {
            self.space.release(extent);
        }
    }

    /// Checks that a part matches the checksum in its index.
    fn verify_part(part: &NodePart, at: u64, bytes: &[u8]) -> Result<()> {
        let found = checksum(bytes);
        if found == part.sum {
            return Ok(());
        }
        Err(Error::damaged(at, "the checksum of a part", part.sum, found))
    }

    fn verify_index(
        link: &NodeLink,
        bytes: &[u8],
        sum: u64,
        height: u8,
        indexes: IndexPlacement,
    ) -> Result<NodeIndex> {
        let at = link.extent.at;
        if checksum(bytes) != sum {
            return Err(Error::damaged(
                at,
                "the checksum of an index",
                sum,
                checksum(bytes),
            ));
        }
        let index = decode_index(bytes, indexes, at)?;
        Self::verify_height(link, &index, height)?;
        Ok(index)
    }

    fn verify_height(link: &NodeLink, index: &NodeIndex, height: u8) -> Result<()> {
        if index.height != height {
            let at = link.extent.at;
            return Err(Error::damaged(at, "the height of a node", height, index.height));
        }
        Ok(())
    }

    /// Reads a whole node in one request: its index and its parts.
    pub(super) fn read_whole(
        &self,
        cause: RequestCause,
        link: &NodeLink,
        height: u8,
        indexes: IndexPlacement,
    ) -> Result<(Arc<NodeIndex>, Vec<NodePartBytes>)> {
        let extent = link.extent;
        let bytes = self.read(cause, extent.at, extent.bytes)?;
        let (index, mut rest) = match &link.pivots {
            PivotLocation::Parent(index) => {
                Self::verify_height(link, index, height)?;
                (Arc::clone(index), &bytes[..])
            }
            PivotLocation::Front(len, sum) => {
                let Some((front, rest)) = bytes.split_at_checked(*len as usize) else {
                    return Err(Error::damaged(extent.at, "an index", extent.bytes, len));
                };
                (
                    Arc::new(Self::verify_index(link, front, *sum, height, indexes)?),
                    rest,
                )
            }
        };
        let mut pieces = Vec::with_capacity(index.parts.len());
        let mut at = extent.at + extent.bytes - rest.len() as u64;
        for part in &index.parts {
            let Some((piece, others)) = rest.split_at_checked(part.bytes as usize) else {
                return Err(Error::damaged(
                    at,
                    "a part",
                    format!("{} bytes", part.bytes),
                    rest.len(),
                ));
            };
            Self::verify_part(part, at, piece)?;
            pieces.push(NodePartBytes {
                part: part.clone(),
                at,
                bytes: piece.to_vec(),
            });
            rest = others;
            at += u64::from(part.bytes);
        }
        if !rest.is_empty() {
            return Err(Error::damaged(at, "a node", "without more bytes", rest.len()));
        }
        Ok((index, pieces))
    }

    /// Reads the pivots of a node, at no cost if its parent has them.
    pub(super) fn read_index(&self, link: &NodeLink, height: u8) -> Result<(Arc<NodeIndex>, u64)> {
        match &link.pivots {
            PivotLocation::Parent(index) => {
                Self::verify_height(link, index, height)?;
                Ok((Arc::clone(index), link.extent.at))
            }
            PivotLocation::Front(len, sum) => {
                let front = self.read(RequestCause::Query, link.extent.at, u64::from(*len))?;
                let index = Self::verify_index(link, &front, *sum, height, self.indexes())?;
                Ok((Arc::new(index), link.extent.at + u64::from(*len)))
            }
        }
    }

    /// Reads adjacent parts of a node in one request. `base` is the offset of the node's first
    /// part, after the index.
    pub(super) fn read_parts(
        &self,
        index: &NodeIndex,
        base: u64,
        parts: std::ops::RangeInclusive<usize>,
    ) -> Result<Vec<NodePartBytes>> {
        let (first, last) = (*parts.start(), *parts.end());
        assert!(
            first <= last && last < index.parts.len(),
            "parts are those of the node"
        );
        let mut at = base + index.offset(first);
        let bytes = base + index.offset(last + 1) - at;
        let all = self.read(RequestCause::Query, at, bytes)?;
        let mut rest = &all[..];
        let mut pieces = Vec::with_capacity(last - first + 1);
        for part in &index.parts[parts] {
            let (piece, others) = rest.split_at(part.bytes as usize);
            Self::verify_part(part, at, piece)?;
            pieces.push(NodePartBytes {
                part: part.clone(),
                at,
                bytes: piece.to_vec(),
            });
            rest = others;
            at += u64::from(part.bytes);
        }
        Ok(pieces)
    }

    /// Decodes a segment into a child with its messages.
    pub(super) fn child_of(
        &self,
        piece: &NodePartBytes,
        height: u8,
        indexes: IndexPlacement,
    ) -> Result<BufferedChild> {
        let (index, messages) = decode_segment(&piece.bytes, piece.at)?;
        let ChildLocation {
            extent,
            weight,
            front,
        } = piece
            .part
            .below
            .ok_or_else(|| Error::damaged(piece.at, "a segment", "of a child", "none"))?;
        // The root's own index is in front of it; the variant determines the location of its
        // children's.
        let pivots = match (indexes, front) {
            (IndexPlacement::Front, Some((bytes, sum))) => PivotLocation::Front(bytes, sum),
            _ => PivotLocation::Parent(Arc::new(decode_index(index, indexes, piece.at)?)),
        };
        let link = NodeLink { extent, pivots };
        assert!(height > 0, "a leaf has no children");
        let mut child = BufferedChild::new(piece.part.from.clone(), weight, Some(link), None);
        child.buffer = MessageBuffer::of(messages);
        Ok(child)
    }

    /// Reads a node with all its messages or pairs.
    pub(super) fn load(&self, cause: RequestCause, link: &NodeLink, height: u8) -> Result<NodeBody> {
        let (_, pieces) = self.read_whole(cause, link, height, self.indexes())?;
        if height > 0 {
            return Ok(NodeBody::Inner(self.inner_of(&pieces, height)?));
        }
        let mut pairs: Vec<LeafPair> = Vec::new();
        for piece in &pieces {
            decode_pairs(&piece.bytes, piece.at, &mut pairs)?;
        }
        Ok(NodeBody::Leaf(pairs))
    }

    fn inner_of(&self, pieces: &[NodePartBytes], height: u8) -> Result<InnerNode> {
        let children = pieces
            .iter()
            .map(|piece| self.child_of(piece, height, self.indexes()));
        let children = children.collect::<Result<Vec<BufferedChild>>>()?;
        Ok(InnerNode { height, children })
    }

    /// Reads the root. Its index is in front of it in every variant.
    pub(super) fn load_root(&self, link: &NodeLink, height: u8) -> Result<InnerNode> {
        let (_, pieces) = self.read_whole(RequestCause::Commit, link, height, self.indexes())?;
        self.inner_of(&pieces, height)
    }

    /// Returns the index and the parts of an inner node.
    fn encode(&self, node: &InnerNode) -> (NodeIndex, Vec<u8>) {
        let indexes = self.indexes();
        let mut out = Vec::new();
        let mut parts = Vec::with_capacity(node.children.len());
        for child in &node.children {
            let link = child
                .link
                .as_ref()
                .expect("children are stored before their parent");
            let (index, front) = match &link.pivots {
                PivotLocation::Parent(index) => (encode_index(index, indexes), None),
                PivotLocation::Front(bytes, sum) => (Vec::new(), Some((*bytes, *sum))),
            };
            let start = out.len();
            encode_segment(&mut out, &index, child.buffer.messages());
            let segment = &out[start..];
            parts.push(NodePart {
                from: child.from.clone(),
                bytes: segment.len() as u32,
                sum: checksum(segment),
                below: Some(ChildLocation {
                    extent: link.extent,
                    weight: child.weight,
                    front,
                }),
            });
        }
        let height = node.height;
        (NodeIndex { height, parts }, out)
    }

    /// Writes a node in one request, including its index if the variant stores the index in
    /// front.
    fn write_node(
        &self,
        cause: RequestCause,
        index: NodeIndex,
        parts: &[u8],
        place: IndexPlacement,
    ) -> Result<NodeLink> {
        match place {
            IndexPlacement::Parent => {
                let extent = self.write_extent(cause, parts)?;
                let pivots = PivotLocation::Parent(Arc::new(index));
                Ok(NodeLink { extent, pivots })
            }
            IndexPlacement::Front => {
                let mut bytes = encode_index(&index, self.indexes());
                let pivots = PivotLocation::Front(bytes.len() as u32, checksum(&bytes));
                bytes.extend_from_slice(parts);
                let extent = self.write_extent(cause, &bytes)?;
                Ok(NodeLink { extent, pivots })
            }
        }
    }

    /// Writes an inner node, whose children are already stored.
    pub(super) fn store_inner(&self, cause: RequestCause, node: &InnerNode) -> Result<NodeLink> {
        debug_assert!(
            node.height > 0 && !node.children.is_empty(),
            "a node has children"
        );
        let (index, parts) = self.encode(node);
        self.write_node(cause, index, &parts, self.indexes())
    }

    /// Writes the root, and returns its size in bytes.
    pub(super) fn store_root(&self, node: &InnerNode) -> Result<(NodeLink, u64)> {
        let (index, parts) = self.encode(node);
        let link = self.write_node(RequestCause::Commit, index, &parts, IndexPlacement::Front)?;
        let bytes = link.extent.bytes;
        Ok((link, bytes))
    }

    /// Writes a leaf as sub-blocks that a query can read individually.
    pub(super) fn store_leaf(&self, cause: RequestCause, pairs: &[LeafPair]) -> Result<NodeLink> {
        let limit = self.options.sub_block_bytes().unwrap_or(usize::MAX);
        let (mut parts, mut out, mut start) = (Vec::new(), Vec::new(), 0);
        let mut from = BoxedBytes::default();
        let end = |parts: &mut Vec<NodePart>, from: BoxedBytes, block: &[u8]| {
            parts.push(NodePart {
                from,
                bytes: block.len() as u32,
                sum: checksum(block),
                below: None,
            });
        };
        for pair in pairs {
            if out.len() > start && out.len() - start + pair.bytes() > limit {
                end(
                    &mut parts,
                    std::mem::replace(&mut from, pair.key.clone()),
                    &out[start..],
                );
                start = out.len();
            }
            encode_pair(&mut out, pair);
        }
        end(&mut parts, from, &out[start..]);
        let index = NodeIndex { height: 0, parts };
        self.write_node(cause, index, &out, self.indexes())
    }
}

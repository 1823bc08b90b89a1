//! Node compression with LZ4, Zstd or none.

use super::{NodePointer, PageSize};
use crate::{Error, Result};

/// The codec that encodes a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum NodeCodec {
    /// No compression. The node is read straight into a cache frame.
    #[default]
    None,
    /// LZ4 block compression, which is fast and makes text about half as long.
    Lz4,
    /// Zstd compression at level 1, which is slower than LZ4 but compresses better.
    Zstd,
}

/// Compression level of Zstd, the fastest of the regular levels.
const ZSTD_LEVEL: i32 = 1;

impl NodeCodec {
    /// Returns the codec's number on disk.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            NodeCodec::None => 0,
            NodeCodec::Lz4 => 1,
            NodeCodec::Zstd => 2,
        }
    }

    /// Returns the codec with this number on disk, or `None` if the number is unknown.
    #[must_use]
    pub fn from_number(number: u8) -> Option<NodeCodec> {
        [NodeCodec::None, NodeCodec::Lz4, NodeCodec::Zstd]
            .into_iter()
            .find(|codec| codec.number() == number)
    }

    /// Encodes a node into `out`, which is cleared first, and returns the codec used. If
    /// compression would not save at least one logical block, the codec is [`NodeCodec::None`] and
    /// `out` is empty. To encode many nodes, use a [`NodeEncoder`].
    pub fn encode(self, node: &[u8], out: &mut Vec<u8>) -> NodeCodec {
        NodeEncoder::new(self).encode(node, out)
    }

    /// Decodes a node into `out`, which must be as long as the decoded node. The checksum must
    /// already have been verified.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the bytes cannot be decoded or the decoded length is not the expected
    /// one.
    pub fn decode(pointer: &NodePointer, page_size: PageSize, encoded: &[u8], out: &mut [u8]) -> Result<()> {
        let decoded = page_size.node_bytes(pointer.pages);
        assert_eq!(
            out.len(),
            decoded,
            "a node is decoded into memory of its own length (N2)"
        );
        let bad = |found: String| Error::corrupt(pointer.place(), format!("{decoded} decoded bytes"), found);
        let encoded = encoded
            .get(..pointer.encoded_len as usize)
            .ok_or_else(|| bad(format!("{} encoded bytes", encoded.len())))?;
        let len = match pointer.codec {
            NodeCodec::None if encoded.len() == decoded => {
                out.copy_from_slice(encoded);
                decoded
            }
            NodeCodec::None => return Err(bad(format!("{} bytes, not compressed", encoded.len()))),
            NodeCodec::Lz4 => {
                lz4_flex::block::decompress_into(encoded, out).map_err(|error| bad(error.to_string()))?
            }
            NodeCodec::Zstd => {
                zstd::bulk::decompress_to_buffer(encoded, out).map_err(|error| bad(error.to_string()))?
            }
        };
        if len == decoded {
            Ok(())
        } else {
            Err(bad(format!("{len} bytes")))
        }
    }
}

/// Encodes many nodes with the same working memory. Zstd needs about half a megabyte, and
/// allocating it would be most of the cost of encoding a small node.
///
/// ```
/// use alluvium_storage::NodeCodec;
/// use alluvium_storage::node::codec::NodeEncoder;
/// let (mut encoder, mut out) = (NodeEncoder::new(NodeCodec::Zstd), Vec::new());
/// assert_eq!(encoder.encode(&[7; 4096], &mut out), NodeCodec::Zstd);
/// assert!(out.len() < 100);
/// ```
pub struct NodeEncoder {
    codec: NodeCodec,
    zstd: Option<zstd::bulk::Compressor<'static>>,
}

impl NodeEncoder {
    /// Creates an encoder. Its working memory is allocated on first use.
    #[must_use]
    pub fn new(codec: NodeCodec) -> NodeEncoder {
        NodeEncoder { codec, zstd: None }
    }

    /// Changes the codec for later nodes, keeping the working memory.
    pub fn set_codec(&mut self, codec: NodeCodec) {
        self.codec = codec;
    }

    /// Like [`NodeCodec::encode`], but reuses the working memory.
    pub fn encode(&mut self, node: &[u8], out: &mut Vec<u8>) -> NodeCodec {
        out.clear();
        let room = node.len().saturating_sub(alluvium_device::BLOCK as usize);
        let len = match self.codec {
            NodeCodec::None => None,
            NodeCodec::Lz4 => {
                out.resize(lz4_flex::block::get_maximum_output_size(node.len()), 0);
                lz4_flex::block::compress_into(node, out).ok()
            }
            NodeCodec::Zstd => {
                out.resize(node.len(), 0);
                self.zstd()
                    .and_then(|zstd| zstd.compress_to_buffer(node, &mut out[..]).ok())
            }
        };
        match len {
            Some(len) if len <= room => {
                debug_assert!(self.codec != NodeCodec::None && len < node.len(), "it is shorter");
                out.truncate(len);
                self.codec
            }
            _ => {
                out.clear();
                NodeCodec::None
            }
        }
    }

    /// Returns the Zstd compressor, which owns the working memory, or `None` if the memory cannot
    /// be allocated. Nodes are then not compressed.
    fn zstd(&mut self) -> Option<&mut zstd::bulk::Compressor<'static>> {
        if self.zstd.is_none() {
            self.zstd = zstd::bulk::Compressor::new(ZSTD_LEVEL).ok();
        }
        self.zstd.as_mut()
    }
}

impl std::fmt::Debug for NodeEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeEncoder")
            .field("codec", &self.codec)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_base::checksum;

    fn pointer(codec: NodeCodec, encoded: &[u8], pages: u8) -> NodePointer {
        let encoded_len = encoded.len() as u32;
        NodePointer {
            offset: 0,
            birth: 1,
            checksum: checksum(encoded),
            encoded_len,
            tier: 0,
            pages,
            codec,
        }
    }

    #[test]
    fn every_codec_gives_back_what_it_was_given() {
        let node: Vec<u8> = (0..16384u32).map(|i| (i / 37) as u8).collect();
        for codec in [NodeCodec::Lz4, NodeCodec::Zstd] {
            let mut encoded = Vec::new();
            assert_eq!(codec.encode(&node, &mut encoded), codec);
            let mut out = vec![0; node.len()];
            NodeCodec::decode(&pointer(codec, &encoded, 4), PageSize::MIN, &encoded, &mut out).unwrap();
            assert_eq!(out, node);
        }
    }

    #[test]
    fn what_does_not_shrink_is_not_compressed() {
        let mut random = fastrand::Rng::with_seed(1);
        let node: Vec<u8> = (0..4096).map(|_| random.u8(..)).collect();
        for codec in [NodeCodec::None, NodeCodec::Lz4, NodeCodec::Zstd] {
            let mut encoded = vec![1];
            assert_eq!(codec.encode(&node, &mut encoded), NodeCodec::None);
            assert!(encoded.is_empty());
        }
    }

    #[test]
    fn garbage_is_an_error_and_never_a_panic() {
        let mut random = fastrand::Rng::with_seed(2);
        for _ in 0..2000 {
            let encoded: Vec<u8> = (0..random.usize(1..600)).map(|_| random.u8(..)).collect();
            for codec in [NodeCodec::None, NodeCodec::Lz4, NodeCodec::Zstd] {
                let mut out = vec![0; 4096];
                let _ = NodeCodec::decode(&pointer(codec, &encoded, 1), PageSize::MIN, &encoded, &mut out);
            }
        }
    }
}

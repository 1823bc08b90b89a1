//! The metadata of a tree, which its page file's superblock contains, version 1. All integers are
//! little-endian.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  version, 1
//!      1     1  1: Bε-tree; 2: Bε-tree with a buffer in its root; 3: B⁺-tree;
//!                  64 more where nodes are divided each in its own way, and 128 more where
//!                  under-full nodes are merged
//!      2     2  the longest key
//!      4     2  the longest value
//!      6     2  n: pivots of a node with a buffer
//!      8     2  b: messages of a node with a buffer
//!     10     8  the root's page
//!     18     2  m: bytes of the tree's owner
//!     20        m bytes
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use crate::paged::UnderfullPolicy;
use crate::paged::node::EpsilonMode;
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};

const VERSION: u8 = 1;
const MERGES: u8 = 128;
const ADAPTS: u8 = 64;
/// Maximum number of bytes that the tree's owner may store with it.
pub(super) const MOST_OWN: usize = 512;
const _: () = assert!(MOST_OWN <= u16::MAX as usize, "their number has two bytes");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredTreeKind {
    Beps,
    /// A Bε-tree whose root has a buffer.
    BepsBufferedRoot,
    Bplus,
}

/// The metadata that is needed to open a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TreeMetadata {
    pub(super) sort: StoredTreeKind,
    pub(super) merging: UnderfullPolicy,
    pub(super) epsilon: EpsilonMode,
    pub(super) key_limit: u16,
    pub(super) value_limit: u16,
    pub(super) n: u16,
    pub(super) b: u16,
    pub(super) root: u64,
    pub(super) own: Vec<u8>,
}

impl TreeMetadata {
    pub(super) fn encode(&self) -> Vec<u8> {
        assert!(self.own.len() <= MOST_OWN, "what the owner keeps fits");
        let sort = match self.sort {
            StoredTreeKind::Beps => 1,
            StoredTreeKind::BepsBufferedRoot => 2,
            StoredTreeKind::Bplus => 3,
        };
        let merges = match self.merging {
            UnderfullPolicy::Never => 0,
            UnderfullPolicy::UnderFull => MERGES,
        };
        let adapts = match self.epsilon {
            EpsilonMode::Fixed => 0,
            EpsilonMode::Adaptive => ADAPTS,
        };
        let mut out = Vec::with_capacity(20 + self.own.len());
        let mut writer = ByteWriter::new(&mut out);
        writer
            .u8(VERSION)
            .u8(sort | merges | adapts)
            .u16(self.key_limit)
            .u16(self.value_limit);
        writer.u16(self.n).u16(self.b).u64(self.root);
        writer.u16(self.own.len() as u16).bytes(&self.own);
        out
    }

    /// Decodes metadata. Returns `None` if the bytes are not valid metadata.
    pub(super) fn decode(bytes: &[u8]) -> Option<TreeMetadata> {
        Self::read(bytes).ok().flatten()
    }

    fn read(bytes: &[u8]) -> Result<Option<TreeMetadata>, TruncatedInput> {
        let mut reader = ByteReader::new(bytes);
        let (version, sort) = (reader.u8()?, reader.u8()?);
        let merging = match sort & MERGES {
            0 => UnderfullPolicy::Never,
            _ => UnderfullPolicy::UnderFull,
        };
        let epsilon = match sort & ADAPTS {
            0 => EpsilonMode::Fixed,
            _ => EpsilonMode::Adaptive,
        };
        let sort = match (version, sort & !(MERGES | ADAPTS)) {
            (VERSION, 1) => StoredTreeKind::Beps,
            (VERSION, 2) => StoredTreeKind::BepsBufferedRoot,
            (VERSION, 3) => StoredTreeKind::Bplus,
            _ => return Ok(None),
        };
        let (key_limit, value_limit, n, b) = (reader.u16()?, reader.u16()?, reader.u16()?, reader.u16()?);
        let root = reader.u64()?;
        let len = usize::from(reader.u16()?);
        let own = reader.take(len)?.to_vec();
        let is_whole = reader.remaining() == 0 && len <= MOST_OWN;
        Ok(is_whole.then_some(TreeMetadata {
            sort,
            merging,
            epsilon,
            key_limit,
            value_limit,
            n,
            b,
            root,
            own,
        }))
    }
}

/// Decodes bytes as metadata. Returns 1 if they are valid and 0 otherwise. Valid metadata is
/// encoded again and compared with the input.
pub(in crate::paged) fn reread(bytes: &[u8]) -> usize {
    let meta = TreeMetadata::decode(bytes);
    assert!(
        meta.as_ref().is_none_or(|meta| meta.encode() == bytes),
        "it is written as it was read"
    );
    usize::from(meta.is_some())
}

/// Returns an example of encoded metadata.
pub(in crate::paged) fn example() -> Vec<u8> {
    let meta = TreeMetadata {
        sort: StoredTreeKind::Beps,
        merging: UnderfullPolicy::UnderFull,
        epsilon: EpsilonMode::Adaptive,
        key_limit: 12,
        value_limit: 30,
        n: 5,
        b: 3,
        root: 2,
        own: b"own".to_vec(),
    };
    meta.encode()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta() -> TreeMetadata {
        TreeMetadata {
            sort: StoredTreeKind::BepsBufferedRoot,
            merging: UnderfullPolicy::Never,
            epsilon: EpsilonMode::Fixed,
            key_limit: 8,
            value_limit: 100,
            n: 23,
            b: 126,
            root: 5,
            own: b"cut".to_vec(),
        }
    }

    #[test]
    fn the_bytes_of_version_1_do_not_change() {
        let expected = [
            1, 2, 8, 0, 100, 0, 23, 0, 126, 0, 5, 0, 0, 0, 0, 0, 0, 0, 3, 0, b'c', b'u', b't',
        ];
        assert_eq!(meta().encode(), expected);
        assert_eq!(TreeMetadata::decode(&expected), Some(meta()));
        for (byte, merging, epsilon) in [
            (130, UnderfullPolicy::UnderFull, EpsilonMode::Fixed),
            (66, UnderfullPolicy::Never, EpsilonMode::Adaptive),
            (194, UnderfullPolicy::UnderFull, EpsilonMode::Adaptive),
        ] {
            let mut bytes = expected;
            bytes[1] = byte;
            let meta = TreeMetadata {
                merging,
                epsilon,
                ..meta()
            };
            assert_eq!(meta.encode(), bytes);
            assert_eq!(TreeMetadata::decode(&bytes), Some(meta));
        }
    }

    #[test]
    fn other_bytes_are_none() {
        let bytes = meta().encode();
        for len in 0..bytes.len() {
            assert_eq!(TreeMetadata::decode(&bytes[..len]), None);
        }
        for (at, wrong) in [(0, 2), (1, 0), (1, 4), (1, 132), (18, 2)] {
            let mut bytes = bytes.clone();
            bytes[at] = wrong;
            assert_eq!(TreeMetadata::decode(&bytes), None);
        }
    }
}

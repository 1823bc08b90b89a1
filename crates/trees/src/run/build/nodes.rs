//! Writes the leaves and index nodes of a run.

use crate::run::format::encode_long;
use crate::run::spans::UnitSpans;
use alluvium_dictionary::nodes::DirectNodeReader;
use alluvium_dictionary::value_log::{largest, pages_for};
use alluvium_storage::extents::Extents;
use alluvium_storage::node::{NodeWriter, WriterOptions};
use alluvium_storage::store::Store;
use alluvium_storage::{NodeCache, NodePointer, PageSize, Result, TierFiles};
use std::sync::Arc;

/// The location of a written leaf or index node. A long node consists of several parts and a head,
/// which pointers refer to. Any other node has no parts.
#[derive(Debug)]
pub(in crate::run) struct NodeAddress {
    pub(in crate::run) parts: Vec<NodePointer>,
    pub(in crate::run) head: NodePointer,
}

impl NodeAddress {
    pub(in crate::run) fn all(&self) -> impl Iterator<Item = &NodePointer> {
        self.parts.iter().chain([&self.head])
    }
}

/// Writes the leaves and index nodes of a run sequentially.
#[derive(Debug)]
pub(in crate::run) struct NodeOutput {
    pub(in crate::run) options: WriterOptions,
    pub(in crate::run) cache: NodeCache,
    pub(in crate::run) extents: Arc<Extents>,
    tiers: Arc<TierFiles>,
    pub(in crate::run) writer: NodeWriter,
    /// The key intervals whose readers need the written nodes.
    pub(in crate::run) spans: UnitSpans,
}

impl NodeOutput {
    pub(super) fn new(store: &Store, options: WriterOptions) -> Result<NodeOutput> {
        Ok(NodeOutput {
            options,
            cache: store.cache().clone(),
            extents: Arc::clone(store.extents()),
            tiers: Arc::clone(store.tiers()),
            writer: store.node_writer(options)?,
            spans: UnitSpans::default(),
        })
    }

    pub(in crate::run) fn page_size(&self) -> PageSize {
        self.options.page_size
    }

    /// Returns a new writer for other nodes of the same run, with extents of `extent_units`
    /// allocation units.
    pub(in crate::run) fn another(&self, extent_units: u32) -> NodeWriter {
        self.another_with(WriterOptions {
            extent_units,
            ..self.options
        })
    }

    /// Returns a new writer for other nodes of the same run on the storage tier `tier`.
    pub(super) fn another_on(&self, tier: u8) -> NodeWriter {
        self.another_with(WriterOptions { tier, ..self.options })
    }

    fn another_with(&self, options: WriterOptions) -> NodeWriter {
        NodeWriter::new(Arc::clone(&self.extents), Arc::clone(&self.tiers), options)
    }

    /// Returns a reader for nodes that other runs have written.
    pub(super) fn direct(&self) -> DirectNodeReader<'_> {
        DirectNodeReader {
            tiers: &self.tiers,
            page_size: self.options.page_size,
            purpose: self.options.purpose,
        }
    }

    /// Writes a leaf or an index node, padded to a multiple of the page size. A node above the
    /// maximum size is written in several parts.
    pub(in crate::run) fn write(&mut self, node: &mut Vec<u8>) -> Result<NodeAddress> {
        assert!(!node.is_empty(), "a node has bytes");
        let page_size = self.page_size();
        let largest = largest(page_size);
        let fill = |node: &mut Vec<u8>| node.resize(pages_for(node.len(), page_size) * page_size.bytes(), 0);
        if node.len() <= largest {
            fill(node);
            let head = self.writer.add(node)?;
            let parts = Vec::new();
            return Ok(NodeAddress { parts, head });
        }
        let mut parts = Vec::new();
        for part in node.chunks(largest) {
            let mut part = part.to_vec();
            fill(&mut part);
            parts.push(self.writer.add(&part)?);
        }
        assert!(parts.len() > 1, "a node of one part is not long");
        let mut head = Vec::new();
        encode_long(node.len(), &parts, &mut head);
        fill(&mut head);
        let head = self.writer.add(&head)?;
        Ok(NodeAddress { parts, head })
    }
}

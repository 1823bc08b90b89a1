//! Nodes of routing trees: children, and the list of sketches that routes to them.

use super::format::{BotNodeHead, CHILD_BYTES, HEAD_BYTES};
use super::queue::QueueContext;
use crate::blocks::{BlockExtent, BlockSpace, BlockStreamReader, BlockStreamWriter, Error, Result};
use alluvium_filters::routing::{RoutingEntry, RoutingGeometry, RoutingListBuilder, RoutingScan};

/// A child: a node's extent, or the position and size of a leaf in the log.
pub(super) type ChildExtent = BlockExtent;

/// A node with its head decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BotNode {
    pub(super) extent: BlockExtent,
    pub(super) head: BotNodeHead,
    pub(super) children: Vec<ChildExtent>,
}

/// The number of entries per pivot: at least log_λ N for all tables that fit on a machine.
const GROUP: u64 = 12;

impl BotNode {
    /// Reads a node at a height. It must have at most `most` children.
    pub(super) fn read(
        space: &dyn BlockSpace,
        extent: BlockExtent,
        height: u32,
        most: u32,
    ) -> Result<BotNode> {
        let wanted = (HEAD_BYTES + u64::from(most) * CHILD_BYTES).min(extent.bytes);
        let mut bytes = vec![0; wanted as usize];
        space.read(extent.at, &mut bytes)?;
        let (head, children) =
            BotNodeHead::decode(&bytes, height, most).map_err(|error| error.within(extent.at))?;
        Ok(BotNode {
            extent,
            head,
            children,
        })
    }

    fn table(&self) -> u64 {
        HEAD_BYTES + self.children.len() as u64 * CHILD_BYTES
    }

    fn table_extent(&self) -> Result<BlockExtent> {
        let bytes = self.head.geometry.table_bytes();
        Ok(BlockExtent {
            at: self.extent.place(self.table(), bytes)?,
            bytes,
        })
    }

    fn list_extent(&self) -> Result<BlockExtent> {
        let bytes = self.head.bits.div_ceil(8);
        let at = self
            .extent
            .place(self.table() + self.head.geometry.table_bytes(), bytes)?;
        Ok(BlockExtent { at, bytes })
    }

    /// Returns the sketches of a prefix in log order.
    pub(super) fn lookup(&self, space: &dyn BlockSpace, prefix: u64) -> Result<Vec<u32>> {
        let (geometry, bits) = (self.head.geometry, self.head.bits);
        let range = geometry.table_place(prefix);
        let mut bytes = vec![0; (range.end - range.start) as usize];
        space.read(
            self.table_extent()?.place(range.start, range.end - range.start)?,
            &mut bytes,
        )?;
        let part = geometry.part(&bytes, prefix, bits)?;
        let range = part.bytes();
        let length = range.end.saturating_sub(range.start);
        let place = self.list_extent()?.place(range.start, length)?;
        bytes.resize(length as usize, 0);
        space.read(place, &mut bytes)?;
        Ok(geometry.payloads(&part, &bytes, prefix)?)
    }

    /// Reads all entries in order.
    pub(super) fn scan<'s>(
        &self,
        ways: QueueContext<'s>,
    ) -> Result<RoutingScan<BlockStreamReader<'s>, BlockStreamReader<'s>>> {
        let chunk = ways.machine.chunk();
        let list = BlockStreamReader::new(ways.space, self.list_extent()?, chunk);
        let table = BlockStreamReader::new(ways.space, self.table_extent()?, chunk);
        Ok(RoutingScan::new(self.head.geometry, self.head.bits, list, table))
    }
}

/// Writes a root with one additional child, whose entries arrive in order.
pub(super) struct BotRootBuilder<'s> {
    space: &'s dyn BlockSpace,
    scan: Option<RoutingScan<BlockStreamReader<'s>, BlockStreamReader<'s>>>,
    known: Option<RoutingEntry>,
    builder: RoutingListBuilder,
    geometry: RoutingGeometry,
    children: Vec<ChildExtent>,
    height: u32,
    extent: BlockExtent,
    table: BlockStreamWriter<'s>,
    list: BlockStreamWriter<'s>,
    list_at: u64,
    index: u32,
    sketch_bits: u32,
    character_bits: u32,
    chunk: usize,
}

impl<'s> BotRootBuilder<'s> {
    /// Starts a root. `old` is the previous root, and `entries` is the number of entries of the
    /// child.
    pub(super) fn new(
        ways: QueueContext<'s>,
        old: Option<&BotNode>,
        height: u32,
        child: ChildExtent,
        entries: u64,
    ) -> Result<BotRootBuilder<'s>> {
        let mut children = old.map_or(Vec::new(), |old| old.children.clone());
        let index = children.len() as u32;
        children.push(child);
        let entries = entries + old.map_or(0, |old| old.head.geometry.entries());
        let character_bits = ways.cut.alphabet.character_bits();
        let geometry = RoutingGeometry::new(
            entries,
            ways.cut.prefix_bits(height).max(1),
            3 * character_bits,
            GROUP,
        )?;
        let table_at = HEAD_BYTES + children.len() as u64 * CHILD_BYTES;
        let list_at = table_at + geometry.table_bytes();
        let (space, chunk) = (ways.space, ways.machine.chunk());
        let extent = space.allocate(list_at + geometry.worst_bits().div_ceil(8))?;
        let part = |at: u64, end: u64| BlockExtent {
            at: extent.at + at,
            bytes: end - at,
        };
        let mut scan = old.map(|old| old.scan(ways)).transpose()?;
        let known = match &mut scan {
            Some(scan) => scan.next()?,
            None => None,
        };
        Ok(BotRootBuilder {
            space,
            scan,
            known,
            builder: RoutingListBuilder::new(geometry),
            geometry,
            children,
            height,
            extent,
            table: BlockStreamWriter::new(space, part(table_at, list_at), chunk),
            list: BlockStreamWriter::new(space, part(list_at, extent.bytes), chunk),
            list_at,
            index,
            sketch_bits: ways.cut.sketch_bits(),
            character_bits,
            chunk,
        })
    }

    /// Adds an entry of the child. Existing entries of its prefix are older and remain before it
    /// (T3).
    pub(super) fn push(&mut self, prefix: u64, sketch: u32) -> Result<()> {
        while let Some(known) = self.known.filter(|known| known.prefix <= prefix) {
            self.put(known)?;
            self.advance()?;
        }
        // From the lowest bit: check character, next character, child.
        self.put(RoutingEntry {
            prefix,
            payload: sketch | self.index << self.sketch_bits,
        })
    }

    fn advance(&mut self) -> Result<()> {
        self.known = match &mut self.scan {
            Some(scan) => scan.next()?,
            None => None,
        };
        Ok(())
    }

    fn put(&mut self, entry: RoutingEntry) -> Result<()> {
        self.builder.push(entry);
        if self.builder.ready() >= self.chunk {
            self.list.put(&self.builder.take_list())?;
            self.table.put(&self.builder.take_table())?;
        }
        Ok(())
    }

    /// Copies the remaining entries of the old root, and writes the new one.
    pub(super) fn finish(mut self) -> Result<BotNode> {
        while let Some(known) = self.known {
            self.put(known)?;
            self.advance()?;
        }
        assert!(
            self.sketch_bits == 2 * self.character_bits,
            "a sketch is two characters"
        );
        let (bits, list, table) = self.builder.finish();
        self.list.put(&list)?;
        self.table.put(&table)?;
        let head = BotNodeHead {
            height: self.height,
            geometry: self.geometry,
            bits,
        };
        let mut bytes = Vec::new();
        head.encode(&self.children, &mut bytes);
        self.space.write(self.extent.at, &bytes)?;
        self.table.finish()?;
        let length = self.list.finish()?;
        let extent = self.space.trim(self.extent, self.list_at + length)?;
        Ok(BotNode {
            extent,
            head,
            children: self.children,
        })
    }
}

/// Returns the child nodes of a node of height 2 or more, after checking the node's position.
pub(super) fn child_at(children: &[ChildExtent], index: u32, at: u64) -> Result<ChildExtent> {
    let found = children.get(index as usize).copied();
    found.ok_or_else(|| {
        Error::damaged(
            at,
            "child of a sketch",
            format!("below {}", children.len()),
            index,
        )
    })
}

//! Nodes of routing trees: children, and the list of sketches that routes to them.

use super::format::{CHILD_BYTES, HEAD_BYTES, Head};
use super::queue::Ways;
use crate::blocks::{Error, Extent, Reader, Result, Space, Writer};
use alluvium_filters::routing::{Builder, Entry, Geometry, Scan};

/// A child: a node's extent, or the position and size of a leaf in the log.
pub(super) type Child = Extent;

/// A node with its head decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) extent: Extent,
    pub(super) head: Head,
    pub(super) children: Vec<Child>,
}

/// The number of entries per pivot: at least log_λ N for all tables that fit on a machine.
const GROUP: u64 = 12;

impl Node {
    /// Reads a node at a height. It must have at most `most` children.
    pub(super) fn read(space: &dyn Space, extent: Extent, height: u32, most: u32) -> Result<Node> {
        let wanted = (HEAD_BYTES + u64::from(most) * CHILD_BYTES).min(extent.bytes);
        let mut bytes = vec![0; wanted as usize];
        space.read(extent.at, &mut bytes)?;
        let (head, children) = Head::decode(&bytes, height, most).map_err(|error| error.within(extent.at))?;
        Ok(Node {
            extent,
            head,
            children,
        })
    }

    fn table(&self) -> u64 {
        HEAD_BYTES + self.children.len() as u64 * CHILD_BYTES
    }

    fn table_extent(&self) -> Result<Extent> {
        let bytes = self.head.geometry.table_bytes();
        Ok(Extent {
            at: self.extent.place(self.table(), bytes)?,
            bytes,
        })
    }

    fn list_extent(&self) -> Result<Extent> {
        let bytes = self.head.bits.div_ceil(8);
        let at = self
            .extent
            .place(self.table() + self.head.geometry.table_bytes(), bytes)?;
        Ok(Extent { at, bytes })
    }

    /// Returns the sketches of a prefix in log order.
    pub(super) fn lookup(&self, space: &dyn Space, prefix: u64) -> Result<Vec<u32>> {
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
    pub(super) fn scan<'s>(&self, ways: Ways<'s>) -> Result<Scan<Reader<'s>, Reader<'s>>> {
        let chunk = ways.machine.chunk();
        let list = Reader::new(ways.space, self.list_extent()?, chunk);
        let table = Reader::new(ways.space, self.table_extent()?, chunk);
        Ok(Scan::new(self.head.geometry, self.head.bits, list, table))
    }
}

/// Writes a root with one additional child, whose entries arrive in order.
pub(super) struct Grow<'s> {
    space: &'s dyn Space,
    scan: Option<Scan<Reader<'s>, Reader<'s>>>,
    known: Option<Entry>,
    builder: Builder,
    geometry: Geometry,
    children: Vec<Child>,
    height: u32,
    extent: Extent,
    table: Writer<'s>,
    list: Writer<'s>,
    list_at: u64,
    index: u32,
    sketch_bits: u32,
    character_bits: u32,
    chunk: usize,
}

impl<'s> Grow<'s> {
    /// Starts a root. `old` is the previous root, and `entries` is the number of entries of the
    /// child.
    pub(super) fn new(
        ways: Ways<'s>,
        old: Option<&Node>,
        height: u32,
        child: Child,
        entries: u64,
    ) -> Result<Grow<'s>> {
        let mut children = old.map_or(Vec::new(), |old| old.children.clone());
        let index = children.len() as u32;
        children.push(child);
        let entries = entries + old.map_or(0, |old| old.head.geometry.entries());
        let character_bits = ways.cut.alphabet.character_bits();
        let geometry = Geometry::new(
            entries,
            ways.cut.prefix_bits(height).max(1),
            3 * character_bits,
            GROUP,
        )?;
        let table_at = HEAD_BYTES + children.len() as u64 * CHILD_BYTES;
        let list_at = table_at + geometry.table_bytes();
        let (space, chunk) = (ways.space, ways.machine.chunk());
        let extent = space.allocate(list_at + geometry.worst_bits().div_ceil(8))?;
        let part = |at: u64, end: u64| Extent {
            at: extent.at + at,
            bytes: end - at,
        };
        let mut scan = old.map(|old| old.scan(ways)).transpose()?;
        let known = match &mut scan {
            Some(scan) => scan.next()?,
            None => None,
        };
        Ok(Grow {
            space,
            scan,
            known,
            builder: Builder::new(geometry),
            geometry,
            children,
            height,
            extent,
            table: Writer::new(space, part(table_at, list_at), chunk),
            list: Writer::new(space, part(list_at, extent.bytes), chunk),
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
        self.put(Entry {
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

    fn put(&mut self, entry: Entry) -> Result<()> {
        self.builder.push(entry);
        if self.builder.ready() >= self.chunk {
            self.list.put(&self.builder.take_list())?;
            self.table.put(&self.builder.take_table())?;
        }
        Ok(())
    }

    /// Completes the root.
    pub(super) fn finish(mut self) -> Result<Node> {
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
        let head = Head {
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
        Ok(Node {
            extent,
            head,
            children: self.children,
        })
    }
}

/// Returns the child nodes of a node of height 2 or more, after checking the node's position.
pub(super) fn named(children: &[Child], index: u32, at: u64) -> Result<Child> {
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

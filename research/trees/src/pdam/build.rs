//! Bulk loading: leaves are written as records arrive, then the levels above them, the header
//! last.

use super::format::{BLOCK_HEAD, HEADER, PdamHeader, seal};
use super::layout::PdamLayout;
use super::shape::PdamShape;
use alluvium_base::Purpose;
use alluvium_device::{AlignedBuffer, BLOCK, Device, IoBatch};
use alluvium_storage::{DiskLocation, Error, OnDiskObject, Result};
use research_models::pdam::VanEmdeBoas;

/// The size of a write in bytes: nodes are contiguous.
const WRITTEN_TOGETHER: u64 = 4 << 20;

/// Writes a tree, and returns its layout.
pub(super) fn build<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    device: &dyn Device,
    shape: PdamShape,
    id: u64,
    records: impl IntoIterator<Item = (K, V)>,
) -> Result<PdamLayout> {
    if !device.is_empty() {
        let why = format!("{} has {} bytes; name an empty file", device.name(), device.len());
        return Err(Error::BadOption { option: "file", why });
    }
    let mut writer = BulkLoadWriter::new(device, shape, id)?;
    let (keys, mut below) = leaves(&mut writer, records)?;
    let mut level = 1;
    while below.len() > 1 {
        below = level_above(&mut writer, level, &below)?;
        level += 1;
    }
    writer.end()?;
    let header = PdamHeader { shape, id, keys };
    let layout = PdamLayout::new(&header, device.name()).ok_or_else(|| too_large(device, &header))?;
    device.sync(Purpose::Other)?;
    // PD4: the header is written last.
    let mut block = AlignedBuffer::zeroed(shape.block_bytes() as usize);
    block[..HEADER].copy_from_slice(&header.encode());
    device.write_at(0, block, Purpose::Other)?;
    device.sync(Purpose::Other)?;
    assert_eq!(
        device.len(),
        layout.file_bytes(),
        "PD1: the layout is that of what was written"
    );
    Ok(layout)
}

/// Returns the error for a header whose tree exceeds the maximum size of a file.
pub(super) fn too_large(device: &dyn Device, header: &PdamHeader) -> Error {
    let place = DiskLocation::new(OnDiskObject::Superblock, device.name(), 0);
    Error::corrupt(place, "a tree that fits a file", format!("{} keys", header.keys))
}

/// Reads the header of a tree.
pub(super) fn read_header(device: &dyn Device) -> Result<PdamHeader> {
    let place = DiskLocation::new(OnDiskObject::Superblock, device.name(), 0);
    if device.len() < BLOCK {
        let found = format!("{} bytes", device.len());
        return Err(Error::corrupt(place, "the header of a tree", found));
    }
    let block = device.read_at(0, BLOCK as usize, Purpose::Recovery)?;
    PdamHeader::decode(&block, &place)
}

/// Fails unless the length of the file matches its tree.
pub(super) fn check_length(device: &dyn Device, layout: &PdamLayout) -> Result<()> {
    let (wanted, found) = (layout.file_bytes(), device.len());
    if wanted == found {
        return Ok(());
    }
    let place = DiskLocation::new(OnDiskObject::Superblock, device.name(), 0);
    let wanted = format!("a file of {wanted} bytes");
    Err(Error::corrupt(place, wanted, format!("{found} bytes")))
}

/// Writes the leaves. Returns the number of keys, and the first key of each leaf.
fn leaves<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    writer: &mut BulkLoadWriter<'_>,
    records: impl IntoIterator<Item = (K, V)>,
) -> Result<(u64, Vec<Box<[u8]>>)> {
    let shape = writer.shape;
    let (key_bytes, value_bytes) = (shape.key_bytes() as usize, shape.value_bytes() as usize);
    let most = shape.node_entries(0) as usize;
    let mut firsts = Vec::new();
    let (mut keys, mut node) = (0_u64, Vec::with_capacity(most * (key_bytes + value_bytes)));
    let mut last: Option<Box<[u8]>> = None;
    for (key, value) in records {
        let (key, value) = (key.as_ref(), value.as_ref());
        let refuse = |why: String| {
            let why = format!("the record with the key \"{}\" {why}", key.escape_ascii());
            Error::BadOption {
                option: "records",
                why,
            }
        };
        if key.len() != key_bytes || value.len() != value_bytes {
            return Err(refuse(format!(
                "has {} and {} bytes, where the tree has keys of {key_bytes} and values of {value_bytes}",
                key.len(),
                value.len()
            )));
        }
        if last.as_deref().is_some_and(|last| last >= key) {
            return Err(refuse(
                "does not follow the one before it: give keys in ascending order, each once".into(),
            ));
        }
        if node.is_empty() {
            firsts.push(key.into());
        }
        match &mut last {
            Some(last) => last.copy_from_slice(key),
            None => last = Some(key.into()),
        }
        node.extend_from_slice(key);
        node.extend_from_slice(value);
        keys += 1;
        if node.len() == most * (key_bytes + value_bytes) {
            writer.node(0, &node)?;
            node.clear();
        }
    }
    if !node.is_empty() {
        writer.node(0, &node)?;
    }
    assert_eq!(
        firsts.len() as u64,
        writer.nodes,
        "PD1: every leaf has a first key"
    );
    Ok((keys, firsts))
}

/// Writes a level above nodes with the given first keys, and returns the first keys of the new
/// nodes.
fn level_above(writer: &mut BulkLoadWriter<'_>, level: usize, below: &[Box<[u8]>]) -> Result<Vec<Box<[u8]>>> {
    assert!(below.len() > 1, "a single node is the root");
    let mut firsts = Vec::new();
    for children in below.chunks(writer.shape.fanout() as usize) {
        writer.node(level, &children[1..].concat())?;
        firsts.push(children[0].clone());
    }
    Ok(firsts)
}

/// Appends nodes to the device through a buffer.
struct BulkLoadWriter<'d> {
    device: &'d dyn Device,
    shape: PdamShape,
    id: u64,
    /// The order of entries in a leaf, and in a node above.
    orders: [VanEmdeBoas; 2],
    /// The number of nodes added.
    nodes: u64,
    /// The offset of the next write, its buffer, and the used length of the buffer.
    offset: u64,
    buffer: AlignedBuffer,
    used: usize,
}

impl<'d> BulkLoadWriter<'d> {
    fn new(device: &'d dyn Device, shape: PdamShape, id: u64) -> Result<BulkLoadWriter<'d>> {
        let order = |level| VanEmdeBoas::of(shape.node_entries(level)).expect("a node has entries, and few");
        let len = WRITTEN_TOGETHER.next_multiple_of(shape.node_bytes());
        let buffer = AlignedBuffer::try_zeroed(len as usize).ok_or(Error::Full {
            wanted: len,
            free: 0,
            reserve: false,
        })?;
        Ok(BulkLoadWriter {
            device,
            shape,
            id,
            orders: [order(0), order(1)],
            nodes: 0,
            offset: u64::from(shape.block_bytes()),
            buffer,
            used: 0,
        })
    }

    /// Adds a node with these entries, in key order.
    fn node(&mut self, level: usize, entries: &[u8]) -> Result<()> {
        let width = self.shape.entry_bytes(level);
        let (block_bytes, each) = (self.shape.block_bytes() as usize, self.shape.block_entries(level));
        let node_bytes = self.shape.node_bytes() as usize;
        if self.used == self.buffer.len() {
            self.write()?;
        }
        let node = &mut self.buffer[self.used..self.used + node_bytes];
        node.fill(0);
        let order = &self.orders[level.min(1)];
        assert!(
            entries.len() as u64 <= order.count() * width as u64,
            "PD1: it fits"
        );
        for (rank, entry) in entries.chunks_exact(width).enumerate() {
            let place = order.place(order.position(rank as u64));
            let start = (place / each) as usize * block_bytes + BLOCK_HEAD + (place % each) as usize * width;
            node[start..start + width].copy_from_slice(entry);
        }
        for (block, bytes) in node.chunks_exact_mut(block_bytes).enumerate() {
            let number = 1 + self.nodes * u64::from(self.shape.node_blocks()) + block as u64;
            seal(bytes, self.id, number);
        }
        self.nodes += 1;
        self.used += node_bytes;
        Ok(())
    }

    /// Writes the buffered nodes to the device and empties the buffer.
    fn write(&mut self) -> Result<()> {
        let node_bytes = self.shape.node_bytes() as usize;
        assert!(
            self.used.is_multiple_of(node_bytes),
            "PD1: nodes are written whole"
        );
        if self.used == 0 {
            return Ok(());
        }
        self.device.grow(self.offset + self.used as u64)?;
        let mut batch = IoBatch::with_capacity(1);
        if self.used == self.buffer.len() {
            let empty = AlignedBuffer::zeroed(BLOCK as usize);
            let full = std::mem::replace(&mut self.buffer, empty);
            batch.write(self.offset, full, Purpose::Other);
            self.buffer = self.device.run(batch)?.remove(0);
        } else {
            batch.write(
                self.offset,
                AlignedBuffer::padded(&self.buffer[..self.used]),
                Purpose::Other,
            );
            self.device.run(batch)?;
        }
        self.offset += self.used as u64;
        self.used = 0;
        Ok(())
    }

    /// Writes the remaining nodes, and creates the first block of the file.
    fn end(&mut self) -> Result<()> {
        self.write()?;
        self.device.grow(self.offset)?;
        assert_eq!(self.used, 0, "all nodes are written");
        Ok(())
    }
}

//! A writer that packs nodes contiguously into extents of its own, and writes each extent with one
//! large write.
//!
//! Alignment (N3): an uncompressed node begins at a multiple of the page size. A compressed node
//! begins at a multiple of the logical block size, or at the next 4 KiB boundary if it then touches
//! fewer 4 KiB blocks and the padding is at most an eighth of its length. Gaps between nodes are
//! filled with zeros.
//!
//! The live bytes of an extent are the sum of [`NodePointer::read_len`] over its nodes: the encoded
//! length rounded up to the logical block size. The rounding is included because nothing else can
//! use the rest of a block. When the owner of a node drops the node, it must subtract this number
//! from the extent's live bytes.
//!
//! On the memory device, one core writes 3.6 to 4.2 GB/s of uncompressed nodes, including checksums
//! and both copies. For comparison, the device's own copy alone reaches 8.8 GB/s, and the checksum
//! alone 12 to 21 GB/s. For records that hardly compress, the rate is 0.4 to 0.5 GB/s with LZ4 and
//! 0.25 to 0.3 GB/s with Zstd. These rates were measured with
//! `cargo bench -p alluvium-storage --bench nodes` on a busy machine with two cores.

use super::codec::NodeEncoder;
use super::{MAX_PAGES, NodeCodec, NodePointer, PageSize};
use crate::extents::{AllocationClass, Extent, Extents, UNIT};
use crate::{Error, Result, TierFiles};
use alluvium_base::{KIB, Purpose, checksum};
use alluvium_device::{AlignedBuffer, BLOCK, Device, IoBatch, Ticket};
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of extents being written at the same time.
pub const MAX_IN_FLIGHT: usize = 4;

/// Size in bytes of a device block. Writes are padded to whole blocks, and a node should not reach
/// into another block without need.
const DEVICE_BLOCK: usize = 4 * KIB as usize;

/// Size in bytes of a writer's first buffer, unless the first node is longer. A memtable's index or
/// the few nodes of a trunk fit into it.
const FIRST_BUFFER: usize = 64 * KIB as usize;

const _: () = assert!(PageSize::MIN.bytes() == DEVICE_BLOCK && (DEVICE_BLOCK as u64).is_multiple_of(BLOCK));

/// Options of a node writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterOptions {
    /// The tier to write nodes to.
    pub tier: u8,
    pub page_size: PageSize,
    /// The codec that encodes the nodes.
    pub codec: NodeCodec,
    /// The generation under construction, which is stored in every pointer.
    pub birth: u64,
    /// The purpose to which the writes are accounted.
    pub purpose: Purpose,
    /// The allocation class, which determines whether the extents may use the reserve.
    pub class: AllocationClass,
    /// Number of units in an extent, which is the size of a write and the granularity at which
    /// space is freed. An extent must hold the largest node.
    pub extent_units: u32,
}

impl WriterOptions {
    /// Default number of units in an extent, which is 1 MiB.
    pub const EXTENT_UNITS: u32 = (1 << 20) / UNIT as u32;
}

/// The extents written by a finished node writer, which stay provisional until the caller installs
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriterOutput {
    /// The extents in node order, each with its number of live bytes.
    pub extents: Vec<(Extent, u64)>,
}

/// Packs nodes into extents and writes them. If the writer is dropped without calling `finish`, it
/// waits for its writes to complete and frees its extents.
///
/// ```
/// use alluvium_base::Purpose;
/// use alluvium_device::memory::MemoryDirectory;
/// use alluvium_storage::{NodeCodec, PageSize, TierFiles};
/// use alluvium_storage::extents::{AllocationClass, ExtentOptions, Extents};
/// use alluvium_storage::node::{NodeWriter, WriterOptions, read_node};
/// use std::sync::Arc;
/// let tiers = Arc::new(TierFiles::create(&[&MemoryDirectory::new()])?);
/// let extents = Arc::new(Extents::create(tiers.clone(), ExtentOptions::default())?);
/// let mut writer = NodeWriter::new(extents.clone(), tiers.clone(), WriterOptions {
///     tier: 0,
///     page_size: PageSize::MIN,
///     codec: NodeCodec::Lz4,
///     birth: 1,
///     purpose: Purpose::Incorporate,
///     class: AllocationClass::Normal,
///     extent_units: WriterOptions::EXTENT_UNITS,
/// });
/// let node = vec![7; 8192];
/// let pointer = writer.add(&node)?;
/// let written = writer.finish()?;
/// extents.install(&written.extents);
/// assert_eq!(read_node(&tiers, &pointer, PageSize::MIN, Purpose::Lookup)?, node);
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
#[derive(Debug)]
pub struct NodeWriter {
    extents: Arc<Extents>,
    tiers: Arc<TierFiles>,
    options: WriterOptions,
    filling: Option<OpenExtent>,
    in_flight: VecDeque<(Ticket, Arc<dyn Device>)>,
    /// Buffers of completed writes, kept for reuse.
    spare: Vec<AlignedBuffer>,
    encoder: NodeEncoder,
    encoded: Vec<u8>,
    /// The extents that were or are being written.
    written: WriterOutput,
    /// The error message of the first failed write, after which the writer accepts no more nodes.
    failed: Option<String>,
}

/// The extent to which nodes are currently being added.
#[derive(Debug)]
struct OpenExtent {
    extent: Extent,
    buffer: AlignedBuffer,
    at: usize,
    live: u64,
}

impl NodeWriter {
    /// Creates a writer without nodes.
    ///
    /// # Panics
    /// If the largest node does not fit into an extent of `extent_units` units.
    #[must_use]
    pub fn new(extents: Arc<Extents>, tiers: Arc<TierFiles>, options: WriterOptions) -> NodeWriter {
        assert!(
            u64::from(options.extent_units) * UNIT >= options.page_size.node_bytes(MAX_PAGES) as u64,
            "an extent of {} units does not hold the largest node",
            options.extent_units
        );
        NodeWriter {
            extents,
            tiers,
            options,
            filling: None,
            in_flight: VecDeque::with_capacity(MAX_IN_FLIGHT),
            spare: Vec::new(),
            encoder: NodeEncoder::new(options.codec),
            encoded: Vec::new(),
            written: WriterOutput::default(),
            failed: None,
        }
    }

    /// Changes the codec for later nodes. Each node's pointer names the node's own codec.
    pub fn set_codec(&mut self, codec: NodeCodec) {
        self.options.codec = codec;
        self.encoder.set_codec(codec);
    }

    /// Adds a node after the previous ones, and returns a pointer to it. The pointer may be used
    /// after [`NodeWriter::finish`]. The node is durable once the tier is synced.
    ///
    /// # Errors
    /// [`Error::Full`] if the store has no space for the node, in which case the node was not
    /// added, and the writer may be finished or dropped. An I/O error of an earlier write, after
    /// which the writer accepts no more nodes.
    ///
    /// # Panics
    /// If the length of the node is not 1 to 16 whole pages.
    pub fn add(&mut self, node: &[u8]) -> Result<NodePointer> {
        self.refuse_if_failed()?;
        let page = self.options.page_size.bytes();
        let pages = node.len() / page;
        assert!(
            node.len().is_multiple_of(page) && (1..=usize::from(MAX_PAGES)).contains(&pages),
            "a node of {} bytes is not 1 to {MAX_PAGES} pages of {page}",
            node.len()
        );
        let mut encoded = std::mem::take(&mut self.encoded);
        let codec = self.encoder.encode(node, &mut encoded);
        let bytes = if codec == NodeCodec::None {
            node
        } else {
            &encoded[..]
        };
        assert!(
            !bytes.is_empty() && bytes.len() <= node.len(),
            "an encoded node is no longer than the node"
        );
        let placed = self.place(bytes, codec);
        let pointer = placed.map(|offset| NodePointer {
            offset,
            birth: self.options.birth,
            checksum: checksum(bytes),
            encoded_len: bytes.len() as u32,
            tier: self.options.tier,
            pages: pages as u8,
            codec,
        });
        self.encoded = encoded;
        pointer
    }

    /// Copies a node's encoded bytes to the buffer. Returns the node's offset in the data file.
    fn place(&mut self, bytes: &[u8], codec: NodeCodec) -> Result<u64> {
        let len = bytes.len().next_multiple_of(BLOCK as usize);
        let (filling, at) = self.make_room(len, codec)?;
        debug_assert!(
            filling.at <= at && at + len <= filling.buffer.len(),
            "nodes follow each other"
        );
        // The buffer may contain data of an earlier extent, so fill the gap between the nodes with
        // zeros.
        filling.buffer[filling.at..at].fill(0);
        filling.buffer[at..at + bytes.len()].copy_from_slice(bytes);
        filling.buffer[at + bytes.len()..at + len].fill(0);
        filling.at = at + len;
        filling.live += len as u64;
        Ok(filling.extent.offset() + at as u64)
    }

    /// Returns the extent for a node of `len` encoded bytes, and the node's offset within it. If
    /// the node does not fit into the current extent, a new one is allocated.
    fn make_room(&mut self, len: usize, codec: NodeCodec) -> Result<(&mut OpenExtent, usize)> {
        let page = self.options.page_size.bytes();
        let start = |at| match codec {
            NodeCodec::None => usize::next_multiple_of(at, page),
            NodeCodec::Lz4 | NodeCodec::Zstd => start_of_compressed(at, len),
        };
        let full = |filling: &OpenExtent| start(filling.at) + len > filling.extent.bytes() as usize;
        if self.filling.as_ref().is_some_and(full) {
            self.flush()?;
        }
        let filling = match &mut self.filling {
            Some(filling) => filling,
            empty => empty.insert(begin(
                &self.extents,
                &self.options,
                &self.written,
                &mut self.spare,
                len,
            )?),
        };
        let at = start(filling.at);
        assert!(
            at + len <= filling.extent.bytes() as usize,
            "{len} bytes at {at} of {}",
            filling.extent
        );
        if at + len > filling.buffer.len() {
            let mut whole = AlignedBuffer::zeroed(filling.extent.bytes() as usize);
            whole[..filling.at].copy_from_slice(&filling.buffer[..filling.at]);
            filling.buffer = whole;
        }
        Ok((filling, at))
    }

    /// Returns what [`NodeWriter::finish`] would return after one more uncompressed node of `pages`
    /// pages. This is for a node that lists the extents of all nodes, including its own.
    ///
    /// # Errors
    /// As [`NodeWriter::add`] for a node of `pages` pages.
    pub fn extents_ending_with(&mut self, pages: u8) -> Result<Vec<(Extent, u64)>> {
        self.refuse_if_failed()?;
        let len = self.options.page_size.node_bytes(pages);
        let (filling, at) = self.make_room(len, NodeCodec::None)?;
        let last = Extent {
            units: ((at + len) as u64).div_ceil(UNIT) as u32,
            ..filling.extent
        };
        let live = filling.live + len as u64;
        let mut extents = self.written.extents.clone();
        extents.push((last, live));
        Ok(extents)
    }

    /// Starts writing the current extent to the device. Unused units at its end are freed.
    fn flush(&mut self) -> Result<()> {
        let Some(filling) = self.filling.take() else {
            return Ok(());
        };
        let OpenExtent {
            extent,
            mut buffer,
            at,
            live,
        } = filling;
        if at == 0 {
            // The extent was allocated for a node that could then not be added.
            self.extents.abandon(extent);
            return Ok(());
        }
        assert!(live <= at as u64, "{live} live bytes of {at}");
        let extent = self.extents.trim(extent, (at as u64).div_ceil(UNIT) as u32);
        self.written.extents.push((extent, live));
        let end = at.next_multiple_of(DEVICE_BLOCK);
        buffer[at..end].fill(0);
        if end < buffer.len() {
            // A write request always writes a whole buffer, so switch to a shorter one.
            let short = AlignedBuffer::padded(&buffer[..end]);
            self.keep(std::mem::replace(&mut buffer, short));
        }
        while self.in_flight.len() >= MAX_IN_FLIGHT {
            self.complete_oldest()?;
        }
        let file = Arc::clone(self.tiers.get(extent.tier)?);
        let mut batch = IoBatch::with_capacity(1);
        batch.write(extent.offset(), buffer, self.options.purpose);
        self.in_flight.push_back((file.submit(batch), file));
        Ok(())
    }

    /// Waits for the oldest write, and keeps its buffer for reuse.
    fn complete_oldest(&mut self) -> Result<()> {
        let Some((ticket, file)) = self.in_flight.pop_front() else {
            return Ok(());
        };
        debug_assert!(
            self.in_flight.len() < MAX_IN_FLIGHT,
            "{MAX_IN_FLIGHT} writes at once"
        );
        file.wait(&ticket);
        match ticket.take_buffers() {
            Ok(buffers) => {
                buffers.into_iter().for_each(|buffer| self.keep(buffer));
                Ok(())
            }
            Err(error) => {
                self.failed = Some(error.to_string());
                self.tiers.record_failure(self.options.tier, Err(error))
            }
        }
    }

    /// Keeps a buffer for reuse if it has the size of a full extent.
    fn keep(&mut self, buffer: AlignedBuffer) {
        if buffer.len() as u64 == u64::from(self.options.extent_units) * UNIT {
            self.spare.push(buffer);
        }
    }

    fn refuse_if_failed(&self) -> Result<()> {
        let Some(cause) = &self.failed else {
            return Ok(());
        };
        let poisoned = Error::Poisoned { cause: cause.clone() };
        Err(self.tiers.failure(self.options.tier).unwrap_or(poisoned))
    }

    /// Returns the total size in bytes of the nodes added so far, including padding between them.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let written: u64 = self
            .written
            .extents
            .iter()
            .map(|(extent, _)| extent.bytes())
            .sum();
        written + self.filling.as_ref().map_or(0, |filling| filling.at as u64)
    }

    /// Returns the extents that are already full, in node order, each with its number of live
    /// bytes.
    #[must_use]
    pub fn written(&self) -> &[(Extent, u64)] {
        &self.written.extents
    }

    /// Returns the extent to which nodes are currently being added and how many of its bytes are in
    /// use, or `None` if there is no such extent. When the writer is finished, the units after the
    /// last node are freed.
    #[must_use]
    pub fn filling(&self) -> Option<(Extent, u64)> {
        let filling = self.filling.as_ref()?;
        Some((filling.extent, filling.at as u64))
    }

    /// Writes the remaining nodes and waits for all writes. Returns the extents, which are not
    /// installed yet. On any tier but the first, the nodes are now durable (T7); on the first, they
    /// are not.
    ///
    /// # Errors
    /// I/O errors, in which case the extents are freed.
    pub fn finish(mut self) -> Result<WriterOutput> {
        self.refuse_if_failed()?;
        self.flush()?;
        while !self.in_flight.is_empty() {
            self.complete_oldest()?;
        }
        debug_assert!(
            self.filling.is_none() && self.in_flight.is_empty(),
            "everything is on the device"
        );
        if self.options.tier > 0 && !self.written.extents.is_empty() {
            self.tiers.sync_tier(self.options.tier, self.options.purpose)?;
        }
        Ok(std::mem::take(&mut self.written))
    }
}

impl Drop for NodeWriter {
    fn drop(&mut self) {
        // An extent must not be reallocated until all writes to it have completed.
        for (ticket, file) in self.in_flight.drain(..) {
            file.wait(&ticket);
        }
        let filling = self.filling.take().map(|filling| filling.extent);
        let written = self.written.extents.drain(..).map(|(extent, _)| extent);
        for extent in written.chain(filling) {
            self.extents.abandon(extent);
        }
    }
}

/// Allocates an extent and its buffer. The buffer may be shorter than the extent, because most
/// writers write only a few nodes. If space is scarce, the extent may be shorter than usual, but it
/// has at least `len` bytes.
fn begin(
    extents: &Extents,
    options: &WriterOptions,
    written: &WriterOutput,
    spare: &mut Vec<AlignedBuffer>,
    len: usize,
) -> Result<OpenExtent> {
    let least = (len as u64).div_ceil(UNIT) as u32;
    let near = written.extents.last().map(|&(extent, _)| extent);
    let extent = extents.allocate_between(options.tier, least..=options.extent_units, options.class, near)?;
    assert!(
        (least..=options.extent_units).contains(&extent.units),
        "{extent} for {least} units"
    );
    let whole = extent.units == options.extent_units;
    let buffer = match spare.pop().filter(|_| whole) {
        Some(buffer) => buffer,
        // A write is padded to a device block, and a compressed node may end anywhere within a
        // block, so the buffer must have a multiple of the device block size.
        None => AlignedBuffer::zeroed(
            (extent.bytes() as usize).min(len.next_multiple_of(DEVICE_BLOCK).max(FIRST_BUFFER)),
        ),
    };
    Ok(OpenExtent {
        extent,
        buffer,
        at: 0,
        live: 0,
    })
}

/// Returns the offset at which a compressed node of `len` bytes begins, which is `at` or the next
/// device block boundary.
fn start_of_compressed(at: usize, len: usize) -> usize {
    let aligned = at.next_multiple_of(DEVICE_BLOCK);
    let touched = (at % DEVICE_BLOCK + len).div_ceil(DEVICE_BLOCK);
    if touched > len.div_ceil(DEVICE_BLOCK) && aligned - at <= len / 8 {
        aligned
    } else {
        at
    }
}

#[cfg(test)]
mod tests;

//! Writes nodes one behind the other into extents of their own, an extent in one large write.
//!
//! Where a node lies (N3): an uncompressed one at a multiple of the page size; a compressed one at
//! a multiple of the logical block, and at the next 4 KiB boundary instead when it would then touch
//! fewer blocks of 4 KiB and the padding for that is at most an eighth of it. What lies between is
//! zeros.
//!
//! An extent's live bytes are the sum of its nodes' [`NodePointer::read_len`]: encoded bytes up to
//! the next logical block, which nothing else can use. Who drops a node takes that from its extent.
//!
//! On the memory device one core writes 3.6 to 4.2 GB/s of uncompressed nodes, checksums and both
//! copies included (the device's own copy alone: 8.8, the checksum alone: 12 to 21); LZ4 takes in
//! 0.4 to 0.5 and Zstd 0.25 to 0.3, of records that hardly compress
//! (`cargo bench -p alluvium-storage --bench nodes`, on a busy machine with two cores).

use super::codec::Encoder;
use super::{Codec, MAX_PAGES, NodePointer, PageSize};
use crate::extents::{Class, Extent, Extents, UNIT};
use crate::{Error, Result, Tiers};
use alluvium_base::{KIB, Purpose, checksum};
use alluvium_device::{BLOCK, Batch, Buffer, Device, Ticket};
use std::collections::VecDeque;
use std::sync::Arc;

/// Extents whose writes are under way at once, at most.
pub const MAX_IN_FLIGHT: usize = 4;

/// The block of a device that a node should not straddle, and to which a write is padded, in bytes.
const DEVICE_BLOCK: usize = 4 * KIB as usize;

/// Bytes of a writer's first buffer, if the first node needs no more: a memtable's index, or a
/// trunk's few nodes, fit it.
const FIRST_BUFFER: usize = 64 * KIB as usize;

const _: () = assert!(PageSize::MIN.bytes() == DEVICE_BLOCK && (DEVICE_BLOCK as u64).is_multiple_of(BLOCK));

/// How nodes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterOptions {
    /// The tier they go to.
    pub tier: u8,
    /// The store's page size.
    pub page_size: PageSize,
    /// How they are encoded.
    pub codec: Codec,
    /// The generation being built.
    pub birth: u64,
    /// What the writes are for.
    pub purpose: Purpose,
    /// Whether the reserve may be used.
    pub class: Class,
    /// Units in an extent: what is written at once, and what lives and dies together. One extent at
    /// least holds the largest node.
    pub extent_units: u32,
}

impl WriterOptions {
    /// The usual units in an extent: 1 MiB.
    pub const EXTENT_UNITS: u32 = (1 << 20) / UNIT as u32;
}

/// Where the nodes of a finished writer are. The extents are provisional until they are installed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The extents, in the order of their nodes, each with its live bytes.
    pub extents: Vec<(Extent, u64)>,
}

/// Packs nodes into extents. Dropped unfinished, it waits for its writes and gives its extents up.
///
/// ```
/// use alluvium_base::Purpose;
/// use alluvium_device::memory::MemoryDirectory;
/// use alluvium_storage::{Codec, PageSize, Tiers};
/// use alluvium_storage::extents::{Class, ExtentOptions, Extents};
/// use alluvium_storage::node::{NodeWriter, WriterOptions, read_node};
/// use std::sync::Arc;
/// let tiers = Arc::new(Tiers::create(&[&MemoryDirectory::new()])?);
/// let extents = Arc::new(Extents::create(tiers.clone(), ExtentOptions::default())?);
/// let mut writer = NodeWriter::new(extents.clone(), tiers.clone(), WriterOptions {
///     tier: 0,
///     page_size: PageSize::MIN,
///     codec: Codec::Lz4,
///     birth: 1,
///     purpose: Purpose::Incorporate,
///     class: Class::Normal,
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
    tiers: Arc<Tiers>,
    options: WriterOptions,
    filling: Option<Filling>,
    in_flight: VecDeque<(Ticket, Arc<dyn Device>)>,
    /// Buffers whose writes are over.
    spare: Vec<Buffer>,
    encoder: Encoder,
    encoded: Vec<u8>,
    /// Extents that are written or being written.
    written: Written,
    /// A write failed, so nothing more is accepted.
    failed: Option<String>,
}

/// The extent that nodes are being packed into.
#[derive(Debug)]
struct Filling {
    extent: Extent,
    buffer: Buffer,
    at: usize,
    live: u64,
}

impl NodeWriter {
    /// Creates a writer that has taken nothing yet.
    ///
    /// # Panics
    /// When an extent could not hold the largest node.
    #[must_use]
    pub fn new(extents: Arc<Extents>, tiers: Arc<Tiers>, options: WriterOptions) -> NodeWriter {
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
            encoder: Encoder::new(options.codec),
            encoded: Vec::new(),
            written: Written::default(),
            failed: None,
        }
    }

    /// How nodes are encoded from now on: each pointer says how its own is.
    pub fn set_codec(&mut self, codec: Codec) {
        self.options.codec = codec;
        self.encoder.set_codec(codec);
    }

    /// Adds a node behind the ones before. Its pointer is good once the writer is finished, and
    /// durable once the tier is synced.
    ///
    /// # Errors
    /// [`Error::Full`] when the store has no space for it: nothing of it was taken, and the writer
    /// may be finished or dropped. As the device says, of an earlier write: the writer accepts
    /// nothing more.
    ///
    /// # Panics
    /// When the node is not 1 to 16 whole pages.
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
        let bytes = if codec == Codec::None { node } else { &encoded[..] };
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

    /// Copies encoded bytes to where they will be written; their offset in the file.
    fn place(&mut self, bytes: &[u8], codec: Codec) -> Result<u64> {
        let len = bytes.len().next_multiple_of(BLOCK as usize);
        let (filling, at) = self.make_room(len, codec)?;
        debug_assert!(
            filling.at <= at && at + len <= filling.buffer.len(),
            "nodes follow each other"
        );
        // The buffer is used again and again: what is not a node is cleared.
        filling.buffer[filling.at..at].fill(0);
        filling.buffer[at..at + bytes.len()].copy_from_slice(bytes);
        filling.buffer[at + bytes.len()..at + len].fill(0);
        filling.at = at + len;
        filling.live += len as u64;
        Ok(filling.extent.offset() + at as u64)
    }

    /// Returns the extent that the next node, of `len` bytes, will be in, and where in it.
    fn make_room(&mut self, len: usize, codec: Codec) -> Result<(&mut Filling, usize)> {
        let page = self.options.page_size.bytes();
        let start = |at| match codec {
            Codec::None => usize::next_multiple_of(at, page),
            Codec::Lz4 | Codec::Zstd => start_of_compressed(at, len),
        };
        let full = |filling: &Filling| start(filling.at) + len > filling.extent.bytes() as usize;
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
            let mut whole = Buffer::zeroed(filling.extent.bytes() as usize);
            whole[..filling.at].copy_from_slice(&filling.buffer[..filling.at]);
            filling.buffer = whole;
        }
        Ok((filling, at))
    }

    /// Returns what [`NodeWriter::finish`] will return if the next node is the last one, has
    /// `pages` pages, and is not compressed. For a node that names the extents which it and all
    /// others are in.
    ///
    /// # Errors
    /// As [`NodeWriter::add`] of that node.
    pub fn extents_ending_with(&mut self, pages: u8) -> Result<Vec<(Extent, u64)>> {
        self.refuse_if_failed()?;
        let len = self.options.page_size.node_bytes(pages);
        let (filling, at) = self.make_room(len, Codec::None)?;
        let last = Extent {
            units: ((at + len) as u64).div_ceil(UNIT) as u32,
            ..filling.extent
        };
        let live = filling.live + len as u64;
        let mut extents = self.written.extents.clone();
        extents.push((last, live));
        Ok(extents)
    }

    /// Sends the extent being filled on its way, without the units that nothing is in.
    fn flush(&mut self) -> Result<()> {
        let Some(filling) = self.filling.take() else {
            return Ok(());
        };
        let Filling {
            extent,
            mut buffer,
            at,
            live,
        } = filling;
        if at == 0 {
            // It was begun for a node that did not come.
            self.extents.abandon(extent);
            return Ok(());
        }
        assert!(live <= at as u64, "{live} live bytes of {at}");
        let extent = self.extents.trim(extent, (at as u64).div_ceil(UNIT) as u32);
        self.written.extents.push((extent, live));
        let end = at.next_multiple_of(DEVICE_BLOCK);
        buffer[at..end].fill(0);
        if end < buffer.len() {
            // A request is a whole buffer.
            let short = Buffer::padded(&buffer[..end]);
            self.keep(std::mem::replace(&mut buffer, short));
        }
        while self.in_flight.len() >= MAX_IN_FLIGHT {
            self.complete_oldest()?;
        }
        let file = Arc::clone(self.tiers.get(extent.tier)?);
        let mut batch = Batch::with_capacity(1);
        batch.write(extent.offset(), buffer, self.options.purpose);
        self.in_flight.push_back((file.submit(batch), file));
        Ok(())
    }

    /// Waits for the oldest write.
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
                self.tiers.judge(self.options.tier, Err(error))
            }
        }
    }

    /// Keeps a buffer for another extent, if it holds a whole one.
    fn keep(&mut self, buffer: Buffer) {
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

    /// Returns the bytes of nodes taken so far, padding between them included.
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

    /// Returns the extents that are full, in the order of their nodes, each with its live bytes.
    #[must_use]
    pub fn written(&self) -> &[(Extent, u64)] {
        &self.written.extents
    }

    /// Returns the extent that is being filled, if there is one, and how many of its bytes are
    /// taken. When the writer is finished the extent ends with the unit that its last node ends in.
    #[must_use]
    pub fn filling(&self) -> Option<(Extent, u64)> {
        let filling = self.filling.as_ref()?;
        Some((filling.extent, filling.at as u64))
    }

    /// Writes what is left and waits for every write. Nothing is installed; on a further tier what
    /// was written is durable then (T7), on the first one it is not.
    ///
    /// # Errors
    /// As the device says; the extents are given up then.
    pub fn finish(mut self) -> Result<Written> {
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
        // An extent must not have a new owner while a write to it is under way.
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

/// Takes an extent and a buffer for it, which need not hold all of it yet: most writers end within
/// their first nodes. Where space is scarce the extent may be shorter, but holds `len` bytes.
fn begin(
    extents: &Extents,
    options: &WriterOptions,
    written: &Written,
    spare: &mut Vec<Buffer>,
    len: usize,
) -> Result<Filling> {
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
        // What is written ends with a block of the device, and compressed nodes end anywhere before
        // it.
        None => Buffer::zeroed(
            (extent.bytes() as usize).min(len.next_multiple_of(DEVICE_BLOCK).max(FIRST_BUFFER)),
        ),
    };
    Ok(Filling {
        extent,
        buffer,
        at: 0,
        live: 0,
    })
}

/// Returns where a compressed node of `len` bytes begins, at or behind `at`.
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

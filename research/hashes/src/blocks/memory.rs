//! An in-memory space with meters, fault injection and simulated crashes.

use super::error::{Error, Result};
use super::free_extents::FreeExtents;
use super::meter::{BlockTransfers, TransferMeter};
use super::space::{BlockExtent, BlockSpace};
use alluvium_base::checksum::checksum;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// The number of bytes covered by one checksum.
const PAGE: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockFault {
    /// The n-th write from now on fails, and all later ones.
    WritesFrom(u64),
    /// The n-th read from now on fails, and all later ones.
    ReadsFrom(u64),
    /// Reads return corrupted bytes instead of an error, as if the checksum had not detected the
    /// corruption.
    NoChecksums,
}

/// An in-memory space.
///
/// It panics when a table writes bytes that the last commit references or that are not allocated:
/// either is a bug of the table.
///
/// ```
/// use research_hashes::blocks::{MemoryBlockSpace, BlockSpace};
/// let space = MemoryBlockSpace::new(64, 1 << 20).with_meter(64, 640);
/// let extent = space.allocate(128).unwrap();
/// space.write(extent.at, b"bytes").unwrap();
/// space.commit(b"root").unwrap();
/// assert_eq!(space.transfers(0).writes, 1);
/// assert_eq!(space.crashed().root().unwrap(), b"root");
/// ```
#[derive(Debug)]
pub struct MemoryBlockSpace {
    inner: RefCell<BlockSpaceState>,
}

#[derive(Clone, Debug)]
struct BlockSpaceState {
    align: u64,
    capacity: u64,
    bytes: Vec<u8>,
    sums: Vec<u64>,
    free: FreeExtents,
    used: BTreeMap<u64, BlockAllocation>,
    dead: Vec<BlockExtent>,
    root: Option<Vec<u8>>,
    durable: BTreeMap<u64, u64>,
    meters: Vec<TransferMeter>,
    writes_left: Option<u64>,
    reads_left: Option<u64>,
    skips_checksums: bool,
    writes: u64,
    written_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct BlockAllocation {
    bytes: u64,
    durable: bool,
}

impl MemoryBlockSpace {
    /// Creates an empty space of `capacity` bytes with extents aligned to `align`.
    ///
    /// # Panics
    /// When `align` is zero.
    #[must_use]
    pub fn new(align: u64, capacity: u64) -> MemoryBlockSpace {
        assert!(align > 0, "extents are aligned to a byte at least");
        let inner = BlockSpaceState {
            align,
            capacity,
            bytes: Vec::new(),
            sums: Vec::new(),
            free: FreeExtents::new(capacity),
            used: BTreeMap::new(),
            dead: Vec::new(),
            root: None,
            durable: BTreeMap::new(),
            meters: Vec::new(),
            writes_left: None,
            reads_left: None,
            skips_checksums: false,
            writes: 0,
            written_bytes: 0,
        };
        MemoryBlockSpace {
            inner: RefCell::new(inner),
        }
    }

    /// Adds a meter for a memory of `memory_bytes` in blocks of `block_bytes`.
    #[must_use]
    pub fn with_meter(self, block_bytes: u64, memory_bytes: u64) -> MemoryBlockSpace {
        self.inner
            .borrow_mut()
            .meters
            .push(TransferMeter::new(block_bytes, memory_bytes));
        self
    }

    /// Returns the counts of a meter.
    ///
    /// # Panics
    /// When there is no meter with this index.
    #[must_use]
    pub fn transfers(&self, meter: usize) -> BlockTransfers {
        self.inner.borrow().meters[meter].transfers()
    }

    /// Flushes and empties the memories of all meters.
    pub fn cool(&self) {
        self.inner
            .borrow_mut()
            .meters
            .iter_mut()
            .for_each(TransferMeter::cool);
    }

    /// Returns the number of bytes that are allocated or waiting for a commit to be freed.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        let inner = self.inner.borrow();
        inner.capacity - inner.free.bytes()
    }

    /// Returns the extents that are allocated and not released.
    #[must_use]
    pub fn extents(&self) -> Vec<BlockExtent> {
        let inner = self.inner.borrow();
        inner
            .used
            .iter()
            .map(|(&at, used)| BlockExtent {
                at,
                bytes: used.bytes,
            })
            .collect()
    }

    /// Returns the number of writes, and of bytes written.
    #[must_use]
    pub fn written(&self) -> (u64, u64) {
        let inner = self.inner.borrow();
        (inner.writes, inner.written_bytes)
    }

    pub fn inject(&self, fault: BlockFault) {
        let mut inner = self.inner.borrow_mut();
        match fault {
            BlockFault::WritesFrom(left) => inner.writes_left = Some(left),
            BlockFault::ReadsFrom(left) => inner.reads_left = Some(left),
            BlockFault::NoChecksums => inner.skips_checksums = true,
        }
    }

    pub fn clear_faults(&self) {
        let mut inner = self.inner.borrow_mut();
        (inner.writes_left, inner.reads_left, inner.skips_checksums) = (None, None, false);
    }

    /// Corrupts a byte, as a failing device would: its checksum is unchanged.
    pub fn damage(&self, at: u64, mask: u8) {
        if let Some(byte) = self.inner.borrow_mut().bytes.get_mut(at as usize) {
            *byte ^= mask;
        }
    }

    /// Returns the space in its state after a crash at this moment: the last commit, and noise in
    /// all bytes that were not durable (B3).
    #[must_use]
    pub fn crashed(&self) -> MemoryBlockSpace {
        let mut inner = self.inner.borrow().clone();
        (inner.writes_left, inner.reads_left, inner.skips_checksums) = (None, None, false);
        let old = std::mem::take(&mut inner.bytes);
        inner.bytes = (0..old.len()).map(|at| (at * 37) as u8 | 1).collect();
        inner.free = FreeExtents::new(inner.capacity);
        inner.dead.clear();
        let durable: Vec<BlockExtent> = inner
            .durable
            .iter()
            .map(|(&at, &bytes)| BlockExtent { at, bytes })
            .collect();
        inner.used = durable
            .iter()
            .map(|extent| {
                (
                    extent.at,
                    BlockAllocation {
                        bytes: extent.bytes,
                        durable: true,
                    },
                )
            })
            .collect();
        let mut taken: Vec<BlockExtent> = Vec::new();
        for &BlockExtent { at, bytes } in &durable {
            let (from, end) = (at as usize, ((at + bytes) as usize).min(old.len()));
            if from < end {
                inner.bytes[from..end].copy_from_slice(&old[from..end]);
            }
            taken.push(BlockExtent {
                at,
                bytes: inner.rounded(bytes),
            });
        }
        let mut next = 0;
        let mut free = FreeExtents::default();
        for extent in taken {
            if extent.at > next {
                free.give(BlockExtent {
                    at: next,
                    bytes: extent.at - next,
                });
            }
            next = extent.at + extent.bytes;
        }
        if inner.capacity > next {
            free.give(BlockExtent {
                at: next,
                bytes: inner.capacity - next,
            });
        }
        inner.free = free;
        for page in 0..inner.sums.len() {
            inner.seal(page);
        }
        MemoryBlockSpace {
            inner: RefCell::new(inner),
        }
    }
}

impl BlockSpaceState {
    fn rounded(&self, bytes: u64) -> u64 {
        bytes.next_multiple_of(self.align)
    }

    /// Computes the checksum of a page.
    fn seal(&mut self, page: usize) {
        let from = page * PAGE;
        self.sums[page] = checksum(&self.bytes[from..(from + PAGE).min(self.bytes.len())]);
    }

    fn release(&mut self, extent: BlockExtent) {
        let used = self
            .used
            .remove(&extent.at)
            .expect("what is released was allocated");
        assert_eq!(used.bytes, extent.bytes, "an extent is released as a whole");
        let whole = BlockExtent {
            at: extent.at,
            bytes: self.rounded(extent.bytes),
        };
        if used.durable {
            self.dead.push(whole);
        } else {
            self.free.give(whole);
            for meter in &mut self.meters {
                meter.discard(whole.at, whole.bytes);
            }
        }
    }

    fn charge(left: &mut Option<u64>, what: &'static str, at: u64, bytes: usize) -> Result<()> {
        match left {
            Some(0 | 1) => {
                *left = Some(0);
                Err(Error::Device {
                    what,
                    at,
                    bytes: bytes as u64,
                })
            }
            Some(more) => {
                *more -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl BlockSpace for MemoryBlockSpace {
    fn allocate(&self, bytes: u64) -> Result<BlockExtent> {
        let inner = &mut *self.inner.borrow_mut();
        let bytes = bytes.max(1);
        let left = inner.free.bytes();
        let whole = match bytes.checked_next_multiple_of(inner.align) {
            Some(whole) if whole <= left => inner.free.take(whole),
            _ => None,
        };
        let Some(whole) = whole else {
            return Err(Error::Full { wanted: bytes, left });
        };
        inner.used.insert(
            whole.at,
            BlockAllocation {
                bytes,
                durable: false,
            },
        );
        Ok(BlockExtent { at: whole.at, bytes })
    }

    fn trim(&self, extent: BlockExtent, bytes: u64) -> Result<BlockExtent> {
        let inner = &mut *self.inner.borrow_mut();
        let bytes = bytes.max(1);
        let used = inner
            .used
            .get_mut(&extent.at)
            .expect("what is trimmed was allocated");
        assert!(
            !used.durable && used.bytes == extent.bytes,
            "only a new extent is trimmed"
        );
        if bytes > extent.bytes {
            return Err(Error::damaged(extent.at, "trimmed length", extent.bytes, bytes));
        }
        used.bytes = bytes;
        let (kept, had) = (inner.rounded(bytes), inner.rounded(extent.bytes));
        if kept < had {
            inner.free.give(BlockExtent {
                at: extent.at + kept,
                bytes: had - kept,
            });
        }
        Ok(BlockExtent { at: extent.at, bytes })
    }

    fn release(&self, extent: BlockExtent) {
        self.inner.borrow_mut().release(extent);
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let inner = &mut *self.inner.borrow_mut();
        BlockSpaceState::charge(&mut inner.reads_left, "reading", at, into.len())?;
        let end = at.saturating_add(into.len() as u64);
        if end > inner.bytes.len() as u64 {
            return Err(Error::damaged(
                at,
                "place",
                format!("below {}", inner.bytes.len()),
                end,
            ));
        }
        for meter in &mut inner.meters {
            meter.read(at, into.len() as u64);
        }
        let (from, end) = (at as usize, end as usize);
        if !inner.skips_checksums && !into.is_empty() {
            for page in from / PAGE..=(end - 1) / PAGE {
                let bytes = &inner.bytes[page * PAGE..((page + 1) * PAGE).min(inner.bytes.len())];
                let found = checksum(bytes);
                if inner.sums[page] != found {
                    let expected = format!("{:#x}", inner.sums[page]);
                    return Err(Error::damaged(
                        (page * PAGE) as u64,
                        "checksum",
                        expected,
                        format!("{found:#x}"),
                    ));
                }
            }
        }
        into.copy_from_slice(&inner.bytes[from..end]);
        Ok(())
    }

    fn write(&self, at: u64, from: &[u8]) -> Result<()> {
        let inner = &mut *self.inner.borrow_mut();
        let end = at + from.len() as u64;
        let (&start, used) = inner
            .used
            .range(..=at)
            .next_back()
            .expect("bytes that are written were allocated");
        assert!(end <= start + used.bytes, "a write stays in its extent");
        assert!(!used.durable, "the last commit reaches what is written (B1)");
        BlockSpaceState::charge(&mut inner.writes_left, "writing", at, from.len())?;
        inner.writes += 1;
        inner.written_bytes += from.len() as u64;
        for meter in &mut inner.meters {
            meter.write(at, from.len() as u64);
        }
        if end as usize > inner.bytes.len() {
            let first = inner.bytes.len() / PAGE;
            inner.bytes.resize((end as usize).next_multiple_of(PAGE), 0);
            inner.sums.resize(inner.bytes.len() / PAGE, 0);
            (first..inner.sums.len()).for_each(|page| inner.seal(page));
        }
        inner.bytes[at as usize..end as usize].copy_from_slice(from);
        if !from.is_empty() {
            (at as usize / PAGE..=(end as usize - 1) / PAGE).for_each(|page| inner.seal(page));
        }
        Ok(())
    }

    fn commit(&self, root: &[u8]) -> Result<()> {
        let inner = &mut *self.inner.borrow_mut();
        BlockSpaceState::charge(&mut inner.writes_left, "writing", 0, root.len())?;
        inner.root = Some(root.to_vec());
        inner.used.values_mut().for_each(|used| used.durable = true);
        inner.durable = inner.used.iter().map(|(&at, used)| (at, used.bytes)).collect();
        for extent in std::mem::take(&mut inner.dead) {
            inner.free.give(extent);
            inner
                .meters
                .iter_mut()
                .for_each(|meter| meter.discard(extent.at, extent.bytes));
        }
        inner.meters.iter_mut().for_each(TransferMeter::flush);
        Ok(())
    }

    fn root(&self) -> Option<Vec<u8>> {
        self.inner.borrow().root.clone()
    }
}

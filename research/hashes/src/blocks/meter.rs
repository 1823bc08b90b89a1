//! Counts block transfers below a cache of any size.

/// Blocks transferred between a memory and the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockTransfers {
    /// The number of blocks read.
    pub reads: u64,
    /// The number of blocks written.
    pub writes: u64,
}

impl BlockTransfers {
    /// Returns the cost of the transfers if a write costs `omega` reads. With `omega` = 1 it is
    /// the cost in the DAM model.
    #[must_use]
    pub fn cost(&self, omega: f64) -> f64 {
        self.reads as f64 + omega * self.writes as f64
    }

    /// Returns the transfers since an earlier count.
    #[must_use]
    pub fn since(&self, earlier: BlockTransfers) -> BlockTransfers {
        BlockTransfers {
            reads: self.reads - earlier.reads,
            writes: self.writes - earlier.writes,
        }
    }

    /// Returns the total number of transfers.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.reads + self.writes
    }
}

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct LruSlot {
    block: u64,
    before: u32,
    after: u32,
    dirty: bool,
}

/// A memory of M bytes in blocks of B bytes with LRU replacement, which is within a factor of two
/// of an ideal cache. Evicted dirty blocks are written.
///
/// ```
/// use research_hashes::blocks::TransferMeter;
/// let mut meter = TransferMeter::new(100, 400);
/// meter.write(0, 250); // blocks 0 to 2
/// meter.read(100, 1);
/// meter.read(1000, 300); // blocks 10 to 12 drive blocks 0 and 2 out
/// assert_eq!((meter.transfers().reads, meter.transfers().writes), (3, 2));
/// ```
#[derive(Clone, Debug)]
pub struct TransferMeter {
    block_bytes: u64,
    capacity: usize,
    slot_of: Vec<u32>,
    on_device: Vec<bool>,
    slots: Vec<LruSlot>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    transfers: BlockTransfers,
}

impl TransferMeter {
    /// Creates a meter for a memory of `memory_bytes` in blocks of `block_bytes`.
    ///
    /// # Panics
    /// When the memory is smaller than a block.
    #[must_use]
    pub fn new(block_bytes: u64, memory_bytes: u64) -> TransferMeter {
        assert!(
            block_bytes > 0 && memory_bytes >= block_bytes,
            "the memory holds a block"
        );
        TransferMeter {
            block_bytes,
            capacity: usize::try_from(memory_bytes / block_bytes)
                .unwrap_or(usize::MAX)
                .min(1 << 28),
            slot_of: Vec::new(),
            on_device: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            transfers: BlockTransfers::default(),
        }
    }

    /// Returns the transfers so far.
    #[must_use]
    pub fn transfers(&self) -> BlockTransfers {
        self.transfers
    }

    /// Returns B, the block size in bytes.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Counts a read of the range's blocks that are not in memory.
    pub fn read(&mut self, at: u64, bytes: u64) {
        for block in self.blocks(at, bytes) {
            self.touch(block, false, true);
        }
    }

    /// Counts a write. A write that covers a block partially also reads the block, if the device
    /// has it.
    pub fn write(&mut self, at: u64, bytes: u64) {
        for block in self.blocks(at, bytes) {
            let whole = block * self.block_bytes >= at && (block + 1) * self.block_bytes <= at + bytes;
            self.touch(block, true, !whole);
        }
    }

    /// Drops blocks that will not be read again, so they are not written.
    pub fn discard(&mut self, at: u64, bytes: u64) {
        let (first, end) = (at.div_ceil(self.block_bytes), (at + bytes) / self.block_bytes);
        for block in first..end {
            let Some(&slot) = self.slot_of.get(block as usize) else {
                return;
            };
            self.on_device[block as usize] = false;
            if slot != NONE {
                self.unlink(slot);
                self.free.push(slot);
                self.slot_of[block as usize] = NONE;
            }
        }
    }

    /// Counts a write of each changed block.
    pub fn flush(&mut self) {
        for slot in &mut self.slots {
            if std::mem::take(&mut slot.dirty) && self.slot_of[slot.block as usize] != NONE {
                self.transfers.writes += 1;
                self.on_device[slot.block as usize] = true;
            }
        }
    }

    /// Flushes and empties the memory, so that later accesses start with a cold cache.
    pub fn cool(&mut self) {
        self.flush();
        self.slots.clear();
        self.free.clear();
        self.slot_of.fill(NONE);
        (self.newest, self.oldest) = (NONE, NONE);
    }

    fn blocks(&self, at: u64, bytes: u64) -> std::ops::Range<u64> {
        let end = if bytes == 0 { at } else { at + bytes };
        at / self.block_bytes..end.div_ceil(self.block_bytes).max(at / self.block_bytes)
    }

    fn touch(&mut self, block: u64, dirty: bool, fetch: bool) {
        let index = block as usize;
        if index >= self.slot_of.len() {
            self.slot_of.resize(index + 1, NONE);
            self.on_device.resize(index + 1, false);
        }
        let mut slot = self.slot_of[index];
        if slot == NONE {
            if fetch && (!dirty || self.on_device[index]) {
                self.transfers.reads += 1;
            }
            slot = self.admit(block);
        } else if slot != self.newest {
            self.unlink(slot);
            self.link(slot);
        }
        self.slots[slot as usize].dirty |= dirty;
    }

    fn admit(&mut self, block: u64) -> u32 {
        if self.slots.len() - self.free.len() >= self.capacity {
            let victim = self.oldest;
            let evicted = self.slots[victim as usize];
            if evicted.dirty {
                self.transfers.writes += 1;
                self.on_device[evicted.block as usize] = true;
            }
            self.unlink(victim);
            self.slot_of[evicted.block as usize] = NONE;
            self.free.push(victim);
        }
        let fresh = LruSlot {
            block,
            before: NONE,
            after: NONE,
            dirty: false,
        };
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(fresh);
                self.slots.len() as u32 - 1
            }
        };
        self.slots[slot as usize] = fresh;
        self.slot_of[block as usize] = slot;
        self.link(slot);
        slot
    }

    fn link(&mut self, slot: u32) {
        self.slots[slot as usize].after = self.newest;
        self.slots[slot as usize].before = NONE;
        match self.newest {
            NONE => self.oldest = slot,
            newest => self.slots[newest as usize].before = slot,
        }
        self.newest = slot;
    }

    fn unlink(&mut self, slot: u32) {
        let LruSlot { before, after, .. } = self.slots[slot as usize];
        match before {
            NONE => self.newest = after,
            before => self.slots[before as usize].after = after,
        }
        match after {
            NONE => self.oldest = before,
            after => self.slots[after as usize].before = before,
        }
    }
}

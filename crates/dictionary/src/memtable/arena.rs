//! The memory of a memtable: a single address space reservation that is allocated upwards, never
//! moves, and is freed as a whole. Only this file creates pointers into it.

use super::MAX_KEY;
use super::node::{ChildArray, NodeBank, NodeBankKind as BankKind, NodeId, first_word};
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use alluvium_base::{Message, MessageKind, SequenceNumber};
use alluvium_storage::memory::{AnonymousMemory, HUGE_PAGE};
use crossbeam_utils::CachePadded;
use std::alloc::{Layout, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32 as Settled;

/// A position in the arena: its offset in units of eight bytes. Zero means "none".
pub(super) type ArenaOffset = u32;

pub(super) const UNIT: usize = align_of::<ArenaRecordHeader>();
const _: () = assert!(UNIT == 8);

/// Size of a cache line in bytes, which is the alignment of banks and the unit of prefetches.
pub(super) const LINE: usize = 64;

/// Minimum size limit, in bytes, of a memtable that uses huge pages. In a smaller memtable, huge
/// pages waste more memory than the time they save is worth.
const HUGE_FROM: usize = 2 * HUGE_PAGE;

/// Maximum number of bytes that the system is asked to back with physical pages in advance, and
/// (`SLICE`) the number of bytes per request. Providing a huge page takes the system a tenth of a
/// millisecond, or five milliseconds if the host of a virtual machine has to find one first.
const AHEAD: usize = 8 << 20;
const SLICE: usize = HUGE_PAGE;

/// Size in the arena, in bytes, of the atomic word that represents a memtable node. The word
/// contains the node's lock and the offset of its bank.
pub(super) const WORD: usize = size_of::<AtomicU64>().next_multiple_of(UNIT);

/// Header of a record, which the key and the operand follow.
struct ArenaRecordHeader {
    sequence: SequenceNumber,
    expires_ms: u64,
    /// The next older record of the same key.
    older: AtomicU32,
    /// An older record of the same key, which usually skips several versions (M7).
    jump: AtomicU32,
    operand_len: u32,
    /// The key length, the message kind, and the rank of the jump, packed into one word. It is a
    /// standard atomic even under the model checker, because it is set before the record is
    /// published and never changes afterwards.
    about: Settled,
}

const _: () = assert!(cfg!(alluvium_model_check) || size_of::<ArenaRecordHeader>() == 32);

const KEY_LEN: u32 = (1 << 20) - 1;
const KIND_AT: u32 = 20;
const RANK_AT: u32 = 24;
const _: () = assert!(MAX_KEY <= KEY_LEN as usize);

/// The memory block of a memtable. Only its used part occupies physical memory, rounded up to whole
/// pages. Huge pages avoid page table walks in random reads, which would otherwise take a third of
/// a lookup's time in 64 MiB.
#[derive(Debug)]
pub(super) struct MemtableArena {
    memory: AnonymousMemory,
    /// End of the used part of the memory, in bytes. It has its own cache line, because writers
    /// change it now and then while readers need the adjacent fields.
    used: CachePadded<AtomicUsize>,
    /// End of the part that the system was asked to back with physical memory.
    provided: AtomicUsize,
}

impl MemtableArena {
    pub(super) fn new(limit: usize) -> MemtableArena {
        let memory = AnonymousMemory::reserve(limit).unwrap_or_else(|_| {
            handle_alloc_error(
                Layout::from_size_align(limit, LINE).expect("a memtable's limit fits the machine"),
            )
        });
        if limit >= HUGE_FROM {
            memory.prefer_huge_pages(0, limit);
        }
        MemtableArena {
            memory,
            // The first cache line is never allocated, so that offset 0 can mean "none".
            used: CachePadded::new(AtomicUsize::new(LINE)),
            provided: AtomicUsize::new(0),
        }
    }

    /// Returns an empty arena that reuses the same memory. All offsets into the old arena become
    /// invalid. Reallocated memory is written before it is read.
    pub(super) fn cleared(self) -> MemtableArena {
        debug_assert!(
            self.used.load(Ordering::Relaxed) <= self.memory.len(),
            "M5: within the limit"
        );
        let provided = AtomicUsize::new(self.provided.into_inner().max(self.used.load(Ordering::Relaxed)));
        MemtableArena {
            used: CachePadded::new(AtomicUsize::new(LINE)),
            provided,
            ..self
        }
    }

    /// Asks the system to back the next slice of the arena with physical memory, unless enough is
    /// already backed ahead of use. How far ahead depends on the amount used, so that a small arena
    /// stays small. Never backs more than the first `most` bytes. Returns whether a slice was
    /// backed. Only one thread at a time may call this.
    pub(super) fn provide(&self, most: usize) -> bool {
        let used = self.used.load(Ordering::Relaxed);
        let wanted = used.saturating_add(AHEAD.min(used.saturating_mul(4)));
        // Memory that writers have already used is backed.
        let from = self.provided.load(Ordering::Relaxed).max(used / SLICE * SLICE);
        let to = (from + SLICE).min(most).min(self.memory.len());
        if from >= wanted || from >= to {
            return false;
        }
        debug_assert!(
            from < to && to <= self.memory.len(),
            "{from}..{to} of the reservation"
        );
        self.memory.populate(from, to - from);
        self.provided.store(to, Ordering::Relaxed);
        true
    }

    /// Returns the number of bytes of the arena that are allocated.
    pub(super) fn used(&self) -> usize {
        debug_assert!(
            self.used.load(Ordering::Relaxed) >= LINE,
            "M5: the first line is taken from the beginning"
        );
        self.used.load(Ordering::Relaxed) - LINE
    }

    /// Allocates `bytes` bytes with alignment `align`, which are freed only with the whole arena.
    /// Returns their offset, or `None` if the arena has too little space left. Memory that the
    /// memtable allocates elsewhere is also taken here and left unused, so that a single limit
    /// bounds the total (M5).
    pub(super) fn take(&self, bytes: usize, align: usize) -> Option<usize> {
        debug_assert!(
            bytes > 0 && align.is_power_of_two() && align >= UNIT,
            "{bytes} bytes, by {align}"
        );
        let end = |used: usize| used.next_multiple_of(align).checked_add(bytes);
        let take = |used: usize| end(used).filter(|&end| end <= self.memory.len());
        let used = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .ok()?;
        Some(used.next_multiple_of(align))
    }

    /// Returns the number of bytes that a record occupies in the arena.
    pub(super) fn cost(key: &[u8], operand: &[u8]) -> usize {
        (size_of::<ArenaRecordHeader>() + key.len() + operand.len()).next_multiple_of(UNIT)
    }

    #[inline]
    fn at(&self, place: ArenaOffset) -> NonNull<u8> {
        let offset = place as usize * UNIT;
        debug_assert!(offset != 0 && offset < self.used.load(Ordering::Relaxed));
        // SAFETY: only the `put` functions create places (M4), so the offset is inside the
        // reservation.
        unsafe { self.memory.start().add(offset) }
    }

    /// Writes a record to the allocated bytes at `at` and returns its place.
    ///
    /// # Safety
    /// The bytes `at..at + cost` must have been allocated for this call alone, and `at` must be a
    /// multiple of the unit.
    pub(super) unsafe fn put_record(&self, at: usize, key: &[u8], message: &Message<'_>) -> ArenaOffset {
        debug_assert!(at >= LINE && at.is_multiple_of(UNIT), "M4: a record at {at}");
        debug_assert!(key.len() <= KEY_LEN as usize, "a key of {} bytes", key.len());
        let header = ArenaRecordHeader {
            sequence: message.sequence,
            expires_ms: message.expires_ms,
            older: AtomicU32::new(0),
            jump: AtomicU32::new(0),
            operand_len: message.operand.len() as u32,
            about: (key.len() as u32 | (message.kind as u32) << KIND_AT).into(),
        };
        // SAFETY: the caller guarantees that the bytes are allocated for this call alone; allocated
        // bytes are inside the reservation.
        unsafe {
            let to = self.memory.start().as_ptr().add(at);
            to.cast::<ArenaRecordHeader>().write(header);
            let bytes = to.add(size_of::<ArenaRecordHeader>());
            bytes.copy_from_nonoverlapping(key.as_ptr(), key.len());
            bytes
                .add(key.len())
                .copy_from_nonoverlapping(message.operand.as_ptr(), message.operand.len());
        }
        (at / UNIT) as ArenaOffset
    }

    /// Writes an empty bank to the allocated bytes at `at` and returns its place.
    ///
    /// # Safety
    /// The bytes `at..at + kind.bytes()` must have been allocated for this call alone, and `at`
    /// must be the beginning of a cache line.
    pub(super) unsafe fn put_bank(&self, at: usize, kind: BankKind) -> ArenaOffset {
        debug_assert!(at >= LINE && at.is_multiple_of(LINE), "M4: a bank at {at}");
        // SAFETY: the caller guarantees that the bytes are allocated for this call alone; the
        // children of an inner node directly follow its bank.
        unsafe {
            let to = self.memory.start().as_ptr().add(at);
            to.cast::<NodeBank>().write(NodeBank::new(kind));
            if kind == BankKind::Inner {
                to.add(size_of::<NodeBank>())
                    .cast::<ChildArray>()
                    .write(ChildArray::new());
            }
        }
        (at / UNIT) as ArenaOffset
    }

    /// Writes the word of a new node whose bank is at `bank`. The node is locked.
    ///
    /// # Safety
    /// The bytes `at..at + WORD` must have been allocated for this call alone, and `at` must be a
    /// multiple of the unit.
    pub(super) unsafe fn put_word(&self, at: usize, bank: ArenaOffset) -> NodeId {
        // SAFETY: the caller guarantees that the bytes are allocated for this call alone.
        unsafe {
            let to = self.memory.start().as_ptr().add(at);
            debug_assert!(
                at.is_multiple_of(UNIT) && bank != 0,
                "M4: a node at {at} with a bank at {bank}"
            );
            to.cast::<AtomicU64>().write(AtomicU64::new(first_word(bank)));
        }
        (at / UNIT) as NodeId
    }

    /// Returns the record at `place`, which must be an offset that `put_record` has returned.
    #[inline]
    pub(super) fn record(&self, place: ArenaOffset) -> ArenaRecord<'_> {
        debug_assert!(place != 0, "M2: place 0 is no record");
        ArenaRecord {
            start: self.at(place),
            arena: PhantomData,
        }
    }

    /// Returns the key of the record at `place`, or an empty key for place 0, which an optimistic
    /// reader may encounter.
    #[inline]
    pub(super) fn key(&self, place: ArenaOffset) -> &[u8] {
        if place == 0 { &[] } else { self.record(place).key() }
    }

    /// Returns the word of the existing node `id`.
    pub(super) fn word(&self, id: NodeId) -> &AtomicU64 {
        // SAFETY: only `put_word` creates node ids, and other threads obtain them by acquire loads
        // of release stores (M4); words are changed only atomically.
        unsafe { self.at(id).cast::<AtomicU64>().as_ref() }
    }

    /// Returns the bank at `place`, which must be an offset that `put_bank` has returned.
    pub(super) fn bank(&self, place: ArenaOffset) -> &NodeBank {
        // SAFETY: only `put_bank` creates places of banks, and other threads obtain them by acquire
        // loads of release stores, from the word of a node (M4); banks are changed only by atomic
        // operations.
        unsafe { self.at(place).cast::<NodeBank>().as_ref() }
    }

    /// Returns the array of children that follows the bank of an inner node.
    pub(super) fn children(&self, place: ArenaOffset) -> &ChildArray {
        debug_assert!(self.bank(place).is_inner());
        // SAFETY: as in `bank`. In addition, a bank never changes its kind, and the children of an
        // inner node were written together with its bank, directly after it.
        unsafe {
            self.at(place)
                .add(size_of::<NodeBank>())
                .cast::<ChildArray>()
                .as_ref()
        }
    }

    /// Prefetches `bytes` bytes starting at `place`. This is only a hint, and any place is
    /// permitted.
    #[inline(always)]
    pub(super) fn prefetch(&self, place: ArenaOffset, bytes: usize) {
        #[cfg(target_arch = "x86_64")]
        for line in (0..bytes).step_by(LINE) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let address = self
                .memory
                .start()
                .as_ptr()
                .wrapping_add(place as usize * UNIT + line);
            // SAFETY: a prefetch has no effect that a program can observe, whatever its address is.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (place, bytes);
    }
}

/// A reference to a record in the arena.
#[derive(Clone, Copy)]
pub(super) struct ArenaRecord<'a> {
    start: NonNull<u8>,
    arena: PhantomData<&'a MemtableArena>,
}

impl<'a> ArenaRecord<'a> {
    #[inline]
    fn header(self) -> &'a ArenaRecordHeader {
        // SAFETY: a header was written here before the place of the record was published.
        // Afterwards only its link to the older version changes, atomically.
        unsafe { self.start.cast::<ArenaRecordHeader>().as_ref() }
    }

    #[inline]
    fn bytes(self, from: usize, len: usize) -> &'a [u8] {
        // SAFETY: the key and the operand follow their header in the block. They were written
        // before the place of the record was published, and they never change.
        unsafe {
            std::slice::from_raw_parts(
                self.start.as_ptr().add(size_of::<ArenaRecordHeader>() + from),
                len,
            )
        }
    }

    #[inline(always)]
    fn about(self) -> u32 {
        self.header().about.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(super) fn key(self) -> &'a [u8] {
        self.bytes(0, (self.about() & KEY_LEN) as usize)
    }

    #[inline]
    pub(super) fn sequence(self) -> SequenceNumber {
        self.header().sequence
    }

    #[inline]
    pub(super) fn message(self) -> Message<'a> {
        let (header, about) = (self.header(), self.about());
        Message {
            sequence: header.sequence,
            kind: match about >> KIND_AT & 3 {
                0 => MessageKind::Put,
                1 => MessageKind::Delete,
                2 => MessageKind::Merge,
                _ => MessageKind::TimedDelete,
            },
            expires_ms: header.expires_ms,
            operand: self.bytes((about & KEY_LEN) as usize, header.operand_len as usize),
        }
    }

    #[inline]
    pub(super) fn older(self) -> ArenaOffset {
        self.header().older.load(Ordering::Acquire)
    }

    pub(super) fn set_older(self, place: ArenaOffset) {
        self.header().older.store(place, Ordering::Release);
    }

    /// Returns an older record of the same key, or 0 if there is none. A reader may continue there
    /// if even that record is too new for it.
    #[inline]
    pub(super) fn jump(self) -> ArenaOffset {
        self.header().jump.load(Ordering::Acquire)
    }

    /// Returns the rank of the jump: the logarithm of the number of versions that it skips.
    pub(super) fn rank(self) -> u32 {
        self.about() >> RANK_AT
    }

    /// Sets the target and the rank of the jump. Must be called before the record is published.
    pub(super) fn set_jump(self, to: ArenaOffset, rank: u32) {
        debug_assert!(self.rank() == 0 && self.jump() == 0, "M7: a jump is set once");
        assert!(rank < 1 << (u32::BITS - RANK_AT), "M7: a jump of rank {rank}");
        let header = self.header();
        header.jump.store(to, Ordering::Release);
        header
            .about
            .store(self.about() | rank << RANK_AT, Ordering::Relaxed);
    }
}

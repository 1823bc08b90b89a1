//! The memory of a memtable: one reservation, allocated upwards, never moved, and freed as a whole.
//! All pointers into it are created in this file.

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

/// A place in the arena: an offset in units of eight bytes. Zero means none.
pub(super) type ArenaOffset = u32;

pub(super) const UNIT: usize = align_of::<ArenaRecordHeader>();
const _: () = assert!(UNIT == 8);

/// Alignment of banks and unit of prefetching: a cache line, in bytes.
pub(super) const LINE: usize = 64;

/// Minimum limit for huge pages; below it they would cost more memory than they save time.
const HUGE_FROM: usize = 2 * HUGE_PAGE;

/// Maximum memory that the system provides beyond what is used, and the amount per request.
/// Providing a huge page takes the system a tenth of a millisecond, or five milliseconds if a host
/// of virtual machines must find it first.
const AHEAD: usize = 8 << 20;
const SLICE: usize = HUGE_PAGE;

/// Size of a node's word.
pub(super) const WORD: usize = size_of::<AtomicU64>().next_multiple_of(UNIT);

/// Header of a record, followed by key and operand.
struct ArenaRecordHeader {
    sequence: SequenceNumber,
    expires_ms: u64,
    /// The next older record of the same key.
    older: AtomicU32,
    /// An older record of the same key, usually further back (M7).
    jump: AtomicU32,
    operand_len: u32,
    /// Length of the key, kind, and rank of the jump. A standard atomic also under the model
    /// checker, because it is set before the record is published and never changed afterwards.
    about: Settled,
}

const _: () = assert!(cfg!(alluvium_model_check) || size_of::<ArenaRecordHeader>() == 32);

const KEY_LEN: u32 = (1 << 20) - 1;
const KIND_AT: u32 = 20;
const RANK_AT: u32 = 24;
const _: () = assert!(MAX_KEY <= KEY_LEN as usize);

/// The block of memory. It occupies only as much physical memory as was used, rounded up to pages.
/// Huge pages save readers with random access page table walks (otherwise a third of a lookup in 64
/// MiB).
#[derive(Debug)]
pub(super) struct MemtableArena {
    memory: AnonymousMemory,
    /// End of the used memory. On its own cache line, because writers change it now and then while
    /// readers need the adjacent fields.
    used: CachePadded<AtomicUsize>,
    /// End of the memory that the system was asked to provide.
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
            // The first line is never handed out, so that place 0 can mean "none".
            used: CachePadded::new(AtomicUsize::new(LINE)),
            provided: AtomicUsize::new(0),
        }
    }

    /// Returns the same memory, empty. Places in it are invalid. Memory allocated again is written
    /// before it is read.
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

    /// Makes the system provide the next slice of memory, unless enough is provided already. The
    /// amount provided ahead grows with the amount used, so that a small arena stays small, and
    /// never exceeds `most`. Returns whether a slice was provided. Only one thread may call this at
    /// a time.
    pub(super) fn provide(&self, most: usize) -> bool {
        let used = self.used.load(Ordering::Relaxed);
        let wanted = used.saturating_add(AHEAD.min(used.saturating_mul(4)));
        // Memory that writers have reached is provided already.
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

    /// Returns the number of bytes used.
    pub(super) fn used(&self) -> usize {
        debug_assert!(
            self.used.load(Ordering::Relaxed) >= LINE,
            "M5: the first line is taken from the beginning"
        );
        self.used.load(Ordering::Relaxed) - LINE
    }

    /// Allocates `bytes` permanently, aligned to `align`. Returns their offset, or `None` if too
    /// few are left. Memory allocated elsewhere on behalf of the memtable is charged by allocating
    /// as much here and leaving it unused, so that a single limit bounds the total (M5).
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

    /// Returns the size of a record in the arena.
    pub(super) fn cost(key: &[u8], operand: &[u8]) -> usize {
        (size_of::<ArenaRecordHeader>() + key.len() + operand.len()).next_multiple_of(UNIT)
    }

    #[inline]
    fn at(&self, place: ArenaOffset) -> NonNull<u8> {
        let offset = place as usize * UNIT;
        debug_assert!(offset != 0 && offset < self.used.load(Ordering::Relaxed));
        // SAFETY: places come from the `put` functions alone (M4), so the offset is inside the
        // reservation.
        unsafe { self.memory.start().add(offset) }
    }

    /// Writes a record.
    ///
    /// # Safety
    /// `at..at + cost` was taken, begins at a unit, and belongs to this call alone.
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
        // SAFETY: by the caller's promise; what was taken is inside the reservation.
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

    /// Writes an empty bank.
    ///
    /// # Safety
    /// `at..at + kind.bytes()` was taken, begins at a line, and belongs to this call alone.
    pub(super) unsafe fn put_bank(&self, at: usize, kind: BankKind) -> ArenaOffset {
        debug_assert!(at >= LINE && at.is_multiple_of(LINE), "M4: a bank at {at}");
        // SAFETY: by the caller's promise; the children of an inner node follow its bank.
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

    /// Writes the word of a new node with this bank, locked.
    ///
    /// # Safety
    /// `at..at + WORD` was taken, begins at a unit, and belongs to this call alone.
    pub(super) unsafe fn put_word(&self, at: usize, bank: ArenaOffset) -> NodeId {
        // SAFETY: by the caller's promise.
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

    /// Returns the record at `place`, an offset returned by `put_record`.
    #[inline]
    pub(super) fn record(&self, place: ArenaOffset) -> ArenaRecord<'_> {
        debug_assert!(place != 0, "M2: place 0 is no record");
        ArenaRecord {
            start: self.at(place),
            arena: PhantomData,
        }
    }

    /// Returns the key of a record; empty for place 0, which an optimistic reader may see.
    #[inline]
    pub(super) fn key(&self, place: ArenaOffset) -> &[u8] {
        if place == 0 { &[] } else { self.record(place).key() }
    }

    /// Returns the word of an existing node.
    pub(super) fn word(&self, id: NodeId) -> &AtomicU64 {
        // SAFETY: ids come from `put_word` alone and reach others by release and acquire (M4);
        // words change atomically.
        unsafe { self.at(id).cast::<AtomicU64>().as_ref() }
    }

    /// Returns the bank at `place`, an offset returned by `put_bank`.
    pub(super) fn bank(&self, place: ArenaOffset) -> &NodeBank {
        // SAFETY: places of banks come from `put_bank` alone and reach others by release and
        // acquire, in a node's word (M4); banks change by atomics only.
        unsafe { self.at(place).cast::<NodeBank>().as_ref() }
    }

    /// Returns the children that follow the bank of an inner node.
    pub(super) fn children(&self, place: ArenaOffset) -> &ChildArray {
        debug_assert!(self.bank(place).is_inner());
        // SAFETY: as in `bank`; a bank never changes its kind, and the children of an inner node
        // were written directly after its bank, together with it.
        unsafe {
            self.at(place)
                .add(size_of::<NodeBank>())
                .cast::<ChildArray>()
                .as_ref()
        }
    }

    /// Prefetches `bytes` from a place on. Only a hint; any place is allowed.
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
            // SAFETY: a prefetch has no effect that a program can observe, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (place, bytes);
    }
}

/// A record in the arena.
#[derive(Clone, Copy)]
pub(super) struct ArenaRecord<'a> {
    start: NonNull<u8>,
    arena: PhantomData<&'a MemtableArena>,
}

impl<'a> ArenaRecord<'a> {
    #[inline]
    fn header(self) -> &'a ArenaRecordHeader {
        // SAFETY: a header was written here before the place was published, and only its link
        // changes, atomically.
        unsafe { self.start.cast::<ArenaRecordHeader>().as_ref() }
    }

    #[inline]
    fn bytes(self, from: usize, len: usize) -> &'a [u8] {
        // SAFETY: key and operand follow their header in the block, written before the place was
        // published and never changed.
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
                _ => MessageKind::Merge,
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

    /// Returns an older record of the key, which a reader may follow if its sequence number is
    /// still too new for the reader; 0 if there is none.
    #[inline]
    pub(super) fn jump(self) -> ArenaOffset {
        self.header().jump.load(Ordering::Acquire)
    }

    /// Returns the rank of the jump, the logarithm of its length.
    pub(super) fn rank(self) -> u32 {
        self.about() >> RANK_AT
    }

    /// Sets the target of the jump, before the record is published.
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

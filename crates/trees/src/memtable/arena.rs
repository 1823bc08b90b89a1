//! Where records live: one block of memory, handed out upwards, never moved, freed as a whole.

use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use alluvium_base::{Kind, Message, Sequence};
use crossbeam_utils::CachePadded;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// A record's place: its offset in units of eight bytes. Zero is no record.
pub(super) type Place = u32;

const UNIT: usize = align_of::<Header>();
const _: () = assert!(UNIT == 8);

/// What stands before a record's key and operand.
struct Header {
    sequence: Sequence,
    expires_ms: u64,
    /// The next older record of the same key.
    older: AtomicU32,
    key_len: u32,
    operand_len: u32,
    kind: Kind,
}

/// The block of memory. It is mapped lazily by the operating system, so an empty memtable costs little.
#[derive(Debug)]
pub(super) struct Arena {
    start: NonNull<u8>,
    layout: Layout,
    /// On a line of their own: every writer changes them, and readers need the line beside.
    counts: CachePadded<Counts>,
}

#[derive(Debug)]
struct Counts {
    used: AtomicUsize,
    records: AtomicUsize,
}

// SAFETY: the memory is handed out in disjoint pieces (`used` only grows), each written once by whoever took it
// and read by others only after its place was published with release and taken with acquire.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    pub(super) fn new(limit: usize) -> Arena {
        let layout = Layout::from_size_align(limit, 16).expect("a memtable's limit fits the machine");
        // SAFETY: the size is not zero: `Memtable::new` asks for at least 64 KiB.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        // The first unit is never handed out, so that place 0 can mean "none".
        let counts = Counts {
            used: AtomicUsize::new(UNIT),
            records: AtomicUsize::new(0),
        };
        Arena {
            start,
            layout,
            counts: CachePadded::new(counts),
        }
    }

    pub(super) fn used(&self) -> usize {
        self.counts.used.load(Ordering::Relaxed) - UNIT
    }

    pub(super) fn records(&self) -> usize {
        self.counts.records.load(Ordering::Relaxed)
    }

    /// How many bytes a record takes.
    pub(super) fn cost(key: &[u8], operand: &[u8]) -> usize {
        (size_of::<Header>() + key.len() + operand.len()).next_multiple_of(UNIT)
    }

    /// Writes a record; `None` when there is no room for it.
    pub(super) fn add(&self, key: &[u8], message: &Message<'_>) -> Option<Place> {
        let size = Self::cost(key, message.operand);
        let take = |used: usize| used.checked_add(size).filter(|&end| end <= self.layout.size());
        let at = self
            .counts
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .ok()?;
        self.counts.records.fetch_add(1, Ordering::Relaxed);
        let header = Header {
            sequence: message.sequence,
            expires_ms: message.expires_ms,
            older: AtomicU32::new(0),
            key_len: key.len() as u32,
            operand_len: message.operand.len() as u32,
            kind: message.kind,
        };
        // SAFETY: `at..at + size` is inside the block, aligned to the unit, and belongs to this call alone.
        unsafe {
            let to = self.start.as_ptr().add(at);
            to.cast::<Header>().write(header);
            let bytes = to.add(size_of::<Header>());
            bytes.copy_from_nonoverlapping(key.as_ptr(), key.len());
            bytes
                .add(key.len())
                .copy_from_nonoverlapping(message.operand.as_ptr(), message.operand.len());
        }
        Some((at / UNIT) as Place)
    }

    /// A record that exists.
    pub(super) fn record(&self, place: Place) -> Record<'_> {
        debug_assert!(place != 0 && (place as usize * UNIT) < self.counts.used.load(Ordering::Relaxed));
        // SAFETY: places come from `add` alone (M4), so the offset is inside the block.
        let start = unsafe { self.start.add(place as usize * UNIT) };
        Record {
            start,
            arena: PhantomData,
        }
    }

    /// The key of a record, or nothing at all for place 0, which an optimistic reader may see.
    pub(super) fn key(&self, place: Place) -> &[u8] {
        if place == 0 { &[] } else { self.record(place).key() }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the block came from `alloc_zeroed` with this layout; headers own nothing that needs dropping.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// A record in the arena.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    start: NonNull<u8>,
    arena: PhantomData<&'a Arena>,
}

impl<'a> Record<'a> {
    fn header(self) -> &'a Header {
        // SAFETY: a header was written here before the place was published, and only its link changes, atomically.
        unsafe { self.start.cast::<Header>().as_ref() }
    }

    fn bytes(self, from: usize, len: usize) -> &'a [u8] {
        // SAFETY: key and operand follow their header in the block, written before the place was published and
        // never changed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(size_of::<Header>() + from), len) }
    }

    pub(super) fn key(self) -> &'a [u8] {
        self.bytes(0, self.header().key_len as usize)
    }

    pub(super) fn sequence(self) -> Sequence {
        self.header().sequence
    }

    pub(super) fn message(self) -> Message<'a> {
        let header = self.header();
        Message {
            sequence: header.sequence,
            kind: header.kind,
            expires_ms: header.expires_ms,
            operand: self.bytes(header.key_len as usize, header.operand_len as usize),
        }
    }

    pub(super) fn older(self) -> Place {
        self.header().older.load(Ordering::Acquire)
    }

    pub(super) fn set_older(self, place: Place) {
        self.header().older.store(place, Ordering::Release);
    }
}

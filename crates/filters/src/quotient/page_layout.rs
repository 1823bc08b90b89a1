//! Arranges the entries of one page in order. Building, changing and resizing a filter all use this
//! code, and nothing else determines what a page contains. The bytes of a page therefore depend
//! only on its entries and not on how they were added (invariant F4).
//!
//! A run is either completely in its page, or it spills. It is in the page if the block's runs,
//! including this one, have at most 64 slots and the page has enough slots left. If a run spills,
//! so do all later runs of its block. Later blocks are not affected.

use super::format::{FilterPageHeader, PageKind, QuotientBlock, SlotWriter};
use super::geometry::{BLOCK_SLOTS, FilterGeometry, QuotientAddress};
use super::run::{BlockSlots, SlotRun};
use super::spill::CountedEntry;
use crate::FilterEntry;

/// The runs of a block being built.
#[derive(Clone, Debug)]
pub(super) struct BlockPlacer {
    slots: BlockSlots,
    occupied: u64,
    ends: u64,
    /// Quotient of the last entry, or 64 before the first entry.
    quotient: u32,
    /// The bit in `ends` for the last slot of the current run, or 0 if the run has spilled.
    end: u64,
    /// Index, in the block, of the current run's first slot.
    run_at: u32,
    spilling: bool,
}

impl BlockPlacer {
    pub(super) fn new() -> BlockPlacer {
        BlockPlacer {
            slots: BlockSlots::new(),
            occupied: 0,
            ends: 0,
            quotient: 64,
            end: 0,
            run_at: 0,
            spilling: false,
        }
    }

    pub(super) fn clear(&mut self) {
        self.slots.truncate(0);
        (self.occupied, self.ends, self.quotient, self.end) = (0, 0, 64, 0);
        (self.run_at, self.spilling) = (0, false);
    }

    /// Appends an entry. `room` is the number of slots of the page that the block may use. Entries
    /// that do not fit are appended to `spill` as triples of quotient, word and count.
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        geometry: &FilterGeometry,
        room: u32,
        (quotient, word, count): (u32, u64, u32),
        spill: &mut Vec<(u32, u64, u32)>,
    ) {
        debug_assert!(
            self.quotient == 64 || self.quotient <= quotient,
            "entries come in order"
        );
        let same = if quotient == self.quotient { self.end } else { 0 };
        if quotient != self.quotient {
            self.quotient = quotient;
            self.run_at = self.slots.len();
            self.occupied |= 1 << quotient;
        }
        if self.spilling || !self.slots.push(geometry, word, count, room.min(BLOCK_SLOTS)) {
            self.overflow(geometry, (quotient, word, count), spill);
            return;
        }
        self.end = 1 << (self.slots.len() - 1);
        self.ends = self.ends ^ same | self.end;
    }

    #[cold]
    #[inline(never)]
    fn overflow(
        &mut self,
        geometry: &FilterGeometry,
        last: (u32, u64, u32),
        spill: &mut Vec<(u32, u64, u32)>,
    ) {
        if !self.spilling {
            // The words of the run that have already been added spill, too.
            let run = SlotRun::new(geometry, self.slots.words(), self.run_at, self.slots.len());
            spill.extend(run.map(|(word, count)| (self.quotient, word, count)));
            if self.slots.len() > self.run_at {
                self.ends ^= 1 << (self.slots.len() - 1);
            }
            self.slots.truncate(self.run_at);
            self.spilling = true;
        }
        self.end = 0;
        spill.push(last);
    }

    /// Returns the slots of the current block, in order.
    pub(super) fn words(&self) -> &[u64] {
        self.slots.words()
    }

    /// Returns the metadata of the block, given the position of its first slot in the page.
    pub(super) fn block(&self, position: u32) -> QuotientBlock {
        QuotientBlock::new(self.occupied, position, self.ends)
    }
}

/// The entries of a page being built.
#[derive(Clone, Debug)]
pub(super) struct PagePlacer {
    page: Vec<u8>,
    writer: SlotWriter,
    number: u32,
    /// `block` is the number of the block being filled, and `position` is that of its first slot.
    block: u32,
    position: u32,
    placer: BlockPlacer,
    overflow: Vec<(u32, u64, u32)>,
    spilled: Vec<CountedEntry>,
}

impl PagePlacer {
    pub(super) fn new(geometry: &FilterGeometry, number: u32) -> PagePlacer {
        let page = vec![0; geometry.page_bytes as usize];
        PagePlacer {
            writer: SlotWriter::at(geometry, &page, 0),
            page,
            number,
            block: 0,
            position: 0,
            placer: BlockPlacer::new(),
            overflow: Vec::new(),
            spilled: Vec::new(),
        }
    }

    /// Clears the page and starts building page `number`.
    pub(super) fn restart(&mut self, geometry: &FilterGeometry, number: u32) {
        self.page.fill(0);
        self.writer = SlotWriter::at(geometry, &self.page, 0);
        (self.number, self.block, self.position) = (number, 0, 0);
        self.placer.clear();
        self.spilled.clear();
    }

    #[inline(always)]
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Appends an entry, whose location in this page is `place`. Entries must be appended in order.
    #[inline(always)]
    pub(super) fn push(&mut self, geometry: &FilterGeometry, place: QuotientAddress, value: u16, count: u32) {
        while self.block < place.block {
            self.finish_block(geometry);
        }
        let word = geometry.word(place.remainder, value);
        let room = geometry.capacity - self.position;
        self.placer
            .push(geometry, room, (place.quotient, word, count), &mut self.overflow);
    }

    #[inline(never)]
    fn finish_block(&mut self, geometry: &FilterGeometry) {
        for &word in self.placer.words() {
            self.writer.push(&mut self.page, word, geometry.slot_bits);
        }
        self.placer.block(self.position).write(&mut self.page, self.block);
        if !self.overflow.is_empty() {
            let base = geometry.block_base(self.number, self.block);
            self.spilled
                .extend(self.overflow.drain(..).map(|(quotient, word, count)| {
                    let fingerprint = geometry.fingerprint_at(base, quotient, word >> geometry.value_bits);
                    CountedEntry {
                        entry: FilterEntry::new(fingerprint, geometry.value(word)),
                        count,
                    }
                }));
        }
        self.position += self.placer.words().len() as u32;
        self.placer.clear();
        self.block += 1;
    }

    /// Completes the page. Returns its bytes and the records that spilled from it. `first_record`
    /// is the number, within the filter, of the first of these records.
    pub(super) fn finish(
        &mut self,
        geometry: &FilterGeometry,
        first_record: u32,
    ) -> (&[u8], &[CountedEntry]) {
        while self.block < geometry.blocks {
            self.finish_block(geometry);
        }
        self.writer.flush(&mut self.page);
        let header = FilterPageHeader {
            kind: PageKind::Page,
            number: self.number,
            filled: self.position,
            first_record: if self.spilled.is_empty() { 0 } else { first_record },
            records: self.spilled.len() as u32,
        };
        header.write(geometry, &mut self.page);
        (&self.page, &self.spilled)
    }
}

//! Consistency check of a filter's pages, with a separate check for each rule.

use super::build::FilterBuilder;
use super::format::{FilterPageHeader, PageKind, QuotientBlock, SLOT_LOAD_BYTES, slot, slots_at};
use super::image::FilterImage;
use super::lookup::PageView;
use super::run::slots_for;
use super::scan::EntryChunk;
use crate::{Error, Result};
use std::fmt;

/// A rule that a page violates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterViolation {
    /// Number of the page in its filter.
    pub page: u32,
    /// The block of the page with the violation, or `None` if it concerns the whole page.
    pub block: Option<u32>,
    /// What the rule requires, and what was found instead.
    pub what: String,
}

impl fmt::Display for FilterViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}", self.page)?;
        if let Some(block) = self.block {
            write!(f, ", block {block}")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// Collects the violations found in one page.
struct ViolationReport {
    page: u32,
    found: Vec<FilterViolation>,
}

impl ViolationReport {
    fn of(page: u32) -> ViolationReport {
        ViolationReport {
            page,
            found: Vec::new(),
        }
    }

    fn add(&mut self, block: Option<u32>, what: impl Into<String>) {
        self.found.push(FilterViolation {
            page: self.page,
            block,
            what: what.into(),
        });
    }
}

impl PageView<'_> {
    /// Returns every violation that page `number` shows by itself, or nothing if it is valid.
    /// Checks the header; that positions are consecutive; that the number of run ends in each block
    /// matches the quotients whose runs are in the page; the order, counts and fingerprints of
    /// words; that unused space is zero; and that there are spilled records if blocks refer to
    /// them. [`FilterImage::check`] also finds the violations that only the whole filter shows.
    #[must_use]
    pub fn check(&self, number: u32) -> Vec<FilterViolation> {
        let mut report = ViolationReport::of(number);
        let header = match FilterPageHeader::read(self.geometry, self.page, PageKind::Page, number) {
            Ok(header) => Some(header),
            Err(error) => {
                report.add(None, error.to_string());
                None
            }
        };
        let (mut position, mut has_spilled) = (0, false);
        for index in 0..self.geometry.blocks {
            let Some(block) = QuotientBlock::read(self.page, index) else {
                break;
            };
            if block.position() != position {
                report.add(
                    Some(index),
                    format!("position {} should be {position}", block.position()),
                );
            }
            self.check_block(number, index, block, &mut report);
            has_spilled |= block.has_spilled();
            position += block.slots();
        }
        if position > self.geometry.capacity {
            report.add(
                None,
                format!(
                    "{position} slots are in use, but the page has {}",
                    self.geometry.capacity
                ),
            );
        }
        if let Some(header) = header {
            if header.filled != position {
                report.add(
                    None,
                    format!(
                        "the header counts {} slots, but the blocks count {position}",
                        header.filled
                    ),
                );
            }
            if has_spilled != (header.records > 0) || (header.records == 0 && header.first_record != 0) {
                let claim = format!("{} from {}", header.records, header.first_record);
                report.add(
                    None,
                    format!("the header counts {claim} as spilled records, but whether a block has spilled is {has_spilled}"),
                );
            }
        }
        if !self.is_zero_from(position.min(self.geometry.capacity)) {
            report.add(None, format!("bits are set after slot {position}"));
        }
        report.found
    }

    fn check_block(&self, number: u32, index: u32, block: QuotientBlock, report: &mut ViolationReport) {
        let geometry = self.geometry;
        let (occupied, ends) = (block.occupied().count_ones(), block.ends.count_ones());
        if ends > occupied {
            report.add(
                Some(index),
                format!("{ends} runs end, but {occupied} quotients are occupied"),
            );
        }
        if block.position() + block.slots() > geometry.capacity {
            report.add(
                Some(index),
                format!(
                    "the block has slots up to {}, beyond the page",
                    block.position() + block.slots()
                ),
            );
            return;
        }
        let base = geometry.block_base(number, index);
        let mut last = None;
        let mut slots = 0;
        self.for_each_word(block, |quotient, word, count| {
            if last.is_some_and(|last| last >= (quotient, word)) {
                report.add(
                    Some(index),
                    format!("word {word:#x} of quotient {quotient} is out of order"),
                );
            }
            last = Some((quotient, word));
            slots += slots_for(geometry, count);
            let remainder = word >> geometry.value_bits;
            let fingerprint = geometry.fingerprint_at(base, quotient, remainder);
            let place = geometry.place(fingerprint);
            if (place.block, place.quotient, place.remainder) != (index, quotient, remainder) {
                report.add(
                    Some(index),
                    format!("no fingerprint has quotient {quotient} and remainder {remainder:#x}"),
                );
            }
        });
        if ends <= occupied && slots != block.slots() {
            report.add(
                Some(index),
                format!(
                    "the block has {} slots, but its counts need {slots}",
                    block.slots()
                ),
            );
        }
    }

    fn is_zero_from(&self, position: u32) -> bool {
        let geometry = self.geometry;
        let slots = (position..geometry.capacity).all(|position| slot(geometry, self.page, position) == 0);
        let bit = slots_at(geometry, geometry.capacity);
        let tail = &self.page[bit as usize / 8..];
        debug_assert!(tail.len() >= SLOT_LOAD_BYTES);
        slots && tail[0] >> (bit % 8) == 0 && tail[1..].iter().all(|&byte| byte == 0)
    }
}

impl FilterImage<'_> {
    /// Returns every violation in the filter, or nothing if it is valid. Checks the rules of each
    /// page, and that rebuilding the filter from its entries produces the same bytes (invariant
    /// F4), including the spilled entries and the order of their records.
    #[must_use]
    pub fn check(&self) -> Vec<FilterViolation> {
        let mut violations = Vec::new();
        for number in 0..self.geometry().pages() {
            match self
                .page(number)
                .and_then(|page| PageView::new(self.geometry(), page))
            {
                Ok(view) => violations.extend(view.check(number)),
                Err(error) => violations.push(FilterViolation {
                    page: number,
                    block: None,
                    what: error.to_string(),
                }),
            }
        }
        if violations.is_empty()
            && let Err(violation) = self.check_against_rebuilt()
        {
            violations.push(violation);
        }
        violations
    }

    fn check_against_rebuilt(&self) -> std::result::Result<(), FilterViolation> {
        let bad = |page, what: String| FilterViolation {
            page,
            block: None,
            what,
        };
        let mut next = 0;
        let mut differing = None;
        let sink = |page: &[u8]| -> Result<()> {
            if self.page(next).ok() != Some(page) {
                differing.get_or_insert(next);
            }
            next += 1;
            Ok(())
        };
        let mut builder = FilterBuilder::new(*self.geometry(), sink);
        let mut chunk = EntryChunk::new();
        for number in 0..self.geometry().pages() {
            self.read_page(number, &mut chunk)
                .map_err(|error| bad(number, error.to_string()))?;
            for counted in chunk.iter() {
                let pushed: Result<()> = builder.push(counted.entry, counted.count);
                pushed.map_err(|error| bad(number, error.to_string()))?;
            }
        }
        let built = builder
            .finish()
            .map_err(|error: Error| bad(0, error.to_string()))?;
        if let Some(page) = differing {
            return Err(bad(page, "building the same entries gives other bytes".into()));
        }
        if built.pages != self.pages() {
            return Err(bad(
                built.pages,
                format!("the filter has {} pages, but needs {}", self.pages(), built.pages),
            ));
        }
        Ok(())
    }
}

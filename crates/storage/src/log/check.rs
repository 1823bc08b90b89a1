//! Consistency check of a log. It reads every segment and returns all violations.
//!
//! A log that is open or was closed cleanly has no violations. Between a crash and the recovery,
//! incomplete records and gaps are violations only below the synced watermark.

use super::WriteAheadLog;
use super::format::{BLOCK_BYTES, LogMark, RecordKind, record_len};
use super::merge::{LogMerger, SegmentFacts, SegmentReadMode, SequenceStep};
use super::pool::CONTROL_SEGMENTS;
use super::scan::{LogInventory, SegmentCursor, SegmentEnd, SegmentSource};
use super::segment::slot_file;
use super::watermark_file;
use crate::{DiskLocation, OnDiskObject, Result};
use alluvium_base::Purpose;
use alluvium_device::Directory;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A violated invariant of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogViolation {
    pub place: DiskLocation,
    pub what: String,
}

impl fmt::Display for LogViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// What other sources, mainly the superblock, say about a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogExpectation {
    /// The durable checkpoint contains everything up to this sequence number.
    pub from: u64,
    /// The generation of the superblock, or 0 if it is unknown.
    pub generation: u64,
    /// A lower bound for the synced watermark.
    pub synced_at_least: u64,
    /// The identity of the store, from the options of the log.
    pub identity: u64,
}

/// Checks a log that is not open, and returns its violations.
///
/// ```
/// use alluvium_device::{Directory, memory::MemoryDirectory};
/// use alluvium_storage::log::{WriteAheadLog, LogOptions, check};
/// use std::sync::Arc;
/// let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
/// WriteAheadLog::create(&directory, LogOptions::with_limit(1 << 20), 1)?.close()?;
/// assert_eq!(check::check(&directory, check::LogExpectation::default())?, []);
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
///
/// # Errors
/// I/O errors. Damage is reported as a violation, not as an error.
pub fn check(directory: &Arc<dyn Directory>, known: LogExpectation) -> Result<Vec<LogViolation>> {
    Ok(walk(directory, known)?.violations)
}

/// The result of a log check: the violations, and how much data was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogCheckReport {
    /// The violations, ordered by file and offset.
    pub violations: Vec<LogViolation>,
    pub segments: u64,
    /// Total number of bytes read from these segments, each up to its last record.
    pub bytes: u64,
}

/// Like [`check`], but also returns how much data was read.
fn walk(directory: &Arc<dyn Directory>, known: LogExpectation) -> Result<LogCheckReport> {
    let inventory = LogInventory::take(directory.as_ref(), known.identity)?;
    let mut walk = LogChecker {
        inventory: &inventory,
        known,
        violations: Vec::new(),
        bytes: 0,
    };
    walk.mark(watermark_file::read(directory.as_ref(), known.identity)?);
    walk.files();
    for source in &inventory.sources {
        walk.segment(source)?;
    }
    walk.order()?;
    walk.violations
        .sort_by(|a, b| (&a.place.file, a.place.offset).cmp(&(&b.place.file, b.place.offset)));
    Ok(LogCheckReport {
        violations: walk.violations,
        segments: inventory.sources.len() as u64,
        bytes: walk.bytes,
    })
}

impl WriteAheadLog {
    /// Checks the segments of an open log. Appends are blocked meanwhile.
    ///
    /// # Errors
    /// I/O errors. Damage is reported as a violation, not as an error.
    pub fn check(&self) -> Result<Vec<LogViolation>> {
        Ok(self.walk()?.violations)
    }

    /// Like [`WriteAheadLog::check`], but also returns how much data was read.
    ///
    /// # Errors
    /// As [`WriteAheadLog::check`].
    pub fn walk(&self) -> Result<LogCheckReport> {
        let shared = &self.shared;
        let _lanes: Vec<_> = shared.lanes.each().collect();
        let known = LogExpectation {
            from: shared.released(),
            generation: shared.generation(),
            synced_at_least: self.synced(),
            identity: shared.options.identity,
        };
        let mut walked = walk(&shared.directory, known)?;
        let usage = shared.usage();
        let control = CONTROL_SEGMENTS * shared.options.segment_bytes;
        let most = shared.pool.most_bytes().max(shared.recovered_bytes() + control);
        if usage.live_bytes > most {
            walked.violations.push(LogViolation {
                place: DiskLocation::new(OnDiskObject::LogSegment, shared.directory.describe(), 0),
                what: format!("{} live bytes, but the limit is {most} (L12)", usage.live_bytes),
            });
        }
        Ok(walked)
    }
}

struct LogChecker<'a> {
    inventory: &'a LogInventory,
    known: LogExpectation,
    violations: Vec<LogViolation>,
    /// Total number of bytes read from the segments, each up to its last record.
    bytes: u64,
}

impl LogChecker<'_> {
    fn report(&mut self, place: DiskLocation, what: String) {
        self.violations.push(LogViolation { place, what });
    }

    /// Checks the mark: it must be valid, its incarnation must have segments, and its generation
    /// must not be newer than that of the superblock.
    fn mark(&mut self, mark: std::result::Result<LogMark, String>) {
        let place = DiskLocation::new(OnDiskObject::LogSegment, watermark_file::FILE, 0);
        let newest = self.inventory.incarnation();
        match mark {
            Err(damage) => self.report(place, damage),
            Ok(mark) if mark.incarnation >= newest => {
                self.known.synced_at_least = self.known.synced_at_least.max(mark.synced);
                if mark.incarnation > newest {
                    let what = format!(
                        "incarnation {} wrote the mark, but has no segment",
                        mark.incarnation
                    );
                    self.report(place.clone(), what);
                }
                if self.known.generation > 0 && mark.generation > self.known.generation {
                    let what = format!(
                        "it names generation {}, but the superblock has generation {}",
                        mark.generation, self.known.generation
                    );
                    self.report(place, what);
                }
            }
            Ok(_) => {}
        }
    }

    /// Checks the header blocks: each must be zero or a valid segment header, and segment numbers
    /// must be unique.
    fn files(&mut self) {
        let inventory = self.inventory;
        for vacant in &inventory.vacant {
            if let Some(damage) = &vacant.damage {
                let place = DiskLocation::new(OnDiskObject::LogSegment, slot_file(vacant.slot), 0);
                self.report(place, damage.clone());
            }
        }
        if inventory.sources.is_empty() {
            let place = DiskLocation::new(OnDiskObject::LogSegment, slot_file(0), 0);
            self.report(place, "no file of the log holds a segment (L8)".to_owned());
        }
        for pair in inventory.sources.windows(2) {
            if pair[0].header.number == pair[1].header.number {
                let what = format!(
                    "segment {} is also in {}",
                    pair[1].header.number,
                    slot_file(pair[0].slot)
                );
                self.report(pair[1].place(OnDiskObject::LogSegment, 0), what);
            }
        }
        for source in &inventory.sources {
            let header = &source.header;
            let place = source.place(OnDiskObject::LogSegment, 0);
            if source.end < header.len && header.synced > self.known.from {
                let what = format!(
                    "the file has {} of the segment's {} bytes",
                    source.end, header.len
                );
                self.report(place.clone(), what);
            }
            if self.known.generation > 0 && header.generation > self.known.generation {
                let what = format!(
                    "it names generation {}, but the superblock has generation {}",
                    header.generation, self.known.generation
                );
                self.report(place, what);
            }
        }
    }

    /// Checks the records of one segment: watermarks and generations must never decrease.
    fn segment(&mut self, source: &SegmentSource) -> Result<()> {
        let mut cursor = SegmentCursor::new(Purpose::Check);
        let (mut synced, mut generation) = (source.header.synced, source.header.generation);
        let mut end = BLOCK_BYTES as u64;
        while let Some(record) = cursor.next(source)? {
            end = record.at + record_len(record.header.len.into());
            let place = source.place(OnDiskObject::LogRecord, record.at);
            let header = record.header;
            if header.synced < synced {
                let what = format!("the synced watermark falls from {synced} to {}", header.synced);
                self.report(place.clone(), what);
            }
            synced = synced.max(header.synced);
            if !header.kind.is_numbered() {
                if header.first < generation {
                    let what = format!("the generation falls from {generation} to {}", header.first);
                    self.report(place, what);
                }
                generation = generation.max(header.first);
            } else if header.first <= source.header.base && header.kind == RecordKind::Data {
                // The record is a copy made by a recovery, so that recovery must have kept all its
                // sequence numbers.
                if header.last() > source.header.base {
                    let what = format!(
                        "sequences {} to {} lie on both sides of the base {}",
                        header.first,
                        header.last(),
                        source.header.base
                    );
                    self.report(place, what);
                }
            }
        }
        self.bytes += end;
        if self.known.generation > 0 && generation > self.known.generation {
            let what = format!(
                "it names generation {generation}, but the superblock has generation {}",
                self.known.generation
            );
            self.report(source.place(OnDiskObject::LogSegment, 0), what);
        }
        Ok(())
    }

    /// Checks the records of all segments together: sequence numbers must be complete up to the
    /// synced watermark and must not occur twice, and every segment except the last of each lane
    /// must be sealed.
    fn order(&mut self) -> Result<()> {
        let inventory = self.inventory;
        let mut merge = LogMerger::new(
            &inventory.sources,
            self.known.from,
            SegmentReadMode::Strict,
            Purpose::Check,
        );
        let mut last = (self.known.from, None);
        let mut gaps = Vec::new();
        while let Some(next) = merge.next()? {
            match next {
                SequenceStep::Gap { first, .. } => gaps.push(first),
                SequenceStep::Record(found) => last = (found.record.header.last(), Some(found)),
                SequenceStep::Overlap(found) => {
                    let place =
                        inventory.sources[found.source].place(OnDiskObject::LogRecord, found.record.at);
                    let header = found.record.header;
                    let what = format!("sequences {} to {} a second time", header.first, header.last());
                    self.report(place, what);
                }
            }
        }
        let facts = merge.into_facts();
        let named = facts.iter().map(|fact| fact.synced).max().unwrap_or(0);
        let synced = named.max(self.known.synced_at_least);
        gaps.push(last.0 + 1);
        let end = last.1.map_or_else(
            || DiskLocation::new(OnDiskObject::LogRecord, slot_file(0), 0),
            |found| inventory.sources[found.source].place(OnDiskObject::LogRecord, found.record.at),
        );
        for missing in gaps {
            if missing <= synced && missing > self.known.from {
                let what =
                    format!("sequence {missing} is missing, but everything up to {synced} was synced (L11)");
                self.report(end.clone(), what);
            }
        }
        self.seals(&facts, synced);
        Ok(())
    }

    /// Checks the seals of the newest incarnation: if a later segment of a lane is synced, the
    /// segment before it must be sealed. In an earlier incarnation, or in a segment that a
    /// checkpoint covers entirely (L9), a power failure may have lost the seal. If it also lost a
    /// record, [`LogChecker::order`] reports the missing sequence number.
    fn seals(&mut self, facts: &[SegmentFacts], synced: u64) {
        let inventory = self.inventory;
        let newest = inventory
            .sources
            .iter()
            .map(|source| source.header.incarnation)
            .max();
        let mut lanes: BTreeMap<u16, usize> = BTreeMap::new();
        for (index, source) in inventory.sources.iter().enumerate() {
            if Some(source.header.incarnation) != newest {
                continue;
            }
            let Some(before) = lanes.insert(source.header.lane, index) else {
                continue;
            };
            let held = facts[before].highest > self.known.from;
            let all_synced = facts[index].highest > 0 && facts[index].highest <= synced;
            if let (Some(SegmentEnd::At(at, why)), true) = (&facts[before].stop, held && all_synced) {
                let place = inventory.sources[before].place(OnDiskObject::LogRecord, *at);
                let what = format!("{why}; the lane continued in {}", slot_file(source.slot));
                self.report(place, what);
            }
        }
    }
}

//! Opens a log after a clean close, a crash, or an interrupted opening.
//!
//! Recovery has two passes. The *survey* ([`RecoveryScan`]) reads all segments without changing
//! anything. It determines which generation the log names, which records were synced, and which are
//! missing. The *replay* first begins a new incarnation, and then passes the records to the caller
//! in order.
//!
//! ```text
//!   survey ──► missing ≤ synced? ─────────────────────────── error, with the place
//!      │       missing ≤ complete, on the same boot? ──────── error, with the place
//!      │       a segment that the mark names is not there? ── error, with the place
//!      │
//!      └─ cut before the first gap: segments end where the records behind it begin; if others
//!         follow those, they are rewritten as far as they count, the copies synced, and then the old
//!         segments destroyed; durably
//! ```
//!
//! *What a gap means.* Each record contains the completion watermark at the time of its append. If
//! a gap lies above all of these watermarks, its writers were killed before their records were
//! acknowledged, and so were the writers of the records after it. The log therefore ends at the
//! gap. If a gap lies below one of these watermarks, then on the boot that wrote the log it means
//! damage or a lost page cache. On another boot, only the synced watermark counts. The log is taken
//! to be from another boot unless a segment of the newest incarnation was written on this boot and
//! this mount.
//!
//! *What is durable* does not depend on the boot. Records of an earlier process may be only in the
//! page cache, and a failed sync may have marked their pages clean. Recovery therefore rewrites
//! segments above the synced watermark so that the next sync writes them, and treats nothing above
//! that watermark as synced until then. If the disk is too full to rewrite them, this work is
//! postponed (`recovery_work`): the log can be read, but accepts no records until the work is done.
//!
//! *Why a crash during a recovery needs no special treatment.* The first segment header of the new
//! incarnation contains its start (`base`), and is durable before any record of that incarnation.
//! Until it is durable, the next survey finds the same state again. From then on, records of
//! earlier incarnations are valid only up to `base`, no matter which of them still exist. All
//! copies of a record are equal, and the newest is used. Records that must be destroyed are cut off
//! by `base` while they still exist; once they are destroyed, `base` is no longer needed. A
//! rewritten segment has the same bytes as before, so losing part of the rewrite has no effect. On
//! the same boot, everything up to `base` must be present.

use super::format::{LogMark, RecordKind};
use super::lane::LaneRecord;
use super::lost::LostTail;
use super::merge::{LogMerger, SegmentFacts, SegmentReadMode, SequenceStep};
use super::options::LogOptions;
use super::pool::{LimitEnforcement, SlotHeader, SlotPriority};
use super::recovery_scan::{RecoveryScan, refuse_records_behind_the_end};
use super::recovery_work::{SegmentWork, TrimPoint, trim_at};
use super::scan::{LogInventory, SegmentCursor, SegmentSource};
use super::segment::{LogSegment, SegmentSlot, slot_file, void};
use super::shared::{IncarnationStart, LogInner};
use super::watermark_file;
use super::{LogRecord, RepairReport};
use crate::{DiskLocation, Error, OnDiskObject, Result};
use alluvium_base::Purpose;
use alluvium_device::Directory;
use std::sync::Arc;

/// Maximum number of segments that have a payload buffer at the same time.
const MAX_CURSORS: usize = 32;

/// What the caller knows about the log it opens.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecoveryStart {
    /// The durable checkpoint contains everything up to this sequence number.
    pub(super) from: u64,
    /// The generation of the superblock that was opened.
    pub(super) generation: u64,
    /// The synced watermark stored in the superblock.
    pub(super) synced_at_least: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecoveryMode {
    /// Damage makes the recovery fail.
    Strict,
    /// Damage is skipped and reported.
    Repair,
}

/// What recovery does with each segment.
#[derive(Debug)]
struct RecoveryPlan {
    /// The highest sequence number that remains valid.
    last: u64,
    /// The ranges of missing sequence numbers up to `last`.
    gaps: Vec<(u64, u64)>,
    /// For each source, whether its records are copied to new segments and the source is then
    /// destroyed.
    rewritten: Vec<bool>,
    /// The position at which each source is cut off, or `None` if it is not cut off.
    trims: Vec<Option<TrimPoint>>,
}

impl RecoveryPlan {
    /// Returns whether the recovery copies no records and writes no void records.
    fn copies_nothing(&self) -> bool {
        self.gaps.is_empty() && !self.rewritten.contains(&true)
    }

    /// Decides what to do with each segment, given that nothing above sequence number `last` is
    /// valid. A repair copies the records of every segment.
    fn make(
        inventory: &LogInventory,
        survey: &RecoveryScan,
        start: RecoveryStart,
        last: u64,
        strictness: RecoveryMode,
    ) -> Result<RecoveryPlan> {
        let mut plan = RecoveryPlan {
            last,
            gaps: survey.gaps.iter().copied().filter(|gap| gap.0 <= last).collect(),
            rewritten: Vec::new(),
            trims: Vec::new(),
        };
        for (source, fact) in inventory.sources.iter().zip(&survey.facts) {
            let again = strictness == RecoveryMode::Repair || fact.superseded;
            let too_long = fact.highest > last;
            let trim = if too_long && !again {
                trim_at(source, start.from, last)?
            } else {
                None
            };
            plan.rewritten.push(again || too_long && trim.is_none());
            plan.trims.push(trim);
        }
        assert_eq!(
            plan.rewritten.len(),
            inventory.sources.len(),
            "a decision for each segment"
        );
        Ok(plan)
    }
}

/// Opens a log and recovers its state.
///
/// # Errors
/// As [`WriteAheadLog::open`](super::WriteAheadLog::open).
pub(super) fn open(
    directory: &Arc<dyn Directory>,
    options: LogOptions,
    start: RecoveryStart,
    strictness: RecoveryMode,
    replay: &mut dyn FnMut(LogRecord<'_>) -> Result<()>,
) -> Result<(LogInner, RepairReport)> {
    options.validate()?;
    let inventory = LogInventory::take(directory.as_ref(), options.identity)?;
    let reading = match strictness {
        RecoveryMode::Strict => SegmentReadMode::Strict,
        RecoveryMode::Repair => SegmentReadMode::Salvage,
    };
    let (mark, mark_damage) = read_mark(directory.as_ref(), options.identity, strictness)?;
    let marked = mark.as_ref().map_or(0, |mark| mark.incarnation);
    let time_ms = mark.as_ref().map_or(0, |mark| mark.time_ms);
    let boot = directory.boot_id();
    let survey = RecoveryScan::take(&inventory, start, reading, mark, boot)?;
    if strictness == RecoveryMode::Strict {
        survey.require_sound(&inventory, start)?;
        refuse_records_behind_the_end(&inventory, &survey)?;
    }
    let last = match survey.first_gap() {
        Some(missing) if strictness == RecoveryMode::Strict => missing - 1,
        _ => survey.last,
    };
    let plan = RecoveryPlan::make(&inventory, &survey, start, last, strictness)?;
    let origin = IncarnationStart {
        incarnation: inventory.incarnation().max(marked) + 1,
        base: last,
        boot,
        generation: start.generation,
        synced: survey.synced.min(last),
        released: start.from,
        number: inventory
            .sources
            .iter()
            .map(|source| source.header.number)
            .max()
            .unwrap_or(0)
            + 1,
        time_ms,
    };
    let mut shared = LogInner::new(directory, options, inventory.names.clone(), origin)?;
    if strictness == RecoveryMode::Strict {
        // Detect lost records before destroying any segment.
        shared.lost_tail = LostTail::find(&inventory, &survey, start, last)?;
    }
    let reused = match begin_incarnation(&shared, &inventory, &survey, &plan) {
        // The records can be read without any write.
        Err(error) if error.is_full() && plan.copies_nothing() => {
            shared.postponed_work.begin_later();
            None
        }
        other => other?,
    };
    let mut report = replay_all(&shared, &inventory, start, reading, &plan, replay)?;
    settle(&shared, &inventory, &survey, &plan, reused)?;
    if strictness == RecoveryMode::Repair {
        // All records were copied to new segments, and these were synced.
        shared.commit.raise(last);
        shared.sync_mark()?;
    }
    report.fill_losses(&survey, &inventory, start, last);
    report.damaged.extend(mark_damage);
    Ok((shared, report))
}

/// Reads the mark. A repair ignores a damaged mark and returns a description of the damage.
fn read_mark(
    directory: &dyn Directory,
    identity: u64,
    strictness: RecoveryMode,
) -> Result<(Option<LogMark>, Option<String>)> {
    match watermark_file::read(directory, identity)? {
        Ok(mark) => Ok((Some(mark), None)),
        Err(why) if strictness == RecoveryMode::Repair => {
            Ok((None, Some(format!("{}: {why}", watermark_file::FILE))))
        }
        Err(damage) => {
            let place = DiskLocation::new(OnDiskObject::LogSegment, watermark_file::FILE, 0);
            Err(Error::corrupt(place, "the log's mark", damage))
        }
    }
}

/// Makes the first segment of the new incarnation durable. If the disk is full, an old segment that
/// is no longer needed may be reused for it, and its slot is returned.
fn begin_incarnation(
    shared: &LogInner,
    inventory: &LogInventory,
    survey: &RecoveryScan,
    plan: &RecoveryPlan,
) -> Result<Option<u32>> {
    shared.pool.ignore_limit(LimitEnforcement::Ignored);
    for vacant in inventory.vacant.iter().filter(|vacant| vacant.damage.is_none()) {
        shared
            .pool
            .adopt(slot(vacant.slot, &vacant.file), SlotHeader::Blank)?;
    }
    let begun = shared.control(RecordKind::Note, shared.generation());
    let error = match begun {
        Err(error) if error.is_full() => error,
        other => {
            other?;
            shared.begin_mark()?;
            return Ok(None);
        }
    };
    // The disk is full, so reuse a segment that the checkpoint has made obsolete. Never reuse the
    // only segment that records the current incarnation and generation.
    let spare = inventory.sources.iter().zip(&survey.facts).zip(&plan.rewritten);
    let names = |source: &SegmentSource, fact: &SegmentFacts| (source.header.incarnation, fact.generation);
    let spare = spare
        .filter(|((_, fact), rewritten)| fact.highest == 0 && !**rewritten)
        // A segment listed in the mark must be kept until the new incarnation has written its own
        // mark.
        .filter(|((source, _), _)| !survey.is_marked(source.header.number))
        .find(|((source, fact), _)| {
            let mut others = inventory.sources.iter().zip(&survey.facts);
            let (incarnation, generation) = names(source, fact);
            others.any(|(other, known)| {
                other.slot != source.slot
                    && names(other, known).0 >= incarnation
                    && names(other, known).1 >= generation
            })
        });
    let Some(((source, _), _)) = spare else {
        return Err(error);
    };
    shared.pool.adopt(source.as_slot(), SlotHeader::Stale)?;
    shared.control(RecordKind::Note, shared.generation())?;
    shared.begin_mark()?;
    Ok(Some(source.slot))
}

fn slot(index: u32, file: &Arc<dyn alluvium_device::Device>) -> Arc<SegmentSlot> {
    Arc::new(SegmentSlot::new(index, Arc::clone(file), file.len()))
}

/// Passes every valid record to `replay`, and copies the records of segments that will be
/// destroyed.
fn replay_all(
    shared: &LogInner,
    inventory: &LogInventory,
    start: RecoveryStart,
    reading: SegmentReadMode,
    plan: &RecoveryPlan,
    replay: &mut dyn FnMut(LogRecord<'_>) -> Result<()>,
) -> Result<RepairReport> {
    let sources = &inventory.sources;
    let mut merge = LogMerger::new(sources, start.from, reading, Purpose::Recovery);
    let mut cursors: Vec<Option<SegmentCursor>> = sources.iter().map(|_| None).collect();
    let mut report = RepairReport::default();
    let mut reached = start.from;
    while let Some(next) = merge.next()? {
        let found = match next {
            SequenceStep::Gap { first, last } if first <= plan.last => {
                if plan.gaps.get(report.missing.len()) != Some(&(first, last)) {
                    return Err(changed(inventory, first));
                }
                report.missing.push((first, last));
                append_void(shared, first, last)?;
                continue;
            }
            SequenceStep::Record(found) if found.record.header.last() <= plan.last => found,
            SequenceStep::Overlap(found) => {
                report.dropped_records += 1;
                let place = sources[found.source].place(OnDiskObject::LogRecord, found.record.at);
                report.damaged.push(place.to_string());
                continue;
            }
            SequenceStep::Gap { .. } | SequenceStep::Record(_) => break,
        };
        let header = found.record.header;
        reached = header.last();
        let source = &sources[found.source];
        // Limit how many segments are read at the same time. Usually it is one for each lane.
        let opens = cursors[found.source].is_none();
        if opens && cursors.iter().flatten().count() >= MAX_CURSORS {
            cursors.iter_mut().for_each(|cursor| *cursor = None);
        }
        let cursor = cursors[found.source].get_or_insert_with(|| SegmentCursor::new(Purpose::Recovery));
        let payload = cursor.payload(source, &found.record)?;
        if header.kind == RecordKind::Data {
            report.replayed_records += 1;
            replay(LogRecord {
                first: header.first,
                count: header.count as u32,
                payload,
            })?;
        }
        if plan.rewritten[found.source] {
            let copy = LaneRecord {
                kind: header.kind,
                first: header.first,
                count: header.count,
                complete: header.first - 1,
                payload,
                tail: &[],
            };
            append_copy(shared, copy)?;
        }
        cursor.let_go();
    }
    assert!(reached <= plan.last.max(start.from), "{reached}");
    if reached < plan.last {
        return Err(changed(inventory, reached + 1));
    }
    Ok(report)
}

/// Returns the error for a second pass that found different records than the first.
fn changed(inventory: &LogInventory, missing: u64) -> Error {
    let slot = inventory.sources.first().map_or(0, |source| source.slot);
    let place = DiskLocation::new(OnDiskObject::LogRecord, slot_file(slot), 0);
    let expected = format!("the record of sequence {missing}, which was read before");
    Error::corrupt(
        place,
        expected,
        "no record, or another one: the device is unreliable",
    )
}

fn append_copy(shared: &LogInner, entry: LaneRecord<'_>) -> Result<()> {
    shared.lanes.first().put(shared, entry, SlotPriority::Essential)
}

/// Appends a void record for any number of missing sequence numbers, so that later records do not
/// follow a gap.
fn append_void(shared: &LogInner, first: u64, last: u64) -> Result<()> {
    assert!(
        first > 0 && first <= last,
        "a gap of the sequences {first} to {last}"
    );
    let entry = LaneRecord {
        kind: RecordKind::Void,
        first,
        count: last - first + 1,
        complete: first - 1,
        ..LaneRecord::CONTROL
    };
    append_copy(shared, entry)
}

/// Keeps the segments that are still needed, destroys the segments whose records were copied, and
/// returns all other slots to the pool.
fn settle(
    shared: &LogInner,
    inventory: &LogInventory,
    survey: &RecoveryScan,
    plan: &RecoveryPlan,
    reused: Option<u32>,
) -> Result<()> {
    assert_eq!(survey.facts.len(), plan.trims.len(), "decisions");
    let kept = |index: usize| survey.facts[index].highest > 0 && !plan.rewritten[index];
    for (index, source) in inventory
        .sources
        .iter()
        .enumerate()
        .filter(|(index, _)| kept(*index))
    {
        let fact = &survey.facts[index];
        let slot = source.as_slot();
        shared.pool.count_live(slot.len);
        let (written, highest) = match plan.trims[index] {
            Some(TrimPoint { at, highest }) => {
                let written = fact.written;
                shared.postponed_work.run_or_postpone(
                    source,
                    SegmentWork::CutOff { at, written },
                    &shared.pool,
                )?;
                (at, highest)
            }
            None => (fact.written, fact.highest),
        };
        if highest > survey.synced {
            shared
                .postponed_work
                .run_or_postpone(source, SegmentWork::Rewrite { written }, &shared.pool)?;
        }
        let segment = LogSegment::recovered(slot, source.header, written, highest);
        shared.table.lock().push(Arc::new(segment));
    }
    if plan.rewritten.contains(&true) {
        shared.run_postponed()?;
        // Sync all copies, including those of an earlier recovery, before destroying the originals.
        let segments = shared.table.lock().clone();
        segments
            .iter()
            .try_for_each(|segment| shared.sync_segment(segment))?;
    }
    for (index, source) in inventory
        .sources
        .iter()
        .enumerate()
        .filter(|(index, _)| !kept(*index))
    {
        if plan.rewritten[index] {
            void(source.file.as_ref())?;
        }
        if reused != Some(source.slot) {
            shared
                .postponed_work
                .run_or_postpone(source, SegmentWork::FreeSlot, &shared.pool)?;
        }
    }
    for vacant in inventory.vacant.iter().filter(|vacant| vacant.damage.is_some()) {
        shared
            .pool
            .adopt(slot(vacant.slot, &vacant.file), SlotHeader::Stale)?;
    }
    shared.end_recovery();
    shared.pool.fill_reserve()?;
    Ok(())
}

impl RepairReport {
    /// Adds the losses to the report. If records are missing after the last valid record, there is
    /// no later record to reveal the gap, so only a watermark or the mark can.
    fn fill_losses(
        &mut self,
        survey: &RecoveryScan,
        inventory: &LogInventory,
        start: RecoveryStart,
        last: u64,
    ) {
        self.named_generation = survey.generation.max(start.generation);
        let written = survey.synced.max(survey.named);
        self.missing_end = (written > last).then_some((last + 1, written));
        let found = |number| {
            let mut sources = inventory.sources.iter();
            sources.any(|source| source.header.number == number)
        };
        let lanes = survey.mark.iter().flat_map(|mark| &mark.lanes).enumerate();
        for (lane, number) in lanes {
            if let Some(number) = number.filter(|&number| !found(number)) {
                self.lost_segments.push(format!(
                    "segment {number} of the log, which lane {lane} was writing: it may have held more records"
                ));
            }
        }
        for (source, fact) in inventory.sources.iter().zip(&survey.facts) {
            for &hole in &fact.holes {
                self.damaged
                    .push(source.place(OnDiskObject::LogRecord, hole).to_string());
            }
        }
        for vacant in &inventory.vacant {
            if let Some(damage) = &vacant.damage {
                let place = DiskLocation::new(OnDiskObject::LogSegment, slot_file(vacant.slot), 0);
                self.damaged.push(format!("{place}: {damage}"));
                if survey.mark.is_none() {
                    self.lost_segments.push(format!(
                        "the segment in {}: its contents are unknown, because the log's mark is damaged, too",
                        slot_file(vacant.slot)
                    ));
                }
            }
        }
    }
}

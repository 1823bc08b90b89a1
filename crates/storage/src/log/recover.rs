//! Opening a log after a close, a crash, or an interrupted opening.
//!
//! There are two passes. *Survey* reads everything and decides without changing anything: which
//! generation is named, what was synced, what is missing. *Replay* begins a new incarnation and
//! then passes the records on in order.
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
//! *How a gap is judged.* Each record contains the completion watermark at the time of its append.
//! A gap above all of these belongs to writers that were killed before they were acknowledged, as
//! were the writers of the records after it: the log ends there. A gap below one of them, on the
//! boot that wrote them, means damage or a lost page cache. After another boot only the synced
//! watermark counts. The log is treated as written on another boot unless a segment of the newest
//! incarnation is of this boot and this mount.
//!
//! *What is durable* does not depend on the boot: records of an earlier life may be in the page
//! cache only, and clean there since a failed sync. Segments above the synced watermark are
//! rewritten, so that the next sync writes them, and nothing above the watermark counts as synced
//! before that. If a full disk has no space for this, it is postponed (`keep`): the log can be
//! read, and accepts no records before it is done.
//!
//! *Why a crash at any moment of this is a crash like any other.* The new incarnation's first
//! header contains its start (`base`) and is durable before any of its records. Until then the
//! survey finds the same state again. From then on earlier incarnations count up to `base` only,
//! whatever is left of them. Copies repeat their originals, and the newest is used. Records that
//! are not yet destroyed are cut off by `base`, and once they are destroyed, `base` is no longer
//! needed. Rewritten segments contain the same bytes, whatever part of the rewrite is lost. On the
//! same boot everything up to `base` must be present.

use super::format::{Kind, Mark};
use super::keep::{Trim, Work, trim_at};
use super::lane::Entry;
use super::lost::LostTail;
use super::mark;
use super::merge::{Fact, Merge, Next, Reading};
use super::options::LogOptions;
use super::pool::{Claim, Header, Limit};
use super::scan::{Cursor, Inventory, Source};
use super::segment::{Segment, Slot, slot_file, void};
use super::shared::{Origin, Shared};
use super::survey::{Survey, refuse_records_behind_the_end};
use super::{Record, RepairReport};
use crate::{Error, Place, Result, Structure};
use alluvium_base::Purpose;
use alluvium_device::Directory;
use std::sync::Arc;

/// Maximum number of segments with a payload buffer at a time.
const MAX_CURSORS: usize = 32;

/// The caller's knowledge about the log being opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// The checkpoint contains every sequence up to this one.
    pub(super) from: u64,
    /// The generation of the opened superblock.
    pub(super) generation: u64,
    /// The synced watermark in the superblock.
    pub(super) synced_at_least: u64,
}

/// How damage is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strictness {
    /// Damage is an error.
    Strict,
    /// Damage is skipped and reported.
    Repair,
}

/// The segments that are kept, and how.
#[derive(Debug)]
struct Plan {
    /// The last valid sequence.
    last: u64,
    /// The missing ranges up to there.
    gaps: Vec<(u64, u64)>,
    /// Whether each source is rewritten and destroyed.
    rewritten: Vec<bool>,
    /// Where each source is cut off, if it is.
    trims: Vec<Option<Trim>>,
}

impl Plan {
    /// Returns whether every valid record stays in its place.
    fn copies_nothing(&self) -> bool {
        self.gaps.is_empty() && !self.rewritten.contains(&true)
    }

    /// Decides what is done with each segment if nothing above `last` is valid. A repair rewrites
    /// everything.
    fn make(
        inventory: &Inventory,
        survey: &Survey,
        start: Start,
        last: u64,
        strictness: Strictness,
    ) -> Result<Plan> {
        let mut plan = Plan {
            last,
            gaps: survey.gaps.iter().copied().filter(|gap| gap.0 <= last).collect(),
            rewritten: Vec::new(),
            trims: Vec::new(),
        };
        for (source, fact) in inventory.sources.iter().zip(&survey.facts) {
            let again = strictness == Strictness::Repair || fact.superseded;
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

/// Opens a log.
///
/// # Errors
/// As [`Log::open`](super::Log::open).
pub(super) fn open(
    directory: &Arc<dyn Directory>,
    options: LogOptions,
    start: Start,
    strictness: Strictness,
    replay: &mut dyn FnMut(Record<'_>) -> Result<()>,
) -> Result<(Shared, RepairReport)> {
    options.validate()?;
    let inventory = Inventory::take(directory.as_ref(), options.identity)?;
    let reading = match strictness {
        Strictness::Strict => Reading::Strict,
        Strictness::Repair => Reading::Salvage,
    };
    let (mark, mark_damage) = read_mark(directory.as_ref(), options.identity, strictness)?;
    let marked = mark.as_ref().map_or(0, |mark| mark.incarnation);
    let time_ms = mark.as_ref().map_or(0, |mark| mark.time_ms);
    let boot = directory.boot_id();
    let survey = Survey::take(&inventory, start, reading, mark, boot)?;
    if strictness == Strictness::Strict {
        survey.judge(&inventory, start)?;
        refuse_records_behind_the_end(&inventory, &survey)?;
    }
    let last = match survey.first_gap() {
        Some(missing) if strictness == Strictness::Strict => missing - 1,
        _ => survey.last,
    };
    let plan = Plan::make(&inventory, &survey, start, last, strictness)?;
    let origin = Origin {
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
    let mut shared = Shared::new(directory, options, inventory.names.clone(), origin)?;
    if strictness == Strictness::Strict {
        // Determined before any segment is destroyed.
        shared.lost_tail = LostTail::find(&inventory, &survey, start, last)?;
    }
    let reused = match begin_incarnation(&shared, &inventory, &survey, &plan) {
        // No write is needed to read the records.
        Err(error) if error.is_full() && plan.copies_nothing() => {
            shared.put_off.begin_later();
            None
        }
        other => other?,
    };
    let mut report = replay_all(&shared, &inventory, start, reading, &plan, replay)?;
    settle(&shared, &inventory, &survey, &plan, reused)?;
    if strictness == Strictness::Repair {
        // Everything was rewritten and synced.
        shared.commit.raise(last);
        shared.sync_mark()?;
    }
    report.tell(&survey, &inventory, start, last);
    report.damaged.extend(mark_damage);
    Ok((shared, report))
}

/// Reads the mark. A repair ignores a damaged mark and returns a description of the damage.
fn read_mark(
    directory: &dyn Directory,
    identity: u64,
    strictness: Strictness,
) -> Result<(Option<Mark>, Option<String>)> {
    match mark::read(directory, identity)? {
        Ok(mark) => Ok((Some(mark), None)),
        Err(why) if strictness == Strictness::Repair => Ok((None, Some(format!("{}: {why}", mark::FILE)))),
        Err(damage) => {
            let place = Place::new(Structure::LogSegment, mark::FILE, 0);
            Err(Error::corrupt(place, "the log's mark", damage))
        }
    }
}

/// Makes the new incarnation's first segment durable. Returns the slot of an old segment if it was
/// reused.
fn begin_incarnation(
    shared: &Shared,
    inventory: &Inventory,
    survey: &Survey,
    plan: &Plan,
) -> Result<Option<u32>> {
    shared.pool.ignore_limit(Limit::Ignored);
    for vacant in inventory.vacant.iter().filter(|vacant| vacant.damage.is_none()) {
        shared
            .pool
            .adopt(slot(vacant.slot, &vacant.file), Header::Blank)?;
    }
    let begun = shared.control(Kind::Note, shared.generation());
    let error = match begun {
        Err(error) if error.is_full() => error,
        other => {
            other?;
            shared.begin_mark()?;
            return Ok(None);
        }
    };
    // The disk is full. A segment covered by the checkpoint is reused, unless it is the only one
    // that names the incarnation and generation.
    let spare = inventory.sources.iter().zip(&survey.facts).zip(&plan.rewritten);
    let names = |source: &Source, fact: &Fact| (source.header.incarnation, fact.generation);
    let spare = spare
        .filter(|((_, fact), rewritten)| fact.highest == 0 && !**rewritten)
        // A segment that the mark names must stay until the incarnation has its own mark.
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
    shared.pool.adopt(source.as_slot(), Header::Stale)?;
    shared.control(Kind::Note, shared.generation())?;
    shared.begin_mark()?;
    Ok(Some(source.slot))
}

fn slot(index: u32, file: &Arc<dyn alluvium_device::Device>) -> Arc<Slot> {
    Arc::new(Slot::new(index, Arc::clone(file), file.len()))
}

/// Replays every valid record, and rewrites the records that the new incarnation must repeat.
fn replay_all(
    shared: &Shared,
    inventory: &Inventory,
    start: Start,
    reading: Reading,
    plan: &Plan,
    replay: &mut dyn FnMut(Record<'_>) -> Result<()>,
) -> Result<RepairReport> {
    let sources = &inventory.sources;
    let mut merge = Merge::new(sources, start.from, reading, Purpose::Recovery);
    let mut cursors: Vec<Option<Cursor>> = sources.iter().map(|_| None).collect();
    let mut report = RepairReport::default();
    let mut reached = start.from;
    while let Some(next) = merge.next()? {
        let found = match next {
            Next::Gap { first, last } if first <= plan.last => {
                if plan.gaps.get(report.missing.len()) != Some(&(first, last)) {
                    return Err(changed(inventory, first));
                }
                report.missing.push((first, last));
                cover(shared, first, last)?;
                continue;
            }
            Next::Record(found) if found.record.header.last() <= plan.last => found,
            Next::Overlap(found) => {
                report.dropped_records += 1;
                let place = sources[found.source].place(Structure::LogRecord, found.record.at);
                report.damaged.push(place.to_string());
                continue;
            }
            Next::Gap { .. } | Next::Record(_) => break,
        };
        let header = found.record.header;
        reached = header.last();
        let source = &sources[found.source];
        // Only a few segments are read at a time: one for each lane.
        let opens = cursors[found.source].is_none();
        if opens && cursors.iter().flatten().count() >= MAX_CURSORS {
            cursors.iter_mut().for_each(|cursor| *cursor = None);
        }
        let cursor = cursors[found.source].get_or_insert_with(|| Cursor::new(Purpose::Recovery));
        let payload = cursor.payload(source, &found.record)?;
        if header.kind == Kind::Data {
            report.replayed_records += 1;
            replay(Record {
                first: header.first,
                count: header.count as u32,
                payload,
            })?;
        }
        if plan.rewritten[found.source] {
            let copy = Entry {
                kind: header.kind,
                first: header.first,
                count: header.count,
                complete: header.first - 1,
                payload,
                tail: &[],
            };
            repeat(shared, copy)?;
        }
        cursor.let_go();
    }
    assert!(reached <= plan.last.max(start.from), "{reached}");
    if reached < plan.last {
        return Err(changed(inventory, reached + 1));
    }
    Ok(report)
}

/// Returns the error for a second pass that differs from the first.
fn changed(inventory: &Inventory, missing: u64) -> Error {
    let slot = inventory.sources.first().map_or(0, |source| source.slot);
    let place = Place::new(Structure::LogRecord, slot_file(slot), 0);
    let expected = format!("the record of sequence {missing}, which was read a moment ago");
    Error::corrupt(
        place,
        expected,
        "none, or another one: the device reads unreliably",
    )
}

fn repeat(shared: &Shared, entry: Entry<'_>) -> Result<()> {
    shared.lanes.first().put(shared, entry, Claim::Essential)
}

/// Covers any number of missing sequences with a void record, so that later records no longer
/// follow a gap.
fn cover(shared: &Shared, first: u64, last: u64) -> Result<()> {
    assert!(
        first > 0 && first <= last,
        "a gap of the sequences {first} to {last}"
    );
    let entry = Entry {
        kind: Kind::Void,
        first,
        count: last - first + 1,
        complete: first - 1,
        ..Entry::CONTROL
    };
    repeat(shared, entry)
}

/// Keeps the segments still needed, destroys the rewritten ones, and turns the rest into free
/// slots.
fn settle(
    shared: &Shared,
    inventory: &Inventory,
    survey: &Survey,
    plan: &Plan,
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
            Some(Trim { at, highest }) => {
                let written = fact.written;
                shared
                    .put_off
                    .run_or_put_off(source, Work::CutOff { at, written }, &shared.pool)?;
                (at, highest)
            }
            None => (fact.written, fact.highest),
        };
        if highest > survey.synced {
            shared
                .put_off
                .run_or_put_off(source, Work::WriteAgain { written }, &shared.pool)?;
        }
        let segment = Segment::recovered(slot, source.header, written, highest);
        shared.table.lock().push(Arc::new(segment));
    }
    if plan.rewritten.contains(&true) {
        shared.catch_up()?;
        // The copies are synced before the originals are destroyed, including copies by an earlier
        // recovery.
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
                .put_off
                .run_or_put_off(source, Work::GiveFree, &shared.pool)?;
        }
    }
    for vacant in inventory.vacant.iter().filter(|vacant| vacant.damage.is_some()) {
        shared
            .pool
            .adopt(slot(vacant.slot, &vacant.file), Header::Stale)?;
    }
    shared.end_recovery();
    shared.pool.fill_reserve()?;
    Ok(())
}

impl RepairReport {
    /// Fills in the losses. Records missing after the last sound record can only be detected by a
    /// watermark or the mark, because no later record reveals the gap.
    fn tell(&mut self, survey: &Survey, inventory: &Inventory, start: Start, last: u64) {
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
                    "segment {number} of the log, which lane {lane} was writing: whether it held more is not known"
                ));
            }
        }
        for (source, fact) in inventory.sources.iter().zip(&survey.facts) {
            for &hole in &fact.holes {
                self.damaged
                    .push(source.place(Structure::LogRecord, hole).to_string());
            }
        }
        for vacant in &inventory.vacant {
            if let Some(damage) = &vacant.damage {
                let place = Place::new(Structure::LogSegment, slot_file(vacant.slot), 0);
                self.damaged.push(format!("{place}: {damage}"));
                if survey.mark.is_none() {
                    self.lost_segments.push(format!(
                        "the segment in {}: what it held is not known, for the log's mark is damaged, too",
                        slot_file(vacant.slot)
                    ));
                }
            }
        }
    }
}

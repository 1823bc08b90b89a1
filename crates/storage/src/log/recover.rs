//! Opening a log after a close, a crash, or a crash of an opening.
//!
//! Two passes. *Survey* reads everything and decides, changing nothing: which generation is named, what was synced,
//! what is missing. *Replay* begins a new incarnation and then hands the records over in order.
//!
//! ```text
//!   survey ──► missing ≤ synced? ── error, with the place
//!      │
//!      ├─ same boot:  gaps are skipped;         each is covered by a void record in the new incarnation
//!      └─ other boot: cut before the first gap; segments with records behind it are rewritten as far as they
//!                     count, the copies synced, and then the old segments destroyed, durably
//! ```
//!
//! Why a crash at any moment of this is a crash like any other: the new incarnation's first header says where it begins
//! (`base`) and is durable before any record of it. Until then the survey finds what it found. From then on earlier
//! incarnations count up to `base` only, whatever is left of them; copies repeat what they copy, and the newest is
//! taken; what is not yet destroyed is cut off by `base`, and once it is destroyed, `base` is not needed any more. Void
//! records that a crash took away leave the gap that they covered: the same boot skips it again, another cuts there.
//! Nothing is acknowledged at `Disk` before everything kept is synced: what this boot wrote is not taken to be.

use super::close;
use super::format::{CloseMark, Kind};
use super::lane::Entry;
use super::merge::{Fact, Found, Merge, Next, Reading};
use super::options::{Durability, LogOptions};
use super::pool::{Claim, Header, Limit};
use super::scan::{Cursor, Inventory, Source, Stop};
use super::segment::{Segment, Slot, slot_file, void};
use super::shared::{Origin, Shared};
use super::{Record, RepairReport};
use crate::{Error, Place, Result, Structure};
use alluvium_base::Purpose;
use alluvium_device::Directory;
use std::sync::Arc;

/// How many segments have a buffer for payloads at a time.
const MAX_CURSORS: usize = 32;

/// What the caller knows when he opens a log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// Sequences up to here are held by the checkpoint.
    pub(super) from: u64,
    /// The generation of the superblock that was opened.
    pub(super) generation: u64,
    /// What the superblock says was synced.
    pub(super) synced_at_least: u64,
}

/// Whether damage is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strictness {
    /// It is.
    Strict,
    /// It is skipped and reported.
    Repair,
}

/// What the first pass found.
#[derive(Debug)]
struct Survey {
    facts: Vec<Fact>,
    /// The highest sequence of any record that counts.
    last: u64,
    /// What is missing before some record, first and last of each range.
    gaps: Vec<(u64, u64)>,
    overlap: Option<Found>,
    synced: u64,
    generation: u64,
    /// The mark of a clean close, unless a later incarnation has begun.
    closed: Option<CloseMark>,
}

/// What is kept, and how.
#[derive(Debug)]
struct Plan {
    /// The last sequence that counts.
    last: u64,
    /// What is missing up to there.
    gaps: Vec<(u64, u64)>,
    /// Which sources are rewritten and destroyed.
    rewritten: Vec<bool>,
}

impl Survey {
    fn take(
        inventory: &Inventory,
        start: Start,
        reading: Reading,
        closed: Option<CloseMark>,
    ) -> Result<Survey> {
        let mut merge = Merge::new(&inventory.sources, start.from, reading, Purpose::Recovery);
        let (mut last, mut gaps, mut overlap) = (start.from, Vec::new(), None);
        while let Some(next) = merge.next()? {
            match next {
                Next::Gap { first, last } => gaps.push((first, last)),
                Next::Record(found) => last = found.record.header.last(),
                Next::Overlap(found) => overlap = overlap.or(Some(found)),
            }
        }
        let facts = merge.into_facts();
        let closed = closed.filter(|mark| mark.incarnation >= inventory.incarnation());
        let synced = facts.iter().map(|fact| fact.synced).max().unwrap_or(0);
        let synced = synced.max(closed.map_or(0, |mark| mark.synced));
        let generation = facts.iter().map(|fact| fact.generation).max().unwrap_or(0);
        Ok(Survey {
            synced: synced.max(start.synced_at_least).max(start.from),
            generation: generation.max(closed.map_or(0, |mark| mark.generation)),
            closed,
            facts,
            last,
            gaps,
            overlap,
        })
    }

    /// The first missing sequence, if a record follows it.
    fn first_gap(&self) -> Option<u64> {
        self.gaps.first().map(|&(first, _)| first)
    }

    /// Fails when something is missing or wrong that was acknowledged.
    fn judge(&self, inventory: &Inventory, start: Start) -> Result<()> {
        if self.generation > start.generation {
            return Err(Error::OlderGeneration {
                opened: start.generation,
                named: self.generation,
            });
        }
        if inventory.sources.is_empty() {
            let (place, found) = self.suspect(inventory);
            return Err(Error::corrupt(place, "at least one segment of the log", found));
        }
        if self
            .closed
            .is_some_and(|mark| mark.incarnation > inventory.incarnation())
        {
            let (place, found) = self.suspect(inventory);
            return Err(Error::corrupt(
                place,
                "a segment of the incarnation that was closed",
                found,
            ));
        }
        if let Some(found) = self.overlap {
            let source = &inventory.sources[found.source];
            let place = source.place(Structure::LogRecord, found.record.at);
            let header = found.record.header;
            let found = format!("sequences {} to {} once more", header.first, header.last());
            return Err(Error::corrupt(place, "sequences that no other record has", found));
        }
        let missing = self.first_gap().unwrap_or(self.last + 1);
        if missing <= self.synced {
            let (place, found) = self.suspect(inventory);
            let expected = format!(
                "the record of sequence {missing} (everything up to {} was synced)",
                self.synced
            );
            return Err(Error::corrupt(place, expected, found));
        }
        Ok(())
    }

    /// The most likely place of what is missing: a segment that ends where it should not, then a header block that is
    /// none, then the end of the newest segment that ends in something that is not blank.
    fn suspect(&self, inventory: &Inventory) -> (Place, String) {
        let sources = inventory.sources.iter().zip(&self.facts);
        let ended = sources.filter_map(|(source, fact)| match &fact.stop {
            Some(Stop::At(at, why)) => Some((source, *at, why)),
            _ => None,
        });
        let follows = |source: &Source| {
            inventory.sources.iter().any(|later| {
                later.header.number > source.header.number
                    && (later.header.lane, later.header.incarnation)
                        == (source.header.lane, source.header.incarnation)
            })
        };
        if let Some((source, at, why)) = ended.clone().find(|(source, ..)| follows(source)) {
            return (source.place(Structure::LogRecord, at), why.clone());
        }
        let damaged = inventory
            .vacant
            .iter()
            .find_map(|vacant| Some((vacant, vacant.damage.as_ref()?)));
        if let Some((vacant, damage)) = damaged {
            let place = Place::new(Structure::LogSegment, slot_file(vacant.slot), 0);
            return (place, damage.clone());
        }
        if let Some((source, at, why)) = ended.max_by_key(|(source, ..)| source.header.number) {
            return (source.place(Structure::LogRecord, at), why.clone());
        }
        let vacant = inventory.vacant.first().map_or(0, |vacant| vacant.slot);
        let place = Place::new(Structure::LogSegment, slot_file(vacant), 0);
        (place, "no segment".to_owned())
    }
}

/// On the boot that wrote it, a mapped segment ends at its last record or at one that was being written: a record behind
/// that is proof of damage. (A write call that a kill interrupts may leave parts of what it writes.)
fn refuse_records_behind_the_end(inventory: &Inventory, survey: &Survey, same_boot: &[bool]) -> Result<()> {
    for ((source, fact), _) in inventory
        .sources
        .iter()
        .zip(&survey.facts)
        .zip(same_boot)
        .filter(|((source, _), same)| **same && source.header.mapped)
    {
        let Some(Stop::At(at, why)) = &fact.stop else {
            continue;
        };
        let mut cursor = Cursor::new(Purpose::Recovery);
        while cursor.next(source)?.is_some() {}
        if cursor.resume(source)? {
            let place = source.place(Structure::LogRecord, *at);
            let expected = format!("a record, for there is another at {}", cursor.position());
            return Err(Error::corrupt(place, expected, why.clone()));
        }
    }
    Ok(())
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
    let closed = match close::read(directory.as_ref(), options.identity)? {
        Ok(closed) => closed,
        Err(_) if strictness == Strictness::Repair => None,
        Err(damage) => {
            let place = Place::new(Structure::LogSegment, close::FILE, 0);
            return Err(Error::corrupt(
                place,
                "the mark of a clean close, or zeros",
                damage,
            ));
        }
    };
    let survey = Survey::take(&inventory, start, reading, closed)?;
    let boot = directory.boot_id();
    let same_boot: Vec<bool> = inventory
        .sources
        .iter()
        .map(|source| source.header.boot == boot)
        .collect();
    if strictness == Strictness::Strict {
        survey.judge(&inventory, start)?;
        refuse_records_behind_the_end(&inventory, &survey, &same_boot)?;
    }
    let newest = inventory
        .sources
        .iter()
        .max_by_key(|source| source.header.incarnation);
    let cuts = strictness == Strictness::Strict && newest.is_some_and(|source| source.header.boot != boot);
    let last = match survey.first_gap() {
        Some(missing) if cuts => missing - 1,
        _ => survey.last,
    };
    let rewritten = survey
        .facts
        .iter()
        .map(|fact| strictness == Strictness::Repair || fact.superseded || fact.highest > last);
    let plan = Plan {
        last,
        gaps: survey.gaps.iter().copied().filter(|gap| gap.0 <= last).collect(),
        rewritten: rewritten.collect(),
    };
    // What another boot wrote came from the device just now. What this boot wrote may be in the page cache only.
    let unsynced = same_boot
        .iter()
        .zip(&survey.facts)
        .any(|(&same, fact)| same && fact.highest > 0);
    let origin = Origin {
        incarnation: inventory
            .incarnation()
            .max(closed.map_or(0, |mark| mark.incarnation))
            + 1,
        base: last,
        boot,
        generation: start.generation,
        synced: if unsynced { survey.synced.min(last) } else { last },
        released: start.from,
        number: inventory
            .sources
            .iter()
            .map(|source| source.header.number)
            .max()
            .unwrap_or(0)
            + 1,
    };
    let shared = Shared::new(directory, options, inventory.names.clone(), origin)?;
    let reused = begin_incarnation(&shared, &inventory, &survey, &plan)?;
    let mut report = replay_all(&shared, &inventory, start, reading, &plan, replay)?;
    settle(&shared, &inventory, &survey, &plan, &same_boot, reused)?;
    if strictness == Strictness::Repair {
        // Everything was rewritten and synced.
        shared.commit.raise(last);
        shared.clear_mark()?;
    }
    report.tell(&survey.facts, &inventory, survey.generation.max(start.generation));
    Ok((shared, report))
}

/// Makes the new incarnation's first segment durable. Tells which old segment's slot it took, if any.
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
        other => return other.map(|()| None),
    };
    // The disk is full. A segment that the checkpoint holds makes room, unless it alone names what no other does.
    let spare = inventory.sources.iter().zip(&survey.facts).zip(&plan.rewritten);
    let names = |source: &Source, fact: &Fact| (source.header.incarnation, fact.generation);
    let spare = spare
        .filter(|((_, fact), rewritten)| fact.highest == 0 && !**rewritten)
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
    shared
        .pool
        .adopt(slot(source.slot, &source.file), Header::Stale)?;
    shared.control(Kind::Note, shared.generation())?;
    Ok(Some(source.slot))
}

fn slot(index: u32, file: &Arc<dyn alluvium_device::Device>) -> Arc<Slot> {
    Arc::new(Slot::new(index, Arc::clone(file), file.len()))
}

/// Hands every record over that counts, and writes what the new incarnation must repeat.
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
        // Only a few segments are being read at a time: one for each lane.
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
                count: header.count,
                payload,
            })?;
        }
        if plan.rewritten[found.source] {
            let copy = Entry {
                kind: header.kind,
                first: header.first,
                count: header.count,
                payload,
                tail: &[],
            };
            repeat(shared, copy)?;
        }
    }
    if reached < plan.last {
        return Err(changed(inventory, reached + 1));
    }
    Ok(report)
}

/// The second pass did not find what the first one had found.
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
    shared
        .lanes
        .first()
        .put(shared, entry, Durability::Process, Claim::Essential)
}

/// Covers missing sequences with void records, so that what follows them is never again behind a gap.
fn cover(shared: &Shared, mut first: u64, last: u64) -> Result<()> {
    while first <= last {
        let count = (last - first + 1).min(u64::from(u32::MAX)) as u32;
        let entry = Entry {
            kind: Kind::Void,
            first,
            count,
            payload: &[],
            tail: &[],
        };
        repeat(shared, entry)?;
        first += u64::from(count);
    }
    Ok(())
}

/// Keeps what is still needed, destroys what was rewritten, and makes slots of the rest.
fn settle(
    shared: &Shared,
    inventory: &Inventory,
    survey: &Survey,
    plan: &Plan,
    same_boot: &[bool],
    reused: Option<u32>,
) -> Result<()> {
    let kept = |index: usize| survey.facts[index].highest > 0 && !plan.rewritten[index];
    for (index, source) in inventory
        .sources
        .iter()
        .enumerate()
        .filter(|(index, _)| kept(*index))
    {
        let fact = &survey.facts[index];
        let slot = slot(source.slot, &source.file);
        shared.pool.count_live(slot.len);
        let synced = !same_boot[index];
        let segment = Segment::recovered(slot, source.header, fact.written, fact.highest, synced);
        shared.table.lock().push(Arc::new(segment));
    }
    if plan.rewritten.contains(&true) {
        // The copies are durable before what they copy goes; so are those of an earlier recovery on this boot.
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
                .pool
                .adopt(slot(source.slot, &source.file), Header::Stale)?;
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
    fn tell(&mut self, facts: &[Fact], inventory: &Inventory, generation: u64) {
        self.named_generation = generation;
        for (source, fact) in inventory.sources.iter().zip(facts) {
            for &hole in &fact.holes {
                self.damaged
                    .push(source.place(Structure::LogRecord, hole).to_string());
            }
        }
        for vacant in &inventory.vacant {
            if let Some(damage) = &vacant.damage {
                let place = Place::new(Structure::LogSegment, slot_file(vacant.slot), 0);
                self.damaged.push(format!("{place}: {damage}"));
            }
        }
    }
}

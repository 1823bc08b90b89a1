//! The first pass of a recovery. It determines which records the log contains and whether any
//! acknowledged record is missing, and changes nothing.

use super::format::LogMark;
use super::merge::{LogMerger, SegmentFacts, SegmentReadMode, SequenceStep, SourceRecord};
use super::recover::RecoveryStart;
use super::scan::{LogInventory, SegmentCursor, SegmentEnd, SegmentSource};
use super::segment::slot_file;
use crate::{DiskLocation, Error, OnDiskObject, Result};
use alluvium_base::Purpose;
use alluvium_device::BootId;

/// The result of the first pass of a recovery.
#[derive(Debug)]
pub(super) struct RecoveryScan {
    pub(super) facts: Vec<SegmentFacts>,
    /// The highest sequence number of any valid record.
    pub(super) last: u64,
    /// Ranges of missing sequence numbers that are followed by a record, as pairs of the first and
    /// last number.
    pub(super) gaps: Vec<(u64, u64)>,
    pub(super) overlap: Option<SourceRecord>,
    pub(super) synced: u64,
    /// Everything up to this sequence number is known to have been in the page cache.
    pub(super) named: u64,
    /// Everything up to this sequence number must be present. Equal to `named` on the boot that
    /// wrote the log, and 0 on other boots.
    pub(super) complete: u64,
    pub(super) generation: u64,
    /// The mark, or `None` if a newer incarnation than the mark's has begun.
    pub(super) mark: Option<LogMark>,
    /// Whether the log was written on the current boot.
    pub(super) same_boot: bool,
}

impl RecoveryScan {
    pub(super) fn take(
        inventory: &LogInventory,
        start: RecoveryStart,
        reading: SegmentReadMode,
        mark: Option<LogMark>,
        boot: BootId,
    ) -> Result<RecoveryScan> {
        let mut merge = LogMerger::new(&inventory.sources, start.from, reading, Purpose::Recovery);
        let (mut last, mut gaps, mut overlap) = (start.from, Vec::new(), None);
        while let Some(next) = merge.next()? {
            match next {
                SequenceStep::Gap { first, last } => gaps.push((first, last)),
                SequenceStep::Record(found) => last = found.record.header.last(),
                SequenceStep::Overlap(found) => overlap = overlap.or(Some(found)),
            }
        }
        let facts = merge.into_facts();
        assert_eq!(facts.len(), inventory.sources.len(), "a fact for each segment");
        debug_assert!(gaps.is_sorted() && last >= start.from, "records were merged");
        let newest = inventory.incarnation();
        let mark = mark.filter(|mark| mark.incarnation >= newest);
        let written = inventory
            .sources
            .iter()
            .filter(|source| source.header.incarnation == newest);
        let same_boot = written.clone().any(|source| source.header.boot == boot);
        let base = written.map(|source| source.header.base).max().unwrap_or(0);
        let highest = |of: fn(&SegmentFacts) -> u64| facts.iter().map(of).max().unwrap_or(0);
        let named = |of: fn(&LogMark) -> u64| mark.as_ref().map_or(0, of);
        let synced = highest(|fact| fact.synced).max(named(|mark| mark.synced));
        let complete = highest(|fact| fact.complete).max(named(|mark| mark.complete));
        let complete = complete.max(base);
        Ok(RecoveryScan {
            synced: synced.max(start.synced_at_least).max(start.from),
            named: complete,
            complete: if same_boot { complete } else { 0 },
            generation: highest(|fact| fact.generation).max(named(|mark| mark.generation)),
            mark,
            same_boot,
            facts,
            last,
            gaps,
            overlap,
        })
    }

    /// Returns whether the mark names this segment as the current segment of a lane.
    pub(super) fn is_marked(&self, number: u64) -> bool {
        let lanes = self.mark.as_ref().map(|mark| mark.lanes.iter());
        lanes.into_iter().flatten().any(|lane| *lane == Some(number))
    }

    /// Returns the first missing sequence number that is followed by a record, or `None` if there
    /// is no gap.
    pub(super) fn first_gap(&self) -> Option<u64> {
        self.gaps.first().map(|&(first, _)| first)
    }

    /// Returns an error if an acknowledged record is missing or the log is inconsistent.
    pub(super) fn require_sound(&self, inventory: &LogInventory, start: RecoveryStart) -> Result<()> {
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
            .mark
            .as_ref()
            .is_some_and(|mark| mark.incarnation > inventory.incarnation())
        {
            let (place, found) = self.suspect(inventory);
            return Err(Error::corrupt(
                place,
                "a segment of the incarnation that wrote the log's mark",
                found,
            ));
        }
        if let Some(found) = self.overlap {
            let source = &inventory.sources[found.source];
            let place = source.place(OnDiskObject::LogRecord, found.record.at);
            let header = found.record.header;
            let found = format!("sequences {} to {} a second time", header.first, header.last());
            return Err(Error::corrupt(place, "sequences that no other record has", found));
        }
        let missing = self.first_gap().unwrap_or(self.last + 1);
        if missing <= self.synced.max(self.complete) {
            let (place, found) = self.suspect(inventory);
            let why = if missing <= self.synced {
                format!("everything up to {} was synced", self.synced)
            } else {
                format!(
                    "everything up to {} was written since the machine started",
                    self.complete
                )
            };
            let expected = format!("the record of sequence {missing} ({why})");
            return Err(Error::corrupt(place, expected, found));
        }
        self.refuse_short_file(inventory)?;
        if !self.same_boot {
            // After a power failure, the mark may name a segment whose header was never written to
            // disk.
            return Ok(());
        }
        match self.missing_segment(inventory, start) {
            None => Ok(()),
            Some((lane, number)) => {
                let (place, found) = self.suspect(inventory);
                let expected = format!("segment {number}, which lane {lane} was writing");
                Err(Error::corrupt(place, expected, found))
            }
        }
    }

    /// Returns an error if the file of a lane's current segment is shorter than the segment. This
    /// means damage on any boot, because a file's size is durable before its first record is
    /// written (L2).
    fn refuse_short_file(&self, inventory: &LogInventory) -> Result<()> {
        for (source, fact) in inventory.sources.iter().zip(&self.facts) {
            let header = &source.header;
            let is_short = source.end < header.len && self.is_marked(header.number);
            if let (true, Some(SegmentEnd::At(at, _))) = (is_short, &fact.stop) {
                debug_assert!(*at < header.len, "records lie inside their segment (L2)");
                let place = source.place(OnDiskObject::LogSegment, *at);
                let expected = format!("a segment of {} bytes", header.len);
                let found = format!("a file of {} bytes", source.file.len());
                return Err(Error::corrupt(place, expected, found));
            }
        }
        Ok(())
    }

    /// Returns a lane whose current segment according to the mark does not exist, and the number of
    /// that segment. Returns `None` if there is no such lane. Also returns `None` if the mark is
    /// older than the last release, because released segments may have been removed.
    pub(super) fn missing_segment(
        &self,
        inventory: &LogInventory,
        start: RecoveryStart,
    ) -> Option<(usize, u64)> {
        let mark = self.mark.as_ref().filter(|mark| mark.released >= start.from)?;
        let is_there = |number: u64| {
            let mut sources = inventory.sources.iter();
            sources.any(|source| source.header.number == number)
        };
        let lanes = mark.lanes.iter().enumerate();
        lanes
            .filter_map(|(lane, number)| Some((lane, (*number)?)))
            .find(|&(_, number)| !is_there(number))
    }

    /// Returns the most likely location of missing records, and what was found there. In order of
    /// preference, this is the end of a segment that is followed by a later segment of its lane, a
    /// damaged segment header, or the end of the newest unsealed segment.
    pub(super) fn suspect(&self, inventory: &LogInventory) -> (DiskLocation, String) {
        let sources = inventory.sources.iter().zip(&self.facts);
        let ended = sources.filter_map(|(source, fact)| match &fact.stop {
            Some(SegmentEnd::At(at, why)) => Some((source, *at, why)),
            _ => None,
        });
        let follows = |source: &SegmentSource| {
            inventory.sources.iter().any(|later| {
                later.header.number > source.header.number
                    && (later.header.lane, later.header.incarnation)
                        == (source.header.lane, source.header.incarnation)
            })
        };
        if let Some((source, at, why)) = ended.clone().find(|(source, ..)| follows(source)) {
            return (source.place(OnDiskObject::LogRecord, at), why.clone());
        }
        let damaged = inventory
            .vacant
            .iter()
            .find_map(|vacant| Some((vacant, vacant.damage.as_ref()?)));
        if let Some((vacant, damage)) = damaged {
            let place = DiskLocation::new(OnDiskObject::LogSegment, slot_file(vacant.slot), 0);
            return (place, damage.clone());
        }
        if let Some((source, at, why)) = ended.max_by_key(|(source, ..)| source.header.number) {
            return (source.place(OnDiskObject::LogRecord, at), why.clone());
        }
        let vacant = inventory.vacant.first().map_or(0, |vacant| vacant.slot);
        let place = DiskLocation::new(OnDiskObject::LogSegment, slot_file(vacant), 0);
        (place, "no segment".to_owned())
    }
}

/// Returns an error if a record follows the end of a segment. On the boot that wrote it, a segment
/// ends at its last record or at a record that was being written, so a valid record beyond means
/// damage. Segments of earlier incarnations are not checked, because the base of the newest
/// incarnation already cuts off what follows their end.
pub(super) fn refuse_records_behind_the_end(inventory: &LogInventory, survey: &RecoveryScan) -> Result<()> {
    let newest = inventory.incarnation();
    for (source, fact) in inventory.sources.iter().zip(&survey.facts) {
        if !survey.same_boot || source.header.incarnation != newest {
            continue;
        }
        let Some(SegmentEnd::At(at, why)) = &fact.stop else {
            continue;
        };
        let mut cursor = SegmentCursor::new(Purpose::Recovery);
        while cursor.next(source)?.is_some() {}
        if cursor.resume(source)? {
            let place = source.place(OnDiskObject::LogRecord, *at);
            let expected = format!("a record, because another one follows at {}", cursor.position());
            return Err(Error::corrupt(place, expected, why.clone()));
        }
    }
    Ok(())
}

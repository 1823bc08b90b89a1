//! The first pass of a recovery: what is there, and whether anything is missing that was
//! acknowledged. It changes nothing.

use super::format::Mark;
use super::merge::{Fact, Found, Merge, Next, Reading};
use super::recover::Start;
use super::scan::{Cursor, Inventory, Source, Stop};
use super::segment::slot_file;
use crate::{Error, Place, Result, Structure};
use alluvium_base::Purpose;
use alluvium_device::BootId;

/// What the first pass found.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) facts: Vec<Fact>,
    /// The highest sequence of any record that counts.
    pub(super) last: u64,
    /// What is missing before some record, first and last of each range.
    pub(super) gaps: Vec<(u64, u64)>,
    pub(super) overlap: Option<Found>,
    pub(super) synced: u64,
    /// Everything up to here was in the page cache once.
    pub(super) named: u64,
    /// On the boot that wrote the log the same, otherwise 0: what must be there.
    pub(super) complete: u64,
    pub(super) generation: u64,
    /// The mark, unless a later incarnation has begun.
    pub(super) mark: Option<Mark>,
    /// Whether this boot wrote the log.
    pub(super) same_boot: bool,
}

impl Survey {
    pub(super) fn take(
        inventory: &Inventory,
        start: Start,
        reading: Reading,
        mark: Option<Mark>,
        boot: BootId,
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
        let highest = |of: fn(&Fact) -> u64| facts.iter().map(of).max().unwrap_or(0);
        let named = |of: fn(&Mark) -> u64| mark.as_ref().map_or(0, of);
        let synced = highest(|fact| fact.synced).max(named(|mark| mark.synced));
        let complete = highest(|fact| fact.complete).max(named(|mark| mark.complete));
        let complete = complete.max(base);
        Ok(Survey {
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

    /// Returns whether the mark names a segment as one that a lane was writing.
    pub(super) fn is_marked(&self, number: u64) -> bool {
        let lanes = self.mark.as_ref().map(|mark| mark.lanes.iter());
        lanes.into_iter().flatten().any(|lane| *lane == Some(number))
    }

    /// Returns the first missing sequence, if a record follows it.
    pub(super) fn first_gap(&self) -> Option<u64> {
        self.gaps.first().map(|&(first, _)| first)
    }

    /// Fails when something is missing or wrong that was acknowledged.
    pub(super) fn judge(&self, inventory: &Inventory, start: Start) -> Result<()> {
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
            let place = source.place(Structure::LogRecord, found.record.at);
            let header = found.record.header;
            let found = format!("sequences {} to {} once more", header.first, header.last());
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
            // The mark may name a segment whose header was lost with the power.
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

    /// Fails when the file of a segment that a lane was writing is shorter than the segment. On any
    /// boot that is damage: a file has its length durably before its first record (L2).
    fn refuse_short_file(&self, inventory: &Inventory) -> Result<()> {
        for (source, fact) in inventory.sources.iter().zip(&self.facts) {
            let header = &source.header;
            let is_short = source.end < header.len && self.is_marked(header.number);
            if let (true, Some(Stop::At(at, _))) = (is_short, &fact.stop) {
                debug_assert!(*at < header.len, "records lie inside their segment (L2)");
                let place = source.place(Structure::LogSegment, *at);
                let expected = format!("a segment of {} bytes", header.len);
                let found = format!("a file of {}", source.file.len());
                return Err(Error::corrupt(place, expected, found));
            }
        }
        Ok(())
    }

    /// Returns a lane and the number of the segment that it was writing, if that is not there.
    /// After a release that the mark does not know of, the mark is too old to tell.
    pub(super) fn missing_segment(&self, inventory: &Inventory, start: Start) -> Option<(usize, u64)> {
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

    /// Returns the most likely place of what is missing: a segment that ends where it should not,
    /// then a header block that is none, then the end of the newest segment that ends in something
    /// that is not blank.
    pub(super) fn suspect(&self, inventory: &Inventory) -> (Place, String) {
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

/// On the boot that wrote it, a segment ends at its last record or at one that was being written: a
/// record behind that is proof of damage. Earlier incarnations are held to their end by the newest
/// one's base.
pub(super) fn refuse_records_behind_the_end(inventory: &Inventory, survey: &Survey) -> Result<()> {
    let newest = inventory.incarnation();
    for (source, fact) in inventory.sources.iter().zip(&survey.facts) {
        if !survey.same_boot || source.header.incarnation != newest {
            continue;
        }
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

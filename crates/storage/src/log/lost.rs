//! Detects records that were written to the log but are missing after a power failure.
//!
//! On the boot and mount that wrote the log, missing records mean damage, and opening fails. On
//! another boot, any records of the last second may be missing without any damage. The log is then
//! opened up to the first gap, and the loss is reported to the caller.

use super::recover::RecoveryStart;
use super::recovery_scan::RecoveryScan;
use super::scan::{LogInventory, SegmentCursor, SegmentSource};
use crate::{DiskLocation, Result};
use alluvium_base::Purpose;
use std::fmt;

/// Records that were written at the end of the log but are missing.
///
/// After a power failure this is expected, because these records were never acknowledged as
/// durable. Otherwise it means damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostTail {
    /// The last sequence number that the log still contains.
    pub last: u64,
    /// The highest sequence number known to have been written, or `None` if a segment is missing
    /// and its records are unknown.
    pub written: Option<u64>,
    /// The most likely location of the missing records.
    pub place: DiskLocation,
    /// A description of what was found at that location.
    pub found: String,
}

impl fmt::Display for LostTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.last;
        match self.written {
            Some(written) => write!(
                f,
                "the log ends at sequence {last}, but was written up to {written}"
            )?,
            None => write!(
                f,
                "the log ends at sequence {last}, but a segment that was written is missing"
            )?,
        }
        write!(f, " ({}: {})", self.place, self.found)
    }
}

impl LostTail {
    /// Returns what is missing from a log that is opened up to sequence number `last`, or `None` if
    /// no records are known to be missing.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn find(
        inventory: &LogInventory,
        survey: &RecoveryScan,
        start: RecoveryStart,
        last: u64,
    ) -> Result<Option<LostTail>> {
        if survey.same_boot {
            // On the same boot, missing records would have made the opening fail.
            return Ok(None);
        }
        let (sources, facts) = (inventory.sources.len(), survey.facts.len());
        assert_eq!(sources, facts, "a fact for each segment");
        let mut written = Some(survey.named).filter(|&named| named > last);
        for (source, fact) in inventory.sources.iter().zip(&survey.facts) {
            let counts = source.header.incarnation == inventory.incarnation();
            if counts && fact.stop.is_some() {
                let behind = highest_behind_damage(source)?;
                written = written.max(behind.filter(|&behind| behind > last));
            }
        }
        if written.is_none() && survey.missing_segment(inventory, start).is_none() {
            return Ok(None);
        }
        debug_assert!(
            written.is_none_or(|written| written > last),
            "what is lost lies behind the end of the log"
        );
        let (place, found) = survey.suspect(inventory);
        Ok(Some(LostTail {
            last,
            written,
            place,
            found,
        }))
    }
}

/// Reads past the damage in a segment, and returns the highest sequence number in the valid records
/// after it, or `None` if there are none.
///
/// # Errors
/// I/O errors.
fn highest_behind_damage(source: &SegmentSource) -> Result<Option<u64>> {
    let mut cursor = SegmentCursor::new(Purpose::Recovery);
    while cursor.next(source)?.is_some() {}
    let mut highest = None;
    while cursor.resume(source)? {
        debug_assert!(
            cursor.position() < source.end,
            "a record lies inside its segment (L3)"
        );
        while let Some(record) = cursor.next(source)? {
            if record.header.kind.is_numbered() {
                highest = highest.max(Some(record.header.last()));
            }
            cursor.let_go();
        }
    }
    Ok(highest)
}

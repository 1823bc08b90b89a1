//! Converts a frozen log to a hash store without hashing any key again.

use super::log::{LogIndex, SiltLogRecord, SiltRecordKind};
use super::slots::{SiltSlot, SiltSlotLayout, SiltSlotState};
use super::{Error, Result};
use research_filters::cuckoo::CuckooSlot as Place;

/// Writes the slots of a hash store, in order, from a frozen log's index, and returns the bytes
/// of its filter. `read` returns the record at a unit; `write` receives the bytes of the next
/// slots. A slot has the number of its entry in the index (S3), so 7 % of the slots are empty;
/// deletions are kept.
///
/// # Errors
/// [`Error::TooLong`] when a record does not fit in a slot; the errors of `read` and `write`.
pub fn convert<'r, E: From<Error>>(
    index: &LogIndex,
    layout: &SiltSlotLayout,
    mut read: impl FnMut(u32) -> std::result::Result<SiltLogRecord<'r>, E>,
    mut write: impl FnMut(&[u8]) -> std::result::Result<(), E>,
) -> std::result::Result<Vec<u8>, E> {
    let mut entries = index.entries().peekable();
    let mut bytes = Vec::with_capacity(layout.slot_bytes as usize);
    for number in 0..index.shape().slots() {
        bytes.clear();
        match entries.next_if(|(place, _)| *place == Place::new(number)) {
            Some((_, unit)) => encode(layout, &read(unit)?, &mut bytes)?,
            None => layout.encode(None, &mut bytes)?,
        }
        write(&bytes)?;
    }
    debug_assert!(
        entries.peek().is_none(),
        "S3: entries are in the order of their slots"
    );
    Ok(index.filter())
}

fn encode(layout: &SiltSlotLayout, record: &SiltLogRecord<'_>, out: &mut Vec<u8>) -> Result<()> {
    let state = match record.kind {
        SiltRecordKind::Put => SiltSlotState::Value,
        SiltRecordKind::Delete => SiltSlotState::Deleted,
    };
    let slot = SiltSlot {
        state,
        key: record.key,
        value: record.value,
    };
    layout.encode(Some(&slot), out)
}

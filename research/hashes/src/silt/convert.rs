//! Converts a frozen log to a hash store without hashing any key again.

use super::log::{Kind, LogIndex, Record};
use super::slots::{Layout, Slot, State};
use super::{Error, Result};
use research_filters::cuckoo::Slot as Place;

/// Writes the slots of a hash store, in order, from a frozen log's index, and returns the bytes
/// of its filter. `read` returns the record at a unit; `write` receives the bytes of the next
/// slots. A slot has the number of its entry in the index (S3), so 7 % of the slots are empty;
/// deletions are kept.
///
/// # Errors
/// [`Error::TooLong`] when a record does not fit in a slot; the errors of `read` and `write`.
pub fn convert<'r, E: From<Error>>(
    index: &LogIndex,
    layout: &Layout,
    mut read: impl FnMut(u32) -> std::result::Result<Record<'r>, E>,
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

fn encode(layout: &Layout, record: &Record<'_>, out: &mut Vec<u8>) -> Result<()> {
    let state = match record.kind {
        Kind::Put => State::Value,
        Kind::Delete => State::Deleted,
    };
    let slot = Slot {
        state,
        key: record.key,
        value: record.value,
    };
    layout.encode(Some(&slot), out)
}

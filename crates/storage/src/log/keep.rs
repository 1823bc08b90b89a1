//! What a recovery does to the segments that it keeps where they are: it writes them once more, and
//! cuts their ends off.

use super::format::ALIGNMENT;
use super::scan::{Cursor, Source};
use super::segment::slot_file;
use crate::{Error, Place, Result, Structure};
use alluvium_base::Purpose;
use alluvium_device::{BLOCK, Buffer};

/// How much is written once more at a time, in bytes.
const CHUNK: u64 = 1 << 20;

/// A segment whose records all count up to a place, and none behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trim {
    /// Where the first record begins that does not count.
    pub(super) at: u64,
    /// The highest sequence before that.
    pub(super) highest: u64,
}

/// Where to cut a segment of which nothing above `last` counts; none when records that count lie
/// behind others, or when nothing above `from` would be left.
///
/// # Errors
/// As the device says.
pub(super) fn trim_at(source: &Source, from: u64, last: u64) -> Result<Option<Trim>> {
    let mut cursor = Cursor::new(Purpose::Recovery);
    let (mut at, mut highest) = (None, 0);
    while let Some(record) = cursor.next(source)? {
        if !record.header.kind.is_numbered() {
            continue;
        }
        if record.header.last() > last {
            at = at.or(Some(record.at));
        } else if at.is_some() {
            return Ok(None);
        } else {
            highest = highest.max(record.header.last());
        }
    }
    Ok(at.filter(|_| highest > from).map(|at| Trim { at, highest }))
}

/// Destroys everything behind a place in a segment, durably. It needs no room, so it works on a
/// full disk.
///
/// # Errors
/// As the device says.
pub(super) fn cut_off(source: &Source, at: u64, written: u64) -> Result<()> {
    debug_assert!(at.is_multiple_of(ALIGNMENT));
    let start = at / BLOCK * BLOCK;
    let end = written.next_multiple_of(BLOCK).min(source.end);
    let mut buffer = Buffer::zeroed((end - start) as usize);
    let before = (at - start) as usize;
    let block = source.file.read_at(start, BLOCK as usize, Purpose::Recovery)?;
    buffer[..before].copy_from_slice(&block[..before]);
    source.file.write_at(start, buffer, Purpose::Log)?;
    source.file.sync(Purpose::Log)?;
    Ok(())
}

/// Writes what a segment holds up to `written` once more, so that the next sync writes it whatever
/// became of an earlier one. A page that a failed sync left clean could be given up before that, so
/// what was written is read again.
///
/// # Errors
/// [`Error::Corrupt`] when it is not there any more; or as the device says.
pub(super) fn write_again(source: &Source, written: u64) -> Result<()> {
    let end = written.next_multiple_of(BLOCK).min(source.end);
    let mut at = 0;
    while at < end {
        let len = CHUNK.min(end - at);
        let bytes = source.file.read_at(at, len as usize, Purpose::Recovery)?;
        source.file.write_at(at, bytes, Purpose::Log)?;
        at += len;
    }
    let mut cursor = Cursor::new(Purpose::Recovery);
    while cursor.next(source)?.is_some() {}
    if cursor.position() == written {
        return Ok(());
    }
    let place = Place::new(Structure::LogRecord, slot_file(source.slot), cursor.position());
    let expected = "a record that was read a moment ago";
    Err(Error::corrupt(
        place,
        expected,
        "none: the device reads unreliably",
    ))
}

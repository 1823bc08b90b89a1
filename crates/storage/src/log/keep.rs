//! What a recovery does to the segments that it keeps where they are: it writes them once more, and
//! cuts their ends off.
//!
//! Where files are copied on write both take space, which a full disk does not have. Then the log
//! opens all the same, for reading, and the work is put off, with the first segment of the new
//! incarnation if the disk has no space for that: it is done before the first record is appended
//! and before anything counts as synced. Until then no file of the log is changed or removed that
//! the mark of the incarnation before names, so that a crash finds what this opening found.

use super::format::ALIGNMENT;
use super::pool::{Header, Pool};
use super::scan::{Cursor, Source};
use super::segment::slot_file;
use crate::{Error, Place, Result, Structure};
use alluvium_base::Purpose;
use alluvium_device::{BLOCK, Buffer};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// How much is written once more at a time, in bytes.
const CHUNK: u64 = 1 << 20;
const _: () = assert!(CHUNK.is_multiple_of(BLOCK));

/// A segment whose records all count up to a place, and none behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trim {
    /// Where the first record begins that does not count.
    pub(super) at: u64,
    /// The highest sequence before that.
    pub(super) highest: u64,
}

/// What is to be done with a segment that is kept.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// Everything behind `at` goes: what was written up to `written`.
    CutOff { at: u64, written: u64 },
    /// What is there up to `written` is written once more.
    WriteAgain { written: u64 },
    /// Nothing of it is needed any more: its file is used again. While the mark of the incarnation
    /// before counts, its segments stay.
    GiveFree,
}

impl Work {
    /// # Errors
    /// As [`cut_off`], [`write_again`] and [`Pool::adopt`].
    fn run(self, source: &Source, pool: &Pool) -> Result<()> {
        match self {
            Work::CutOff { at, written } => cut_off(source, at, written),
            Work::WriteAgain { written } => write_again(source, written),
            Work::GiveFree => pool.adopt(source.as_slot(), Header::Stale),
        }
    }
}

/// Work that was put off since the disk was full.
#[derive(Debug, Default)]
pub(super) struct PutOff {
    is_any: AtomicBool,
    works: Mutex<Works>,
}

#[derive(Debug, Default)]
struct Works {
    /// Whether the incarnation has no segment yet, which comes first.
    begin: bool,
    kept: Vec<(Source, Work)>,
}

impl PutOff {
    /// The incarnation begins when the disk has space for its first segment.
    pub(super) fn begin_later(&self) {
        self.works.lock().begin = true;
        self.is_any.store(true, Ordering::Release);
    }

    /// Does the work, or puts it off where the disk is full or the incarnation has not begun.
    ///
    /// # Errors
    /// As [`cut_off`], [`write_again`] and [`Pool::adopt`], but for a full disk.
    pub(super) fn run_or_put_off(&self, source: &Source, work: Work, pool: &Pool) -> Result<()> {
        let mut works = self.works.lock();
        // In their order: a segment is cut off before it is written once more.
        let is_behind = works.begin || !works.kept.is_empty();
        let done = (!is_behind).then(|| work.run(source, pool));
        match done {
            Some(Err(error)) if !error.is_full() => return Err(error),
            Some(Ok(())) => return Ok(()),
            Some(Err(_)) | None => {}
        }
        works.kept.push((source.clone(), work));
        self.is_any.store(true, Ordering::Release);
        Ok(())
    }

    /// Does what was put off; `begin` has the incarnation begin.
    ///
    /// # Errors
    /// As [`cut_off`], [`write_again`] and `begin`; while the disk is full it stays put off.
    #[inline]
    pub(super) fn catch_up(&self, pool: &Pool, begin: impl FnOnce() -> Result<()>) -> Result<()> {
        if !self.is_any.load(Ordering::Acquire) {
            return Ok(());
        }
        self.do_all(pool, begin)
    }

    #[cold]
    fn do_all(&self, pool: &Pool, begin: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut works = self.works.lock();
        if works.begin {
            begin()?;
            debug_assert!(works.begin, "an incarnation begins once");
            works.begin = false;
        }
        while let Some((source, work)) = works.kept.first() {
            work.run(source, pool)?;
            works.kept.remove(0);
        }
        self.is_any.store(false, Ordering::Release);
        Ok(())
    }
}

/// Returns where to cut a segment of which nothing above `last` counts; none when records that
/// count lie behind others, or when nothing above `from` would be left.
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

/// Destroys everything behind a place in a segment, durably. Where files are written in place it
/// needs no space.
///
/// # Errors
/// As the device says.
pub(super) fn cut_off(source: &Source, at: u64, written: u64) -> Result<()> {
    debug_assert!(at.is_multiple_of(ALIGNMENT));
    let start = at / BLOCK * BLOCK;
    let end = written.next_multiple_of(BLOCK).min(source.end);
    assert!(start < end && at <= written, "{at} of {written} written bytes");
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

//! An import: rows of a stream into a keyspace, with a place in the store that says how far it is.
//!
//! *Knows*: batches and the progress that is committed with them, bad rows, how to go on after a kill.
//!
//! *Does not know*: formats; what is shown meanwhile.
//!
//! *Read in this order*: `progress.rs` (what is remembered), `rejects.rs`, this file.

mod progress;
mod rejects;

pub(crate) use progress::{Identity, PROGRESS, Saved, header_key};
pub(crate) use rejects::Rejects;

use crate::exit::{Exit, failure};
use crate::formats::{Change, Changes, Format, Next, ReadRows, Source};
use crate::stop;
use alluvium::{Db, Keyspace, MAX_KEY, MAX_VALUE, WriteBatch};
use anyhow::{Context, Result};
use std::time::{Duration, SystemTime};

/// A batch is committed when it has so many bytes.
const BATCH: usize = 1 << 20;
/// What a row may write at most: there is room for the progress beside it.
const MAX_WRITTEN: usize = MAX_VALUE - (64 << 10);

/// An import under way.
pub(crate) struct Job<'a> {
    pub(crate) db: &'a Db,
    pub(crate) keyspace: Keyspace,
    pub(crate) places: Keyspace,
    pub(crate) identity: Identity,
    pub(crate) source: Source,
    pub(crate) reader: Box<dyn ReadRows>,
    /// Where rows go that cannot be imported; without it they end the import.
    pub(crate) rejects: Option<Rejects>,
    pub(crate) saved: Saved,
    /// How the input is called in messages.
    pub(crate) name: String,
    pub(crate) format: Format,
}

/// How an import ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Everything is in the store.
    Complete,
    /// Somebody asked it to stop; the same command goes on.
    Stopped,
}

/// What a batch holds besides its writes.
#[derive(Default)]
struct Filling {
    batch: WriteBatch,
    bytes: usize,
}

impl Job<'_> {
    /// Imports until the end, or until somebody asks it to stop; `moved` hears where in the input it is.
    pub(crate) fn run(&mut self, moved: impl Fn(u64)) -> Result<End> {
        let mut filling = Filling::default();
        let mut changes = Changes::new();
        loop {
            if stop::asked() {
                self.commit(&mut filling)?;
                return Ok(End::Stopped);
            }
            changes.clear();
            let mut row = 0;
            let next = match self.reader.next(&mut self.source, &mut row, &mut changes) {
                Ok(next) => next,
                Err(error) => {
                    self.commit(&mut filling)?;
                    let text = format!("{}: {error}; what stands before is imported", self.place());
                    return Err(failure(Exit::BadRows, text));
                }
            };
            let bad = match next {
                Next::End => {
                    self.source.take(row);
                    self.finish(&mut filling)?;
                    return Ok(End::Complete);
                }
                Next::Row => self.add(&mut filling, &changes)?,
                Next::Bad(why) => Some(why),
            };
            match bad {
                Some(why) => self.reject(&mut filling, row, &why)?,
                None => self.saved.rows += u64::from(changes.iter().next().is_some()),
            }
            self.saved.lines += memchr::memchr_iter(b'\n', &self.source.rest()[..row]).count() as u64;
            self.source.take(row);
            if filling.bytes >= BATCH {
                self.commit(&mut filling)?;
                moved(self.source.offset());
            }
        }
    }

    /// The place of the row at the beginning of the source, for people.
    fn place(&self) -> String {
        if self.format == Format::Binary {
            return format!(
                "{}, record {}",
                self.name,
                self.saved.rows + self.saved.rejected + 1
            );
        }
        // Line ends before a row of CSV belong to the row before.
        let is_table = matches!(self.format, Format::Csv | Format::Tsv);
        let rest = self.source.rest().iter();
        let blank = rest.take_while(|byte| is_table && matches!(byte, b'\r' | b'\n'));
        let line = self.saved.lines + 1 + blank.filter(|&&byte| byte == b'\n').count() as u64;
        format!("{}, line {line}", self.name)
    }

    /// Adds what a row says to the batch, or says why that cannot be.
    fn add(&mut self, filling: &mut Filling, changes: &Changes) -> Result<Option<String>> {
        let mut bytes = 0;
        for change in changes.iter() {
            let (key, value) = match change {
                Change::Put(key, value, _) => (key, value.len()),
                Change::Delete(key) => (key, 0),
            };
            if key.len() > MAX_KEY {
                return Ok(Some(format!(
                    "a key of {} bytes is too long: {MAX_KEY} are possible",
                    key.len()
                )));
            }
            bytes += key.len() + value + 32;
        }
        if bytes > MAX_WRITTEN {
            return Ok(Some(format!(
                "it writes {bytes} bytes at once: {MAX_WRITTEN} are possible"
            )));
        }
        if filling.bytes + bytes > MAX_WRITTEN {
            self.commit(filling)?;
        }
        for change in changes.iter() {
            match change {
                Change::Put(key, value, None) => filling.batch.put(&self.keyspace, key, value)?,
                Change::Put(key, value, Some(ms)) => {
                    let expires = SystemTime::now().checked_add(Duration::from_millis(ms));
                    match expires {
                        Some(expires) => filling.batch.put_until(&self.keyspace, key, value, expires)?,
                        None => filling.batch.put(&self.keyspace, key, value)?,
                    }
                }
                Change::Delete(key) => filling.batch.delete(&self.keyspace, key)?,
            };
        }
        filling.bytes += bytes;
        Ok(None)
    }

    /// A bad row goes to the file for such, or ends the import.
    fn reject(&mut self, filling: &mut Filling, row: usize, why: &str) -> Result<()> {
        let place = self.place();
        let bytes = &self.source.rest()[..row];
        match &mut self.rejects {
            Some(rejects) => {
                rejects.add(&format!("{place}: {why}"), bytes)?;
                self.saved.rejected += 1;
                Ok(())
            }
            None => {
                self.commit(filling)?;
                let text = format!(
                    "{place}: {why}; what stands before is imported. Correct the row and run the same command again to go on, \
                     or begin again with --restart --rejects FILE, which takes such rows"
                );
                Err(failure(Exit::BadRows, text))
            }
        }
    }

    /// Commits a batch together with how far the import is when it is in the store.
    fn commit(&mut self, filling: &mut Filling) -> Result<()> {
        if let Some(rejects) = &mut self.rejects {
            self.saved.rejects_bytes = rejects.kept()?;
        }
        self.saved.offset = self.source.offset();
        self.saved.tail = progress::fingerprint(self.source.tail());
        self.saved.tail_bytes = self.source.tail().len() as u64;
        filling
            .batch
            .put(&self.places, self.identity.key(), self.saved.encode())?;
        self.write(filling)
    }

    /// Commits the last batch; nothing is left to be remembered then.
    fn finish(&mut self, filling: &mut Filling) -> Result<()> {
        if let Some(rejects) = &mut self.rejects {
            rejects.kept()?;
        }
        filling.batch.delete(&self.places, self.identity.key())?;
        self.write(filling)
    }

    fn write(&mut self, filling: &mut Filling) -> Result<()> {
        self.db.write(&filling.batch).with_context(|| {
            format!(
                "writing rows before line {} of {}; run the same command again to go on",
                self.saved.lines + 1,
                self.name
            )
        })?;
        filling.batch.clear();
        filling.bytes = 0;
        Ok(())
    }
}

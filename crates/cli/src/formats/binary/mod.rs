//! The binary format: keys and values that are preceded by their lengths. It is the fastest format,
//! and it can represent all keys and values.
//!
//! *Scope*: how the end of a record is found, and how an incomplete stream is detected.
//!
//! *Must not depend on*: what the bytes mean.

pub mod format;

use super::{InputSource, NextRow, ReadRows, RowChanges, WriteRows, broken};
use alluvium::{MAX_KEY, MAX_VALUE};
use format::{BinaryFrameHeader, END_LEN, HEAD, MAGIC, decode_head, encode_end, encode_head};
use std::io::{self, Write};

/// Reads and writes records in the binary format.
#[derive(Clone, Copy, Debug, Default)]
pub struct BinaryFormat {
    records: u64,
}

impl BinaryFormat {
    /// Creates a reader or writer that is positioned at the beginning of a stream.
    #[must_use]
    pub fn new() -> BinaryFormat {
        BinaryFormat::default()
    }

    /// Creates a reader for a stream whose first `records` records have already been read.
    #[must_use]
    pub fn behind(records: u64) -> BinaryFormat {
        BinaryFormat { records }
    }
}

fn cut_short(records: u64) -> io::Error {
    broken(format!(
        "the input was cut short after {records} records: export it again"
    ))
}

impl ReadRows for BinaryFormat {
    fn next(
        &mut self,
        source: &mut InputSource,
        row: &mut usize,
        changes: &mut RowChanges,
    ) -> io::Result<NextRow> {
        let mut at = 0;
        if source.offset() == 0 {
            at = MAGIC.len();
            let start = source.at_least(at)?;
            if !start.starts_with(&MAGIC) {
                return Err(broken(
                    "the input is not a binary export: choose another --format",
                ));
            }
        }
        let found = decode_head(&source.at_least(at + END_LEN)?[at..]);
        match found {
            None => Err(cut_short(self.records)),
            Some(BinaryFrameHeader::End(records)) if records == self.records => {
                *row = at + END_LEN;
                Ok(NextRow::End)
            }
            Some(BinaryFrameHeader::End(records)) => {
                let here = self.records;
                Err(broken(format!(
                    "the input should have {records} records, but has {here}: export it again"
                )))
            }
            Some(BinaryFrameHeader::Record(key, value)) => {
                self.records += 1;
                if key > MAX_KEY || value > MAX_VALUE {
                    return Err(broken(format!(
                        "record {} has a key of {key} bytes and a value of {value} bytes, which exceeds the limits: the input is damaged; export it again",
                        self.records
                    )));
                }
                let start = at + HEAD;
                let bytes = source.at_least(start + key + value)?;
                let Some(record) = bytes.get(start..start + key + value) else {
                    return Err(cut_short(self.records - 1));
                };
                let (key, value) = record.split_at(key);
                changes.put(key, value);
                *row = start + record.len();
                Ok(NextRow::Row)
            }
        }
    }
}

impl WriteRows for BinaryFormat {
    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&MAGIC)
    }

    fn row(&mut self, out: &mut dyn Write, key: &[u8], value: &[u8]) -> io::Result<()> {
        let length = |bytes: &[u8]| {
            u32::try_from(bytes.len()).map_err(|_| broken("a key or value is longer than 4 GiB"))
        };
        out.write_all(&encode_head(length(key)?, length(value)?))?;
        out.write_all(key)?;
        out.write_all(value)?;
        self.records += 1;
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&encode_end(self.records))
    }
}

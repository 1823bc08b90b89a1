//! The file for rows that cannot be imported: their bytes, so that it can be corrected and imported
//! itself.

use crate::{private, screen};
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// This number is reported one by one.
const REPORTED: u64 = 10;

/// Rejected rows.
#[derive(Debug)]
pub(crate) struct Rejects {
    path: PathBuf,
    file: BufWriter<File>,
    bytes: u64,
    added: u64,
    is_synced: bool,
}

impl Rejects {
    /// Opens the file as it was when a number of its bytes was remembered; the rest of it goes
    /// away.
    pub(crate) fn open(path: &Path, bytes: u64) -> Result<Rejects> {
        let what = || format!("opening {} for rejected rows", path.display());
        let mut file = private::open(path).with_context(what)?;
        // A device or a pipe has no length.
        if file.metadata().with_context(what)?.is_file() {
            file.set_len(bytes).with_context(what)?;
            file.seek(SeekFrom::Start(bytes)).with_context(what)?;
        }
        Ok(Rejects {
            path: path.to_owned(),
            file: BufWriter::new(file),
            bytes,
            added: 0,
            is_synced: true,
        })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.is_synced = false;
        self.bytes += bytes.len() as u64;
        self.file
            .write_all(bytes)
            .with_context(|| format!("writing to {}", self.path.display()))
    }

    /// What the input begins with, so that the file can be imported as it is.
    pub(crate) fn header(&mut self, header: &[u8]) -> Result<()> {
        if self.bytes == 0 {
            self.write(header)
        } else {
            Ok(())
        }
    }

    /// One more, with what is said about it.
    pub(crate) fn add(&mut self, why: &str, row: &[u8]) -> Result<()> {
        self.added += 1;
        if self.added <= REPORTED {
            screen::complain(why);
        }
        if self.added == REPORTED {
            screen::complain(&format!("further rejected rows are in {}", self.path.display()));
        }
        self.write(row)
    }

    /// Everything is on the disk; how long the file is now.
    pub(crate) fn kept(&mut self) -> Result<u64> {
        if !self.is_synced {
            let what = || format!("writing to {}", self.path.display());
            self.file.flush().with_context(what)?;
            match self.file.get_ref().sync_data() {
                // Nothing is kept there that could be lost.
                Err(error) if error.kind() == ErrorKind::InvalidInput => {}
                synced => synced.with_context(what)?,
            }
            self.is_synced = true;
        }
        Ok(self.bytes)
    }
}

//! The rejects file, which contains copies of rejected rows so that they can be corrected and
//! imported later.

use crate::store::private;
use crate::terminal::screen;
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Maximum number of rejected rows that are reported individually.
const REPORTED: u64 = 10;

/// The file that receives rejected rows.
#[derive(Debug)]
pub(crate) struct RejectsFile {
    path: PathBuf,
    file: BufWriter<File>,
    bytes: u64,
    added: u64,
    is_synced: bool,
}

impl RejectsFile {
    /// Opens the file and truncates it to the length recorded in the progress.
    pub(crate) fn open(path: &Path, bytes: u64) -> Result<RejectsFile> {
        let what = || format!("opening {} for rejected rows", path.display());
        let mut file = private::open(path).with_context(what)?;
        // A device or a pipe has no length and cannot be truncated.
        if file.metadata().with_context(what)?.is_file() {
            file.set_len(bytes).with_context(what)?;
            file.seek(SeekFrom::Start(bytes)).with_context(what)?;
        }
        Ok(RejectsFile {
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

    /// Writes the header of the input, so that the rejects file can be imported like the input.
    pub(crate) fn header(&mut self, header: &[u8]) -> Result<()> {
        if self.bytes == 0 {
            self.write(header)
        } else {
            Ok(())
        }
    }

    /// Appends a row to the file, and reports the reason for its rejection.
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

    /// Makes the file durable and returns its length in bytes.
    pub(crate) fn kept(&mut self) -> Result<u64> {
        if !self.is_synced {
            let what = || format!("writing to {}", self.path.display());
            self.file.flush().with_context(what)?;
            match self.file.get_ref().sync_data() {
                // The target, for example a pipe, does not support syncs and stores nothing.
                Err(error) if error.kind() == ErrorKind::InvalidInput => {}
                synced => synced.with_context(what)?,
            }
            self.is_synced = true;
        }
        Ok(self.bytes)
    }
}

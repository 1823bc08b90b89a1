//! The input of an import, which is a file, a device or standard input.

use super::ImportCommand;
use crate::formats::InputSource;
use crate::import::ImportProgress;
use crate::terminal::exit::{CommandExit, failure};
use anyhow::{Context as _, Result};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

impl ImportCommand {
    /// Opens the input. Returns the input, its length in bytes if it is known, and the name under
    /// which its progress is stored.
    pub(super) fn input(&self) -> Result<(ImportInput, Option<u64>, String)> {
        if self.file.as_os_str() == "-" {
            return Ok((ImportInput::Pipe, None, "-".to_owned()));
        }
        let what = || format!("opening {}", self.file.display());
        let file = File::open(&self.file).with_context(what)?;
        let metadata = file.metadata().with_context(what)?;
        if metadata.is_dir() {
            return Err(failure(
                CommandExit::Failed,
                format!("{} is a directory: name a file", self.file.display()),
            ));
        }
        let name = self
            .file
            .canonicalize()
            .with_context(what)?
            .to_string_lossy()
            .into_owned();
        if metadata.is_file() {
            return Ok((ImportInput::File(file), Some(metadata.len()), name));
        }
        Ok((ImportInput::Device(file), None, name))
    }
}

/// Where the bytes of an import come from.
pub(super) enum ImportInput {
    Pipe,
    Device(File),
    File(File),
}

impl ImportInput {
    /// Positions the stream after the part that was already imported. The part before it must have
    /// the same content as at that time.
    pub(super) fn at(self, saved: &ImportProgress) -> Result<InputSource> {
        let before = saved.offset - saved.tail_bytes.min(saved.offset);
        let mut reader: Box<dyn Read + Send> = match self {
            ImportInput::Pipe => Box::new(io::stdin()),
            ImportInput::Device(file) => Box::new(file),
            ImportInput::File(mut file) => {
                file.seek(SeekFrom::Start(before))?;
                return checked(Box::new(file), saved);
            }
        };
        io::copy(&mut (&mut reader).take(before), &mut io::sink())?;
        checked(reader, saved)
    }
}

fn checked(mut reader: Box<dyn Read + Send>, saved: &ImportProgress) -> Result<InputSource> {
    let mut tail = Vec::new();
    (&mut reader).take(saved.tail_bytes).read_to_end(&mut tail)?;
    if saved.offset > 0 {
        saved.continues(&tail)?;
    }
    Ok(InputSource::new(reader, saved.offset))
}

//! Reading of a script line by line.

use crate::terminal::exit::{CommandExit, failure};
use alluvium::{MAX_KEY, MAX_VALUE};
use anyhow::{Context as _, Result};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Maximum length of a line in bytes: enough for a key and a value in which every byte is escaped,
/// plus a margin.
const LONGEST: usize = (MAX_KEY + MAX_VALUE) * 4 + (1 << 16);

/// Reads the lines of a script and numbers them.
pub(super) struct ScriptReader {
    reader: Box<dyn BufRead>,
    name: String,
    is_file: bool,
    number: u64,
}

impl ScriptReader {
    /// Opens a script. The path `-` denotes standard input.
    pub(super) fn open(path: &Path) -> Result<ScriptReader> {
        let is_input = path == Path::new("-");
        let name = match is_input {
            true => "standard input".to_owned(),
            false => path.display().to_string(),
        };
        let (reader, is_file): (Box<dyn BufRead>, bool) = if is_input {
            (Box::new(BufReader::new(io::stdin())), false)
        } else {
            let what = || format!("reading {name}");
            let file = File::open(path).with_context(what)?;
            let is_file = file.metadata().with_context(what)?.is_file();
            (Box::new(BufReader::new(file)), is_file)
        };
        Ok(ScriptReader {
            reader,
            name,
            is_file,
            number: 0,
        })
    }

    /// Returns whether the script can be read a second time with the same lines.
    pub(super) fn can_be_read_twice(&self) -> bool {
        self.is_file
    }

    /// Reads the next line. Returns its number and its text without the line end, or `None` at the
    /// end of the script.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        let mut line = Vec::new();
        let most = LONGEST as u64 + 1;
        let read = (&mut self.reader).take(most).read_until(b'\n', &mut line);
        let read = read.with_context(|| format!("reading {}", self.name))?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if line.len() > LONGEST {
            let text = format!(
                "line {} of {} is longer than {LONGEST} bytes, the limit for a key and a value",
                self.number, self.name
            );
            return Err(failure(CommandExit::Usage, text));
        }
        Ok(Some((self.number, line)))
    }
}

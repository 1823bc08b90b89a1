//! Files of fixed-length records.

use crate::jobs::stop;
use crate::terminal::exit::{CommandExit, failure};
use anyhow::{Context as _, Result};
use indicatif::ProgressBar;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

/// Size in bytes of a read from a file of records.
const AT_ONCE: usize = 1 << 20;
/// Number of records after which the progress bar is updated and Ctrl-C is checked.
const LOOK: u64 = 4096;

/// Reads a file of records, each of which is `bytes` long. The path `-` denotes standard input.
pub(super) fn each(
    path: &Path,
    bytes: usize,
    bar: &ProgressBar,
    mut take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let what = || format!("reading {}", path.display());
    let reader: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(path).with_context(what)?),
    };
    let mut reader = BufReader::with_capacity(AT_ONCE, reader);
    let mut record = vec![0; bytes];
    let mut records = 0u64;
    loop {
        let got = fill(&mut reader, &mut record).with_context(what)?;
        if got == 0 {
            return Ok(());
        }
        if got < bytes {
            let text = format!(
                "{}: {got} bytes are left after {records} records of {bytes} bytes: check the file, and the lengths given to `alluvium index build`",
                path.display()
            );
            return Err(failure(CommandExit::Failed, text));
        }
        take(&record)?;
        records += 1;
        if records.is_multiple_of(LOOK) {
            bar.inc(LOOK * bytes as u64);
            if stop::asked() {
                return Err(failure(
                    CommandExit::Interrupted,
                    "stopped: the index is unchanged",
                ));
            }
        }
    }
}

/// Reads bytes until the record is complete or the input ends. Returns the number of bytes read.
fn fill(reader: &mut impl Read, record: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < record.len() {
        match reader.read(&mut record[filled..]) {
            Ok(0) => break,
            Ok(got) => filled += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

//! Reads the inputs of a sort and divides them into chunks of records.

use super::open;
use crate::jobs::sorting::ChunkFiller;
use crate::jobs::stop;
use crate::terminal::exit::{CommandExit, failure};
use alluvium_storage::limiter::RateLimiter;
use anyhow::{Context as _, Result};
use indicatif::ProgressBar;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

/// Size of a read in bytes.
const AT_ONCE: usize = 1 << 20;

pub(super) struct SortInputReader<'b> {
    record_bytes: Option<usize>,
    limiter: Option<RateLimiter>,
    started: Instant,
    bar: &'b ProgressBar,
}

impl<'b> SortInputReader<'b> {
    pub(super) fn new(
        record_bytes: Option<u32>,
        rate: Option<u64>,
        bar: &'b ProgressBar,
    ) -> SortInputReader<'b> {
        SortInputReader {
            record_bytes: record_bytes.map(|bytes| bytes as usize),
            limiter: rate.map(|rate| RateLimiter::new(rate, rate / 10)),
            started: Instant::now(),
            bar,
        }
    }

    /// Reads all input files in order.
    pub(super) fn all(mut self, files: &[PathBuf], chunks: &mut ChunkFiller<'_>) -> Result<()> {
        for file in files {
            self.one(file, chunks)?;
        }
        Ok(())
    }

    fn one(&mut self, file: &Path, chunks: &mut ChunkFiller<'_>) -> Result<()> {
        let mut reader = open(file)?;
        let longest = chunks.longest();
        let mut buffer = vec![0; AT_ONCE.max(self.record_bytes.unwrap_or(0))];
        let (mut filled, mut records) = (0, 0u64);
        loop {
            if filled == buffer.len() {
                if filled > longest {
                    let text = format!(
                        "{}: line {} is longer than {longest} bytes: increase --memory, or reduce --threads",
                        file.display(),
                        records + 1
                    );
                    return Err(failure(CommandExit::Failed, text));
                }
                buffer.resize(filled * 2, 0);
            }
            let got = match reader.read(&mut buffer[filled..]) {
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).with_context(|| format!("reading {}", file.display())),
            };
            self.pace(got)?;
            if got == 0 {
                break;
            }
            let done = self.take(&buffer, filled, filled + got, &mut records, chunks)?;
            buffer.copy_within(done..filled + got, 0);
            filled = filled + got - done;
        }
        if filled == 0 {
            return Ok(());
        }
        match self.record_bytes {
            // The last line may have no line end.
            None => chunks.push_line(&buffer[..filled]),
            Some(bytes) => Err(failure(
                CommandExit::Failed,
                format!(
                    "{}: {filled} bytes are left after {records} records of {bytes} bytes: check --record-bytes",
                    file.display()
                ),
            )),
        }
    }

    /// Adds the complete records of a buffer, up to position `end`, to the chunk. The bytes before
    /// `seen` are known to contain no line end. Returns the number of bytes consumed.
    fn take(
        &self,
        buffer: &[u8],
        seen: usize,
        end: usize,
        records: &mut u64,
        chunks: &mut ChunkFiller<'_>,
    ) -> Result<usize> {
        let mut at = 0;
        if let Some(bytes) = self.record_bytes {
            for record in buffer[..end].chunks_exact(bytes) {
                chunks.push_record(record)?;
                at += bytes;
                *records += 1;
            }
            return Ok(at);
        }
        for line_end in memchr::memchr_iter(b'\n', &buffer[seen..end]) {
            chunks.push_line(&buffer[at..seen + line_end])?;
            at = seen + line_end + 1;
            *records += 1;
        }
        Ok(at)
    }

    /// Counts the bytes read, and waits if they would exceed the --rate limit.
    fn pace(&mut self, bytes: usize) -> Result<()> {
        self.bar.inc(bytes as u64);
        if let Some(limiter) = &mut self.limiter {
            thread::sleep(limiter.take(self.started.elapsed(), bytes as u64));
        }
        if stop::asked() {
            return Err(failure(CommandExit::Interrupted, "stopped: nothing was written"));
        }
        Ok(())
    }
}

//! Sorting with several threads. One thread reads the input and fills chunks, while other threads
//! sort and write the chunks. Afterwards one thread merges, and another one writes the output.

use super::stop;
use crate::terminal::exit::{CommandExit, failure};
use alluvium_storage::sort::{
    Error as SortError, MergePasses, PushOutcome, SortChunk, SortMerge, SortSpool, SortedInput,
};
use anyhow::{Context as _, Result, anyhow};
use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Size of each write to the output in bytes.
const AT_ONCE: usize = 1 << 20;
/// Maximum number of output buffers that wait to be written.
const WAITING: usize = 4;

/// A sort executed by several threads.
pub(crate) struct SortJob<'s> {
    pub(crate) spool: &'s SortSpool,
    pub(crate) threads: usize,
    /// Whether the records are lines, whose line ends the output then restores.
    pub(crate) is_lines: bool,
    /// The command line option that sets the memory limit, for error messages.
    pub(crate) flag: &'s str,
}

/// Gives an error of the sorter an exit code. `flag` is the command line option for the memory
/// limit.
pub(crate) fn told(error: SortError, flag: &str) -> anyhow::Error {
    match &error {
        error if error.is_full() => failure(CommandExit::Full, error.to_string()),
        SortError::Damaged { .. } => failure(CommandExit::Damaged, error.to_string()),
        SortError::TooLong { .. } => failure(CommandExit::Failed, format!("{error} with {flag}")),
        SortError::BadOption { option, why } => {
            let flag = match *option {
                "layout" => "--key",
                _ => flag,
            };
            failure(CommandExit::Usage, format!("{flag}: {why}"))
        }
        _ => error.into(),
    }
}

/// Fills chunks with records, and passes full chunks to the sorting threads.
pub(crate) struct ChunkFiller<'j> {
    spool: &'j SortSpool,
    flag: &'j str,
    chunk: SortChunk,
    full: &'j mut dyn FnMut(SortChunk) -> Result<()>,
}

impl ChunkFiller<'_> {
    /// Returns the maximum size of a record in bytes.
    pub(crate) fn longest(&self) -> usize {
        self.spool.options().longest_record()
    }

    pub(crate) fn push_line(&mut self, line: &[u8]) -> Result<()> {
        self.push(|chunk| chunk.push(line, b""))
    }

    pub(crate) fn push_pair(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.push(|chunk| chunk.push(key, value))
    }

    pub(crate) fn push_record(&mut self, record: &[u8]) -> Result<()> {
        self.push(|chunk| chunk.push_record(record))
    }

    #[inline]
    fn push(
        &mut self,
        to: impl Fn(&mut SortChunk) -> alluvium_storage::sort::Result<PushOutcome>,
    ) -> Result<()> {
        let flag = self.flag;
        if to(&mut self.chunk).map_err(|error| told(error, flag))? == PushOutcome::Full {
            // Start the next chunk only after another thread has received this one, to bound memory
            // use.
            let full = std::mem::replace(&mut self.chunk, self.spool.chunk());
            (self.full)(full)?;
            let pushed = to(&mut self.chunk).map_err(|error| told(error, self.flag))?;
            assert!(
                pushed == PushOutcome::Taken,
                "an empty chunk has space for any record"
            );
        }
        Ok(())
    }
}

impl SortJob<'_> {
    /// Sorts the records that `feed` produces into runs. If they all fit in one chunk, they stay in
    /// memory.
    pub(crate) fn runs(
        &self,
        feed: impl FnOnce(&mut ChunkFiller<'_>) -> Result<()>,
    ) -> Result<Vec<SortedInput>> {
        if self.threads == 1 {
            let mut runs = Vec::new();
            let mut write = |chunk: SortChunk| {
                runs.push(SortedInput::Run(
                    self.spool
                        .write(chunk.sort())
                        .map_err(|error| told(error, self.flag))?,
                ));
                Ok(())
            };
            let last = self.fed(feed, &mut write)?;
            return self.ended(runs, last);
        }
        let (sender, receiver) = sync_channel::<SortChunk>(0);
        let receiver = &Mutex::new(receiver);
        thread::scope(|scope| {
            let workers: Vec<_> = (1..self.threads)
                .map(|_| scope.spawn(move || self.work(receiver)))
                .collect();
            let mut send = |chunk| {
                // A failed worker reports its error when its thread is joined.
                sender
                    .send(chunk)
                    .map_err(|_| anyhow!("a sorting thread has ended"))
            };
            let fed = self.fed(feed, &mut send);
            drop(sender);
            let mut runs = Vec::new();
            let mut failed = None;
            for worker in workers {
                match worker
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                {
                    Ok(more) => runs.extend(more),
                    Err(error) => failed = Some(error),
                }
            }
            match failed {
                Some(error) => Err(error),
                None => self.ended(runs, fed?),
            }
        })
    }

    /// Lets `feed` fill chunks, and returns the last chunk, which may be incomplete.
    fn fed(
        &self,
        feed: impl FnOnce(&mut ChunkFiller<'_>) -> Result<()>,
        full: &mut dyn FnMut(SortChunk) -> Result<()>,
    ) -> Result<SortChunk> {
        let mut chunks = ChunkFiller {
            spool: self.spool,
            flag: self.flag,
            chunk: self.spool.chunk(),
            full,
        };
        feed(&mut chunks)?;
        Ok(chunks.chunk)
    }

    /// The main function of a sorting thread: sorts and writes chunks until there are no more.
    fn work(&self, chunks: &Mutex<Receiver<SortChunk>>) -> Result<Vec<SortedInput>> {
        let mut runs = Vec::new();
        let result = loop {
            let next = chunks.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(chunk) = next else { break Ok(()) };
            match self.spool.write(chunk.sort()) {
                Ok(run) => runs.push(SortedInput::Run(run)),
                Err(error) => break Err(told(error, self.flag)),
            }
        };
        if result.is_err() {
            // After a failure, keep receiving and dropping chunks, so that the thread that fills
            // them does not block.
            while chunks
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .recv()
                .is_ok()
            {}
        }
        result.map(|()| runs)
    }

    fn ended(&self, mut runs: Vec<SortedInput>, last: SortChunk) -> Result<Vec<SortedInput>> {
        if runs.is_empty() {
            return Ok(vec![SortedInput::Chunk(last.sort())]);
        }
        if !last.is_empty() {
            runs.push(SortedInput::Run(
                self.spool
                    .write(last.sort())
                    .map_err(|error| told(error, self.flag))?,
            ));
        }
        Ok(runs)
    }

    /// Merges the sorted inputs until a single stream remains.
    pub(crate) fn merged(&self, inputs: Vec<SortedInput>) -> Result<SortMerge> {
        self.few(inputs)?.finish().map_err(|error| told(error, self.flag))
    }

    /// Merges sorted inputs until the remaining ones can be merged in one pass.
    fn few(&self, inputs: Vec<SortedInput>) -> Result<MergePasses> {
        let mut passes = self.spool.passes(inputs);
        while let Some(group) = passes.group() {
            passes.put(group.merge(self.spool).map_err(|error| told(error, self.flag))?);
            stop_if_asked()?;
        }
        Ok(passes)
    }

    /// Merges the sorted inputs and writes the output. Returns the numbers of records and bytes.
    pub(crate) fn merge(
        &self,
        inputs: Vec<SortedInput>,
        to: impl FnOnce(&mut dyn FnMut(&mut (dyn Write + Send)) -> Result<()>) -> Result<()>,
    ) -> Result<(u64, u64)> {
        let (mut passes, mut counted) = (Some(self.few(inputs)?), (0, 0));
        to(&mut |out| {
            let passes = passes
                .take()
                .ok_or_else(|| anyhow!("the output is written once"))?;
            counted = self.stream(passes, out)?;
            Ok(())
        })?;
        Ok(counted)
    }

    fn stream(&self, passes: MergePasses, out: &mut (dyn Write + Send)) -> Result<(u64, u64)> {
        thread::scope(|scope| {
            let (sender, pieces) = sync_channel::<Vec<u8>>(WAITING);
            let (back, spare) = sync_channel::<Vec<u8>>(WAITING + 2);
            let writing = scope.spawn(move || -> Result<()> {
                for piece in pieces {
                    out.write_all(&piece).context("writing the output")?;
                    // If the buffer cannot be returned for reuse, it is dropped.
                    let _ = back.try_send(piece);
                }
                out.flush().context("writing the output")
            });
            let merged = self.pieces(passes, &sender, &spare);
            drop(sender);
            let written = writing
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            written.and(merged)
        })
    }

    /// Merges the sorted inputs into output buffers. If the writing thread ended early, it reports
    /// the reason itself.
    fn pieces(
        &self,
        passes: MergePasses,
        sender: &SyncSender<Vec<u8>>,
        spare: &Receiver<Vec<u8>>,
    ) -> Result<(u64, u64)> {
        let mut merge = passes.finish().map_err(|error| told(error, self.flag))?;
        let (mut records, mut bytes) = (0, 0);
        let mut piece = Vec::with_capacity(AT_ONCE);
        while let Some(record) = merge.next().map_err(|error| told(error, self.flag))? {
            let (record, end) = match self.is_lines {
                true => (record.key(), &b"\n"[..]),
                false => (record.value(), &b""[..]),
            };
            if piece.len() + record.len() >= AT_ONCE && !piece.is_empty() {
                stop_if_asked()?;
                bytes += piece.len() as u64;
                let mut next = spare.try_recv().unwrap_or_else(|_| Vec::with_capacity(AT_ONCE));
                next.clear();
                sender
                    .send(std::mem::replace(&mut piece, next))
                    .map_err(|_| anyhow!("the writing thread has ended"))?;
            }
            piece.extend_from_slice(record);
            piece.extend_from_slice(end);
            records += 1;
        }
        bytes += piece.len() as u64;
        sender
            .send(piece)
            .map_err(|_| anyhow!("the writing thread has ended"))?;
        Ok((records, bytes))
    }
}

fn stop_if_asked() -> Result<()> {
    match stop::asked() {
        true => Err(failure(
            CommandExit::Interrupted,
            "stopped: the output is not complete",
        )),
        false => Ok(()),
    }
}

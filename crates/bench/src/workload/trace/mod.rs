//! Traces: files of operations, which let every engine execute the same operations and replay those
//! of other programs.
//!
//! *Scope*: how a trace is generated from a workload, written to a file, and read by several
//! threads.
//!
//! *Must not depend on*: engines.
//!
//! A trace is read as a stream. Each thread reads a block at a time and drops what it has read from
//! the page cache, so that the trace does not take memory from the engine.

mod format;
mod summary;

pub use summary::{PARTS, TracePart, TraceSummary, summarise, summary};

use super::choose::RecordChooser;
use super::keys::scatter;
use super::mix::OperationKind;
use super::phase::{PhaseTask, WorkloadPhase};
use anyhow::{Context, Result, bail, ensure};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceOperation {
    pub kind: OperationKind,
    pub record: u64,
    /// Number of records that the scan reads.
    pub length: u32,
}

/// The header of a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceHeader {
    /// Number of records that must be loaded before the trace is replayed.
    pub records: u64,
    pub operations: u64,
}

/// Generates the operations of a phase and writes them to a trace file. `head` specifies the
/// numbers of operations and records.
///
/// # Errors
/// Returns an error if the phase is not a mix of operations, and I/O errors.
pub fn record(path: &Path, phase: &WorkloadPhase, head: TraceHeader, seed: u64) -> Result<()> {
    let PhaseTask::Mix { mix, distribution } = phase.task else {
        bail!("a trace can be drawn from the workloads a to f; the load is implied");
    };
    let what = || format!("writing the trace {}", path.display());
    let mut file = BufWriter::new(File::create(path).with_context(what)?);
    let mut random = fastrand::Rng::with_seed(scatter(seed));
    let mut chooser = RecordChooser::new(distribution, head.records);
    let mut next = head.records;
    file.write_all(&format::encode_head(head)).with_context(what)?;
    for _ in 0..head.operations {
        let kind = mix.draw(&mut random);
        let record = if kind == OperationKind::Insert {
            next += 1;
            next - 1
        } else {
            chooser.draw(&mut random, next)
        };
        let length = match kind {
            OperationKind::Scan => phase.scan.draw(&mut random) as u32,
            _ => 0,
        };
        let operation = TraceOperation { kind, record, length };
        file.write_all(&format::encode(operation)).with_context(what)?;
    }
    file.flush().with_context(what)
}

/// Reads the header of a trace file.
///
/// # Errors
/// Returns an error if the file is not a trace or is truncated, and I/O errors.
pub fn head(path: &Path) -> Result<TraceHeader> {
    let what = || format!("reading the trace {}", path.display());
    let mut file = File::open(path).with_context(what)?;
    let mut bytes = [0; format::HEAD_BYTES];
    file.read_exact(&mut bytes).with_context(what)?;
    let head = format::decode_head(&bytes).with_context(what)?;
    let expected = head
        .operations
        .checked_mul(format::OPERATION_BYTES as u64)
        .and_then(|bytes| bytes.checked_add(format::HEAD_BYTES as u64));
    let found = file.metadata().with_context(what)?.len();
    ensure!(
        expected == Some(found),
        "the trace {} should have {} operations, but has {found} bytes: record it again",
        path.display(),
        head.operations
    );
    Ok(head)
}

/// The contiguous part of a trace that a thread replays.
#[derive(Debug)]
pub struct TraceReplay {
    file: BufReader<File>,
    left: u64,
    since_advice: u64,
}

/// Number of operations after which a thread drops what it has read from the page cache.
const ADVISE_EVERY: u64 = 1 << 16;

impl TraceReplay {
    /// Opens the part of the trace that belongs to one of `threads` threads.
    ///
    /// # Errors
    /// As [`head`].
    pub fn open(path: &Path, thread: usize, threads: usize) -> Result<TraceReplay> {
        let all = head(path)?.operations;
        let at = |thread: usize| all * thread as u64 / threads as u64;
        let mut file = File::open(path)?;
        let start = format::HEAD_BYTES as u64 + at(thread) * format::OPERATION_BYTES as u64;
        file.seek(SeekFrom::Start(start))?;
        Ok(TraceReplay {
            file: BufReader::with_capacity(1 << 16, file),
            left: at(thread + 1) - at(thread),
            since_advice: 0,
        })
    }

    /// Returns the next operation, or `None` at the end of the part.
    ///
    /// # Errors
    /// Returns an error if an operation is invalid, and I/O errors.
    pub fn next_operation(&mut self) -> Result<Option<TraceOperation>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.since_advice += 1;
        if self.since_advice == ADVISE_EVERY {
            self.since_advice = 0;
            // SAFETY: the file descriptor is open, and the call does not access this process's
            // memory.
            unsafe {
                libc::posix_fadvise(self.file.get_ref().as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED);
            }
        }
        let mut bytes = [0; format::OPERATION_BYTES];
        self.file.read_exact(&mut bytes)?;
        Ok(Some(format::decode(&bytes)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::phase::{PhaseDefaults, WindowLength};

    fn phase(text: &str) -> WorkloadPhase {
        let nothing = WindowLength::Operations(0);
        let defaults = PhaseDefaults {
            warm: nothing,
            run: nothing,
            rate: None,
        };
        WorkloadPhase::parse(text, defaults).unwrap()
    }

    fn replayed(path: &Path, threads: usize) -> Vec<TraceOperation> {
        let mut all = Vec::new();
        for thread in 0..threads {
            let mut replay = TraceReplay::open(path, thread, threads).unwrap();
            while let Some(operation) = replay.next_operation().unwrap() {
                all.push(operation);
            }
        }
        all
    }

    #[test]
    fn any_number_of_threads_replays_all_of_it_in_order() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("trace");
        let head = TraceHeader {
            records: 100,
            operations: 1001,
        };
        record(&path, &phase("e"), head, 5).unwrap();
        assert_eq!(super::head(&path).unwrap(), head);
        let all = replayed(&path, 1);
        assert_eq!(all.len(), 1001);
        assert_eq!(replayed(&path, 3), all);
        let inserts: Vec<u64> = all
            .iter()
            .filter(|operation| operation.kind == OperationKind::Insert)
            .map(|operation| operation.record)
            .collect();
        assert!(inserts.len() > 20 && inserts.iter().copied().eq(100..100 + inserts.len() as u64));
        assert!(
            all.iter()
                .all(|one| (one.kind == OperationKind::Scan) == (one.length > 0))
        );
    }

    #[test]
    fn a_trace_that_was_cut_off_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("trace");
        let head = TraceHeader {
            records: 10,
            operations: 10,
        };
        record(&path, &phase("a"), head, 5).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(
            super::head(&path)
                .unwrap_err()
                .to_string()
                .contains("record it again")
        );
        std::fs::write(&path, b"something else entirely, and long enough to be a head").unwrap();
        assert!(format!("{:#}", super::head(&path).unwrap_err()).contains("is not a trace"));
        assert!(record(&path, &phase("load"), head, 5).is_err());
    }
}

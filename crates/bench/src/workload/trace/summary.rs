//! Statistics of a trace: the frequencies of its operations, and the skew of their records.

use super::{TraceHeader, format};
use crate::workload::mix::OperationKind;
use alluvium_model::observed;
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// Maximum number of parts of a trace whose operations are counted separately, to show how the
/// workload drifts.
pub const PARTS: u64 = 48;
/// Number of sampled operations per part. Pairs of samples with the same record measure the skew.
const SAMPLES: u64 = 128;

/// The numbers of operations in a part of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TracePart {
    /// Number of reads, including those in batches and those before writes.
    pub reads: u64,
    pub updates: u64,
    pub inserts: u64,
    pub scans: u64,
    /// Total number of records read by scans.
    pub scanned: u64,
}

impl TracePart {
    /// Returns the number of operations on single records, plus that of scans.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.reads + self.updates + self.inserts + self.scans
    }

    fn add(&mut self, kind: OperationKind, length: u32) {
        match kind {
            OperationKind::Read | OperationKind::MultiGet => self.reads += 1,
            OperationKind::Update => self.updates += 1,
            OperationKind::Insert => self.inserts += 1,
            OperationKind::ReadModifyWrite => {
                self.reads += 1;
                self.updates += 1;
            }
            OperationKind::Scan => {
                self.scans += 1;
                self.scanned += u64::from(length);
            }
        }
    }
}

/// Statistics of a whole trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSummary {
    pub head: TraceHeader,
    /// The parts of the trace in order, each with the same number of operations.
    pub parts: Vec<TracePart>,
    /// Number of sampled operations, whose records are compared with each other.
    pub samples: u64,
    /// Number of pairs of sampled operations that access the same record.
    pub same_pairs: u64,
}

impl TraceSummary {
    /// Returns the number of records after the trace has been replayed.
    #[must_use]
    pub fn keys(&self) -> u64 {
        let inserts: u64 = self.parts.iter().map(|part| part.inserts).sum();
        self.head.records.saturating_add(inserts)
    }
}

/// Computes the statistics of a trace file, reading a block at a time.
///
/// # Errors
/// Returns an error if the file is not a trace or is truncated, or if an operation is invalid, and
/// I/O errors.
pub fn summary(path: &Path) -> Result<TraceSummary> {
    let what = || format!("reading the trace {}", path.display());
    super::head(path)?;
    let file = File::open(path).with_context(what)?;
    summarise(BufReader::with_capacity(1 << 16, file)).with_context(what)
}

/// Like [`summary`], but for a trace from any source.
///
/// # Errors
/// As [`summary`].
pub fn summarise(mut from: impl Read) -> Result<TraceSummary> {
    let mut bytes = [0; format::HEAD_BYTES];
    from.read_exact(&mut bytes)
        .context("the file is too short for a trace")?;
    let head = format::decode_head(&bytes)?;
    ensure!(
        head.operations > 0,
        "the trace has no operations: record it again"
    );
    let in_part = head.operations.div_ceil(PARTS);
    let every = (in_part / SAMPLES).max(1);
    let (mut parts, mut samples) = (Vec::new(), Vec::new());
    for number in 0..head.operations {
        let mut bytes = [0; format::OPERATION_BYTES];
        from.read_exact(&mut bytes)
            .with_context(|| format!("the operation {number} of {} is missing", head.operations))?;
        let operation = format::decode(&bytes).with_context(|| format!("the operation {number}"))?;
        if number % in_part == 0 {
            parts.push(TracePart::default());
        }
        let part = parts.last_mut().context("a part was begun")?;
        part.add(operation.kind, operation.length);
        if number % every == 0 && operation.kind != OperationKind::Scan {
            samples.push(operation.record);
        }
    }
    Ok(TraceSummary {
        head,
        parts,
        samples: samples.len() as u64,
        same_pairs: observed::pairs(&samples),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{TraceOperation, record};
    use super::*;
    use crate::workload::phase::{PhaseDefaults, WindowLength, WorkloadPhase};

    fn encoded(operations: &[(OperationKind, u64, u32)]) -> Vec<u8> {
        let head = TraceHeader {
            records: 50,
            operations: operations.len() as u64,
        };
        let mut bytes = format::encode_head(head).to_vec();
        for &(kind, record, length) in operations {
            bytes.extend(format::encode(TraceOperation { kind, record, length }));
        }
        bytes
    }

    #[test]
    fn operations_are_counted_by_what_they_cost() {
        let bytes = encoded(&[
            (OperationKind::Read, 1, 0),
            (OperationKind::ReadModifyWrite, 1, 0),
            (OperationKind::Insert, 50, 0),
            (OperationKind::Scan, 3, 20),
            (OperationKind::Update, 2, 0),
        ]);
        let summary = summarise(&bytes[..]).unwrap();
        assert_eq!((summary.parts.len(), summary.keys()), (5, 51));
        let of = |count: fn(&TracePart) -> u64| summary.parts.iter().map(count).sum::<u64>();
        assert_eq!(of(|part| part.reads), 2);
        assert_eq!(of(|part| part.updates), 2);
        assert_eq!((of(|part| part.scans), of(|part| part.scanned)), (1, 20));
        assert_eq!((summary.samples, summary.same_pairs), (4, 1));
        assert_eq!(of(TracePart::total), 6);
    }

    #[test]
    fn a_damaged_trace_is_refused_with_the_place() {
        let whole = encoded(&[(OperationKind::Read, 1, 0), (OperationKind::Read, 2, 0)]);
        let error = |bytes: &[u8]| format!("{:#}", summarise(bytes).unwrap_err());
        assert!(error(&whole[..format::HEAD_BYTES - 1]).contains("too short"));
        assert!(error(&whole[..whole.len() - 1]).contains("the operation 1 of 2 is missing"));
        let mut kind = whole.clone();
        kind[format::HEAD_BYTES] = 9;
        assert!(error(&kind).contains("the operation 0") && error(&kind).contains("kind 9"));
        let mut magic = whole.clone();
        magic[0] = b'x';
        assert!(error(&magic).contains("is not a trace"));
        let mut endless = whole;
        endless[16..24].fill(0xff);
        assert!(
            error(&endless).contains("is missing"),
            "no memory is taken for a number"
        );
        assert!(error(&encoded(&[])).contains("no operation"));
    }

    #[test]
    fn the_skew_of_a_recorded_workload_is_found_again() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("trace");
        let nothing = WindowLength::Operations(0);
        let defaults = PhaseDefaults {
            warm: nothing,
            run: nothing,
            rate: None,
        };
        let head = TraceHeader {
            records: 100_000,
            operations: 20_000,
        };
        record(&path, &WorkloadPhase::parse("a", defaults).unwrap(), head, 5).unwrap();
        let summary = summary(&path).unwrap();
        assert_eq!(summary.parts.len() as u64, PARTS);
        let skew = observed::skew(summary.same_pairs, summary.samples, summary.keys()).unwrap();
        assert!((0.9..1.1).contains(&skew), "workload a is skewed by 0.99: {skew}");
        let reads: u64 = summary.parts.iter().map(|part| part.reads).sum();
        assert!((9_500..10_500).contains(&reads), "{reads}");
    }
}

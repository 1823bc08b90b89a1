//! The format of a trace file: a header and the operations. All numbers are little-endian.
//!
//! The header:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  "allvtrce"
//!      8     8  how many records are loaded before it
//!     16     8  how many operations follow
//! ```
//!
//! An operation:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  the kind: 0 read, 1 update, 2 insert, 3 scan, 4 read-modify-write, 5 multi-get
//!      1     3  zero
//!      4     4  how many records a scan reads; zero otherwise
//!      8     8  the number of the record
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::{TraceHeader, TraceOperation};
use crate::workload::mix::OperationKind;
use anyhow::{Result, bail, ensure};

/// Length of the encoded header in bytes.
pub(super) const HEAD_BYTES: usize = 24;
/// Length of each encoded operation in bytes.
pub(super) const OPERATION_BYTES: usize = 16;

const MAGIC: &[u8; 8] = b"allvtrce";

const KINDS: [OperationKind; 6] = [
    OperationKind::Read,
    OperationKind::Update,
    OperationKind::Insert,
    OperationKind::Scan,
    OperationKind::ReadModifyWrite,
    OperationKind::MultiGet,
];

pub(super) fn encode_head(head: TraceHeader) -> [u8; HEAD_BYTES] {
    let mut bytes = [0; HEAD_BYTES];
    let parts = [*MAGIC, head.records.to_le_bytes(), head.operations.to_le_bytes()];
    for (place, part) in bytes.iter_mut().zip(parts.as_flattened()) {
        *place = *part;
    }
    bytes
}

pub(super) fn decode_head(bytes: &[u8; HEAD_BYTES]) -> Result<TraceHeader> {
    ensure!(
        bytes.starts_with(MAGIC),
        "the file is not a trace: write one with `alluvium bench trace record`"
    );
    Ok(TraceHeader {
        records: number(bytes, 8),
        operations: number(bytes, 16),
    })
}

pub(super) fn encode(operation: TraceOperation) -> [u8; OPERATION_BYTES] {
    let kind = KINDS.iter().position(|kind| *kind == operation.kind);
    let kind = kind.expect("every kind is in the list") as u8;
    let first = u64::from(operation.length) << 32 | u64::from(kind);
    let mut bytes = [0; OPERATION_BYTES];
    let parts = [first.to_le_bytes(), operation.record.to_le_bytes()];
    for (place, part) in bytes.iter_mut().zip(parts.as_flattened()) {
        *place = *part;
    }
    bytes
}

pub(super) fn decode(bytes: &[u8; OPERATION_BYTES]) -> Result<TraceOperation> {
    let Some(&kind) = KINDS.get(usize::from(bytes[0])) else {
        bail!("the trace has an operation of the unknown kind {}", bytes[0]);
    };
    Ok(TraceOperation {
        kind,
        record: number(bytes, 8),
        length: (number(bytes, 0) >> 32) as u32,
    })
}

/// Decodes the eight bytes at position `at` as a number.
fn number(bytes: &[u8], at: usize) -> u64 {
    let eight = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>());
    eight.map_or(0, |eight| u64::from_le_bytes(*eight))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_these() {
        let head = TraceHeader {
            records: 0x0102,
            operations: 3,
        };
        let bytes = encode_head(head);
        assert_eq!(&bytes, b"allvtrce\x02\x01\0\0\0\0\0\0\x03\0\0\0\0\0\0\0");
        assert_eq!(decode_head(&bytes).unwrap(), head);
        let operation = TraceOperation {
            kind: OperationKind::Scan,
            record: 0x0506,
            length: 0x0708,
        };
        let bytes = encode(operation);
        assert_eq!(&bytes, b"\x03\0\0\0\x08\x07\0\0\x06\x05\0\0\0\0\0\0");
        assert_eq!(decode(&bytes).unwrap(), operation);
    }

    #[test]
    fn every_kind_comes_back_and_others_are_refused() {
        for kind in KINDS {
            let operation = TraceOperation {
                kind,
                record: 1,
                length: 0,
            };
            assert_eq!(decode(&encode(operation)).unwrap(), operation);
        }
        assert!(decode(&[6; OPERATION_BYTES]).is_err());
    }
}

//! The encoding of a commit as a log record.
//!
//! ```text
//! record of the log, all integers little-endian:
//! OFFSET  SIZE  MEANING
//!      0     4  how many writes
//!      4     …  each: kind (1), length of the key (2), length of the operand (4), key, operand
//! ```
//!
//! The operand of a range delete is the end of the deleted range.

use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_sim::ops::WriteOp;
use alluvium_storage::{DiskLocation, Error, OnDiskObject, Result};

pub(crate) fn encode(ops: &[WriteOp]) -> Vec<u8> {
    let mut bytes = Vec::new();
    ByteWriter::new(&mut bytes).u32(ops.len() as u32);
    for op in ops {
        let (kind, key, operand): (u8, &[u8], &[u8]) = match op {
            WriteOp::Put { key, value } => (0, key, value),
            WriteOp::Delete { key } => (1, key, &[]),
            WriteOp::Merge { key, operand } => (2, key, operand),
            WriteOp::DeleteRange { start, end } => (3, start, end),
        };
        ByteWriter::new(&mut bytes)
            .u8(kind)
            .u16(key.len() as u16)
            .u32(operand.len() as u32)
            .bytes(key)
            .bytes(operand);
    }
    bytes
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<WriteOp>> {
    let mut reader = ByteReader::new(bytes);
    let mut read = || -> std::result::Result<Vec<WriteOp>, TruncatedInput> {
        let mut ops = Vec::new();
        for _ in 0..reader.u32()? {
            let (kind, key, operand) = (reader.u8()?, reader.u16()?, reader.u32()?);
            let key = reader.take(key.into())?.to_vec();
            let operand = reader.take(operand as usize)?.to_vec();
            ops.push(match kind {
                0 => WriteOp::Put { key, value: operand },
                1 => WriteOp::Delete { key },
                2 => WriteOp::Merge { key, operand },
                _ => WriteOp::DeleteRange {
                    start: key,
                    end: operand,
                },
            });
        }
        Ok(ops)
    };
    let place = DiskLocation::new(OnDiskObject::LogRecord, "log", 0);
    read().map_err(|error| Error::corrupt(place, "a batch", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_back() {
        let (key, value) = (b"key".to_vec(), b"value".to_vec());
        let ops = vec![
            WriteOp::Put {
                key: key.clone(),
                value: value.clone(),
            },
            WriteOp::Delete { key: key.clone() },
            WriteOp::Merge {
                key: key.clone(),
                operand: value.clone(),
            },
            WriteOp::DeleteRange {
                start: key,
                end: value,
            },
        ];
        let bytes = encode(&ops);
        assert_eq!(decode(&bytes).unwrap(), ops);
        assert!(decode(&bytes[..bytes.len() - 1]).is_err());
    }
}

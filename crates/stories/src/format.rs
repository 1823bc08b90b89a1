//! Encoding of a commit as a log record.
//!
//! ```text
//! record of the log, all integers little-endian:
//! OFFSET  SIZE  MEANING
//!      0     4  how many writes
//!      4     …  each: kind (1), length of the key (2), length of the operand (4), key, operand
//! ```
//!
//! The operand of a range delete is the end of its range.

use alluvium_base::bytes::{Reader, Truncated, Writer};
use alluvium_sim::ops::Op;
use alluvium_storage::{Error, Place, Result, Structure};

pub(crate) fn encode(ops: &[Op]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Writer::new(&mut bytes).u32(ops.len() as u32);
    for op in ops {
        let (kind, key, operand): (u8, &[u8], &[u8]) = match op {
            Op::Put { key, value } => (0, key, value),
            Op::Delete { key } => (1, key, &[]),
            Op::Merge { key, operand } => (2, key, operand),
            Op::DeleteRange { start, end } => (3, start, end),
        };
        Writer::new(&mut bytes)
            .u8(kind)
            .u16(key.len() as u16)
            .u32(operand.len() as u32)
            .bytes(key)
            .bytes(operand);
    }
    bytes
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<Op>> {
    let mut reader = Reader::new(bytes);
    let mut read = || -> std::result::Result<Vec<Op>, Truncated> {
        let mut ops = Vec::new();
        for _ in 0..reader.u32()? {
            let (kind, key, operand) = (reader.u8()?, reader.u16()?, reader.u32()?);
            let key = reader.take(key.into())?.to_vec();
            let operand = reader.take(operand as usize)?.to_vec();
            ops.push(match kind {
                0 => Op::Put { key, value: operand },
                1 => Op::Delete { key },
                2 => Op::Merge { key, operand },
                _ => Op::DeleteRange {
                    start: key,
                    end: operand,
                },
            });
        }
        Ok(ops)
    };
    let place = Place::new(Structure::LogRecord, "log", 0);
    read().map_err(|error| Error::corrupt(place, "a batch", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_back() {
        let (key, value) = (b"key".to_vec(), b"value".to_vec());
        let ops = vec![
            Op::Put {
                key: key.clone(),
                value: value.clone(),
            },
            Op::Delete { key: key.clone() },
            Op::Merge {
                key: key.clone(),
                operand: value.clone(),
            },
            Op::DeleteRange {
                start: key,
                end: value,
            },
        ];
        let bytes = encode(&ops);
        assert_eq!(decode(&bytes).unwrap(), ops);
        assert!(decode(&bytes[..bytes.len() - 1]).is_err());
    }
}

//! The operand of a timed delete, version 1: the chain without the time of its newest delete,
//! which is the time of the message.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0        varint: number of deletes
//!               for each delete, oldest first:
//!                 varint: 0 if no operand lies between this delete and the next older one,
//!                 else its length and 1
//!                 the operand
//!                 varint, but for the newest delete: from when it deletes, in milliseconds
//!                 since 1970, later than the one before
//!               varint: 0 if no operand is newer than all deletes, else its length and 1
//!               the operand
//! ```
//!
//! A single delete without operands has an empty operand.

#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::{ChainElement, OperandChain};
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use thiserror::Error;

/// The error for an operand of a timed delete that is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the operand of a timed delete is damaged")]
pub struct MalformedChain;

impl From<TruncatedInput> for MalformedChain {
    fn from(_: TruncatedInput) -> MalformedChain {
        MalformedChain
    }
}

/// Appends the operand of the message for `chain`, which has a delete.
pub(super) fn encode(chain: &OperandChain, out: &mut Vec<u8>) {
    if let ([one], None) = (&chain.stages[..], &chain.newest)
        && one.operand.is_none()
    {
        return;
    }
    let mut writer = ByteWriter::new(out);
    writer.varint(chain.stages.len() as u64);
    for (number, stage) in chain.stages.iter().enumerate() {
        encode_operand(&mut writer, stage.operand.as_deref());
        if number + 1 < chain.stages.len() {
            writer.varint(stage.deleted_ms);
        }
    }
    encode_operand(&mut writer, chain.newest.as_deref());
}

fn encode_operand(writer: &mut ByteWriter<'_>, operand: Option<&[u8]>) {
    writer.varint(operand.map_or(0, |operand| operand.len() as u64 + 1));
    writer.bytes(operand.unwrap_or_default());
}

/// Calls `visit` with the elements of an operand, oldest first.
pub(super) fn visit<'c>(
    operand: &'c [u8],
    deleted_ms: u64,
    mut visit: impl FnMut(ChainElement<'c>),
) -> Result<(), MalformedChain> {
    if deleted_ms == 0 {
        return Err(MalformedChain);
    }
    if operand.is_empty() {
        visit(ChainElement::DeletedAt(deleted_ms));
        return Ok(());
    }
    let mut reader = ByteReader::new(operand);
    let deletes = reader.varint()?;
    if deletes == 0 || deletes > operand.len() as u64 {
        return Err(MalformedChain);
    }
    let mut before = 0;
    for number in 1..=deletes {
        let part = read_operand(&mut reader)?;
        let time_ms = if number < deletes {
            reader.varint()?
        } else {
            deleted_ms
        };
        if time_ms <= before || (part.is_none() && number > 1) {
            return Err(MalformedChain);
        }
        part.into_iter()
            .for_each(|part| visit(ChainElement::Operand(part)));
        visit(ChainElement::DeletedAt(time_ms));
        before = time_ms;
    }
    read_operand(&mut reader)?
        .into_iter()
        .for_each(|part| visit(ChainElement::Operand(part)));
    if reader.remaining() > 0 {
        return Err(MalformedChain);
    }
    Ok(())
}

fn read_operand<'c>(reader: &mut ByteReader<'c>) -> Result<Option<&'c [u8]>, MalformedChain> {
    let Some(len) = reader.varint()?.checked_sub(1) else {
        return Ok(None);
    };
    let len = usize::try_from(len).map_err(|_| MalformedChain)?;
    Ok(Some(reader.take(len)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::AppendOperator;

    fn encoded(chain: &OperandChain) -> (u64, Vec<u8>) {
        chain.as_message(|message| (message.expires_ms, message.operand.to_vec()))
    }

    #[test]
    fn the_bytes_of_version_1() {
        let mut chain = OperandChain::deleted_at(300);
        assert_eq!(encoded(&chain), (300, vec![]));
        chain.merge(b"ab", &AppendOperator);
        assert_eq!(encoded(&chain), (300, vec![1, 0, 3, b'a', b'b']));
        chain.delete_at(301, Some(&AppendOperator));
        chain.merge(b"", &AppendOperator);
        let bytes = [2, 0, 0xac, 2, 3, b'a', b'b', 1];
        assert_eq!(encoded(&chain), (301, bytes.to_vec()));
        assert_eq!(OperandChain::decode(&bytes, 301), Ok(chain));
    }

    #[test]
    fn damaged_operands_are_refused() {
        let bytes = [2, 0, 0xac, 2, 3, b'a', b'b', 1];
        for len in 1..bytes.len() {
            assert_eq!(
                OperandChain::decode(&bytes[..len], 301),
                Err(MalformedChain),
                "{len}"
            );
        }
        // No time; times that do not increase; no operand between deletes; no delete; more bytes.
        for (bytes, time) in [
            (&[][..], 0),
            (&bytes, 300),
            (&[2, 0, 5, 0, 0], 9),
            (&[0, 0], 9),
            (&[1, 0, 0, 0], 9),
            (&[9, 0, 0], 9),
        ] {
            assert_eq!(
                OperandChain::decode(bytes, time),
                Err(MalformedChain),
                "{bytes:?}"
            );
        }
    }
}

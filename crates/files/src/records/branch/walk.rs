//! Records in the order of their keys, those of a branch above those below.

use super::format::{self, BranchRecordKind};
use super::{damaged_branch, merge};
use crate::error::Result;
use crate::records::{RecordSpace, RecordValue, RecordVisitor};
use alluvium::Value;
use std::cmp::Ordering;

/// Keys and values in order.
pub(super) struct RecordStream<'r> {
    records: Box<dyn Iterator<Item = Result<(Vec<u8>, RecordValue)>> + 'r>,
}

impl<'r> RecordStream<'r> {
    /// Returns the records of an iterator of the store.
    pub(super) fn stored(
        records: impl Iterator<Item = alluvium::Result<(Vec<u8>, Value)>> + 'r,
    ) -> RecordStream<'r> {
        let records = records.map(|record| {
            let (key, value) = record?;
            Ok((key, RecordValue::after(value, 0)))
        });
        RecordStream {
            records: Box::new(records),
        }
    }

    /// Returns the records of a branch, whose own are `own`, with their keys in the keyspace of
    /// branches.
    pub(super) fn layered(
        space: RecordSpace,
        own: RecordStream<'r>,
        below: RecordStream<'r>,
    ) -> RecordStream<'r> {
        let mut layers = LayeredRecords {
            space,
            own: own.records,
            below: below.records,
            next_own: None,
            next_below: None,
        };
        RecordStream {
            records: Box::new(std::iter::from_fn(move || layers.next().transpose())),
        }
    }

    pub(super) fn visit(self, visit: &mut RecordVisitor<'_>) -> Result<()> {
        for record in self.records {
            let (key, value) = record?;
            if visit(&key, &value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

type BoxedRecords<'r> = Box<dyn Iterator<Item = Result<(Vec<u8>, RecordValue)>> + 'r>;

/// What a branch has of a record, with the key of the record.
type OwnRecord = (Vec<u8>, BranchRecordKind, RecordValue);

struct LayeredRecords<'r> {
    space: RecordSpace,
    own: BoxedRecords<'r>,
    below: BoxedRecords<'r>,
    next_own: Option<OwnRecord>,
    next_below: Option<(Vec<u8>, RecordValue)>,
}

impl LayeredRecords<'_> {
    fn next(&mut self) -> Result<Option<(Vec<u8>, RecordValue)>> {
        loop {
            if self.next_own.is_none() {
                self.next_own = self.own.next().transpose()?.map(decoded).transpose()?;
            }
            if self.next_below.is_none() {
                self.next_below = self.below.next().transpose()?;
            }
            let order = match (&self.next_own, &self.next_below) {
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((own, ..)), Some((below, _))) => own.cmp(below),
            };
            let below = match order {
                Ordering::Less => None,
                _ => self.next_below.take(),
            };
            if order.is_gt() {
                return Ok(below);
            }
            let Some((key, kind, value)) = self.next_own.take() else {
                continue;
            };
            let below = || Ok(below.map(|(_, value)| value));
            if let Some(value) = merge::resolve(self.space, Some((kind, value)), below)? {
                return Ok(Some((key, value)));
            }
        }
    }
}

/// Decodes what a branch has of a record.
fn decoded((key, value): (Vec<u8>, RecordValue)) -> Result<OwnRecord> {
    let kind = format::decode_kind(&value).map_err(|damage| damaged_branch(&key, damage))?;
    let (_, own) = format::split_record_key(&key).map_err(|damage| damaged_branch(&key, damage))?;
    Ok((own.to_vec(), kind, value.skip(format::MARK_BYTES)))
}

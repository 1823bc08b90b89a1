//! How the changes of a branch and the records below become one value.

use super::damaged_branch;
use super::format::BranchRecordKind;
use crate::error::Result;
use crate::records::format::{self, DamagedRecord};
use crate::records::{RecordSpace, RecordValue};

/// Returns the value of a record of which a branch has `own`.
pub(super) fn resolve(
    space: RecordSpace,
    own: Option<(BranchRecordKind, RecordValue)>,
    below: impl FnOnce() -> Result<Option<RecordValue>>,
) -> Result<Option<RecordValue>> {
    match own {
        None | Some((BranchRecordKind::Depended, _)) => below(),
        Some((BranchRecordKind::Deleted, _)) => Ok(None),
        Some((BranchRecordKind::Written, value)) => Ok(Some(value)),
        Some((BranchRecordKind::Merged, operand)) => Ok(Some(match below()? {
            None => operand,
            Some(below) => RecordValue::Computed(combined(space, &below, &operand)?),
        })),
    }
}

/// Returns a value into which an operand was merged, as the operator of the keyspace does it.
pub(super) fn combined(space: RecordSpace, value: &[u8], operand: &[u8]) -> Result<Vec<u8>> {
    let of = |damage: DamagedRecord| damaged_branch(space.suffix().as_bytes(), damage);
    match space {
        RecordSpace::Counts => {
            let before = format::decode_count(value).map_err(of)?;
            let added = format::decode_count(operand).map_err(of)?;
            Ok(format::count(before.wrapping_add(added)).to_vec())
        }
        RecordSpace::Times => Ok(value.max(operand).to_vec()),
        RecordSpace::Blocks | RecordSpace::Compressed => Ok([value, operand].concat()),
        _ => Err(of(DamagedRecord {
            what: "cannot be merged",
        })),
    }
}

//! Records as of one commit.

use super::in_transaction::bounds;
use super::keyspaces::FileKeyspaces;
use super::{ReadDependence, ReadRecords, RecordSpace, RecordValue, RecordVisitor, WalkedValues};
use crate::error::Result;
use alluvium::Snapshot;

/// The records that a snapshot of the store contains.
pub(crate) struct SnapshotRecords<'s> {
    snapshot: &'s Snapshot,
    spaces: &'s FileKeyspaces,
}

impl<'s> SnapshotRecords<'s> {
    pub(crate) fn new(snapshot: &'s Snapshot, spaces: &'s FileKeyspaces) -> SnapshotRecords<'s> {
        SnapshotRecords { snapshot, spaces }
    }
}

impl ReadRecords for SnapshotRecords<'_> {
    fn get(&self, space: RecordSpace, key: &[u8], _depends: ReadDependence) -> Result<Option<RecordValue>> {
        let value = self.snapshot.get(self.spaces.of(space), key)?;
        Ok(value.map(|value| RecordValue::after(value, 0)))
    }

    fn get_many(&self, space: RecordSpace, keys: &[Vec<u8>]) -> Result<Vec<Option<RecordValue>>> {
        let values = self.snapshot.multi_get(self.spaces.of(space), keys)?;
        let values = values.into_iter();
        Ok(values.map(|value| Some(RecordValue::after(value?, 0))).collect())
    }

    fn walk(
        &self,
        space: RecordSpace,
        low: &[u8],
        high: Option<&[u8]>,
        values: WalkedValues,
        visit: &mut RecordVisitor<'_>,
    ) -> Result<()> {
        let mut records = self
            .snapshot
            .range::<&[u8]>(self.spaces.of(space), bounds(low, high));
        match values {
            WalkedValues::All => (),
            WalkedValues::About(bytes) => records = records.expecting_bytes(bytes),
            WalkedValues::Short => records = records.without_long_values(),
        }
        while let Some((key, value)) = records.lend()? {
            if visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

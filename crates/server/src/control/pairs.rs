//! Converts key-value pairs from a scan to replies, and requested changes to a write batch.

use super::request::{KeyChange, ManagementReply, ReplySink, Result, ScanContent, ScanOrder, ScanRequest};
use alluvium::{Db, Keyspace, WriteBatch};
use std::time::{Duration, SystemTime};

/// Approximate maximum size of the keys and values in one reply in bytes.
pub(super) const CHUNK: usize = 256 << 10;

/// The next key-value pair of a scan, or an error.
type PairResult = alluvium::Result<(Vec<u8>, alluvium::Value)>;

/// Passes a scan's pairs to `hear` in order, in replies of limited size.
pub(super) fn walk(
    mut iter: impl DoubleEndedIterator<Item = PairResult>,
    scan: &ScanRequest,
    hear: &mut ReplySink<'_>,
) -> Result<()> {
    let next = || match scan.direction {
        ScanOrder::Forward => iter.next(),
        ScanOrder::Backward => iter.next_back(),
    };
    pairs(next, scan.limit, scan.what, hear)
}

/// Calls `next` until there are no more pairs, and passes the pairs to `hear` in replies of limited
/// size.
pub(super) fn pairs(
    mut next: impl FnMut() -> Option<PairResult>,
    limit: Option<u64>,
    what: ScanContent,
    hear: &mut ReplySink<'_>,
) -> Result<()> {
    let mut left = limit.unwrap_or(u64::MAX);
    let (mut pairs, mut bytes) = (Vec::new(), 0);
    while left > 0 {
        let Some((key, value)) = next().transpose()? else {
            break;
        };
        let value = match what {
            ScanContent::Pairs => value.into_vec(),
            ScanContent::Keys => Vec::new(),
        };
        left -= 1;
        if bytes + key.len() + value.len() > CHUNK && !pairs.is_empty() {
            hear(ManagementReply::Pairs(std::mem::take(&mut pairs)))?;
            bytes = 0;
        }
        bytes += key.len() + value.len() + 16;
        pairs.push((key, value));
    }
    match pairs.is_empty() {
        true => Ok(()),
        false => hear(ManagementReply::Pairs(pairs)),
    }
}

/// Adds the requested changes to a write batch.
pub(super) fn add(db: &Db, changes: &[KeyChange], batch: &mut WriteBatch) -> alluvium::Result<()> {
    let mut last: Option<(&str, Keyspace)> = None;
    for change in changes {
        let keyspace = match &last {
            Some((name, keyspace)) if *name == change.keyspace => keyspace.clone(),
            _ => db.existing_keyspace(&change.keyspace)?,
        };
        last = Some((&change.keyspace, keyspace.clone()));
        let expires = change
            .expires_in_ms
            .and_then(|ms| SystemTime::now().checked_add(Duration::from_millis(ms)));
        match (&change.value, expires) {
            (Some(value), Some(expires)) => batch.put_until(&keyspace, &change.key, value, expires)?,
            (Some(value), None) => batch.put(&keyspace, &change.key, value)?,
            (None, Some(time)) => batch.delete_at(&keyspace, &change.key, time)?,
            (None, None) => batch.delete(&keyspace, &change.key)?,
        };
    }
    Ok(())
}

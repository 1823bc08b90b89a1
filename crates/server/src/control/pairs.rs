//! Pairs of keys and values: from a walk into replies, from changes into a batch.

use super::request::{Change, Direction, Hear, Reply, Result, Scan, What};
use alluvium::{Db, Keyspace, WriteBatch};
use std::time::{Duration, SystemTime};

/// Approximate size of the keys and values in one reply, in bytes.
pub(super) const CHUNK: usize = 256 << 10;

/// A pair of a walk over a keyspace.
type Pair = alluvium::Result<(Vec<u8>, alluvium::Value)>;

/// Sends the pairs of a walk to `hear` in order, in replies of limited size.
pub(super) fn walk(
    mut iter: impl DoubleEndedIterator<Item = Pair>,
    scan: &Scan,
    hear: &mut Hear<'_>,
) -> Result<()> {
    let next = || match scan.direction {
        Direction::Forward => iter.next(),
        Direction::Backward => iter.next_back(),
    };
    pairs(next, scan.limit, scan.what, hear)
}

/// Sends the pairs returned by `next` to `hear`, in replies of limited size.
pub(super) fn pairs(
    mut next: impl FnMut() -> Option<Pair>,
    limit: Option<u64>,
    what: What,
    hear: &mut Hear<'_>,
) -> Result<()> {
    let mut left = limit.unwrap_or(u64::MAX);
    let (mut pairs, mut bytes) = (Vec::new(), 0);
    while left > 0 {
        let Some((key, value)) = next().transpose()? else {
            break;
        };
        let value = match what {
            What::Pairs => value.into_vec(),
            What::Keys => Vec::new(),
        };
        left -= 1;
        if bytes + key.len() + value.len() > CHUNK && !pairs.is_empty() {
            hear(Reply::Pairs(std::mem::take(&mut pairs)))?;
            bytes = 0;
        }
        bytes += key.len() + value.len() + 16;
        pairs.push((key, value));
    }
    match pairs.is_empty() {
        true => Ok(()),
        false => hear(Reply::Pairs(pairs)),
    }
}

/// Adds changes to a batch.
pub(super) fn add(db: &Db, changes: &[Change], batch: &mut WriteBatch) -> alluvium::Result<()> {
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
            (None, _) => batch.delete(&keyspace, &change.key)?,
        };
    }
    Ok(())
}

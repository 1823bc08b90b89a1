//! The context of a command that runs within a client's transaction. It reads and iterates through
//! the client's transaction, and collects the command's writes.

use super::ServerStore;
use super::collection_filter::MarkChanges;
use super::key_events::{ChannelMessage, KeyEvent, KeyKind};
use super::model::format::InnerKey;
use super::own_records::OwnRecords;
use super::scan::{OwnedPair, ValueSelection, WalkDirection};
use super::transaction::CommandTransaction;
use crate::error::CommandError;
use crate::net::wait_hooks;
use alluvium::{TransactionIter, TransactionUnorderedScan, Value, WriteSet};
use std::collections::VecDeque;
use std::ops::Range;

/// The state of a command within a client's transaction.
pub(crate) struct NestedTransaction<'s> {
    base: &'s alluvium::Transaction,
    /// The keys that the command has written, each with its expiry time in milliseconds since 1970.
    wrote: Vec<(InnerKey, u64)>,
    ranges: Vec<(InnerKey, InnerKey)>,
    touched: Vec<TouchedKey>,
}

/// A user key that a command has written, with its database's stored number, its type after the
/// change, and the event.
pub(super) type TouchedKey = (u8, Box<[u8]>, (KeyKind, KeyEvent));

impl<'s> NestedTransaction<'s> {
    pub(super) fn new(base: &'s alluvium::Transaction) -> NestedTransaction<'s> {
        NestedTransaction {
            base,
            wrote: Vec::new(),
            ranges: Vec::new(),
            touched: Vec::new(),
        }
    }

    /// Reads the values of keys as the client's transaction sees them, and adds the keys to its
    /// read set.
    pub(super) fn read(
        &self,
        store: &ServerStore,
        keys: &[impl AsRef<[u8]>],
    ) -> Result<Vec<Option<Value>>, CommandError> {
        let _may_wait = wait_hooks::may_wait();
        // If a read fails, the command fails and its writes are discarded.
        let values = match store.records.are_hashed() {
            false => self.base.multi_get(&store.data, keys)?,
            true => {
                // The read set must include absent keys, which is possible only if their keyspace
                // exists.
                for key in keys {
                    store.records.ensure(key.as_ref())?;
                }
                store.read_apart(keys, |space, names| self.base.multi_get(space, names))?
            }
        };
        assert!(values.len() == keys.len(), "every key has an answer");
        Ok(values)
    }

    /// Returns an iterator over a key range as the client's transaction sees it, merged with the
    /// command's own writes.
    pub(super) fn walk<'t>(
        &'t self,
        store: &ServerStore,
        writes: Option<&'t WriteSet>,
        range: Range<&[u8]>,
        (direction, values): (WalkDirection, ValueSelection),
    ) -> NestedTransactionWalk<'t> {
        let own = |(key, _): &(InnerKey, u64)| {
            let is_within = range.contains(&&key[..]);
            let value = writes?.own(key).filter(|_| is_within)?.value()?;
            Some((key.to_vec(), values.shown(value).to_vec()))
        };
        let base = self.base.range(&store.data, range.clone());
        let mut own: Vec<OwnedPair> = self.wrote.iter().filter_map(own).collect();
        own.sort_unstable();
        own.dedup();
        if direction == WalkDirection::Backward {
            own.reverse();
        }
        NestedTransactionWalk {
            base: match values {
                ValueSelection::All => base,
                ValueSelection::Short => base.without_long_values(),
            },
            next: None,
            writes,
            own: own.into(),
            direction,
        }
    }

    /// Returns an iterator over a database's hashed records as the client's transaction sees them.
    /// Empty values may replace long ones.
    pub(super) fn walk_hashed(
        &self,
        store: &ServerStore,
        database: u8,
    ) -> Result<TransactionUnorderedScan<'s>, CommandError> {
        // The read set must include absent keys, which is possible only if their keyspace exists.
        let walk = self.base.unordered(store.records.space(database)?);
        Ok(walk.without_long_values())
    }

    pub(super) fn wrote(&mut self, key: &InnerKey, expires_ms: u64) {
        self.wrote.push((key.clone(), expires_ms));
    }

    pub(super) fn deleted_range(&mut self, start: &InnerKey, end: &InnerKey) {
        self.ranges.push((start.clone(), end.clone()));
    }

    /// Records that the command has written a user key in the database with the stored number
    /// `number`.
    pub(super) fn touched(&mut self, number: u8, key: &[u8], change: (KeyKind, KeyEvent)) {
        self.touched.push((number, key.into(), change));
    }
}

/// An ordered iterator over a client's transaction, merged with one command's writes.
pub(crate) struct NestedTransactionWalk<'t> {
    base: TransactionIter<'t>,
    /// The next pair of the client's transaction, if already read.
    next: Option<OwnedPair>,
    writes: Option<&'t WriteSet>,
    /// The pairs that the command has written, in iteration order.
    own: VecDeque<OwnedPair>,
    direction: WalkDirection,
}

impl NestedTransactionWalk<'_> {
    pub(super) fn next(&mut self) -> Result<Option<OwnedPair>, CommandError> {
        if self.next.is_none() {
            self.next = self.step()?;
        }
        let is_own_first = match (&self.next, self.own.front()) {
            (Some((base, _)), Some((own, _))) if self.direction == WalkDirection::Forward => own < base,
            (Some((base, _)), Some((own, _))) => own > base,
            (_, own) => own.is_some(),
        };
        match is_own_first {
            true => Ok(self.own.pop_front()),
            false => Ok(self.next.take()),
        }
    }

    /// Returns the next pair of the client's transaction whose key the command has neither
    /// overwritten nor deleted.
    fn step(&mut self) -> Result<Option<OwnedPair>, CommandError> {
        loop {
            let next = match self.direction {
                WalkDirection::Forward => self.base.next(),
                WalkDirection::Backward => self.base.next_back(),
            };
            let Some((key, value)) = next.transpose()? else {
                return Ok(None);
            };
            let is_hidden = |writes: &WriteSet| writes.own(&key).is_some();
            if !self.writes.is_some_and(is_hidden) {
                return Ok(Some((key, value.into_vec())));
            }
        }
    }
}

/// All writes of one command, for the client's transaction to adopt.
pub(crate) struct CommandChanges {
    pub(super) writes: Option<Box<WriteSet>>,
    pub(super) records: Option<Box<OwnRecords>>,
    pub(super) keys: Vec<(InnerKey, u64)>,
    pub(super) ranges: Vec<(InnerKey, InnerKey)>,
    pub(super) touched: Vec<TouchedKey>,
    pub(super) messages: Vec<ChannelMessage>,
    pub(super) marks: MarkChanges,
    /// Numbers of the sorted sets whose rank indexes the command has changed.
    pub(super) orders: Vec<u64>,
}

impl CommandChanges {
    /// Returns a key's value after the command, or `None` if the command has deleted the key or not
    /// written it.
    pub(super) fn value(&self, key: &[u8]) -> Option<&[u8]> {
        let record = self.records.as_ref().and_then(|records| records.own(key));
        match record {
            Some(value) => value,
            None => self.writes.as_ref()?.own(key)?.value(),
        }
    }

    /// Returns whether the command has written nothing.
    pub(super) fn are_none(&self) -> bool {
        self.writes.is_none() && self.records.is_none()
    }
}

impl CommandTransaction<'_> {
    /// Consumes a command's transaction, which must be nested in a client's transaction, and
    /// returns its writes.
    pub(crate) fn into_changes(mut self) -> CommandChanges {
        let orders = self.write_orders();
        let within = self
            .within
            .take()
            .expect("it is within the transaction of a client");
        CommandChanges {
            keys: within.wrote,
            ranges: within.ranges,
            touched: within.touched,
            messages: self.take_messages(),
            marks: self.take_marks(),
            orders,
            writes: self.writes.take(),
            records: self.records.take(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::KeyLayout;
    use crate::store::model::format;
    use alluvium::Options;
    use std::collections::BTreeMap;

    /// Returns the record key of a random user key in database 0.
    fn key(random: &mut fastrand::Rng) -> InnerKey {
        format::record_key(0, format!("key {:02}", random.u8(..60)).as_bytes())
    }

    #[test]
    fn a_command_sees_its_own_writes_over_those_of_the_transaction_and_of_the_store() {
        let place = tempfile::tempdir().unwrap();
        let db = Options::new()
            .memory(64 << 20)
            .open(place.path().join("store"))
            .unwrap();
        let store = ServerStore::open(&db, KeyLayout::AsStored).unwrap();
        for seed in 0..200 {
            let random = &mut fastrand::Rng::with_seed(seed);
            let mut model = BTreeMap::new();
            store
                .data
                .delete_range(format::everything(0).0, Some(&format::everything(0).1))
                .unwrap();
            for value in 0..random.u8(..40) {
                let key = key(random);
                store.data.put(&key, [value]).unwrap();
                model.insert(key, vec![value]);
            }
            let base = store.db.begin();
            for value in 0..random.u8(..20) {
                let key = key(random);
                base.put(&store.data, &key, [100, value]).unwrap();
                model.insert(key, vec![100, value]);
            }
            let mut command = CommandTransaction::new(&store, 0);
            command.within = Some(Box::new(NestedTransaction::new(&base)));
            for value in 0..random.u8(..20) {
                let (key, other) = (key(random), key(random));
                match random.u8(..8) {
                    0 if key < other => {
                        model.retain(|own, _| !(&key..&other).contains(&own));
                        command.delete_range(key, other);
                    }
                    0..3 => {
                        model.remove(&key);
                        command.delete(key);
                    }
                    _ => {
                        model.insert(key.clone(), vec![200, value]);
                        command.put(key, vec![200, value], 0);
                    }
                }
            }
            let (low, high) = (key(random), key(random));
            let mut expected: Vec<OwnedPair> = model
                .iter()
                .filter(|(key, _)| low <= **key && **key < high)
                .map(|(key, value)| (key.to_vec(), value.clone()))
                .collect();
            for direction in [WalkDirection::Forward, WalkDirection::Backward] {
                let mut scan = command.scan(low.clone(), high.clone(), direction);
                let found: Vec<OwnedPair> = std::iter::from_fn(|| scan.next().unwrap()).collect();
                assert_eq!(found, expected, "seed {seed}, {direction:?}");
                expected.reverse();
            }
        }
    }
}

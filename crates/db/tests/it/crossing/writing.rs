//! Applies writes to the store and the model.

use super::model::Change;
use super::ops::{Bytes, Expected, KeyNumber, KeyspaceNumber, Load, Write};
use super::reading;
use super::world::{Outcome, World, moment, told};
use alluvium::{Durability, WriteBatch};
use std::collections::BTreeMap;

impl World<'_> {
    pub(super) fn batch(&mut self, durability: Durability, writes: &[(KeyspaceNumber, Write)]) -> Outcome {
        let changes = writes.iter().map(|&(of, write)| (of, self.change(of, write)));
        let changes: Vec<_> = changes.collect();
        self.commit(durability, &changes)
    }

    /// Commits changes in one batch.
    pub(super) fn commit(&mut self, durability: Durability, changes: &[(KeyspaceNumber, Change)]) -> Outcome {
        let mut batch = WriteBatch::new().durability(durability);
        for (of, change) in changes {
            let keyspace = &self.handles[*of];
            let added = match change {
                Change::Put(key, value, 0) => batch.put(keyspace, key, value),
                Change::Put(key, value, expires) => batch.put_until(keyspace, key, value, moment(*expires)),
                Change::Delete(key) => batch.delete(keyspace, key),
                Change::DeleteAt(key, time) => batch.delete_at(keyspace, key, moment(*time)),
                Change::Merge(key, operand) => batch.merge(keyspace, key, operand),
                Change::DeleteRange(low, high) => batch.delete_range(keyspace, low, high.as_deref()),
            };
            told("a write of a batch", added.map(|_| ()))?;
        }
        if self.done("a batch", self.db().write(&batch))?.is_none() {
            return Ok(());
        }
        let before = self.model.clone();
        for (of, change) in changes {
            self.model.apply(*of, change, self.rule);
        }
        self.committed(durability, before, changes);
        Ok(())
    }

    pub(super) fn set(
        &mut self,
        of: KeyspaceNumber,
        key: KeyNumber,
        expected: Expected,
        new: Option<Bytes>,
    ) -> Outcome {
        let key = self.key(of, key);
        let value = self.model.keyspace(of).get(&key, self.now_ms());
        let expected = self.expected(of, expected, value.as_deref());
        let new = new.map(|bytes| self.value(of, bytes));
        let done = self.handles[of].compare_and_set(&key, expected.as_deref(), new.as_deref());
        let Some(done) = self.done("a conditional write", done)? else {
            return Ok(());
        };
        if done != (expected == value) {
            let shown = reading::show(&key, value.as_deref());
            return Err(format!("a conditional write: {done}, where {shown} is there"));
        }
        if done {
            let before = self.model.clone();
            let change = match new {
                Some(value) => Change::Put(key, value.into(), 0),
                None => Change::Delete(key),
            };
            self.model.apply(of, &change, self.rule);
            self.committed(Durability::default(), before, &[(of, change)]);
        }
        Ok(())
    }

    pub(super) fn take(&mut self, of: KeyspaceNumber, key: KeyNumber) -> Outcome {
        let key = self.key(of, key);
        let value = self.model.keyspace(of).get(&key, self.now_ms());
        let Some(taken) = self.done("a take", self.handles[of].take(&key))? else {
            return Ok(());
        };
        reading::same(&key, taken.as_deref(), value.as_deref()).map_err(|why| format!("a take: {why}"))?;
        let before = self.model.clone();
        let change = Change::Delete(key);
        self.model.apply(of, &change, self.rule);
        if taken.is_some() {
            self.committed(Durability::default(), before, &[(of, change)]);
        }
        Ok(())
    }

    pub(super) fn ingest(
        &mut self,
        of: KeyspaceNumber,
        records: &[(KeyNumber, Bytes, Option<u64>)],
        load: Load,
    ) -> Outcome {
        let mut sorted: BTreeMap<Vec<u8>, (Vec<u8>, u64)> = BTreeMap::new();
        for &(key, bytes, lives_ms) in records {
            let expires = lives_ms.map_or(0, |ms| self.now_ms() + ms);
            sorted.insert(self.key(of, key), (self.value(of, bytes), expires));
        }
        let Some(mut ingest) = self.done("a load", self.handles[of].begin_ingest())? else {
            return Ok(());
        };
        for (key, (value, expires)) in &sorted {
            let put = match expires {
                0 => ingest.put(key, value),
                &expires => ingest.put_until(key, value, moment(expires)),
            };
            if self.done("a record of a load", put)?.is_none() {
                return Ok(());
            }
        }
        if load == Load::GivenUp {
            return Ok(());
        }
        if self.done("the end of a load", ingest.finish())?.is_none() {
            return Ok(());
        }
        for (key, (value, expires)) in sorted {
            self.model
                .apply(of, &Change::Put(key, value.into(), expires), self.rule);
        }
        self.kept();
        Ok(())
    }
}

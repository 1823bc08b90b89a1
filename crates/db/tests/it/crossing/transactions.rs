//! Transactions from begin to end, interleaved with commits of other writers.

use super::model::{Change, Model};
use super::ops::{Bytes, Expected, KeyNumber, KeyspaceNumber, Read, Step, Transaction as Plan};
use super::reading::{compare, gathered, same, same_pairs, show};
use super::world::{OVERTAKEN, Outcome, SPILLED, World, moment, told};
use alluvium::{Concurrency, Durability, Error, ErrorKind, Savepoint, Transaction, TransactionOptions};

/// A transaction and the state that it must see.
struct Beside {
    transaction: Transaction,
    view: Model,
    /// The transaction's writes, in order.
    changes: Vec<(KeyspaceNumber, Change)>,
    savepoints: Vec<(Savepoint, Model, usize)>,
    /// Whether other writers have committed since the transaction began.
    is_overtaken: bool,
}

/// The result of a step that does not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    Goes,
    /// The transaction has ended because of a conflict or a limit.
    Over,
}

impl Beside {
    /// Separates errors that legitimately end a transaction from faults.
    fn judge<T>(&self, world: &World<'_>, what: &str, result: Result<T, Error>) -> Outcome<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if world.is_refused(&error) => Ok(None),
            Err(error) if error.kind() == ErrorKind::LimitReached => {
                world.note("a limit");
                Ok(None)
            }
            Err(error) if self.is_overtaken && error.kind() == ErrorKind::Conflict => {
                world.coverage.hit(OVERTAKEN);
                world.note(OVERTAKEN);
                Ok(None)
            }
            Err(error) => Err(format!("{what}: {error}")),
        }
    }

    fn note(&mut self, world: &World<'_>, of: KeyspaceNumber, change: Change) {
        self.view.apply(of, &change, world.rule);
        self.changes.push((of, change));
    }

    fn write(&mut self, world: &World<'_>, of: KeyspaceNumber, change: Change) -> Outcome<Ends> {
        let (keyspace, _) = world.keyspace(of);
        let transaction = &mut self.transaction;
        let written = match &change {
            Change::Put(key, value, 0) => transaction.put(keyspace, key, value),
            Change::Put(key, value, expires) => transaction.put_until(keyspace, key, value, moment(*expires)),
            Change::Delete(key) => transaction.delete(keyspace, key),
            Change::DeleteAt(key, time) => transaction.delete_at(keyspace, key, moment(*time)),
            Change::Merge(key, operand) => transaction.merge(keyspace, key, operand),
            Change::DeleteRange(low, high) => transaction.delete_range(keyspace, low, high.as_deref()),
        };
        if self.judge(world, "a write of a transaction", written)?.is_none() {
            return Ok(Ends::Over);
        }
        self.note(world, of, change);
        Ok(Ends::Goes)
    }

    fn value(&self, world: &World<'_>, of: KeyspaceNumber, key: &[u8]) -> Option<Vec<u8>> {
        self.view.keyspace(of).get(key, world.now_ms())
    }

    fn step(&mut self, world: &mut World<'_>, step: &Step) -> Outcome<Ends> {
        match step {
            &Step::Write(of, write) => {
                let change = world.change(of, write);
                self.write(world, of, change)
            }
            &Step::Other(of, write) => {
                let change = world.change(of, write);
                self.is_overtaken = true;
                world.commit(Durability::Process, &[(of, change)])?;
                Ok(Ends::Goes)
            }
            &Step::Set(of, key, expected, new) => self.set(world, of, (key, expected, new)),
            &Step::GetForUpdate(of, key) => {
                let key = world.key(of, key);
                let found = self.transaction.get_for_update(world.keyspace(of).0, &key);
                let Some(found) = self.judge(world, "a get of a transaction", found)? else {
                    return Ok(Ends::Over);
                };
                same(&key, found.as_deref(), self.value(world, of, &key).as_deref())?;
                Ok(Ends::Goes)
            }
            Step::Read(read) => self.read(world, read),
            Step::Savepoint => {
                let savepoint = self.transaction.savepoint();
                self.savepoints
                    .push((savepoint, self.view.clone(), self.changes.len()));
                Ok(Ends::Goes)
            }
            Step::RollBackTo(place) => self.roll_back_to(*place).map(|()| Ends::Goes),
            Step::Release(place) => self.release(*place).map(|()| Ends::Goes),
        }
    }

    fn set(
        &mut self,
        world: &World<'_>,
        of: KeyspaceNumber,
        (key, expected, new): (KeyNumber, Expected, Option<Bytes>),
    ) -> Outcome<Ends> {
        let key = world.key(of, key);
        let value = self.value(world, of, &key);
        let expected = world.expected(of, expected, value.as_deref());
        let new = new.map(|bytes| world.value(of, bytes));
        let (keyspace, _) = world.keyspace(of);
        let (is, to) = (expected.as_deref(), new.as_deref());
        let done = self.transaction.compare_and_set(keyspace, &key, is, to);
        let Some(done) = self.judge(world, "a conditional write", done)? else {
            return Ok(Ends::Over);
        };
        if done != (expected == value) {
            let shown = show(&key, value.as_deref());
            return Err(format!("a conditional write: {done}, where {shown} is there"));
        }
        if done {
            let change = match new {
                Some(value) => Change::Put(key, value.into(), 0),
                None => Change::Delete(key),
            };
            self.note(world, of, change);
        }
        Ok(Ends::Goes)
    }

    /// Performs a read and compares its result with the state that the transaction must see.
    fn read(&self, world: &World<'_>, read: &Read) -> Outcome<Ends> {
        let transaction = &self.transaction;
        match read {
            &Read::Get(_, of, key) => {
                let key = world.key(of, key);
                let found = transaction.get(world.keyspace(of).0, &key);
                let Some(found) = self.judge(world, "a get", found)? else {
                    return Ok(Ends::Over);
                };
                same(&key, found.as_deref(), self.value(world, of, &key).as_deref())?;
            }
            &Read::Contains(of, key) => {
                let key = world.key(of, key);
                let found = transaction.contains(world.keyspace(of).0, &key);
                let Some(found) = self.judge(world, "a question for a key", found)? else {
                    return Ok(Ends::Over);
                };
                let value = self.value(world, of, &key);
                if found != value.is_some() {
                    return Err(format!(
                        "{found}, where there is {}",
                        show(&key, value.as_deref())
                    ));
                }
            }
            Read::GetMany(_, of, keys) => {
                let keys: Vec<Vec<u8>> = keys.iter().map(|&key| world.key(*of, key)).collect();
                let found = transaction.multi_get(world.keyspace(*of).0, &keys);
                let Some(found) = self.judge(world, "many gets", found)? else {
                    return Ok(Ends::Over);
                };
                for (key, found) in keys.iter().zip(found) {
                    same(key, found.as_deref(), self.value(world, *of, key).as_deref())?;
                }
            }
            &Read::Walk(_, of, walk) if world.keyspace(of).1.is_ordered() => {
                let range = world.range(of, walk);
                let iter = transaction.range::<&[u8]>(world.keyspace(of).0, range.bounds());
                let expected = range.of(self.view.keyspace(of), world.now_ms());
                compare(iter, expected, walk.way, walk.most)?;
            }
            &Read::Prefix(of, key, len, way) if world.keyspace(of).1.is_ordered() => {
                let mut prefix = world.key(of, key);
                prefix.truncate(len);
                let mut expected = self.view.keyspace(of).pairs(&prefix, None, world.now_ms());
                expected.retain(|(key, _)| key.starts_with(&prefix));
                let iter = transaction.prefix(world.keyspace(of).0, &prefix);
                compare(iter, expected.into(), way, usize::MAX)?;
            }
            &Read::Walk(_, of, _) | &Read::Prefix(of, ..) | &Read::Unordered(_, of) | &Read::Keyspace(of) => {
                self.read_all(world, of)?;
            }
            Read::All => (0..world.plan.keyspaces.len()).try_for_each(|of| self.read_all(world, of))?,
        }
        Ok(Ends::Goes)
    }

    fn read_all(&self, world: &World<'_>, of: KeyspaceNumber) -> Outcome {
        let (keyspace, plan) = world.keyspace(of);
        let mut found = gathered(self.transaction.unordered(keyspace), plan)?;
        // An unordered iteration returns the transaction's own writes first.
        found.sort();
        same_pairs(&found, &self.view.keyspace(of).all(world.now_ms()))
    }

    fn roll_back_to(&mut self, place: usize) -> Outcome {
        let Some(place) = place.checked_rem(self.savepoints.len()) else {
            return Ok(());
        };
        self.savepoints.truncate(place + 1);
        let (savepoint, view, changes) = &self.savepoints[place];
        told("a way back", self.transaction.rollback_to(savepoint))?;
        self.view = view.clone();
        self.changes.truncate(*changes);
        Ok(())
    }

    fn release(&mut self, place: usize) -> Outcome {
        let Some(place) = place.checked_rem(self.savepoints.len()) else {
            return Ok(());
        };
        told(
            "the end of a savepoint",
            self.transaction.release(&self.savepoints[place].0),
        )?;
        self.savepoints.truncate(place);
        Ok(())
    }
}

impl World<'_> {
    /// Runs a transaction and compares all its reads with the state that it must see.
    pub(super) fn transact(&mut self, plan: &Plan) -> Outcome {
        let options = TransactionOptions::new()
            .isolation(plan.isolation)
            .concurrency(plan.concurrency);
        let options = match plan.memory {
            Some(bytes) => options.memory(bytes),
            None => options,
        };
        let mut beside = Beside {
            transaction: self.db().begin_with(&options),
            view: self.model.clone(),
            changes: Vec::new(),
            savepoints: Vec::new(),
            is_overtaken: false,
        };
        let is_locking = plan.concurrency == Concurrency::Locking;
        for step in &plan.steps {
            // Skip the step, which would wait for the transaction's locks.
            if is_locking && matches!(step, Step::Other(..)) {
                continue;
            }
            let ends = beside.step(self, step);
            if ends.map_err(|why| format!("in a transaction, {why}"))? == Ends::Over {
                return Ok(());
            }
        }
        let open = self.db().transactions();
        if open.iter().any(|open| open.spilled_bytes > 0) {
            self.coverage.hit(SPILLED);
        }
        let Some(durability) = plan.commit.map(|said| self.durability(said)) else {
            beside.transaction.rollback();
            return Ok(());
        };
        let Beside {
            transaction,
            changes,
            is_overtaken,
            ..
        } = beside;
        match transaction.commit_with(durability) {
            Ok(()) => {}
            Err(error) if self.is_refused(&error) => return Ok(()),
            Err(error) if is_overtaken && error.kind() == ErrorKind::Conflict => {
                self.coverage.hit(OVERTAKEN);
                self.note(OVERTAKEN);
                return Ok(());
            }
            Err(error) => return Err(format!("a commit: {error}")),
        }
        if changes.is_empty() {
            return Ok(());
        }
        let before = self.model.clone();
        for (of, change) in &changes {
            self.model.apply(*of, change, self.rule);
        }
        self.committed(durability, before, &changes);
        Ok(())
    }
}

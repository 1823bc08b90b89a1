//! Point reads of a transaction.

use super::Transaction;
use super::own_writes::OwnEffect;
use crate::engine::{EngineCounter, ReadPosition, single_key_range};
use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::locking::fault::{IsolationFault, is_planted};
use crate::locking::lock_manager::RangeLockMode;
use crate::read::value::Value;
use crate::schema::format::TreeKey;
use alluvium_dictionary::batch::LongValues;

/// The purpose of a read, which determines the lock that the read acquires and what is tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadIntent {
    /// The transaction does not depend on the key.
    Untracked,
    /// The transaction depends on the key as far as its isolation level requires.
    Read,
    /// The transaction depends on the key at every isolation level. Others may read the key.
    Shared,
    /// The transaction will write to the key, or depends on it as if it wrote to it.
    Update,
}

impl Transaction {
    /// Returns the value of a key, or `None` if the key has no value.
    ///
    /// # Errors
    /// As [`Keyspace::get`]; [`Error::OtherStore`]; [`Error::TransactionEnded`],
    /// [`Error::TransactionTooOld`], [`Error::TransactionLimit`]. In a locking transaction also
    /// [`Error::Deadlock`] and [`Error::LockTimedOut`].
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.get_for(keyspace, key.as_ref(), ReadIntent::Read, LongValues::Read)
    }

    /// Returns whether a key has a value.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn contains(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        let found = self.get_for(keyspace, key.as_ref(), ReadIntent::Read, LongValues::LeftOut)?;
        Ok(found.is_some())
    }

    /// Returns the value of a key without making the transaction depend on the key, so that the
    /// commit never conflicts because another commit has changed it. The transaction's own writes
    /// are visible.
    ///
    /// The value is that of the snapshot that the transaction reads. A transaction that is both
    /// serializable and locking has no snapshot, so it reads the newest value and locks nothing.
    /// That value may change before the commit, so nothing that the transaction writes may rely on
    /// it.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let settings = db.keyspace("settings")?;
    /// settings.put("greeting", "hello")?;
    /// let visit = db.begin();
    /// assert_eq!(visit.get_untracked(&settings, "greeting")?.unwrap(), b"hello");
    /// visit.put(&settings, "last visit", "monday")?;
    /// settings.put("greeting", "good morning")?;
    /// visit.commit()?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`], except those of locks and of [`Error::TransactionLimit`].
    pub fn get_untracked(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.get_for(keyspace, key.as_ref(), ReadIntent::Untracked, LongValues::Read)
    }

    /// Returns the value of a key, and makes the transaction depend on the key at every isolation
    /// level: others may read it, but if the transaction writes anything, the value does not change
    /// until its commit. A locking transaction acquires a shared lock on the key. The commit of an
    /// optimistic transaction fails if the key was changed.
    ///
    /// Under snapshot isolation, this prevents write skew on the key. Two transactions that read
    /// the same key in this way and write to other keys do not conflict, whereas after
    /// [`Transaction::get_for_update`] they would conflict if they are locking transactions.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// use alluvium::{ErrorKind, Isolation, TransactionOptions};
    /// let rota = db.keyspace("rota")?;
    /// rota.put("alice", "on call")?;
    /// rota.put("bob", "on call")?;
    /// let snapshot = TransactionOptions::new().isolation(Isolation::Snapshot);
    /// let (alice, bob) = (db.begin_with(&snapshot), db.begin_with(&snapshot));
    /// assert_eq!(alice.get_shared(&rota, "bob")?.unwrap(), b"on call");
    /// assert_eq!(bob.get_shared(&rota, "alice")?.unwrap(), b"on call");
    /// alice.put(&rota, "alice", "off")?;
    /// bob.put(&rota, "bob", "off")?;
    /// alice.commit()?;
    /// assert_eq!(bob.commit().unwrap_err().kind(), ErrorKind::Conflict);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get_for_update`].
    pub fn get_shared(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.get_for(keyspace, key.as_ref(), ReadIntent::Shared, LongValues::Read)
    }

    /// Returns the value of a key, and protects the key against writes by others until the commit,
    /// as if the transaction had written to it. A locking transaction locks the key exclusively.
    /// The commit of an optimistic transaction fails if the key was changed, even under snapshot
    /// isolation.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// use alluvium::{ErrorKind, Isolation, TransactionOptions};
    /// let rota = db.keyspace("rota")?;
    /// rota.put("alice", "on call")?;
    /// let change = db.begin_with(&TransactionOptions::new().isolation(Isolation::Snapshot));
    /// assert!(change.get_for_update(&rota, "alice")?.is_some());
    /// change.put(&rota, "bob", "off")?;
    /// rota.put("alice", "off")?;
    /// assert_eq!(change.commit().unwrap_err().kind(), ErrorKind::Conflict);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`]. If a locking transaction uses snapshot isolation and the key was
    /// changed after the transaction began, the call itself returns [`Error::Conflict`].
    pub fn get_for_update(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.get_for(keyspace, key.as_ref(), ReadIntent::Update, LongValues::Read)
    }

    /// Reads a key for the given purpose, and returns its value if it has one. If long values are
    /// to be omitted, a long value may be returned as an empty value or in full.
    pub(super) fn get_for(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        purpose: ReadIntent,
        long_values: LongValues,
    ) -> Result<Option<Value>> {
        let long_values = keyspace.without_operands(long_values);
        drop(self.enter(keyspace)?);
        let effect = self.own_effect(keyspace, key, long_values)?;
        self.read_over(keyspace, key, effect, (purpose, long_values))
    }

    /// Returns the value of a key after the transaction's writes, whose effect on the key is
    /// `effect`. Reads the key in the store for the given purpose if the value depends on it.
    pub(super) fn read_over(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        effect: OwnEffect,
        (purpose, long_values): (ReadIntent, LongValues),
    ) -> Result<Option<Value>> {
        let now_ms = self.handle.open.now_ms;
        effect.over((keyspace, now_ms), key, || {
            let key = Transaction::tree_key(keyspace, key);
            self.depend_on(keyspace, std::slice::from_ref(&key), purpose)?;
            let _entered = self.enter(keyspace)?;
            let engine = self.engine();
            let at = match purpose {
                ReadIntent::Untracked if is_planted(IsolationFault::UntrackedReadsAreNotRepeatable) => {
                    ReadPosition::Now
                }
                _ => self.at(),
            };
            let found = engine.get_by_clock(&key, keyspace.definition(), long_values, at, now_ms)?;
            engine.counters.add([(EngineCounter::Gets, 1)]);
            Ok(found.map(Value::new))
        })
    }

    /// Returns the values of many keys, in the order of the keys; see [`Keyspace::multi_get`].
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Value>>> {
        drop(self.enter(keyspace)?);
        let keys: Vec<K> = keys.into_iter().collect();
        let now_ms = self.handle.open.now_ms;
        let effects = self.own_effects(keyspace, &keys, LongValues::Read)?;
        let asked = keys.iter().zip(&effects).filter(|(_, own)| own.asks_store());
        let names: Vec<TreeKey> = asked
            .map(|(key, _)| Transaction::tree_key(keyspace, key.as_ref()))
            .collect();
        if !is_planted(IsolationFault::MultiGetIsUntracked) {
            self.depend_on(keyspace, &names, ReadIntent::Read)?;
        }
        let _entered = self.enter(keyspace)?;
        let engine = self.engine();
        let found = engine.multi_get_by_clock(&names, keyspace.definition(), self.at(), now_ms)?;
        self.shared.count_multi_get(names.len());
        let mut found = found.into_iter();
        let mut values = Vec::with_capacity(keys.len());
        for (key, own) in keys.iter().zip(effects) {
            let base = || Ok(found.next().flatten().map(Value::new));
            values.push(own.over((keyspace, now_ms), key.as_ref(), base)?);
        }
        Ok(values)
    }

    /// Returns the sequence number at which the transaction reads the store. A transaction that is
    /// both serializable and locking reads the latest visible version, which no other transaction
    /// can change while it is locked.
    pub(super) fn at(&self) -> ReadPosition {
        if is_planted(IsolationFault::ReadsAreNotRepeatable) {
            return ReadPosition::Now;
        }
        self.handle
            .open
            .place()
            .map_or(ReadPosition::Now, ReadPosition::Pinned)
    }

    /// Adds keys to the transaction's dependencies by locking or tracking them, depending on the
    /// concurrency control. Must be called before the keys are read (T1).
    pub(super) fn depend_on(&self, keyspace: &Keyspace, keys: &[TreeKey], purpose: ReadIntent) -> Result<()> {
        let definition = keyspace.definition();
        let purpose = match purpose {
            ReadIntent::Update if is_planted(IsolationFault::UpdatesAreReads) => ReadIntent::Read,
            ReadIntent::Shared if is_planted(IsolationFault::SharedReadsAreReads) => ReadIntent::Read,
            purpose => purpose,
        };
        let is_dependence = match purpose {
            ReadIntent::Untracked => false,
            ReadIntent::Read => self.is_serializable(),
            ReadIntent::Shared | ReadIntent::Update => true,
        };
        if !is_dependence {
            return match purpose {
                ReadIntent::Untracked => Ok(()),
                _ => self.observe(keyspace, keys),
            };
        }
        if self.is_locking() {
            let mode = match purpose {
                ReadIntent::Update => RangeLockMode::Exclusive,
                _ if is_planted(IsolationFault::LocksAreReleasedEarly) => return Ok(()),
                _ => RangeLockMode::Shared,
            };
            for key in keys {
                self.lock(&single_key_range(key), mode)?;
                if purpose != ReadIntent::Read {
                    self.fail_if_changed(keyspace, key)?;
                }
            }
            return Ok(());
        }
        let mut tracker = self.tracker.lock();
        let names = keys.iter().map(|key| &key[..]);
        tracker.add_points(definition, names, self.options.max_tracked)?;
        self.tell_reads(tracker.len());
        Ok(())
    }

    /// Returns [`Error::Conflict`] if a key that the transaction has locked was changed after the
    /// snapshot that the transaction reads. Does nothing if the transaction does not read a
    /// snapshot.
    pub(super) fn fail_if_changed(&self, keyspace: &Keyspace, key: &[u8]) -> Result<()> {
        let Some(place) = self.handle.open.place() else {
            return Ok(());
        };
        let entered = self.enter(keyspace)?;
        let dictionary = keyspace.definition().dictionary();
        let changed = self.engine().is_written_above(place, key, dictionary)?;
        drop(entered);
        if !changed || is_planted(IsolationFault::FirstCommitterLoses) {
            return Ok(());
        }
        let (keyspace, key) = self.engine().users_key(key);
        Err(Error::Conflict { keyspace, key })
    }
}

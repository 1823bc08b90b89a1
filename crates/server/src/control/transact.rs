//! A management connection's transaction.

use super::pairs::walk;
use super::request::{
    CommitDurability, Error, FailureKind, IsolationLevel, ManagementReply, NewTransaction, ReadPurpose,
    ReplySink, Result, ScanRequest, TransactionConcurrency, TransactionStep,
};
use alluvium::{
    Concurrency, Db, Durability, Isolation, Keyspace, Savepoint, Transaction, TransactionOptions, Value,
};
use std::ops::Bound;
use std::time::Duration;

/// Maximum number of savepoints in a management connection's transaction.
const MOST_SAVEPOINTS: usize = 1000;

/// Maximum age of a management connection's transaction. Without the limit, the store would retain
/// old versions forever for a transaction that a client has forgotten.
const MOST_AGE: Duration = Duration::from_secs(60 * 60);

/// An open transaction. Dropping it rolls the transaction back.
pub(super) struct ManagedTransaction {
    transaction: Transaction,
    mechanism: TransactionConcurrency,
    /// Savepoints with their names, oldest first. If several have the same name, the newest one is
    /// valid.
    savepoints: Vec<(String, Savepoint)>,
}

impl ManagedTransaction {
    pub(super) fn begin(db: &Db, new: NewTransaction) -> ManagedTransaction {
        let options = TransactionOptions::new()
            .timeout(MOST_AGE)
            .isolation(match new.isolation {
                IsolationLevel::Serializable => Isolation::Serializable,
                IsolationLevel::Snapshot => Isolation::Snapshot,
            })
            .concurrency(match new.mechanism {
                TransactionConcurrency::Optimistic => Concurrency::Optimistic,
                TransactionConcurrency::Locking => Concurrency::Locking,
            });
        let options = match new.durability {
            None => options,
            Some(CommitDurability::AtOnce) => options.durability(Durability::Memory),
            Some(CommitDurability::AfterProcess) => options.durability(Durability::Process),
            Some(CommitDurability::AfterDisk) => options.durability(Durability::Disk),
        };
        ManagedTransaction {
            transaction: db.begin_with(&options),
            mechanism: new.mechanism,
            savepoints: Vec::new(),
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.transaction.number()
    }

    /// Returns whether the transaction locks the keys that it reads.
    pub(super) fn is_locking(&self) -> bool {
        self.mechanism == TransactionConcurrency::Locking
    }

    pub(super) fn commit(self) -> Result<()> {
        Ok(self.transaction.commit()?)
    }

    /// Executes an operation other than commit and rollback.
    pub(super) fn step(&mut self, db: &Db, step: &TransactionStep, hear: &mut ReplySink<'_>) -> Result<()> {
        let keyspace = |name: &str| -> Result<Keyspace> { Ok(db.existing_keyspace(name)?) };
        let transaction = &mut self.transaction;
        match step {
            TransactionStep::Get {
                keyspace: name,
                key,
                purpose,
            } => {
                let keyspace = keyspace(name)?;
                let value = match purpose {
                    ReadPurpose::Value => transaction.get(&keyspace, key)?,
                    ReadPurpose::Update => transaction.get_for_update(&keyspace, key)?,
                };
                hear(ManagementReply::Values(vec![value.map(Value::into_vec)]))
            }
            TransactionStep::Put {
                keyspace: name,
                key,
                value,
            } => Ok(transaction.put(&keyspace(name)?, key, value)?),
            TransactionStep::Delete { keyspace: name, key } => Ok(transaction.delete(&keyspace(name)?, key)?),
            TransactionStep::DeleteRange {
                keyspace: name,
                from,
                to,
            } => Ok(transaction.delete_range(&keyspace(name)?, from, to.as_deref())?),
            TransactionStep::Scan(scan) => self.scan(&keyspace(&scan.keyspace)?, scan, hear),
            TransactionStep::Savepoint(name) => self.mark(name),
            TransactionStep::RollbackTo(name) => self.roll_back_to(name),
            TransactionStep::Commit | TransactionStep::Rollback => {
                let text = "a commit or a rollback ends a transaction and cannot be a step in it";
                Err(Error::told(FailureKind::Usage, text))
            }
        }
    }

    fn scan(&self, keyspace: &Keyspace, scan: &ScanRequest, hear: &mut ReplySink<'_>) -> Result<()> {
        let to = match &scan.to {
            Some(to) => Bound::Excluded(&to[..]),
            None => Bound::Unbounded,
        };
        let range = (Bound::Included(&scan.from[..]), to);
        walk(self.transaction.range::<&[u8]>(keyspace, range), scan, hear)
    }

    fn mark(&mut self, name: &str) -> Result<()> {
        if self.savepoints.len() >= MOST_SAVEPOINTS {
            let text = format!("a transaction can have at most {MOST_SAVEPOINTS} savepoints here; set fewer");
            return Err(Error::told(FailureKind::Usage, text));
        }
        let savepoint = self.transaction.savepoint();
        self.savepoints.push((name.to_owned(), savepoint));
        Ok(())
    }

    fn roll_back_to(&mut self, name: &str) -> Result<()> {
        let found = self.savepoints.iter().rposition(|(known, _)| known == name);
        let found = found.and_then(|index| Some((index, self.savepoints.get(index)?.1.clone())));
        let Some((index, savepoint)) = found else {
            let names: Vec<String> = self
                .savepoints
                .iter()
                .map(|(known, _)| format!("{known:?}"))
                .collect();
            let known = match names.is_empty() {
                true => "it has none".to_owned(),
                false => format!("it has {}", names.join(", ")),
            };
            let text = format!("the transaction has no savepoint {name:?}: {known}");
            return Err(Error::told(FailureKind::NotFound, text));
        };
        self.transaction.rollback_to(&savepoint)?;
        self.savepoints.truncate(index + 1);
        Ok(())
    }
}

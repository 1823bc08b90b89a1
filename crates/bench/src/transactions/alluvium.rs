//! The adapter for Alluvium's transactions. It uses the public library, and covers three of the
//! four combinations of isolation and concurrency control.

use super::engine::{
    AckDurability, AttemptError, AttemptResult, EngineTransaction, IsolationMechanism, KEYSPACES,
    TransactionBody, TransactionClient, TransactionalEngine, TransactionalEntry,
};
use crate::engine::{CapEnforcement, EngineSetup};
use alluvium::{Concurrency, Db, ErrorKind, Isolation, Keyspace, Options, TransactionOptions};
use anyhow::Result;

/// Lower bound in bytes of the memory that Alluvium is told to use.
const LEAST: u64 = 16 << 20;

/// Alluvium in three variants: serializable and optimistic (the default), serializable and locking,
/// and snapshot isolation, optimistic.
pub const OWN: [TransactionalEntry; 3] = [
    TransactionalEntry {
        name: "alluvium",
        mechanism: IsolationMechanism::Optimistic,
        open: |setup| open(setup, Isolation::Serializable, Concurrency::Optimistic),
    },
    TransactionalEntry {
        name: "alluvium-locking",
        mechanism: IsolationMechanism::Locking,
        open: |setup| open(setup, Isolation::Serializable, Concurrency::Locking),
    },
    TransactionalEntry {
        name: "alluvium-snapshot",
        mechanism: IsolationMechanism::Optimistic,
        open: |setup| open(setup, Isolation::Snapshot, Concurrency::Optimistic),
    },
];

struct AlluviumTransactions {
    db: Db,
    keyspaces: Vec<Keyspace>,
    options: TransactionOptions,
}

fn open(
    setup: &EngineSetup,
    isolation: Isolation,
    concurrency: Concurrency,
) -> Result<Box<dyn TransactionalEngine>> {
    let options = match (setup.memory, setup.kept) {
        (Some(bytes), _) => Options::new().memory(bytes),
        (None, CapEnforcement::WithinCap) => Options::new(),
        (None, CapEnforcement::Free) => Options::new().memory((setup.cap / 4).max(LEAST)),
    };
    let db = options.open(setup.directory.join("store"))?;
    let keyspaces = (0..KEYSPACES)
        .map(|number| db.keyspace(&format!("tree {number}")))
        .collect::<alluvium::Result<_>>()?;
    Ok(Box::new(AlluviumTransactions {
        db,
        keyspaces,
        options: TransactionOptions::new()
            .isolation(isolation)
            .concurrency(concurrency),
    }))
}

impl TransactionalEngine for AlluviumTransactions {
    fn client(&self, durability: AckDurability) -> Result<Box<dyn TransactionClient + '_>> {
        let durability = match durability {
            AckDurability::Disk => alluvium::Durability::Disk,
            AckDurability::Later => alluvium::Durability::Process,
        };
        Ok(Box::new(AlluviumClient {
            engine: self,
            durability,
        }))
    }

    fn settings(&self) -> Vec<(String, String)> {
        let lower = |text: String| text.to_lowercase();
        vec![
            ("version".into(), env!("CARGO_PKG_VERSION").into()),
            ("memory".into(), self.db.stats().memory.budget.to_string()),
            ("isolation".into(), lower(format!("{:?}", self.options.isolation))),
            (
                "concurrency".into(),
                lower(format!("{:?}", self.options.concurrency)),
            ),
            (
                "without a sync".into(),
                "survives the death of the process".into(),
            ),
        ]
    }

    fn remarks(&self) -> String {
        self.db.stats().to_string()
    }

    fn close(self: Box<Self>) -> Result<()> {
        drop(self.keyspaces);
        Ok(self.db.close()?)
    }
}

struct AlluviumClient<'a> {
    engine: &'a AlluviumTransactions,
    durability: alluvium::Durability,
}

impl TransactionClient for AlluviumClient<'_> {
    fn attempt(&mut self, body: TransactionBody<'_>) -> AttemptResult<()> {
        let mut open = AlluviumTransaction {
            engine: self.engine,
            transaction: self.engine.db.begin_with(&self.engine.options),
        };
        // If `body` fails, the transaction is dropped and so rolled back.
        body(&mut open)?;
        open.transaction.commit_with(self.durability).map_err(stop)
    }
}

struct AlluviumTransaction<'a> {
    engine: &'a AlluviumTransactions,
    transaction: alluvium::Transaction,
}

impl EngineTransaction for AlluviumTransaction<'_> {
    fn get_for_update(
        &mut self,
        keyspace: usize,
        key: &[u8],
        found: &mut dyn FnMut(&[u8]),
    ) -> AttemptResult<bool> {
        let keyspace = &self.engine.keyspaces[keyspace];
        let value = self.transaction.get_for_update(keyspace, key).map_err(stop)?;
        if let Some(value) = &value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn put(&mut self, keyspace: usize, key: &[u8], value: &[u8]) -> AttemptResult<()> {
        let keyspace = &self.engine.keyspaces[keyspace];
        self.transaction.put(keyspace, key, value).map_err(stop)
    }
}

fn stop(error: alluvium::Error) -> AttemptError {
    match error.kind() {
        ErrorKind::Conflict | ErrorKind::Deadlock | ErrorKind::TimedOut => AttemptError::Conflict,
        _ => AttemptError::failed(error),
    }
}

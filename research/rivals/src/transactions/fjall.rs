//! fjall's serializable optimistic transactions.

use super::{CACHE_PERCENT, MIB, settings};
use alluvium_bench::engine::EngineSetup;
use alluvium_bench::transactions::engine::{
    AckDurability, AttemptError, AttemptResult, EngineTransaction, KEYSPACES, TransactionBody,
    TransactionClient, TransactionalEngine,
};
use anyhow::Result;
use fjall::{
    KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticTxKeyspace, OptimisticWriteTx, PersistMode,
    Readable,
};

struct FjallTransactionEngine {
    db: OptimisticTxDatabase,
    keyspaces: Vec<OptimisticTxKeyspace>,
    cache: u64,
}

pub(crate) fn open(setup: &EngineSetup) -> Result<Box<dyn TransactionalEngine>> {
    let cache = setup.memory.unwrap_or(setup.cap) / 100 * CACHE_PERCENT;
    let db = OptimisticTxDatabase::builder(setup.directory.join("store"))
        .cache_size(cache)
        .open()?;
    let keyspaces = (0..KEYSPACES)
        .map(|number| db.keyspace(&format!("tree-{number}"), KeyspaceCreateOptions::default))
        .collect::<fjall::Result<_>>()?;
    Ok(Box::new(FjallTransactionEngine { db, keyspaces, cache }))
}

impl TransactionalEngine for FjallTransactionEngine {
    fn client(&self, durability: AckDurability) -> Result<Box<dyn TransactionClient + '_>> {
        let durability = match durability {
            AckDurability::Disk => PersistMode::SyncData,
            AckDurability::Later => PersistMode::Buffer,
        };
        Ok(Box::new(FjallClient {
            engine: self,
            durability,
        }))
    }

    fn settings(&self) -> Vec<(String, String)> {
        settings([
            ("version", "fjall 3".to_owned()),
            ("transactions", "optimistic, serializable".to_owned()),
            ("cache", format!("{} MiB", self.cache / MIB)),
            (
                "a commit syncs by",
                "fdatasync (PersistMode::SyncData)".to_owned(),
            ),
            ("without a sync", "survives the death of the process".to_owned()),
        ])
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.persist(PersistMode::SyncAll)?)
    }
}

struct FjallClient<'a> {
    engine: &'a FjallTransactionEngine,
    durability: PersistMode,
}

impl TransactionClient for FjallClient<'_> {
    fn attempt(&mut self, body: TransactionBody<'_>) -> AttemptResult<()> {
        let transaction = self.engine.db.write_tx().map_err(AttemptError::failed)?;
        let mut open = FjallTransaction {
            engine: self.engine,
            transaction: transaction.durability(Some(self.durability)),
        };
        // Dropping the transaction rolls it back.
        body(&mut open)?;
        let committed = open.transaction.commit().map_err(AttemptError::failed)?;
        committed.map_err(|_| AttemptError::Conflict)
    }
}

struct FjallTransaction<'a> {
    engine: &'a FjallTransactionEngine,
    transaction: OptimisticWriteTx,
}

impl EngineTransaction for FjallTransaction<'_> {
    fn get_for_update(
        &mut self,
        keyspace: usize,
        key: &[u8],
        found: &mut dyn FnMut(&[u8]),
    ) -> AttemptResult<bool> {
        // The commit validates everything that the transaction has read.
        let keyspace = &self.engine.keyspaces[keyspace];
        let value = self
            .transaction
            .get(keyspace, key)
            .map_err(AttemptError::failed)?;
        if let Some(value) = &value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn put(&mut self, keyspace: usize, key: &[u8], value: &[u8]) -> AttemptResult<()> {
        self.transaction
            .insert(&self.engine.keyspaces[keyspace], key, value);
        Ok(())
    }
}

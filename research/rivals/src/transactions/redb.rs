//! redb's transactions: a single writer at a time; each commit is synced separately.

use super::{CACHE_PERCENT, MIB, settings};
use alluvium_bench::engine::EngineSetup;
use alluvium_bench::transactions::engine::{
    AckDurability, AttemptError, AttemptResult, EngineTransaction, KEYSPACES, TransactionBody,
    TransactionClient, TransactionalEngine,
};
use anyhow::Result;
use redb::{Database, ReadableTable, TableDefinition, WriteTransaction};

/// The tables, one for each keyspace.
const TABLES: [TableDefinition<'_, &[u8], &[u8]>; KEYSPACES] = [
    TableDefinition::new("tree 0"),
    TableDefinition::new("tree 1"),
    TableDefinition::new("tree 2"),
    TableDefinition::new("tree 3"),
];

struct RedbTransactionEngine {
    db: Database,
    cache: u64,
}

pub(crate) fn open(setup: &EngineSetup) -> Result<Box<dyn TransactionalEngine>> {
    let cache = setup.memory.unwrap_or(setup.cap) / 100 * CACHE_PERCENT;
    let db = Database::builder()
        .set_cache_size(cache as usize)
        .create(setup.directory.join("store.redb"))?;
    let write = db.begin_write()?;
    for table in TABLES {
        write.open_table(table)?;
    }
    write.commit()?;
    Ok(Box::new(RedbTransactionEngine { db, cache }))
}

impl TransactionalEngine for RedbTransactionEngine {
    fn client(&self, durability: AckDurability) -> Result<Box<dyn TransactionClient + '_>> {
        let durability = match durability {
            AckDurability::Disk => redb::Durability::Immediate,
            AckDurability::Later => redb::Durability::None,
        };
        Ok(Box::new(RedbClient {
            engine: self,
            durability,
        }))
    }

    fn settings(&self) -> Vec<(String, String)> {
        settings([
            ("version", "redb 4".to_owned()),
            ("transactions", "one writer at a time".to_owned()),
            ("cache", format!("{} MiB", self.cache / MIB)),
            (
                "a commit syncs by",
                "fdatasync (Durability::Immediate)".to_owned(),
            ),
            (
                "without a sync",
                "is lost when the process dies (Durability::None)".to_owned(),
            ),
        ])
    }

    fn close(self: Box<Self>) -> Result<()> {
        // A durable commit makes all earlier commits durable.
        Ok(self.db.begin_write()?.commit()?)
    }
}

struct RedbClient<'a> {
    engine: &'a RedbTransactionEngine,
    durability: redb::Durability,
}

impl TransactionClient for RedbClient<'_> {
    fn attempt(&mut self, body: TransactionBody<'_>) -> AttemptResult<()> {
        let mut write = self.engine.db.begin_write().map_err(AttemptError::failed)?;
        write
            .set_durability(self.durability)
            .map_err(AttemptError::failed)?;
        let mut open = RedbTransaction(write);
        // Dropping the transaction rolls it back.
        body(&mut open)?;
        open.0.commit().map_err(AttemptError::failed)
    }
}

struct RedbTransaction(WriteTransaction);

impl EngineTransaction for RedbTransaction {
    fn get_for_update(
        &mut self,
        keyspace: usize,
        key: &[u8],
        found: &mut dyn FnMut(&[u8]),
    ) -> AttemptResult<bool> {
        let table = self
            .0
            .open_table(TABLES[keyspace])
            .map_err(AttemptError::failed)?;
        let value = table.get(key).map_err(AttemptError::failed)?;
        if let Some(value) = &value {
            found(value.value());
        }
        Ok(value.is_some())
    }

    fn put(&mut self, keyspace: usize, key: &[u8], value: &[u8]) -> AttemptResult<()> {
        let mut table = self
            .0
            .open_table(TABLES[keyspace])
            .map_err(AttemptError::failed)?;
        table.insert(key, value).map_err(AttemptError::failed)?;
        Ok(())
    }
}

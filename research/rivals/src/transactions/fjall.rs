//! fjall's serializable optimistic transactions.

use super::{CACHE_PERCENT, MIB, settings};
use alluvium_bench::engine::Setup;
use alluvium_bench::transactions::engine::{
    Body, Client, Durability, KEYSPACES, Stop, Transaction, TransactionalEngine, Tried,
};
use anyhow::Result;
use fjall::{
    KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticTxKeyspace, OptimisticWriteTx, PersistMode,
    Readable,
};

struct Fjall {
    db: OptimisticTxDatabase,
    keyspaces: Vec<OptimisticTxKeyspace>,
    cache: u64,
}

pub(crate) fn open(setup: &Setup) -> Result<Box<dyn TransactionalEngine>> {
    let cache = setup.memory.unwrap_or(setup.cap) / 100 * CACHE_PERCENT;
    let db = OptimisticTxDatabase::builder(setup.directory.join("store"))
        .cache_size(cache)
        .open()?;
    let keyspaces = (0..KEYSPACES)
        .map(|number| db.keyspace(&format!("tree-{number}"), KeyspaceCreateOptions::default))
        .collect::<fjall::Result<_>>()?;
    Ok(Box::new(Fjall { db, keyspaces, cache }))
}

impl TransactionalEngine for Fjall {
    fn client(&self, durability: Durability) -> Result<Box<dyn Client + '_>> {
        let durability = match durability {
            Durability::Disk => PersistMode::SyncData,
            Durability::Later => PersistMode::Buffer,
        };
        Ok(Box::new(Thread {
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

struct Thread<'a> {
    engine: &'a Fjall,
    durability: PersistMode,
}

impl Client for Thread<'_> {
    fn attempt(&mut self, body: Body<'_>) -> Tried<()> {
        let transaction = self.engine.db.write_tx().map_err(Stop::failed)?;
        let mut open = Open {
            engine: self.engine,
            transaction: transaction.durability(Some(self.durability)),
        };
        // Dropping the transaction rolls it back.
        body(&mut open)?;
        let committed = open.transaction.commit().map_err(Stop::failed)?;
        committed.map_err(|_| Stop::Conflict)
    }
}

struct Open<'a> {
    engine: &'a Fjall,
    transaction: OptimisticWriteTx,
}

impl Transaction for Open<'_> {
    fn get_for_update(&mut self, keyspace: usize, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Tried<bool> {
        // The commit validates everything that the transaction has read.
        let keyspace = &self.engine.keyspaces[keyspace];
        let value = self.transaction.get(keyspace, key).map_err(Stop::failed)?;
        if let Some(value) = &value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn put(&mut self, keyspace: usize, key: &[u8], value: &[u8]) -> Tried<()> {
        self.transaction
            .insert(&self.engine.keyspaces[keyspace], key, value);
        Ok(())
    }
}

//! Alluvium's transactions through its public library: three of the four combinations of isolation
//! and concurrency control.

use super::engine::{
    Body, Client, Durability, Entry, KEYSPACES, Mechanism, Stop, Transaction, TransactionalEngine, Tried,
};
use crate::engine::{Kept, Setup};
use alluvium::{Concurrency, Db, ErrorKind, Isolation, Keyspace, Options, TransactionOptions};
use anyhow::Result;

/// Alluvium's minimum memory.
const LEAST: u64 = 16 << 20;

/// Alluvium with serializable isolation, optimistic (the default) or locking; and with optimistic
/// snapshot isolation.
pub const OWN: [Entry; 3] = [
    Entry {
        name: "alluvium",
        mechanism: Mechanism::Optimistic,
        open: |setup| open(setup, Isolation::Serializable, Concurrency::Optimistic),
    },
    Entry {
        name: "alluvium-locking",
        mechanism: Mechanism::Locking,
        open: |setup| open(setup, Isolation::Serializable, Concurrency::Locking),
    },
    Entry {
        name: "alluvium-snapshot",
        mechanism: Mechanism::Optimistic,
        open: |setup| open(setup, Isolation::Snapshot, Concurrency::Optimistic),
    },
];

struct Alluvium {
    db: Db,
    keyspaces: Vec<Keyspace>,
    options: TransactionOptions,
}

fn open(
    setup: &Setup,
    isolation: Isolation,
    concurrency: Concurrency,
) -> Result<Box<dyn TransactionalEngine>> {
    let options = match (setup.memory, setup.kept) {
        (Some(bytes), _) => Options::new().memory(bytes),
        (None, Kept::WithinCap) => Options::new(),
        (None, Kept::Free) => Options::new().memory((setup.cap / 4).max(LEAST)),
    };
    let db = options.open(setup.directory.join("store"))?;
    let keyspaces = (0..KEYSPACES)
        .map(|number| db.keyspace(&format!("tree {number}")))
        .collect::<alluvium::Result<_>>()?;
    Ok(Box::new(Alluvium {
        db,
        keyspaces,
        options: TransactionOptions::new()
            .isolation(isolation)
            .concurrency(concurrency),
    }))
}

impl TransactionalEngine for Alluvium {
    fn client(&self, durability: Durability) -> Result<Box<dyn Client + '_>> {
        let durability = match durability {
            Durability::Disk => alluvium::Durability::Disk,
            Durability::Later => alluvium::Durability::Process,
        };
        Ok(Box::new(Thread {
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

struct Thread<'a> {
    engine: &'a Alluvium,
    durability: alluvium::Durability,
}

impl Client for Thread<'_> {
    fn attempt(&mut self, body: Body<'_>) -> Tried<()> {
        let mut open = Open {
            engine: self.engine,
            transaction: self.engine.db.begin_with(&self.engine.options),
        };
        // If `body` fails, dropping the transaction rolls it back.
        body(&mut open)?;
        open.transaction.commit_with(self.durability).map_err(stop)
    }
}

struct Open<'a> {
    engine: &'a Alluvium,
    transaction: alluvium::Transaction,
}

impl Transaction for Open<'_> {
    fn get_for_update(&mut self, keyspace: usize, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Tried<bool> {
        let keyspace = &self.engine.keyspaces[keyspace];
        let value = self.transaction.get_for_update(keyspace, key).map_err(stop)?;
        if let Some(value) = &value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn put(&mut self, keyspace: usize, key: &[u8], value: &[u8]) -> Tried<()> {
        let keyspace = &self.engine.keyspaces[keyspace];
        self.transaction.put(keyspace, key, value).map_err(stop)
    }
}

fn stop(error: alluvium::Error) -> Stop {
    match error.kind() {
        ErrorKind::Conflict | ErrorKind::Deadlock | ErrorKind::TimedOut => Stop::Conflict,
        _ => Stop::failed(error),
    }
}

//! A test of the transactions of an engine's adapter: reads of own writes, rollbacks, lost updates,
//! and the data after reopening the engine. The adapters in all crates use it.

use super::engine::{
    AckDurability, AttemptError, AttemptResult, EngineTransaction, IsolationMechanism, KEYSPACES,
    TransactionClient, TransactionalEngine, TransactionalEntry,
};
use crate::engine::{CapEnforcement, EngineSetup, WriteLogging};
use anyhow::{Result, anyhow, bail, ensure};
use std::path::Path;

/// Number of threads that increment the same counter, and of increments per thread.
const THREADS: u64 = 4;
const ROUNDS: u64 = 50;

/// Maximum number of attempts to commit a transaction.
const MOST_TRIES: usize = 100_000;

/// Tests an engine whose files are in `directory`.
///
/// # Errors
/// Returns the first expectation that is violated, and errors of the engine.
pub fn prove(entry: &TransactionalEntry, directory: &Path) -> Result<()> {
    let setup = EngineSetup {
        directory: directory.to_owned(),
        cap: 64 << 20,
        kept: CapEnforcement::Free,
        memory: None,
        log: WriteLogging::On,
        threads: THREADS as usize,
        value_bytes: 8,
        records: 10,
        options: Vec::new(),
    };
    let engine = (entry.open)(&setup)?;
    ensure!(!engine.settings().is_empty(), "an engine says how it is set up");
    sees_its_own_writes(&*engine)?;
    rolls_back(&*engine)?;
    if entry.mechanism == IsolationMechanism::Optimistic {
        refuses_the_second(&*engine)?;
    }
    loses_no_update(&*engine)?;
    engine.close()?;
    let engine = (entry.open)(&setup)?;
    let mut client = engine.client(AckDurability::Disk)?;
    ensure!(
        read(&mut *client, 0, b"count")? == Some(THREADS * ROUNDS),
        "opened again"
    );
    for keyspace in 0..KEYSPACES {
        let found = read(&mut *client, keyspace, b"own")?;
        ensure!(
            found == Some(keyspace as u64),
            "keyspace {keyspace}, opened again: {found:?}"
        );
    }
    drop(client);
    engine.close()
}

/// Returns the number stored under a key, as read in a transaction.
fn number(
    transaction: &mut dyn EngineTransaction,
    keyspace: usize,
    key: &[u8],
) -> AttemptResult<Option<u64>> {
    let mut found = Ok(None);
    let is_there = transaction.get_for_update(keyspace, key, &mut |value| {
        found = value.try_into().map(|bytes| Some(u64::from_le_bytes(bytes)));
    })?;
    let found = found.map_err(|_| AttemptError::Failed(anyhow!("a value of another length")))?;
    if is_there == found.is_some() {
        return Ok(found);
    }
    Err(AttemptError::Failed(anyhow!(
        "a value is there, and is not handed out"
    )))
}

fn read(client: &mut dyn TransactionClient, keyspace: usize, key: &[u8]) -> Result<Option<u64>> {
    let mut found = None;
    let read = client.attempt(&mut |transaction| {
        found = number(transaction, keyspace, key)?;
        Ok(())
    });
    match read {
        Ok(()) => Ok(found),
        Err(AttemptError::Failed(error)) => Err(error),
        Err(AttemptError::Conflict) => bail!("a read alone met a conflict"),
    }
}

fn sees_its_own_writes(engine: &dyn TransactionalEngine) -> Result<()> {
    let mut client = engine.client(AckDurability::Later)?;
    let done = client.attempt(&mut |transaction| {
        for keyspace in 0..KEYSPACES {
            if number(transaction, keyspace, b"own")?.is_some() {
                return Err(AttemptError::Failed(anyhow!("keyspaces share their keys")));
            }
            transaction.put(keyspace, b"own", &(keyspace as u64).to_le_bytes())?;
            if number(transaction, keyspace, b"own")? != Some(keyspace as u64) {
                return Err(AttemptError::Failed(anyhow!(
                    "a transaction does not see what it has put"
                )));
            }
        }
        Ok(())
    });
    done.map_err(|stop| anyhow!("its own writes: {stop:?}"))
}

fn rolls_back(engine: &dyn TransactionalEngine) -> Result<()> {
    let mut client = engine.client(AckDurability::Disk)?;
    let done = client.attempt(&mut |transaction| {
        transaction.put(1, b"never", &1u64.to_le_bytes())?;
        Err(AttemptError::Conflict)
    });
    ensure!(
        matches!(done, Err(AttemptError::Conflict)),
        "the stop of the body was not the result"
    );
    ensure!(
        read(&mut *client, 1, b"never")?.is_none(),
        "what was rolled back is there"
    );
    Ok(())
}

/// Runs two transactions that read the same value and write another one. The engine must reject the
/// second commit.
fn refuses_the_second(engine: &dyn TransactionalEngine) -> Result<()> {
    let (mut one, mut other) = (
        engine.client(AckDurability::Later)?,
        engine.client(AckDurability::Later)?,
    );
    let done = one.attempt(&mut |transaction| {
        let before = number(transaction, 2, b"contended")?.unwrap_or(0);
        other.attempt(&mut |within| {
            let before = number(within, 2, b"contended")?.unwrap_or(0);
            within.put(2, b"contended", &(before + 1).to_le_bytes())
        })?;
        transaction.put(2, b"contended", &(before + 1).to_le_bytes())
    });
    ensure!(
        matches!(done, Err(AttemptError::Conflict)),
        "the second of two updates was committed: {done:?}"
    );
    let found = read(&mut *one, 2, b"contended")?;
    ensure!(
        found == Some(1),
        "after two updates, one of them refused: {found:?}"
    );
    Ok(())
}

fn loses_no_update(engine: &dyn TransactionalEngine) -> Result<()> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    let mut client = engine.client(AckDurability::Later)?;
                    (0..ROUNDS).try_for_each(|_| add_one(&mut *client))
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| {
            let done = thread.join();
            done.unwrap_or_else(|_| bail!("a thread has panicked"))
        })
    })?;
    let mut client = engine.client(AckDurability::Disk)?;
    let found = read(&mut *client, 0, b"count")?;
    ensure!(
        found == Some(THREADS * ROUNDS),
        "{} increments were committed, and the counter has {found:?}",
        THREADS * ROUNDS
    );
    Ok(())
}

fn add_one(client: &mut dyn TransactionClient) -> Result<()> {
    for _ in 0..MOST_TRIES {
        let done = client.attempt(&mut |transaction| {
            let before = number(transaction, 0, b"count")?.unwrap_or(0);
            transaction.put(0, b"count", &(before + 1).to_le_bytes())
        });
        match done {
            Ok(()) => return Ok(()),
            Err(AttemptError::Failed(error)) => return Err(error),
            Err(AttemptError::Conflict) => std::thread::yield_now(),
        }
    }
    bail!("{MOST_TRIES} runs of a transaction met a conflict")
}

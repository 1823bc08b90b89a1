//! The measured program. It always runs the same operations on an in-memory store, in one thread
//! and without background workers.

use alluvium::simulation::DirectoryOpener as _;
use alluvium::{Db, Keyspace, Options, WriteBatch};
use alluvium_bench::workload::keys::{KeyOrdering, RecordKey};
use alluvium_bench::workload::values::ValueGenerator;
use alluvium_device::memory::MemoryDirectory;
use anyhow::{Context, Result, ensure};
use std::hint::black_box;
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub(super) struct WorkSizes {
    /// Number of records in the store.
    records: u64,
    /// Number of times that each record is written before the store is compacted.
    rounds: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct MeasuredPart {
    pub(super) name: &'static str,
    /// Name of the function that contains only the measured operations.
    pub(super) function: &'static str,
    pub(super) operations: u64,
}

const MEMORY: u64 = 256 << 20;

impl WorkSizes {
    /// Returns the sizes of the measured work. `tiny` selects small sizes for tests.
    pub(super) fn of(word: Option<&str>) -> WorkSizes {
        if word == Some("tiny") {
            WorkSizes {
                records: 500,
                rounds: 2,
            }
        } else {
            WorkSizes {
                records: 20_000,
                rounds: 4,
            }
        }
    }

    /// Returns the measured parts in execution order.
    pub(super) fn parts(self) -> [MeasuredPart; 8] {
        let part = |name, function, operations| MeasuredPart {
            name,
            function,
            operations,
        };
        let records = self.records;
        [
            part("put", "measured_put", records),
            part("get, memtable", "measured_get_memtable", records),
            part("checkpoint, record", "measured_checkpoint", records),
            part("get, cached pages", "measured_get_cached_pages", records),
            part("scan, record", "measured_scan", records),
            part("compaction, record", "measured_compaction", records * self.rounds),
            part("batch of 100, put", "measured_batches", records),
            part("transaction of 100, put", "measured_transactions", records),
        ]
    }
}

/// Runs all measured parts. Only functions named `measured_…` are counted.
pub(super) fn all(sizes: WorkSizes) -> Result<()> {
    // Without a record cache, reads must access the tree.
    let options = Options::new().memory(MEMORY).record_memory(0).workers(0);
    let db = options.open_in(Arc::new(MemoryDirectory::new()))?;
    let keyspace = db.keyspace("usertable")?;
    // Create keys and values before counting starts. Use the last hundred records in advance, so
    // that shared state such as thread-local buffers and handles already exists.
    let all: Vec<KeyValueRecord> = (0..sizes.records + 100).map(record).collect();
    let (data, first) = all.split_at(sizes.records as usize);
    put(&keyspace, first)?;
    get(&keyspace, first)?;
    measured_put(&keyspace, data)?;
    measured_get_memtable(&keyspace, data)?;
    measured_checkpoint(&db)?;
    get(&keyspace, data)?;
    measured_get_cached_pages(&keyspace, data)?;
    let scanned = measured_scan(&keyspace)?;
    ensure!(scanned == all.len(), "{scanned} records were scanned");
    for _ in 1..sizes.rounds {
        put(&keyspace, data)?;
        db.checkpoint()?;
    }
    measured_compaction(&db)?;
    get(&keyspace, data)?;
    batches(&db, &keyspace, first)?;
    transactions(&db, &keyspace, first)?;
    db.checkpoint()?;
    measured_batches(&db, &keyspace, data)?;
    db.checkpoint()?;
    measured_transactions(&db, &keyspace, data)?;
    ensure!(db.stats().transactions.conflicts == 0, "nothing conflicts");
    drop(keyspace);
    Ok(db.close()?)
}

/// A key and its value.
type KeyValueRecord = (RecordKey, [u8; 100]);

fn record(number: u64) -> KeyValueRecord {
    let key = KeyOrdering::default().of(number);
    let mut value = [0; 100];
    ValueGenerator::fill(&mut value, &key, number);
    (key, value)
}

fn put(keyspace: &Keyspace, data: &[KeyValueRecord]) -> Result<()> {
    for (key, value) in data {
        keyspace.put(key, value)?;
    }
    Ok(())
}

fn get(keyspace: &Keyspace, data: &[KeyValueRecord]) -> Result<()> {
    for (key, _) in data {
        let value = keyspace.get(key)?.context("it was put")?;
        black_box(&value);
    }
    Ok(())
}

/// Number of writes per batch and per transaction.
const TOGETHER: usize = 100;

fn batches(db: &Db, keyspace: &Keyspace, data: &[KeyValueRecord]) -> Result<()> {
    for some in data.chunks(TOGETHER) {
        let mut batch = WriteBatch::new();
        for (key, value) in some {
            batch.put(keyspace, key, value)?;
        }
        db.write(&batch)?;
    }
    Ok(())
}

fn transactions(db: &Db, keyspace: &Keyspace, data: &[KeyValueRecord]) -> Result<()> {
    for some in data.chunks(TOGETHER) {
        let transaction = db.begin();
        for (key, value) in some {
            transaction.put(keyspace, key, value)?;
        }
        transaction.commit()?;
    }
    Ok(())
}

#[inline(never)]
#[unsafe(no_mangle)]
fn measured_put(keyspace: &Keyspace, data: &[KeyValueRecord]) -> Result<()> {
    put(keyspace, data)
}

#[inline(never)]
#[unsafe(no_mangle)]
fn measured_get_memtable(keyspace: &Keyspace, data: &[KeyValueRecord]) -> Result<()> {
    // This statement makes the function differ from the other get, or else the linker would merge
    // the two.
    black_box("memtable");
    get(keyspace, data)
}

#[inline(never)]
#[unsafe(no_mangle)]
fn measured_checkpoint(db: &Db) -> Result<()> {
    Ok(db.checkpoint()?)
}

#[inline(never)]
#[unsafe(no_mangle)]
fn measured_get_cached_pages(keyspace: &Keyspace, data: &[KeyValueRecord]) -> Result<()> {
    black_box("pages");
    get(keyspace, data)
}

#[inline(never)]
#[unsafe(no_mangle)]
fn measured_scan(keyspace: &Keyspace) -> Result<usize> {
    let mut count = 0;
    let mut pairs = keyspace.iter();
    while let Some(pair) = pairs.lend()? {
        black_box(pair);
        count += 1;
    }
    Ok(count)
}

#[inline(never)]
#[unsafe(no_mangle)]
fn measured_compaction(db: &Db) -> Result<()> {
    Ok(db.compact()?)
}

#[inline(never)]
#[unsafe(no_mangle)]
fn measured_batches(db: &Db, keyspace: &Keyspace, data: &[KeyValueRecord]) -> Result<()> {
    batches(db, keyspace, data)
}

#[inline(never)]
#[unsafe(no_mangle)]
fn measured_transactions(db: &Db, keyspace: &Keyspace, data: &[KeyValueRecord]) -> Result<()> {
    transactions(db, keyspace, data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tiny_round_of_it_works() {
        all(WorkSizes::of(Some("tiny"))).unwrap();
    }
}

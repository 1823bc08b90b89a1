//! Bf-Tree, a B-tree with small pages of records in memory (Hao and Chandramouli, VLDB 2024).
//!
//! Set up as its documentation says: a buffer of the greatest power of two within the memory (it
//! takes no other size), leaves of 4 KiB, and reads past the page cache by `pread` in the thread
//! that asks. It has a log, for which a put waits until it is written, and which the crate cannot
//! replay yet; snapshots, which a tree needs to be opened again, cost a system call for each
//! operation. Neither is used here: what was written ends with the process.

use alluvium_bench::engine::{EachPair, Engine, Session, Setup};
use anyhow::{Result, anyhow, bail};
use bf_tree::{BfTree, Config, LeafInsertResult, LeafReadResult, ScanReturnField, StorageBackend};

/// The most of the memory that is buffer. Index pages and the table of pages lie beside it.
const BUFFER_PERCENT: u64 = 70;
/// Keys have 24 bytes.
const LONGEST_KEY: usize = 32;
/// The longest record that leaves of 4 KiB are made for, as by default.
const RECORD: usize = 1952;
const LEAF: usize = 4096;
const LONGEST_LEAF: usize = 32_768;
const MIB: u64 = 1 << 20;

struct Tree {
    tree: BfTree,
    /// The longest record.
    record: usize,
    settings: Vec<(String, String)>,
}

pub(crate) fn open(setup: &Setup) -> Result<Box<dyn Engine>> {
    let path = setup.directory.join("store.bftree");
    if path.exists() {
        bail!(
            "{} is what an earlier process has left, and bf-tree keeps nothing in it: \
             leave out --reuse and --load-once",
            path.display()
        );
    }
    let memory = setup.memory.unwrap_or(setup.cap);
    let most = memory / 100 * BUFFER_PERCENT;
    let buffer = 1u64 << most.max(1).ilog2();
    let record = RECORD.max(LONGEST_KEY + setup.value_bytes);
    let leaf = match record {
        RECORD => LEAF,
        // Two records, and what a page has beside them.
        record => (2 * record + 512).next_power_of_two(),
    };
    if leaf > LONGEST_LEAF {
        bail!(
            "--value-bytes {}: bf-tree has leaves of {LONGEST_LEAF} bytes at most, for values of up to 16,096",
            setup.value_bytes
        );
    }
    let mut config = Config::default();
    config
        .file_path(&path)
        .storage_backend(StorageBackend::StdDirect)
        .cb_size_byte(buffer as usize)
        .cb_max_key_len(LONGEST_KEY)
        .cb_max_record_size(record)
        .leaf_page_size(leaf);
    let tree = BfTree::with_config(config, None).map_err(|error| anyhow!("its configuration: {error:?}"))?;
    let settings = [
        ("version", "bf-tree 0.5.7".to_owned()),
        ("buffer", format!("{} MiB, a power of two", buffer / MIB)),
        ("leaves", format!("{leaf} bytes")),
        ("I/O", "direct, pread in the thread that asks".to_owned()),
        (
            "durability",
            "none: its log cannot be replayed yet, and snapshots cost each operation".to_owned(),
        ),
        ("compression", "none".to_owned()),
    ];
    Ok(Box::new(Tree {
        tree,
        record,
        settings: settings
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    }))
}

impl Engine for Tree {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(Thread {
            tree: &self.tree,
            buffer: vec![0; self.record],
        }))
    }

    fn flush(&self) -> Result<()> {
        // There is no call for it.
        Ok(())
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct Thread<'a> {
    tree: &'a BfTree,
    /// Where a record is read to.
    buffer: Vec<u8>,
}

impl Session for Thread<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match self.tree.insert(key, value) {
            LeafInsertResult::Success => Ok(()),
            LeafInsertResult::InvalidKV(why) => bail!("{why}"),
        }
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.tree.delete(key);
        Ok(())
    }

    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        match self.tree.read(key, &mut self.buffer) {
            LeafReadResult::Found(bytes) => {
                found(&self.buffer[..bytes as usize]);
                Ok(true)
            }
            LeafReadResult::NotFound | LeafReadResult::Deleted => Ok(false),
            LeafReadResult::InvalidKey => bail!("a key of {} bytes is too long", key.len()),
        }
    }

    fn scan(&mut self, from: &[u8], limit: usize, each: EachPair<'_>) -> Result<usize> {
        let mut pairs = self
            .tree
            .scan_with_count(from, limit, ScanReturnField::KeyAndValue)
            .map_err(|error| anyhow!("{error:?}"))?;
        let mut count = 0;
        while let Some((key, value)) = pairs.next(&mut self.buffer) {
            let (key, rest) = self.buffer.split_at(key);
            each(key, &rest[..value]);
            count += 1;
        }
        Ok(count)
    }
}

//! Bf-Tree, a B-tree with small in-memory pages of records (Hao and Chandramouli, VLDB 2024).
//!
//! Configured as its documentation recommends: a buffer of the largest power of two that fits in
//! the memory (other sizes are not supported), leaves of 4 KiB, and direct I/O by `pread` in the
//! calling thread. Its log delays each put until the record is written, and the crate cannot replay
//! it yet. Snapshots, which are necessary to reopen a tree, cost a system call for each operation.
//! Neither is used here: the data is lost when the process ends.

use alluvium_bench::engine::{BenchEngine, EachPair, EngineSession, EngineSetup};
use anyhow::{Result, anyhow, bail};
use bf_tree::{BfTree, Config, LeafInsertResult, LeafReadResult, ScanReturnField, StorageBackend};

/// Maximum share of the memory for the buffer, in percent. Index pages and the page table are
/// outside the buffer.
const BUFFER_PERCENT: u64 = 70;
/// Maximum key length. Keys have 24 bytes.
const LONGEST_KEY: usize = 32;
/// Maximum record length for leaves of 4 KiB; the default.
const RECORD: usize = 1952;
const LEAF: usize = 4096;
const LONGEST_LEAF: usize = 32_768;
const MIB: u64 = 1 << 20;

struct BfTreeEngine {
    tree: BfTree,
    /// Maximum length of a record in bytes.
    record: usize,
    settings: Vec<(String, String)>,
}

pub(crate) fn open(setup: &EngineSetup) -> Result<Box<dyn BenchEngine>> {
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
        // Space for two records and the page's metadata.
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
    Ok(Box::new(BfTreeEngine {
        tree,
        record,
        settings: settings
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    }))
}

impl BenchEngine for BfTreeEngine {
    fn session(&self) -> Result<Box<dyn EngineSession + '_>> {
        Ok(Box::new(BfTreeSession {
            tree: &self.tree,
            buffer: vec![0; self.record],
        }))
    }

    fn flush(&self) -> Result<()> {
        // Bf-Tree has no call to sync.
        Ok(())
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct BfTreeSession<'a> {
    tree: &'a BfTree,
    /// Buffer for the value of a read.
    buffer: Vec<u8>,
}

impl EngineSession for BfTreeSession<'_> {
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

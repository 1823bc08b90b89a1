//! Reading runs in order: what merges and walks take from them.

use super::Run;
use crate::hashed::leaf::{Entries, KeyAt};
use alluvium_base::{Kind, Message, Purpose, Sequence};
use alluvium_dictionary::nodes::{Direct, Nodes};
use alluvium_dictionary::record::Value;
use alluvium_dictionary::values::{ValuePointer, read_from};
use alluvium_storage::store::Store;
use alluvium_storage::{NodePointer, Result};
use std::sync::Arc;

/// Leaves that are read together.
const AT_ONCE: u64 = 32;
/// Leaves of several runs that are read together.
const MOST_TOGETHER: u64 = 4096;

/// A record with its key, in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// The hash of the key.
    pub hash: u64,
    /// The key.
    pub key: Box<[u8]>,
    /// When it was committed; 0 where no reader can ask any more.
    pub sequence: Sequence,
    /// What it does.
    pub kind: Kind,
    /// When it expires.
    pub expires_ms: u64,
    /// The value or operand; nothing while it is apart.
    pub operand: Box<[u8]>,
    /// Where the operand is that is not in memory.
    pub apart: Option<ValuePointer>,
}

impl Owned {
    /// Brings the operand to memory.
    ///
    /// # Errors
    /// As the device says; damage.
    pub fn load(&mut self, nodes: &dyn Nodes) -> Result<()> {
        if let Some(pointer) = self.apart.take() {
            let mut value = Vec::new();
            read_from(nodes, &pointer, &mut value)?;
            self.operand = value.into();
        }
        Ok(())
    }

    /// Returns the message.
    #[must_use]
    pub fn message(&self) -> Message<'_> {
        Message {
            sequence: self.sequence,
            kind: self.kind,
            expires_ms: self.expires_ms,
            operand: &self.operand,
        }
    }
}

/// Hands the records of a leaf to `visit`, their values as they are.
///
/// # Errors
/// As the device says; damage; what `visit` returns.
pub(super) fn read_leaf(
    run: &Run,
    pointer: &NodePointer,
    leaf: &[u8],
    nodes: &dyn Nodes,
    visit: &mut dyn FnMut(Owned) -> Result<()>,
) -> Result<()> {
    let place = || pointer.place();
    let mut entries = Entries::open(leaf, place, run.page_size())?;
    let mut last: Option<(u64, Box<[u8]>)> = None;
    while let Some(entry) = entries.next(place)? {
        let (hash, key) = match (last.take(), entry.key) {
            (Some(same), _) if entry.is_same_key => same,
            (_, KeyAt::Here(key)) => (entry.key.hash(run.seed()), key.into()),
            (_, KeyAt::Apart { hash, pointer }) => {
                let mut key = Vec::new();
                read_from(nodes, &pointer, &mut key)?;
                (hash, key.into())
            }
        };
        let (operand, apart) = match entry.record.value {
            Value::Inline(value) => (value.into(), None),
            Value::Separate(pointer) => (Box::default(), Some(pointer)),
        };
        last = Some((hash, key.clone()));
        visit(Owned {
            hash,
            key,
            sequence: entry.record.sequence + run.base(),
            kind: entry.record.kind,
            expires_ms: entry.record.expires_ms,
            operand,
            apart,
        })?;
    }
    Ok(())
}

/// Reads the records of some hashes of a run, in order and past the cache.
#[derive(Debug)]
pub struct Cursor {
    store: Arc<Store>,
    run: Run,
    purpose: Purpose,
    /// The first and the last hash.
    hashes: (u64, u64),
    next: u64,
    end: u64,
    /// How many leaves are read together.
    ahead: u64,
    records: std::vec::IntoIter<Owned>,
    head: Option<Owned>,
}

impl Cursor {
    /// Begins with the first record of the hashes from `first` to `last`.
    ///
    /// # Errors
    /// As the device says; damage.
    pub fn open(store: &Arc<Store>, run: Run, hashes: (u64, u64), purpose: Purpose) -> Result<Cursor> {
        Cursor::open_among(1, store, run, hashes, purpose)
    }

    /// The same of one of several runs that are read at the same time: all of them together take no
    /// more memory than a few do.
    ///
    /// # Errors
    /// As the device says; damage.
    pub fn open_among(
        runs: usize,
        store: &Arc<Store>,
        run: Run,
        hashes: (u64, u64),
        purpose: Purpose,
    ) -> Result<Cursor> {
        let next = run.leaves_of(hashes.0)?.start;
        // A trie has no answer for a hash that is not there.
        let end = match run.leaves_of(hashes.1)?.end {
            0 => run.leaves(),
            end => end,
        };
        let mut cursor = Cursor {
            store: Arc::clone(store),
            end,
            ahead: (MOST_TOGETHER / runs.max(1) as u64).clamp(1, AT_ONCE),
            run,
            purpose,
            hashes,
            next,
            records: Vec::new().into_iter(),
            head: None,
        };
        cursor.advance()?;
        Ok(cursor)
    }

    /// Returns the record that it is at.
    #[must_use]
    pub fn head(&self) -> Option<&Owned> {
        self.head.as_ref()
    }

    /// Returns the run.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Takes the record that it is at, with its operand, and goes on to the next one.
    ///
    /// # Errors
    /// As the device says; damage.
    pub fn take(&mut self) -> Result<Option<Owned>> {
        if let Some(head) = &mut self.head {
            let nodes = Direct {
                tiers: self.store.tiers(),
                page_size: self.store.page_size(),
                purpose: self.purpose,
            };
            head.load(&nodes)?;
        }
        let head = self.head.take();
        self.advance()?;
        Ok(head)
    }

    /// Goes on to the next record, without the one that it is at.
    ///
    /// # Errors
    /// As the device says; damage.
    pub fn skip(&mut self) -> Result<()> {
        self.head = None;
        self.advance()
    }

    fn advance(&mut self) -> Result<()> {
        loop {
            if let Some(record) = self.records.next() {
                if record.hash > self.hashes.1 {
                    self.end = self.next;
                    self.records = Vec::new().into_iter();
                    return Ok(());
                }
                if record.hash >= self.hashes.0 {
                    self.head = Some(record);
                    return Ok(());
                }
                continue;
            }
            if self.next >= self.end {
                return Ok(());
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Result<()> {
        let end = self.end.min(self.next + self.ahead);
        let pointers: Result<Vec<NodePointer>> = (self.next..end).map(|leaf| self.run.leaf(leaf)).collect();
        let pointers = pointers?;
        let (tiers, page_size) = (self.store.tiers(), self.store.page_size());
        let direct = Direct {
            tiers,
            page_size,
            purpose: self.purpose,
        };
        let (mut records, mut failed) = (Vec::new(), Ok(()));
        alluvium_storage::node::read_nodes(tiers, &pointers, page_size, self.purpose, &mut |index, leaf| {
            if failed.is_ok() {
                failed = leaf.and_then(|leaf| {
                    let keep = &mut |record| {
                        records.push(record);
                        Ok(())
                    };
                    read_leaf(&self.run, &pointers[index], &leaf, &direct, keep)
                });
            }
        });
        failed?;
        self.next = end;
        self.records = records.into_iter();
        Ok(())
    }
}

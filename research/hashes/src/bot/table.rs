//! A bundle of trees: the buffer, the log, and the cascade that grows trees.

use super::format::ROOT_KIND;
use super::node::{BotNode, BotRootBuilder};
use super::options::BotOptions;
use super::queue::{CharacterQueue, QueueContext, SketchExtractor};
use super::tape::Tape;
use crate::blocks::{BlockExtent, BlockSpace, Error, Result, SpaceTransaction, commit_state, read_state};
use crate::records::{TableRecord, entry_bytes};
use alluvium_filters::fingerprint::{FingerprintAlphabet, FingerprintFamily, WideFingerprint};
use std::cell::RefCell;

/// The complete state of a table.
#[derive(Clone, Debug)]
pub(super) struct BotState {
    pub(super) options: BotOptions,
    pub(super) family: FingerprintFamily,
    pub(super) alphabet: FingerprintAlphabet,
    /// log2 of the records per leaf, once a leaf exists.
    pub(super) base_bits: Option<u32>,
    pub(super) log: Tape,
    pub(super) queue: CharacterQueue,
    /// The root of each level; the first is that of level 1.
    pub(super) roots: Vec<Option<LevelRoot>>,
    pub(super) buffer: Vec<TableRecord>,
    pub(super) buffer_bytes: u64,
    pub(super) puts: u64,
    pub(super) deletes: u64,
}

/// The root of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelRoot {
    pub(super) extent: BlockExtent,
    /// The number of children, less than λ (T2).
    pub(super) degree: u32,
}

/// The counters of a bundle of trees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BotCounters {
    pub rebuilds: u64,
    /// Bytes appended to the log since the last rebuild.
    pub log_bytes: u64,
    /// The number of times that each level became full, level 1 first.
    pub promotions: Vec<u64>,
    /// The maximum number of runs merged for each level, level 0 first.
    pub arity: Vec<u64>,
    /// Bits written to the queue for each level.
    pub queue_bits: Vec<u64>,
    /// Nodes read by lookups.
    pub nodes_read: u64,
    /// Root entries with the key's prefix that lookups encountered.
    pub root_entries: u64,
    /// Among these, entries of other keys whose check character matched.
    pub root_passes: u64,
    /// Entries that were alive when a lookup reached a node below a root.
    pub inner_entries: u64,
    /// Among these, entries whose check character matched the key's.
    pub inner_passes: u64,
    /// Leaves searched by lookups.
    pub leaves_searched: u64,
}

/// A hash table in external memory: a bundle of trees.
///
/// Failed operations change nothing. Uncommitted changes are lost in a crash: a log above the
/// table must preserve them.
///
/// ```
/// use research_hashes::blocks::MemoryBlockSpace;
/// use research_hashes::bot::{BotTable, BotOptions};
/// let mut table = BotTable::create(MemoryBlockSpace::new(512, 1 << 24), BotOptions::new(512, 16384))?;
/// for key in 0u32..1000 {
///     table.insert(&key.to_le_bytes(), b"value")?;
/// }
/// table.delete(&7u32.to_le_bytes())?;
/// assert_eq!(table.get(&8u32.to_le_bytes())?.as_deref(), Some(&b"value"[..]));
/// assert_eq!(table.get(&7u32.to_le_bytes())?, None);
/// table.commit()?;
/// let again = BotTable::open(table.into_space().crashed())?;
/// assert_eq!(again.get(&7u32.to_le_bytes())?, None);
/// # Ok::<(), research_hashes::blocks::Error>(())
/// ```
#[derive(Debug)]
pub struct BotTable<S> {
    pub(super) space: S,
    pub(super) state: BotState,
    pub(super) committed: Option<BlockExtent>,
    pub(super) figures: RefCell<BotCounters>,
}

impl BotState {
    pub(super) fn new(options: BotOptions) -> Result<BotState> {
        Ok(BotState {
            options,
            family: options.family()?,
            alphabet: FingerprintAlphabet::new(options.fingerprint_bits, options.growth)?,
            base_bits: None,
            log: Tape::default(),
            queue: CharacterQueue::new(options.levels),
            roots: vec![None; options.levels as usize],
            buffer: Vec::new(),
            buffer_bytes: 0,
            puts: 0,
            deletes: 0,
        })
    }

    /// Returns whether fingerprints are long enough for the prefixes and check characters of
    /// `levels` levels.
    pub(super) fn fits(&self, base_bits: u32, levels: u32) -> bool {
        let prefix = base_bits + (levels + 1) * self.alphabet.character_bits();
        self.alphabet.fits(prefix, levels) && prefix <= 60
    }

    pub(super) fn sketch_extractor(&self) -> SketchExtractor {
        let (alphabet, last) = (self.alphabet, self.options.levels);
        SketchExtractor {
            alphabet,
            base_bits: self.base_bits.unwrap_or(0),
            last,
        }
    }

    pub(super) fn queue_context<'s>(&self, space: &'s dyn BlockSpace) -> QueueContext<'s> {
        QueueContext {
            space,
            machine: self.options.machine,
            cut: self.sketch_extractor(),
            schedule: self.options.schedule,
        }
    }

    /// Returns whether the next leaf would fill the last level.
    pub(super) fn is_full(&self) -> bool {
        self.roots
            .iter()
            .all(|root| root.is_some_and(|root| root.degree + 1 == self.options.growth))
    }

    /// Returns the number of leaves.
    pub(super) fn leaves(&self) -> u64 {
        let growth = u64::from(self.options.growth);
        let degrees = self
            .roots
            .iter()
            .map(|root| u64::from(root.map_or(0, |root| root.degree)));
        degrees.rev().fold(0u64, |sum, degree| {
            sum.saturating_mul(growth).saturating_add(degree)
        })
    }

    /// Returns the state in which the buffer has become a new leaf.
    pub(super) fn with_leaf(&self, space: &dyn BlockSpace, figures: &mut BotCounters) -> Result<BotState> {
        let mut next = self.clone();
        let buffer = std::mem::take(&mut next.buffer);
        next.buffer_bytes = 0;
        if next.base_bits.is_none() {
            next.base_bits = Some((buffer.len().max(1) as u64).next_power_of_two().ilog2());
        }
        let machine = next.options.machine;
        let ways = next.queue_context(space);
        let mut bytes = Vec::new();
        buffer
            .iter()
            .for_each(|entry| entry.encode(next.family.width(), &mut bytes));
        let leaf = BlockExtent {
            at: next.log.bytes(),
            bytes: bytes.len() as u64,
        };
        next.log.append(space, machine, &bytes)?;
        next.log.pad(space, machine)?;
        next.log.entries += buffer.len() as u64;
        figures.log_bytes += next.log.bytes() - leaf.at;
        let records: Vec<WideFingerprint> = buffer.iter().map(|entry| entry.fingerprint).collect();
        next.queue.add_leaf(ways, &records)?;
        let mut items: Vec<_> = records
            .iter()
            .map(|&record| ways.cut.item(record, 1..2))
            .collect();
        items.sort_by_key(|item| item.prefix);
        let old = next.root(space, 1)?;
        let mut grow = BotRootBuilder::new(ways, old.as_ref(), 1, leaf, items.len() as u64)?;
        for item in items {
            grow.push(item.prefix, ways.cut.first(item))?;
        }
        let root = grow.finish()?;
        old.iter().for_each(|old| space.release(old.extent));
        next.cascade(space, root, figures)?;
        Ok(next)
    }

    /// Installs a root of level 1, and makes each full root a child of the next level's root.
    fn cascade(&mut self, space: &dyn BlockSpace, root: BotNode, figures: &mut BotCounters) -> Result<()> {
        let ways = self.queue_context(space);
        let (mut level, mut root) = (1, root);
        while root.children.len() as u32 == self.options.growth {
            assert!(
                level < self.options.levels,
                "a table is rebuilt before its last level is full"
            );
            figures.promotions.resize(self.options.levels as usize, 0);
            figures.promotions[level as usize - 1] += 1;
            self.roots[level as usize - 1] = None;
            level += 1;
            let old = self.root(space, level)?;
            let entries = root.head.geometry.entries();
            let mut grow = BotRootBuilder::new(ways, old.as_ref(), level, root.extent, entries)?;
            self.queue
                .promote(ways, level, &mut |prefix, sketch| grow.push(prefix, sketch))?;
            root = grow.finish()?;
            old.iter().for_each(|old| space.release(old.extent));
        }
        let degree = root.children.len() as u32;
        self.roots[level as usize - 1] = Some(LevelRoot {
            extent: root.extent,
            degree,
        });
        Ok(())
    }

    /// Reads the root of a level.
    pub(super) fn root(&self, space: &dyn BlockSpace, level: u32) -> Result<Option<BotNode>> {
        let root = self.roots.get(level as usize - 1).copied().flatten();
        root.map(|root| BotNode::read(space, root.extent, level, self.options.growth))
            .transpose()
    }
}

impl<S: BlockSpace> BotTable<S> {
    /// Creates an empty table in a space.
    ///
    /// # Errors
    /// `Error::Shape` when the options are invalid.
    pub fn create(space: S, options: BotOptions) -> Result<BotTable<S>> {
        let state = BotState::new(options.checked()?)?;
        Ok(BotTable {
            space,
            state,
            committed: None,
            figures: RefCell::default(),
        })
    }

    /// Opens a table at its last commit.
    ///
    /// # Errors
    /// When it cannot be read, or is not a table.
    pub fn open(space: S) -> Result<BotTable<S>> {
        let (extent, bytes) = read_state(&space, ROOT_KIND)?;
        let state = BotState::decode(&bytes).map_err(|error| error.within(extent.at))?;
        Ok(BotTable {
            space,
            state,
            committed: Some(extent),
            figures: RefCell::default(),
        })
    }

    /// Makes the current state of the table durable, including its buffer.
    ///
    /// # Errors
    /// When the space fails: the last commit remains valid.
    pub fn commit(&mut self) -> Result<()> {
        self.state.log.seal(&self.space)?;
        for tape in &mut self.state.queue.tapes {
            tape.seal(&self.space)?;
        }
        let state = self.state.encode();
        commit_state(&self.space, ROOT_KIND, &state, &mut self.committed)
    }

    /// Inserts a key, or replaces its value.
    ///
    /// # Errors
    /// When the space fails: the table is unchanged.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put(key, Some(value))
    }

    /// Deletes a key, whether or not it exists.
    ///
    /// # Errors
    /// The errors of [`BotTable::insert`].
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.put(key, None)
    }

    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        if self.rebuild_is_due() {
            self.rebuild()?;
        }
        let body = (key.len() + value.map_or(0, <[u8]>::len) + 5) as u64;
        let bytes = entry_bytes(self.state.family.width(), body);
        let full = self.state.options.leaf_bytes();
        // Several flushes are needed after a rebuild with more levels, which refills the buffer.
        while self.state.buffer_bytes + bytes > full && !self.state.buffer.is_empty() {
            self.flush()?;
        }
        // The fingerprint is computed last, since a rebuild may have lengthened fingerprints.
        let entry = TableRecord::new(self.state.family.of(key), key, value)?;
        self.state.buffer_bytes += entry.bytes(self.state.family.width());
        self.state.buffer.push(entry);
        match value {
            Some(_) => self.state.puts += 1,
            None => self.state.deletes += 1,
        }
        Ok(())
    }

    /// Makes the buffer a leaf. If no level is left for it, first rebuilds the table with more
    /// levels.
    fn flush(&mut self) -> Result<()> {
        let base = self.state.base_bits.unwrap_or_else(|| {
            (self.state.buffer.len().max(1) as u64)
                .next_power_of_two()
                .ilog2()
        });
        let grows = !self.state.fits(base, self.state.options.levels) || self.state.is_full();
        if grows {
            return self.rebuild_with_more_levels(base);
        }
        let mut figures = self.figures.borrow().clone();
        let draft = SpaceTransaction::new(&self.space);
        let next = self.state.with_leaf(&draft, &mut figures)?;
        draft.apply_releases();
        self.figures.replace(figures);
        self.state = next;
        Ok(())
    }

    /// Returns the options, with the table's current levels and fingerprint length.
    #[must_use]
    pub fn options(&self) -> BotOptions {
        self.state.options
    }

    /// Returns the counters of the table.
    #[must_use]
    pub fn figures(&self) -> BotCounters {
        let figures = self.figures.borrow().clone();
        let queue = &self.state.queue;
        BotCounters {
            arity: queue.arity.clone(),
            queue_bits: queue.written_bits.clone(),
            ..figures
        }
    }

    /// Returns the size of the log in bytes.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        self.state.log.bytes()
    }

    /// Returns the size of the queue in bytes, and the part of it that is in memory.
    #[must_use]
    pub fn queue_bytes(&self) -> (u64, u64) {
        let tapes = &self.state.queue.tapes;
        let tails = tapes.iter().map(|tape| tape.tail.len() as u64).sum();
        (tapes.iter().map(Tape::bytes).sum(), tails)
    }

    /// Returns the degree of each level's root; zero for an empty level.
    #[must_use]
    pub fn degrees(&self) -> Vec<u32> {
        self.state
            .roots
            .iter()
            .map(|root| root.map_or(0, |root| root.degree))
            .collect()
    }

    pub fn space(&self) -> &S {
        &self.space
    }

    /// Consumes the table and returns the space.
    #[must_use]
    pub fn into_space(self) -> S {
        self.space
    }
}

impl BotState {
    /// Rejects a shape for which no fingerprint is long enough.
    pub(super) fn too_deep(base_bits: u32, levels: u32) -> Error {
        let what = format!("{levels} levels over leaves of 2^{base_bits} records");
        Error::shape(what, "a larger λ, or fewer records")
    }
}

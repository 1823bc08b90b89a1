//! Layers of runs that are written beside a structure, and are part of none yet.
//!
//! Messages come in the order of keys. They are kept in memory until they are many, and then
//! written as a run in the order of their hashes: runs of one layer have no key in common.

use super::rules::RulesCache;
use super::run::{Builder, Message as Kept, Run, RunOptions, Wanted, Written, find, read_keys};
use alluvium_base::message::LAST;
use alluvium_base::{Kind, Message, Purpose, Sequence};
use alluvium_dictionary::contract;
use alluvium_dictionary::deletes::{List, RangeDeletes};
use alluvium_dictionary::fetch::{Blocking, found};
use alluvium_dictionary::gather::Gather;
use alluvium_dictionary::key::{Key, SEED};
use alluvium_dictionary::merge::Direction;
use alluvium_dictionary::placement::{self, Demand};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::values::fetch_value;
use alluvium_storage::store::Store;
use alluvium_storage::{Error, Result};
use std::sync::Arc;
use std::task::{Poll, ready};

/// Bytes of keys and values that wait in memory for their run.
const MOST_WAITING: usize = 16 << 20;

/// A message that waits for its run.
#[derive(Debug)]
struct Waiting {
    hash: u64,
    key: Box<[u8]>,
    kind: Kind,
    expires_ms: u64,
    operand: Box<[u8]>,
}

/// How much was taken.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    records: u64,
    bytes: u64,
}

/// A layer that has ended.
#[derive(Debug, Default)]
struct Layer {
    pieces: Vec<Written>,
    /// How many deleted ranges there were up to its end.
    deletes: usize,
    /// What all layers up to its end came to.
    taken: Taken,
}

/// Layers of runs. Dropped, they leave nothing behind.
#[derive(Debug)]
pub(super) struct Layers {
    store: Arc<Store>,
    options: RunOptions,
    rules: RulesCache,
    layers: Vec<Layer>,
    /// All deleted ranges, in their order; their numbers are those that readers see.
    list: List,
    /// Those of ended layers.
    deletes: Arc<RangeDeletes>,
    /// The runs of the newest layer that are written.
    pieces: Vec<Written>,
    waiting: Vec<Waiting>,
    waiting_bytes: usize,
    /// The last key of the newest layer.
    last: Option<Vec<u8>>,
    taken: Taken,
}

impl Layers {
    pub(super) fn new(store: &Arc<Store>, options: RunOptions, rules: RulesCache) -> Layers {
        Layers {
            store: Arc::clone(store),
            options,
            rules,
            layers: Vec::new(),
            list: List::default(),
            deletes: Arc::default(),
            pieces: Vec::new(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            last: None,
            taken: Taken::default(),
        }
    }

    pub(super) fn push(&mut self, key: &[u8], message: Message<'_>) -> Result<()> {
        if let Some(last) = self.last.as_deref().filter(|last| *last >= key) {
            let (key, last) = (key.escape_ascii(), last.escape_ascii());
            return Err(Error::BadOption {
                option: "order of an ingest's keys",
                why: format!(
                    "\"{key}\" comes after \"{last}\": sort them, and leave out all but one of equal ones"
                ),
            });
        }
        let len = key.len() + message.operand.len();
        self.waiting.push(Waiting {
            hash: alluvium_filters::hash(self.options.seed, key),
            key: key.into(),
            kind: message.kind,
            expires_ms: message.expires_ms,
            operand: message.operand.into(),
        });
        self.waiting_bytes += len + size_of::<Waiting>();
        let last = self.last.get_or_insert_with(Vec::new);
        last.clear();
        last.extend_from_slice(key);
        self.taken.bytes += len as u64;
        self.taken.records += 1;
        match self.waiting_bytes < MOST_WAITING {
            true => Ok(()),
            false => self.end_run(),
        }
    }

    pub(super) fn delete_range(&mut self, start: &[u8], end: &[u8]) {
        assert!(
            self.last.is_none(),
            "a layer has either messages or deleted ranges"
        );
        self.list.push(start, end, self.len() + 1);
    }

    /// Returns how a run is written that is begun now: where there is space for `bytes` bytes.
    fn placed(&self, bytes: usize) -> RunOptions {
        RunOptions {
            tier: placement::tier(&self.store, &Demand::newest(bytes as u64)),
            ..self.options
        }
    }

    /// Writes what waits as a run.
    fn end_run(&mut self) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        let bytes = std::mem::take(&mut self.waiting_bytes);
        let options = self.placed(bytes);
        waiting.sort_unstable_by(|one, other| (one.hash, &one.key).cmp(&(other.hash, &other.key)));
        self.rules.clear();
        let mut builder = Builder::new(&self.store, &options, waiting.len() as u64)?;
        for one in &waiting {
            let message = Kept {
                sequence: 0,
                kind: one.kind,
                expires_ms: one.expires_ms,
                operand: &one.operand,
            };
            builder.push(one.hash, &one.key, message, &self.rules.of(&one.key))?;
        }
        self.pieces.extend(builder.finish()?);
        Ok(())
    }

    pub(super) fn end_layer(&mut self) -> Result<()> {
        self.end_run()?;
        let ended = self.layers.last().map_or(0, |layer| layer.deletes);
        let has_deletes = self.list.len() > ended;
        assert!(
            self.pieces.is_empty() || !has_deletes,
            "a layer has either messages or deleted ranges"
        );
        if has_deletes {
            self.deletes = Arc::new(RangeDeletes::of(&self.list));
        }
        self.layers.push(Layer {
            pieces: std::mem::take(&mut self.pieces),
            deletes: self.list.len(),
            taken: self.taken,
        });
        self.last = None;
        Ok(())
    }

    /// Returns whether anything was added since the last layer has ended.
    pub(super) fn is_open(&self) -> bool {
        let ended = self.layers.last().map_or(0, |layer| layer.deletes);
        self.last.is_some() || self.list.len() > ended
    }

    /// Returns how many layers have ended.
    pub(super) fn len(&self) -> u64 {
        self.layers.len() as u64
    }

    /// Drops all but the `layers` oldest layers, and what was added since the last has ended.
    pub(super) fn keep(&mut self, layers: u64) {
        self.pieces.clear();
        self.waiting.clear();
        (self.waiting_bytes, self.last) = (0, None);
        self.layers
            .truncate(usize::try_from(layers).unwrap_or(usize::MAX));
        let kept = self.layers.last();
        let (deletes, taken) = kept.map_or((0, Taken::default()), |layer| (layer.deletes, layer.taken));
        self.taken = taken;
        if self.list.len() > deletes {
            let mut list = List::default();
            for (start, end, sequence) in self.list.iter().take(deletes) {
                list.push(start, end, sequence);
            }
            self.list = list;
            self.deletes = Arc::new(RangeDeletes::of(&self.list));
        }
    }

    pub(super) fn records(&self) -> u64 {
        self.taken.records
    }

    pub(super) fn bytes(&self) -> u64 {
        self.taken.bytes
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let ended = self.layers.iter().flat_map(|layer| &layer.pieces);
        let pieces = ended.chain(&self.pieces).map(|piece| piece.run().memory_bytes());
        pieces.sum::<u64>() + 2 * self.deletes.memory_bytes() as u64 + self.waiting_bytes as u64
    }

    /// Returns what readers see: the runs of ended layers, each with the number of its layer.
    pub(super) fn seen(&self) -> Seen {
        let layers = (1..).zip(&self.layers);
        let runs = layers.flat_map(|(number, layer): (u64, _)| {
            layer
                .pieces
                .iter()
                .map(move |piece| piece.run().clone().based(number))
        });
        let mut runs: Vec<Run> = runs.collect();
        runs.reverse();
        Seen {
            store: Arc::clone(&self.store),
            runs,
            deletes: Arc::clone(&self.deletes),
        }
    }

    /// Writes the deleted ranges, as those of the commits from `first` on, to runs of their layers.
    pub(super) fn write_deleted_ranges(&mut self, first: Sequence) -> Result<()> {
        let mut all = self.list.iter().peekable();
        for number in 0..self.layers.len() {
            let (seen, sequence) = (number as u64 + 1, first + number as u64);
            let mut list = List::default();
            while let Some((start, end, _)) = all.next_if(|(_, _, layer)| *layer == seen) {
                list.push(start, end, sequence);
            }
            if list.is_empty() {
                continue;
            }
            let mut builder = Builder::new(&self.store, &self.placed(0), 0)?;
            builder.delete_ranges(Arc::new(RangeDeletes::of(&list)));
            self.layers[number].pieces.extend(builder.finish()?);
        }
        Ok(())
    }

    /// Hands the runs over, the oldest layer first, each with the number of its layer.
    pub(super) fn hand_over(&mut self) -> Vec<(u64, Written)> {
        let layers = (0..).zip(self.layers.drain(..));
        let runs =
            layers.flat_map(|(number, layer)| layer.pieces.into_iter().map(move |piece| (number, piece)));
        runs.collect()
    }
}

/// What readers see of layers, newest first.
#[derive(Debug)]
pub(super) struct Seen {
    store: Arc<Store>,
    runs: Vec<Run>,
    deletes: Arc<RangeDeletes>,
}

impl Seen {
    /// Hands what the layers say of a key to `gather`, newest first.
    pub(super) fn gather(&self, key: Key<'_>, gather: &mut Gather<'_>) -> Result<()> {
        let guard = self.store.epochs().pin();
        let fetch = Blocking {
            cache: self.store.cache(),
            guard: &guard,
            purpose: Purpose::Lookup,
        };
        let wanted = Wanted {
            bytes: key.bytes(),
            hash: match self.runs.first().map(Run::seed) {
                None | Some(SEED) => key.hash(),
                Some(seed) => alluvium_filters::hash(seed, key.bytes()),
            },
        };
        let deleted = self.deletes.covering(key.bytes(), gather.known.at());
        gather.range_deleted(deleted);
        for run in &self.runs {
            if gather.is_decided() || deleted > Some(run.base()) {
                break;
            }
            if !run.may_hold(wanted.hash)? {
                continue;
            }
            let Gather { operator, known } = gather;
            found(find(run, wanted, &fetch, &mut |record| {
                let flow = ready!(known.record(&record, *operator, |pointer, room| {
                    fetch_value(&fetch, pointer, room)
                }))?;
                Poll::Ready(Ok(flow))
            }))?;
        }
        gather.end_at(deleted);
        Ok(())
    }

    /// Returns the keys of a range that the layers have messages of, ascending.
    fn keys(&self, range: &KeyRange) -> Result<Vec<Box<[u8]>>> {
        let mut keys: Vec<Box<[u8]>> = Vec::new();
        for run in &self.runs {
            for leaf in 0..run.leaves() {
                read_keys(&self.store, run, leaf, &mut |key| {
                    if range.contains(key) {
                        keys.push(key.into());
                    }
                })?;
            }
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }
}

/// A walk over the keys of layers, in the order of keys: they are sorted when it begins.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) seen: Seen,
    pub(super) range: KeyRange,
    pub(super) direction: Direction,
    pub(super) keys: Option<std::vec::IntoIter<Box<[u8]>>>,
    /// The key that was handed out last, or whose messages could not be read.
    pub(super) key: Box<[u8]>,
    pub(super) is_again: bool,
}

impl contract::Walk for Walk {
    fn next(&mut self, gather: &mut Gather<'_>) -> Result<Option<&[u8]>> {
        let keys = match &mut self.keys {
            Some(keys) => keys,
            none => none.insert(self.seen.keys(&self.range)?.into_iter()),
        };
        if !self.is_again {
            let next = match self.direction {
                Direction::Forward => keys.next(),
                Direction::Backward => keys.next_back(),
            };
            let Some(key) = next else { return Ok(None) };
            self.key = key;
        }
        self.is_again = true;
        self.seen.gather(Key::new(&self.key), gather)?;
        self.is_again = false;
        Ok(Some(&self.key))
    }

    fn is_deleted(&self, key: &[u8]) -> bool {
        self.seen.deletes.covering(key, LAST).is_some()
    }
}

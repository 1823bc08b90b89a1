//! The toy store: a map in memory, a journal of the commits since the last snapshot, and two slots
//! that take turns storing snapshots. [`Flaw`]s plant mistakes that are typical of such a store.
//!
//! A snapshot goes to the slot of the older generation and is synced before the journal starts
//! over. Records name the generation that they continue. Before recovery writes anything, it makes
//! everything that it has read durable, including file names, because a slot read from the page
//! cache may be the only good one. It then starts a new generation, because stale records may
//! follow the end of the journal.

mod format;

use alluvium_base::Purpose;
use alluvium_device::{AlignedBuffer, Device, Directory, FileOptions};
use alluvium_sim::generate::{ActionMix, WorkloadAction};
use alluvium_sim::{
    ModelWrite, PromisedDurability, RunStep, StoreContents, Story, StoryEnvironment, StoryError,
    StoryErrorKind,
};
use format::{Block, Kind, decode, encode};
use std::collections::BTreeMap;
use std::sync::Arc;

const SLOT: u64 = 96 << 10;
const JOURNAL: u64 = 6 << 10;

/// A mistake in the store itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    /// Recovery overwrites the other slot without first syncing what it read.
    TrustsThePageCache,
    /// Recovery continues after the journal's end in the same generation.
    GoesOnBehindTheEnd,
    /// The journal starts over before the slot is synced.
    JournalFirst,
    /// Records do not name their generation, so old ones are replayed.
    ForgetsGenerations,
    /// A batch is written as one record per write.
    SplitsBatches,
    /// Deletes are not written to the journal.
    ForgetsDeletes,
    /// A commit is acknowledged at `Disk` without a sync.
    AcknowledgesEarly,
    /// The store continues after a failed write or sync.
    IgnoresErrors,
    /// The store panics when the journal is full.
    Panics,
}

#[derive(Clone, Debug)]
pub(crate) struct ToyStory {
    pub(crate) flaw: Flaw,
}

pub(crate) struct Toy {
    flaw: Flaw,
    slots: Arc<dyn Device>,
    journal: Arc<dyn Device>,
    map: BTreeMap<Vec<u8>, Vec<u8>>,
    generation: u64,
    sequence: u64,
    tail: u64,
    /// Commits at `Memory` that are not written yet.
    waiting: Vec<Vec<u8>>,
    poisoned: bool,
}

fn not_a_store() -> StoryError {
    StoryError::new(StoryErrorKind::NotAStore, "no slot holds a snapshot")
}

impl Toy {
    fn files(flaw: Flaw, directory: &dyn Directory) -> Result<Toy, StoryError> {
        let open = |name| {
            directory
                .open(name, FileOptions::DIRECT)
                .map_err(|error| match error {
                    alluvium_device::Error::NotFound { .. } => not_a_store(),
                    error => error.into(),
                })
        };
        let (journal, slots) = (open("journal")?, open("slots")?);
        Ok(Toy {
            flaw,
            slots,
            journal,
            map: BTreeMap::new(),
            generation: 0,
            sequence: 0,
            tail: 0,
            waiting: Vec::new(),
            poisoned: false,
        })
    }

    fn create(flaw: Flaw, directory: &dyn Directory) -> Result<Toy, StoryError> {
        for name in directory.list()? {
            directory.remove(&name)?;
        }
        directory.create("journal", FileOptions::DIRECT)?.grow(JOURNAL)?;
        let slots = directory.create("slots.new", FileOptions::DIRECT)?;
        slots.grow(2 * SLOT)?;
        let empty = encode(
            Kind::Slot,
            &Block {
                generation: 1,
                sequence: 0,
                pairs: Vec::new(),
            },
        );
        slots.write_at(SLOT, AlignedBuffer::padded(&empty), Purpose::Other)?;
        slots.sync(Purpose::Other)?;
        directory.rename("slots.new", "slots")?;
        let mut toy = Toy::files(flaw, directory)?;
        toy.journal.sync(Purpose::Other)?;
        directory.sync()?;
        toy.generation = 1;
        Ok(toy)
    }

    fn open(flaw: Flaw, directory: &dyn Directory) -> Result<Toy, StoryError> {
        let mut toy = Toy::files(flaw, directory)?;
        let mut newest: Option<Block> = None;
        if toy.slots.len() < 2 * SLOT || toy.journal.len() < JOURNAL {
            return Err(not_a_store());
        }
        for slot in [0, SLOT] {
            let bytes = toy.slots.read_at(slot, SLOT as usize, Purpose::Recovery)?;
            let Some((block, _)) = decode(Kind::Slot, &bytes) else {
                continue;
            };
            if newest
                .as_ref()
                .is_none_or(|newest| newest.generation < block.generation)
            {
                newest = Some(block);
            }
        }
        let newest = newest.ok_or_else(not_a_store)?;
        (toy.generation, toy.sequence) = (newest.generation, newest.sequence);
        toy.apply(newest.pairs);
        toy.replay()?;
        if flaw != Flaw::TrustsThePageCache {
            toy.slots.sync(Purpose::Other)?;
            toy.journal.sync(Purpose::Other)?;
            directory.sync()?;
        }
        if flaw != Flaw::GoesOnBehindTheEnd {
            toy.checkpoint()?;
        }
        Ok(toy)
    }

    fn apply(&mut self, pairs: Vec<(Vec<u8>, Option<Vec<u8>>)>) {
        for (key, value) in pairs {
            match value {
                Some(value) => self.map.insert(key, value),
                None => self.map.remove(&key),
            };
        }
    }

    fn replay(&mut self) -> Result<(), StoryError> {
        let bytes = self.journal.read_at(0, JOURNAL as usize, Purpose::Recovery)?;
        while let Some((record, len)) = decode(Kind::Record, &bytes[self.tail as usize..]) {
            let generation = record.generation == self.generation || self.flaw == Flaw::ForgetsGenerations;
            let sequence = record.sequence == self.sequence + 1 || self.flaw == Flaw::ForgetsGenerations;
            let split = self.flaw == Flaw::SplitsBatches && record.sequence == self.sequence;
            if !(generation && (sequence || split)) {
                break;
            }
            self.sequence = record.sequence;
            self.tail += len.next_multiple_of(512) as u64;
            self.apply(record.pairs);
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), StoryError> {
        let pairs = self
            .map
            .iter()
            .map(|(key, value)| (key.clone(), Some(value.clone())))
            .collect();
        let next = self.generation + 1;
        let bytes = encode(
            Kind::Slot,
            &Block {
                generation: next,
                sequence: self.sequence,
                pairs,
            },
        );
        assert!(bytes.len() as u64 <= SLOT, "the toy is full");
        let slot = next % 2 * SLOT;
        self.slots
            .write_at(slot, AlignedBuffer::padded(&bytes), Purpose::Other)?;
        if self.flaw == Flaw::JournalFirst {
            self.journal
                .write_at(0, AlignedBuffer::zeroed(512), Purpose::Other)?;
        }
        self.slots.sync(Purpose::Other)?;
        self.generation = next;
        self.tail = 0;
        self.waiting.clear();
        Ok(())
    }

    fn records(&self, writes: &[ModelWrite]) -> Vec<Vec<u8>> {
        let kept = writes
            .iter()
            .filter(|write| self.flaw != Flaw::ForgetsDeletes || write.value.is_some());
        let pairs: Vec<_> = kept
            .map(|write| (write.key.clone(), write.value.clone()))
            .collect();
        let batches: Vec<Vec<_>> = match self.flaw {
            Flaw::SplitsBatches => pairs.into_iter().map(|pair| vec![pair]).collect(),
            _ => vec![pairs],
        };
        let block = |pairs| Block {
            generation: self.generation,
            sequence: self.sequence,
            pairs,
        };
        batches
            .into_iter()
            .map(|pairs| encode(Kind::Record, &block(pairs)))
            .collect()
    }

    fn commit(&mut self, writes: &[ModelWrite], durability: PromisedDurability) -> Result<(), StoryError> {
        self.sequence += 1;
        let records = self.records(writes);
        self.apply(
            writes
                .iter()
                .map(|write| (write.key.clone(), write.value.clone()))
                .collect(),
        );
        self.waiting.extend(records);
        if durability == PromisedDurability::Memory {
            return Ok(());
        }
        self.write_waiting()?;
        if durability == PromisedDurability::Disk && self.flaw != Flaw::AcknowledgesEarly {
            self.journal.sync(Purpose::Log)?;
        }
        Ok(())
    }

    fn write_waiting(&mut self) -> Result<(), StoryError> {
        let wanted: usize = self
            .waiting
            .iter()
            .map(|record| record.len().next_multiple_of(512))
            .sum();
        if self.tail + wanted as u64 > JOURNAL {
            assert_ne!(self.flaw, Flaw::Panics, "the journal is full");
            return self.checkpoint();
        }
        for record in std::mem::take(&mut self.waiting) {
            let buffer = AlignedBuffer::padded(&record);
            let len = buffer.len() as u64;
            self.journal.write_at(self.tail, buffer, Purpose::Log)?;
            self.tail += len;
        }
        Ok(())
    }

    /// Runs `work`, unless a previous call has failed, because nothing is accepted after a failure.
    fn guarded<T>(&mut self, work: impl FnOnce(&mut Toy) -> Result<T, StoryError>) -> Result<T, StoryError> {
        if self.poisoned && self.flaw != Flaw::IgnoresErrors {
            return Err(StoryError::new(
                StoryErrorKind::Poisoned,
                "an earlier write failed",
            ));
        }
        let result = work(self);
        self.poisoned |= result.is_err();
        result
    }
}

impl Story for ToyStory {
    type Action = WorkloadAction;
    type System = Toy;

    fn name(&self) -> &'static str {
        "toy"
    }

    fn steps(&self, seed: u64, count: usize) -> Vec<RunStep<WorkloadAction>> {
        let mix = ActionMix {
            circles: [4, 20, 100],
            large_every: 40,
            large_len: 800..=2000,
            ..ActionMix::default()
        };
        mix.steps(seed, count)
    }

    fn create(&self, world: &StoryEnvironment) -> Result<Toy, StoryError> {
        Toy::create(self.flaw, &*world.directory)
    }

    fn open(&self, world: &StoryEnvironment) -> Result<Toy, StoryError> {
        Toy::open(self.flaw, &*world.directory)
    }

    fn apply(
        &self,
        toy: &mut Toy,
        action: &WorkloadAction,
        world: &StoryEnvironment,
    ) -> Result<(), StoryError> {
        let ledger = &world.ledger;
        match action {
            WorkloadAction::Commit { writes, durability } => {
                let number = ledger.begin(writes);
                let before = toy.generation;
                let refused = toy.poisoned;
                match toy.guarded(|toy| toy.commit(writes, *durability)) {
                    Ok(()) => ledger.acknowledge(number, *durability),
                    Err(trouble) if refused => {
                        ledger.withdraw(number);
                        return Err(trouble);
                    }
                    Err(trouble) if toy.flaw == Flaw::IgnoresErrors => {
                        let _ = trouble;
                        ledger.acknowledge(number, *durability);
                    }
                    Err(trouble) => {
                        ledger.doubt(number);
                        return Err(trouble);
                    }
                }
                if toy.generation > before {
                    world.coverage.hit("the journal was full");
                    ledger.mark_durable(number);
                }
                Ok(())
            }
            WorkloadAction::Sync => {
                toy.guarded(|toy| {
                    toy.write_waiting()?;
                    Ok(toy.journal.sync(Purpose::Log)?)
                })?;
                ledger.mark_durable(ledger.newest());
                Ok(())
            }
            WorkloadAction::Checkpoint => {
                toy.guarded(Toy::checkpoint)?;
                world.coverage.hit("checkpoint");
                ledger.mark_durable(ledger.newest());
                Ok(())
            }
            WorkloadAction::Background(_) => Ok(()),
            WorkloadAction::Get(key) => match ledger.reads(key, toy.map.get(key).map(|value| &value[..])) {
                true => Ok(()),
                false => Err(StoryError::wrong(format!("a read of {}", key.escape_ascii()))),
            },
        }
    }

    fn contents(&self, toy: &mut Toy) -> Result<StoreContents, StoryError> {
        let mut contents = StoreContents::new();
        for (key, value) in &toy.map {
            contents
                .add(key, value)
                .map_err(|_| StoryError::wrong("a key appears twice"))?;
        }
        Ok(contents)
    }

    fn check(&self, toy: &mut Toy) -> Result<Vec<String>, StoryError> {
        let wrong = toy.tail > JOURNAL;
        Ok(wrong
            .then(|| "the tail is behind the journal's end".to_owned())
            .into_iter()
            .collect())
    }

    fn close(&self, mut toy: Toy, world: &StoryEnvironment) -> Result<(), StoryError> {
        toy.guarded(Toy::checkpoint)?;
        world.ledger.mark_durable(world.ledger.newest());
        Ok(())
    }
}

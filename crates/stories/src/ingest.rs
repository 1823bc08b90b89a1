//! Ingests. Their records bypass the log and the memtables, and join the structure as a single
//! commit. Because the log does not contain them, a checkpoint follows immediately to make them
//! durable.

use crate::database::StoryDatabase;
use crate::flaw::CallerFlaw;
use crate::format::encode;
use crate::story::to_story_error;
use crate::subject::StructureSubject;
use alluvium_base::Message;
use alluvium_dictionary::contract::BulkIngest;
use alluvium_sim::generate::value;
use alluvium_sim::{ModelWrite, PromisedDurability, StoryEnvironment, StoryError};
use alluvium_storage::Result;

/// An ingest in progress, and the records that it has written so far.
pub(crate) struct UnattachedIngest {
    ingest: Box<dyn BulkIngest>,
    taken: Vec<ModelWrite>,
    /// The number of the last key that was ingested.
    last: u32,
}

impl<S: StructureSubject> StoryDatabase<S> {
    /// Runs one slice of an ingest: adds records to it, attaches it, or abandons it.
    pub(crate) fn load_more(
        &mut self,
        choice: u32,
        world: &StoryEnvironment,
    ) -> std::result::Result<(), StoryError> {
        match ((choice >> 5) % 8, self.load.take()) {
            (0, Some(_)) => {
                world.coverage.hit("ingest dropped");
                Ok(())
            }
            (1..5, Some(load)) => self.attach(load, world),
            (_, load) => self.take_records(choice, load).map_err(to_story_error),
        }
    }

    fn take_records(&mut self, choice: u32, load: Option<UnattachedIngest>) -> Result<()> {
        let mut load = match load {
            Some(load) => load,
            None => UnattachedIngest {
                ingest: self.subject.ingest(&self.dictionary)?,
                taken: Vec::new(),
                last: 0,
            },
        };
        let seed = u64::from(choice);
        let first = load.last;
        let stride = 1 + (choice >> 8) % (1 << 22);
        for number in 1..(choice >> 16) % 200 {
            let Some(at) = first.checked_add(number.saturating_mul(stride)) else {
                break;
            };
            if load.last >= at {
                break;
            }
            load.last = at;
            let key = format!("wide/{at:08x}/0").into_bytes();
            let value = value(seed, &key, (seed as usize >> 4) % 300);
            load.ingest.push(&key, Message::put(0, &value))?;
            load.taken.push(ModelWrite {
                key,
                value: Some(value),
            });
        }
        self.load = Some(load);
        Ok(())
    }

    /// Attaches an ingest to the structure, after flushing all earlier commits to it. A checkpoint
    /// follows. An empty log record reserves the ingest's sequence number.
    fn attach(
        &mut self,
        load: UnattachedIngest,
        world: &StoryEnvironment,
    ) -> std::result::Result<(), StoryError> {
        let UnattachedIngest {
            mut ingest, taken, ..
        } = load;
        if taken.is_empty() {
            return Ok(());
        }
        self.seal(world).map_err(to_story_error)?;
        self.finish_incorporation(world).map_err(to_story_error)?;
        let prepared = ingest.end_layer().and_then(|()| ingest.prepare(self.next));
        prepared.map_err(to_story_error)?;
        let number = world.ledger.begin(&taken);
        if let Err(error) = self.attach_now(ingest) {
            if error.is_full() {
                world.ledger.withdraw(number);
            } else {
                world.ledger.doubt(number);
            }
            return Err(to_story_error(error));
        }
        self.commits.push((self.last(), number));
        world.ledger.acknowledge(number, PromisedDurability::Memory);
        world.coverage.hit("ingest");
        self.is_unlogged = self.flaw != CallerFlaw::LeavesIngestsToTheLog;
        self.log_again(number, world).map_err(to_story_error)
    }

    fn attach_now(&mut self, ingest: Box<dyn BulkIngest>) -> Result<()> {
        self.append(1, &encode(&[]), PromisedDurability::Memory)?;
        self.next += 1;
        self.base = self.last();
        self.publish_memtables();
        ingest.attach(self.last())
    }

    /// Makes a generation durable if an attached ingest is not yet part of one. Must be called
    /// before the next log record is written.
    pub(crate) fn log_again(&mut self, covered: usize, world: &StoryEnvironment) -> Result<()> {
        if self.is_unlogged {
            self.checkpoint(true, covered, world)?;
        }
        Ok(())
    }
}

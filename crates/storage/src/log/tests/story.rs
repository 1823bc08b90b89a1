//! A simple model of a log, random stories that take the same steps on the log and the model, and
//! the rules for what a crash may leave of the log.

use super::super::*;
use super::Replayed;
use alluvium_device::simulated::{CrashSurvival, SimDirectory};
use fastrand::Rng;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// A record that the model knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) last: u64,
    /// The payload of the record, or `None` if the sequence numbers are void.
    pub(super) payload: Option<Vec<u8>>,
}

/// All appended records that are still valid, and what the caller was told.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) records: BTreeMap<u64, Known>,
    /// The next sequence number to be assigned.
    pub(super) next: u64,
    /// The synced watermark last reported to the caller.
    pub(super) synced: u64,
    /// The completion watermark last reported to the caller. Everything up to it survives a process
    /// crash.
    pub(super) told: u64,
    /// The cut in the superblock: the checkpoint contains everything up to this sequence number.
    pub(super) from: u64,
    pub(super) generation: u64,
}

/// What happened between the model's state and the opening of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crash {
    /// The process was killed.
    Process,
    /// The power failed at some point.
    Power,
}

impl Crash {
    pub(super) fn of(survival: CrashSurvival) -> Crash {
        match survival {
            CrashSurvival::Process => Crash::Process,
            _ => Crash::Power,
        }
    }

    pub(super) fn and(self, other: Crash) -> Crash {
        match self {
            Crash::Process => other,
            Crash::Power => Crash::Power,
        }
    }
}

impl Model {
    pub(super) fn new() -> Model {
        Model {
            next: 1,
            generation: 1,
            ..Model::default()
        }
    }

    /// Checks the records replayed after a crash, and panics with `context` if they violate the
    /// rules. After any crash, they must be a prefix of the assigned sequence numbers and include
    /// everything that was acknowledged.
    pub(super) fn judge(&self, crash: Crash, replayed: &Replayed, completed: u64, context: &str) {
        let mut expected = self.from + 1;
        for (first, count, payload) in replayed {
            let known = self.records.get(first);
            let known = known.unwrap_or_else(|| panic!("{context}: {first} was never appended"));
            assert!(*first >= expected, "{context}: {first} after {expected}");
            assert_eq!(
                (known.last, known.payload.as_ref()),
                (first + u64::from(*count) - 1, Some(payload)),
                "{context}: record {first} is not the one that was appended"
            );
            self.judge_voids(expected, first - 1, context);
            expected = known.last + 1;
        }
        self.judge_voids(expected, completed, context);
        assert!(
            completed >= self.synced,
            "{context}: {completed} of {} synced",
            self.synced
        );
        assert!(
            crash == Crash::Power || completed >= self.told,
            "{context}: {completed} of {} told",
            self.told
        );
        assert!(completed < self.next, "{context}: {completed} was never assigned");
    }

    /// Checks sequence numbers that were not replayed: each must be void or contained in the
    /// checkpoint.
    fn judge_voids(&self, mut first: u64, last: u64, context: &str) {
        while first <= last {
            let void = self.records.range(..=first).next_back();
            let void = void.filter(|(_, known)| known.last >= first && known.payload.is_none());
            let Some((_, known)) = void else {
                panic!("{context}: {first} is missing, and the log goes on to {last}");
            };
            first = known.last + 1;
        }
    }

    /// Returns the model of the recovered log.
    pub(super) fn recovered(&self, replayed: &Replayed, log: &WriteAheadLog) -> Model {
        let mut records: BTreeMap<u64, Known> = BTreeMap::new();
        let mut next = self.from + 1;
        let void = |records: &mut BTreeMap<u64, Known>, next: u64, until: u64| {
            if next < until {
                let known = Known {
                    last: until - 1,
                    payload: None,
                };
                records.insert(next, known);
            }
        };
        for (first, count, payload) in replayed {
            void(&mut records, next, *first);
            next = first + u64::from(*count);
            let known = Known {
                last: next - 1,
                payload: Some(payload.clone()),
            };
            records.insert(*first, known);
        }
        void(&mut records, next, log.completed() + 1);
        Model {
            records,
            next: log.completed() + 1,
            synced: log.synced(),
            told: log.completed(),
            ..*self
        }
    }
}

/// A log on a simulated machine, with its model and its random generator.
pub(super) struct Story {
    pub(super) directory: SimDirectory,
    pub(super) options: LogOptions,
    pub(super) log: Option<WriteAheadLog>,
    pub(super) model: Arc<Mutex<Model>>,
    pub(super) rng: Rng,
    /// Sequence numbers that were assigned but not yet appended.
    late: Vec<(u64, u32)>,
    /// How often each kind of step was taken, for tests that require certain steps.
    pub(super) done: BTreeMap<&'static str, u64>,
}

pub(super) fn open_image(
    directory: &SimDirectory,
    options: LogOptions,
    model: &Model,
) -> Result<(WriteAheadLog, Replayed)> {
    let directory: Arc<dyn Directory> = Arc::new(directory.reopen());
    super::reopen(&directory, options, model.from, model.generation)
}

impl Story {
    pub(super) fn new(seed: u64, options: LogOptions) -> Story {
        let directory = SimDirectory::new(seed);
        let shared: Arc<dyn Directory> = Arc::new(directory.clone());
        let log = WriteAheadLog::create(&shared, options, 1).unwrap();
        Story::of(directory, options, log, Model::new(), Rng::with_seed(seed))
    }

    pub(super) fn of(
        directory: SimDirectory,
        options: LogOptions,
        log: WriteAheadLog,
        model: Model,
        rng: Rng,
    ) -> Story {
        Story {
            directory,
            options,
            log: Some(log),
            model: Arc::new(Mutex::new(model)),
            rng,
            late: Vec::new(),
            done: BTreeMap::new(),
        }
    }

    pub(super) fn log(&self) -> &WriteAheadLog {
        self.log.as_ref().expect("the log is open")
    }

    fn did(&mut self, what: &'static str) {
        *self.done.entry(what).or_default() += 1;
    }

    fn assign(&mut self) -> (u64, u32) {
        let count = if self.rng.u8(..4) == 0 {
            self.rng.u32(1..5)
        } else {
            1
        };
        let mut model = self.model.lock();
        let first = model.next;
        model.next += u64::from(count);
        (first, count)
    }

    fn append(&mut self, first: u64, count: u32, durability: LogDurability) -> Result<()> {
        let len = match self.rng.u8(..20) {
            0 => self.rng.usize(3000..9000),
            1..4 => self.rng.usize(200..1500),
            _ => self.rng.usize(..150),
        };
        let payload: Vec<u8> = (0..len).map(|_| self.rng.u8(..)).collect();
        let last = first + u64::from(count) - 1;
        let known = Known {
            last,
            payload: Some(payload.clone()),
        };
        self.model.lock().records.insert(first, known);
        self.log().append(first, count, &payload, durability)?;
        let mut model = self.model.lock();
        model.told = self.log().completed();
        if durability == LogDurability::Disk {
            model.synced = model.synced.max(last);
        }
        Ok(())
    }

    /// Appends or voids all sequence numbers that were assigned but not yet appended.
    pub(super) fn settle(&mut self) -> Result<()> {
        for (first, count) in std::mem::take(&mut self.late) {
            self.did("late");
            if self.rng.bool() {
                self.give_up(first, count)?;
            } else if let Err(error) = self.append(first, count, LogDurability::Process) {
                self.full(error)?;
                self.give_up(first, count)?;
            }
        }
        Ok(())
    }

    fn give_up(&mut self, first: u64, count: u32) -> Result<()> {
        let known = Known {
            last: first + u64::from(count) - 1,
            payload: None,
        };
        self.model.lock().records.insert(first, known);
        if let Err(error) = self.log().void(first, count) {
            self.full(error)?;
            self.checkpoint()?;
            self.log().void(first, count)?;
        }
        self.model.lock().told = self.log().completed();
        self.did("void");
        Ok(())
    }

    fn full(&mut self, error: Error) -> Result<()> {
        if !matches!(error, Error::LogFull { .. }) {
            return Err(error);
        }
        self.did("full");
        Ok(())
    }

    pub(super) fn checkpoint(&mut self) -> Result<()> {
        let completed = self.log().completed();
        let generation = {
            let mut model = self.model.lock();
            let records = model.records.range(..=completed);
            let through = if self.rng.bool() {
                completed
            } else {
                // A release must end at the last sequence number of a record.
                let ends: Vec<u64> = records.map(|(_, known)| known.last).collect();
                let most = completed.min(model.from.max(*ends.last().unwrap_or(&0)));
                ends.get(self.rng.usize(..ends.len().max(1)))
                    .map_or(most, |&end| end.min(completed))
            };
            model.from = model.from.max(through);
            model.generation += 1;
            let from = model.from;
            model.records.retain(|_, known| known.last > from);
            model.synced = model.synced.max(from);
            model.generation
        };
        self.log().note_generation(generation)?;
        let from = self.model.lock().from;
        self.log().release(from)?;
        self.did("checkpoint");
        Ok(())
    }

    /// Takes one random step on the log and the model.
    pub(super) fn step(&mut self) -> Result<()> {
        match self.rng.u8(..100) {
            0..70 => {
                let durability = match self.rng.u8(..10) {
                    0 => LogDurability::Disk,
                    1..4 => LogDurability::Memory,
                    _ => LogDurability::Process,
                };
                let (first, count) = self.assign();
                if durability != LogDurability::Disk && self.rng.u8(..8) == 0 {
                    self.late.push((first, count));
                    return Ok(());
                }
                if durability == LogDurability::Disk {
                    self.settle()?;
                }
                if let Err(error) = self.append(first, count, durability) {
                    self.full(error)?;
                    self.settle()?;
                    self.give_up(first, count)?;
                    self.checkpoint()?;
                }
            }
            70..78 => self.settle()?,
            78..84 => {
                let synced = self.log().sync_all()?;
                let mut model = self.model.lock();
                model.synced = model.synced.max(synced);
                drop(model);
                self.did("sync");
            }
            84..94 => {
                for _ in 0..self.rng.usize(1..6) {
                    self.log().prepare()?;
                }
            }
            94..98 => self.checkpoint()?,
            98 => {
                self.settle()?;
                self.log.take().expect("the log is open").close()?;
                let mut model = self.model.lock().clone();
                model.synced = model.next - 1;
                model.told = model.synced;
                *self.model.lock() = model;
                self.reopen("a clean close")?;
                self.did("close");
            }
            _ => {
                self.log = None;
                self.late.clear();
                self.reopen("a kill")?;
                self.did("kill");
            }
        }
        Ok(())
    }

    /// Continues after an error that the log can recover from, as if the process had been killed.
    pub(super) fn resume(&mut self) -> Result<()> {
        self.log = None;
        self.late.clear();
        self.reopen("an error")
    }

    fn reopen(&mut self, context: &str) -> Result<()> {
        let model = self.model.lock().clone();
        let (log, replayed) = open_image(&self.directory, self.options, &model)?;
        model.judge(Crash::Process, &replayed, log.completed(), context);
        *self.model.lock() = model.recovered(&replayed, &log);
        self.log = Some(log);
        Ok(())
    }
}

//! Runs the transactions of a history, one operation at a time, in an order derived from a seed.

use super::history::{COUNTERS, Committed, History, LISTS, Op, REGISTERS, State};
use super::slow::{SlowDirectory, slowly};
use crate::admin::simulation::{DirectoryOpener as _, SimulationOperations as _, StoreScale};
use crate::db::Db;
use crate::error::{ErrorKind, Result};
use crate::keyspace::Keyspace;
use crate::options::{Concurrency, Isolation, KeyspaceOptions, Options, TransactionOptions};
use crate::transaction::{Savepoint, Transaction};
use crate::write::batch::WriteBatch;
use alluvium_device::Directory;
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::simulated::SimDirectory;
use std::sync::Arc;
use std::time::Duration;

/// Number of transactions that are open at the same time.
const SESSIONS: usize = 4;

/// Number of different keys in each keyspace.
pub(super) const KEYS: u8 = 6;

/// Number of times that a blocked operation is retried before its transaction is abandoned.
const PATIENCE: u32 = 3;

/// What else happens in the store while the transactions run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    None,
    /// Flushes, checkpoints and full compactions run.
    Background,
    /// The process crashes from time to time, and the store is opened again.
    Kills,
    /// Flushes, checkpoints and full compactions run, and most transactions spill their writes to
    /// disk before they commit.
    Spills,
    /// Like `Spills`, but the disk is also full from time to time, so that commits fail.
    FullDisk,
    /// Like `Spills`, but device operations are also slow, so that other sessions run in the middle
    /// of reads, scans, spills, checkpoints and compactions.
    SlowDevice,
}

impl Trouble {
    pub(super) const ALL: [Trouble; 6] = [
        Trouble::None,
        Trouble::Background,
        Trouble::Kills,
        Trouble::Spills,
        Trouble::FullDisk,
        Trouble::SlowDevice,
    ];
}

/// The parameters of a random history.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) isolation: Isolation,
    pub(super) concurrency: Concurrency,
    pub(super) trouble: Trouble,
    pub(super) transactions: usize,
}

/// A session, which runs one transaction at a time.
pub(super) struct Session {
    pub(super) transaction: Transaction,
    name: usize,
    began: usize,
    pub(super) ops: Vec<Op>,
    /// Number of operations that the transaction is to run.
    length: usize,
    savepoint: Option<(Savepoint, usize)>,
    waits: u32,
}

pub(super) struct Driver<'p> {
    plan: &'p Plan,
    directory: Arc<dyn Directory>,
    /// The simulated disk that contains the store, if the disk fills up from time to time.
    disk: Option<SimDirectory>,
    db: Db,
    pub(super) lists: Keyspace,
    pub(super) registers: Keyspace,
    pub(super) counters: Keyspace,
    pub(super) random: fastrand::Rng,
    sessions: [Option<Session>; SESSIONS],
    pub(super) history: History,
    names: usize,
    elements: u32,
    /// Whether a slow operation is running.
    is_slow: bool,
}

/// Returns the sizes of a store that flushes its memtables often.
pub(super) fn scale() -> StoreScale {
    StoreScale::small(0x7a, 4 << 10, 96 << 10)
}

fn open(directory: &Arc<dyn Directory>) -> (Db, [Keyspace; 3]) {
    let options = Options::new().simulated(scale(), || 1000);
    let db = options.open_in(Arc::clone(directory)).unwrap();
    db.shared().engine.locks.be_impatient();
    let append = KeyspaceOptions::new().merge_operator("append");
    let lists = db.keyspace_with("lists", &append).unwrap();
    let registers = db.keyspace("registers").unwrap();
    let add = KeyspaceOptions::new().merge_operator("add");
    let counters = db.keyspace_with("counters", &add).unwrap();
    (db, [lists, registers, counters])
}

/// Runs a random history with these parameters, and returns it.
pub(super) fn run(plan: &Plan) -> History {
    let disk = (plan.trouble == Trouble::FullDisk).then(|| SimDirectory::new(plan.seed));
    let memory = MemoryDirectory::new();
    let directory: Arc<dyn Directory> = match &disk {
        Some(disk) => Arc::new(disk.clone()),
        None if plan.trouble == Trouble::SlowDevice => Arc::new(SlowDirectory(memory)),
        None => Arc::new(memory),
    };
    let (db, [lists, registers, counters]) = open(&directory);
    let mut driver = Driver {
        plan,
        directory,
        disk,
        db,
        lists,
        registers,
        counters,
        random: fastrand::Rng::with_seed(plan.seed),
        sessions: [const { None }; SESSIONS],
        history: History {
            reads_newest: plan.isolation == Isolation::Serializable
                && plan.concurrency == Concurrency::Locking,
            ..History::default()
        },
        names: 0,
        elements: 0,
        is_slow: false,
    };
    while driver.history.committed.len() < plan.transactions {
        driver.step();
    }
    driver.sessions = [const { None }; SESSIONS];
    if let Some(disk) = &driver.disk {
        disk.set_capacity(16 << 40);
    }
    driver.history.last = driver.everything();
    driver.history
}

impl Driver<'_> {
    fn step(&mut self) {
        match self.random.u32(0..100) {
            0..3 => self.plain_write(),
            3..9 if matches!(self.plan.trouble, Trouble::Background | Trouble::Spills) => self.work(),
            // Only one operation may be slow at a time.
            3..9 if self.plan.trouble == Trouble::SlowDevice && !self.is_slow => self.work(),
            3..9 if self.plan.trouble == Trouble::FullDisk => self.fill_or_work(),
            3 if self.plan.trouble == Trouble::Kills => self.kill(),
            _ => {
                let at = self.random.usize(0..SESSIONS);
                self.go_on(at);
            }
        }
    }

    fn work(&mut self) {
        let (chosen, db) = (self.random.u32(0..12), self.db.clone());
        let worked = self.slowly(move || match chosen {
            0 => db.checkpoint(),
            1 => db.compact(),
            _ => db.work().map(drop),
        });
        worked.unwrap();
    }

    /// Runs an operation that uses the device. If the device is slow, other sessions run in the
    /// middle of it.
    pub(super) fn slowly<R: Send>(&mut self, act: impl FnOnce() -> R + Send) -> R {
        if self.plan.trouble != Trouble::SlowDevice || self.is_slow {
            return act();
        }
        self.is_slow = true;
        let done = slowly(act, || {
            for _ in 0..self.random.u32(0..3) {
                self.step();
            }
        });
        self.is_slow = false;
        done
    }

    /// Fills the disk except for a few pages, enlarges it again, or does background work.
    fn fill_or_work(&mut self) {
        let disk = self.disk.as_ref().expect("a disk that can be filled");
        match self.random.u32(0..6) {
            0 | 1 => disk.set_capacity(disk.used() + self.random.u64(0..24) * 4096),
            2 => disk.set_capacity(16 << 40),
            _ => {
                let worked = match self.random.u32(0..12) {
                    0 => self.db.checkpoint(),
                    1 => self.db.compact(),
                    _ => self.db.work().map(drop),
                };
                self.refused_if_full(worked);
            }
        }
    }

    /// Returns whether the operation succeeded. Panics if it failed for any reason other than a
    /// full disk.
    #[track_caller]
    fn refused_if_full(&mut self, done: Result<()>) -> bool {
        let Err(error) = done else {
            return true;
        };
        assert_eq!(error.kind(), ErrorKind::Full, "{error}");
        assert_eq!(self.plan.trouble, Trouble::FullDisk, "{error}");
        self.history.full += 1;
        false
    }

    /// Simulates a process crash, which loses uncommitted data, and opens the store again.
    fn kill(&mut self) {
        self.sessions = [const { None }; SESSIONS];
        self.db.abandon();
        // Opening another store drops all handles. The last one releases the directory's lock.
        let other: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        (self.db, [self.lists, self.registers, self.counters]) = open(&other);
        (self.db, [self.lists, self.registers, self.counters]) = open(&self.directory);
        // Transactions that were open before the crash must not be listed.
        assert!(self.db.transactions().is_empty());
    }

    fn everything(&self) -> State {
        let mut state = State::new();
        for (letter, keyspace) in [
            (LISTS, &self.lists),
            (REGISTERS, &self.registers),
            (COUNTERS, &self.counters),
        ] {
            for pair in keyspace.iter() {
                let (key, value) = pair.unwrap();
                state.insert([&[letter], &key[..]].concat(), value.into_vec());
            }
        }
        state
    }

    pub(super) fn key(&mut self, letter: u8) -> Vec<u8> {
        vec![letter, b'a' + self.random.u8(0..KEYS)]
    }

    pub(super) fn letter(&mut self) -> u8 {
        [LISTS, REGISTERS, LISTS, REGISTERS, COUNTERS][self.random.usize(0..5)]
    }

    /// Returns a value that was never written before.
    pub(super) fn element(&mut self) -> Vec<u8> {
        self.elements += 1;
        self.elements.to_be_bytes().to_vec()
    }

    /// Returns a value for a key of a keyspace. For lists and registers, the value was never
    /// written before.
    pub(super) fn value(&mut self, letter: u8) -> Vec<u8> {
        match letter {
            COUNTERS => self.random.i64(0..1000).to_le_bytes().to_vec(),
            _ => self.element(),
        }
    }

    pub(super) fn range(&mut self, letter: u8) -> (Vec<u8>, Vec<u8>) {
        let low = self.random.u8(0..KEYS);
        let high = self.random.u8(low + 1..=KEYS);
        (vec![letter, b'a' + low], vec![letter, b'a' + high])
    }

    /// Writes to a register outside of any transaction.
    fn plain_write(&mut self) {
        let key = self.key(REGISTERS);
        let op = match self.random.u32(0..6) {
            4 => Op::Add {
                key: self.key(COUNTERS),
                number: self.random.i64(1..1000),
            },
            5 => Op::Put {
                key: self.key(COUNTERS),
                value: self.value(COUNTERS),
            },
            0 => Op::Delete { key },
            1 => {
                let (low, high) = self.range(REGISTERS);
                Op::DeleteRange { low, high }
            }
            2 => Op::Append {
                key: self.key(LISTS),
                element: self.element(),
            },
            _ => Op::Put {
                key,
                value: self.element(),
            },
        };
        let mut batch = WriteBatch::new();
        match &op {
            Op::Delete { key } => drop(batch.delete(&self.registers, &key[1..]).unwrap()),
            Op::DeleteRange { low, high } => {
                batch
                    .delete_range(&self.registers, &low[1..], Some(&high[1..]))
                    .unwrap();
            }
            Op::Append { key, element } => drop(batch.merge(&self.lists, &key[1..], element).unwrap()),
            Op::Add { key, number } => {
                batch
                    .merge(&self.counters, &key[1..], number.to_le_bytes())
                    .unwrap();
            }
            Op::Put { key, value } => {
                let keyspace = match key[0] {
                    COUNTERS => &self.counters,
                    _ => &self.registers,
                };
                batch.put(keyspace, &key[1..], value).unwrap();
            }
            _ => unreachable!("it writes"),
        }
        match self.db.write(&batch) {
            Ok(()) => {
                let began = self.history.committed.len();
                self.names += 1;
                self.committed(self.names, began, vec![op]);
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => {}
            Err(error) => _ = self.refused_if_full(Err(error)),
        }
    }

    fn committed(&mut self, name: usize, began: usize, ops: Vec<Op>) {
        let ended = self.history.committed.len() + 1;
        self.history.beside += usize::from(self.is_slow);
        self.history.committed.push(Committed {
            name,
            began,
            ended,
            ops,
        });
    }

    fn begin(&mut self) -> Session {
        let options = TransactionOptions::new()
            .isolation(self.plan.isolation)
            .concurrency(self.plan.concurrency)
            .lock_timeout(Duration::ZERO);
        // Some transactions may track only one range in each keyspace and one iterator, so that
        // they often join neighbours.
        let (options, most_ops) = match self.random.u32(0..4) {
            0 => (options.max_tracked(self.random.usize(4..7)), 9),
            _ => (options, 6),
        };
        let options = match self.plan.trouble {
            Trouble::Spills | Trouble::FullDisk | Trouble::SlowDevice => {
                options.memory(self.random.usize(0..500))
            }
            _ => options,
        };
        self.names += 1;
        Session {
            transaction: self.db.begin_with(&options),
            name: self.names,
            began: self.history.committed.len(),
            ops: Vec::new(),
            length: self.random.usize(1..most_ops),
            savepoint: None,
            waits: 0,
        }
    }

    /// Runs the next operation of a session.
    fn go_on(&mut self, at: usize) {
        let mut session = match self.sessions[at].take() {
            Some(session) => session,
            None => self.begin(),
        };
        if session.ops.len() >= session.length {
            // Committing spilled writes would have to wait for a running checkpoint, so postpone
            // it.
            if self.is_slow && !session.transaction.own.lock().spilled.is_empty() {
                self.sessions[at] = Some(session);
                return;
            }
            return self.end(session);
        }
        let done = match self.random.u32(0..16) {
            0 => self.set_savepoint(&mut session),
            1 => Self::roll_back(&mut session),
            2..9 => self.read(&mut session),
            _ => self.write(&mut session),
        };
        match done {
            Ok(()) => self.sessions[at] = Some(session),
            Err(error) => match error.kind() {
                ErrorKind::TimedOut if session.waits < PATIENCE => {
                    session.waits += 1;
                    self.sessions[at] = Some(session);
                }
                ErrorKind::TimedOut | ErrorKind::Conflict | ErrorKind::Deadlock => {
                    self.history.refused += 1;
                }
                // After other errors the transaction is rolled back.
                _ => _ = self.refused_if_full(Err(error)),
            },
        }
    }

    fn end(&mut self, session: Session) {
        let Session {
            transaction,
            name,
            began,
            ops,
            ..
        } = session;
        if self.random.u32(0..12) == 0 {
            return transaction.rollback();
        }
        match transaction.commit() {
            Ok(()) => self.committed(name, began, ops),
            Err(error) if error.kind() == ErrorKind::Conflict => self.history.refused += 1,
            Err(error) => _ = self.refused_if_full(Err(error)),
        }
    }

    fn set_savepoint(&mut self, session: &mut Session) -> Result<()> {
        let savepoint = session.transaction.savepoint();
        session.savepoint = Some((savepoint, session.ops.len()));
        Ok(())
    }

    /// Rolls a session back to its savepoint. The writes made after it are removed from the
    /// recorded operations, but the reads remain.
    fn roll_back(session: &mut Session) -> Result<()> {
        let Some((savepoint, len)) = &session.savepoint else {
            return Ok(());
        };
        session.transaction.rollback_to(savepoint)?;
        let mut at = 0;
        let has_written = session.ops[*len..].iter().any(Op::is_write);
        session.ops.retain(|op| {
            at += 1;
            // A read after an undone write may have returned that write, so it can no longer be
            // checked.
            at <= *len || !(op.is_write() || has_written)
        });
        Ok(())
    }
}

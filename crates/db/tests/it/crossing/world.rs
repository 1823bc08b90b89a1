//! A store and its model. Each operation is applied to both.

use super::keys;
use super::model::{Change, Model, Rule};
use super::ops::{Bytes, Edge, Expected, KeyNumber, KeyspaceNumber, Operation, View, Write};
use super::plan::{KeyspacePlan, StorePlan};
use super::reading::Held;
use alluvium::simulation::{DirectoryOpener as _, SimulationOperations as _};
use alluvium::{Db, Durability, Error, ErrorKind, Keyspace, Options, Snapshot};
use alluvium_device::Directory;
use alluvium_device::simulated::SimDirectory;
use alluvium_sim::Coverage;
use alluvium_storage::TierDirectories;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// A result, or a description of how the store and the model differ.
pub(crate) type Outcome<T = ()> = Result<T, String>;

/// Events of a history that `Coverage` counts.
pub(super) const NO_SPACE: &str = "no space";
pub(super) const SPILLED: &str = "a transaction that has spilled";
pub(super) const OVERTAKEN: &str = "a conflict";
pub(super) const LOST: &str = "a crash that took commits";
pub(super) const DAMAGED: &str = "damage that a reader met";

/// Maximum number of snapshots and iterators held at once.
pub(super) const MOST_HELD: usize = 4;

pub(crate) struct World<'p> {
    pub(super) plan: &'p StorePlan,
    pub(super) rule: Rule,
    pub(super) coverage: Coverage,
    clock: Arc<AtomicU64>,
    /// One disk for each tier.
    pub(super) disks: Vec<SimDirectory>,
    /// Whether the disks may currently be full.
    is_narrow: bool,
    pub(super) db: Option<Db>,
    pub(super) names: Vec<String>,
    pub(super) handles: Vec<Keyspace>,
    pub(super) model: Model,
    /// Permitted states, besides the model's, after the process is killed and after a power loss.
    /// Commits that are not yet durable may be lost, the newest first.
    pub(super) before_kill: Vec<Model>,
    pub(super) before_loss: Vec<Model>,
    pub(super) snapshots: Vec<(Snapshot, Model)>,
    pub(super) named: BTreeMap<String, Model>,
    /// Number of names used so far.
    pub(super) named_so_far: u64,
    pub(super) held: Vec<Held>,
    /// Results of the current operation that the model cannot predict, such as conflicts and full
    /// disks.
    notes: RefCell<Vec<String>>,
}

pub(super) fn told<T>(what: &str, result: alluvium::Result<T>) -> Outcome<T> {
    result.map_err(|error| format!("{what}: {error}"))
}

pub(super) fn moment(at_ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(at_ms)
}

/// Returns the disks as the directories of the tiers.
pub(super) fn directories(disks: &[SimDirectory]) -> TierDirectories {
    let all = disks[1..]
        .iter()
        .map(|disk| -> Arc<dyn Directory> { Arc::new(disk.clone()) });
    all.fold(
        TierDirectories::from(Arc::new(disks[0].clone())),
        TierDirectories::and,
    )
}

/// When a world ends, its process writes nothing more.
impl Drop for World<'_> {
    fn drop(&mut self) {
        if let Some(db) = &self.db {
            db.abandon();
        }
    }
}

impl<'p> World<'p> {
    pub(crate) fn new(plan: &'p StorePlan, rule: Rule, coverage: &Coverage) -> Outcome<World<'p>> {
        let names = (0..plan.keyspaces.len()).map(|number| format!("{number}"));
        let mut world = World {
            plan,
            rule,
            coverage: coverage.clone(),
            clock: Arc::new(AtomicU64::new(1_000_000)),
            disks: (0..plan.tiers as u64).map(SimDirectory::new).collect(),
            is_narrow: false,
            db: None,
            names: names.collect(),
            handles: Vec::new(),
            model: Model::new(plan),
            before_kill: Vec::new(),
            before_loss: Vec::new(),
            snapshots: Vec::new(),
            named: BTreeMap::new(),
            named_so_far: 0,
            held: Vec::new(),
            notes: RefCell::default(),
        };
        world.open()?;
        Ok(world)
    }

    pub(super) fn options(&self) -> Options {
        self.options_with(Arc::clone(&self.clock))
    }

    /// Returns the options of the store with another clock.
    pub(super) fn options_with(&self, clock: Arc<AtomicU64>) -> Options {
        let options = Options::new().simulated(self.plan.scale(), move || clock.load(Ordering::Relaxed));
        self.plan.knobs.of(options)
    }

    /// Records a result that the model cannot predict.
    pub(super) fn note(&self, what: &str) {
        self.notes.borrow_mut().push(what.to_owned());
    }

    /// Returns the notes recorded since the last call.
    pub(crate) fn take_notes(&self) -> Vec<String> {
        self.notes.take()
    }

    /// Returns the durability for a commit: the plan's if it sets one, otherwise the history's.
    pub(super) fn durability(&self, said: Durability) -> Durability {
        self.plan.knobs.durability.unwrap_or(said)
    }

    pub(super) fn open(&mut self) -> Outcome {
        let db = told("open", self.options().open_in(directories(&self.disks)))?;
        for (name, keyspace) in self.names.iter().zip(&self.plan.keyspaces) {
            let what = format!("keyspace {name}, {}", keyspace.structure);
            self.handles.push(told(&what, keyspace.open(&db, name))?);
        }
        self.db = Some(db);
        Ok(())
    }

    pub(super) fn db(&self) -> &Db {
        self.db.as_ref().expect("it is open")
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    pub(super) fn keyspace(&self, number: KeyspaceNumber) -> (&Keyspace, &'p KeyspacePlan) {
        (&self.handles[number], &self.plan.keyspaces[number])
    }

    pub(super) fn key(&self, of: KeyspaceNumber, number: KeyNumber) -> Vec<u8> {
        keys::key(number, self.plan.keyspaces[of].most_key_bytes())
    }

    pub(super) fn value(&self, of: KeyspaceNumber, bytes: Bytes) -> Vec<u8> {
        let plan = &self.plan.keyspaces[of];
        keys::value(bytes, plan.operator, plan.most_value_bytes())
    }

    /// Returns the first key of a range that begins at this edge.
    pub(super) fn low(&self, of: KeyspaceNumber, edge: Edge) -> Vec<u8> {
        self.edge(of, edge).unwrap_or_default()
    }

    /// Returns the exclusive upper bound of a range that ends at this edge, or `None` at the end of
    /// the keyspace.
    pub(super) fn high(&self, of: KeyspaceNumber, edge: Edge) -> Option<Vec<u8>> {
        self.edge(of, edge)
    }

    fn edge(&self, of: KeyspaceNumber, edge: Edge) -> Option<Vec<u8>> {
        match edge {
            Edge::Whole => None,
            Edge::At(number) => Some(self.key(of, number)),
            Edge::Behind(number) => {
                let mut key = self.key(of, number);
                if key.len() < self.plan.keyspaces[of].most_key_bytes() {
                    key.push(0);
                }
                Some(key)
            }
        }
    }

    pub(super) fn change(&self, of: KeyspaceNumber, write: Write) -> Change {
        match write {
            Write::Put(key, bytes) => Change::Put(self.key(of, key), self.value(of, bytes).into(), 0),
            Write::PutFor(key, bytes, ms) => Change::Put(
                self.key(of, key),
                self.value(of, bytes).into(),
                self.now_ms() + ms,
            ),
            Write::Delete(key) => Change::Delete(self.key(of, key)),
            Write::DeleteIn(key, ms) => Change::DeleteAt(self.key(of, key), self.now_ms() + ms),
            Write::Merge(key, bytes) => {
                let mut operand = self.value(of, bytes);
                operand.truncate(24);
                Change::Merge(self.key(of, key), operand.into())
            }
            // Unordered keyspaces can delete only the range of all keys.
            Write::DeleteRange(..) if !self.plan.keyspaces[of].is_ordered() => {
                Change::DeleteRange(Vec::new(), None)
            }
            Write::DeleteRange(low, high) => Change::DeleteRange(self.low(of, low), self.high(of, high)),
        }
    }

    /// Returns the value that a conditional write expects, given the key's current value.
    pub(super) fn expected(&self, of: KeyspaceNumber, is: Expected, value: Option<&[u8]>) -> Option<Vec<u8>> {
        match is {
            Expected::Right => value.map(<[u8]>::to_vec),
            Expected::Absent => None,
            Expected::Another => Some(self.value(of, Bytes(7, 201))),
        }
    }

    /// Records that changes were committed to the state `before` with this durability.
    pub(super) fn committed(
        &mut self,
        durability: Durability,
        before: Model,
        changes: &[(KeyspaceNumber, Change)],
    ) {
        // A commit only to volatile keyspaces is not logged and syncs no other commit.
        if !changes.iter().any(|(of, _)| self.plan.keyspaces[*of].lasts()) {
            return;
        }
        match durability {
            Durability::Memory => {
                self.before_kill.push(before.clone());
                self.before_loss.push(before);
            }
            Durability::Process => {
                self.before_kill.clear();
                self.before_loss.push(before);
            }
            Durability::Disk => self.kept(),
        }
    }

    /// Records that the whole model is durable.
    pub(super) fn kept(&mut self) {
        self.before_kill.clear();
        self.before_loss.clear();
    }

    /// Returns whether an error only reports that there is no space. The state is then unchanged.
    pub(super) fn is_refused(&self, error: &Error) -> bool {
        let is_volatile = || error.to_string().starts_with("volatile keyspaces hold");
        if error.kind() == ErrorKind::Full && self.is_narrow {
            self.coverage.hit(NO_SPACE);
            self.note(NO_SPACE);
            return true;
        }
        error.kind() == ErrorKind::Full && is_volatile()
    }

    /// Returns the result of an operation, or `None` if the disk had no space for it.
    pub(super) fn done<T>(&self, what: &str, result: alluvium::Result<T>) -> Outcome<Option<T>> {
        match result {
            Ok(done) => Ok(Some(done)),
            Err(error) if self.is_refused(&error) => Ok(None),
            Err(error) => Err(format!("{what}: {error}")),
        }
    }

    /// Makes everything so far durable.
    pub(super) fn sync(&mut self) -> Outcome {
        if self.done("a sync", self.db().sync())?.is_some() {
            self.kept();
        }
        Ok(())
    }

    /// Applies an operation and compares its results.
    pub(crate) fn apply(&mut self, operation: &Operation) -> Outcome {
        match operation {
            Operation::Batch(durability, writes) => self.batch(self.durability(*durability), writes),
            &Operation::Set(of, key, expected, new) => self.set(of, key, expected, new),
            &Operation::Take(of, key) => self.take(of, key),
            Operation::Read(read) => self.compare(read),
            Operation::Pass(ms) => {
                self.clock.fetch_add(*ms, Ordering::Relaxed);
                Ok(())
            }
            Operation::Snapshot => self.snapshot(),
            &Operation::DropSnapshot(place) => self.drop_snapshot(place),
            Operation::NameSnapshot => self.name_snapshot(),
            &Operation::RemoveSnapshot(place) => self.remove_snapshot(place),
            &Operation::Hold(of) => self.hold(of),
            &Operation::GoOn(place, way, count) => match self.held.len() {
                0 => Ok(()),
                len => self.held[place % len].go_on(way, count),
            },
            &Operation::LetGo(place) => match self.held.len() {
                0 => Ok(()),
                len => self.held.swap_remove(place % len).end(),
            },
            Operation::Transaction(transaction) => self.transact(transaction),
            Operation::Ingest(of, records, load) => self.ingest(*of, records, *load),
            Operation::Checkpoint => self.checkpoint().map(drop),
            Operation::Compact => self
                .done("a compaction of everything", self.db().compact())
                .map(drop),
            Operation::Work(slices) => self.work(*slices),
            Operation::Narrow(bytes) => {
                self.narrow(*bytes);
                Ok(())
            }
            Operation::Widen => {
                self.widen();
                Ok(())
            }
            &Operation::Damage(seed) => self.damage_copy(seed),
            Operation::Reopen(ending) => self.reopen(*ending),
            Operation::BackUp => self.back_up(),
            &Operation::DropKeyspace(of) => self.drop_keyspace(of),
            &Operation::RenameKeyspace(of) => self.rename_keyspace(of),
            Operation::Check => self.check(self.db()),
        }
    }

    /// Takes a checkpoint, which makes everything so far durable. Returns whether there was space
    /// for it.
    pub(super) fn checkpoint(&mut self) -> Outcome<bool> {
        let is_done = self.done("a checkpoint", self.db().checkpoint())?.is_some();
        if is_done {
            self.kept();
        }
        Ok(is_done)
    }

    fn work(&self, slices: u32) -> Outcome {
        for _ in 0..slices {
            self.done("work", self.db().work())?;
        }
        Ok(())
    }

    /// Leaves this number of bytes free on each disk.
    fn narrow(&mut self, bytes: u32) {
        for disk in &self.disks {
            disk.set_capacity(disk.used() + u64::from(bytes));
        }
        self.is_narrow = true;
    }

    fn snapshot(&mut self) -> Outcome {
        if self.snapshots.len() < MOST_HELD {
            self.snapshots.push((self.db().snapshot(), self.model.clone()));
        }
        Ok(())
    }

    fn drop_snapshot(&mut self, place: usize) -> Outcome {
        if let Some(place) = self.place_of_snapshot(place) {
            self.snapshots.swap_remove(place);
        }
        Ok(())
    }

    fn hold(&mut self, of: KeyspaceNumber) -> Outcome {
        if self.held.len() < MOST_HELD {
            let (keyspace, plan) = self.keyspace(of);
            let held = Held::new(of, keyspace, plan, self.model.keyspace(of), self.now_ms());
            self.held.push(held);
        }
        Ok(())
    }

    pub(super) fn place_of_snapshot(&self, place: usize) -> Option<usize> {
        place.checked_rem(self.snapshots.len())
    }

    /// Removes the capacity limit of the disks.
    pub(super) fn widen(&mut self) {
        self.disks.iter().for_each(|disk| disk.set_capacity(u64::MAX));
        self.is_narrow = false;
    }

    /// Returns the named snapshots with their models.
    pub(super) fn named(&self) -> impl Iterator<Item = (&String, &Model)> {
        self.named.iter()
    }

    pub(super) fn viewed(&self, view: View) -> (Option<&Snapshot>, &Model) {
        let place = match view {
            View::Now => None,
            View::Snapshot(place) => self.place_of_snapshot(place),
        };
        match place.map(|place| &self.snapshots[place]) {
            Some((snapshot, model)) => (Some(snapshot), model),
            None => (None, &self.model),
        }
    }
}

//! The whole store under the simulator. Users write to several keyspaces at all three durabilities,
//! background work runs slice by slice, and the test checks every state that a crash or a failing
//! device may leave.

mod kept;
mod ops;

use alluvium::simulation::{self, DirectoryOpener as _, SimulationOperations as _, StoreScale};
use alluvium::{
    Compression, Concurrency, Db, Error, HashedForm, HashedOptions, Iter, Keyspace, KeyspaceOptions, Options,
    Snapshot, Structure, Transaction, TransactionOptions, UnorderedScan, WriteBatch,
};
use alluvium_base::ErrorKind;
use alluvium_sim::ops::{WriteOp, outcome};
use alluvium_sim::{
    ModelWrite, PrefixDirectory, PromisedDurability, RunStep, StoreContents, Story, StoryEnvironment,
    StoryError, StoryErrorKind,
};
use alluvium_storage::{TierDirectories, log};
use kept::kept;
use ops::{Action, HASHED, KEYSPACES};
// The sibling module `kinds` chooses the structure of each keyspace.
use super::kinds;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Every run and maplet is verified if the store's sequence number is a multiple of this. Otherwise
/// only the allocation of extents is verified.
const EVERYTHING: u64 = 6;

/// The story and its variations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole {
    pub(crate) access: log::SegmentAccess,
    pub(crate) lanes: usize,
    /// Number of tiers, 1 or 2. With two, most of the compaction output is on the second.
    pub(crate) tiers: u8,
    /// Forms of hashed keyspaces. Each run uses one, chosen by its seed.
    pub(crate) forms: &'static [HashedForm],
}

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// An open store and its current readers.
pub(crate) struct System {
    db: Db,
    form: HashedForm,
    /// The keyspaces created so far, in the order of [`KEYSPACES`].
    keyspaces: Vec<Keyspace>,
    snapshot: Option<(Snapshot, Pairs)>,
    /// An open transaction that is never committed.
    forgotten: Option<Transaction>,
    /// Named snapshots created since this opening.
    named: BTreeSet<String>,
    names: u64,
    incorporations: u64,
    /// Whether the last commit attached runs.
    is_attached: bool,
}

/// A dropped system has crashed or was only inspected, so writes while closing need not be
/// verified.
impl Drop for System {
    fn drop(&mut self) {
        self.db.abandon();
    }
}

/// Converts an error to the form that the simulator's caller expects.
fn trouble(error: Error) -> StoryError {
    if simulation::failing_tier(&error).is_some() {
        return StoryError::new(StoryErrorKind::Part, error);
    }
    let kind = simulation::storage_kind(&error).unwrap_or(ErrorKind::Refused);
    StoryError::of(kind, error)
}

fn word(durability: PromisedDurability) -> alluvium::Durability {
    match durability {
        PromisedDurability::Memory => alluvium::Durability::Memory,
        PromisedDurability::Process => alluvium::Durability::Process,
        PromisedDurability::Disk => alluvium::Durability::Disk,
    }
}

/// Converts a range of story keys to a range within its keyspace. The range is unbounded if the end
/// key belongs to another keyspace.
fn range_of<'o>(start: &'o [u8], end: &'o [u8]) -> (&'o [u8], Option<&'o [u8]>) {
    (&start[1..], (start[0] == end[0]).then_some(&end[1..]))
}

impl Whole {
    fn options(&self) -> Options {
        let memtable = match self.access {
            log::SegmentAccess::Mapped => 6 << 10,
            log::SegmentAccess::Written => 4 << 10,
        };
        let mut scale = StoreScale::small(0xa11, memtable, 96 << 10);
        scale.log.lanes = self.lanes;
        scale.log.access = self.access;
        scale.extents.planned_bytes = Some(u64::from(self.lanes as u32 - 1) * (512 << 10));
        Options::new().simulated(scale, || 1000)
    }

    /// Returns the form of hashed keyspaces in this run.
    fn form(&self, world: &StoryEnvironment) -> HashedForm {
        self.forms[(world.seed % self.forms.len() as u64) as usize]
    }

    /// Returns the directories of the tiers. With two tiers, each is a part of the directory that
    /// crashes.
    fn directories(&self, world: &StoryEnvironment) -> TierDirectories {
        match self.tiers {
            1 => (&world.directory).into(),
            _ => TierDirectories::from(Arc::new(PrefixDirectory::of(&world.directory, "one.")))
                .and(Arc::new(PrefixDirectory::of(&world.directory, "two."))),
        }
    }

    /// Opens or creates the missing keyspaces.
    fn open_keyspaces(db: &Db, form: HashedForm, keyspaces: &mut Vec<Keyspace>) -> Result<(), StoryError> {
        for &letter in &KEYSPACES[keyspaces.len()..] {
            let options = match letter {
                b'b' => KeyspaceOptions::new()
                    .merge_operator("append")
                    .compression(Compression::Lz4),
                b'c' => KeyspaceOptions::new().value_threshold(200),
                HASHED => KeyspaceOptions::new()
                    .value_threshold(300)
                    .structure(Structure::Hashed(HashedOptions::default().form(form))),
                _ => KeyspaceOptions::new(),
            };
            let name = char::from(letter).to_string();
            keyspaces.push(kinds::keyspace(db, letter, &name, &options).map_err(trouble)?);
        }
        Ok(())
    }

    fn system(&self, db: Db, world: &StoryEnvironment) -> Result<System, StoryError> {
        let mut keyspaces = Vec::new();
        let form = self.form(world);
        Self::open_keyspaces(&db, form, &mut keyspaces)?;
        Ok(System {
            keyspaces,
            form,
            db,
            snapshot: None,
            forgotten: None,
            is_attached: false,
            named: BTreeSet::new(),
            names: 0,
            incorporations: 0,
        })
    }
}

impl System {
    fn keyspace(&self, key: &[u8]) -> &Keyspace {
        let index = KEYSPACES.iter().position(|&letter| letter == key[0]);
        &self.keyspaces[index.expect("every key names its keyspace")]
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoryError> {
        let found = self.keyspace(key).get(&key[1..]).map_err(trouble)?;
        Ok(found.map(Vec::from))
    }

    /// Adds the pairs of an ordered iteration as story keys, and checks their order.
    fn walk(
        letter: u8,
        iter: impl Iterator<Item = <Iter as Iterator>::Item>,
        order: Ordering,
        pairs: &mut Pairs,
    ) -> Result<(), StoryError> {
        let mut last: Option<Vec<u8>> = None;
        for pair in iter {
            let (key, value) = pair.map_err(trouble)?;
            if last.is_some_and(|last| last.cmp(&key) != order) {
                return Err(StoryError::wrong(format!(
                    "{} is out of order",
                    key.escape_ascii()
                )));
            }
            last = Some(key.clone());
            pairs.insert([&[letter], &key[..]].concat(), value.into_vec());
        }
        Ok(())
    }

    /// Adds the pairs of an unordered iteration as story keys, and checks that each key appears
    /// once.
    fn all(letter: u8, walk: UnorderedScan, pairs: &mut Pairs) -> Result<(), StoryError> {
        for pair in walk {
            let (key, value) = pair.map_err(trouble)?;
            let key = [&[letter], &key[..]].concat();
            if pairs.insert(key.clone(), value.into_vec()).is_some() {
                return Err(StoryError::wrong(format!("{} comes twice", key.escape_ascii())));
            }
        }
        Ok(())
    }

    /// Reads all pairs, alternately from the front and from the back.
    fn everything(&self) -> Result<Pairs, StoryError> {
        let mut pairs = Pairs::new();
        for (keyspace, letter) in self.keyspaces.iter().zip(KEYSPACES) {
            if letter == HASHED {
                Self::all(letter, keyspace.unordered(), &mut pairs)?;
            } else if self.db.sequence().is_multiple_of(2) {
                Self::walk(letter, keyspace.iter(), Ordering::Less, &mut pairs)?;
            } else {
                Self::walk(letter, keyspace.iter().rev(), Ordering::Greater, &mut pairs)?;
            }
        }
        Ok(pairs)
    }

    fn everything_at(&self, snapshot: &Snapshot) -> Result<Pairs, StoryError> {
        let mut pairs = Pairs::new();
        for (keyspace, letter) in self.keyspaces.iter().zip(KEYSPACES) {
            match letter {
                HASHED => Self::all(letter, snapshot.unordered(keyspace), &mut pairs)?,
                _ => Self::walk(letter, snapshot.iter(keyspace), Ordering::Less, &mut pairs)?,
            }
        }
        Ok(pairs)
    }

    fn batch(&self, ops: &[WriteOp], durability: PromisedDurability) -> Result<WriteBatch, Error> {
        let mut batch = WriteBatch::new().durability(word(durability));
        for op in ops {
            match op {
                WriteOp::Put { key, value } => batch.put(self.keyspace(key), &key[1..], value)?,
                WriteOp::Delete { key } => batch.delete(self.keyspace(key), &key[1..])?,
                WriteOp::Merge { key, operand } => batch.merge(self.keyspace(key), &key[1..], operand)?,
                WriteOp::DeleteRange { start, end } => {
                    let (from, to) = range_of(start, end);
                    batch.delete_range(self.keyspace(start), from, to)?
                }
            };
        }
        Ok(batch)
    }

    /// Writes through a batch or through one of the two kinds of transaction.
    fn write(
        &mut self,
        ops: &[WriteOp],
        durability: PromisedDurability,
        number: usize,
        world: &StoryEnvironment,
    ) -> Result<(), Error> {
        let concurrency = match number % 4 {
            0 => Concurrency::Optimistic,
            1 => Concurrency::Locking,
            _ => return self.db.write(&self.batch(ops, durability)?),
        };
        let options = TransactionOptions::new().concurrency(concurrency);
        // Some transactions spill their writes to runs, immediately or after a few writes.
        let spills = number % 12 < 2;
        let options = match spills {
            true => options.memory(number % 7 * 300),
            false => options,
        };
        let mut transaction = self.db.begin_with(&options);
        let savepoint = transaction.savepoint();
        for op in ops.iter().rev() {
            self.add(&mut transaction, op)?;
        }
        transaction.rollback_to(&savepoint)?;
        if spills {
            world
                .ledger
                .set_activity(Some("crash in a transaction that spills"));
        }
        for op in ops {
            self.add(&mut transaction, op)?;
        }
        let own = transaction.number();
        let open = self.db.transactions();
        let has_spilled = open
            .iter()
            .any(|open| open.number == own && open.spilled_bytes > 0);
        let attached = self.db.stats().transactions.attached;
        transaction.commit_with(word(durability))?;
        world.coverage.hit("transaction");
        self.is_attached = self.db.stats().transactions.attached > attached;
        if self.is_attached {
            world.coverage.hit("transaction whose runs were attached");
        } else if has_spilled {
            world.coverage.hit("transaction that was read back");
        }
        // This transaction never commits, so its writes must never be visible.
        let options = match number % 16 {
            0 => TransactionOptions::new().memory(0),
            _ => TransactionOptions::new(),
        };
        let forgotten = self.db.begin_with(&options);
        for op in ops {
            let (WriteOp::Put { key, .. }
            | WriteOp::Delete { key }
            | WriteOp::Merge { key, .. }
            | WriteOp::DeleteRange { start: key, .. }) = op;
            // The put may spill while the disk is full or failing, which the next commit detects.
            if forgotten.put(self.keyspace(key), &key[1..], "forgotten").is_err() {
                break;
            }
        }
        self.forgotten = Some(forgotten);
        Ok(())
    }

    /// Adds a write to a transaction.
    fn add(&self, transaction: &mut Transaction, op: &WriteOp) -> Result<(), Error> {
        match op {
            WriteOp::Put { key, value } => {
                transaction.get(self.keyspace(key), &key[1..])?;
                transaction.put(self.keyspace(key), &key[1..], value)
            }
            WriteOp::Delete { key } => transaction.delete(self.keyspace(key), &key[1..]),
            WriteOp::Merge { key, operand } => transaction.merge(self.keyspace(key), &key[1..], operand),
            WriteOp::DeleteRange { start, end } => {
                let (from, to) = range_of(start, end);
                transaction.delete_range(self.keyspace(start), from, to)
            }
        }
    }

    /// Returns the effect of a commit's writes, as entries for the ledger.
    fn outcome(&self, ops: &[WriteOp]) -> Result<Vec<ModelWrite>, StoryError> {
        let keys = |start: &[u8], end: &[u8]| {
            let mut found = Pairs::new();
            let keyspace = self.keyspace(start);
            match range_of(start, end) {
                (from, Some(to)) => {
                    Self::walk(start[0], keyspace.range(from..to), Ordering::Less, &mut found)?;
                }
                (_, None) => Self::all(start[0], keyspace.unordered(), &mut found)?,
            }
            Ok(found.into_keys().collect())
        };
        outcome(ops, |key| self.get(key), keys)
    }

    /// Records a commit in the ledger, executes it and records its result.
    fn commit(
        &mut self,
        writes: &[ModelWrite],
        durability: PromisedDurability,
        world: &StoryEnvironment,
        act: impl FnOnce(&mut System) -> Result<bool, Error>,
    ) -> Result<(), StoryError> {
        let number = world.ledger.begin(writes);
        let answer = match act(self) {
            Ok(true) => Ok(()),
            Ok(false) => {
                world.ledger.withdraw(number);
                return Err(StoryError::wrong("a condition that holds was refused"));
            }
            Err(error) => Err(trouble(error)),
        };
        world.ledger.answer(number, durability, answer)
    }

    fn swap(
        &mut self,
        key: &[u8],
        new: Option<&[u8]>,
        right: bool,
        world: &StoryEnvironment,
    ) -> Result<(), StoryError> {
        let found = self.get(key)?;
        if !right {
            let wrong = [found.as_deref().unwrap_or_default(), b"!"].concat();
            let keyspace = self.keyspace(key);
            return match keyspace.compare_and_set(&key[1..], Some(&wrong), new) {
                Ok(false) => Ok(()),
                Ok(true) => Err(StoryError::wrong(
                    "a condition that does not hold was let through",
                )),
                Err(error) => Err(trouble(error)),
            };
        }
        let write = ModelWrite {
            key: key.to_vec(),
            value: new.map(<[u8]>::to_vec),
        };
        self.commit(&[write], PromisedDurability::Process, world, |system| {
            system
                .keyspace(key)
                .compare_and_set(&key[1..], found.as_deref(), new)
        })
    }

    /// Drops a keyspace and creates another with the same name. A batch filled before the drop must
    /// have no effect.
    fn drop_keyspace(&mut self, letter: u8, world: &StoryEnvironment) -> Result<(), StoryError> {
        // Release the snapshot, because it reads through a handle that fails after the drop.
        self.snapshot = None;
        let mut gone = Pairs::new();
        let index = KEYSPACES.iter().position(|&of| of == letter);
        let index = index.expect("there is one with the letter");
        Self::all(letter, self.keyspaces[index].unordered(), &mut gone)?;
        let mut writes: Vec<ModelWrite> = gone
            .into_keys()
            .map(|key| ModelWrite { key, value: None })
            .collect();
        for (name, at) in self.db.snapshots() {
            // The keyspace that now has the name was empty when the snapshot was taken.
            writes.extend(
                kept(&name, at, &Pairs::new())
                    .into_iter()
                    .filter(|write| write.key[1] == letter),
            );
        }
        let mut stale = WriteBatch::new();
        for keyspace in &self.keyspaces {
            stale
                .put(keyspace, "stale", "by a batch from before the drop")
                .map_err(trouble)?;
        }
        let name = char::from(letter).to_string();
        self.commit(&writes, PromisedDurability::Process, world, |system| {
            system.db.drop_keyspace(&name).map(|()| true)
        })?;
        world.coverage.hit("keyspace dropped");
        match self.db.write(&stale) {
            Err(Error::KeyspaceDropped { .. }) => {}
            Err(error) => return Err(trouble(error)),
            Ok(()) => {
                return Err(StoryError::wrong(
                    "a batch for a keyspace that was dropped is acknowledged",
                ));
            }
        }
        // Reopen the keyspaces after this one as well.
        self.keyspaces.truncate(index);
        Whole::open_keyspaces(&self.db, self.form, &mut self.keyspaces)
    }

    /// Loads records, or abandons the load, or ends it with an invalid record.
    fn ingest(
        &mut self,
        records: &[(Vec<u8>, Vec<u8>)],
        finishes: bool,
        world: &StoryEnvironment,
    ) -> Result<(), StoryError> {
        let Some((first, _)) = records.first() else {
            return Ok(());
        };
        let mut ingest = self.keyspace(first).begin_ingest().map_err(trouble)?;
        for (key, value) in records {
            ingest.put(&key[1..], value).map_err(trouble)?;
        }
        if !matches!(ingest.put(&first[1..], "again"), Err(Error::Unsorted { .. })) {
            return Err(StoryError::wrong("a key was taken twice"));
        }
        if !finishes {
            world.coverage.hit("ingest given up");
            return Ok(());
        }
        let writes: Vec<ModelWrite> = records
            .iter()
            .map(|(key, value)| ModelWrite {
                key: key.clone(),
                value: Some(value.clone()),
            })
            .collect();
        world.ledger.set_activity(Some("crash in an ingest"));
        self.commit(&writes, PromisedDurability::Disk, world, |_| {
            ingest.finish().map(|_| true)
        })?;
        world.ledger.mark_durable(world.ledger.newest());
        world.coverage.hit("ingest");
        Ok(())
    }

    fn toggle_snapshot(&mut self, world: &StoryEnvironment) -> Result<(), StoryError> {
        match self.snapshot.take() {
            None => self.snapshot = Some((self.db.snapshot(), self.everything()?)),
            Some((snapshot, before)) => {
                if self.everything_at(&snapshot)? != before {
                    return Err(StoryError::wrong(
                        "a snapshot reads otherwise than when it was taken",
                    ));
                }
                world.coverage.hit("snapshot read to its end");
            }
        }
        Ok(())
    }

    fn work(&self, slices: u32) -> Result<(), StoryError> {
        for _ in 0..1 + slices % 6 {
            if !self.db.work().map_err(trouble)? {
                break;
            }
        }
        Ok(())
    }
}

impl Story for Whole {
    type Action = Action;
    type System = System;

    fn name(&self) -> &'static str {
        match (self.access, self.lanes) {
            _ if self.tiers > 1 && self.forms.contains(&HashedForm::Silt) => "whole-on-two-tiers",
            _ if self.tiers > 1 => "whole-on-two-tiers-bundles",
            (log::SegmentAccess::Mapped, 1) => "whole-mapped",
            (log::SegmentAccess::Mapped, _) => "whole-lanes",
            (log::SegmentAccess::Written, _) => "whole-written",
        }
    }

    fn steps(&self, seed: u64, count: usize) -> Vec<RunStep<Action>> {
        ops::steps(seed, count)
    }

    fn create(&self, world: &StoryEnvironment) -> Result<System, StoryError> {
        log::write_as(0);
        let directories = self.directories(world);
        let db = self.options().create_in(directories).map_err(trouble)?;
        self.system(db, world)
    }

    fn open(&self, world: &StoryEnvironment) -> Result<System, StoryError> {
        log::write_as(0);
        let directories = self.directories(world);
        let db = self.options().open_existing_in(directories).map_err(trouble)?;
        self.system(db, world)
    }

    fn apply(
        &self,
        system: &mut System,
        action: &Action,
        world: &StoryEnvironment,
    ) -> Result<(), StoryError> {
        Whole::open_keyspaces(&system.db, system.form, &mut system.keyspaces)?;
        let newest = world.ledger.newest();
        log::write_as(newest % 5);
        let result = match action {
            Action::Commit { ops, durability } => {
                let writes = system.outcome(ops)?;
                system.is_attached = false;
                system.commit(&writes, *durability, world, |system| {
                    system.write(ops, *durability, newest, world).map(|()| true)
                })?;
                if system.is_attached {
                    // The spilled writes and everything before them are durable.
                    world.ledger.mark_durable(world.ledger.newest());
                }
                Ok(())
            }
            Action::Swap { key, new, right } => system.swap(key, new.as_deref(), *right, world),
            Action::Sync => {
                system.db.sync().map_err(trouble)?;
                world.ledger.mark_durable(newest);
                Ok(())
            }
            Action::Checkpoint => {
                world.ledger.set_activity(Some("crash in a checkpoint"));
                system.db.checkpoint().map_err(trouble)?;
                world.coverage.hit("checkpoint");
                world.ledger.mark_durable(newest);
                Ok(())
            }
            Action::Work(slices) => {
                world.ledger.set_activity(Some("crash in the background"));
                system.work(*slices)
            }
            Action::Get(key) => {
                let value = system.get(key)?;
                world.ledger.expect(key, value.as_deref())
            }
            Action::Snapshot => system.toggle_snapshot(world),
            Action::NamedSnapshot => system.toggle_named(world),
            Action::Drop(letter) => system.drop_keyspace(*letter, world),
            Action::Ingest { records, finishes } => system.ingest(records, *finishes, world),
            Action::Compact => {
                world
                    .ledger
                    .set_activity(Some("crash in a compaction of everything"));
                system.db.compact().map_err(trouble)?;
                world.ledger.mark_durable(newest);
                Ok(())
            }
        };
        world.ledger.set_activity(None);
        let stats = system.db.stats();
        world.coverage.add(
            "incorporation",
            stats.tree.incorporations.saturating_sub(system.incorporations),
        );
        system.incorporations = stats.tree.incorporations;
        let has_filter = stats.hashed.is_some_and(|hashed| hashed.filter_bytes > 0);
        match system.form {
            HashedForm::Bot { .. } => world
                .coverage
                .add("list of a bundle of trees", u64::from(has_filter)),
            _ => world
                .coverage
                .add("filter of a bundle of arrays", u64::from(has_filter)),
        }
        result
    }

    fn contents(&self, system: &mut System) -> Result<StoreContents, StoryError> {
        let mut contents = StoreContents::new();
        for (key, value) in system.everything()? {
            contents.add(&key, &value).expect("a map has each key once");
        }
        for ModelWrite { key, value } in system.kept_now()? {
            let value = value.expect("it is there");
            contents.add(&key, &value).expect("a name is there once");
        }
        Ok(contents)
    }

    fn check(&self, system: &mut System) -> Result<Vec<String>, StoryError> {
        let found = if system.db.sequence().is_multiple_of(EVERYTHING) {
            system.db.check()
        } else {
            system.db.check_structure()
        };
        found.map_err(trouble)
    }

    fn close(&self, system: System, world: &StoryEnvironment) -> Result<(), StoryError> {
        system.db.clone().close().map_err(trouble)?;
        world.ledger.mark_durable(world.ledger.newest());
        Ok(())
    }
}

//! Commit and rollback of a transaction.

use super::own_writes::OwnWrites;
use super::spilled_writes::SpilledWrites;
use super::{Transaction, TransactionHandle};
use crate::engine::{
    AttachPreconditions, CommitPreconditions, ConditionVerdict, Engine, IngestAttachment, LaterCommits,
    RangeValidation, TransactionEnd, ValidatedSnapshot, WriteConflict,
};
use crate::error::{Error, Result};
use crate::locking::access_set::AccessSet;
use crate::locking::fault::{IsolationFault, is_planted};
use crate::locking::locks::LockMode;
use crate::options::{Concurrency, Durability, Isolation};
use crate::read::futures::WriteFuture;
use crate::read::iter;
use crate::schema::catalog::{CommitKeyspaces, KeyspaceDefinition};
use crate::schema::format;
use crate::transaction::write_set::WriteSet;
use crate::write::batch::WriteBatch;
use alluvium_base::SequenceNumber;
use std::cell::{Cell, RefCell};
use std::ops::Bound;
use std::sync::Arc;

/// Maximum length of a commit that may use the space reserved for deletes although it does not only
/// delete, in bytes.
const MOST_FREEING_BYTES: u64 = 128 << 10;

/// A transaction that is ready to commit. It owns no handle of the store, so another thread can
/// commit it.
struct PreparedCommit {
    handle: TransactionHandle,
    batch: WriteBatch,
    /// Writes that were moved to runs on disk. If there are any, all other writes of the
    /// transaction have been moved there too.
    spilled: SpilledWrites,
    /// Keys and ranges that the transaction depends on, so no other commit may have changed them
    /// since the transaction began.
    footprint: AccessSet,
}

impl Transaction {
    /// Commits the transaction atomically, with the durability
    /// [`TransactionOptions::durability`](crate::TransactionOptions::durability).
    ///
    /// Committing a read-only transaction never conflicts.
    ///
    /// # Errors
    /// [`Error::Conflict`] if another commit has changed data that the transaction depends on.
    /// Nothing is written then, and the transaction may succeed if it is run again. The errors of
    /// [`Db::write`]; [`Error::TransactionEnded`], [`Error::TransactionTooOld`].
    ///
    /// [`Db::write`]: crate::Db::write
    pub fn commit(self) -> Result<()> {
        let durability = self.options.durability;
        self.commit_at(durability)
    }

    /// Like [`Transaction::commit`], but with the given durability.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        self.commit_at(Some(durability))
    }

    /// Returns a future that commits the transaction, for callers that must not wait for the
    /// device. Pending futures of several transactions share log syncs.
    ///
    /// A locking transaction takes effect during this call rather than in the future. It already
    /// has its locks, so only the sync remains.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// use alluvium::Durability;
    /// let rivers = db.keyspace("rivers")?;
    /// let survey = db.begin();
    /// survey.put(&rivers, "Elbe", "1094 km")?;
    /// pollster::block_on(survey.commit_async(Durability::Disk))?;
    /// assert_eq!(rivers.get("Elbe")?.unwrap(), b"1094 km");
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn commit_async(self, durability: Durability) -> WriteFuture {
        let shared = Arc::clone(&self.shared);
        if self.is_locking() {
            let applied = self.commit_at(Some(durability.min(Durability::Process)));
            // An empty batch is acknowledged only once all commits before it are durable, including
            // this one.
            return WriteFuture::new(
                &shared,
                applied.map(|()| WriteBatch::new().durability(durability)),
            );
        }
        match self.prepare() {
            Ok(prepared) => {
                WriteFuture::deferred(&shared, durability, move |durability| prepared.run(durability))
            }
            Err(error) => WriteFuture::new(&shared, Err(error)),
        }
    }

    fn commit_at(self, durability: Option<Durability>) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let prepared = self.prepare()?;
        if prepared.is_empty() {
            return prepared.run(Durability::Memory).map(drop);
        }
        shared.healthy()?;
        prepared
            .run(durability.unwrap_or(shared.engine.durability))
            .map(drop)
    }

    /// Encodes the transaction's writes as a batch, and collects the keys and ranges that it
    /// depends on. If only a little was spilled, it is read back, so that the commit is logged like
    /// any other. Otherwise all writes are spilled.
    fn prepare(self) -> Result<PreparedCommit> {
        drop(self.enter_open()?);
        let mut own = self.own.lock();
        let is_logged = own.spilled.is_empty() || self.is_logged(&own);
        if !is_logged {
            self.spill(&mut own)?;
        }
        drop(own);
        let OwnWrites {
            sets, mut spilled, ..
        } = self.own.into_inner();
        let mut batch = WriteBatch::new();
        let (footprint, observed) = self.tracker.into_inner().into_parts();
        let snapshot = self.options.isolation == Isolation::Snapshot;
        let optimistic = self.options.concurrency == Concurrency::Optimistic;
        let mut written = WrittenKeys {
            footprint,
            observed,
            are_validated: snapshot && optimistic && !is_planted(IsolationFault::FirstCommitterLoses),
        };
        if is_logged && !spilled.is_empty() {
            let entered = self.handle.open.enter()?;
            let engine = &self.handle.engine;
            std::mem::take(&mut spilled).read_back(engine, &mut batch, |definition, key, is_merge| {
                written.add(definition, key, is_merge);
            })?;
            drop(entered);
        }
        let left_out = is_planted(IsolationFault::KeyspaceIsLeftOut) && sets.len() > 1;
        for set in sets.values().skip(usize::from(left_out)) {
            set.add_to(&mut batch)?;
            written.add_set(set);
        }
        if self.options.frees_space && batch.commit.len() <= MOST_FREEING_BYTES {
            batch.commit.grows = false;
        }
        Ok(PreparedCommit {
            handle: self.handle,
            batch,
            spilled,
            footprint: written.footprint,
        })
    }
}

/// The keys and ranges that a commit depends on. Those that the transaction has written to are
/// added here.
struct WrittenKeys {
    footprint: AccessSet,
    observed: AccessSet,
    /// Whether written keys are validated, because the first committer wins under snapshot
    /// isolation.
    are_validated: bool,
}

impl WrittenKeys {
    /// Adds a written tree key.
    fn add(&mut self, definition: &Arc<KeyspaceDefinition>, key: &[u8], is_merge: bool) {
        if !self.are_validated {
            return;
        }
        match is_merge && definition.merges_commute && !self.observed.contains(definition, key) {
            true => self.footprint.add_merge(definition, key),
            false => self.footprint.add_point(definition, key),
        }
    }

    fn add_set(&mut self, set: &WriteSet) {
        if !self.are_validated {
            return;
        }
        let definition = set.keyspace().definition();
        set.visit_writes(|key, is_merge| {
            self.add(definition, &format::tree_key(&definition.prefix, key), is_merge);
        });
        let ranges = set
            .deleted_ranges()
            .filter(|_| !is_planted(IsolationFault::DeletedRangesAreNoWrites));
        for (start, end) in ranges {
            let high = end.map_or(Bound::Unbounded, Bound::Excluded);
            let bounds = (Bound::Included(start), high);
            self.footprint
                .add_range(definition, &iter::bounds::<&[u8]>(definition, &bounds));
        }
    }
}

impl PreparedCommit {
    fn is_empty(&self) -> bool {
        self.batch.is_empty() && self.spilled.is_empty()
    }

    /// Commits the transaction, and returns the sequence number of its last write.
    fn run(self, durability: Durability) -> Result<SequenceNumber> {
        let (engine, open) = (&*self.handle.engine, &*self.handle.open);
        let entered = open.enter()?;
        if self.is_empty() {
            engine.is_open()?;
            drop(entered);
            self.handle.end(TransactionEnd::Committed);
            return Ok(engine.visible());
        }
        // If the store rejects writes, this error takes precedence over conflicts.
        engine.health()?;
        // A transaction without reads (a blind write) depends on nothing, so it needs no
        // validation.
        let is_blind = self.footprint.len() == 0;
        let committed = match open.concurrency {
            _ if !self.spilled.is_empty() => self.attach(engine),
            Concurrency::Optimistic if is_blind => {
                let owners = self.batch.owners();
                engine.commit_if(&self.batch.commit, owners, durability, None)
            }
            Concurrency::Locking => {
                let owners = self.batch.owners();
                let seen = durability.min(Durability::Process);
                engine.commit_if(
                    &self.batch.commit,
                    owners,
                    seen,
                    Some(&CommitPreconditions::LOCKED),
                )
            }
            Concurrency::Optimistic => self.validate_and_commit(engine, durability),
        };
        drop(entered);
        let how = match &committed {
            Ok(_) => TransactionEnd::Committed,
            Err(Error::Conflict { .. }) => TransactionEnd::Conflict,
            Err(_) => TransactionEnd::RolledBack,
        };
        // End the transaction before the sync, to release its locks early. Another transaction that
        // then reads these writes logs its own after them, so its writes cannot become durable
        // first.
        self.handle.end(how);
        let last = committed?.expect("a commit without a condition is made");
        if open.concurrency == Concurrency::Locking && durability == Durability::Disk {
            engine.sync_through(last)?;
        }
        Ok(last)
    }

    /// Returns the mode in which validation locks written keys, and how it validates ranges.
    fn asks(&self) -> (LockMode, RangeValidation) {
        let open = &self.handle.open;
        match open.isolation {
            Isolation::Serializable => (LockMode::Blind, RangeValidation::ByValue { now_ms: open.now_ms }),
            Isolation::Snapshot => (LockMode::Exclusive, RangeValidation::ByWrites),
        }
    }

    fn validate_and_commit(&self, engine: &Engine, durability: Durability) -> Result<Option<SequenceNumber>> {
        let (open, commit) = (&*self.handle.open, &self.batch.commit);
        let place = open.place().expect("an optimistic transaction has a place");
        let (mode, ranges) = self.asks();
        let recent = engine
            .validate_without_locks(place, &self.footprint, ranges)?
            .map_err(|met| conflict(engine, &met))?;
        let met: Cell<Option<WriteConflict>> = Cell::new(None);
        let condition = || {
            let found = engine.written_above(recent.place(), &self.footprint, ranges)?;
            let verdict = match found {
                Some(_) => ConditionVerdict::Stop,
                None => ConditionVerdict::Go,
            };
            met.set(found);
            Ok(verdict)
        };
        let terms = CommitPreconditions {
            condition: Some(&condition),
            mode,
            reads: &|set| self.footprint.lock(set),
            is_locked: false,
        };
        let owners = self.batch.owners();
        let committed = engine.commit_if(commit, owners, durability, Some(&terms))?;
        match met.take() {
            Some(met) => Err(conflict(engine, &met)),
            None => Ok(committed),
        }
    }

    /// Commits a transaction with spilled writes by attaching its runs to the store.
    fn attach(&self, engine: &Engine) -> Result<Option<SequenceNumber>> {
        let open = &*self.handle.open;
        let members = self.spilled.members(engine)?;
        let terms = SpilledPreconditions::new(engine, self);
        // A transaction without reads (a blind write) depends on nothing, except under snapshot
        // isolation, which also validates written keys.
        let is_blind = self.footprint.len() == 0 && open.isolation == Isolation::Serializable;
        let is_asked = open.concurrency == Concurrency::Optimistic && !is_blind;
        let attached = engine.attach(&IngestAttachment {
            ingests: &self.spilled.ingests(),
            stretches: &self.spilled.stretches(),
            owners: CommitKeyspaces::Batch(&members),
            is_locked: open.concurrency == Concurrency::Locking,
            terms: is_asked.then_some(&terms as &dyn AttachPreconditions),
        })?;
        if attached.is_some() {
            engine.count_attached();
        }
        match terms.met.take() {
            Some(met) => Err(conflict(engine, &met)),
            None => Ok(attached),
        }
    }
}

/// The conditions to validate when a transaction with spilled writes commits.
struct SpilledPreconditions<'p> {
    engine: &'p Engine,
    prepared: &'p PreparedCommit,
    /// Sequence number up to which [`AttachPreconditions::prepare`] has found no conflict.
    recent: RefCell<Option<ValidatedSnapshot<'p>>>,
    /// Sequence number up to which no commit conflicts.
    validated: Cell<SequenceNumber>,
    /// The commits with sequence numbers greater than `validated` that
    /// [`AttachPreconditions::capture`] found in memory.
    captured: RefCell<Option<LaterCommits<'p>>>,
    /// The conflict found by the last validation, if any.
    met: Cell<Option<WriteConflict>>,
}

impl<'p> SpilledPreconditions<'p> {
    fn new(engine: &'p Engine, prepared: &'p PreparedCommit) -> SpilledPreconditions<'p> {
        let place = prepared.handle.open.place();
        SpilledPreconditions {
            engine,
            prepared,
            recent: RefCell::new(None),
            validated: Cell::new(place.unwrap_or_default()),
            captured: RefCell::new(None),
            met: Cell::new(None),
        }
    }

    /// Returns whether spilled keys are validated, which is the case under snapshot isolation
    /// because the first committer wins.
    fn asks_spilled_keys(&self) -> bool {
        self.prepared.handle.open.isolation == Isolation::Snapshot
            && !is_planted(IsolationFault::SpilledWritesAreNotValidated)
    }

    /// Returns the newest pinned sequence number up to which no commit conflicts. Dictionary
    /// searches find only commits above a pinned number.
    fn pinned(&self) -> SequenceNumber {
        let recent = self.recent.borrow();
        let place = self.prepared.handle.open.place();
        let place = place.expect("an optimistic transaction has a place");
        recent.as_ref().map_or(place, ValidatedSnapshot::place)
    }

    /// Returns a spilled key that a commit after `place` has written to, if there is one. If the
    /// keys of these commits are not known, looks up every spilled key in the store, which takes a
    /// while.
    fn spilled_key_written(&self, place: SequenceNumber) -> Result<Option<WriteConflict>> {
        let engine = self.engine;
        if !self.asks_spilled_keys() || engine.is_newest(place) {
            return Ok(None);
        }
        let spilled = &self.prepared.spilled;
        if let Some(met) = engine.find_write_above(place, spilled.ranges(), spilled)? {
            return Ok(met);
        }
        let found = spilled.find_key(|key, dictionary| engine.is_written_above(place, key, dictionary))?;
        Ok(found.map(|(definition, key)| WriteConflict { definition, key }))
    }

    /// Returns a conflict with commits that are all in memory. Only the keys of these commits are
    /// looked up among the spilled keys, so the time depends on the number of these commits.
    fn conflict_in(&self, commits: &LaterCommits<'_>) -> Result<Option<WriteConflict>> {
        let (_, ranges) = self.prepared.asks();
        let met = commits.find_conflict(&self.prepared.footprint, ranges)?;
        if met.is_some() || !self.asks_spilled_keys() {
            return Ok(met);
        }
        let spilled = &self.prepared.spilled;
        commits.find_write(spilled.ranges(), spilled)
    }
}

impl AttachPreconditions for SpilledPreconditions<'_> {
    fn prepare(&self) -> Result<()> {
        if self.engine.commits_in_memory(self.validated.get()).is_some() {
            return Ok(());
        }
        let ((_, ranges), place) = (self.prepared.asks(), self.pinned());
        let recent = self
            .engine
            .validate_without_locks(place, &self.prepared.footprint, ranges)?
            .map_err(|met| conflict(self.engine, &met))?;
        if let Some(met) = self.spilled_key_written(place)? {
            return Err(conflict(self.engine, &met));
        }
        self.validated.set(recent.place().max(self.validated.get()));
        *self.recent.borrow_mut() = Some(recent);
        Ok(())
    }

    fn capture(&self) -> bool {
        let captured = self.engine.commits_in_memory(self.validated.get());
        let is_whole = captured.is_some();
        *self.captured.borrow_mut() = captured;
        is_whole
    }

    fn validate_captured(&self) -> Result<()> {
        let captured = self.captured.borrow_mut().take().expect("commits were captured");
        let flushed = captured.flushed();
        match self.conflict_in(&captured)? {
            Some(met) => Err(conflict(self.engine, &met)),
            None => {
                self.validated.set(flushed.max(self.validated.get()));
                Ok(())
            }
        }
    }

    fn holds(&self, may_take_long: bool) -> Result<Option<ConditionVerdict>> {
        let met = match self.engine.commits_in_memory(self.validated.get()) {
            Some(commits) => self.conflict_in(&commits)?,
            None if !may_take_long => return Ok(None),
            None => {
                let ((_, ranges), place) = (self.prepared.asks(), self.pinned());
                match self
                    .engine
                    .written_above(place, &self.prepared.footprint, ranges)?
                {
                    Some(met) => Some(met),
                    None => self.spilled_key_written(place)?,
                }
            }
        };
        let verdict = match met {
            Some(_) => ConditionVerdict::Stop,
            None => ConditionVerdict::Go,
        };
        self.met.set(met);
        Ok(Some(verdict))
    }
}

fn conflict(engine: &Engine, met: &WriteConflict) -> Error {
    let (keyspace, key) = (met.definition.name(), engine.users_key(&met.key).1);
    Error::Conflict { keyspace, key }
}

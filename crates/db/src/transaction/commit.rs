//! The end of a transaction.

use super::{Handle, Transaction};
use crate::engine::{Ended, Engine, Met, Ranges, Terms, Verdict};
use crate::fault::{Fault, is_planted};
use crate::footprint::Footprint;
use crate::format;
use crate::futures::Write;
use crate::iter;
use crate::locks::LockMode;
use crate::transaction_options::{Concurrency, Isolation};
use crate::{Durability, Error, Result, WriteBatch};
use alluvium_base::Sequence;
use std::cell::Cell;
use std::ops::Bound;

/// A transaction that is about to be committed, without handles of the store.
struct Prepared {
    handle: Handle,
    batch: WriteBatch,
    /// What must not have been written to since it began.
    footprint: Footprint,
}

impl Transaction {
    /// Commits: all of the transaction takes effect, or nothing. It is acknowledged as
    /// [`TransactionOptions::durability`](crate::TransactionOptions::durability) says.
    ///
    /// A transaction that has written nothing cannot fail for what others have done.
    ///
    /// # Errors
    /// [`Error::Conflict`]: nothing is written, and another run may succeed. As [`Db::write`];
    /// [`Error::TransactionEnded`], [`Error::TransactionTooOld`].
    ///
    /// [`Db::write`]: crate::Db::write
    pub fn commit(self) -> Result<()> {
        let durability = self.options.durability;
        self.commit_at(durability)
    }

    /// As [`Transaction::commit`], acknowledged when `durability` holds.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        self.commit_at(Some(durability))
    }

    /// Returns a future of the commit, for callers that must not wait for the device. Transactions
    /// whose futures wait at the same time share syncs.
    ///
    /// A locking transaction, which has nothing to wait for but the device, takes effect at once.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// use alluvium::Durability;
    /// let rivers = db.keyspace("rivers")?;
    /// let mut survey = db.begin();
    /// survey.put(&rivers, "Elbe", "1094 km")?;
    /// pollster::block_on(survey.commit_async(Durability::Disk))?;
    /// assert_eq!(rivers.get("Elbe")?.unwrap(), b"1094 km");
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn commit_async(self, durability: Durability) -> Write {
        let shared = std::sync::Arc::clone(&self.shared);
        if self.is_locking() {
            let applied = self.commit_at(Some(durability.min(Durability::Process)));
            // An empty batch: its acknowledgement says that all before it is durable, too.
            return Write::new(
                &shared,
                applied.map(|()| WriteBatch::new().durability(durability)),
            );
        }
        match self.prepare() {
            Ok(prepared) => Write::deferred(&shared, durability, move |durability| prepared.run(durability)),
            Err(error) => Write::new(&shared, Err(error)),
        }
    }

    fn commit_at(self, durability: Option<Durability>) -> Result<()> {
        let shared = std::sync::Arc::clone(&self.shared);
        let prepared = self.prepare()?;
        if prepared.batch.is_empty() {
            return prepared.run(Durability::Memory).map(drop);
        }
        shared.healthy()?;
        prepared
            .run(durability.unwrap_or(shared.engine.durability))
            .map(drop)
    }

    /// Encodes the writes, and finds out what they depend on.
    fn prepare(self) -> Result<Prepared> {
        drop(self.enter_open()?);
        let mut batch = WriteBatch::new();
        let mut footprint = self.tracker.into_inner().into_footprint();
        let snapshot = self.options.isolation == Isolation::Snapshot;
        let optimistic = self.options.concurrency == Concurrency::Optimistic;
        let left_out = is_planted(Fault::KeyspaceIsLeftOut) && self.writes.len() > 1;
        for set in self.writes.values().skip(usize::from(left_out)) {
            set.add_to(&mut batch)?;
            if !(snapshot && optimistic) || is_planted(Fault::FirstCommitterLoses) {
                continue;
            }
            // The first committer wins.
            let definition = set.keyspace().definition();
            set.visit_keys(|key| {
                footprint.add_point(definition, &format::tree_key(&definition.prefix, key));
            });
            let ranges = set
                .deleted_ranges()
                .filter(|_| !is_planted(Fault::DeletedRangesAreNoWrites));
            for (start, end) in ranges {
                let high = end.map_or(Bound::Unbounded, Bound::Excluded);
                let bounds = (Bound::Included(start), high);
                footprint.add_range(definition, &iter::bounds::<&[u8]>(definition, &bounds));
            }
        }
        Ok(Prepared {
            handle: self.handle,
            batch,
            footprint,
        })
    }
}

impl Prepared {
    /// Commits, and returns the number of the last write.
    fn run(self, durability: Durability) -> Result<Sequence> {
        let (engine, open) = (&*self.handle.engine, &*self.handle.open);
        let entered = open.enter()?;
        if self.batch.is_empty() {
            engine.is_open()?;
            drop(entered);
            self.handle.end(Ended::Committed);
            return Ok(engine.visible());
        }
        // What is written without having been read depends on nothing.
        let is_blind = self.footprint.len() == 0;
        let committed = match open.concurrency {
            Concurrency::Optimistic if is_blind => {
                let owners = self.batch.owners();
                engine.commit_if(&self.batch.commit, owners, durability, None)
            }
            Concurrency::Locking => {
                let owners = self.batch.owners();
                let seen = durability.min(Durability::Process);
                engine.commit_if(&self.batch.commit, owners, seen, Some(&Terms::LOCKED))
            }
            Concurrency::Optimistic => self.validate_and_commit(engine, durability),
        };
        drop(entered);
        let how = match &committed {
            Ok(_) => Ended::Committed,
            Err(Error::Conflict { .. }) => Ended::Conflict,
            Err(_) => Ended::RolledBack,
        };
        // Its locks are released: others need not wait for the device. What they read is in the log
        // before what they write, and so is durable before it.
        self.handle.end(how);
        let last = committed?.expect("a commit without a condition is made");
        if open.concurrency == Concurrency::Locking && durability == Durability::Disk {
            engine.sync_through(last)?;
        }
        Ok(last)
    }

    fn validate_and_commit(&self, engine: &Engine, durability: Durability) -> Result<Option<Sequence>> {
        let (open, commit) = (&*self.handle.open, &self.batch.commit);
        let place = open.place().expect("an optimistic transaction has a place");
        let (mode, ranges) = match open.isolation {
            Isolation::Serializable => (LockMode::Blind, Ranges::ByValue { now_ms: open.now_ms }),
            Isolation::Snapshot => (LockMode::Exclusive, Ranges::ByWrites),
        };
        let conflict = |met: Met| {
            let (keyspace, key) = (met.definition.name(), engine.users_key(&met.key).1);
            Error::Conflict { keyspace, key }
        };
        let recent = engine
            .unwritten_until(place, &self.footprint, ranges)?
            .map_err(conflict)?;
        let met: Cell<Option<Met>> = Cell::new(None);
        let condition = || {
            let found = engine.written_above(recent.place(), &self.footprint, ranges)?;
            let verdict = match found {
                Some(_) => Verdict::Stop,
                None => Verdict::Go,
            };
            met.set(found);
            Ok(verdict)
        };
        let terms = Terms {
            condition: Some(&condition),
            mode,
            reads: &|set| self.footprint.lock(set),
            is_locked: false,
        };
        let owners = self.batch.owners();
        let committed = engine.commit_if(commit, owners, durability, Some(&terms))?;
        match met.take() {
            Some(met) => Err(conflict(met)),
            None => Ok(committed),
        }
    }
}

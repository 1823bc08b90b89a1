//! The open store without its threads. It commits and reads, and divides background work into
//! slices that any thread may run.
//!
//! *Scope*: how sequence numbers are assigned, when a memtable is sealed, when a checkpoint is due,
//! how writes are throttled, and which commits a reader sees.
//!
//! *Must not depend on*: threads, names of keyspaces, the handles of the public API.
//!
//! Invariants:
//!
//! - **E1** A memtable contains exactly the commits above its base sequence number, up to and
//!   including its cut (the last sequence number before it was sealed). A dictionary contains
//!   exactly the commits to its keys up to its own cut. At a checkpoint all dictionaries have the
//!   same cut. Quarantined pages are the exception: the manifest stores the writes that they have
//!   not received.
//! - **E2** A reader at sequence number S sees every commit up to S and no commit above S. The
//!   reader picks S first, then loads the list of memtables, then loads the version of the tree. It
//!   skips the memtables that this version of the tree already contains.
//! - **E3** The tree discards a version of a key only if no present or future reader can see that
//!   version at its read position.
//! - **E4** A commit is acknowledged once three conditions hold: the commit is visible, all earlier
//!   commits are visible, and the durability requested for the commit is reached.
//! - **E5** Memtables are flushed oldest first. A memtable is flushed only after every commit up to
//!   its cut has become visible.
//! - **E6** No commit writes to a keyspace after that keyspace has been dropped. Writers check the
//!   keyspace while they pin `writers`, and dropping a keyspace waits until all these pins are
//!   released.
//! - **E7** The versions that are visible to a named snapshot are kept until the removal of the
//!   snapshot is durable.

mod advice;
mod balance;
pub(crate) mod check;
mod checkpoint;
mod commit;
mod commit_record;
mod committed_keys;
mod compaction_backoff;
mod compaction_turns;
mod conditional_locks;
mod copy;
mod counters;
pub(crate) mod distribution;
mod guard;
mod ingest;
pub(crate) mod latencies;
mod lookup;
pub(crate) mod lost_commits;
mod memory;
mod model_query;
mod open_transactions;
mod policy;
pub(crate) mod progress;
mod queue;
mod readers;
mod record_cache;
mod recovery;
mod rewrite;
mod sizes;
mod snapshots;
#[cfg(test)]
mod sorted_scan;
mod steps;
mod structures;
mod throttle;
mod time;
mod transaction_locks;
mod unlogged_voids;
mod validate;
mod visible_sequence;

#[cfg(all(test, not(alluvium_model_check)))]
mod tests;

pub(crate) use commit::{CommitPreconditions, ConditionVerdict};
pub(crate) use commit_record::CommitRecord;
pub(crate) use committed_keys::{CommitObserver, CommittedKeys};
pub(crate) use counters::{EngineCounter, thread_number};
pub(crate) use ingest::{AttachPreconditions, IngestAttachment, RunningIngest};
pub(crate) use lookup::{PolledRead, ReadPosition};
pub use memory::MemoryUse;
pub(crate) use open_transactions::{OpenTransaction, OperationGuard, TransactionEnd};
pub use open_transactions::{TransactionInfo, TransactionStats};
pub(crate) use policy::{ThrottleCause, WorkerDuty};
pub(crate) use readers::StructureScan;
pub use record_cache::RecordStats;
pub(crate) use recovery::StoreSalvage;
pub(crate) use steps::SliceOutcome;
pub(crate) use transaction_locks::single_key_range;
pub(crate) use validate::{LaterCommits, OwnWrites, RangeValidation, ValidatedSnapshot, WriteConflict};

use crate::advise::advice::TrialHistory;
use crate::advise::choices::SettingChoice;
use crate::advise::forecast::ForecastHistory;
use crate::advise::workload::WorkloadMonitor;
use crate::error::{Error, Result};
use crate::locking::fault::{IsolationFault, is_planted};
use crate::options::Durability;
use crate::options::kind::DictionaryPlace;
use crate::options::store::ResolvedOptions;
use crate::schema::catalog::KeyspaceCatalog;
use alluvium_base::SequenceNumber;
use alluvium_dictionary::memtables::MemtableOwner;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::Epochs;
use alluvium_storage::extents::ReclaimLimit;
use alluvium_storage::store::Store;
use conditional_locks::ConditionalLocks;
use counters::EngineCounters;
use ingest::IngestRegistry;
use memory::StoreMemoryBudget;
use open_transactions::OpenTransactions;
use parking_lot::{Mutex, RwLock};
use queue::{MemtableQueue, UnfilteredMemtables};
use record_cache::RecordCache;
use snapshots::SnapshotRegistry;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use steps::BackgroundWork;
use structures::DictionarySet;
use throttle::WriteThrottle;
use time::ReadingTime;
use transaction_locks::TransactionLocks;
use unlogged_voids::UnloggedVoids;
use visible_sequence::VisibleSequence;

pub(crate) struct Engine {
    pub(crate) store: Arc<Store>,
    pub(crate) dictionaries: DictionarySet,
    pub(crate) catalog: Arc<KeyspaceCatalog>,
    pub(crate) plan: ResolvedOptions,
    pub(crate) durability: Durability,
    time: ReadingTime,
    queue: Arc<MemtableQueue>,
    visible: VisibleSequence,
    /// Pinned by every commit while it is in progress, so that other threads can wait for all
    /// running commits.
    writers: Epochs,
    stripes: ConditionalLocks,
    snapshots: SnapshotRegistry,
    transactions: OpenTransactions,
    pub(crate) locks: TransactionLocks,
    pub(crate) ingests: IngestRegistry,
    pub(crate) committed_keys: Arc<CommittedKeys>,
    records: RecordCache,
    budget: StoreMemoryBudget,
    work: BackgroundWork,
    throttle: WriteThrottle,
    pub(crate) counters: EngineCounters,
    pub(crate) workload_monitor: WorkloadMonitor,
    pub(crate) forecasts: ForecastHistory,
    pub(crate) trials: TrialHistory,
    /// The settings that the store chose when it was opened, with the reasons for each choice.
    pub(crate) chosen: Vec<SettingChoice>,
    /// The structure that the store chose for keyspaces whose options do not name one. It is
    /// computed on first use, because explaining the choice requires running the cost models.
    pub(crate) chosen_structure: OnceLock<Option<SettingChoice>>,
    unlogged_voids: UnloggedVoids,
    /// Serialises changes to the keyspace catalog.
    pub(crate) schema: Mutex<()>,
    closed: AtomicBool,
    /// Whether the store was opened read-only. A read-only store rejects all changes and must not
    /// modify its files.
    reads_only: bool,
    /// Held in shared mode by threads that copy the store to another directory. Closing the store
    /// acquires it exclusively to wait for these copies.
    pub(crate) copying: RwLock<()>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("directory", &self.store.directory().describe())
            .field("visible", &self.visible.at())
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Returns the sequence number of the newest commit that is visible to a reader starting now.
    /// All commits with lower numbers are visible, too.
    pub(crate) fn visible(&self) -> SequenceNumber {
        self.visible.at()
    }

    /// Returns the current time in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        self.time.now()
    }

    /// Pins the newest visible sequence number for a reader and returns it. The caller must release
    /// it with [`Engine::close_snapshot`]. A compaction that starts while a sequence number is
    /// pinned does not apply compaction filters, because the reader may already have seen the
    /// entries that a filter would remove.
    pub(crate) fn open_snapshot(&self) -> SequenceNumber {
        self.dictionaries.horizon().hold_filters();
        let missed = u64::from(is_planted(IsolationFault::BeginIsStale));
        self.snapshots.open(|| self.visible.at().saturating_sub(missed))
    }

    /// Pins the sequence number `at` for a reader. The versions visible at `at` must already be
    /// protected, for example by another pin.
    pub(crate) fn open_snapshot_at(&self, at: SequenceNumber) {
        self.dictionaries.horizon().hold_filters();
        self.snapshots.open(|| at);
    }

    /// Releases a sequence number that was pinned for a reader.
    pub(crate) fn close_snapshot(&self, at: SequenceNumber) {
        self.snapshots.close(at);
        self.dictionaries.horizon().release_filters();
    }

    /// Records that the commit with sequence number `removed` removed the named snapshot at
    /// sequence number `at`. The versions visible to the snapshot must be kept until commit
    /// `removed` is durable, because crash recovery may otherwise bring the snapshot back.
    pub(crate) fn leave_snapshot(&self, at: SequenceNumber, removed: SequenceNumber) {
        self.snapshots.leave(at, removed);
    }

    /// Releases the sequence numbers of named snapshots whose removal has become durable.
    fn close_left_snapshots(&self) {
        for at in self.snapshots.left(self.synced()) {
            self.close_snapshot(at);
        }
    }

    /// Waits until every commit that is in progress when this is called has finished.
    pub(crate) fn wait_for_writers(&self) {
        conditional_locks::wait_for_grace_period(&self.writers, || {});
    }

    /// Creates a scan of the live keys of a dictionary in `range`, as of the pinned sequence number
    /// `at`.
    pub(crate) fn scan(
        &self,
        place: DictionaryPlace,
        range: KeyRange,
        direction: MergeDirection,
        at: SequenceNumber,
    ) -> StructureScan {
        self.scan_by_clock(place, range, direction, at, self.now_ms())
    }

    /// Like [`Engine::scan`], but uses `now_ms` (milliseconds since 1970) instead of the current
    /// time to decide which entries have expired.
    pub(crate) fn scan_by_clock(
        &self,
        place: DictionaryPlace,
        range: KeyRange,
        direction: MergeDirection,
        at: SequenceNumber,
        now_ms: u64,
    ) -> StructureScan {
        let queue = Arc::clone(&self.queue);
        let memtables: Arc<dyn MemtableOwner> = match at <= self.visible.at() {
            true => queue,
            false => Arc::new(UnfilteredMemtables(queue)),
        };
        let dictionary = self.dictionaries.structure(place);
        dictionary.scan(memtables, range, direction, at, now_ms)
    }

    /// Returns whether flushes or compactions are pending that may make writers wait.
    pub(crate) fn is_busy(&self) -> bool {
        self.queue.sealed() > 0 || self.compactions() > 0
    }

    /// Returns the number of sealed memtables that are waiting to be flushed.
    pub(crate) fn sealed(&self) -> usize {
        self.queue.sealed()
    }

    /// Returns the number of sequence numbers pinned for readers.
    pub(crate) fn snapshots(&self) -> usize {
        self.snapshots.len()
    }

    /// Returns the number of commits since the oldest pinned sequence number, or 0 if none is
    /// pinned.
    pub(crate) fn held_commits(&self) -> u64 {
        let oldest = self.snapshots.oldest();
        oldest.map_or(0, |oldest| self.visible.at().saturating_sub(oldest))
    }

    /// Returns the statistics of the record cache.
    pub(crate) fn record_stats(&self) -> RecordStats {
        self.records.stats()
    }

    /// Checks whether the store's directory or one of its files was removed. If so, the store
    /// rejects all further changes.
    pub(crate) fn notice_removal(&self) {
        if !self.reads_only
            && self.store.health().is_ok()
            && let Err(error) = self.store.require_files()
        {
            tracing::error!(%error, "the store refuses all changes from now on");
        }
    }

    /// Makes every commit acknowledged so far durable, so that it survives a power failure.
    pub(crate) fn sync(&self) -> Result<()> {
        self.notice_removal();
        self.store.health()?;
        self.mark_time()?;
        self.sync_through(self.visible.at())?;
        Ok(self.store.poison_on_error(self.store.log().mark_synced())?)
    }

    /// Returns the sequence number up to which all commits are durable, so that they survive a
    /// power failure.
    pub(crate) fn synced(&self) -> SequenceNumber {
        self.store.log().synced()
    }

    /// Returns whether the calling thread is inside a read or a write of this store, because the
    /// application called the store from one of its own callbacks.
    pub(crate) fn is_inside_call(&self) -> bool {
        self.store.epochs().is_pinned_here() || self.writers.is_pinned_here()
    }

    /// Fails if the store is closed.
    pub(crate) fn is_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        Ok(())
    }

    /// Fails if the store is closed or read-only, or if it rejects changes after an earlier error.
    pub(crate) fn health(&self) -> Result<()> {
        self.is_open()?;
        if self.reads_only {
            return Err(Error::ReadOnly);
        }
        Ok(self.store.health()?)
    }

    /// Flushes all memtables, makes a checkpoint and closes the log, so that the next opening has
    /// no log records to replay.
    pub(crate) fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        drop(self.copying.write());
        self.ingests.end();
        self.store.health()?;
        let result = self.close_down();
        self.visible.stop();
        result
    }

    /// Abandons the store without flushing memtables, as if the process had crashed. Commits that
    /// are not in the log are lost.
    pub(crate) fn abandon(&self) {
        self.closed.store(true, Ordering::Release);
        self.visible.stop();
    }

    fn close_down(&self) -> Result<()> {
        self.wait_for_writers();
        if !self.reads_only {
            match self.checkpoint_everything() {
                // The disk is full, so the memtables cannot be flushed. Their commits stay in the
                // log, and the next opening replays them.
                Err(error) if error.is_full() => {}
                other => other?,
            }
        }
        self.drop_steps();
        // Another process may open the store once it is closed. Wait for all running readers, and
        // for asynchronous reads whose results have not been collected.
        conditional_locks::wait_for_grace_period(self.store.epochs(), || self.store.cache().finish_arrived());
        self.note_time();
        if !self.reads_only {
            self.give_back_a_little()?;
        }
        Ok(self.store.close()?)
    }

    /// Returns space freed by the last checkpoints to the file system, so that the files of a small
    /// store are small after closing. Makes a limited number of attempts.
    fn give_back_a_little(&self) -> Result<()> {
        // Each call advances the epoch. Freed space becomes reusable once no reader of an older
        // epoch remains.
        for _ in 0..3 {
            self.store.reclaim(ReclaimLimit::default())?;
        }
        Ok(())
    }
}

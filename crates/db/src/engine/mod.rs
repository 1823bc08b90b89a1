//! The open store without threads: commits, reads, and the work in the background as slices that
//! anybody may do.
//!
//! *Knows*: which sequence number a write gets, when a memtable is sealed and a checkpoint due, who
//! must wait, what a reader sees.
//!
//! *Does not know*: threads, names of keyspaces, what users hold in their hands.
//!
//! *Read in this order*: `queue.rs` (memtables and numbers), `record.rs`, `gaps.rs`, `commit.rs`,
//! `visible.rs`, `stripes.rs` (conditional writes), `locking.rs` (locks of transactions),
//! `validate.rs` and `open_transactions.rs`, `ingest.rs`, `snapshots.rs`, `dictionaries/` and
//! `readers.rs` (which structure), `lookup/` (point lookups), `sizes.rs`, `records/` (what is
//! read often), `work.rs` (the steps) with `policy.rs` (which is next) and
//! `aside.rs` (damage), `checkpoint.rs` and
//! `rewrite.rs` (all of it), `guard.rs` (panics), `throttle.rs` (who must wait), `balance.rs` and
//! `memory.rs` (the caches' shares), `time.rs` (what has expired), `open.rs` (recovery),
//! `copy.rs` (backups), `choices.rs`,
//! `forecast/` (what the store should cost) and `advice/` (changes that are undone).
//!
//! Invariants:
//!
//! - **E1** A memtable holds exactly the commits above its base, up to its cut; a dictionary holds
//!   exactly those about its keys up to its cut. At a checkpoint all dictionaries have the same,
//!   but for pages that were set aside: the manifest has what they have not taken.
//! - **E2** A reader at a place sees every commit up to it and none above: it takes the place
//!   first, then the list of memtables, then the tree's version, and leaves out the memtables that
//!   the version holds.
//! - **E3** What the tree forgets is older than every place that anyone reads at.
//! - **E4** A commit is acknowledged when it and all before it are visible, and its durability
//!   holds.
//! - **E5** Memtables are incorporated in their order, each once every commit up to its cut is
//!   visible.
//! - **E6** No commit writes to a keyspace that was dropped before it: writers ask while they pin
//!   `writers`, and a drop waits for them.
//! - **E7** What a named snapshot holds is kept until its removal survives the loss of power.

mod advice;
mod aside;
mod balance;
mod checkpoint;
mod choices;
mod commit;
mod copy;
mod dictionaries;
mod forecast;
mod gaps;
mod guard;
mod ingest;
mod locking;
mod lookup;
mod memory;
mod open;
mod open_transactions;
mod policy;
mod queue;
mod readers;
mod record;
mod records;
mod rewrite;
mod sizes;
mod snapshots;
#[cfg(test)]
mod sorted;
mod stripes;
mod tallies;
mod throttle;
mod time;
mod validate;
mod visible;
mod work;

#[cfg(all(test, not(alluvium_model_check)))]
mod tests;

pub use advice::{Advice, Outcome, Trial};
pub use choices::Choice;
pub(crate) use commit::{Terms, Verdict};
pub use forecast::{Comparison, Forecast, PastHour, Quantity};
pub(crate) use ingest::{AttachTerms, Attachment, UnderWay};
pub(crate) use locking::only;
pub(crate) use lookup::{At, Polled};
pub use memory::MemoryUse;
pub(crate) use open::Salvaged;
pub(crate) use open_transactions::{Ended, Entered, OpenTransaction};
pub use open_transactions::{TransactionInfo, TransactionStats};
pub(crate) use policy::{Cause, Duty};
pub(crate) use readers::Scan;
pub(crate) use record::Commit;
pub use records::RecordStats;
pub(crate) use tallies::{Tally, thread_number};
pub(crate) use validate::{Met, Ranges, Recent};
pub(crate) use work::Worked;

use crate::catalog::Catalog;
use crate::fault::{Fault, is_planted};
use crate::options::{Durability, Plan};
use crate::structure::Structure;
use crate::workload::Watches;
use crate::{Error, Result};
use advice::Trials;
use alluvium_base::Sequence;
use alluvium_dictionary::memtables::Memtables;
use alluvium_dictionary::merge::Direction;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::Epochs;
use alluvium_storage::extents::ReclaimLimit;
use alluvium_storage::store::Store;
use dictionaries::Dictionaries;
use forecast::Forecasts;
use gaps::Gaps;
use ingest::Ingests;
use locking::Locks;
use memory::Budget;
use open_transactions::OpenTransactions;
use parking_lot::{Mutex, RwLock};
use queue::{Queue, Unsettled};
use records::Records;
use snapshots::Snapshots;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use stripes::Stripes;
use tallies::Tallies;
use throttle::Pressure;
use time::ReadingTime;
use visible::Visible;
use work::Work;

/// An open store.
pub(crate) struct Engine {
    pub(crate) store: Arc<Store>,
    pub(crate) dictionaries: Dictionaries,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) plan: Plan,
    pub(crate) durability: Durability,
    time: ReadingTime,
    queue: Arc<Queue>,
    visible: Visible,
    /// Commits under way pin it.
    writers: Epochs,
    stripes: Stripes,
    snapshots: Snapshots,
    transactions: OpenTransactions,
    pub(crate) locks: Locks,
    pub(crate) ingests: Ingests,
    records: Records,
    budget: Budget,
    work: Work,
    pressure: Pressure,
    pub(crate) tallies: Tallies,
    pub(crate) watches: Watches,
    pub(crate) forecasts: Forecasts,
    pub(crate) trials: Trials,
    /// What was chosen at opening, and why.
    pub(crate) chosen: Vec<Choice>,
    /// The structure of keyspaces that name none, once a caller has asked: models compute why.
    pub(crate) chosen_structure: OnceLock<Option<Choice>>,
    gaps: Gaps,
    /// Held while the catalog changes.
    pub(crate) schema: Mutex<()>,
    closed: AtomicBool,
    /// Whether it refuses all changes: what is below it must stay as it is.
    reads_only: bool,
    /// Shared by the threads that copy the store elsewhere.
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
    /// Returns the newest commit that a reader which begins now sees; it sees all before it, too.
    pub(crate) fn visible(&self) -> Sequence {
        self.visible.at()
    }

    /// The time, in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        self.time.now()
    }

    /// Pins what is visible now for a reader, until [`Engine::close_snapshot`]. No compaction that
    /// begins meanwhile asks filters, for the reader has seen what they remove.
    pub(crate) fn open_snapshot(&self) -> Sequence {
        self.dictionaries.horizon().hold_filters();
        let missed = u64::from(is_planted(Fault::BeginIsStale));
        self.snapshots.open(|| self.visible.at().saturating_sub(missed))
    }

    /// Pins a place for a reader that is kept otherwise.
    pub(crate) fn open_snapshot_at(&self, at: Sequence) {
        self.dictionaries.horizon().hold_filters();
        self.snapshots.open(|| at);
    }

    /// Releases a place that a reader has pinned.
    pub(crate) fn close_snapshot(&self, at: Sequence) {
        self.snapshots.close(at);
        self.dictionaries.horizon().release_filters();
    }

    /// The named snapshot of this place was removed by the commit `removed`. What it held may be
    /// forgotten once that survives the loss of power:
    /// before, the name may come back.
    pub(crate) fn leave_snapshot(&self, at: Sequence, removed: Sequence) {
        self.snapshots.leave(at, removed);
    }

    /// Closes the places of named snapshots whose removal is durable.
    fn close_left_snapshots(&self) {
        for at in self.snapshots.left(self.synced()) {
            self.close_snapshot(at);
        }
    }

    /// Waits until every commit that is under way now is done.
    pub(crate) fn wait_for_writers(&self) {
        stripes::grace(&self.writers, || {});
    }

    /// The keys of a structure within a range that have a value, as of a place that is kept.
    pub(crate) fn scan(
        &self,
        structure: Structure,
        range: KeyRange,
        direction: Direction,
        at: Sequence,
    ) -> Scan {
        self.scan_by_clock(structure, range, direction, at, self.now_ms())
    }

    /// As [`Engine::scan`], for a reader by another clock: the time in milliseconds since 1970.
    pub(crate) fn scan_by_clock(
        &self,
        structure: Structure,
        range: KeyRange,
        direction: Direction,
        at: Sequence,
        now_ms: u64,
    ) -> Scan {
        let queue = Arc::clone(&self.queue);
        let memtables: Arc<dyn Memtables> = match at <= self.visible.at() {
            true => queue,
            false => Arc::new(Unsettled(queue)),
        };
        let dictionary = self.dictionaries.structure(structure);
        dictionary.scan(memtables, range, direction, at, now_ms)
    }

    /// Returns whether there is work that writers wait for.
    pub(crate) fn is_busy(&self) -> bool {
        self.queue.sealed() > 0 || self.compactions() > 0
    }

    /// How many memtables wait to be written out.
    pub(crate) fn sealed(&self) -> usize {
        self.queue.sealed()
    }

    /// Returns how many places readers have pinned.
    pub(crate) fn snapshots(&self) -> usize {
        self.snapshots.len()
    }

    /// Returns how many commits lie behind the oldest place that readers have pinned.
    pub(crate) fn held_commits(&self) -> u64 {
        let oldest = self.snapshots.oldest();
        oldest.map_or(0, |oldest| self.visible.at().saturating_sub(oldest))
    }

    /// The record cache.
    pub(crate) fn record_stats(&self) -> RecordStats {
        self.records.stats()
    }

    /// Notices that the store's directory or a file of it was removed: changes are refused then.
    pub(crate) fn notice_removal(&self) {
        if !self.reads_only
            && self.store.health().is_ok()
            && let Err(error) = self.store.require_files()
        {
            tracing::error!(%error, "the store refuses changes from now on");
        }
    }

    /// Makes everything that was acknowledged survive the loss of power.
    pub(crate) fn sync(&self) -> Result<()> {
        self.notice_removal();
        self.store.health()?;
        self.mark_time()?;
        self.sync_through(self.visible.at())?;
        Ok(self.store.judge(self.store.log().mark_synced())?)
    }

    /// Every commit up to this one survives the loss of power.
    pub(crate) fn synced(&self) -> Sequence {
        self.store.log().synced()
    }

    /// Returns whether the calling thread is reading or writing: it runs code of the program from
    /// within.
    pub(crate) fn is_used_here(&self) -> bool {
        self.store.epochs().is_pinned_here() || self.writers.is_pinned_here()
    }

    /// Fails once the store was closed.
    pub(crate) fn is_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        Ok(())
    }

    /// Fails once the store was closed, or refuses changes.
    pub(crate) fn health(&self) -> Result<()> {
        self.is_open()?;
        if self.reads_only {
            return Err(Error::ReadOnly);
        }
        Ok(self.store.health()?)
    }

    /// What is in memory goes into the tree, a checkpoint is made, and the log is closed: the next
    /// opening has nothing to replay.
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

    /// Closes nothing: what is not in the log is lost, as when the process dies.
    pub(crate) fn abandon(&self) {
        self.closed.store(true, Ordering::Release);
        self.visible.stop();
    }

    fn close_down(&self) -> Result<()> {
        self.wait_for_writers();
        if !self.reads_only {
            match self.checkpoint_everything() {
                // The log keeps what the disk has no room for.
                Err(error) if error.is_full() => {}
                other => other?,
            }
        }
        self.drop_steps();
        // All readers that have begun are done before another process may open the store; so are
        // reads whose callers have not come back for them.
        stripes::grace(self.store.epochs(), || self.store.cache().finish_arrived());
        self.note_time();
        if !self.reads_only {
            self.give_back_a_little()?;
        }
        Ok(self.store.close()?)
    }

    /// Gives what has died with the last checkpoints back to the file system, as far as that takes
    /// a few calls: a small store is closed small.
    fn give_back_a_little(&self) -> Result<()> {
        // Epochs move on from one to the next, and what readers might have seen becomes free.
        for _ in 0..3 {
            self.store.reclaim(ReclaimLimit::default())?;
        }
        Ok(())
    }
}

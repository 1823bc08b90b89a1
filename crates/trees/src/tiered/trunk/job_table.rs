//! The states of compaction jobs, and how they change as flushes, splits and merges go on.
//!
//! A job compacts one pivot. It stores the pivot's height, range, first live bundle and own parts.
//! The job's result is installed only if all of these are unchanged; otherwise it is discarded. A
//! pivot has at most one job.
//!
//! ```text
//!             plan           take            built           install
//!   (none) ─────────► queued ─────► running ───────► (matches) ─────► installed
//!                       │ │            │ │ │
//!           flushed ◄───┘ │            │ │ └── fails (no room, a device) ──► failed, queued again
//!        reshaped ◄───────┘            │ └──── the pivot was flushed ──────► discarded
//!  (split, merged)                     └────── reshaped ───────────────────► discarded
//! ```

use alluvium_dictionary::range::KeyRange;
use std::collections::BTreeMap;
use std::fmt;

pub(crate) type JobId = u64;

/// Identifies the pivot that a job compacts. The job's result is installed only if the pivot still
/// has these properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobClaim {
    pub height: u8,
    pub range: KeyRange,
    /// The number of the pivot's first live bundle.
    pub first: u64,
    /// Numbers of the groups of the pivot's own parts, oldest to newest.
    pub own: Vec<u64>,
}

/// A state transition of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JobTransition {
    Planned,
    /// A worker has started the job.
    Taken,
    Installed,
    /// The pivot was flushed before the job started.
    QueuedFlushed,
    /// The pivot was split or merged, or its parts changed, before the job started.
    QueuedReshaped,
    /// The pivot was flushed while the job was running, so the job's output is discarded.
    RunningFlushed,
    /// The pivot was split or merged, or its parts changed, while the job was running, so the job's
    /// output is discarded.
    RunningReshaped,
    /// The job failed because the disk was full or the device failed.
    Failed,
}

impl JobTransition {
    pub const ALL: [JobTransition; 8] = [
        JobTransition::Planned,
        JobTransition::Taken,
        JobTransition::Installed,
        JobTransition::QueuedFlushed,
        JobTransition::QueuedReshaped,
        JobTransition::RunningFlushed,
        JobTransition::RunningReshaped,
        JobTransition::Failed,
    ];
}

impl fmt::Display for JobTransition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JobTransition::Planned => "compaction planned",
            JobTransition::Taken => "compaction taken",
            JobTransition::Installed => "compaction installed",
            JobTransition::QueuedFlushed => "queued compaction overtaken by a flush",
            JobTransition::QueuedReshaped => "queued compaction overtaken by a split or merge",
            JobTransition::RunningFlushed => "running compaction overtaken by a flush",
            JobTransition::RunningReshaped => "running compaction overtaken by a split or merge",
            JobTransition::Failed => "compaction failed",
        })
    }
}

/// The due and running compactions: the work that writes have left behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeDebt {
    /// Number of compactions that are due but have not started.
    pub pending_jobs: u64,
    /// Approximate number of bytes that the due compactions will read.
    pub pending_bytes: u64,
    pub running_jobs: u64,
    /// Approximate number of bytes that the running compactions read in total.
    pub running_bytes: u64,
}

impl TreeDebt {
    /// Returns the approximate number of bytes that all due and running compactions read.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pending_bytes + self.running_bytes
    }
}

/// The progress of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionState {
    /// The compaction is planned, but no worker has started it.
    Queued,
    Running,
}

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobStatus {
    Queued,
    Running,
}

/// Why a job's result is no longer needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AbandonReason {
    /// The pivot was flushed to its child.
    Flushed,
    /// The pivot no longer exists, or its parts have changed.
    Reshaped,
}

#[derive(Debug)]
struct JobEntry {
    claim: JobClaim,
    state: JobStatus,
    /// Approximate number of bytes that the job reads.
    bytes: u64,
    /// Whether the same compaction has failed before. A failed job is planned again under a new
    /// identifier.
    has_failed: bool,
}

/// All due and running compaction jobs of a tree.
#[derive(Debug, Default)]
pub(crate) struct JobTable {
    next: JobId,
    jobs: BTreeMap<JobId, JobEntry>,
    /// The job of each pivot, by the pivot's height and low key.
    pivots: BTreeMap<(u8, Box<[u8]>), JobId>,
    edges: BTreeMap<JobTransition, u64>,
    debt: TreeDebt,
}

impl JobTable {
    fn count(&mut self, edge: JobTransition) {
        *self.edges.entry(edge).or_default() += 1;
    }

    /// Returns how often each state transition has occurred.
    #[must_use]
    pub(super) fn edges(&self) -> &BTreeMap<JobTransition, u64> {
        &self.edges
    }

    /// Returns the job of the pivot with this height and low key, or `None` if it has none.
    #[must_use]
    pub(crate) fn job_of(&self, height: u8, low: &[u8]) -> Option<JobId> {
        self.pivots.get(&(height, low.into())).copied()
    }

    /// Returns the progress of a pivot's job, or `None` if the pivot has no job.
    #[must_use]
    pub(crate) fn underway(&self, height: u8, low: &[u8]) -> Option<CompactionState> {
        let job = self.job_of(height, low)?;
        Some(match self.jobs.get(&job)?.state {
            JobStatus::Queued => CompactionState::Queued,
            JobStatus::Running => CompactionState::Running,
        })
    }

    /// Returns a job's claim, or `None` if the job no longer exists.
    #[must_use]
    pub(crate) fn claim(&self, job: JobId) -> Option<&JobClaim> {
        self.jobs.get(&job).map(|entry| &entry.claim)
    }

    /// Returns the height and the low key of each pivot that has a job.
    pub(crate) fn pivots(&self) -> impl Iterator<Item = (u8, Box<[u8]>)> {
        self.pivots.keys().cloned()
    }

    /// Returns the approximate memory of the table in bytes.
    #[must_use]
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.jobs.len() * (size_of::<JobEntry>() + 128)) as u64
    }

    /// Returns the number of due and running jobs.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        debug_assert_eq!(self.jobs.len(), self.pivots.len(), "a job for a pivot");
        self.jobs.len()
    }

    /// Returns the number and size of the due and running compactions.
    #[must_use]
    pub(crate) fn debt(&self) -> TreeDebt {
        self.debt
    }

    /// Plans a job for the pivot that `claim` identifies. The job will read about `bytes` bytes.
    /// Returns the identifier of the new job. If the pivot already has a job, returns `None`, and
    /// updates that job's number of bytes unless it has started.
    pub(crate) fn plan(&mut self, claim: JobClaim, bytes: u64) -> Option<JobId> {
        let pivot = (claim.height, claim.range.low.clone());
        if let Some(job) = self.pivots.get(&pivot) {
            let entry = self.jobs.get_mut(job).expect("a pivot's job is among the jobs");
            if entry.state == JobStatus::Queued {
                assert!(self.debt.pending_bytes >= entry.bytes, "it is counted");
                self.debt.pending_bytes = self.debt.pending_bytes - entry.bytes + bytes;
                entry.bytes = bytes;
            }
            return None;
        }
        self.next += 1;
        self.pivots.insert(pivot, self.next);
        let state = JobStatus::Queued;
        let entry = JobEntry {
            claim,
            state,
            bytes,
            has_failed: false,
        };
        debug_assert!(!self.jobs.contains_key(&self.next), "numbers are new");
        self.jobs.insert(self.next, entry);
        self.debt.pending_jobs += 1;
        self.debt.pending_bytes += bytes;
        debug_assert_eq!(self.jobs.len(), self.pivots.len(), "a job for a pivot");
        self.count(JobTransition::Planned);
        Some(self.next)
    }

    /// Returns the job to run next, or `None` if no queued job may run. `prefer` receives a job's
    /// claim and whether the job has failed before. It returns the job's priority, or `None` if the
    /// job must not run now. The job with the lowest value is selected, or of several with that
    /// value, the one planned first.
    #[must_use]
    pub(crate) fn queued<K: Ord>(&self, prefer: impl Fn(&JobClaim, bool) -> Option<K>) -> Option<JobId> {
        let queued = self
            .jobs
            .iter()
            .filter(|(_, entry)| entry.state == JobStatus::Queued);
        queued
            .filter_map(|(id, entry)| Some((prefer(&entry.claim, entry.has_failed)?, *id)))
            .min()
            .map(|(_, id)| id)
    }

    /// Marks a queued job as started by a worker.
    pub(crate) fn take(&mut self, job: JobId) {
        let entry = self.jobs.get_mut(&job).expect("a job that is taken was queued");
        assert_eq!(entry.state, JobStatus::Queued, "a job is taken once");
        entry.state = JobStatus::Running;
        let (bytes, debt) = (entry.bytes, &mut self.debt);
        assert!(debt.pending_jobs > 0 && debt.pending_bytes >= bytes, "counted");
        debt.pending_jobs -= 1;
        debt.pending_bytes -= bytes;
        debt.running_jobs += 1;
        debt.running_bytes += bytes;
        self.count(JobTransition::Taken);
    }

    /// Returns whether a job's result is still needed.
    #[must_use]
    pub(crate) fn is_wanted(&self, job: JobId) -> bool {
        self.jobs.contains_key(&job)
    }

    /// Removes a job whose result is no longer needed.
    pub(super) fn abandon(&mut self, job: JobId, why: AbandonReason) {
        let Some(JobEntry { state, .. }) = self.remove(job) else {
            return;
        };
        self.count(match (state, why) {
            (JobStatus::Queued, AbandonReason::Flushed) => JobTransition::QueuedFlushed,
            (JobStatus::Queued, AbandonReason::Reshaped) => JobTransition::QueuedReshaped,
            (JobStatus::Running, AbandonReason::Flushed) => JobTransition::RunningFlushed,
            (JobStatus::Running, AbandonReason::Reshaped) => JobTransition::RunningReshaped,
        });
    }

    /// Removes a job whose result has been installed.
    pub(crate) fn installed(&mut self, job: JobId) {
        self.remove(job).expect("a job that is installed was running");
        self.count(JobTransition::Installed);
    }

    /// Removes a job that failed or whose worker stopped, and plans the same compaction again under
    /// a new identifier.
    pub(crate) fn failed(&mut self, job: JobId) {
        if let Some(JobEntry { claim, bytes, .. }) = self.remove(job) {
            self.count(JobTransition::Failed);
            if let Some(again) = self.plan(claim, bytes) {
                let entry = self.jobs.get_mut(&again).expect("it was just planned");
                entry.has_failed = true;
            }
        }
    }

    fn remove(&mut self, job: JobId) -> Option<JobEntry> {
        let entry = self.jobs.remove(&job)?;
        self.pivots
            .remove(&(entry.claim.height, entry.claim.range.low.clone()));
        let debt = &mut self.debt;
        let (jobs, bytes) = match entry.state {
            JobStatus::Queued => (&mut debt.pending_jobs, &mut debt.pending_bytes),
            JobStatus::Running => (&mut debt.running_jobs, &mut debt.running_bytes),
        };
        assert!(*jobs > 0 && *bytes >= entry.bytes, "jobs are counted");
        *jobs -= 1;
        *bytes -= entry.bytes;
        Some(entry)
    }

    /// Returns every job and its claim, for comparison with the current trunk.
    pub(super) fn claims(&self) -> impl Iterator<Item = (JobId, &JobClaim)> {
        self.jobs.iter().map(|(id, entry)| (*id, &entry.claim))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(low: &[u8]) -> JobClaim {
        JobClaim {
            height: 1,
            range: KeyRange::new(low, None),
            first: 3,
            own: vec![7],
        }
    }

    #[test]
    fn a_pivot_has_one_job_at_a_time() {
        let mut table = JobTable::default();
        let job = table.plan(claim(b"a"), 10).unwrap();
        assert_eq!(table.plan(claim(b"a"), 10), None);
        assert_eq!(table.job_of(1, b"a"), Some(job));
        table.take(job);
        table.installed(job);
        assert!(table.plan(claim(b"a"), 10).is_some());
    }

    #[test]
    fn every_edge_is_counted() {
        let mut table = JobTable::default();
        for (running, why) in [
            (false, AbandonReason::Flushed),
            (false, AbandonReason::Reshaped),
            (true, AbandonReason::Flushed),
            (true, AbandonReason::Reshaped),
        ] {
            let job = table.plan(claim(b"a"), 10).unwrap();
            if running {
                table.take(job);
            }
            table.abandon(job, why);
            assert!(!table.is_wanted(job));
            table.abandon(job, why);
        }
        let job = table.plan(claim(b"a"), 10).unwrap();
        table.take(job);
        table.failed(job);
        let job = table.job_of(1, b"a").expect("it is due again");
        table.take(job);
        table.installed(job);
        let counts: Vec<u64> = JobTransition::ALL
            .iter()
            .map(|edge| table.edges()[edge])
            .collect();
        assert_eq!(counts, [6, 4, 1, 1, 1, 1, 1, 1]);
        assert_eq!(table.len(), 0);
        assert_eq!(table.debt(), TreeDebt::default());
    }

    #[test]
    fn the_debt_is_the_sum_of_the_jobs() {
        let mut table = JobTable::default();
        let job = table.plan(claim(b"a"), 10).unwrap();
        table.plan(claim(b"b"), 20);
        table.plan(claim(b"a"), 13);
        let debt = |table: &JobTable| {
            let debt = table.debt();
            [
                debt.pending_jobs,
                debt.pending_bytes,
                debt.running_jobs,
                debt.running_bytes,
            ]
        };
        assert_eq!(debt(&table), [2, 33, 0, 0]);
        table.take(job);
        table.plan(claim(b"a"), 100);
        assert_eq!((debt(&table), table.debt().bytes()), ([1, 20, 1, 13], 33));
        table.failed(job);
        assert_eq!(debt(&table), [2, 33, 0, 0]);
    }

    #[test]
    fn the_preferred_job_is_done_first() {
        let mut table = JobTable::default();
        let (a, b) = (
            table.plan(claim(b"a"), 10).unwrap(),
            table.plan(claim(b"b"), 10).unwrap(),
        );
        assert_eq!(table.queued(|_, _| Some(0)), Some(a));
        assert_eq!(
            table.queued(|claim, _| Some(std::cmp::Reverse(claim.range.low.clone()))),
            Some(b)
        );
        let but_b = |claim: &JobClaim, _| (*claim.range.low != *b"b").then_some(0);
        assert_eq!(table.queued(but_b), Some(a));
        table.take(a);
        assert_eq!(table.queued(|_, _| Some(0)), Some(b));
        assert_eq!(table.queued(but_b), None);
        table.failed(a);
        let again = table.job_of(1, b"a");
        assert_eq!(table.queued(|_, has_failed| Some(!has_failed)), again);
        assert_eq!(table.queued(|_, has_failed| Some(has_failed)), Some(b));
    }
}

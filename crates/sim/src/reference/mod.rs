//! The reference model. It records the commits and the promise made for each, and derives which
//! states a crash may leave.
//!
//! *Scope*: keys, values (by digest), the order of commits, and the durability at which each was
//! acknowledged.
//!
//! *Must not depend on*: files, devices, or how the system under test keeps its promises.
//!
//! Invariants:
//!
//! - **R1** Commits are numbered from 1 in commit order. `state(n)` is the map after the first `n`
//!   commits. `state(0)` is the base, which no crash may lose.
//! - **R2** `durable` never decreases. All commits up to this number survive everything but a
//!   hardware fault.

mod judge;
mod verdict;

pub use judge::{CrashHistory, SurvivingCommits};
pub use verdict::{PromiseViolation, ViolationKind};

use alluvium_base::checksum;
use alluvium_base::checksum::seeded;
use std::collections::{BTreeMap, BTreeSet};

/// The durability of an acknowledged commit, from the weakest to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PromisedDurability {
    /// The commit is visible, but any crash may lose it.
    Memory,
    /// The commit survives a process crash.
    Process,
    /// The commit survives a power failure.
    Disk,
}

/// What a commit does to one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModelWrite {
    pub key: Vec<u8>,
    /// The new value of the key, or `None` if the commit deletes the key.
    pub value: Option<Vec<u8>>,
}

/// The progress of a commit as its caller sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CommitStatus {
    /// The commit has begun, and the caller has no answer yet.
    InFlight,
    /// The caller was told that the commit succeeded.
    Acknowledged(PromisedDurability),
    /// The caller got an error that leaves open whether the commit took effect.
    InDoubt,
}

/// The promises that the store had made at some moment, by which a crash at that moment can later
/// be judged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PromiseSnapshot {
    pub(crate) durable: usize,
    /// The status of each commit begun by then, in commit order.
    pub(crate) statuses: Vec<CommitStatus>,
}

impl PromiseSnapshot {
    /// Returns the number of commits begun by then.
    #[must_use]
    pub fn newest(&self) -> usize {
        self.statuses.len()
    }

    /// Returns the promises as if only the first `number` commits were durable. This is for judging
    /// damage that a store cannot distinguish from a commit that never reached the disk.
    #[must_use]
    pub fn durable_up_to(self, number: usize) -> PromiseSnapshot {
        PromiseSnapshot {
            durable: number,
            ..self
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ReferenceCommit {
    /// The effect of the commit on each of its keys. If a batch writes a key repeatedly, the last
    /// write counts.
    pub(crate) writes: BTreeMap<Vec<u8>, Option<u64>>,
    pub(crate) status: CommitStatus,
}

/// The contents found in a store: a digest of each value, and a hash of all pairs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreContents {
    pub(crate) pairs: BTreeMap<Vec<u8>, u64>,
    pub(crate) hash: u64,
}

/// Returns a pair's contribution to the hash of a map. The hash is the sum of all contributions, so
/// it can be updated in constant time when a pair changes.
fn share(key: &[u8], value: u64) -> u64 {
    seeded(value, key)
}

impl StoreContents {
    #[must_use]
    pub fn new() -> StoreContents {
        StoreContents::default()
    }

    /// Adds a key-value pair to the contents.
    ///
    /// # Errors
    /// The key if it was already added, because a scan must not return a key twice.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), Vec<u8>> {
        let value = checksum(value);
        if self.pairs.insert(key.to_vec(), value).is_some() {
            return Err(key.to_vec());
        }
        self.hash = self.hash.wrapping_add(share(key, value));
        Ok(())
    }

    /// Returns the number of key-value pairs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Returns whether there are no key-value pairs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Returns a hash of all pairs, regardless of the order in which they were added.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// The history of a store as its callers observed it.
///
/// ```
/// use alluvium_sim::reference::{
///     CrashHistory, ModelWrite, PromisedDurability, ReferenceModel, StoreContents,
/// };
/// let mut reference = ReferenceModel::new();
/// let put = |key: &str| {
///     vec![ModelWrite {
///         key: key.into(),
///         value: Some(b"v".to_vec()),
///     }]
/// };
/// let first = reference.begin(&put("a"));
/// reference.acknowledge(first, PromisedDurability::Disk);
/// reference.begin(&put("b")); // no answer yet
///
/// let mut found = StoreContents::new();
/// assert!(
///     reference.judge(CrashHistory::POWER, &found).is_err(),
///     "an acknowledged commit is lost"
/// );
/// found.add(b"a", b"v").unwrap();
/// assert!(reference.judge(CrashHistory::POWER, &found).is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct ReferenceModel {
    pub(crate) commits: Vec<ReferenceCommit>,
    /// All versions of each key, and the numbers of the commits that wrote them. Number 0 stands
    /// for the base.
    pub(crate) versions: BTreeMap<Vec<u8>, Vec<(usize, Option<u64>)>>,
    /// The element `prefixes[n]` is the hash of `state(n)`.
    pub(crate) prefixes: Vec<u64>,
    pub(crate) durable: usize,
}

impl Default for ReferenceModel {
    fn default() -> Self {
        Self::new()
    }
}

impl ReferenceModel {
    /// Creates the history of an empty store.
    #[must_use]
    pub fn new() -> ReferenceModel {
        Self::on_base(StoreContents::new())
    }

    fn on_base(base: StoreContents) -> ReferenceModel {
        ReferenceModel {
            commits: Vec::new(),
            versions: base
                .pairs
                .into_iter()
                .map(|(key, value)| (key, vec![(0, Some(value))]))
                .collect(),
            prefixes: vec![base.hash],
            durable: 0,
        }
    }

    /// Records that a commit has begun, and returns its number. The commit is in flight until its
    /// outcome is recorded.
    pub fn begin(&mut self, writes: &[ModelWrite]) -> usize {
        let writes = writes
            .iter()
            .map(|write| (write.key.clone(), write.value.as_deref().map(checksum)));
        self.begin_digests(writes.collect(), CommitStatus::InFlight)
    }

    fn begin_digests(&mut self, writes: BTreeMap<Vec<u8>, Option<u64>>, status: CommitStatus) -> usize {
        let number = self.commits.len() + 1;
        let mut hash = *self.prefixes.last().expect("there is always the base");
        for (key, value) in &writes {
            let versions = self.versions.entry(key.clone()).or_default();
            if let Some((_, Some(old))) = versions.last() {
                hash = hash.wrapping_sub(share(key, *old));
            }
            if let Some(new) = value {
                hash = hash.wrapping_add(share(key, *new));
            }
            versions.push((number, *value));
        }
        self.prefixes.push(hash);
        self.commits.push(ReferenceCommit { writes, status });
        number
    }

    /// Records that the caller was told that commit `number` succeeded.
    ///
    /// # Panics
    /// If no commit with this number is in flight, which is a bug in the story.
    pub fn acknowledge(&mut self, number: usize, durability: PromisedDurability) {
        let commit = &mut self.commits[number - 1];
        assert_eq!(
            commit.status,
            CommitStatus::InFlight,
            "commit {number} is answered twice"
        );
        commit.status = CommitStatus::Acknowledged(durability);
        if durability == PromisedDurability::Disk {
            self.durable = self.durable.max(number);
        }
    }

    /// Records that the caller got an error that leaves open whether commit `number` took effect.
    pub fn doubt(&mut self, number: usize) {
        self.commits[number - 1].status = CommitStatus::InDoubt;
    }

    /// Records that the newest commit was rejected before it changed anything, so it must never
    /// become visible.
    ///
    /// # Panics
    /// If `number` is not that of the newest commit.
    pub fn withdraw(&mut self, number: usize) {
        assert_eq!(
            number,
            self.commits.len(),
            "only the newest commit can be withdrawn"
        );
        let commit = self.commits.pop().expect("commits are numbered from 1");
        self.prefixes.pop();
        for key in commit.writes.keys() {
            let versions = self.versions.get_mut(key).expect("a commit's keys have versions");
            versions.pop();
            if versions.is_empty() {
                self.versions.remove(key);
            }
        }
    }

    /// Records that a sync or a durable checkpoint covers every commit up to `number`.
    pub fn mark_durable(&mut self, number: usize) {
        assert!(number <= self.commits.len(), "commit {number} was never begun");
        self.durable = self.durable.max(number);
    }

    #[must_use]
    pub fn view(&self) -> PromiseSnapshot {
        PromiseSnapshot {
            durable: self.durable,
            statuses: self.commits.iter().map(|commit| commit.status).collect(),
        }
    }

    /// Returns the number of commits, which is also the number of the newest commit.
    #[must_use]
    pub fn newest(&self) -> usize {
        self.commits.len()
    }

    /// Returns the number of acknowledged commits.
    #[must_use]
    pub fn acknowledged(&self) -> usize {
        let acknowledged = |commit: &&ReferenceCommit| matches!(commit.status, CommitStatus::Acknowledged(_));
        self.commits.iter().filter(acknowledged).count()
    }

    /// Returns the number of the newest commit that must survive a power failure.
    #[must_use]
    pub fn durable(&self) -> usize {
        self.durable
    }

    /// Returns the digest of a key's value in `state(n)`, or `None` if the key is absent.
    pub(crate) fn value_at(&self, key: &[u8], n: usize) -> Option<u64> {
        let versions = self.versions.get(key)?;
        let newer = versions.partition_point(|(number, _)| *number <= n);
        versions.get(newer.checked_sub(1)?)?.1
    }

    /// Returns whether a read of `key` may return `value` now. A write of a commit in doubt may or
    /// may not be visible.
    #[must_use]
    pub fn reads(&self, key: &[u8], value: Option<&[u8]>) -> bool {
        let value = value.map(checksum);
        for (number, version) in self.versions.get(key).into_iter().flatten().rev() {
            let open = *number > 0 && self.commits[number - 1].status == CommitStatus::InDoubt;
            if *version == value || !open {
                return *version == value;
            }
        }
        value.is_none()
    }

    /// Returns the keys that a scan must return now, in order.
    #[must_use]
    pub fn keys(&self) -> Vec<&[u8]> {
        let live = self
            .versions
            .iter()
            .filter(|(_, versions)| matches!(versions.last(), Some((_, Some(_)))));
        live.map(|(key, _)| &key[..]).collect()
    }

    /// Returns the history that applies once the contents `found` were recovered from a crash.
    /// `survivors` is the result of judging them, and `view` has the promises at the moment of the
    /// crash.
    ///
    /// Contents found after a power failure were read from disk, so they become the base and must
    /// not be lost later. Contents found after a process crash may exist only in the page cache.
    /// Their commits keep their order and must survive another process crash, but only the durable
    /// ones must survive a power failure. If a commit was allowed to be lost and later commits have
    /// overwritten all of its keys, it is unknown whether it survived.
    #[must_use]
    pub fn after(
        &self,
        view: &PromiseSnapshot,
        crash: CrashHistory,
        survivors: &SurvivingCommits,
        found: &StoreContents,
    ) -> ReferenceModel {
        if crash.is_power_loss() {
            return Self::on_base(found.clone());
        }
        let base = self
            .versions
            .iter()
            .filter_map(|(key, versions)| match versions.first() {
                Some((0, Some(value))) => Some((key.clone(), *value)),
                _ => None,
            });
        let mut next = Self::on_base(StoreContents {
            pairs: base.collect(),
            hash: self.prefixes[0],
        });
        let seen = self.seen(view, survivors);
        for (index, commit) in self.commits[..view.newest()].iter().enumerate() {
            if survivors.kept[index] {
                let status = if seen[index] || view.requires(crash, index + 1) {
                    CommitStatus::Acknowledged(PromisedDurability::Process)
                } else {
                    CommitStatus::InDoubt
                };
                let number = next.begin_digests(commit.writes.clone(), status);
                if index < view.durable {
                    next.durable = number;
                }
            }
        }
        next
    }

    /// Returns for each commit whether its effect is visible in the contents, which it is if at
    /// least one of its keys was not written by a later surviving commit.
    fn seen(&self, view: &PromiseSnapshot, survivors: &SurvivingCommits) -> Vec<bool> {
        let mut overwritten: BTreeSet<&[u8]> = BTreeSet::new();
        let mut seen = vec![false; view.newest()];
        for index in (0..view.newest()).rev().filter(|index| survivors.kept[*index]) {
            for key in self.commits[index].writes.keys() {
                seen[index] |= overwritten.insert(key);
            }
        }
        seen
    }
}

#[cfg(test)]
mod tests;

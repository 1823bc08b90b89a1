//! The reference model: the commits, the promises made for each, and the states that a crash may
//! therefore leave.
//!
//! *Scope*: keys, values (by digest), the order of commits, and the durability at which each was
//! acknowledged.
//!
//! *Must not depend on*: files, devices, or how the system under test keeps its promises.
//!
//! Invariants:
//!
//! - **R1** Commits are numbered from 1 in commit order; `state(n)` is the map after the first `n`
//!   commits, and `state(0)` is the base, which is never lost.
//! - **R2** `durable` never decreases: commits up to it survive everything except a hardware fault.

mod judge;
mod verdict;

pub use judge::{CrashHistory, SurvivingCommits};
pub use verdict::{PromiseViolation, ViolationKind};

use alluvium_base::checksum;
use alluvium_base::checksum::seeded;
use std::collections::{BTreeMap, BTreeSet};

/// The durability of an acknowledged commit, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PromisedDurability {
    /// The commit is applied; any crash may lose it.
    Memory,
    /// The commit survives the death of the process.
    Process,
    /// The commit survives power loss.
    Disk,
}

/// One change of a commit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModelWrite {
    pub key: Vec<u8>,
    /// The new value, or `None` for a delete.
    pub value: Option<Vec<u8>>,
}

/// The progress of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CommitStatus {
    /// Begun; the caller has no answer yet.
    InFlight,
    /// The caller was told that the commit holds.
    Acknowledged(PromisedDurability),
    /// The caller was told of an error that leaves open whether the commit holds.
    InDoubt,
}

/// The promises at one moment of the history. A crash at that moment can be judged by it later.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PromiseSnapshot {
    pub(crate) durable: usize,
    /// One entry for each commit that had begun.
    pub(crate) statuses: Vec<CommitStatus>,
}

impl PromiseSnapshot {
    /// Returns the number of commits that had begun.
    #[must_use]
    pub fn newest(&self) -> usize {
        self.statuses.len()
    }

    /// Returns the same view, except that only the first `number` commits are durable: for damage
    /// that a store cannot distinguish from a commit that never reached the disk.
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
    /// One entry per key: the last write of the batch wins.
    pub(crate) writes: BTreeMap<Vec<u8>, Option<u64>>,
    pub(crate) status: CommitStatus,
}

/// The contents of a store as found: digests of values, and a hash of the whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreContents {
    pub(crate) pairs: BTreeMap<Vec<u8>, u64>,
    pub(crate) hash: u64,
}

/// Returns the contribution of a pair to the hash of a map. Contributions are added, so that a
/// change updates the hash in constant time.
fn share(key: &[u8], value: u64) -> u64 {
    seeded(value, key)
}

impl StoreContents {
    #[must_use]
    pub fn new() -> StoreContents {
        StoreContents::default()
    }

    /// Adds a pair.
    ///
    /// # Errors
    /// The key, if it was added before: a scan must not return a key twice.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), Vec<u8>> {
        let value = checksum(value);
        if self.pairs.insert(key.to_vec(), value).is_some() {
            return Err(key.to_vec());
        }
        self.hash = self.hash.wrapping_add(share(key, value));
        Ok(())
    }

    /// Returns the number of pairs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Returns whether there are no pairs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Returns a hash of all pairs, independent of the order in which they were added.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// The history of one store, as its callers saw it.
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
    /// All versions of each key, by the number of the commit; number 0 is the base.
    pub(crate) versions: BTreeMap<Vec<u8>, Vec<(usize, Option<u64>)>>,
    /// `prefixes[n]` is the hash of `state(n)`.
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

    /// Begins a commit, which is in flight until it is answered. Returns its number.
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

    /// Notes that the caller was told that commit `number` holds.
    ///
    /// # Panics
    /// If no such commit is in flight, which is a bug of the story.
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

    /// Notes that the caller was told of an error that leaves open whether commit `number` holds.
    pub fn doubt(&mut self, number: usize) {
        self.commits[number - 1].status = CommitStatus::InDoubt;
    }

    /// Notes that the caller was told that the newest commit was refused before any change: it must
    /// never become visible.
    ///
    /// # Panics
    /// If `number` is not the newest commit.
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

    /// Notes that a sync or a durable checkpoint covers every commit up to `number`.
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

    /// Returns the number of commits, which is the number of the newest one.
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

    /// Returns the newest commit that must survive power loss.
    #[must_use]
    pub fn durable(&self) -> usize {
        self.durable
    }

    /// Returns the digest of a key's value in `state(n)`.
    pub(crate) fn value_at(&self, key: &[u8], n: usize) -> Option<u64> {
        let versions = self.versions.get(key)?;
        let newer = versions.partition_point(|(number, _)| *number <= n);
        versions.get(newer.checked_sub(1)?)?.1
    }

    /// Returns whether a read of `key` may now return `value`. Writes of commits in doubt may be
    /// visible or not.
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

    /// Returns the keys that a scan returns now, in order.
    #[must_use]
    pub fn keys(&self) -> Vec<&[u8]> {
        let live = self
            .versions
            .iter()
            .filter(|(_, versions)| matches!(versions.last(), Some((_, Some(_)))));
        live.map(|(key, _)| &key[..]).collect()
    }

    /// Returns the history after a crash and a recovery with the contents `found`. `survivors` is
    /// the result of the judgement, and `view` has the promises at the moment of the crash.
    ///
    /// Contents found after a power loss were read from disk, so they become the base: they must
    /// not be lost later. Contents found after the death of a process may exist only in the page
    /// cache: these commits keep their order and must survive another death of the process, but
    /// only the durable ones must survive a power loss. If a commit need not have survived and
    /// later commits have overwritten all its keys, it is unknown whether it did.
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

    /// Returns for each commit whether any key shows its write, that is, whether it has a key to
    /// which no later kept commit wrote.
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

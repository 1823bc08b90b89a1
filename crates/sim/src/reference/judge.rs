//! An exact algorithm that judges whether the contents found after a crash are allowed.
//!
//! After a *power failure*, the contents must result from a prefix of the commit order that
//! includes at least the last durable commit. After a *process crash*, every commit acknowledged at
//! `Process` or a higher durability must be present. Every other commit, whether in flight or
//! acknowledged at `Memory`, must be entirely present or entirely absent, independently of the
//! others. If a process crashes and the power fails before the store is reopened, the contents must
//! result from a prefix of a state that the process crash may leave.
//!
//! A greedy algorithm determines whether *some* allowed set of commits explains the contents. It
//! examines the commits from newest to oldest, and keeps a commit if all of its keys have the
//! values that it wrote, ignoring keys overwritten by newer kept commits. Keeping a commit only
//! removes conditions on older commits, so the greedy choice is exact.

use super::{
    CommitStatus, PromiseSnapshot, PromiseViolation, PromisedDurability, ReferenceModel, StoreContents,
};
use std::collections::BTreeSet;

/// The crashes since the store was last open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CrashHistory {
    process: bool,
    power: bool,
}

impl CrashHistory {
    /// No crash: the store is running, or was closed and reopened.
    pub const NONE: CrashHistory = CrashHistory {
        process: false,
        power: false,
    };
    /// The process was killed, for example by `kill -9`.
    pub const PROCESS: CrashHistory = CrashHistory {
        process: true,
        power: false,
    };
    /// The machine lost power.
    pub const POWER: CrashHistory = CrashHistory {
        process: false,
        power: true,
    };

    /// Returns the history of this crash and a second one, with the store not reopened in between.
    #[must_use]
    pub fn then(self, next: CrashHistory) -> CrashHistory {
        // After a power failure only a prefix is left. If a process crashes while it recovers from
        // that, there is nothing more to lose.
        let process = self.process || (next.process && !self.power);
        CrashHistory {
            process,
            power: self.power || next.power,
        }
    }

    /// Returns whether the machine has lost power.
    #[must_use]
    pub fn is_power_loss(self) -> bool {
        self.power
    }
}

/// The set of commits that explains the contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurvivingCommits {
    pub(crate) kept: Vec<bool>,
}

impl SurvivingCommits {
    /// Returns the number of commits that survived.
    #[must_use]
    pub fn count(&self) -> usize {
        self.kept.iter().filter(|&&kept| kept).count()
    }
}

/// What is required of a commit that is older than the end of the surviving prefix.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SurvivalRequirement {
    Must,
    May,
}

impl ReferenceModel {
    /// Judges the contents that a scan returned after `crash`. Returns the commits that explain
    /// them.
    ///
    /// # Errors
    /// A [`PromiseViolation`] that describes the broken promise if no allowed set of commits
    /// explains the contents.
    pub fn judge(
        &self,
        crash: CrashHistory,
        found: &StoreContents,
    ) -> Result<SurvivingCommits, PromiseViolation> {
        self.judge_at(&self.view(), crash, found)
    }

    /// Like [`ReferenceModel::judge`], but judges by the promises in `view`, which were those at
    /// the moment of the crash.
    ///
    /// # Errors
    /// As [`ReferenceModel::judge`].
    pub fn judge_at(
        &self,
        view: &PromiseSnapshot,
        crash: CrashHistory,
        found: &StoreContents,
    ) -> Result<SurvivingCommits, PromiseViolation> {
        let newest = view.newest();
        let lowest = if crash.power { view.durable } else { newest };
        for cut in (lowest..=newest).rev() {
            if self.prefixes[cut] == found.hash {
                let kept = (0..newest).map(|index| index < cut).collect();
                return Ok(SurvivingCommits { kept });
            }
        }
        if crash.process || !crash.power || view.statuses.contains(&CommitStatus::InDoubt) {
            for cut in (lowest..=newest).rev() {
                if let Some(kept) = self.explain(view, crash, cut, found) {
                    return Ok(SurvivingCommits { kept });
                }
            }
        }
        Err(PromiseViolation::describe(self, view, crash, found))
    }

    /// Returns an allowed set of commits, none of them after `cut`, that explains `found`, or
    /// `None` if there is no such set.
    fn explain(
        &self,
        view: &PromiseSnapshot,
        crash: CrashHistory,
        cut: usize,
        found: &StoreContents,
    ) -> Option<Vec<bool>> {
        let must = |number: usize| view.claim(crash, number) == SurvivalRequirement::Must;
        let free = (1..=cut).find(|&number| !must(number)).unwrap_or(cut + 1);
        let mut kept: Vec<bool> = (1..=view.newest()).map(|number| number < free).collect();
        let mut settled = BTreeSet::new();
        for number in (free..=cut).rev() {
            let writes = &self.commits[number - 1].writes;
            let mut open = writes.iter().filter(|(key, _)| !settled.contains(&key[..]));
            if open.all(|(key, value)| found.pairs.get(key) == value.as_ref()) {
                kept[number - 1] = true;
                settled.extend(writes.keys().map(|key| &key[..]));
            } else if must(number) {
                return None;
            }
        }
        let right = |key: &[u8]| {
            settled.contains(key) || self.value_at(key, free - 1) == found.pairs.get(key).copied()
        };
        let mut all = self.versions.keys().chain(found.pairs.keys());
        all.all(|key| right(key)).then_some(kept)
    }
}

impl PromiseSnapshot {
    /// Returns whether commit `number` must have survived the crash.
    pub(super) fn requires(&self, crash: CrashHistory, number: usize) -> bool {
        self.claim(crash, number) == SurvivalRequirement::Must
    }

    fn claim(&self, crash: CrashHistory, number: usize) -> SurvivalRequirement {
        let must = match self.statuses[number - 1] {
            CommitStatus::InDoubt => false,
            _ if number <= self.durable => true,
            // A power failure alone cannot remove a commit from the middle of the surviving prefix.
            CommitStatus::InFlight => !crash.process && crash.power,
            CommitStatus::Acknowledged(PromisedDurability::Memory) => !crash.process,
            CommitStatus::Acknowledged(_) => true,
        };
        if must {
            SurvivalRequirement::Must
        } else {
            SurvivalRequirement::May
        }
    }
}

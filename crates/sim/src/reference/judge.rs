//! Exact judgement of the state after a crash.
//!
//! After a *power loss*, the store is a prefix of the commit order that includes at least the last
//! durable commit. After the death of the *process*, every commit acknowledged at `Process` or
//! better is present; each other commit (in flight, or acknowledged at `Memory`) is present or
//! absent as a whole, independently of the others. After the death of a process followed by a power
//! loss before the store was reopened: a prefix of a state that the first could leave.
//!
//! A greedy algorithm decides whether *some* allowed set of commits explains the contents, from the
//! newest commit to the oldest: a commit is kept if all its keys read as it wrote them, except keys
//! overwritten by newer kept commits. Keeping a commit only removes conditions from older commits,
//! so the greedy choice is exact.

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
    /// Death of the process: `kill -9`.
    pub const PROCESS: CrashHistory = CrashHistory {
        process: true,
        power: false,
    };
    /// Power loss of the machine.
    pub const POWER: CrashHistory = CrashHistory {
        process: false,
        power: true,
    };

    /// Returns this crash followed by another before the store was reopened.
    #[must_use]
    pub fn then(self, next: CrashHistory) -> CrashHistory {
        // A power loss leaves a prefix; a process that dies during the recovery from it has nothing
        // further to lose.
        let process = self.process || (next.process && !self.power);
        CrashHistory {
            process,
            power: self.power || next.power,
        }
    }

    /// Returns whether there was a power loss.
    #[must_use]
    pub fn is_power_loss(self) -> bool {
        self.power
    }
}

/// The commits that explain the contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurvivingCommits {
    pub(crate) kept: Vec<bool>,
}

impl SurvivingCommits {
    /// Returns the number of surviving commits.
    #[must_use]
    pub fn count(&self) -> usize {
        self.kept.iter().filter(|&&kept| kept).count()
    }
}

/// The requirement for a commit below the cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SurvivalRequirement {
    Must,
    May,
}

impl ReferenceModel {
    /// Judges the contents found by a scan after `crash`.
    ///
    /// # Errors
    /// A [`PromiseViolation`] that describes the broken promise, if no allowed set of commits
    /// explains the contents.
    pub fn judge(
        &self,
        crash: CrashHistory,
        found: &StoreContents,
    ) -> Result<SurvivingCommits, PromiseViolation> {
        self.judge_at(&self.view(), crash, found)
    }

    /// Judges the contents found by a scan after a `crash` at the moment of `view`.
    ///
    /// # Errors
    /// As for [`ReferenceModel::judge`].
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

    /// Returns an allowed set of commits up to `cut` that explains `found`, if there is one.
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
    /// Returns whether commit `number` must have survived.
    pub(super) fn requires(&self, crash: CrashHistory, number: usize) -> bool {
        self.claim(crash, number) == SurvivalRequirement::Must
    }

    fn claim(&self, crash: CrashHistory, number: usize) -> SurvivalRequirement {
        let must = match self.statuses[number - 1] {
            CommitStatus::InDoubt => false,
            _ if number <= self.durable => true,
            // A power loss alone leaves no holes below the cut.
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

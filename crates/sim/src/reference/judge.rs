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

use super::{Contents, Durability, Reference, Status, View, Violation};
use std::collections::BTreeSet;

/// The crashes since the store was last open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Crash {
    process: bool,
    power: bool,
}

impl Crash {
    /// No crash: the store is running, or was closed and reopened.
    pub const NONE: Crash = Crash {
        process: false,
        power: false,
    };
    /// Death of the process: `kill -9`.
    pub const PROCESS: Crash = Crash {
        process: true,
        power: false,
    };
    /// Power loss of the machine.
    pub const POWER: Crash = Crash {
        process: false,
        power: true,
    };

    /// Returns this crash followed by another before the store was reopened.
    #[must_use]
    pub fn then(self, next: Crash) -> Crash {
        // A power loss leaves a prefix; a process that dies during the recovery from it has nothing
        // further to lose.
        let process = self.process || (next.process && !self.power);
        Crash {
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
pub struct Survivors {
    pub(crate) kept: Vec<bool>,
}

impl Survivors {
    /// Returns the number of surviving commits.
    #[must_use]
    pub fn count(&self) -> usize {
        self.kept.iter().filter(|&&kept| kept).count()
    }
}

/// The requirement for a commit below the cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claim {
    Must,
    May,
}

impl Reference {
    /// Judges the contents found by a scan after `crash`.
    ///
    /// # Errors
    /// A [`Violation`] that describes the broken promise, if no allowed set of commits explains the
    /// contents.
    pub fn judge(&self, crash: Crash, found: &Contents) -> Result<Survivors, Violation> {
        self.judge_at(&self.view(), crash, found)
    }

    /// Judges the contents found by a scan after a `crash` at the moment of `view`.
    ///
    /// # Errors
    /// As for [`Reference::judge`].
    pub fn judge_at(&self, view: &View, crash: Crash, found: &Contents) -> Result<Survivors, Violation> {
        let newest = view.newest();
        let lowest = if crash.power { view.durable } else { newest };
        for cut in (lowest..=newest).rev() {
            if self.prefixes[cut] == found.hash {
                let kept = (0..newest).map(|index| index < cut).collect();
                return Ok(Survivors { kept });
            }
        }
        if crash.process || !crash.power || view.statuses.contains(&Status::InDoubt) {
            for cut in (lowest..=newest).rev() {
                if let Some(kept) = self.explain(view, crash, cut, found) {
                    return Ok(Survivors { kept });
                }
            }
        }
        Err(Violation::describe(self, view, crash, found))
    }

    /// Returns an allowed set of commits up to `cut` that explains `found`, if there is one.
    fn explain(&self, view: &View, crash: Crash, cut: usize, found: &Contents) -> Option<Vec<bool>> {
        let must = |number: usize| view.claim(crash, number) == Claim::Must;
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

impl View {
    /// Returns whether commit `number` must have survived.
    pub(super) fn requires(&self, crash: Crash, number: usize) -> bool {
        self.claim(crash, number) == Claim::Must
    }

    fn claim(&self, crash: Crash, number: usize) -> Claim {
        let must = match self.statuses[number - 1] {
            Status::InDoubt => false,
            _ if number <= self.durable => true,
            // A power loss alone leaves no holes below the cut.
            Status::InFlight => !crash.process && crash.power,
            Status::Acknowledged(Durability::Memory) => !crash.process,
            Status::Acknowledged(_) => true,
        };
        if must { Claim::Must } else { Claim::May }
    }
}

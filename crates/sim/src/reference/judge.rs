//! What a crash may leave, judged exactly.
//!
//! After a *power loss* the store is a prefix of the commit order that reaches at least to the last
//! durable commit. After the death of the *process* everything acknowledged at `Process` or better
//! is there, and of the rest (in flight, or acknowledged at `Memory`) each commit is there or not,
//! on its own, whole. After the death of a process and then, before the store was open again, of
//! the machine: a prefix of what the first could leave.
//!
//! Whether *some* allowed set of commits explains what was found is decided greedily, from the
//! newest commit to the oldest: a commit whose keys all read as it wrote them (those that a newer
//! kept commit wrote aside) is kept. Keeping it only takes conditions away from older commits, so
//! the greedy choice is exact.

use super::{Contents, Durability, Reference, Status, View, Violation};
use std::collections::BTreeSet;

/// What died since the store was last open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Crash {
    process: bool,
    power: bool,
}

impl Crash {
    /// Nothing: the store is running, or was closed and opened.
    pub const NONE: Crash = Crash {
        process: false,
        power: false,
    };
    /// The process: `kill -9`.
    pub const PROCESS: Crash = Crash {
        process: true,
        power: false,
    };
    /// The machine.
    pub const POWER: Crash = Crash {
        process: false,
        power: true,
    };

    /// This, and then another before the store was open again.
    #[must_use]
    pub fn then(self, next: Crash) -> Crash {
        // A power loss leaves a prefix; a process that dies in the recovery after it has nothing of
        // its own to lose.
        let process = self.process || (next.process && !self.power);
        Crash {
            process,
            power: self.power || next.power,
        }
    }

    /// Returns whether the machine died.
    #[must_use]
    pub fn is_power_loss(self) -> bool {
        self.power
    }
}

/// Which commits explain what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivors {
    pub(crate) kept: Vec<bool>,
}

impl Survivors {
    /// Returns how many commits survived.
    #[must_use]
    pub fn count(&self) -> usize {
        self.kept.iter().filter(|&&kept| kept).count()
    }
}

/// What is required of a commit below the cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claim {
    Must,
    May,
}

impl Reference {
    /// Judges what a scan found after `crash`.
    ///
    /// # Errors
    /// A [`Violation`] that says which promise was broken, when no allowed set of commits explains
    /// it.
    pub fn judge(&self, crash: Crash, found: &Contents) -> Result<Survivors, Violation> {
        self.judge_at(&self.view(), crash, found)
    }

    /// Judges what a scan found after a `crash` that came when `view` was taken.
    ///
    /// # Errors
    /// As [`Reference::judge`].
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

    /// Returns the commits up to `cut` that explain `found`, when an allowed set of them does.
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
            // After a power loss alone there are no holes below the cut.
            Status::InFlight => !crash.process && crash.power,
            Status::Acknowledged(Durability::Memory) => !crash.process,
            Status::Acknowledged(_) => true,
        };
        if must { Claim::Must } else { Claim::May }
    }
}

//! Which work is next, and how hard writers are held back. Nothing here does anything.

/// What there is to do, and how urgent it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// Memtables that are sealed and may be written out.
    pub(crate) sealed: usize,
    /// Somebody is writing one out.
    pub(crate) incorporating: bool,
    /// Bytes of log that no checkpoint covers, and how many there may be.
    pub(crate) log_bytes: u64,
    pub(crate) log_limit: u64,
    /// The tree holds commits that the newest checkpoint does not.
    pub(crate) uncovered: bool,
    /// Somebody is making a checkpoint.
    pub(crate) checkpointing: bool,
}

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Task {
    /// A slice of writing a memtable out.
    Incorporate,
    /// A checkpoint.
    Checkpoint,
    /// A slice of a compaction.
    Compact,
}

/// A checkpoint is made when the log has filled to this part of its limit, in hundredths.
const CHECKPOINT_AT: u64 = 40;

/// Memtables that may wait to be written out, at most.
pub(crate) const MOST_SEALED: usize = 2;

/// What is to be done next, most urgent first.
pub(crate) fn next(view: &View) -> Task {
    // A checkpoint costs little and frees log, which nothing else does.
    let log_is_long = view.log_bytes * 100 >= view.log_limit * CHECKPOINT_AT;
    if view.uncovered && log_is_long && !view.checkpointing {
        return Task::Checkpoint;
    }
    if view.sealed > 0 && !view.incorporating {
        return Task::Incorporate;
    }
    Task::Compact
}

/// How far behind the background is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Debt {
    /// Memtables that are sealed and not in the tree.
    pub(crate) sealed: usize,
    /// Compactions that are due.
    pub(crate) compactions: usize,
}

/// Compactions that may be due before writers are held back, and at which they are held back most.
const EASY: usize = 24;
const HARD: usize = 96;

/// How many slices of work a writer does for each memtable's thirty-second part that he fills, in hundredths; more with every compaction that is
/// due, so that writing slows down smoothly and never stops.
pub(crate) fn share(debt: &Debt) -> u64 {
    let over = debt.compactions.saturating_sub(EASY).min(HARD - EASY);
    let compactions = (over * over * 400 / ((HARD - EASY) * (HARD - EASY))) as u64;
    let sealed = match debt.sealed {
        0 | 1 => 0,
        sealed => 50 * (sealed as u64 - 1),
    };
    compactions + sealed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_comes_first_then_memtables_then_compactions() {
        let quiet = View {
            log_limit: 100,
            ..View::default()
        };
        assert_eq!(next(&quiet), Task::Compact);
        let sealed = View { sealed: 1, ..quiet };
        assert_eq!(next(&sealed), Task::Incorporate);
        assert_eq!(
            next(&View {
                incorporating: true,
                ..sealed
            }),
            Task::Compact
        );
        let long = View {
            log_bytes: 40,
            uncovered: true,
            ..sealed
        };
        assert_eq!(next(&long), Task::Checkpoint);
        assert_eq!(
            next(&View {
                checkpointing: true,
                ..long
            }),
            Task::Incorporate
        );
        assert_eq!(
            next(&View {
                uncovered: false,
                ..long
            }),
            Task::Incorporate,
            "a checkpoint would free nothing"
        );
    }

    #[test]
    fn writers_are_held_back_smoothly() {
        let at = |compactions| {
            share(&Debt {
                sealed: 1,
                compactions,
            })
        };
        assert_eq!((at(0), at(EASY)), (0, 0));
        let shares: Vec<u64> = (0..=HARD + 10).map(at).collect();
        assert!(shares.is_sorted() && shares.windows(2).all(|pair| pair[1] - pair[0] <= 20));
        assert_eq!((at(HARD), at(usize::MAX)), (400, 400));
        let sealed = |sealed| {
            share(&Debt {
                sealed,
                compactions: 0,
            })
        };
        assert_eq!((sealed(1), sealed(2), sealed(3)), (0, 50, 100));
    }
}

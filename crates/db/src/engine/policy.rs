//! Which work is next, and how hard writers are held back. Nothing here does anything.

use alluvium_base::MIB;

/// What there is to do, and how urgent it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// Memtables that are sealed and may be written out.
    pub(crate) sealed: usize,
    /// Whether a worker is writing one out.
    pub(crate) incorporating: bool,
    /// Bytes of log that no checkpoint covers, and how many there may be.
    pub(crate) log_bytes: u64,
    pub(crate) log_limit: u64,
    /// The tree holds commits that the newest checkpoint does not.
    pub(crate) uncovered: bool,
    /// Whether one is asked for, so that the log takes less memory.
    pub(crate) wanted: bool,
    /// Whether a checkpoint is being made.
    pub(crate) checkpointing: bool,
    /// Bytes of the disk that are in use, and those that only wait for the next checkpoint to come
    /// free.
    pub(crate) live_bytes: u64,
    pub(crate) dying_bytes: u64,
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

/// What one thread of the background does. Each has its own, so that what is urgent waits neither
/// for a device nor for what is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Has log and memory ready for what is written next.
    Prepare,
    /// Writes memtables out.
    Incorporate,
    /// Makes checkpoints, and gives space back: it waits for the device most of the time.
    Checkpoint,
    /// Compacts.
    Compact,
}

/// A checkpoint is made when the log has filled to this part of its limit, in hundredths.
const CHECKPOINT_AT: u64 = 40;

/// It is also made when this part of the space in use, and at least [`LEAST_DYING`] bytes, wait for
/// nothing else.
const DYING_PART: u64 = 16;
const LEAST_DYING: u64 = 4 * MIB;

/// Parts that a memtable is thought of as having, by who measures how far it has filled.
pub(crate) const PARTS: u64 = 32;

/// Memtables that may wait to be written out, at most.
pub(crate) const MOST_SEALED: usize = 2;

/// Returns whether a checkpoint is due. It costs little, and nothing else frees log, or space that
/// compactions have left.
pub(crate) fn checkpoint_is_due(view: &View) -> bool {
    let log_is_long = view.log_bytes * 100 >= view.log_limit * CHECKPOINT_AT;
    let frees_space = view.dying_bytes > LEAST_DYING.max(view.live_bytes / DYING_PART);
    (view.uncovered && (log_is_long || view.wanted) || frees_space) && !view.checkpointing
}

/// Returns what is to be done next, most urgent first, by who does everything.
pub(crate) fn next(view: &View) -> Task {
    if checkpoint_is_due(view) {
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
    /// Parts of memtables that are not written out, the newest's included.
    pub(crate) parts: u64,
    /// Compactions that are due.
    pub(crate) compactions: usize,
    /// How many runs a lookup may meet, in hundredths of what there should be at most. Compactions
    /// that are due do not show it: while one waits, its pivot may get any number of runs.
    pub(crate) crowding: u64,
}

/// Compactions that may be due before writers help, where there is no background, and at which they
/// help most.
const EASY: usize = 24;
const HARD: usize = 96;

/// Crowding from which on writers are held back, and at which they are held back most.
const EASY_CROWDING: u64 = 100;
const HARD_CROWDING: u64 = 200;

/// Crowding up to which the delay grows beyond the one of [`HARD_CROWDING`], and by how much of
/// that, in parts of [`WHOLE`]: up to five times.
const HARDEST_CROWDING: u64 = 300;
const MORE_FOR_EACH: u64 = 4 * WHOLE / (HARDEST_CROWDING - HARD_CROWDING);

/// Crowding from which on compactions do not stand back, so that writers need not be held back.
const PRESSING_CROWDING: u64 = 75;
const _: () = assert!(PRESSING_CROWDING < EASY_CROWDING);

/// Returns whether compactions are so far behind that they go on at once: beside a memtable that is
/// written out, though that may want the same processor.
pub(crate) fn presses(debt: &Debt) -> bool {
    debt.crowding >= PRESSING_CROWDING
}

/// Returns whether caps on the background must yield, so that no writer is held back.
pub(crate) fn hurries(debt: &Debt) -> bool {
    debt.sealed >= MOST_SEALED || presses(debt)
}

/// Returns how many slices of work a writer does for each part of a memtable that it fills, in
/// hundredths, where there is no background. More with every compaction that is due, so that
/// writing slows down smoothly and never stops. How many runs lie in the way of a lookup does not
/// count here.
pub(crate) fn share(debt: &Debt) -> u64 {
    let compactions = compactions(debt) * 400 / WHOLE;
    let sealed = match debt.sealed {
        0 | 1 => 0,
        sealed => 50 * (sealed as u64 - 1),
    };
    compactions + sealed
}

/// The longest delays of a writer for each part of a memtable that it fills, in microseconds: for
/// runs that compactions have left in the way of lookups, and for memtables that wait. A part takes
/// about a millisecond to fill, so that at the end nine tenths of the speed are gone.
///
/// How many compactions are due is no reason: keys that are overwritten evenly fill all leaves at
/// once, so that they come in waves, of as many as there are leaves. They may take until the next
/// wave, and what runs they leave meanwhile shows whether they do.
const MOST_DELAY_US: u64 = 8000;

/// From [`EASY_PARTS`] parts of memtables on that are not written out, writers are held back, and
/// most at [`HARD_PARTS`], before the memtables are full. A writer that finds them full waits until
/// the oldest memtable has gone, a tenth of a second where the processors are busy.
const EASY_PARTS: u64 = 5 * PARTS / 4;
const HARD_PARTS: u64 = 9 * PARTS / 4;
const _: () = assert!(HARD_PARTS < (MOST_SEALED as u64 + 1) * PARTS);

/// A shorter delay is not worth a call of the system: it comes to one with the next parts.
pub(crate) const LEAST_DELAY_US: u64 = 200;

/// What writers are held back for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub(crate) enum Cause {
    /// Runs that lie in the way of lookups.
    Runs,
    /// Memtables that are not written out.
    Memtables,
}

pub(crate) const CAUSES: usize = Cause::Memtables as usize + 1;

/// Returns how long a writer rests for each part of a memtable that it fills, in microseconds, and
/// the main cause. The delay begins long before the memtables are full and grows smoothly with what
/// is not written out, part by part, so that no writer comes to a stop.
pub(crate) fn delay(debt: &Debt) -> (u64, Cause) {
    let over = debt.parts.clamp(EASY_PARTS, HARD_PARTS) - EASY_PARTS;
    let crowding = debt.crowding.clamp(EASY_CROWDING, HARD_CROWDING) - EASY_CROWDING;
    let runs = (square(crowding, HARD_CROWDING - EASY_CROWDING), Cause::Runs);
    let memtables = (square(over, HARD_PARTS - EASY_PARTS), Cause::Memtables);
    let (share, cause) = runs.max(memtables);
    // A backlog may still grow then. Writers are held back more, until it does not.
    let beyond = debt.crowding.clamp(HARD_CROWDING, HARDEST_CROWDING) - HARD_CROWDING;
    let share = share + beyond * MORE_FOR_EACH;
    (share * MOST_DELAY_US / WHOLE, cause)
}

const WHOLE: u64 = 10_000;

/// Returns how far compactions are between easy and hard, squared.
fn compactions(debt: &Debt) -> u64 {
    let over = debt.compactions.clamp(EASY, HARD) - EASY;
    square(over as u64, (HARD - EASY) as u64)
}

/// Returns the square of a share.
fn square(part: u64, whole: u64) -> u64 {
    part * part * WHOLE / (whole * whole)
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
        for uncovered in [true, false] {
            let wanted = View {
                wanted: true,
                uncovered,
                ..quiet
            };
            assert_eq!(checkpoint_is_due(&wanted), uncovered);
        }
    }

    #[test]
    fn space_that_waits_for_a_checkpoint_is_not_kept_waiting() {
        let due = |live_bytes, dying_bytes| {
            checkpoint_is_due(&View {
                live_bytes,
                dying_bytes,
                log_limit: 100,
                ..View::default()
            })
        };
        assert!(!due(0, LEAST_DYING) && due(0, LEAST_DYING + 1));
        let live = 1 << 40;
        assert!(!due(live, live / DYING_PART) && due(live, live / DYING_PART + 1));
    }

    #[test]
    fn writers_are_held_back_smoothly() {
        let at = |compactions| {
            share(&Debt {
                sealed: 1,
                compactions,
                ..Debt::default()
            })
        };
        assert_eq!((at(0), at(EASY)), (0, 0));
        let shares: Vec<u64> = (0..=HARD + 10).map(at).collect();
        assert!(shares.is_sorted() && shares.windows(2).all(|pair| pair[1] - pair[0] <= 20));
        assert_eq!((at(HARD), at(usize::MAX)), (400, 400));
        let sealed = |sealed| {
            share(&Debt {
                sealed,
                ..Debt::default()
            })
        };
        assert_eq!((sealed(1), sealed(2), sealed(3)), (0, 50, 100));
    }

    #[test]
    fn delays_grow_smoothly_from_nothing() {
        let parts = |parts| Debt {
            parts,
            ..Debt::default()
        };
        let delay_us = |debt: &Debt| delay(debt).0;
        let by_parts: Vec<u64> = (EASY_PARTS..=HARD_PARTS)
            .map(|full| delay_us(&parts(full)))
            .collect();
        let crowding = |crowding| Debt {
            crowding,
            ..Debt::default()
        };
        let by_crowding: Vec<u64> = (EASY_CROWDING..=HARD_CROWDING)
            .map(|runs| delay_us(&crowding(runs)))
            .collect();
        for delays in [by_parts, by_crowding] {
            assert_eq!((delays[0], delays[delays.len() - 1]), (0, MOST_DELAY_US));
            assert!(
                delays.is_sorted()
                    && delays
                        .windows(2)
                        .all(|pair| pair[1] - pair[0] <= MOST_DELAY_US / 4)
            );
        }
        for (most, cause) in [
            (parts(HARD_PARTS + 1), Cause::Memtables),
            (crowding(HARD_CROWDING), Cause::Runs),
        ] {
            assert_eq!(delay(&most), (MOST_DELAY_US, cause));
        }
        let beyond: Vec<u64> = (HARD_CROWDING..=HARDEST_CROWDING)
            .map(|runs| delay_us(&crowding(runs)))
            .collect();
        assert!(beyond.is_sorted());
        assert_eq!(delay(&crowding(u64::MAX)), (5 * MOST_DELAY_US, Cause::Runs));
    }

    #[test]
    fn compactions_stand_back_until_runs_pile_up() {
        let crowding = |crowding| Debt {
            crowding,
            ..Debt::default()
        };
        assert!(!presses(&crowding(PRESSING_CROWDING - 1)));
        assert!(presses(&crowding(PRESSING_CROWDING)));
        let wave = Debt {
            sealed: MOST_SEALED,
            compactions: 10 * HARD,
            ..Debt::default()
        };
        assert!(!presses(&wave));
        assert_eq!(delay(&wave).0, 0, "a wave may take until the next");
    }

    #[test]
    fn caps_yield_as_soon_as_writers_would_be_held_back() {
        let quiet = Debt::default();
        assert!(!hurries(&quiet));
        for debt in [
            Debt {
                sealed: MOST_SEALED,
                ..quiet
            },
            Debt {
                crowding: PRESSING_CROWDING,
                ..quiet
            },
        ] {
            assert!(hurries(&debt), "{debt:?}");
        }
    }
}

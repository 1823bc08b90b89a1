//! Priorities of background work, and how strongly writers are throttled. All functions are pure.

use alluvium_base::MIB;

/// The store's state, from which priorities are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SchedulingInput {
    /// Number of sealed memtables that can be flushed.
    pub(crate) sealed: usize,
    /// Whether a worker is flushing a memtable.
    pub(crate) incorporating: bool,
    /// Log bytes newer than the last checkpoint, and the limit of the log.
    pub(crate) log_bytes: u64,
    pub(crate) log_limit: u64,
    /// Whether the tree contains commits that are newer than the last checkpoint.
    pub(crate) uncovered: bool,
    /// Whether a checkpoint was requested because the log uses too much memory.
    pub(crate) wanted: bool,
    /// Whether a checkpoint is in progress.
    pub(crate) checkpointing: bool,
    /// Bytes in use on disk, and bytes that the next checkpoint will free.
    pub(crate) live_bytes: u64,
    pub(crate) dying_bytes: u64,
}

/// A task for a background thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BackgroundTask {
    /// Flush a slice of a sealed memtable.
    Incorporate,
    Checkpoint,
    /// Run a slice of a compaction.
    Compact,
}

/// The kind of work that a background thread does. Each kind has its own thread, so that urgent
/// work waits neither for a device nor for work of lower priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerDuty {
    /// Prepare log space and memory for the next writes.
    Prepare,
    /// Flush sealed memtables into the dictionaries.
    Incorporate,
    /// Make checkpoints and reclaim freed space. This thread mostly waits for the device.
    Checkpoint,
    Compact,
}

/// Fill level of the log at which a checkpoint is due, in percent of the log's limit.
/// Tuning: `40` since 2026-11-22.
const CHECKPOINT_AT: u64 = 40;

/// A checkpoint is also due if it would free more than 1/[`DYING_PART`] of the space in use and
/// more than [`LEAST_DYING`] bytes.
/// Tuning: `16` since 2026-11-22.
const DYING_PART: u64 = 16;
/// Minimum number of bytes that a checkpoint must free to be due because of freed space.
/// Tuning: `4 * MIB` since 2026-11-22.
const LEAST_DYING: u64 = 4 * MIB;

/// Number of parts of a memtable, in which its fill level is expressed.
/// Tuning: `32` since 2026-11-22.
pub(crate) const PARTS: u64 = 32;

/// Maximum number of sealed memtables that may wait to be flushed.
/// Tuning: `2` since 2026-11-22.
pub(crate) const MOST_SEALED: usize = 2;

/// Returns whether a checkpoint is due. Checkpoints are cheap, and nothing else frees log space or
/// the space of data that compactions have replaced.
pub(crate) fn checkpoint_is_due(view: &SchedulingInput) -> bool {
    let log_is_long = view.log_bytes * 100 >= view.log_limit * CHECKPOINT_AT;
    let frees_space = view.dying_bytes > LEAST_DYING.max(view.live_bytes / DYING_PART);
    (view.uncovered && (log_is_long || view.wanted) || frees_space) && !view.checkpointing
}

/// Returns the most urgent task for a thread that does all kinds of background work.
pub(crate) fn next(view: &SchedulingInput) -> BackgroundTask {
    if checkpoint_is_due(view) {
        return BackgroundTask::Checkpoint;
    }
    if view.sealed > 0 && !view.incorporating {
        return BackgroundTask::Incorporate;
    }
    BackgroundTask::Compact
}

/// The amount of pending background work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkBacklog {
    /// Number of sealed memtables that have not been flushed to the tree.
    pub(crate) sealed: usize,
    /// Number of memtable parts that have not been flushed, including those of the newest memtable.
    pub(crate) parts: u64,
    pub(crate) compactions: usize,
    /// Read amplification in percent of its limit. It cannot be derived from the number of due
    /// compactions, because a pivot may receive any number of runs while its compaction waits.
    pub(crate) crowding: u64,
}

/// For a store without background threads: the number of due compactions at which writers start to
/// help with compactions.
/// Tuning: `24` since 2026-11-22.
const EASY: usize = 24;
/// For a store without background threads: the number of due compactions at which writers help the
/// most.
/// Tuning: `96` since 2026-11-22.
const HARD: usize = 96;

/// Read amplification, in percent of its limit, at which writers start to be throttled.
/// Tuning: `100` since 2026-11-22.
const EASY_CROWDING: u64 = 100;
/// Read amplification, in percent of its limit, up to which the writers' delay grows quadratically.
/// Tuning: `200` since 2026-11-22.
const HARD_CROWDING: u64 = 200;

/// Read amplification, in percent of its limit, at which the writers' delay reaches its maximum.
/// Between [`HARD_CROWDING`] and this value, the delay grows linearly, up to five times the delay
/// at [`HARD_CROWDING`].
/// Tuning: `300` since 2026-11-26.
const HARDEST_CROWDING: u64 = 300;
/// How much the delay grows for each percent of read amplification above [`HARD_CROWDING`], in
/// units of 1/[`WHOLE`].
/// Tuning: `4 * WHOLE / (HARDEST_CROWDING - HARD_CROWDING)` since 2026-11-26.
const MORE_FOR_EACH: u64 = 4 * WHOLE / (HARDEST_CROWDING - HARD_CROWDING);

/// Read amplification, in percent of its limit, at and above which compactions run even during a
/// flush. It is below [`EASY_CROWDING`], so that compactions can catch up before writers are
/// throttled.
/// Tuning: `75` since 2026-11-22.
const PRESSING_CROWDING: u64 = 75;
const _: () = assert!(PRESSING_CROWDING < EASY_CROWDING);

/// Returns whether compactions are so far behind that they must run concurrently with a flush, even
/// if both compete for the same processor.
pub(crate) fn is_compaction_urgent(debt: &WorkBacklog) -> bool {
    debt.crowding >= PRESSING_CROWDING
}

/// Returns whether the configured limits of background work must be lifted to avoid throttling
/// writers.
pub(crate) fn must_lift_limits(debt: &WorkBacklog) -> bool {
    debt.sealed >= MOST_SEALED || is_compaction_urgent(debt)
}

/// For a store without background threads: returns how much background work a writer must do for
/// each memtable part that it fills, in hundredths of a slice. The amount grows with the number of
/// due compactions, so that writes slow down gradually and never stop. It does not depend on read
/// amplification.
pub(crate) fn share(debt: &WorkBacklog) -> u64 {
    let compactions = compactions(debt) * 400 / WHOLE;
    let sealed = match debt.sealed {
        0 | 1 => 0,
        sealed => 50 * (sealed as u64 - 1),
    };
    compactions + sealed
}

/// Maximum delay, in microseconds, of a writer for each memtable part that it fills, at the end of
/// the quadratic growth. The maximum is the same whether read amplification or unflushed memtables
/// cause the throttling. Without a delay, filling a part takes about a millisecond, so this delay
/// leaves writers about a tenth of their speed.
///
/// The number of due compactions causes no delay. Evenly distributed overwrites fill all leaves at
/// about the same time, so that compactions come in waves, one compaction per leaf. Finishing a
/// wave before the next one starts is enough. If compactions do not keep up, the read amplification
/// grows.
/// Tuning: `8000` since 2026-11-22; 99.9 % of puts 37 ms before, 4 ms after.
const MOST_DELAY_US: u64 = 8000;

/// Number of unflushed memtable parts at which writers start to be throttled. Throttling starts
/// before the memtables are full, because a writer that finds them full has to wait until the
/// oldest one is flushed, which takes a tenth of a second on busy processors.
/// Tuning: `5 * PARTS / 4` since 2026-11-22.
const EASY_PARTS: u64 = 5 * PARTS / 4;
/// Number of unflushed memtable parts at which throttling by memtables reaches its maximum.
/// Tuning: `9 * PARTS / 4` since 2026-11-22.
const HARD_PARTS: u64 = 9 * PARTS / 4;
const _: () = assert!(HARD_PARTS < (MOST_SEALED as u64 + 1) * PARTS);

/// Minimum delay of a writer, in microseconds. Shorter delays are not worth a system call, so they
/// accumulate until their sum reaches this value.
/// Tuning: `200` since 2026-11-22.
pub(crate) const LEAST_DELAY_US: u64 = 200;

/// The reason why writers are throttled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub(crate) enum ThrottleCause {
    /// Read amplification is too high: a lookup searches too many runs.
    Runs,
    /// Too many memtables have not been flushed.
    Memtables,
}

/// Number of causes of throttling.
/// Not a tuning parameter.
pub(crate) const CAUSES: usize = ThrottleCause::Memtables as usize + 1;

/// Returns how long a writer is delayed for each memtable part that it fills, in microseconds, and
/// the main cause of the delay. The delay starts long before the memtables are full. It grows
/// gradually with each unflushed part, so that no writer ever stops entirely.
pub(crate) fn delay(debt: &WorkBacklog) -> (u64, ThrottleCause) {
    let over = debt.parts.clamp(EASY_PARTS, HARD_PARTS) - EASY_PARTS;
    let crowding = debt.crowding.clamp(EASY_CROWDING, HARD_CROWDING) - EASY_CROWDING;
    let runs = (
        square(crowding, HARD_CROWDING - EASY_CROWDING),
        ThrottleCause::Runs,
    );
    let memtables = (square(over, HARD_PARTS - EASY_PARTS), ThrottleCause::Memtables);
    let (share, cause) = runs.max(memtables);
    // Even at this delay, the compaction backlog may keep growing. Increase the delay along with
    // the backlog until the backlog stops growing.
    let beyond = debt.crowding.clamp(HARD_CROWDING, HARDEST_CROWDING) - HARD_CROWDING;
    let share = share + beyond * MORE_FOR_EACH;
    (share * MOST_DELAY_US / WHOLE, cause)
}

/// The number one, in units of 1/10,000. Not a tuning parameter.
const WHOLE: u64 = 10_000;

/// Returns how far the number of due compactions has moved from [`EASY`] to [`HARD`], as a fraction
/// squared, in units of 1/[`WHOLE`].
fn compactions(debt: &WorkBacklog) -> u64 {
    let over = debt.compactions.clamp(EASY, HARD) - EASY;
    square(over as u64, (HARD - EASY) as u64)
}

/// Returns the square of the fraction `part / whole`, in units of 1/[`WHOLE`].
fn square(part: u64, whole: u64) -> u64 {
    part * part * WHOLE / (whole * whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_comes_first_then_memtables_then_compactions() {
        let quiet = SchedulingInput {
            log_limit: 100,
            ..SchedulingInput::default()
        };
        assert_eq!(next(&quiet), BackgroundTask::Compact);
        let sealed = SchedulingInput { sealed: 1, ..quiet };
        assert_eq!(next(&sealed), BackgroundTask::Incorporate);
        assert_eq!(
            next(&SchedulingInput {
                incorporating: true,
                ..sealed
            }),
            BackgroundTask::Compact
        );
        let long = SchedulingInput {
            log_bytes: 40,
            uncovered: true,
            ..sealed
        };
        assert_eq!(next(&long), BackgroundTask::Checkpoint);
        assert_eq!(
            next(&SchedulingInput {
                checkpointing: true,
                ..long
            }),
            BackgroundTask::Incorporate
        );
        assert_eq!(
            next(&SchedulingInput {
                uncovered: false,
                ..long
            }),
            BackgroundTask::Incorporate,
            "a checkpoint would free nothing"
        );
        for uncovered in [true, false] {
            let wanted = SchedulingInput {
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
            checkpoint_is_due(&SchedulingInput {
                live_bytes,
                dying_bytes,
                log_limit: 100,
                ..SchedulingInput::default()
            })
        };
        assert!(!due(0, LEAST_DYING) && due(0, LEAST_DYING + 1));
        let live = 1 << 40;
        assert!(!due(live, live / DYING_PART) && due(live, live / DYING_PART + 1));
    }

    #[test]
    fn writers_are_held_back_smoothly() {
        let at = |compactions| {
            share(&WorkBacklog {
                sealed: 1,
                compactions,
                ..WorkBacklog::default()
            })
        };
        assert_eq!((at(0), at(EASY)), (0, 0));
        let shares: Vec<u64> = (0..=HARD + 10).map(at).collect();
        assert!(shares.is_sorted() && shares.windows(2).all(|pair| pair[1] - pair[0] <= 20));
        assert_eq!((at(HARD), at(usize::MAX)), (400, 400));
        let sealed = |sealed| {
            share(&WorkBacklog {
                sealed,
                ..WorkBacklog::default()
            })
        };
        assert_eq!((sealed(1), sealed(2), sealed(3)), (0, 50, 100));
    }

    #[test]
    fn delays_grow_smoothly_from_nothing() {
        let parts = |parts| WorkBacklog {
            parts,
            ..WorkBacklog::default()
        };
        let delay_us = |debt: &WorkBacklog| delay(debt).0;
        let by_parts: Vec<u64> = (EASY_PARTS..=HARD_PARTS)
            .map(|full| delay_us(&parts(full)))
            .collect();
        let crowding = |crowding| WorkBacklog {
            crowding,
            ..WorkBacklog::default()
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
            (parts(HARD_PARTS + 1), ThrottleCause::Memtables),
            (crowding(HARD_CROWDING), ThrottleCause::Runs),
        ] {
            assert_eq!(delay(&most), (MOST_DELAY_US, cause));
        }
        let beyond: Vec<u64> = (HARD_CROWDING..=HARDEST_CROWDING)
            .map(|runs| delay_us(&crowding(runs)))
            .collect();
        assert!(beyond.is_sorted());
        assert_eq!(
            delay(&crowding(u64::MAX)),
            (5 * MOST_DELAY_US, ThrottleCause::Runs)
        );
    }

    #[test]
    fn compactions_stand_back_until_runs_pile_up() {
        let crowding = |crowding| WorkBacklog {
            crowding,
            ..WorkBacklog::default()
        };
        assert!(!is_compaction_urgent(&crowding(PRESSING_CROWDING - 1)));
        assert!(is_compaction_urgent(&crowding(PRESSING_CROWDING)));
        let wave = WorkBacklog {
            sealed: MOST_SEALED,
            compactions: 10 * HARD,
            ..WorkBacklog::default()
        };
        assert!(!is_compaction_urgent(&wave));
        assert_eq!(delay(&wave).0, 0, "a wave may take until the next");
    }

    #[test]
    fn caps_yield_as_soon_as_writers_would_be_held_back() {
        let quiet = WorkBacklog::default();
        assert!(!must_lift_limits(&quiet));
        for debt in [
            WorkBacklog {
                sealed: MOST_SEALED,
                ..quiet
            },
            WorkBacklog {
                crowding: PRESSING_CROWDING,
                ..quiet
            },
        ] {
            assert!(must_lift_limits(&debt), "{debt:?}");
        }
    }
}

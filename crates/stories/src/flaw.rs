//! Mistakes of a structure's caller. The simulator must find each of them.

/// A mistake of a structure's caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerFlaw {
    /// The caller makes no mistake.
    Right,
    /// Space that maintenance freed is reused before the generation without it is durable.
    ReusesEarly,
    /// The log is released before the generation that contains its records is durable.
    ReleasesTheLogFirst,
    /// A memtable's cut is one too high.
    CutsTooHigh,
    /// A memtable's cut is one too low: after a replay, a merge counts twice.
    CutsTooLow,
    /// A sealed memtable is dropped before its flush has ended, when the next one is sealed.
    DropsTheMemtable,
    /// Deletes are not replayed.
    ForgetsDeletes,
    /// Range deletes are not replayed.
    ForgetsRangeDeletes,
    /// The first record after the cut is not replayed.
    ReplaysOneLess,
    /// No checkpoint follows an ingest, although the log does not have its records.
    LeavesIngestsToTheLog,
    /// Commits at `Disk` are acknowledged when they have reached `Process`.
    AcknowledgesEarly,
}

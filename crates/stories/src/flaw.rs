//! Deliberate mistakes in the code that calls a structure. The simulator must find each of them.

/// A deliberate mistake in the code that calls a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerFlaw {
    /// The caller makes no mistake.
    Right,
    /// Space that maintenance has freed is reused too early, before a generation that no longer
    /// refers to it is durable.
    ReusesEarly,
    /// A part of the log is released before the generation that contains its records is durable.
    ReleasesTheLogFirst,
    /// The cut that is passed with a flushed memtable is too high by one.
    CutsTooHigh,
    /// The cut that is passed with a flushed memtable is too low by one, so a replay of the log
    /// applies a merge twice.
    CutsTooLow,
    /// When a memtable is sealed, the previously sealed one is dropped even if its flush has not
    /// ended.
    DropsTheMemtable,
    /// The replay of the log skips deletes of single keys.
    ForgetsDeletes,
    /// The replay of the log skips range deletes.
    ForgetsRangeDeletes,
    /// The replay of the log skips the first record after the cut.
    ReplaysOneLess,
    /// No checkpoint follows an ingest, although the log does not contain its records.
    LeavesIngestsToTheLog,
    /// Commits with durability `Disk` are acknowledged once they have reached durability `Process`.
    AcknowledgesEarly,
}

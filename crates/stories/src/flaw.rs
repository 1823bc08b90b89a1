//! Mistakes of a structure's caller, each of which the simulator must find.

/// A mistake that a caller of a structure could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// There is none.
    Right,
    /// Space that maintenance gave up is used again before the generation without it is durable.
    ReusesEarly,
    /// The log is released before the generation that holds its records is durable.
    ReleasesTheLogFirst,
    /// A memtable is said to hold one commit more than it does.
    CutsTooHigh,
    /// A memtable is said to hold one write less than it does: replayed, a merge counts twice.
    CutsTooLow,
    /// A sealed memtable is let go before its incorporation has ended, once another is sealed.
    DropsTheMemtable,
    /// Deletes are not replayed.
    ForgetsDeletes,
    /// Range deletes are not replayed.
    ForgetsRangeDeletes,
    /// The first record after the cut is not replayed.
    ReplaysOneLess,
    /// No checkpoint follows an ingest, though no log has its records.
    LeavesIngestsToTheLog,
    /// `Disk` is answered at `Process`.
    AcknowledgesEarly,
}

//! Incorrect uses of the store, each of which the simulator must detect.

/// A mistake that a caller of the store could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// No mistake.
    Right,
    /// `made_durable` is called for a generation that is not durable.
    ReusesEarly,
    /// The log is released before the generation is durable and named in the log.
    ReleasesTheLogFirst,
    /// The superblock names nodes whose extents were never installed.
    ForgetsToInstall,
    /// Replaced nodes are never released.
    ForgetsToRelease,
    /// Replaced nodes are released as if no reader could still see them.
    ReleasesAtAnOldEpoch,
    /// The cut is above a key that is not in the tree.
    CutsTooHigh,
    /// The cut is one too low, which is harmless, because replaying a commit is idempotent.
    CutsTooLow,
    /// The first record after the cut is not replayed.
    ReplaysOneLess,
    /// A batch is written as one record per write.
    SplitsBatches,
    /// Deletes are left out of checkpoints.
    ForgetsDeletes,
    /// A `Disk` commit is acknowledged at `Process`.
    AcknowledgesEarly,
}

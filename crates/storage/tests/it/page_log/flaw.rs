//! Wrong uses of the store, each of which the simulator must find.

/// A mistake that a caller of the store could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// None.
    Right,
    /// `made_durable` is called for a generation that is not.
    ReusesEarly,
    /// The log is released before the generation is durable and noted.
    ReleasesTheLogFirst,
    /// The superblock names nodes whose extents were never installed.
    ForgetsToInstall,
    /// Replaced nodes are never released.
    ForgetsToRelease,
    /// Replaced nodes are released as if no reader could still see them.
    ReleasesAtAnOldEpoch,
    /// A key of the cut is not in the tree.
    CutsTooHigh,
    /// The cut is one too low: harmless, since replaying a commit twice changes nothing.
    CutsTooLow,
    /// The first record after the cut is not replayed.
    ReplaysOneLess,
    /// A batch is a record for each of its writes.
    SplitsBatches,
    /// Deletes are left out of checkpoints.
    ForgetsDeletes,
    /// `Disk` is answered at `Process`.
    AcknowledgesEarly,
}

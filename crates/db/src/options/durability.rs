//! The durability guarantees that a program can choose for its commits.

/// What must hold before a commit is acknowledged to the program.
///
/// | word | acknowledged once | survives |
/// |---|---|---|
/// | `Memory` | it is visible | nothing in particular |
/// | `Process` | the log has it in the page cache | the death of the process; the loss of power costs at most the last [`Options::sync_interval`](crate::Options::sync_interval) |
/// | `Disk` | the log is synced | the loss of power |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Durability {
    /// The commit is visible to readers. It has also been written to the log, so on Linux it is in
    /// fact as safe as with `Process`, but this is not guaranteed.
    Memory,
    /// The commit survives a crash of the process.
    #[default]
    Process,
    /// The commit survives a loss of power.
    Disk,
}

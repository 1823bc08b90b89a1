//! When a commit is acknowledged.

/// The guarantee that must hold before a commit is acknowledged.
///
/// | word | acknowledged once | survives |
/// |---|---|---|
/// | `Memory` | it is visible | nothing in particular |
/// | `Process` | the log has it in the page cache | the death of the process; the loss of power costs at most the last [`Options::sync_interval`](crate::Options::sync_interval) |
/// | `Disk` | the log is synced | the loss of power |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Durability {
    /// The commit is visible. It is also written to the log and on Linux as safe as `Process`, but
    /// without a guarantee.
    Memory,
    /// The commit survives the death of the process.
    #[default]
    Process,
    /// The commit survives a loss of power.
    Disk,
}

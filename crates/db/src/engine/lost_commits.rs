//! Commits that were missing at the end of the log when the store was opened.

use alluvium_storage::log::LostTail;
use std::fmt;

/// Describes commits that had been written to the log but were missing when the store was opened.
///
/// After a power failure, it is normal to lose commits that were not durable, at most those of
/// about the last second. Otherwise, missing commits indicate damage: for example, the store was
/// copied after its process had crashed, or a log file was removed.
/// [`Db::lost_commits`](crate::Db::lost_commits) returns this description.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostCommits {
    /// Sequence number of the last commit that the store contains.
    pub last: u64,
    /// Highest sequence number known to have been written. `None` if a log file is missing, because
    /// its contents are then unknown.
    pub written: Option<u64>,
    /// Most likely position of the first missing commit, and what was found there.
    pub place: String,
}

impl LostCommits {
    pub(crate) fn new(lost: &LostTail) -> LostCommits {
        LostCommits {
            last: lost.last,
            written: lost.written,
            place: format!("{}: {}", lost.place, lost.found),
        }
    }
}

impl fmt::Display for LostCommits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (last, place) = (self.last, &self.place);
        match self.written {
            Some(written) => write!(
                f,
                "the log ends at commit {last}, but commits up to {written} were written to it"
            )?,
            None => write!(
                f,
                "the log ends at commit {last}, but a log segment that may have held more commits is missing"
            )?,
        }
        write!(
            f,
            " ({place}). After a power failure this is normal: the missing commits were not durable yet. In any other case it is damage: restore a backup if you need them"
        )
    }
}

//! What an opening missed at the end of the log.

use alluvium_storage::log::LostTail;
use std::fmt;

/// Commits that were written to the log and were gone when the store was opened.
///
/// After a loss of power that is as it should be for what was not durable yet, at most the last
/// second. After anything else it is damage: of a store that was copied after its process had
/// died, for example, or of a file of the log that was removed.
/// [`Db::lost_commits`](crate::Db::lost_commits) returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostCommits {
    /// The last commit that the store holds.
    pub last: u64,
    /// The highest commit that is known to have been written; none if a file of the log is gone and
    /// what it held is not known.
    pub written: Option<u64>,
    /// Where the first of them most likely stood, and what was found there.
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
                "the log ends at commit {last}, but a segment of it is gone that may have held more"
            )?,
        }
        write!(
            f,
            " ({place}). After a loss of power this is normal: they were not durable yet. After anything else it is damage: restore a backup if they are missed"
        )
    }
}
